"""The lines of table cells as strips: scaled to the size that a checkpoint reads, parted where they are too long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from gravityocr.model.ink import Array, spread_max, weighted_quantile
from gravityocr.model.lines import measure_lines
from gravityocr.model.table_grid import CellLine, Grid

_LONG_GAP_PX, _SHORT_GAP_PX = 22.0, 16.0  # blanks over the first are closed to the second, as in text pieces
_MAX_ENLARGEMENT = 6.0


@dataclass(frozen=True)
class Patch:
    """Ink copied from the working image: the rectangle `source` there lies `x` to the right in the strip."""

    pixels: Array
    source: tuple[float, float, float, float]
    x: int
    scale: float


@dataclass(frozen=True)
class Strip:
    """One line of a cell, ready to be drawn: patches side by side, as high as a strip."""

    patches: tuple[Patch, ...]
    width: int


@dataclass(frozen=True)
class _Run:
    """Ink between two gaps of a line: from `start` to `end` in the working image, `gap` px of a strip before it."""

    start: float
    end: float
    gap: float


def cell_strips(grid: Grid, height: int, ink_px: int, max_width: int) -> list[list[Strip]]:
    """Return the strips of every cell of a grid, none wider than `max_width`."""
    flat = [line for lines in grid.lines for line in lines]
    types = _types(grid, flat)
    strips = iter([_strips(grid, line, t, height, ink_px, max_width) for line, t in zip(flat, types, strict=True)])
    return [[strip for _ in lines for strip in next(strips)] for lines in grid.lines]


def _types(grid: Grid, lines: list[CellLine]) -> list[tuple[float, float, float]]:
    """Return baseline, ascent and descent of every line; lines of about the usual size have just that."""
    parts, glyph = grid.parts, grid.ink.glyph_px
    groups = [np.array(line.parts, dtype=np.int64) for line in lines]
    letters = [ids[parts.height[ids] >= 0.55 * glyph] for ids in groups]
    measured = measure_lines(parts, letters)
    known = [(m[1], m[2], sum(parts.width[ids])) for m, ids in zip(measured, letters, strict=True) if m is not None]
    ascent, descent = 1.5 * glyph, 0.45 * glyph
    if known:
        weight = np.array([w for _, _, w in known])
        ascent = weighted_quantile(np.array([a for a, _, _ in known]), weight, 0.5)
        descent = weighted_quantile(np.array([d for _, d, _ in known]), weight, 0.5)
    types = []
    for line, m in zip(lines, measured, strict=True):
        size, seen = ascent + descent, line.bottom - line.top
        # Letters that touch look tall: another size has to show in the height of the line, too.
        larger = m is not None and m[1] + m[2] > 1.35 * size and seen > 1.15 * size
        smaller = m is not None and m[1] + m[2] < 0.72 * size and seen < 0.8 * size
        types.append(
            (line.baseline, m[1], m[2]) if m is not None and (larger or smaller) else (line.baseline, ascent, descent)
        )
    return types


def _strips(
    grid: Grid, line: CellLine, kind: tuple[float, float, float], height: int, ink_px: int, max_width: int
) -> list[Strip]:
    baseline, ascent, descent = kind
    scale = min(ink_px / max(ascent + descent, 1.0), _MAX_ENLARGEMENT / grid.ink.factor if grid.ink.factor < 1 else 3.0)
    up, down = baseline - line.top, max(line.bottom - baseline, 0.0)
    room = height - 3.0  # the rules of the table run along the borders of a strip
    if (up + down) * scale > room:
        scale *= max(0.72, room / ((up + down) * scale))
    base = (height - (ascent + descent) * scale) / 2 + ascent * scale
    if (up + down) * scale <= room:
        base = min(max(base, 1.5 + up * scale), height - 1.5 - down * scale)
    y0 = baseline - base / scale
    clean, filled, x0, top = _own_ink(grid, line, y0, height / scale)
    if not filled.any():
        return []
    strips = []
    for runs in _parted(_runs(filled, scale), scale, max_width):
        patches: list[Patch] = []
        x = 0.0
        for run in runs:
            x += run.gap if patches else 0.0
            width = max(1, int(np.ceil((run.end - run.start) * scale)))
            box = (run.start, y0 - top, run.start + width / scale, y0 - top + height / scale)
            pixels = _sampled(clean, box, width, height)
            source = (x0 + run.start, y0, x0 + box[2], y0 + height / scale)
            patches.append(Patch(pixels, source, round(x), scale))
            x = round(x) + width
        strips.append(Strip(tuple(patches), int(x)))
    return strips


def _own_ink(grid: Grid, line: CellLine, y0: float, tall: float) -> tuple[Array, Array, int, int]:
    """Return the ink of a line alone on white, the columns that it fills, and the left and top of that window."""
    pad = 3
    left, right = int(line.left) - pad, int(line.right) + pad
    top, bottom = int(np.floor(y0)), int(np.ceil(y0 + tall)) + 2
    height, width = grid.ink.grey.shape
    grey = np.full((bottom - top, right - left), 255, dtype=np.uint8)
    labels = np.full(grey.shape, -1, dtype=np.int32)
    rows, columns = slice(max(top, 0), min(bottom, height)), slice(max(left, 0), min(right, width))
    there = (slice(rows.start - top, rows.stop - top), slice(columns.start - left, columns.stop - left))
    grey[there], labels[there] = grid.ink.grey[rows, columns], grid.parts.labels[rows, columns]
    own = np.zeros(len(grid.parts) + 2, dtype=np.bool_)
    own[list(line.parts)] = True
    mine: Array = own[labels]
    near: Array = spread_max(mine.astype(np.uint8), pad) > 0
    foreign = (labels != -1) & ~mine
    if foreign.any():
        near &= (
            ~((spread_max(foreign.astype(np.uint8), 1) > 0) & ~(spread_max(mine.astype(np.uint8), 1) > 0)) & ~foreign
        )
    clean = np.where(near, grey, np.uint8(255))
    return clean, np.asarray(mine.any(axis=0)), left, top


def _sampled(pixels: Array, box: tuple[float, float, float, float], width: int, height: int) -> Array:
    """Return a rectangle of an image at the size of a strip, white where it reaches over the border."""
    over_x = max(0, int(np.ceil(box[2])) - pixels.shape[1])
    over_y = max(0, int(np.ceil(box[3])) - pixels.shape[0])
    if over_x or over_y:
        pixels = np.pad(pixels, ((0, over_y), (0, over_x)), constant_values=255)
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.LANCZOS, box=box))


def _runs(filled: Array, scale: float) -> list[_Run]:
    """Return the runs of ink of a line, in pixels of its window."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], filled.astype(np.int8), [0]])))
    starts, ends = edges[0::2].astype(np.float64), edges[1::2].astype(np.float64)
    gaps = np.concatenate([[0.0], (starts[1:] - ends[:-1]) * scale])
    return [_Run(max(a - 1, 0.0), b + 1, float(g)) for a, b, g in zip(starts, ends, gaps, strict=True)]


def _parted(runs: list[_Run], scale: float, max_width: int) -> list[list[_Run]]:
    """Return the runs as lines of at most `max_width`: blanks closed, letters of a word kept together."""
    pieces = [part for run in runs for part in _short(run, scale, max_width)]
    space = max(4.5, float(np.quantile([r.gap for r in pieces], 0.9)) * 0.55) if len(pieces) > 1 else 4.5
    lines: list[list[_Run]] = [[]]
    start = 0.0
    for i, run in enumerate(pieces):
        word_end = run.end
        for later in pieces[i + 1 :]:
            if later.gap >= space or (later.end - run.start) * scale > max_width:
                break
            word_end = later.end
        line = lines[-1]
        starts_word = run.gap >= space
        end = word_end if starts_word or not line else run.end
        closed = sum(max(0.0, r.gap - _SHORT_GAP_PX) for r in line[1:] + [run] if r.gap > _LONG_GAP_PX)
        if (
            line
            and (end - start) * scale - closed > max_width - 4
            and (starts_word or (run.end - start) * scale - closed > max_width - 4)
        ):
            lines.append([])
            line = lines[-1]
        if not line:
            start = run.start
        line.append(run)
    return [_closed(line) for line in lines]


def _short(run: _Run, scale: float, max_width: int) -> list[_Run]:
    """Return a run of joined ink in parts of at most `max_width`."""
    n_parts = int(np.ceil((run.end - run.start) * scale / max(1, max_width - 8)))
    if n_parts <= 1:
        return [run]
    edges = np.linspace(run.start, run.end, n_parts + 1)
    return [
        _Run(float(a), float(b), run.gap if i == 0 else 0.0)
        for i, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True))
    ]


def _closed(line: list[_Run]) -> list[_Run]:
    """Return one run for all that is copied in one go: only closed blanks part runs."""
    joined = [line[0]]
    for run in line[1:]:
        if run.gap > _LONG_GAP_PX:
            joined.append(_Run(run.start, run.end, _SHORT_GAP_PX))
        else:
            joined[-1] = _Run(joined[-1].start, max(joined[-1].end, run.end), joined[-1].gap)
    return joined
