"""The three decoders on scripted models: counts, edges and refusals."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.scripted import MASK, STOPS, HashScript, ScriptedSlots, assert_conserved, greedy_ids, make_request

import gravityocr.decoding
from gravityocr.decoding import (
    Decoded,
    Request,
    Slots,
    decode_autoregressive,
    decode_diffusion,
    decode_speculative,
)
from gravityocr.decoding.diffusion import block_window, fix_tokens
from gravityocr.decoding.sampling import greedy, greedy_with_confidence
from gravityocr.errors import CapacityError, ConfigError

Decoder = Callable[[Slots, Request], list[Decoded]]
DECODERS: list[Decoder] = [decode_autoregressive, decode_speculative, decode_diffusion]
PACKAGE = Path(gravityocr.decoding.__file__).parent


@pytest.mark.parametrize("decode", DECODERS)
def test_no_forward_when_the_prefill_ends_the_sequence(decode: Decoder) -> None:
    scripts = [HashScript(1, stop_at=0), HashScript(2)]
    slots = ScriptedSlots(scripts)
    stopped, limited = decode(slots, make_request(scripts, [9, 1], block_size=4))
    assert slots.n_steps == 0
    assert_conserved(slots, [[], []])
    assert (len(stopped.ids), stopped.finish) == (1, "stop") and stopped.ids[0] in STOPS
    assert (len(limited.ids), limited.finish) == (1, "length")
    assert math.isnan(stopped.tpf) and stopped.n_forwards == limited.n_forwards == 0


@pytest.mark.parametrize("decode", DECODERS)
def test_an_empty_batch_gives_an_empty_list(decode: Decoder) -> None:
    assert decode(ScriptedSlots([]), make_request([], [], block_size=4)) == []


@pytest.mark.parametrize("decode", DECODERS)
def test_capacity_is_checked_before_the_first_forward(decode: Decoder) -> None:
    scripts = [HashScript(1, n_prefix=2), HashScript(2, n_prefix=5)]
    request = make_request(scripts, [20, 20], block_size=4)
    exact = 5 + 20 + 4 + 2
    small, enough = ScriptedSlots(scripts, exact - 1), ScriptedSlots(scripts, exact)
    with pytest.raises(CapacityError, match=r"sequence 1 needs 31 slots .* holds 30: lower max_tokens"):
        decode(small, request)
    assert small.n_steps == 0 and len(small.live) == 2
    assert len(decode(enough, request)) == 2


def test_a_stop_token_on_the_limit_counts_as_stop() -> None:
    scripts = [HashScript(1, stop_at=5)]
    for decode in (decode_autoregressive, decode_speculative):
        (one,) = decode(ScriptedSlots(scripts), make_request(scripts, [6], block_size=4))
        assert (len(one.ids), one.finish) == (6, "stop")


def test_every_id_of_the_stop_set_stops() -> None:
    scripts = [HashScript(seed, stop_at=4) for seed in range(12)]
    results = decode_speculative(ScriptedSlots(scripts), make_request(scripts, [40] * 12, block_size=6))
    assert {one.ids[-1] for one in results} == STOPS
    assert all(len(one.ids) == 5 for one in results)


def test_tpf_counts_what_follows_y_1_with_the_stop_token() -> None:
    scripts = [HashScript(1, stop_at=10, agreement="always")]  # y_1 and ten more, the stop token included
    request = make_request(scripts, [99], block_size=3)
    (ar,) = decode_autoregressive(ScriptedSlots(scripts), request)
    (fast,) = decode_speculative(ScriptedSlots(scripts), request)
    assert (ar.n_forwards, ar.n_rounds, ar.tpf) == (10, 0, 1.0)
    assert (fast.n_forwards, fast.n_rounds, fast.tpf) == (4, 2, 2.5)
    assert fast.n_accepted == 6  # d_1..d_3 twice; a0 and the verifier's token are no drafts


def test_a_stop_token_that_is_a0_saves_the_verify_forward() -> None:
    (one,) = decode_speculative(
        ScriptedSlots([script := HashScript(1, stop_at=1)]), make_request([script], [99], block_size=3)
    )
    assert (len(one.ids), one.n_forwards, one.n_rounds, one.finish) == (2, 1, 1, "stop")


def test_accepted_drafts_behind_the_cut_are_not_counted() -> None:
    script = HashScript(1, agreement="always")
    # No draft is verified for the last token, which the verifier says anyway; a limit of 2 needs no draft at all.
    for limit, accepted, rounds in [(2, 0, 0), (3, 0, 1), (4, 1, 1), (5, 2, 1), (6, 3, 1), (7, 4, 1)]:
        (one,) = decode_speculative(ScriptedSlots([script]), make_request([script], [limit], block_size=4))
        assert (one.n_accepted, one.n_rounds) == (accepted, rounds), limit


def test_diffusion_writes_every_block_but_the_last_and_ends_at_the_first_stop() -> None:
    script = HashScript(5, stop_at=10, agreement="always")
    slots = ScriptedSlots([script])
    (one,) = decode_diffusion(slots, make_request([script], [99], block_size=4), threshold=0.0)
    assert one.ids == greedy_ids(script, 99)
    assert (one.n_forwards, one.n_cache_writes, one.finish) == (3, 2, "stop")
    assert one.tpf == pytest.approx(10 / 3)
    assert_conserved(slots, [one.ids[:8]])


def test_block_window_is_open_to_denoise_and_causal_to_write() -> None:
    window = block_window(
        torch.tensor([5, 6]),
        torch.tensor([[1, 9, 9], [1, 2, 3]]),
        torch.tensor([10, 20]),
        torch.tensor([False, True]),
    )
    assert window.tokens.tolist() == [[5, 1, 9, 9], [6, 1, 2, 3]]
    assert window.limits.tolist() == [[10, 13, 13, 13], [20, 21, 22, 23]]


def test_fix_tokens_takes_all_sure_positions_or_the_best_one() -> None:
    tokens = torch.tensor([[1, 2, 3, 4]] * 3)
    confidence = torch.tensor([[0.9, 0.2, 0.8, 0.99], [0.1, 0.3, 0.2, 0.99], [0.9, 0.9, 0.9, 0.9]])
    masked = torch.tensor([[True, True, True, False], [True, True, True, False], [False] * 4])
    block, left = fix_tokens(tokens, confidence, torch.full((3, 4), 9), masked, threshold=0.8)
    assert block.tolist() == [[1, 9, 3, 9], [9, 2, 9, 9], [9, 9, 9, 9]]
    assert left.tolist() == [[False, True, False, False], [True, False, True, False], [False] * 4]


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan])
def test_diffusion_refuses_a_threshold_that_is_no_probability(threshold: float) -> None:
    script = HashScript(1)
    with pytest.raises(ConfigError, match="threshold"):
        decode_diffusion(ScriptedSlots([script]), make_request([script], [5], 2), threshold=threshold)


def test_request_refuses_what_no_decoder_can_serve() -> None:
    good = make_request([HashScript(1), HashScript(2)], [5, 5], block_size=4)
    for change, message in [
        ({"mask_id": -1}, "mask id -1"),
        ({"mask_id": 1}, "mask id 1"),
        ({"first": torch.tensor([3])}, "one entry a sequence"),
    ]:
        with pytest.raises(ConfigError, match=message):
            replace(good, **change)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="at least 1"):
        replace(good.options[0], max_tokens=0)
    with pytest.raises(ConfigError, match="block size 0"):
        replace(good.options[0], block_size=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_greedy_bars_the_mask_takes_the_lower_id_and_leaves_the_logits(dtype: torch.dtype) -> None:
    logits = torch.tensor([[[1.0, 3.0, 3.0, 9.0]]], dtype=dtype)
    before = logits.clone()
    assert greedy(logits, mask_id=3).tolist() == [[1]]
    tokens, confidence = greedy_with_confidence(logits, mask_id=3)
    assert tokens.tolist() == [[1]]
    assert confidence.item() == pytest.approx(math.exp(3) / (2 * math.exp(3) + math.exp(1)))
    assert torch.equal(logits, before)


def test_the_mask_token_is_never_committed() -> None:
    # The scripted logits always favour it.
    scripts = [HashScript(seed, agreement="random") for seed in range(4)]
    for decode in DECODERS:
        results = decode(ScriptedSlots(scripts), make_request(scripts, [30] * 4, block_size=5))
        assert all(MASK not in one.ids for one in results)


def imports(name: str) -> set[str]:
    """Return the modules that a file of the package imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((PACKAGE / name).read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_round_imports_only_torch_errors_and_the_standard_library() -> None:
    for module in imports("round.py"):
        allowed = module.startswith(("torch", "gravityocr.errors"))
        assert allowed or module.split(".")[0] in sys.stdlib_module_names, module


def test_the_oracle_shares_no_acceptance_code() -> None:
    for name in ("autoregressive.py", "batch.py", "request.py", "sampling.py", "guard.py", "trace.py"):
        assert not any("round" in module or "speculative" in module for module in imports(name)), name
