"""Properties of the decoders: the same ids as AR whatever the drafts say, and every surviving K/V causal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scripted import MASK, STOPS, HashScript, ScriptedSlots, assert_conserved, greedy_ids, make_request

from gravityocr.decoding import Decoded, Speculation, decode_autoregressive, decode_diffusion, decode_speculative
from gravityocr.decoding.batch import Batch
from gravityocr.decoding.plan import CostTable, Planner
from gravityocr.decoding.speculative import IndependentRows, SpeculativeLane

AGREEMENTS = ("always", "never", "sometimes", "random")
Mix = tuple[int, list[HashScript], list[int]]  # block size, scripts, limits


@st.composite
def mixes(draw: st.DrawFn) -> Mix:
    """Draw a block size in 1..33 and one to four sequences that differ in everything else."""
    block_size = draw(st.integers(1, 33))
    offsets = st.integers(0, 2 * block_size + 6)
    scripts = st.builds(
        HashScript,
        seed=st.integers(0, 10**6),
        n_prefix=st.integers(1, 5),
        stop_at=st.none() | offsets,
        agreement=st.sampled_from(AGREEMENTS),
    )
    batch = draw(st.lists(scripts, min_size=1, max_size=4))
    limits = draw(st.lists(offsets.map(lambda n: n + 1), min_size=len(batch), max_size=len(batch)))
    return block_size, batch, limits


def speculate(mix: Mix, n_candidates: int = 0, steps: int = 1) -> list[Decoded]:
    """Decode by self-speculation and check what must hold for every run."""
    block_size, scripts, limits = mix
    slots = ScriptedSlots(scripts)
    how = Speculation(block_size, n_candidates, steps, trace=True)
    results = decode_speculative(slots, make_request(scripts, limits, block_size), how=how)
    assert [one.ids for one in results] == [greedy_ids(*each) for each in zip(scripts, limits, strict=True)]
    assert_conserved(slots, [one.ids[:-1] for one in results])
    assert slots.n_steps == max(one.n_forwards for one in results)
    for one in results:
        assert one.finish == ("stop" if one.ids[-1] in STOPS else "length")
        assert one.n_forwards <= (1 + steps) * one.n_rounds + 1  # one may end on a step without a draft
        assert one.n_forwards >= 2 * one.n_rounds - 1 - one.n_hits
        assert n_candidates or not one.n_hits
    return results


@given(mixes())
@settings(deadline=None, max_examples=100)
def test_autoregressive_is_greedy_at_one_token_a_forward(mix: Mix) -> None:
    block_size, scripts, limits = mix
    slots = ScriptedSlots(scripts)
    results = decode_autoregressive(slots, make_request(scripts, limits, block_size))
    assert [one.ids for one in results] == [greedy_ids(*each) for each in zip(scripts, limits, strict=True)]
    assert_conserved(slots, [one.ids[:-1] for one in results])
    for one in results:
        assert one.finish == ("stop" if one.ids[-1] in STOPS else "length")
        assert one.n_forwards == len(one.ids) - 1
        assert one.tpf == 1.0 or (len(one.ids) == 1 and math.isnan(one.tpf))


@given(mixes())
@settings(deadline=None, max_examples=150)
def test_speculation_gives_the_ids_of_ar(mix: Mix) -> None:
    block_size, scripts, limits = mix
    ar = decode_autoregressive(ScriptedSlots(scripts), make_request(scripts, limits, block_size))
    assert [one.ids for one in speculate(mix)] == [one.ids for one in ar]


@given(mixes())
@settings(deadline=None, max_examples=60)
def test_a_sequence_does_not_notice_its_batch(mix: Mix) -> None:
    block_size, scripts, limits = mix
    together = speculate(mix)
    alone = [speculate((block_size, [s], [n]))[0] for s, n in zip(scripts, limits, strict=True)]
    assert together == alone


@given(mixes())
@settings(deadline=None, max_examples=60)
def test_the_trace_accounts_for_every_token(mix: Mix) -> None:
    for one in speculate(mix) + speculate(mix, n_candidates=2) + speculate(mix, steps=2):
        assert one.ids[1:] == [token for each in one.trace for token in each.committed]
        assert sum(bool(each.drafts or each.exact) for each in one.trace) == one.n_rounds
        states = [state for each in one.trace for state in each.draft_states()]
        assert states.count("accepted") == one.n_accepted
        assert all(MASK not in each.drafts + each.predictions + each.committed for each in one.trace)
        boundaries = [one.ids[0], *(each.committed[-1] for each in one.trace)][: len(one.trace)]
        assert [each.x0 for each in one.trace] == boundaries


@pytest.mark.parametrize("agreement", AGREEMENTS)
@pytest.mark.parametrize("block_size", [1, 2, 3, 8, 32, 33])
def test_a_stop_token_and_a_limit_at_every_offset(block_size: int, agreement: str) -> None:
    reach = 2 * block_size + 6 if block_size < 32 else block_size + 4  # past the second round, past the first
    stops: list[int | None] = [*range(reach)]
    limits = [reach + 2] * reach + [*range(1, reach + 1)]
    scripts = [HashScript(7, 2, stop, agreement) for stop in stops + [None] * reach]
    speculate((block_size, scripts, limits))


@pytest.mark.parametrize("block_size", range(1, 34))
def test_counts_of_full_and_of_empty_acceptance(block_size: int) -> None:
    n_rounds = 4
    n_tokens = 1 + n_rounds * (block_size + 2)
    full, empty = speculate(
        (block_size, [HashScript(3, agreement=a) for a in ("always", "never")], [n_tokens, n_tokens])
    )
    assert (full.n_rounds, full.n_forwards, full.n_accepted) == (n_rounds, 2 * n_rounds, n_rounds * block_size)
    assert empty.n_rounds == math.ceil((n_tokens - 1) / 2)
    assert empty.n_accepted == 0


@given(mixes(), st.integers(0, 4), st.integers(1, 3))
@settings(deadline=None, max_examples=150)
def test_fused_rounds_and_denoising_steps_change_no_id(mix: Mix, n_candidates: int, steps: int) -> None:
    speculate(mix, n_candidates, steps)  # asserts it


@pytest.mark.parametrize("block_size", [1, 2, 5, 16])
def test_a_fused_round_needs_one_forward_where_a_candidate_is_hit(block_size: int) -> None:
    n_rounds = 5
    n_tokens = 2 + n_rounds * (block_size + 1)  # y_1, a0 of the only draft forward, then B + 1 a round
    (one,) = speculate((block_size, [HashScript(3, agreement="always")], [n_tokens]), n_candidates=1)
    assert (one.n_forwards, one.n_rounds, one.n_hits) == (1 + n_rounds, n_rounds, n_rounds - 1)


def test_every_candidate_drafts_behind_its_own_point() -> None:
    """With as many candidates as points each round but the first is a hit, wherever the drafts fail."""
    mix = (3, [HashScript(seed, agreement="sometimes") for seed in range(4)], [60] * 4)
    for one in speculate(mix, n_candidates=4):
        assert one.n_hits >= one.n_rounds - 2 and one.n_forwards <= one.n_rounds + 2


@given(mixes(), st.data())
@settings(deadline=None, max_examples=100)
def test_a_reference_changes_no_id_whatever_it_says(mix: Mix, data: st.DataObject) -> None:
    block_size, scripts, limits = mix
    truths = [greedy_ids(*each) for each in zip(scripts, limits, strict=True)]
    tokens = st.lists(st.integers(0, MASK - 1), max_size=12)
    options = make_request(scripts, limits, block_size).options
    spoiled = [tuple(truth[: data.draw(st.integers(0, 30))] + data.draw(tokens) + truth[10:]) for truth in truths]
    options = tuple(replace(one, reference=text) for one, text in zip(options, spoiled, strict=True))
    for drafts in ("auto", "reference", "none"):
        slots = ScriptedSlots(scripts)
        how = Speculation(block_size, drafts=drafts)  # type: ignore[arg-type]
        results = decode_speculative(
            slots, replace(make_request(scripts, limits, block_size), options=options), how=how
        )
        assert [one.ids for one in results] == truths
        assert_conserved(slots, [one.ids[:-1] for one in results])


def test_a_true_reference_is_read_at_full_width() -> None:
    script = HashScript(9, stop_at=40, agreement="never")
    truth = greedy_ids(script, 99)
    request = make_request([script], [99], 8, reference=tuple(truth))
    (one,) = decode_speculative(ScriptedSlots([script]), request, how=Speculation(8, drafts="reference"))
    assert one.ids == truth
    assert one.n_forwards == one.n_rounds == math.ceil(40 / 9)


COSTS = [CostTable((1, 64, 512), seconds) for seconds in [(1.0, 1.1, 2.0), (1.0, 64.0, 512.0), (1.0, 8.0, 40.0)]]


@given(mixes(), st.sampled_from(COSTS), st.integers(0, 2))
@settings(deadline=None, max_examples=100)
def test_adaptive_windows_change_no_id(mix: Mix, costs: CostTable, n_candidates: int) -> None:
    block_size, scripts, limits = mix
    slots = ScriptedSlots(scripts)
    how, request = Speculation(block_size, n_candidates), make_request(scripts, limits, block_size)
    results = decode_speculative(slots, request, how=how, planner=Planner(costs))
    assert [one.ids for one in results] == [greedy_ids(*each) for each in zip(scripts, limits, strict=True)]
    assert_conserved(slots, [one.ids[:-1] for one in results])


def test_where_rows_are_dear_and_drafts_are_noise_decoding_is_autoregressive() -> None:
    script = HashScript(3, agreement="never")
    (one,) = decode_speculative(
        ScriptedSlots([script], 2048), make_request([script], [1000], 8), how=Speculation(8), planner=Planner(COSTS[1])
    )
    assert one.n_forwards == 999 and one.n_rounds <= 999 / 64 + 8


@given(mixes(), st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 2), st.booleans())
@settings(deadline=None, max_examples=100)
def test_sequences_may_come_and_be_cancelled_at_any_step(
    mix: Mix, pauses: list[int], n_candidates: int, adaptive: bool
) -> None:
    block_size, scripts, limits = mix
    slots = ScriptedSlots([])
    planner = Planner(COSTS[2]) if adaptive else None
    batch = Batch(slots, MASK)
    lane = SpeculativeLane(batch, Speculation(block_size, n_candidates), IndependentRows(slots, MASK), planner)
    everyone, doomed = [], []
    for number, (script, limit) in enumerate(zip(scripts, limits, strict=True)):
        slots.join([script])
        everyone += batch.admit(make_request([script], [limit], block_size))
        slots.join([script])
        doomed += batch.admit(make_request([script], [limit], block_size))
        for _ in range(pauses[number % len(pauses)]):
            if batch.running:
                lane.step()
        doomed[-1].cancelled = True
        batch.retire()
    while batch.running:
        lane.step()
    assert slots.live == []
    for progress, script, limit in zip(everyone, scripts, limits, strict=True):
        assert progress.result().ids == greedy_ids(script, limit)
    for progress, script, limit in zip(doomed, scripts, limits, strict=True):
        assert progress.result().ids == greedy_ids(script, limit)[: len(progress.ids)]


def confidence(token: int, logit: float) -> float:
    """Return the softmax of the scripted logits without the mask: the rest is 0, odd tokens tie with one."""
    ties = 1 + token % 2
    return math.exp(logit) / (ties * math.exp(logit) + (MASK - ties))


def diffuse_alone(script: HashScript, limit: int, block_size: int, threshold: float) -> tuple[list[int], int, int]:
    """Return ids, forwards and cache writes of direct block diffusion, written as plain loops."""
    ids, n_forwards, n_writes = [script.next_token(script.prefix)], 0, 0
    while len(ids) < limit and ids[-1] not in STOPS:
        cached, window = script.prefix + ids[:-1], [ids[-1]] + [MASK] * block_size
        n_writes += len(ids) > 1
        while MASK in window:
            n_forwards += 1
            found = {}
            for i in range(block_size):
                causal = i == 0
                answer = (script.next_token([*cached, ids[-1]]), 5.0) if causal else script.fill(cached, window, i)
                if window[i + 1] == MASK:
                    found[i + 1] = (answer[0], confidence(*answer))
            sure = [i for i in found if found[i][1] >= threshold]
            for i in sure or [max(found, key=lambda i: found[i][1])]:
                window[i] = found[i][0]
        for token in window[1:]:
            if len(ids) < limit and not (len(ids) > 1 and ids[-1] in STOPS):
                ids.append(token)
    return ids, n_forwards, n_writes


def diffused_cache(results: Sequence[Decoded], block_size: int) -> list[list[int]]:
    """Return the ids whose K/V a cache write left: all blocks but the one that ended the sequence."""
    return [one.ids[: one.n_cache_writes * block_size] for one in results]


@given(mixes(), st.sampled_from([0.0, 0.3, 0.5, 0.7, 0.9, 1.0]))
@settings(deadline=None, max_examples=100)
def test_diffusion_is_what_plain_loops_give_for_each_sequence(mix: Mix, threshold: float) -> None:
    block_size, scripts, limits = mix
    slots = ScriptedSlots(scripts)
    results = decode_diffusion(slots, make_request(scripts, limits, block_size), threshold=threshold)
    for one, script, limit in zip(results, scripts, limits, strict=True):
        expected = diffuse_alone(script, limit, block_size, threshold)
        assert (one.ids, one.n_forwards, one.n_cache_writes) == expected
        assert one.finish == ("stop" if one.ids[-1] in STOPS else "length")
    assert_conserved(slots, diffused_cache(results, block_size))
    assert slots.n_steps == max(one.n_forwards + one.n_cache_writes for one in results)  # nobody waits
