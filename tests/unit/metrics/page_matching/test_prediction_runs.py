"""Neighbouring predictions that together make one block."""

from __future__ import annotations

import pytest
from tests.omnidoc_pages import HEIGHT

from gravityocr.metrics.page_matching.block_matching import NEAR, distances
from gravityocr.metrics.page_matching.prediction_runs import Run, has_window, join_runs


def joined(gt: list[str], pred: list[str]) -> list[tuple[int, ...]]:
    return join_runs(distances(gt, pred), gt, pred, NEAR)


def thirds(line: str) -> list[str]:
    n = len(line) // 3
    return [line[:n], line[n : 2 * n], line[2 * n :]]


def test_pieces_of_one_block_are_joined_and_whole_blocks_stay() -> None:
    pred = [HEIGHT[0], *thirds(HEIGHT[1]), HEIGHT[2]]
    assert joined(list(HEIGHT), pred) == [(0,), (1, 2, 3), (4,)]


def test_pieces_of_two_blocks_make_two_runs() -> None:
    assert joined(list(HEIGHT[:2]), [*thirds(HEIGHT[0]), *thirds(HEIGHT[1])]) == [(0, 1, 2), (3, 4, 5)]


def test_nothing_is_joined_where_every_block_has_a_prediction_or_none_is_free() -> None:
    assert joined(list(HEIGHT), list(HEIGHT)) == []
    assert joined(list(HEIGHT), list(HEIGHT[:2])) == []


def test_what_is_not_at_home_in_a_block_is_not_joined() -> None:
    first, second, third = thirds(HEIGHT[0])
    pred = [first, "qqqq zzzz kkkk jjjj xxxx", second, third]
    assert (0, 1) not in joined([HEIGHT[0]], pred)
    assert [j for run in joined([HEIGHT[0]], pred) for j in run] == [0, 1, 2, 3]


def test_runs_overlap_where_they_share_a_prediction() -> None:
    assert Run((1, 2), 0.1).overlaps(Run((2, 3), 0.2))
    assert not Run((1, 2), 0.1).overlaps(Run((3,), 0.2))


@pytest.mark.parametrize(
    ("line", "piece", "limit", "strict", "expected"),
    [
        ("the tower", "tower", 0.0, False, True),
        ("the tower", "tower", 0.0, True, False),
        ("the tower", "towex", 0.2, False, True),
        ("the tower", "towex", 0.2, True, False),
        ("the tower", "qqqqq", 0.9, True, False),
        ("the tower", "", 1.0, False, False),
        ("tower", "the tower", 1.0, False, False),
    ],
)
def test_windows(line: str, piece: str, limit: float, strict: bool, expected: bool) -> None:
    assert has_window(line, piece, limit, strict) is expected
