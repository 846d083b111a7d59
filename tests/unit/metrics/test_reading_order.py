"""Reading order: the distance of two sequences of numbers."""

from __future__ import annotations

import pytest

from gravityocr.metrics.reading_order import order_edit


@pytest.mark.parametrize(
    ("matches", "pred", "edit"),
    [
        ([([1], 0), ([2], 10), ([3], 20)], (1, 2, 3), 0.0),
        ([([1], 20), ([2], 10), ([3], 0)], (3, 2, 1), 2 / 3),
        ([([3], 0), ([1], 10), ([2], 20)], (3, 1, 2), 2 / 3),
        ([([1], 0), ([2], None), ([3], 20)], (1, 3), 1 / 3),
        ([([1], 0), ([2], ""), ([3], 20)], (1, 3), 1 / 3),
        ([([2, 1], 0)], (2, 1), 1.0),
        ([([1, 2], 0), ([3], 5)], (1, 2, 3), 0.0),
        ([([1], None)], (), 1.0),
        ([([1], 5), ([2], 5)], (1, 2), 0.0),  # of equal positions, the matches' order decides
        ([([2], 5), ([1], 5)], (2, 1), 1.0),
        ([([1.001], 0), ([1.002], 3)], (1.001, 1.002), 0.0),
    ],
)
def test_orders_are_compared(matches, pred: tuple[float, ...], edit: float) -> None:
    score = order_edit(matches)
    assert score.pred == pred
    assert score.edit == pytest.approx(edit)
    assert score.gt == tuple(sorted(order for orders, _ in matches for order in orders))


def test_what_has_no_place_in_the_order_does_not_count() -> None:
    score = order_edit([([None], 0), ([0], 3), ([2], 5), ([1, None], 9)])
    assert (score.gt, score.pred) == ((1, 2), (2, 1))


def test_predictions_without_ground_truth_do_not_count() -> None:
    assert order_edit([([1], 5), ([""], 0)]).pred == (1,)
    assert order_edit([([""], 0)]) is None


@pytest.mark.parametrize("matches", [[], [([None], 3)], [([0], None)]])
def test_without_an_order_there_is_no_score(matches) -> None:
    assert order_edit(matches) is None
