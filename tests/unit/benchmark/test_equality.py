"""Identity with AR: shares by hand, the first difference, and whom fp32 joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.benchmark.readers import Reader, answer, make_case

from gravityocr.benchmark.equality import Choice, Judges, bench_equality, first_difference
from gravityocr.document import Crop
from gravityocr.errors import ConfigError


class Judge:
    """Say the same token always, and note what was asked."""

    def __init__(self, token: int, margin: float) -> None:
        self.choice = Choice(token, margin)
        self.asked: list[tuple[int, list[int]]] = []

    def __call__(self, _crop: Crop, piece: int, ids: Sequence[int]) -> Choice:
        self.asked.append((piece, list(ids)))
        return self.choice


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [([1, 2, 3], [1, 2, 4], 2), ([1, 2], [1, 2, 3], 2), ([5], [6], 0), ([], [1], 0), ([1], [1], 1)],
)
def test_the_first_difference(one: list[int], other: list[int], place: int) -> None:
    assert first_difference(one, other) == first_difference(other, one) == place


@pytest.mark.parametrize(("token", "side"), [(3, "ar"), (9, "mode"), (7, "neither")])
def test_whom_fp32_joins(tmp_path: Path, token: int, side: str) -> None:
    own, exact = Judge(3, 0.02), Judge(token, 0.5)
    modes = {
        "ar": Reader({10: answer([1, 2], [1, 2, 3, 4]), 11: answer([5, 6])}),
        "self-spec": Reader({10: answer([1, 2], [1, 2, 9, 4, 4], text="b"), 11: replace(answer([5, 6]), n_guarded=1)}),
    }
    cases = [make_case(tmp_path, 10, "table"), make_case(tmp_path, 11)]
    report = bench_equality(modes, cases, Judges(own, exact))
    assert own.asked == exact.asked == [(1, [1, 2])]  # the second piece, behind the ids that both share
    row = report["modes"]["self-spec"]
    assert (row["n_crops"], row["n_sequences"], row["n_divergent"]) == (2, 3, 1)
    assert row["identical_to_ar"] == row["identical_strings"] == 0.5 and row["identical_sequences"] == 2 / 3
    assert row["fp32_sides_with"] == {"ar": 0, "mode": 0, "neither": 0} | {side: 1}
    assert row["median_margin"] == 0.02 and row["n_small_margins"] == 1 and row["guarded"] == 1 / 9
    (one,) = report["divergences"]
    assert (one["kind"], one["piece"], one["position"]) == ("table", 1, 2)
    assert (one["ar_token"], one["mode_token"], one["fp32_token"], one["sides_with"]) == (3, 9, token, side)
    assert (one["margin"], one["fp32_margin"]) == (0.02, 0.5)
    assert report["by_kind"]["text"]["self-spec"]["identical_to_ar"] == 1.0
    assert report["by_kind"]["table"]["self-spec"]["n_divergent"] == 1
    assert report["modes"]["ar"]["n_divergent"] == 0 and report["modes"]["ar"]["median_margin"] is None


def test_one_that_ends_earlier_parts_at_its_end(tmp_path: Path) -> None:
    modes = {"ar": Reader({10: answer([1, 2])}), "x": Reader({10: answer([1])})}
    (one,) = bench_equality(modes, [make_case(tmp_path, 10)], Judges(Judge(2, 1.0), Judge(2, 1.0)))["divergences"]
    assert (one["position"], one["ar_token"], one["mode_token"], one["sides_with"]) == (1, 2, None, "ar")


def test_ar_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="equality needs ar"):
        bench_equality({"x": Reader({})}, [make_case(tmp_path, 10)], Judges(Judge(1, 1.0), Judge(1, 1.0)))


def test_what_the_guard_is_worth_and_costs(tmp_path: Path) -> None:
    same = {name: Reader({10: replace(answer([1, 2, 3], decode_s=3.0), n_guarded=1)}) for name in ("ar", "x")}
    bare = {"ar": Reader({10: answer([1, 5, 3], decode_s=2.0)}), "x": Reader({10: answer([1, 2, 3], decode_s=1.0)})}
    judges = Judges(Judge(5, 0.01), Judge(2, 0.01))
    report = bench_equality(same, [make_case(tmp_path, 10)], judges, unguarded=bare)
    assert list(report["modes"]) == list(report["unguarded"]["modes"]) == ["ar", "x"]
    assert report["modes"]["x"]["identical_to_ar"] == 1.0 and report["divergences"] == []
    # Without the guard x parts from its own AR, not from the guarded one.
    assert report["unguarded"]["modes"]["x"]["identical_to_ar"] == 0.0
    assert [one["sides_with"] for one in report["unguarded"]["divergences"]] == ["mode"]
    assert report["guard_cost"]["x"] == {"x_time": 3.0, "guarded": 1 / 3, "identical_unguarded": 0.0}
    assert report["guard_cost"]["ar"]["x_time"] == 1.5
    assert "unguarded" not in bench_equality(same, [make_case(tmp_path, 10)], judges)
