"""One detected region, the task that its label is read with, and many boxes as one array."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gravityocr.document import Box, Label, Polygon, Task

TASKS: dict[Label, Task | None] = {
    "doc_title": "text",
    "title": "text",
    "text": "text",
    "list": "text",
    "reference": "text",
    "caption": "text",
    "footnote": "text",
    "aside": "text",
    "code": "text",
    "formula_number": "text",
    "header": "text",
    "footer": "text",
    "page_number": "text",
    "table": "table",
    "formula": "formula",
    "figure": None,
    "logo": None,
}
"""The task that each label is read with; None is kept as an image."""

LINE = 0.025
"""Of the page's height: no single line of text is taller."""

Edges = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LayoutBox:
    """One detected region: where it is, what it is in our words and in the detector's, how sure it is.

    `order` is its place in the detector's own reading order and `polygon` its outline in pixels, where there is one.
    """

    box: Box
    label: Label
    native_label: str
    score: float = 1.0
    order: int | None = None
    polygon: Polygon = ()


def moved(item: LayoutBox, box: Box) -> LayoutBox:
    """Return the region with another box; its outline does not go with that one."""
    return replace(item, box=box, polygon=())


def as_one(first: LayoutBox, second: LayoutBox, box: Box) -> LayoutBox:
    """Return `first` with the box of both, at the place in reading order of the earlier."""
    orders = [item.order for item in (first, second) if item.order is not None]
    return replace(moved(first, box), order=min(orders, default=None))


def sides(box: Box) -> tuple[float, float, float, float]:
    """Return the box as a row of `edges`."""
    return box.x0, box.y0, box.x1, box.y1


def edges(items: Iterable[LayoutBox]) -> Edges:
    """Return the boxes of regions, `[n, 4]`: hundreds of them are compared at once, not one by one."""
    return np.array([sides(item.box) for item in items], dtype=np.float64).reshape(-1, 4)


def areas(boxes: Edges) -> Edges:
    """Return each box's area."""
    return np.asarray(np.clip(boxes[:, 2] - boxes[:, 0], 0, None) * np.clip(boxes[:, 3] - boxes[:, 1], 0, None))


def intersections(box: Box, boxes: Edges) -> Edges:
    """Return the area that one box shares with each of many."""
    width = np.minimum(box.x1, boxes[:, 2]) - np.maximum(box.x0, boxes[:, 0])
    height = np.minimum(box.y1, boxes[:, 3]) - np.maximum(box.y0, boxes[:, 1])
    return np.asarray(np.clip(width, 0, None) * np.clip(height, 0, None))


def runs_into(box: Box, place: int, boxes: Edges) -> bool:
    """Tell whether `box` in the place of one of `boxes` would take ground from another one."""
    now = Box(*(float(value) for value in boxes[place]))
    gained = intersections(box, boxes) - intersections(now, boxes)
    gained[place] = 0.0
    return bool((gained > 0.1 * (box.area - now.area)).any())
