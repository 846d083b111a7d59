"""The recursive cut of a page at its white gaps: strips from top to bottom, columns from left to right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gravityocr.document import Box
from gravityocr.pipeline.layout import LayoutBox

_TOLERANCE = 0.006  # boxes may overlap by this share of the page before they stop being neighbours
_WIDER = (1, 2, 4)  # times the tolerance, tried one after another: a page that lies askew closes its gaps
_MIN_COLUMN = 0.12  # of the page's width: narrower ones are equation or line numbers, read with their lines
_BESIDE = 0.3  # share of the lower column's height that must stand beside the other one
_FLOATS = frozenset({"figure", "table", "logo", "caption"})

_Boxes = list[LayoutBox]


@dataclass(frozen=True)
class PageScale:
    """What counts as overlap and as a column on a page.

    *Units*: pixels.
    """

    width_px: int
    height_px: int

    @property
    def slack_x_px(self) -> float:
        """Return by how much neighbours may overlap sideways."""
        return _TOLERANCE * self.width_px

    @property
    def slack_y_px(self) -> float:
        """Return by how much neighbours may overlap from top to bottom."""
        return _TOLERANCE * self.height_px

    @property
    def min_column_px(self) -> float:
        """Return the width from which on a group is a column."""
        return _MIN_COLUMN * self.width_px


def cut(boxes: Iterable[LayoutBox], page: PageScale) -> _Boxes:
    """Order one group: by strips, strips that share columns joined; a single strip by its columns.

    Strips that share a white gap stay together, so that the gaps between paragraphs which happen to line up
    in two columns do not make the reader jump between them. Without any gap, the widest box divides the group.
    """
    result: _Boxes = []
    groups = [list(boxes)]  # a stack, since hundreds of boxes that cover each other would nest calls as deep
    while groups:
        group = sorted(groups.pop(), key=top_left)
        if len(group) < 2:
            result += group
        else:
            groups += reversed(_parts(group, page))
    return result


def _parts(boxes: _Boxes, page: PageScale) -> list[_Boxes]:
    """Return the smaller groups that a group falls into, in reading order."""
    for wider in _WIDER:
        groups = _join_columns(split(boxes, _down, wider * page.slack_y_px), page, wider)
        if len(groups) == 1:
            groups = _columns(boxes, page, wider)
        if len(groups) == 1:
            groups = split(boxes, _across, wider * page.slack_x_px)
        if len(groups) > 1:
            return groups
    return _around_divider(boxes)


def split(boxes: _Boxes, interval: Callable[[Box], tuple[float, float]], slack_px: float) -> list[_Boxes]:
    """Return the groups that white gaps along one axis leave, in the order of that axis."""
    ordered = sorted(boxes, key=lambda item: (interval(item.box), top_left(item)))
    groups: list[_Boxes] = []
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


def top_left(item: LayoutBox) -> tuple[float, float, float, float, str, str, float]:
    """Return the key by which boxes stand from top to bottom, whatever order they come in."""
    box = item.box
    return box.y0, box.x0, box.y1, box.x1, item.native_label, item.label, item.score


def around(boxes: _Boxes) -> Box:
    """Return the smallest box around a group."""
    return Box(
        min(item.box.x0 for item in boxes),
        min(item.box.y0 for item in boxes),
        max(item.box.x1 for item in boxes),
        max(item.box.y1 for item in boxes),
    )


def _columns(boxes: _Boxes, page: PageScale, wider: float = 1) -> list[_Boxes]:
    """Return the columns that white gaps leave, one group where there are none.

    What is too narrow for a column goes with its nearest neighbour, and columns stand beside each other: short lines
    one below the other, one to the left and one to the right, are none.
    """
    columns = split(boxes, _across, wider * page.slack_x_px)
    while len(columns) > 1:
        bounds = [around(column) for column in columns]
        narrow = min(range(len(columns)), key=lambda k: bounds[k].width)
        if bounds[narrow].width >= page.min_column_px:
            break
        pairs = [k for k in (narrow - 1, narrow) if 0 <= k < len(columns) - 1]
        left = min(pairs, key=lambda k: bounds[k + 1].x0 - bounds[k].x1)
        columns[left : left + 2] = [columns[left] + columns[left + 1]]
    bounds = [around(column) for column in columns]
    if all(_beside(one, other) for one, other in zip(bounds, bounds[1:], strict=False)):
        return columns
    return [boxes]


def _beside(left: Box, right: Box) -> bool:
    shared = min(left.y1, right.y1) - max(left.y0, right.y0)
    return shared >= _BESIDE * min(left.height, right.height)


def _join_columns(strips: list[_Boxes], page: PageScale, wider: float) -> list[_Boxes]:
    """Join strips from top to bottom for as long as one white gap runs through all of them."""
    groups: list[_Boxes] = [strips[0]]
    for strip in strips[1:]:
        above = groups[-1]
        columns = _columns(above + strip, page, wider)
        if len(columns) > 1 and _goes_on(above, strip, columns, page):
            groups[-1] = above + strip
        else:
            groups.append(strip)
    return groups


def _goes_on(above: _Boxes, strip: _Boxes, columns: list[_Boxes], page: PageScale) -> bool:
    """Tell whether a strip continues the columns above it.

    It does not where the first column begins only in the strip (what is above then stands over all columns), where one
    of the two stands over several columns of the other, where text begins below pictures side by side, and where a new
    row of cards does.
    """
    first = {id(item) for item in columns[0]}
    if not any(id(item) in first for item in above):
        return False
    if _bridges(above, strip, page) or _bridges(strip, above, page):
        return False
    if len(_columns(above, page)) > 1 and _in_one(strip, page) and _only_floats(above) and not _only_floats(strip):
        return False
    return not _new_row(above, strip, _gutter(columns), page)


def _bridges(one: _Boxes, other: _Boxes, page: PageScale) -> bool:
    """Tell whether a group without a white gap stands over, or below, several columns of the other."""
    bounds, columns = around(one), [around(column) for column in _columns(other, page)]
    under = [min(column.x1, bounds.x1) - max(column.x0, bounds.x0) > 0.1 * column.width for column in columns]
    return _in_one(one, page) and sum(under) > 1


def _in_one(boxes: _Boxes, page: PageScale) -> bool:
    return len(split(boxes, _across, page.slack_x_px)) == 1


def _only_floats(boxes: _Boxes) -> bool:
    return all(item.label in _FLOATS for item in boxes)


def _new_row(above: _Boxes, strip: _Boxes, gutter_px: float, page: PageScale) -> bool:
    """Tell whether a strip starts level in all its columns, below more white than stands between them."""
    tops = [around(column).y0 for column in _columns(strip, page)]
    white = min(tops) - around(above).y1
    return len(tops) > 1 and max(tops) - min(tops) <= page.slack_y_px and white > gutter_px


def _gutter(columns: list[_Boxes]) -> float:
    pairs = zip(columns, columns[1:], strict=False)
    return min(around(right).x0 - around(left).x1 for left, right in pairs)


def _around_divider(boxes: _Boxes) -> list[_Boxes]:
    """No gap at all: the widest box divides what begins above it from what begins below."""
    widest = max(boxes, key=lambda item: (item.box.width, -item.box.y0))
    middle = _middle(widest.box)
    above = [item for item in boxes if item is not widest and _middle(item.box) < middle]
    below = [item for item in boxes if item is not widest and _middle(item.box) >= middle]
    return [group for group in (above, [widest], below) if group]


def _across(box: Box) -> tuple[float, float]:
    return box.x0, box.x1


def _down(box: Box) -> tuple[float, float]:
    return box.y0, box.y1


def _middle(box: Box) -> float:
    return (box.y0 + box.y1) / 2
