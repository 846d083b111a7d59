"""Headers, footers and page numbers: which ones are believed, and which lone block is one that no detector saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gravityocr.document import Box, Label
from gravityocr.pipeline.layout_box import LINE, Edges, LayoutBox, edges

_OUTER = 0.13  # of the page's height, top and bottom: a header or footer that lies there is believed
_MARGIN = 0.08  # of the page's height, top and bottom: a small block that lies there needs no distance from the text
_DEPTH, _NUMBER_DEPTH = (
    0.25,
    0.5,
)  # of the page's height, the farthest inside: a line; a number under half a page of text
_GAP = 0.018  # of the page's height: furniture farther inside is set off from the text by more than its lines are
_NARROW, _NUMBER = 0.5, 0.06  # of the page's width: a header or footer, a page number
_LOW = 0.02  # of the page's height: larger print is a title
FURNITURE: frozenset[Label] = frozenset({"header", "footer", "page_number", "logo", "aside"})
"""What lies around the text of a page: it may stand beyond a header or footer."""


def believed(boxes: Sequence[LayoutBox], size_px: tuple[int, int]) -> list[LayoutBox]:
    """Call headers and footers text that lie inside the page's text.

    At the outer edge they are believed. Farther inside they must be one short line, set off from the text, with
    nothing but other furniture beside and beyond them: documents with wide margins have them there.
    """
    body = _extent(edges(item for item in boxes if item.label not in FURNITURE))

    def ends(box: Box) -> bool:
        outer = box.y1 <= _OUTER * size_px[1] or box.y0 >= (1 - _OUTER) * size_px[1]
        return outer or (_is_short(box, size_px) and _set_off(box, body, size_px))

    return [
        item if item.label not in ("header", "footer") or ends(item.box) else replace(item, label="text")
        for item in boxes
    ]


def like_page_numbers(found: Sequence[LayoutBox], given: Sequence[LayoutBox], size_px: tuple[int, int]) -> list[bool]:
    """Tell which blocks that no detector saw are page numbers: small and alone above or below the text.

    In the margin it is enough that the given regions end before. Farther inside, the other blocks must, too, and there
    must be a gap; so only the first and the last block can be one.
    """
    if not found:
        return []
    height = size_px[1]
    top, bottom = _extent(edges(item for item in given if item.label not in ("header", "footer")))
    boxes = edges(found)
    alone: dict[int, tuple[float, float]] = {}
    for place in {int(boxes[:, 1].argmin()), int(boxes[:, 3].argmax())}:
        first, last = _extent(np.delete(boxes, place, axis=0))
        alone[place] = (min(top, first), max(bottom, last))

    def is_number(place: int, box: Box) -> bool:
        if not _is_number(box, size_px):
            return False
        if box.y1 < _MARGIN * height:
            return top >= box.y1
        if box.y0 > (1 - _MARGIN) * height:
            return bottom <= box.y0
        outside = box.y1 <= _DEPTH * height or box.y0 >= (1 - _DEPTH) * height
        return place in alone and outside and _set_off(box, alone[place], size_px)

    return [is_number(place, item.box) for place, item in enumerate(found)]


def _extent(body: Edges) -> tuple[float, float]:
    """Return where boxes begin and end on the page."""
    return (float(body[:, 1].min()), float(body[:, 3].max())) if len(body) else (math.inf, -math.inf)


def _set_off(box: Box, body: tuple[float, float], size_px: tuple[int, int]) -> bool:
    """Tell whether a box stands above or below the text, with a gap between, not too far inside the page."""
    height = size_px[1]
    lowest = _NUMBER_DEPTH if _is_number(box, size_px) else _DEPTH
    above = box.y1 <= _DEPTH * height and body[0] - box.y1 >= _GAP * height
    return above or (box.y0 >= (1 - lowest) * height and box.y0 - body[1] >= _GAP * height)


def _is_short(box: Box, size_px: tuple[int, int]) -> bool:
    return box.width <= _NARROW * size_px[0] and box.height <= _LOW * size_px[1]


def _is_number(box: Box, size_px: tuple[int, int]) -> bool:
    return box.width <= _NUMBER * size_px[0] and box.height <= LINE * size_px[1]
