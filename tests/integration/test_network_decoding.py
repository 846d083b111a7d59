"""The decoders over real (tiny, random) networks in fp32: equal ids, and K/V that a causal forward would have left."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from tests.factories import CONFIGS, causal_forward, make_prompts, mask_id, tiny_network
from torch import Tensor

from gravityocr.decoding import (
    Decoded,
    Request,
    SequenceOptions,
    decode_autoregressive,
    decode_diffusion,
    decode_speculative,
)
from gravityocr.decoding.prompts import DecodeMode, DecodeOptions, decode_prompts
from gravityocr.decoding.sampling import greedy
from gravityocr.errors import CapacityError, ConfigError
from gravityocr.model.ocr_model import DecodeSession, OcrModel, prefill
from gravityocr.model.prompt import Prompt

CELLS = [(2, 3), (1, 1), (1, 5), (3, 2)]
LIMITS = [24, 5, 40, 13]
# Only these tokens ever win: the fewer they are, the more drafts agree with the autoregressive path.
FEW, SOME = (20, 21), (20, 21, 22, 23, 24, 25)


def options(mode: DecodeMode, block_size: int, stops: Sequence[int] = (), **more: object) -> DecodeOptions:
    return DecodeOptions(mask_id(), frozenset(stops), block_size, mode, 10**3, **more)  # type: ignore[arg-type]


def ids_of(sequences: Sequence[Decoded]) -> list[list[int]]:
    return [one.ids for one in sequences]


def cut_at(ids: list[int], stops: Sequence[int]) -> list[int]:
    """Return the ids up to the first stop token, which remains."""
    ends = [i + 1 for i, token in enumerate(ids) if token in stops]
    return ids[: ends[0]] if ends else ids


def assert_equal_to_ar(model: OcrModel, prompts: Sequence[Prompt], block_size: int) -> int:
    """Assert equal ids, with limits alone and with each stop token that ends somebody; return the accepted drafts."""
    endless = decode_prompts(model, prompts, options("ar", block_size), LIMITS).sequences
    assert [len(one.ids) for one in endless] == LIMITS
    assert all(one.n_forwards == len(one.ids) - 1 for one in endless)
    late = sorted({one.ids[len(one.ids) // 2] for one in endless})[-1]
    n_accepted = 0
    for stops in ([], [late]):
        results = decode_prompts(model, prompts, options("self-spec", block_size, stops), LIMITS).sequences
        assert ids_of(results) == [cut_at(one.ids, stops) for one in endless]
        for one in results:
            assert one.finish == ("stop" if one.ids[-1] in stops else "length")
            assert 2 * one.n_rounds - 1 <= one.n_forwards <= 2 * one.n_rounds + 1
            n_accepted += one.n_accepted
    return n_accepted


@pytest.mark.parametrize("block_size", range(1, 34))
def test_self_speculation_gives_the_ids_of_ar(block_size: int) -> None:
    name = list(CONFIGS)[block_size % 3]
    model = tiny_network(name, block_size, SOME if block_size % 4 == 0 else FEW)
    n_accepted = assert_equal_to_ar(model, make_prompts(name, CELLS, block_size), block_size)
    assert n_accepted > 0, "no draft was ever accepted: the test shows little"


@pytest.mark.parametrize("block_size", [1, 8, 32])
@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_network_whose_drafts_are_noise_is_still_exact(name: str, block_size: int) -> None:
    assert_equal_to_ar(tiny_network(name, 100 + block_size), make_prompts(name, CELLS, block_size), block_size)


@pytest.mark.parametrize("limit", [1, 2, 5, 6, 7, 8, 13])
def test_every_limit_cuts_the_same_text(limit: int) -> None:
    model, prompts = tiny_network("gqa", 3, FEW), make_prompts("gqa", CELLS)
    whole = ids_of(decode_prompts(model, prompts, options("ar", 4), [14] * 4).sequences)
    for mode in ("ar", "self-spec"):
        cut = decode_prompts(model, prompts, options(mode, 4), [limit, 14, limit, limit]).sequences  # type: ignore[arg-type]
        assert ids_of(cut) == [whole[0][:limit], whole[1], whole[2][:limit], whole[3][:limit]]
        assert {one.finish for one in cut} == {"length"}


def test_a_sequence_does_not_notice_its_batch() -> None:
    model, prompts = tiny_network("mqa", 4, FEW), make_prompts("mqa", CELLS)
    for mode in ("ar", "self-spec", "diffusion"):
        how = options(mode, 6, trace=True)  # type: ignore[arg-type]
        together = decode_prompts(model, prompts, how, LIMITS).sequences
        alone = [decode_prompts(model, [p], how, [n]).sequences[0] for p, n in zip(prompts, LIMITS, strict=True)]
        assert together == alone


class WatchedSlots:
    """A session that keeps the K/V of every sequence as it leaves."""

    def __init__(self, session: DecodeSession) -> None:
        self.session = session
        self.capacity = session.capacity
        self.running = list(range(session.lens.numel()))
        self.left: dict[int, list[tuple[Tensor, Tensor]]] = {}

    def step(
        self, tokens: Tensor, start: Tensor, limits: Tensor, spans: Tensor | None = None, offsets: Tensor | None = None
    ) -> Tensor:
        return self.session.step(tokens, start, limits, spans, offsets)

    def keep(self, rows: Tensor) -> None:
        cache = self.session.cache
        for row, sequence in enumerate(self.running):
            if row not in rows.tolist():
                assert sequence not in self.left
                layers = zip(cache.keys, cache.values, strict=True)
                self.left[sequence] = [(k[row].clone(), v[row].clone()) for k, v in layers]
        self.running = [self.running[row] for row in rows.tolist()]
        self.session.keep(rows)


@torch.inference_mode()
def watched(
    model: OcrModel, prompts: Sequence[Prompt], block_size: int, stops: Sequence[int]
) -> tuple[WatchedSlots, Request]:
    session = prefill(model, prompts, model.encode_images(prompts)[1], max(LIMITS) + block_size + 2)
    first = greedy(session.first_logits, mask_id())
    each = tuple(SequenceOptions(limit, frozenset(stops), block_size) for limit in LIMITS)
    request = Request(session.lens, first, each, mask_id())
    return WatchedSlots(session), request


def assert_causal(
    model: OcrModel, prompts: Sequence[Prompt], slots: WatchedSlots, cached: Sequence[Sequence[int]]
) -> None:
    """Assert that what is cached of each sequence is what one causal forward over these ids computes."""
    assert sorted(slots.left) == list(range(len(prompts)))
    for sequence, (prompt, ids) in enumerate(zip(prompts, cached, strict=True)):
        _, expected = causal_forward(model, prompt, ids)
        n = prompt.ids.numel() + len(ids)
        for (k, v), k_causal, v_causal in zip(slots.left[sequence], expected.keys, expected.values, strict=True):
            torch.testing.assert_close(k[:, :n], k_causal[0], rtol=0, atol=1e-4)
            torch.testing.assert_close(v[:, :n], v_causal[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("stops", [(), FEW[:1]], ids=["limits", "stops"])
@pytest.mark.parametrize(("name", "block_size"), [("gqa", 4), ("gqa", 33), ("mqa", 1), ("nano", 9)])
def test_every_surviving_key_and_value_is_causal(name: str, block_size: int, stops: tuple[int, ...]) -> None:
    model, prompts = tiny_network(name, 5, SOME), make_prompts(name, CELLS)
    for decode in (decode_speculative, decode_autoregressive):
        slots, request = watched(model, prompts, block_size, stops)
        results = decode(slots, request)
        assert_causal(model, prompts, slots, [one.ids[:-1] for one in results])


def test_the_causal_check_sees_a_draft_that_stayed() -> None:
    """The check above is not blind: K/V of a two-way window are not causal."""
    model, prompts = tiny_network("gqa", 5, SOME), make_prompts("gqa", CELLS[:1])
    with torch.inference_mode():
        session = prefill(model, prompts, model.encode_images(prompts)[1], 8)
    slots = WatchedSlots(session)
    ids = [20, 21, 22]
    slots.step(torch.tensor([ids]), session.lens, (session.lens + 2)[:, None].expand(-1, 3))
    slots.keep(torch.tensor([], dtype=torch.long))
    with pytest.raises(AssertionError, match="not close"):
        assert_causal(model, prompts, slots, [ids])


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("block_size", [1, 4, 33])
def test_direct_diffusion_ends_and_writes_causally(block_size: int, threshold: float) -> None:
    model, prompts = tiny_network("gqa", 6, SOME), make_prompts("gqa", CELLS)
    for stops in ((), FEW[:1]):
        slots, request = watched(model, prompts, block_size, stops)
        results = decode_diffusion(slots, request, threshold=threshold)
        for one, limit in zip(results, LIMITS, strict=True):
            assert 1 <= len(one.ids) <= limit and mask_id() not in one.ids
            assert one.finish == ("stop" if one.ids[-1] in stops else "length")
            assert (len(one.ids) == limit) or one.finish == "stop"
            assert not set(one.ids[:-1]) & set(stops)
            n_blocks = one.n_cache_writes + (len(one.ids) > 1)
            steps = {0.0: 1, 1.0: block_size}.get(threshold)  # all at once; one by one
            assert one.n_forwards == n_blocks * steps if steps else n_blocks <= one.n_forwards <= n_blocks * block_size
        assert_causal(model, prompts, slots, [one.ids[: one.n_cache_writes * block_size] for one in results])


@pytest.mark.parametrize("name", list(CONFIGS))
def test_diffusion_of_one_token_is_ar(name: str) -> None:
    """With B = 1 the boundary predicts the block's only position, so nothing is left to be denoised."""
    model, prompts = tiny_network(name, 7), make_prompts(name, CELLS)
    ar, diffusion = (decode_prompts(model, prompts, options(mode, 1), LIMITS).sequences for mode in ("ar", "diffusion"))  # type: ignore[arg-type]
    assert ids_of(diffusion) == ids_of(ar)


def test_a_wrong_mask_id_keeps_the_output_right() -> None:
    """The mask token only drafts: another one changes the speed, never the text (section 1)."""
    model, prompts = tiny_network("gqa", 8, FEW), make_prompts("gqa", CELLS)
    ar = decode_prompts(model, prompts, options("ar", 8), LIMITS).sequences
    for other in (40, 41):
        how = DecodeOptions(other, frozenset(), 8, "self-spec", 1000)
        assert ids_of(decode_prompts(model, prompts, how, LIMITS).sequences) == ids_of(ar)


def test_the_first_token_may_be_all() -> None:
    model, prompts = tiny_network("gqa", 9), make_prompts("gqa", CELLS)
    for mode in ("ar", "self-spec", "diffusion"):
        sequences = decode_prompts(model, prompts, options(mode, 4), [1] * 4).sequences  # type: ignore[arg-type]
        assert [(len(one.ids), one.n_forwards, one.finish) for one in sequences] == [(1, 0, "length")] * 4
        firsts = [one.ids[0] for one in sequences]
        stopped = decode_prompts(model, prompts, options(mode, 4, firsts), LIMITS).sequences  # type: ignore[arg-type]
        assert [(one.ids, one.finish) for one in stopped] == [([first], "stop") for first in firsts]


def test_too_small_a_cache_is_refused_before_the_first_forward() -> None:
    model, prompts = tiny_network(), make_prompts("gqa", CELLS)
    with torch.inference_mode():
        session = prefill(model, prompts, model.encode_images(prompts)[1], 20)
    request = Request(session.lens, torch.tensor([20] * 4), (SequenceOptions(20, frozenset(), 8),) * 4, mask_id())
    with pytest.raises(CapacityError, match="lower max_tokens"):
        decode_speculative(session, request)


def test_an_unknown_mode_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="'greedy'.*self-spec, ar, diffusion"):
        decode_prompts(tiny_network(), make_prompts("gqa", CELLS), options("greedy", 4))  # type: ignore[arg-type]
