"""The grid of a table crop: its cells, with spans, and the lines of text in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from gravityocr.model.ink import Array, Components
from gravityocr.model.table_columns import Cut, Segment, find_cuts, find_segments
from gravityocr.model.table_ink import Rules, TableInk, read_table_ink
from gravityocr.model.table_rows import Item, Line, find_lines, group_rows
from gravityocr.model.table_spans import (
    column_edges,
    merge_labels,
    merge_ruled,
    merge_unruled,
    ruled_columns,
    spread_headings,
)
from gravityocr.model.table_words import Words, find_baseline, find_words, text_parts


@dataclass(frozen=True)
class GridCell:
    """Place a cell in its table: the row and the column that it starts in, and how many of each it fills."""

    row: int
    column: int
    n_rows: int
    n_columns: int


@dataclass(frozen=True)
class CellLine:
    """One line of text of a cell: its components, its box and its baseline, in pixels of the working image."""

    parts: tuple[int, ...]
    left: float
    right: float
    top: float
    bottom: float
    baseline: float


@dataclass(frozen=True)
class Grid:
    """Hold the cells of a table in row-major order, and the lines of text of each from top to bottom."""

    ink: TableInk
    parts: Components
    n_rows: int
    n_columns: int
    cells: tuple[GridCell, ...]
    lines: tuple[tuple[CellLine, ...], ...]


def find_grid(image: Image.Image) -> Grid | None:
    """Return the grid of a table crop, None where nothing is written."""
    ink = read_table_ink(image)
    if ink is None:
        return None
    parts = text_parts(ink)
    if len(parts) == 0:
        return None
    glyph = ink.glyph_px
    words = find_words(parts, glyph, ink.down)
    segments = find_segments(words, glyph, ink.down)
    rules = _places(ink.down, glyph)
    cuts = _useful_cuts(find_cuts(segments, rules, glyph), segments, glyph)
    clean = _without_marks(segments, words, parts, cuts, glyph)
    if len(clean) < len(segments):
        segments = clean
        cuts = _useful_cuts(find_cuts(segments, rules, glyph), segments, glyph)
    items = [item for segment in segments for item in _items(segment, words, parts, cuts, glyph)]
    items = _one_per_line(items, words, glyph)
    return _assemble(ink, parts, words, items, cuts)


def _without_marks(
    segments: list[Segment], words: Words, parts: Components, cuts: list[Cut], glyph: float
) -> list[Segment]:
    """Return the segments less lone dots, and less columns of a few strokes that no letter stands in."""
    marks, dots, columns = [], [], []
    for segment in segments:
        ids = words.parts(segment.words)
        slim = np.where(parts.height[ids] > 1.7 * glyph, 0.5, 0.32)
        letter = (parts.height[ids] >= 0.55 * glyph) & (parts.width[ids] >= slim * glyph)
        marks.append(not letter.any())
        dots.append(segment.right - segment.left < 0.4 * glyph and segment.bottom - segment.top < 0.4 * glyph)
        columns.append(sum(1 for cut in cuts if cut.at < (segment.left + segment.right) / 2))
    n_most = max(columns.count(column) for column in set(columns))
    junk = {c for c in set(columns)
            if columns.count(c) <= max(2, 0.4 * n_most)
            and all(m for m, column in zip(marks, columns, strict=True) if column == c)}  # fmt: skip
    kept = [s for s, d, c in zip(segments, dots, columns, strict=True) if not d and c not in junk]
    return kept or segments


def _places(rules: Rules, glyph: float) -> list[float]:
    """Return the places of ruling lines across their direction, neighbours taken together."""
    places: list[list[float]] = []
    for at in np.sort(rules.at):
        if places and at - places[-1][-1] <= 0.7 * glyph:
            places[-1].append(float(at))
        else:
            places.append([float(at)])
    return [float(np.mean(group)) for group in places]


def _useful_cuts(cuts: list[Cut], segments: list[Segment], glyph: float) -> list[Cut]:
    """Return the cuts that have text on either side; blank columns stay only between two ruling lines."""
    middles = np.array([(s.left + s.right) / 2 for s in segments])
    first, last = middles.min(), middles.max()
    inner = [cut for cut in cuts if first < cut.at < last]
    kept: list[Cut] = []
    for cut in inner:
        low = kept[-1].at if kept else -np.inf
        filled = ((middles > low) & (middles < cut.at)).any()
        ruled = kept and kept[-1].ruled and cut.ruled and cut.at - low > 1.2 * glyph
        if filled or ruled:
            kept.append(cut)
        elif kept and not kept[-1].ruled and cut.ruled:
            kept[-1] = cut
    return kept


def _items(segment: Segment, words: Words, parts: Components, cuts: list[Cut], glyph: float) -> list[Item]:
    """Return a segment cut where a column boundary falls into a gap that is wide for its words."""
    run = sorted(segment.words, key=lambda w: words.left[w])
    gaps = [float(words.left[b] - words.right[a]) for a, b in zip(run[:-1], run[1:], strict=True)]
    usual = float(np.median(gaps)) if len(gaps) > 2 else 0.5 * glyph
    pieces: list[list[int]] = [[run[0]]]
    for gap, before, word in zip(gaps, run[:-1], run[1:], strict=True):
        x0, x1 = float(words.right[before]), float(words.left[word])
        near = [cut for cut in cuts if x0 - 0.2 * glyph <= cut.end and x1 + 0.2 * glyph >= cut.start]
        if any(gap >= max((1.2 if cut.ruled else 0.65) * glyph, 1.5 * usual) for cut in near):
            pieces.append([])
        pieces[-1].append(word)
    return [_item(piece, words, parts, cuts, glyph) for piece in pieces]


def _item(run: list[int], words: Words, parts: Components, cuts: list[Cut], glyph: float) -> Item:
    left, right = float(words.left[run].min()), float(words.right[run].max())
    first = sum(1 for cut in cuts if cut.at < left + 0.35 * min(glyph, right - left))
    last = sum(1 for cut in cuts if cut.at < right - 0.35 * min(glyph, right - left))
    middle = sum(1 for cut in cuts if cut.at < (left + right) / 2)
    first, last = min(first, middle), max(last, middle)
    baseline = find_baseline(parts, words.parts(run), glyph)
    return Item(tuple(run), range(first, last + 1), left, right, float(words.top[run].min()),
                float(words.bottom[run].max()), baseline, float(words.right[run[0]] - words.left[run[0]]))  # fmt: skip


def _one_per_line(items: list[Item], words: Words, glyph: float) -> list[Item]:
    """Return the items with those of one cell and one line put together."""
    merged: list[Item] = []
    for item in sorted(items, key=lambda i: (i.columns.start, i.columns.stop, i.baseline, i.left)):
        last = merged[-1] if merged else None
        if last is not None and last.columns == item.columns and abs(item.baseline - last.baseline) <= 0.75 * glyph:
            a, b = (last, item) if last.left <= item.left else (item, last)
            long_ = last if last.right - last.left >= item.right - item.left else item
            merged[-1] = Item(a.words + b.words, a.columns, a.left, max(a.right, b.right), min(a.top, b.top),
                              max(a.bottom, b.bottom), long_.baseline, a.first_word_px)  # fmt: skip
        else:
            merged.append(item)
    return merged


def _assemble(ink: TableInk, parts: Components, words: Words, items: list[Item], cuts: list[Cut]) -> Grid:
    """Return the grid from the items and the boundaries of columns."""
    glyph, n_columns = ink.glyph_px, len(cuts) + 1
    edges = column_edges(items, cuts)
    levels, shares, ruled = [], [], []
    across = Rules(*(np.concatenate([getattr(ink.across, a), getattr(ink.bars, a)]) for a in ("at", "start", "end")))
    for level in _places(across, glyph):
        covered = ruled_columns(level, across, edges, glyph)
        if (covered >= 0.6).any():
            levels.append(level)
            shares.append(covered)
            ruled.append(ruled_columns(level, ink.across, edges, glyph))
    bands = [sum(1 for level in levels if level < (item.top + item.bottom) / 2) for item in items]
    items = spread_headings(items, find_lines(items, bands, glyph), cuts, ink.across, glyph)
    lines = find_lines(items, bands, glyph)
    boxed = _boxed_bands(levels, cuts)
    head = -1 if boxed else _head_band(lines, shares)
    row_of, beside = group_rows(items, lines, n_columns, glyph, boxed, head)
    spans = [beside.get(number, (row, row)) for number, row in enumerate(row_of)]
    row_of_item = {i: row_of[number] for number, line in enumerate(lines) for i in line.items}
    rectangles = [[spans[number][0], items[i].columns.start, spans[number][1], items[i].columns.stop - 1]
                  for number, line in enumerate(lines) for i in line.items]  # fmt: skip
    n_rows = max(row_of) + 1
    rectangles = _disjoint(rectangles + _titles(lines, items, row_of, n_columns))
    filled = np.zeros((n_rows, n_columns), dtype=np.bool_)
    for r0, c0, r1, c1 in rectangles:
        filled[r0 : r1 + 1, c0 : c1 + 1] = True
    extents, boundaries = _row_borders(items, lines, row_of, n_rows, ruled)
    n_head = len({row for line, row in zip(lines, row_of, strict=True) if line.band <= max(head, 0)})
    rectangles = merge_labels(rectangles, filled, n_head)
    rectangles = merge_ruled(rectangles, filled, extents, cuts, ink.down)
    rectangles = _disjoint(merge_unruled(rectangles, filled, boundaries, n_head, bool(boxed)))
    for r0, c0, r1, c1 in rectangles:
        filled[r0 : r1 + 1, c0 : c1 + 1] = True
    rectangles += [[int(r), int(c), int(r), int(c)] for r, c in zip(*np.nonzero(~filled), strict=True)]
    rectangles.sort()
    cells = tuple(GridCell(r0, c0, r1 - r0 + 1, c1 - c0 + 1) for r0, c0, r1, c1 in rectangles)
    owner = np.zeros((n_rows, n_columns), dtype=np.int64)
    for number, (r0, c0, r1, c1) in enumerate(rectangles):
        owner[r0 : r1 + 1, c0 : c1 + 1] = number
    contents: list[list[Item]] = [[] for _ in cells]
    for i, item in enumerate(items):
        contents[owner[row_of_item[i], item.columns.start]].append(item)
    texts = tuple(tuple(_cell_lines(own, words, glyph)) for own in contents)
    return Grid(ink, parts, n_rows, n_columns, cells, texts)


def _row_borders(
    items: list[Item], lines: list[Line], row_of: list[int], n_rows: int, shares: list[Array]
) -> tuple[list[tuple[float, float]], list[Array | None]]:
    """Return the upper and lower edge of every row, and what the rules between two rows cover."""
    extents, bands = [], []
    in_row: list[list[Line]] = [[] for _ in range(n_rows)]
    for line, row in zip(lines, row_of, strict=True):
        in_row[row].append(line)
    for own in in_row:
        inside = [items[i] for line in own for i in line.items]
        extents.append((min(i.top for i in inside), max(i.bottom for i in inside)))
        bands.append((own[0].band, own[-1].band))
    boundaries: list[Array | None] = []
    for above, below in zip(bands[:-1], bands[1:], strict=True):
        between = shares[above[1] : below[0]]
        boundaries.append(np.max(between, axis=0) if between else None)
    return extents, boundaries


def _titles(lines: list[Line], items: list[Item], row_of: list[int], n_columns: int) -> list[list[int]]:
    """Return whole rows for lines that hold nothing but one text over a boundary of columns."""
    found = []
    in_row: dict[int, list[int]] = {}
    for line, row in zip(lines, row_of, strict=True):
        in_row.setdefault(row, []).extend(line.items)
    for row, own in in_row.items():
        if all(items[i].columns == items[own[0]].columns for i in own) and len(items[own[0]].columns) > 1:
            found.append([row, items[own[0]].columns.start, row, n_columns - 1])
    return found


def _head_band(lines: list[Line], shares: list[Array]) -> int:
    """Return the last band of headings: those above the first rule under all columns, if they are few; -1 for none."""
    for band in range(lines[0].band, len(shares)):
        n_above = sum(line.band <= band for line in lines)
        if n_above and (shares[band] >= 0.6).mean() >= 0.92:
            return band if n_above <= 6 and 2 * n_above <= len(lines) + 2 and n_above < len(lines) else -1
    return -1


def _boxed_bands(levels: list[float], cuts: list[Cut]) -> set[int]:
    """Return the bands between horizontal rules, all or none: where most boundaries of columns are ruled."""
    ruled = sum(cut.ruled for cut in cuts)
    return set(range(len(levels) + 1)) if ruled and ruled >= 0.7 * len(cuts) and len(levels) >= 3 else set()


def _disjoint(rectangles: list[list[int]]) -> list[list[int]]:
    """Return the rectangles with overlapping ones replaced by what encloses them."""
    result = np.zeros((0, 4), dtype=np.int64)
    for rectangle in sorted({tuple(r) for r in rectangles}):
        current = np.array(rectangle)
        while True:
            hit = (result[:, 0] <= current[2]) & (current[0] <= result[:, 2])
            hit &= (result[:, 1] <= current[3]) & (current[1] <= result[:, 3])
            if not hit.any():
                break
            every = np.concatenate([result[hit], current[None]])
            current = np.concatenate([every[:, :2].min(axis=0), every[:, 2:].max(axis=0)])
            result = result[~hit]
        result = np.concatenate([result, current[None]])
    return [[int(v) for v in r] for r in result]


def _cell_lines(items: list[Item], words: Words, glyph: float) -> list[CellLine]:
    lines: list[list[Item]] = []
    for item in sorted(items, key=lambda i: i.baseline):
        if lines and item.baseline - lines[-1][0].baseline <= 0.75 * glyph:
            lines[-1].append(item)
        else:
            lines.append([item])
    found = []
    for line in lines:
        own = [word for item in line for word in item.words]
        ids = tuple(int(i) for i in words.parts(own))
        found.append(CellLine(ids, min(i.left for i in line), max(i.right for i in line), min(i.top for i in line),
                              max(i.bottom for i in line), line[0].baseline))  # fmt: skip
    return found
