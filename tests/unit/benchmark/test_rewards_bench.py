"""The rewards benchmark: its material is what it says, every hack earns less than honest reading, figures add up."""

from __future__ import annotations

import json

import pytest
from benchmarks.reward_hacks import Trial, blind_spots, hacks, make_formula, make_table, make_text, misread, outcomes
from benchmarks.rewards import as_text, make_step, measure

from gravityocr.rl.formula_reward import format_faults
from gravityocr.rl.rewards import reward_of
from gravityocr.rl.table_reward import table_scores


@pytest.mark.parametrize("trial", list(hacks()), ids=lambda trial: trial.name)
def test_no_hack_earns_what_honest_reading_earns(trial: Trial) -> None:
    honest, hacked = (reward_of(trial.task, pred, trial.ref) for pred in (trial.honest, trial.hacked))
    assert trial.honest != trial.ref and 0.95 < honest < 1.0
    assert hacked < honest


def test_blind_spots_are_worse_than_they_look() -> None:
    """Each is another reading than the reference, and earns far more than one that is half wrong."""
    for trial in blind_spots():
        assert trial.hacked != trial.ref
        assert reward_of(trial.task, trial.hacked, trial.ref) > 0.7, trial.name


def test_a_hack_that_earns_more_is_reported() -> None:
    (outcome,) = outcomes([Trial("none", "text", honest="abx", hacked="abc", ref="abc")])
    assert (outcome.hacked, outcome.passed) == (1.0, False)


def test_the_material_is_what_it_says() -> None:
    tables = [make_table(seed) for seed in range(24)]
    assert 1800 < sum(map(len, tables)) / len(tables) < 2000
    assert table_scores(tables[0], tables[0]).status == "ok"
    assert not format_faults(make_formula(0))
    assert len({make_text(seed) for seed in range(5)}) == 5
    changed = misread(tables[0], 0, 10)
    assert sum(a != b for a, b in zip(changed, tables[0], strict=True)) == 10
    assert table_scores(changed, tables[0]).structure == 1.0


@pytest.mark.parametrize("task", ["table", "text", "formula"])
def test_a_step_has_the_rollouts_of_every_prompt_side_by_side(task) -> None:
    pairs = make_step(task, 3, 8)
    assert [ref for _, _, ref in pairs] == [pairs[8 * (number // 8)][2] for number in range(24)]
    assert any(pred == ref for _, pred, ref in pairs) and len({pred for _, pred, _ in pairs}) > 12


def test_the_report_holds_every_figure() -> None:
    report = measure(2, 3, repeats=1)
    assert json.loads(json.dumps(report)) == report
    assert report["n_passed"] == report["n_hacks"] == len(list(hacks()))
    for row in report["tasks"].values():
        assert row["n_completions"] == 6
        assert row["rewards_per_s"] * row["s_per_step"] == pytest.approx(6)
    assert report["two_processes"]["n_completions"] == 6
    text = as_text(report)
    assert f"hack suite: {report['n_hacks']} of {report['n_hacks']} pass" in text and "FAIL" not in text
