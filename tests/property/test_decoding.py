"""Properties of the decoders: the same ids as AR whatever the drafts say, and every surviving K/V causal."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scripted import MASK, STOPS, HashScript, ScriptedSlots, assert_conserved, greedy_ids, make_request

from gravityocr.decoding import Decoded, decode_autoregressive, decode_diffusion, decode_speculative

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


def speculate(mix: Mix, trace: bool = False) -> list[Decoded]:
    """Decode by self-speculation and check what must hold for every run."""
    block_size, scripts, limits = mix
    slots = ScriptedSlots(scripts)
    results = decode_speculative(slots, make_request(scripts, limits, block_size), trace=trace)
    assert [one.ids for one in results] == [greedy_ids(*each) for each in zip(scripts, limits, strict=True)]
    assert_conserved(slots, [one.ids[:-1] for one in results])
    assert slots.n_steps == max(one.n_forwards for one in results)
    for one in results:
        assert one.finish == ("stop" if one.ids[-1] in STOPS else "length")
        assert one.n_forwards == 2 * one.n_rounds
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
    together = speculate(mix, trace=True)
    alone = [speculate((block_size, [s], [n]), trace=True)[0] for s, n in zip(scripts, limits, strict=True)]
    assert together == alone


@given(mixes())
@settings(deadline=None, max_examples=60)
def test_the_trace_accounts_for_every_token(mix: Mix) -> None:
    for one in speculate(mix, trace=True):
        assert one.ids[1:] == [token for each in one.trace for token in each.committed]
        assert len(one.trace) == one.n_rounds
        states = [state for each in one.trace for state in each.draft_states()]
        assert states.count("accepted") == one.n_accepted
        assert len(states) == one.n_rounds * mix[0]
        assert all(MASK not in each.drafts + each.predictions + each.committed for each in one.trace)
        boundaries = [one.ids[0], *(each.committed[-1] for each in one.trace)][: one.n_rounds]
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
    n_tokens = 3 * block_size + 5
    full, empty = speculate(
        (block_size, [HashScript(3, agreement=a) for a in ("always", "never")], [n_tokens, n_tokens])
    )
    assert full.n_rounds == math.ceil((n_tokens - 1) / (block_size + 2))
    assert full.n_accepted == sum(min(block_size, n_tokens - 1 - n - 1) for n in range(0, n_tokens - 1, block_size + 2))
    assert empty.n_rounds == math.ceil((n_tokens - 1) / 2)
    assert empty.n_accepted == 0


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
