"""Reading order of the regions of a page, in languages that run from left to right and from top to bottom."""

from __future__ import annotations

from collections.abc import Sequence

from gravityocr.pipeline.layout import LayoutBox
from gravityocr.pipeline.reading_order_cut import PageScale, cut
from gravityocr.pipeline.reading_order_groups import insert_notes, joined_floats, part_footnotes, part_notes

_FIRST, _LAST = frozenset({"header"}), frozenset({"footer", "page_number"})


def reading_order(boxes: Sequence[LayoutBox], size_px: tuple[int, int]) -> list[LayoutBox]:
    """Return the boxes as a reader meets them: headers, the body, notes at its foot, footers and page numbers.

    The body is read column by column between regions that span the columns; captions stay with their pictures and
    tables, a note in the margin comes after the region beside it. Where boxes have an `order` of their own, it is kept,
    and those without one come after the box that goes before them by geometry. The result depends on the boxes alone,
    never on the order in which they come.
    """
    page = PageScale(*size_px)
    heads = [item for item in boxes if item.label in _FIRST]
    feet = [item for item in boxes if item.label in _LAST]
    body = [item for item in boxes if item.label not in _FIRST | _LAST]
    return [*cut(heads, page), *_own_order(body, _body(body, page)), *cut(feet, page)]


def _body(boxes: Sequence[LayoutBox], page: PageScale) -> list[LayoutBox]:
    text, footnotes = part_footnotes(boxes, page)
    text, notes = part_notes(text, page)
    units = joined_floats(text, page)
    ordered: list[LayoutBox] = []
    for unit in cut([unit.whole for unit in units], page):
        members = next(one.members for one in units if one.whole is unit)
        ordered += members if len(members) == 1 else cut(members, page)
    return [*insert_notes(ordered, notes, page), *cut(footnotes, page)]


def _own_order(boxes: Sequence[LayoutBox], by_geometry: list[LayoutBox]) -> list[LayoutBox]:
    """Return the boxes in the detector's order, and each without a place in it after its forerunner by geometry."""
    if all(item.order is None for item in boxes):
        return by_geometry
    places = {id(item): place for place, item in enumerate(by_geometry)}
    known = [item for item in by_geometry if item.order is not None]
    result = sorted(known, key=lambda item: (item.order or 0, places[id(item)]))
    for place, item in enumerate(by_geometry):
        if item.order is None:
            before = by_geometry[place - 1] if place else None
            at = next((k + 1 for k, other in enumerate(result) if other is before), 0)
            result.insert(at, item)
    return result
