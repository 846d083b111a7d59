"""Formulas aligned in reading order; the brute-force oracle is in the property tests."""

from __future__ import annotations

from gravityocr.metrics.page_matching.formula_alignment import MAX_PAIRS_WITH_GAPS, align


def aligned(gt: list[str], pred: list[str], sources=None, joinable=None, gaps: bool = False) -> list[list[int]]:
    n = len(pred)
    return align(gt, pred, sources or list(range(n)), joinable or [True] * n, [False] * n, gaps)


def test_an_empty_side_aligns_with_nothing() -> None:
    assert aligned([], ["a"]) == [] and aligned(["a"], []) == []


def test_order_is_kept() -> None:
    assert aligned(["a=b", "c=d"], ["a=b", "c=d"]) == [[0], [1]]
    # Both in their places would need them swapped.
    assert aligned(["aaaa", "cccc"], ["cccc", "aaaa"], joinable=[False, False]) in ([[], [0]], [[1], []], [[0], [1]])


def test_a_missing_formula_stays_alone() -> None:
    assert aligned(["a=b", "xyz+1", "c=d"], ["a=b", "c=d"]) == [[0], [], [1]]


def test_neighbours_are_joined_where_they_may_be() -> None:
    assert aligned(["abcd efgh"], ["abcd", "efgh"]) == [[0, 1]]
    assert aligned(["abcd efgh"], ["abcd", "efgh"], joinable=[True, False]) in ([[0]], [[1]])


def test_rows_of_one_source_are_joined_whatever_they_are() -> None:
    assert aligned(["abcd efgh"], ["abcd", "efgh"], sources=[7, 7], joinable=[False, False]) == [[0, 1]]


def test_gaps_lie_within_one_source() -> None:
    gt, pred = ["abcd ijkl"], ["abcd", "????????", "ijkl"]
    assert aligned(gt, pred, sources=[7, 7, 7], gaps=True) == [[0, 2]]
    assert [0, 2] not in aligned(gt, pred, sources=[7, 7, 7])
    assert [0, 2] not in aligned(gt, pred, sources=[7, 8, 9], gaps=True)


def test_gaps_are_not_looked_for_on_huge_pages() -> None:
    n = int(MAX_PAIRS_WITH_GAPS**0.5) + 1
    formulas = [f"x_{i}={i * i}" for i in range(n)]
    assert aligned(formulas, formulas, sources=[0] * n, gaps=True) == [[i] for i in range(n)]


def test_display_formulas_win_ties_over_inline_ones() -> None:
    assert align(["a=b"], ["a=b", "a=b"], [0, 1], [False, True], [True, False], False) == [[1]]
