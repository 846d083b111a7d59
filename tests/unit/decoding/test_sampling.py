"""Choosing tokens: penalties, nucleus, noise, and the exact distribution of speculative samples."""

from __future__ import annotations

import math

import pytest
import torch
from tests.scripted import MASK, STOPS, VOCAB, HashScript, ScriptedSlots, make_request
from torch import Tensor

from gravityocr.decoding import Decoded, Request, Sampling, Speculation, decode_autoregressive, decode_speculative
from gravityocr.decoding.sampling import Choosers, gumbel_noise, nucleus, seen_before
from gravityocr.errors import ConfigError

CPU = torch.device("cpu")


def test_noise_depends_on_seed_place_and_token_alone() -> None:
    seeds, places = torch.tensor([3, 3, 4]), torch.tensor([[0, 1], [1, 5], [0, 1]])
    noise = gumbel_noise(seeds, places, 50)
    assert torch.equal(noise[0, 1], noise[1, 0])
    assert torch.equal(noise, gumbel_noise(seeds, places, 50))
    assert torch.equal(noise[..., :20], gumbel_noise(seeds, places, 20))
    assert not bool(noise[0, 0].isclose(noise[2, 0]).any())
    assert not bool(noise[0, 0].isclose(noise[0, 1]).any())


def test_noise_is_gumbel() -> None:
    noise = gumbel_noise(torch.arange(400), torch.arange(50).expand(400, -1), 10).flatten()
    euler = 0.5772156649
    assert noise.mean().item() == pytest.approx(euler, abs=0.02)
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, rel=0.03)
    for level in (-1.0, 0.0, 1.0, 3.0):
        assert (noise < level).double().mean().item() == pytest.approx(math.exp(-math.exp(-level)), abs=0.005)


def test_the_nucleus_is_the_smallest_set_that_holds_the_mass() -> None:
    scores = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(4, 1, -1)
    kept = nucleus(scores, torch.tensor([0.4, 0.5001, 0.96, 1.0])).isfinite()[:, 0].sum(dim=-1)
    assert kept.tolist() == [1, 2, 4, 4]


def test_a_penalty_falls_on_what_the_response_holds_before_each_row() -> None:
    seen = seen_before([[1, 2], [3]], torch.tensor([[2, 5, 6], [3, 1, 1]]), 8)
    assert [row.nonzero()[:, 0].tolist() for row in seen[0]] == [[1, 2], [1, 2, 5], [1, 2, 5, 6]]
    assert [row.nonzero()[:, 0].tolist() for row in seen[1]] == [[3], [1, 3], [1, 3]]
    choosers = Choosers.of([Sampling(repetition_penalty=2.0), Sampling()], 8, CPU)
    logits = torch.tensor([[[4.0, 1.0, -1.0, 0.5, 0.0, 0.0, 0.0, 0.0]]] * 2)
    scores = choosers.scores(logits, 7, seen[:, :1], torch.zeros(2, 1, dtype=torch.long))
    assert scores[0, 0, :4].tolist() == [4.0, 0.5, -2.0, 0.5]
    assert scores[1, 0, :4].tolist() == [4.0, 1.0, -1.0, 0.5]
    assert scores[0, 0, 7] == -math.inf


def test_a_bias_is_added_first() -> None:
    choosers = Choosers.of([Sampling(logit_bias={2: 5.0}), Sampling()], 4, CPU)
    logits = torch.zeros(2, 1, 4)
    assert choosers.scores(logits, 3, None, torch.zeros(2, 1, dtype=torch.long))[:, 0, 2].tolist() == [5.0, 0.0]
    with pytest.raises(ConfigError, match="token 9 of 4"):
        Choosers.of([Sampling(logit_bias={9: 1.0})], 4, CPU)


@pytest.mark.parametrize(
    "bad", [{"temperature": -1.0}, {"top_p": 0.0}, {"repetition_penalty": 0.0}, {"seed": -1}, {"logit_bias": {-1: 0.0}},
            {"logit_bias": {1: math.nan}}, {"temperature": math.nan}],
)  # fmt: skip
def test_sampling_refuses_what_is_no_distribution(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="sampling"):
        Sampling(**bad)  # type: ignore[arg-type]


class NoisySlots(ScriptedSlots):
    """Scripted slots whose logits say something about every token, so that there is something to draw."""

    def step(
        self, tokens: Tensor, start: Tensor, limits: Tensor, spans: Tensor | None = None, offsets: Tensor | None = None
    ) -> Tensor:
        logits = super().step(tokens, start, limits, spans, offsets)
        for b, memory in enumerate(self.live):
            for i in range(tokens.shape[1]):
                chain = memory.slots[int(start[b]) + i].chain
                generator = torch.Generator().manual_seed(chain % 2**31)
                if logits[b, i].argmax() != MASK or tokens[b, i] != MASK:
                    logits[b, i, :MASK] = torch.randn(MASK, generator=generator) * 1.5
        return logits


def requests(sampling: list[Sampling], n_tokens: int, **more: object) -> tuple[list[HashScript], Request]:
    scripts = [HashScript(5, agreement="sometimes") for _ in sampling]
    request = make_request(scripts, [n_tokens] * len(scripts), 4, **more)
    options = tuple(
        type(one)(one.max_tokens, one.stop_ids, one.block_size, how, one.log_probs)
        for one, how in zip(request.options, sampling, strict=True)
    )
    return scripts, Request(request.lens, request.first, options, request.mask_id)


VARIED = [
    Sampling(),
    Sampling(temperature=1.0, seed=1),
    Sampling(temperature=0.7, top_p=0.8, seed=2),
    Sampling(repetition_penalty=4.0),
    Sampling(temperature=1.3, repetition_penalty=1.2, seed=3, logit_bias={4: 2.0, 5: -3.0}),
    Sampling(logit_bias={6: 4.0}),
]


@pytest.mark.parametrize("n_candidates", [0, 2])
def test_every_way_of_choosing_gives_the_ids_and_log_probabilities_of_ar(n_candidates: int) -> None:
    scripts, request = requests(VARIED, 40, log_probs=True)
    ar = decode_autoregressive(NoisySlots(scripts), request)
    fast = decode_speculative(NoisySlots(scripts), request, how=Speculation(4, n_candidates))
    assert [one.ids for one in fast] == [one.ids for one in ar]
    assert len({tuple(one.ids) for one in ar}) >= len(ar) - 1, "the settings make no difference: the test shows little"
    for a, b in zip(ar, fast, strict=True):
        assert len(a.log_probs) == len(b.log_probs) == len(a.ids) - 1  # that of y_1 is the prefill's affair
        assert a.log_probs == pytest.approx(b.log_probs)


def chi_square(counts: Tensor, expected: Tensor) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("decode", [decode_autoregressive, decode_speculative])
def test_samples_follow_the_exact_distribution(decode: object) -> None:
    """Chi-square of 3,000 draws of the first token, and of the second given the likeliest first one."""
    n = 3000
    scripts, request = requests([Sampling(temperature=1.0, seed=seed) for seed in range(n)], 3)
    results: list[Decoded] = decode(NoisySlots(scripts), request)  # type: ignore[operator]
    slots = NoisySlots(scripts[:1])
    first = slots.step(request.first[:1, None], request.lens[:1], request.lens[:1, None])[0, 0]
    _check([one.ids[1] for one in results], first)
    likeliest = int(first[:MASK].argmax())
    followers = [one.ids[2] for one in results if one.ids[1] == likeliest and len(one.ids) > 2]
    again = slots.step(torch.tensor([[likeliest]]), request.lens[:1] + 1, request.lens[:1, None] + 1)[0, 0]
    if likeliest not in STOPS:
        _check(followers, again)


def _check(drawn: list[int], logits: Tensor) -> None:
    logits = logits.clone()
    logits[MASK] = -math.inf
    expected = logits.softmax(dim=-1)[:MASK] * len(drawn)
    counts = torch.bincount(torch.tensor(drawn), minlength=VOCAB)[:MASK].float()
    assert chi_square(counts, expected) < 29.6  # 99.9 % point at 10 degrees of freedom


def test_stop_strings_cut_where_ar_cuts() -> None:
    scripts = [HashScript(seed, agreement="always") for seed in range(6)]

    def text_of(ids: object) -> str:
        return "".join("abcdefghijkl"[token] for token in ids)  # type: ignore[attr-defined]

    plain = decode_autoregressive(ScriptedSlots(scripts), make_request(scripts, [30] * 6, 6))
    for at in (0, 1, 5, 11):
        strings = tuple({text_of(one.ids)[at : at + 2] for one in plain})
        request = make_request(scripts, [30] * 6, 6, stop_strings=strings, text_of=text_of)
        ar = decode_autoregressive(ScriptedSlots(scripts), request)
        fast = decode_speculative(ScriptedSlots(scripts), request, how=Speculation(6, 1))
        assert [one.ids for one in fast] == [one.ids for one in ar]
        for one in fast:
            assert one.finish == "stop" and any(s in text_of(one.ids) for s in strings)
            assert not any(s in text_of(one.ids[:-1]) for s in strings)


def test_stop_strings_need_a_speller_and_are_not_empty() -> None:
    with pytest.raises(ConfigError, match="text_of"):
        make_request([HashScript(1)], [5], 2, stop_strings=("a",))
    with pytest.raises(ConfigError, match="empty"):
        make_request([HashScript(1)], [5], 2, stop_strings=("",), text_of=str)


def test_drafts_are_drawn_with_the_verifiers_noise() -> None:
    """Where mask rows say what causal rows say, drawn drafts are accepted as greedy ones are."""

    class Agreeing(NoisySlots):
        def step(
            self, tokens: Tensor, start: Tensor, limits: Tensor, spans: Tensor | None = None,
            offsets: Tensor | None = None,
        ) -> Tensor:  # fmt: skip
            logits = super().step(tokens, start, limits, spans, offsets)
            logits[..., :MASK] = torch.randn(MASK, generator=torch.Generator().manual_seed(1))
            logits[..., sorted(STOPS)] = -50.0
            return logits

    scripts, request = requests([Sampling(temperature=1.0, seed=seed) for seed in range(8)], 30)
    results = decode_speculative(Agreeing(scripts), request, how=Speculation(4))
    ar = decode_autoregressive(Agreeing(scripts), request)
    assert [one.ids for one in results] == [one.ids for one in ar]
    assert sum(one.n_accepted for one in results) >= 0.6 * 4 * sum(one.n_rounds for one in results)
