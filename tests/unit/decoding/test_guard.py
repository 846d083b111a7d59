"""The tie guard: kernels that differ by their shape, near ties, and one exact answer for all decode modes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.factories import make_prompts, mask_id, tiny_network
from tests.scripted import MASK, HashScript, ScriptedSlots, make_request
from torch import Tensor

from gravityocr.decoding import Decoded, Speculation, decode_autoregressive, decode_speculative
from gravityocr.decoding.guard import TieGuard
from gravityocr.decoding.prompts import DecodeOptions, Networks, decode_prompts
from gravityocr.model.packed import packed_copy

DEVIATION = 0.1


class ShakySlots(ScriptedSlots):
    """Causal rows answer with logits full of near ties, shaken by at most DEVIATION in a way that depends on the number
    of rows of the forward; `exact_step` gives the logits themselves."""

    n_exact = 0

    def step(
        self, tokens: Tensor, start: Tensor, limits: Tensor, spans: Tensor | None = None, offsets: Tensor | None = None
    ) -> Tensor:
        logits = super().step(tokens, start, limits, spans, offsets)
        for b, memory in enumerate(self.live):
            for i in range(tokens.shape[1]):
                slot = memory.slots[int(start[b]) + i]
                if slot.pure and tokens[b, i] != MASK:
                    noise = self._drawn(hash((slot.chain, tokens.shape)), DEVIATION)
                    logits[b, i, :MASK] = self._truth(slot.chain) + noise
        return logits

    def exact_step(self, rows: Tensor, tokens: Tensor, start: Tensor) -> Tensor:
        self.n_exact += 1
        logits = torch.zeros(*tokens.shape, self.n_vocab())
        for n, row in enumerate(rows.tolist()):
            memory = self.live[row]
            for i, token in enumerate(tokens[n].tolist()):
                memory.write(int(start[n]) + i, token, causal=True)
                logits[n, i, :MASK] = self._truth(memory.slots[int(start[n]) + i].chain)
        return logits

    @staticmethod
    def n_vocab() -> int:
        return MASK + 1

    @staticmethod
    def _drawn(seed: int, most: float) -> Tensor:
        generator = torch.Generator().manual_seed(seed % 2**31)
        return (torch.rand(MASK, generator=generator) * 2 - 1) * most

    def _truth(self, chain: int) -> Tensor:
        return self._drawn(chain, 1.0) + 3.0


def exact_ids(script: HashScript, first: int, n_tokens: int) -> list[int]:
    """Return what the exact logits say, token by token."""
    slots = ShakySlots([script])
    ids = [first]
    while len(ids) < n_tokens and ids[-1] not in (0, 1):
        logits = slots.exact_step(torch.tensor([0]), torch.tensor([ids]), torch.tensor([len(script.prefix)]))
        logits[..., MASK] = -torch.inf
        ids.append(int(logits[0, -1].argmax()))
    return ids


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=4),
    st.integers(1, 9),
    st.integers(0, 2),
    st.lists(st.integers(1, 40), min_size=4, max_size=4),
)
@settings(deadline=None, max_examples=60)
def test_guarded_decoders_agree_with_exact_decoding(
    seeds: list[int], block_size: int, n_candidates: int, limits: list[int]
) -> None:
    scripts = [HashScript(seed, agreement="sometimes") for seed in seeds]
    request = make_request(scripts, limits[: len(scripts)], block_size)
    guard = TieGuard(2.5 * DEVIATION)
    ar = decode_autoregressive(ShakySlots(scripts), request, guard=guard)
    fast = decode_speculative(ShakySlots(scripts), request, how=Speculation(block_size, n_candidates), guard=guard)
    expected = [
        exact_ids(script, first, limit)
        for script, first, limit in zip(scripts, request.first.tolist(), limits, strict=False)
    ]
    assert [one.ids for one in ar] == expected
    assert [one.ids for one in fast] == expected


def test_without_the_guard_the_same_decoders_differ_and_with_it_fp32_is_asked_rarely() -> None:
    scripts = [HashScript(seed, agreement="always") for seed in range(12)]
    request = make_request(scripts, [40] * 12, 6)
    ar, fast = (decode(ShakySlots(scripts), request) for decode in (decode_autoregressive, decode_speculative))
    assert [one.ids for one in ar] != [one.ids for one in fast], "nothing is shaken: the tests show little"
    slots = ShakySlots(scripts)
    guarded: list[Decoded] = decode_autoregressive(slots, request, guard=TieGuard(2.5 * DEVIATION))
    n_tokens, n_guarded = sum(len(one.ids) - 1 for one in guarded), sum(one.n_guarded for one in guarded)
    assert 0 < n_guarded < n_tokens and 0 < slots.n_exact <= 39


@pytest.mark.parametrize("name", ["gqa", "mqa", "nano"])
def test_bf16_with_an_all_embracing_guard_is_fp32_decoding(name: str) -> None:
    model = tiny_network(name, 3, tuple(range(20, 40)))
    prompts = make_prompts(name, [(2, 3), (1, 1), (3, 2)])
    exact, reduced = packed_copy(model, torch.float32), packed_copy(model, torch.bfloat16)
    limits = [24, 9, 40]
    plain = DecodeOptions(mask_id(), frozenset(), 8, "ar", 100)
    expected = decode_prompts(Networks.all_of(exact), prompts, plain, limits).sequences
    networks = Networks(exact, exact, reduced)
    for mode in ("ar", "self-spec"):
        how = DecodeOptions(mask_id(), frozenset(), 8, mode, 100, guard=TieGuard(100.0))  # type: ignore[arg-type]
        got = decode_prompts(networks, prompts, how, limits).sequences
        assert [one.ids for one in got] == [one.ids for one in expected]
        assert all(one.n_guarded == len(one.ids) - 1 for one in got)


@pytest.mark.parametrize("name", ["gqa", "mqa", "nano"])
def test_bf16_speculation_with_the_guard_gives_the_ids_of_bf16_ar(name: str) -> None:
    n_guarded = 0
    for seed in range(4):
        model = tiny_network(name, seed, tuple(range(20, 30)))
        prompts = make_prompts(name, [(2, 3), (1, 1), (1, 5), (3, 2)], seed)
        exact, reduced = packed_copy(model, torch.float32), packed_copy(model, torch.bfloat16)
        results = []
        for mode in ("ar", "self-spec"):
            how = DecodeOptions(mask_id(), frozenset(), 8, mode, 60, guard=TieGuard(0.3), n_candidates=1)  # type: ignore[arg-type]
            results.append(decode_prompts(Networks(exact, reduced, reduced), prompts, how).sequences)
        assert [one.ids for one in results[0]] == [one.ids for one in results[1]]
        n_guarded += sum(one.n_guarded for one in results[1])
    assert n_guarded > 0, "no tie was ever near: the test shows little"
