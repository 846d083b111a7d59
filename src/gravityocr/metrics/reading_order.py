"""Reading order: the edit distance between the order of the ground truth and the order in which a page was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein


@dataclass(frozen=True)
class OrderScore:
    """Hold the orders that were compared and their normalised edit distance.

    `gt` is ascending; `pred` has the same numbers in the order in which the predictions stand, those without a
    prediction left out.
    """

    edit: float
    gt: tuple[float, ...]
    pred: tuple[float, ...]


def order_edit(matches: Sequence[tuple[Sequence[float | None | str], float | None | str]]) -> OrderScore | None:
    """Compare reading orders, given the order numbers of every match and where its prediction stands.

    A match without a prediction has the position None or ""; one without ground truth has the orders `[""]`. Order
    numbers of 0 or None are no part of the order. None is returned where neither side has one.

    >>> order_edit([([1], 0), ([2], 20), ([3], 10)]).pred
    (1, 3, 2)

    *Source*: OmniDocBench v1.6, reading order.
    """
    real = [(orders, at) for orders, at in matches if list(orders) != [""]]
    gt = sorted(_numbers([order for orders, _ in real for order in orders]))
    placed = sorted(((at, orders) for orders, at in real if isinstance(at, int | float)), key=lambda item: item[0])
    pred = _numbers([order for _, orders in placed for order in orders])
    longer = max(len(gt), len(pred))
    if not longer:
        return None
    return OrderScore(Levenshtein.distance(gt, pred) / longer, tuple(gt), tuple(pred))


def _numbers(orders: Sequence[float | None | str]) -> list[float]:
    return [order for order in orders if isinstance(order, int | float) and order]
