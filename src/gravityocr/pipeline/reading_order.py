"""Column-aware reading order: a recursive cut of the page at its white gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gravityocr.document import Box
from gravityocr.pipeline.layout import LayoutBox

_TOLERANCE = 0.006  # boxes may overlap by this share of the page before they stop being neighbours
_MIN_COLUMN = 0.12  # of the page's width: narrower ones are equation or line numbers, read with their lines
_FIRST, _LAST = frozenset({"header"}), frozenset({"footer", "page_number"})


def reading_order(boxes: Sequence[LayoutBox], size_px: tuple[int, int]) -> list[LayoutBox]:
    """Return the boxes as a reader meets them: headers, then columns left to right between spanning regions.

    The result depends on the boxes alone, never on the order in which they come.
    """
    page = _Page(_TOLERANCE * size_px[0], _TOLERANCE * size_px[1], _MIN_COLUMN * size_px[0])
    heads = [item for item in boxes if item.label in _FIRST]
    feet = [item for item in boxes if item.label in _LAST]
    body = [item for item in boxes if item.label not in _FIRST | _LAST]
    return [*_cut(heads, page), *_cut(body, page), *_cut(feet, page)]


@dataclass(frozen=True)
class _Page:
    """What counts as overlap and as a column on this page, in pixels."""

    slack_x_px: float
    slack_y_px: float
    min_column_px: float


def _cut(boxes: list[LayoutBox], page: _Page) -> list[LayoutBox]:
    """Order one group: by columns where a white gap runs through it, else by strips, else around a divider.

    Strips that share a white gap stay together, so that the gaps between paragraphs which happen to line up
    in two columns do not make the reader jump between them.
    """
    boxes = sorted(boxes, key=_top_left)
    if len(boxes) < 2:
        return boxes
    columns = _split(boxes, _across, page.slack_x_px)
    strips = _split(boxes, _down, page.slack_y_px)
    if _are_columns(columns, page):
        rows = _rows(strips, _gutter(columns), page)
        return [item for group in (rows if len(rows) > 1 else columns) for item in _cut(group, page)]
    if len(strips) > 1:
        return [item for group in _join_columns(strips, page) for item in _cut(group, page)]
    if len(columns) > 1:
        return [item for column in columns for item in _cut(column, page)]
    return _around_divider(boxes, page)


def _are_columns(groups: list[list[LayoutBox]], page: _Page) -> bool:
    widths = [max(i.box.x1 for i in group) - min(i.box.x0 for i in group) for group in groups]
    return len(groups) > 1 and min(widths) >= page.min_column_px


def _join_columns(strips: list[list[LayoutBox]], page: _Page) -> list[list[LayoutBox]]:
    """Join strips from top to bottom for as long as one white gap runs through all of them."""
    groups: list[list[LayoutBox]] = [strips[0]]
    for strip in strips[1:]:
        joined = groups[-1] + strip
        columns = _split(joined, _across, page.slack_x_px)
        if _are_columns(columns, page) and not _new_row(groups[-1], strip, _gutter(columns), page):
            groups[-1] = joined
        else:
            groups.append(strip)
    return groups


def _rows(strips: list[list[LayoutBox]], gutter_px: float, page: _Page) -> list[list[LayoutBox]]:
    """Part the strips of a group of columns where a new row of cards begins."""
    rows: list[list[LayoutBox]] = [strips[0]]
    for strip in strips[1:]:
        if _new_row(rows[-1], strip, gutter_px, page):
            rows.append(strip)
        else:
            rows[-1] = rows[-1] + strip
    return rows


def _new_row(above: list[LayoutBox], strip: list[LayoutBox], gutter_px: float, page: _Page) -> bool:
    """Tell whether a strip starts level in all its columns, below more white than stands between them."""
    tops = [min(i.box.y0 for i in column) for column in _split(strip, _across, page.slack_x_px)]
    white = min(tops) - max(item.box.y1 for item in above)
    return len(tops) > 1 and max(tops) - min(tops) <= page.slack_y_px and white > gutter_px


def _gutter(columns: list[list[LayoutBox]]) -> float:
    pairs = zip(columns, columns[1:], strict=False)
    return min(min(i.box.x0 for i in right) - max(i.box.x1 for i in left) for left, right in pairs)


def _around_divider(boxes: list[LayoutBox], page: _Page) -> list[LayoutBox]:
    """No gap at all: the widest box divides what begins above it from what begins below."""
    widest = max(boxes, key=lambda item: (item.box.width, -item.box.y0))
    middle = _middle(widest.box)
    above = [item for item in boxes if item is not widest and _middle(item.box) < middle]
    below = [item for item in boxes if item is not widest and _middle(item.box) >= middle]
    return [*_cut(above, page), widest, *_cut(below, page)]


def _split(
    boxes: list[LayoutBox], interval: Callable[[Box], tuple[float, float]], slack_px: float
) -> list[list[LayoutBox]]:
    """Return the groups that white gaps along one axis leave, in the order of that axis."""
    ordered = sorted(boxes, key=lambda item: (interval(item.box), _top_left(item)))
    groups: list[list[LayoutBox]] = []
    reach = float("-inf")
    for item in ordered:
        start, end = interval(item.box)
        # a box gives way by the slack, but never by more than a quarter of itself
        give = min(slack_px, 0.25 * (end - start))
        if groups and start + give < reach:
            groups[-1].append(item)
            reach = max(reach, end - give)
        else:
            groups.append([item])
            reach = end - give
    return groups


def _across(box: Box) -> tuple[float, float]:
    return box.x0, box.x1


def _down(box: Box) -> tuple[float, float]:
    return box.y0, box.y1


def _middle(box: Box) -> float:
    return (box.y0 + box.y1) / 2


def _top_left(item: LayoutBox) -> tuple[float, float, float, float, str]:
    box = item.box
    return box.y0, box.x0, box.y1, box.x1, item.native_label
