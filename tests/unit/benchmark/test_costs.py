"""The cost of a forward by rows and the speed-up that follows from it, on a scripted clock."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from tests.unit.benchmark.readers import Reader, answer, make_case

from gravityocr.benchmark.costs import ROWS, CostTable, RoundShape, cost_section, n_together
from gravityocr.benchmark.speed import bench_decode


def linear(n_sequences: int, n_rows: int) -> float:
    """One row costs 1, each further one 1/16, at any batch size."""
    return n_sequences * (1 + (n_rows - 1) / 16)


def test_rows_take_turns_and_the_shortest_counts() -> None:
    calls = count()
    table = CostTable.measure(lambda n, rows: linear(n, rows) + (next(calls) % 7 > 0), [1, 4], [7])
    assert set(table.shortest) == {1, 4} and set(table.shortest[4]) == {*ROWS, 7}
    assert table.shortest[4][17] == 8.0 and table.median[4][17] == 9.0
    assert table.ratio(1, 17) == 2.0 and table.ratio(4, 33) == 3.0
    assert table.ratio(1, 21) == pytest.approx(2.25)  # between 17 and 25 rows, on the line
    assert table.ratio(1, 81) == pytest.approx(6.0)  # beyond the last: the same line


def test_the_expected_speed_up() -> None:
    table = CostTable.measure(linear, [1, 2])
    rows = {"tpf": 6.0, "x_ar": 2.9, "hit_rate": 0.0, "n_accepted": 10.0}
    shapes = {"self-spec+fixed": RoundShape(16), "not measured": RoundShape(8)}
    section = cost_section(table, 2, {"self-spec+fixed": rows}, shapes)
    assert section["modes"] == {
        "self-spec+fixed": {
            "rows": 17, "window_over_one_row": 2.0, "expected_speedup": 3.0, "measured_speedup": 2.9,
            "hit_rate": 0.0, "break_even_hit_rate": None,
        }
    }  # fmt: skip
    assert set(section["batch"]) == {"1", "2"} and section["n_together"] == 2
    assert section["batch"]["2"]["ms"]["1"] == 2000.0 and section["batch"]["2"]["window_over_one_row"]["33"] == 3.0


def test_fused_rounds_save_a_draft_when_they_hit() -> None:
    table, shape = CostTable.measure(linear, [1]), RoundShape(16, 1)
    assert (shape.draft_rows, shape.verify_rows) == (17, 33)  # costs 2 and 3 rows' worth
    assert shape.forward_over_one_row(table, 1, 0.0) == 2.5 and shape.forward_over_one_row(table, 1, 1.0) == 3.0
    n_accepted = 14.0
    rate = shape.break_even(table, 1, n_accepted)
    assert rate is not None
    fused = (3.0 + (1 - rate) * 2.0) / (n_accepted + 2 - rate)
    assert fused == pytest.approx(2 * 2.0 / (n_accepted + 2))
    assert shape.break_even(table, 1, 0.0) is None and RoundShape(16).break_even(table, 1, 5.0) is None


@pytest.mark.parametrize(
    ("ids", "expected"),
    [([[[1] * 11]], 1), ([[[1] * 11] * 3], 3), ([[[1] * 11], [[1] * 11] * 3], 2), ([[[1]]], 1), ([[]], 1), ([], 1)],
)
def test_sequences_that_run_together(ids: list[list[list[int]]], expected: int) -> None:
    assert n_together(ids) == expected


def test_bench_decode_has_costs_at_the_batches_in_play(tmp_path: Path) -> None:
    reader = Reader({10: answer(range(9), range(9))})
    shapes = {"s": RoundShape(5)}
    report = bench_decode({"ar": reader, "s": reader}, [make_case(tmp_path, 10)], 1, timer=linear, shapes=shapes)
    assert list(report["costs"]["batch"]) == ["1", "2"] and report["costs"]["n_together"] == 2
    assert "6" in report["costs"]["batch"]["1"]["ms"]
    assert report["costs"]["modes"]["s"]["expected_speedup"] == pytest.approx(1 / (1 + 5 / 16))
    alone = bench_decode({"ar": reader, "s": reader}, [make_case(tmp_path, 10)], 1, timer=linear, one_by_one=True)
    assert list(alone["costs"]["batch"]) == ["1"] and alone["costs"]["modes"] == {}
    assert "costs" not in bench_decode({"ar": reader}, [make_case(tmp_path, 10)], 1)
