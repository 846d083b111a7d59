"""Simulated drafts: as many agree as the profile says, the output is that of AR, and the batch does not matter."""

from __future__ import annotations

from dataclasses import replace

from tests.scripted import MASK, HashScript, ScriptedSlots, greedy_ids, make_request

from gravityocr.decoding import Decoded, Request, Speculation
from gravityocr.decoding.acceptance import AcceptanceProfile, truncated_geometric
from gravityocr.decoding.batch import Batch, run
from gravityocr.decoding.simulated import SimulatedRows
from gravityocr.decoding.speculative import IndependentRows, SpeculativeLane

B = 8
SCRIPTS = [HashScript(seed, agreement="never") for seed in range(6)]
PROFILE = AcceptanceProfile(truncated_geometric(4.0, B), seed=3)


def simulate(scripts: list[HashScript], n_tokens: int, profile: AcceptanceProfile = PROFILE) -> list[Decoded]:
    request = make_request(scripts, [n_tokens] * len(scripts), B)
    answers = [tuple(greedy_ids(script, n_tokens)) for script in scripts]
    options = tuple(replace(one, reference=ids) for one, ids in zip(request.options, answers, strict=True))
    slots = ScriptedSlots(scripts, 4096)
    batch = Batch(slots, MASK)
    rows = SimulatedRows(IndependentRows(slots, MASK), batch, profile)
    how = Speculation(B, drafts="diffusion")
    results = run(SpeculativeLane(batch, how, rows), Request(request.lens, request.first, options, MASK))
    assert [tuple(one.ids) for one in results] == answers
    return results


def test_accepted_lengths_follow_the_profile() -> None:
    results = simulate(SCRIPTS, 1500)
    n_rounds = sum(one.n_rounds for one in results)
    assert abs(sum(one.n_accepted for one in results) / n_rounds - PROFILE.mean) < 0.25
    never, always = (AcceptanceProfile(w) for w in ((1.0, *[0.0] * B), (*[0.0] * B, 1.0)))
    assert sum(one.n_accepted for one in simulate(SCRIPTS, 60, never)) == 0
    assert all(one.n_accepted >= B * (one.n_rounds - 1) for one in simulate(SCRIPTS, 60, always))


def test_draws_depend_on_the_seed_and_the_sequence_alone() -> None:
    together = simulate(SCRIPTS, 200)
    assert [simulate([script], 200)[0] for script in SCRIPTS] == together
    assert len({one.n_rounds for one in together}) > 1
    assert simulate(SCRIPTS, 200, replace(PROFILE, seed=4)) != together
