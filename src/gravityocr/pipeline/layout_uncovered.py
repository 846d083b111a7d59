"""Text that a detector cut off goes back to its region; what it missed altogether becomes regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gravityocr.document import Box, Label
from gravityocr.pipeline.ink import InkMap
from gravityocr.pipeline.layout_box import (
    LINE,
    TASKS,
    Edges,
    Flags,
    LayoutBox,
    as_one,
    edges,
    moved,
    runs_into,
    sides,
)
from gravityocr.pipeline.layout_furniture import like_page_numbers

_ACROSS, _DOWN = 0.02, 0.006  # gaps of a page's width, height over which cut-off text is given back
_BESIDE, _BELOW = 1, 2  # how a region takes blocks in: along its lines only, or also by a line above or below


def grown(boxes: Sequence[LayoutBox], ink: InkMap, size_px: tuple[int, int]) -> list[LayoutBox]:
    """Return the regions with the strokes that their edges cut, unless these are another region's."""
    all_edges = edges(boxes)
    return [_grown(place, item, ink, all_edges, size_px) for place, item in enumerate(boxes)]


def _grown(place: int, item: LayoutBox, ink: InkMap, boxes: Edges, size_px: tuple[int, int]) -> LayoutBox:
    if TASKS[item.label] is None:
        return item
    box = ink.grown(item.box).clamp(size_px) or item.box
    if item.polygon and _hardly_more(box, item.box, ink.scale):
        return item  # no stroke was cut, so the outline may stay
    return item if box == item.box or runs_into(box, place, boxes) else moved(item, box)


def _hardly_more(box: Box, inner: Box, slack_px: float) -> bool:
    """Tell whether a grown box is only its inner one on the raster of the ink map."""
    gains = (inner.x0 - box.x0, inner.y0 - box.y0, box.x1 - inner.x1, box.y1 - inner.y1)
    return max(gains) < slack_px


def with_uncovered(boxes: Sequence[LayoutBox], ink: InkMap, size_px: tuple[int, int]) -> list[LayoutBox]:
    """Give each uncovered block to the region that it was cut from; what is left becomes regions."""
    given = _Homes(boxes, size_px)
    waiting: list[tuple[Box, int | None]] = [(block, None) for block in ink.uncovered([item.box for item in boxes])]
    while True:
        # a block may reach its region only after the block between them has joined it
        rest = [(block, len(given.changed)) for block, seen in waiting if not given.take(block, seen)]
        if len(rest) == len(waiting):
            break
        waiting = list(rest)
    found = _Homes((), size_px, room=len(waiting))
    for block, _ in waiting:
        if not found.take(block):
            label: Label = "text" if ink.lined(block) else "figure"
            found.add(LayoutBox(block.clamp(size_px) or block, label, "uncovered", 0.0))
    numbers = like_page_numbers(found.items, given.items, size_px)
    pairs = zip(found.items, numbers, strict=True)
    return given.items + _stacked(
        [replace(item, label="page_number") if is_number else item for item, is_number in pairs], size_px
    )


class _Homes:
    """Regions that take in the blocks which continue them; `changed` lists the places of those that did, in order."""

    def __init__(self, items: Sequence[LayoutBox], size_px: tuple[int, int], room: int = 0) -> None:
        self.items: list[LayoutBox] = []
        self.changed: list[int] = []
        self._size_px = size_px
        self._edges = np.zeros((len(items) + room, 4))
        self._labels = np.zeros(len(items) + room, dtype=np.int8)
        for item in items:
            self.add(item)

    def add(self, item: LayoutBox) -> None:
        """Append a region; there must be room."""
        place = len(self.items)
        self._edges[place] = sides(item.box)
        takes = TASKS[item.label] is not None and item.label != "formula"
        self._labels[place] = 0 if not takes else _BESIDE if item.label == "table" else _BELOW
        self.items.append(item)

    def take(self, block: Box, seen: int | None = None) -> bool:
        """Let the nearest region that a block continues take it in; tell whether there is one.

        `seen` is the length of `changed` when the block found no home last: since regions only grow, and so only get
        in each other's way more, none but those that changed since can be one now.
        """
        recent = None if seen is None else sorted(set(self.changed[seen:]))
        if not self.items or recent == []:
            return False
        boxes = self._edges[: len(self.items)]
        places = np.arange(len(boxes)) if recent is None else np.array(recent)
        continued, distance = self._continued(block, boxes[places], self._labels[places])
        places, distance = places[continued], distance[continued]
        for place in places[np.argsort(distance, kind="stable")]:
            home = self.items[place]
            both = home.box.union(block)
            if not runs_into(both, int(place), boxes):
                self.items[place] = moved(home, both)
                self._edges[place] = sides(both)
                self.changed.append(int(place))
                return True
        return False

    def _continued(self, block: Box, boxes: Edges, labels: npt.NDArray[np.int8]) -> tuple[Flags, Edges]:
        """Flag the boxes that the block continues, along their lines or by one line up or down; tell how far off."""
        page_width, page_height = self._size_px
        x0, y0, x1, y1 = boxes.T
        across = np.maximum(np.maximum(x0 - block.x1, block.x0 - x1), 0.0) / page_width
        down = np.maximum(np.maximum(y0 - block.y1, block.y0 - y1), 0.0) / page_height
        width, height = np.clip(x1 - x0, 0, None), np.clip(y1 - y0, 0, None)
        level = np.clip(np.minimum(y1, block.y1) - np.maximum(y0, block.y0), 0, None) * width
        beside = (across <= _ACROSS) & (level > 0.6 * block.height * width)
        column = np.clip(np.minimum(x1, block.x1) - np.maximum(x0, block.x0), 0, None) * height
        # a line above or below a table is its caption or note, to be read as text
        below = (labels == _BELOW) & (down <= _DOWN) & (column > 0.9 * block.width * height)
        below &= block.height <= LINE * page_height
        return np.asarray((beside | below) & (labels != 0)), np.asarray(across + down)


def _stacked(found: list[LayoutBox], size_px: tuple[int, int]) -> list[LayoutBox]:
    """Join widely spaced lines that stand one below the other into paragraphs."""
    width, height = size_px
    result: list[LayoutBox] = []
    boxes, texts = np.zeros((len(found), 4)), np.zeros(len(found), dtype=bool)
    for item in sorted(found, key=lambda item: (item.box.y0, item.box.x0)):
        x0, y0, _, y1 = boxes[: len(result)].T
        gap = item.box.y0 - y1
        most = np.minimum(np.clip(y1 - y0, 0, None), min(item.box.height, LINE * height))
        next_line = (gap >= -_DOWN * height) & (gap <= most) & (np.abs(x0 - item.box.x0) <= 0.03 * width)
        next_line &= texts[: len(result)] & (item.label == "text" and item.box.height <= LINE * height)
        place = int(next_line.argmax()) if next_line.any() else len(result)
        if place < len(result):
            result[place] = as_one(result[place], item, result[place].box.union(item.box))
        else:
            result.append(item)
            texts[place] = item.label == "text"
        boxes[place] = sides(result[place].box)
    return result
