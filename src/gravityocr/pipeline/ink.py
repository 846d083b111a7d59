"""The ink of a page: is there any, where, and what of it no region covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from gravityocr.document import Box

_LONG_SIDE_PX = 1000  # ink is looked for on a copy of this size: a 10 pt line is then about 12 px high
_CONTRAST = 36  # grey steps between a stroke and the paper on both its sides
_STROKE_PX = 15  # wider dark areas are pictures, borders or panels, not strokes
_RULE_PX = 72  # no letter has an unbroken run of ink this long
_TILE_PX = 40  # paper is dark or light by the median of a tile about three lines high
_DARK_PAGE = 0.6  # share of dark tiles from which the page counts as dark
_CELL_PX = 6  # blobs grow over cells of this size: less than a paragraph gap, more than a line gap
_MIN_HEIGHT_PX = 5  # a lone digit is about 4 x 9 px
_MIN_INK_PX = 14
_EDGE = 0.03  # of the page's width or height
_THREE_LINES_PX = 42
_GROW_ACROSS_PX = 12  # a box may cut a letter in two
_GROW_DOWN_PX = 4  # or the tails of a line, but a whole line is another matter

Mask = npt.NDArray[np.bool_]
Grey = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class InkMap:
    """Where a page has strokes.

    *Shapes*: `mask` bool `[height, width]` of the small copy. *Units*: `scale` = page pixels per mask pixel.
    `flat` tells that not even the brightness varies, `dark` that most of the page is dark paper.
    """

    mask: Mask
    scale: float
    flat: bool
    dark: bool = False

    @property
    def blank(self) -> bool:
        """Tell whether the page shows nothing at all: no strokes and no picture."""
        return self.flat and not self._blobs(self.mask)

    def bounds(self) -> Box | None:
        """Return the box around everything that could be text."""
        blobs = self._blobs(self.mask)
        if not blobs:
            return None
        box = blobs[0]
        for blob in blobs[1:]:
            box = box.union(blob)
        return self._page_box(box)

    def uncovered(self, boxes: Sequence[Box]) -> list[Box]:
        """Return boxes around the blocks of strokes that lie outside all of `boxes`, in page pixels."""
        rest = self.mask.copy()
        for box in boxes:
            x0, y0 = int(box.x0 / self.scale) - 1, int(box.y0 / self.scale) - 1
            x1, y1 = int(box.x1 / self.scale) + 2, int(box.y1 / self.scale) + 2
            rest[max(0, y0) : max(0, y1), max(0, x0) : max(0, x1)] = False
        return [self._page_box(blob) for blob in self._blobs(rest)]

    def grown(self, box: Box) -> Box:
        """Return the box with its edges moved out to where the strokes that they cut end, a little at most."""
        height, width = self.mask.shape
        scaled = Box(*(value / self.scale for value in (box.x0, box.y0, box.x1, box.y1)))
        x0, y0, x1, y1 = scaled.pixels((width, height))
        for _ in range(_GROW_ACROSS_PX):
            left = x0 > 0 and bool(self.mask[y0:y1, x0].any())
            right = x1 < width and bool(self.mask[y0:y1, x1 - 1].any())
            x0, x1 = x0 - left, x1 + right
        for _ in range(_GROW_DOWN_PX):
            top = y0 > 0 and bool(self.mask[y0, x0:x1].any())
            bottom = y1 < height and bool(self.mask[y1 - 1, x0:x1].any())
            y0, y1 = y0 - top, y1 + bottom
        return self._page_box(Box(float(x0), float(y0), float(x1), float(y1))).union(box)

    def lined(self, box: Box) -> bool:
        """Tell whether a block looks like lines of text: three at most, or with white between them."""
        scaled = Box(*(value / self.scale for value in (box.x0, box.y0, box.x1, box.y1)))
        x0, y0, x1, y1 = scaled.pixels((self.mask.shape[1], self.mask.shape[0]))
        if y1 - y0 <= _THREE_LINES_PX:
            return True
        rows = self.mask[y0:y1, x0:x1].sum(axis=1)
        return float((rows <= 0.2 * np.median(rows[rows > 0])).mean()) >= 0.1

    def _page_box(self, box: Box) -> Box:
        return Box(box.x0 * self.scale, box.y0 * self.scale, box.x1 * self.scale, box.y1 * self.scale)

    def _blobs(self, mask: Mask) -> list[Box]:
        """Return the boxes of connected strokes that could be text, so no specks."""
        found: list[Box] = []
        for cells in _connected(_cells(mask)):
            rows, columns = cells[:, 0], cells[:, 1]
            y0, x0 = int(rows.min()) * _CELL_PX, int(columns.min()) * _CELL_PX
            window = mask[y0 : (int(rows.max()) + 1) * _CELL_PX, x0 : (int(columns.max()) + 1) * _CELL_PX]
            ys, xs = np.flatnonzero(window.any(axis=1)), np.flatnonzero(window.any(axis=0))
            box = Box(x0 + float(xs[0]), y0 + float(ys[0]), x0 + float(xs[-1] + 1), y0 + float(ys[-1] + 1))
            large_enough = box.height >= _MIN_HEIGHT_PX and box.width >= 2 and int(window.sum()) >= _MIN_INK_PX
            if large_enough and not self._shadow(box):
                found.append(box)
        return found

    def _shadow(self, box: Box) -> bool:
        """Tell whether a block is a dirty edge of a scan: long, thin and at the border of the page."""
        height, width = self.mask.shape
        upright = min(box.x0, width - box.x1) < _EDGE * width and box.height > 2.5 * box.width
        level = min(box.y0, height - box.y1) < _EDGE * height and box.width > 40 * box.height
        return upright or level


def ink_map(image: Image.Image) -> InkMap:
    """Find the strokes of an RGB or grey page image, dark on light or light on dark, rules left out."""
    factor = max(1, round(max(image.size) / _LONG_SIDE_PX))
    small = image.convert("L") if factor == 1 else image.reduce(factor).convert("L")
    grey = np.asarray(small, dtype=np.uint8)
    dark_paper = _dark_paper(grey)
    strokes = _strokes(grey) & ~dark_paper
    if dark_paper.any():
        strokes |= _strokes(255 - grey) & dark_paper
    low, high = np.percentile(grey, (0.5, 99.5))
    flat, dark = bool(high - low < _CONTRAST), bool(dark_paper.mean() > _DARK_PAGE)
    return InkMap(strokes & ~_rules(strokes), image.width / small.width, flat, dark)


def _strokes(grey: Grey) -> Mask:
    """Dark lines narrower than `_STROKE_PX`: what a closing of that size fills in."""
    closed = 255 - _spread(255 - _spread(grey, _STROKE_PX), _STROKE_PX)
    return closed.astype(np.int16) - grey > _CONTRAST


def _spread(values: Grey, size: int) -> Grey:
    """Maximum over a centred square of odd `size`, one axis after the other, by doubling the window."""
    for axis in (0, 1):
        pad = [(size // 2, size // 2) if other == axis else (0, 0) for other in (0, 1)]
        padded = np.pad(values, pad, mode="edge")
        width = 1
        while width < size:
            step = min(width, size - width)
            length = padded.shape[axis] - step
            padded = np.maximum(padded.take(range(length), axis), padded.take(range(step, step + length), axis))
            width += step
        values = padded
    return values


def _rules(strokes: Mask) -> Mask:
    """Pixels on straight lines of at least `_RULE_PX`: frames, underlines, the grid of a table."""
    found = np.zeros_like(strokes)
    for view, target in ((strokes, found), (strokes.T, found.T)):
        if view.shape[1] < _RULE_PX:
            continue
        totals = np.cumsum(np.pad(view, ((0, 0), (1, 0))), axis=1, dtype=np.int32)
        full = totals[:, _RULE_PX:] - totals[:, :-_RULE_PX] >= _RULE_PX - 1
        for row, column in np.argwhere(full):
            target[row, column : column + _RULE_PX] = True
    # a rule's soft edge is not ink either
    return np.asarray(_spread(found.astype(np.uint8), 3) > 0)


def _dark_paper(grey: Grey) -> Mask:
    height, width = grey.shape
    rows, columns = -(-height // _TILE_PX), -(-width // _TILE_PX)
    padded = np.pad(grey, ((0, rows * _TILE_PX - height), (0, columns * _TILE_PX - width)), mode="edge")
    tiles = padded.reshape(rows, _TILE_PX, columns, _TILE_PX).transpose(0, 2, 1, 3)
    dark = np.median(tiles.reshape(rows, columns, -1), axis=2) < 128
    return dark.repeat(_TILE_PX, axis=0).repeat(_TILE_PX, axis=1)[:height, :width]


def _cells(mask: Mask) -> Mask:
    height, width = mask.shape
    rows, columns = -(-height // _CELL_PX), -(-width // _CELL_PX)
    padded = np.pad(mask, ((0, rows * _CELL_PX - height), (0, columns * _CELL_PX - width)))
    return np.asarray(padded.reshape(rows, _CELL_PX, columns, _CELL_PX).sum(axis=(1, 3)) > 1)


def _connected(cells: Mask) -> list[npt.NDArray[np.int_]]:
    """Return groups of ink cells; a gap of one empty cell sideways still joins (words of a line)."""
    open_cells = {(int(row), int(column)) for row, column in np.argwhere(cells)}
    steps = [(dy, dx) for dy in (-1, 0, 1) for dx in (-2, -1, 0, 1, 2) if (dy, dx) != (0, 0)]
    groups: list[npt.NDArray[np.int_]] = []
    for seed in sorted(open_cells):
        if seed not in open_cells:
            continue
        open_cells.discard(seed)
        group, front = [seed], [seed]
        while front:
            row, column = front.pop()
            for dy, dx in steps:
                cell = (row + dy, column + dx)
                if cell in open_cells:
                    open_cells.discard(cell)
                    group.append(cell)
                    front.append(cell)
        groups.append(np.array(group))
    return groups
