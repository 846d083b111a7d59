"""Paired differences and their intervals against ones counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gravityocr.errors import InputError
from gravityocr.metrics.runs.confidence import BootstrapConfig
from gravityocr.rl.comparison import changed_most, compare, paired
from gravityocr.rl.evaluation_records import RegionRecord

DRAWS = BootstrapConfig(n_draws=500, seed=3)


def record(number: int, reward: float, counts: tuple[int, int] = (10, 5), kind: str = "table") -> RegionRecord:
    task = kind.removeprefix("whole_")
    return RegionRecord(
        f"r{number}", kind, task, f"ref {number}", f"pred {reward}", reward=reward, teds=reward / 2,  # type: ignore[arg-type]
        n_decoded=counts[0], n_forwards=counts[1], n_rounds=counts[1], n_accepted=counts[0] - counts[1],
    )  # fmt: skip


def some(seed: int, shift: float = 0.0) -> list[RegionRecord]:
    rng = np.random.default_rng(seed)
    return [
        record(i, float(rng.uniform(0, 0.5)) + shift, (int(rng.integers(10, 90)), int(rng.integers(3, 10))))
        for i in range(40)
    ]


def test_means_differences_and_intervals_are_those_of_numpy() -> None:
    before, after = some(1), some(2, 0.2)
    change = compare(before, after, DRAWS).kinds["table"].figures["reward"]
    differences = np.array([b.reward - a.reward for a, b in zip(before, after, strict=True)])  # type: ignore[operator]
    drawn = differences[np.random.default_rng(3).integers(0, 40, (500, 40))].mean(axis=1)
    assert change.before == pytest.approx(np.mean([one.reward for one in before]))
    assert change.after == pytest.approx(np.mean([one.reward for one in after]))
    assert change.difference == pytest.approx(differences.mean())
    assert (change.low, change.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))
    assert (change.n, change.excludes_0, change.relative) == (40, True, None)


def test_tpf_is_a_ratio_of_sums_and_both_sides_have_the_same_draws() -> None:
    before, after = some(1), some(2)
    change = compare(before, after, DRAWS).kinds["table"].figures["tpf"]
    counts = np.array([[one.n_decoded, one.n_forwards, two.n_decoded, two.n_forwards]
                       for one, two in zip(before, after, strict=True)])  # fmt: skip
    sums = counts[np.random.default_rng(3).integers(0, 40, (500, 40))].sum(axis=1)
    first, last = sums[:, 0] / sums[:, 1], sums[:, 2] / sums[:, 3]
    assert change.before == pytest.approx(counts[:, 0].sum() / counts[:, 1].sum())
    assert (change.low, change.high) == pytest.approx(tuple(np.quantile(last - first, [0.025, 0.975])))
    assert change.relative == pytest.approx(change.after / change.before - 1)
    expected = tuple(np.quantile(last / first - 1, [0.025, 0.975]))
    assert (change.relative_low, change.relative_high) == pytest.approx(expected)


def test_two_regions_by_hand() -> None:
    before = [record(1, 0.4, (10, 5)), record(2, 0.6, (90, 10))]
    after = [record(1, 0.6, (10, 5)), record(2, 0.8, (60, 10))]
    found = compare(before, after).kinds["table"].figures
    assert found["reward"].difference == pytest.approx(0.2)
    assert (found["reward"].low, found["reward"].high) == pytest.approx((0.2, 0.2))  # it rose on both alike
    assert found["reward"].excludes_0
    assert found["teds"].difference == pytest.approx(0.1)
    assert (found["tpf"].before, found["tpf"].after) == (pytest.approx(100 / 15), pytest.approx(70 / 15))
    assert found["tpf"].difference == pytest.approx(-2.0)
    assert found["tpf"].high == 0.0  # a draw of the first region twice
    assert not found["tpf"].excludes_0
    turned = compare(after, before).kinds["table"].figures["tpf"]
    assert (turned.low, turned.excludes_0) == (0.0, False)
    assert found["accepted"].before == pytest.approx(85 / 15)


def test_an_interval_around_0_does_not_exclude_it_and_one_region_has_none() -> None:
    even = compare([record(1, 0.5), record(2, 0.5)], [record(1, 0.7), record(2, 0.3)]).kinds["table"].figures["reward"]
    assert (even.low, even.high) == pytest.approx((-0.2, 0.2))
    assert not even.excludes_0
    single = compare([record(1, 0.5)], [record(1, 0.7)]).kinds["table"].figures
    assert (single["reward"].low, single["reward"].excludes_0, single["reward"].n) == (None, False, 1)
    assert (single["tpf"].low, single["tpf"].relative) == (None, 0.0)


def test_kinds_are_apart_and_all_of_them_together() -> None:
    before = [record(1, 0.5), record(1, 0.4, kind="whole_table"), record(2, 0.1, kind="text")]
    after = [replace(one, reward=0.6) for one in before]
    found = compare(before, after).kinds
    assert [*found] == ["text", "table", "whole_table", "all"]
    assert found["all"].figures["reward"].n == 3
    assert found["all"].figures["reward"].before == pytest.approx(1 / 3)
    assert [*compare(before[:1], after[:1]).kinds] == ["table"]


def test_what_was_not_read_or_has_no_score_is_left_out_and_counted() -> None:
    before = [record(1, 0.5), replace(record(2, 0.5), status="failed", reward=None), record(3, 0.5)]
    after = [replace(record(1, 0.6), status="truncated"), record(2, 0.9), replace(record(3, 0.9), teds=None)]
    change = compare(before, after).kinds["table"]
    assert (change.n_pairs, change.n_truncated, change.n_failed) == (3, (0, 1), (1, 0))
    assert (change.figures["reward"].n, change.figures["reward"].after) == (2, 0.75)
    assert (change.figures["teds"].n, change.figures["teds"].after) == (1, 0.3)
    assert "cdm" not in change.figures


def test_forwards_of_a_region_that_failed_once_count_on_neither_side() -> None:
    before = [record(1, 0.5, (10, 5)), record(2, 0.5, (90, 10)), RegionRecord("r3", "table", "table", "ref 3")]
    before[2] = replace(before[2], status="failed")
    after = [record(1, 0.5, (10, 5)), RegionRecord("r2", "table", "table", "ref 2", status="failed"),
             record(3, 0.5, (90, 10))]  # fmt: skip
    tpf = compare(before, after).kinds["table"].figures["tpf"]
    assert (tpf.before, tpf.after, tpf.n) == (2.0, 2.0, 1)


def test_regions_are_paired_by_name_and_what_lacks_a_partner_is_counted() -> None:
    before = [record(1, 0.1), record(2, 0.2), record(3, 0.3)]
    after = [record(4, 0.9), record(3, 0.3), record(2, 0.4)]
    found = compare(before, after)
    assert found.n_unpaired == 2
    assert found.kinds["table"].figures["reward"].difference == pytest.approx(0.1)
    assert [one.region_id for one, _ in paired(before, after)] == ["r2", "r3"]


def test_evaluations_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(InputError, match="no region in common"):
        compare([record(1, 0.5)], [record(2, 0.5)])
    with pytest.raises(InputError, match="no region in common"):
        compare([record(1, 0.5)], [record(1, 0.5, kind="whole_table")])
    with pytest.raises(InputError, match="r1.*another reference"):
        compare([record(1, 0.5)], [replace(record(1, 0.5), ref="other")])
    with pytest.raises(InputError, match=r"r1 \(table\) occurs twice"):
        compare([record(1, 0.5), record(1, 0.6)], [record(1, 0.5)])


def test_samples_of_both_signs_come_the_largest_change_first() -> None:
    before = [record(i, 0.5) for i in range(6)]
    rewards = (0.6, 0.9, 0.5, 0.1, 0.4, 0.7)
    after = [record(i, reward) for i, reward in enumerate(rewards)]
    found = changed_most(before, after, 2)["table"]
    assert [one["region_id"] for one in found["better"]] == ["r1", "r5"]
    assert [one["region_id"] for one in found["worse"]] == ["r3", "r4"]
    assert (found["n_better"], found["n_worse"], found["n_equal"]) == (3, 2, 1)
    assert found["better"][0] == {
        "region_id": "r1", "ref": "ref 1", "before": "pred 0.5", "after": "pred 0.9",
        "reward": [0.5, 0.9], "teds": [0.25, 0.45],
    }  # fmt: skip
