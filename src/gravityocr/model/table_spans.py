"""Cells that fill several columns or rows: what ruling lines, crossing text and the places of headings say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gravityocr.model.ink import Array
from gravityocr.model.table_columns import Cut
from gravityocr.model.table_ink import Rules
from gravityocr.model.table_rows import Item, Line

_MOSTLY, _HARDLY = 0.65, 0.25  # shares of a column's text that a ruling line covers, or does not


def column_edges(items: Sequence[Item], cuts: Sequence[Cut]) -> list[tuple[float, float]]:
    """Return the left and right edge of the text of every column; between its boundaries where it has none."""
    edges = []
    bounds = [-np.inf, *[cut.at for cut in cuts], np.inf]
    for column in range(len(cuts) + 1):
        own = [item for item in items if item.columns == range(column, column + 1)]
        low, high = bounds[column], bounds[column + 1]
        if own:
            low, high = min(i.left for i in own), max(i.right for i in own)
        elif not np.isfinite(low) or not np.isfinite(high):
            low = high = high if np.isfinite(high) else low
        edges.append((float(low), float(high)))
    return edges


def ruled_columns(level: float, across: Rules, edges: Sequence[tuple[float, float]], glyph: float) -> Array:
    """Return the share of every column's text that the ruling lines at one level cover."""
    near = np.abs(across.at - level) <= 0.75 * glyph
    shares = np.zeros(len(edges))
    for start, end in zip(across.start[near], across.end[near], strict=True):
        for column, (left, right) in enumerate(edges):
            shares[column] += max(0.0, min(end, right) - max(start, left)) / max(right - left, 1.0)
    return shares.clip(0.0, 1.0)


def spread_headings(
    items: list[Item], lines: Sequence[Line], cuts: Sequence[Cut], across: Rules, glyph: float
) -> list[Item]:
    """Return the items with those that head several columns standing in all of them.

    A ruling line below that reaches over just these columns shows it, or a place over the middle of columns that the
    next line fills and this one leaves empty.
    """
    edges = column_edges(items, cuts)
    result = list(items)
    for number, line in enumerate(lines[:6]):
        below = lines[number + 1] if number + 1 < len(lines) else None
        for i in line.items:
            taken = {c for j in line.items if j != i for c in result[j].columns}
            columns = _under_rule(result[i], across, edges, glyph)
            if columns is None and below is not None and below.band - line.band <= 1:
                columns = _centred_over(items, items[i], taken, below, edges, glyph)
            if columns is not None and not taken & set(columns):
                first, last = min(columns.start, result[i].columns.start), max(columns.stop, result[i].columns.stop)
                result[i] = replace(result[i], columns=range(first, last))
    return result


def _under_rule(item: Item, across: Rules, edges: Sequence[tuple[float, float]], glyph: float) -> range | None:
    """Return the columns that a ruling line just below an item reaches over, where it ends between columns."""
    left, right = edges[0][0], edges[-1][1]
    for at, start, end in zip(across.at, across.start, across.end, strict=True):
        if not -0.4 * glyph < at - item.bottom < 1.8 * glyph or start > item.left + glyph or end < item.right - glyph:
            continue
        if start <= left + glyph and end >= right - glyph:
            return None  # a rule below all columns says nothing
        shares = [max(0.0, min(end, b) - max(start, a)) / max(b - a, 1.0) for a, b in edges]
        covered = [c for c, share in enumerate(shares) if share >= _MOSTLY]
        unclear = [c for c, share in enumerate(shares) if _HARDLY < share < _MOSTLY]
        if len(covered) > 1 and not unclear:
            return range(covered[0], covered[-1] + 1)
    return None


def _centred_over(
    items: Sequence[Item], item: Item, taken: set[int], below: Line, edges: Sequence[tuple[float, float]], glyph: float
) -> range | None:
    """Return the columns over whose middle an item stands, rather than over its own."""
    if len(item.columns) != 1:
        return None
    own = item.columns.start
    middle = (item.left + item.right) / 2
    under = [items[j] for j in below.items if own in items[j].columns]
    off_own = min((abs(middle - (u.left + u.right) / 2) for u in under), default=0.0)
    if off_own < 0.6 * glyph:
        return None
    aligned = abs(item.right - edges[own][1]) < 0.3 * glyph
    if aligned or any(abs(item.left - u.left) < 0.3 * glyph for u in under):
        return None
    free = set(below.columns) - taken
    best: tuple[float, range] | None = None
    for first in range(own, -1, -1):
        if first not in free:
            break
        for last in range(own, len(edges)):
            if last not in free:
                break
            own_items = [items[j] for j in below.items if first <= items[j].columns.start <= last]
            if first == last or not own_items:
                continue
            off = abs(middle - (min(u.left for u in own_items) + max(u.right for u in own_items)) / 2)
            off = min(off, abs(middle - (edges[first][0] + edges[last][1]) / 2))
            if off <= min(1.8 * glyph, 0.35 * off_own) and (best is None or off < best[0]):
                best = off, range(first, last + 1)
    return best[1] if best else None


def merge_ruled(
    rectangles: list[list[int]], filled: Array, extents: Sequence[tuple[float, float]], cuts: Sequence[Cut], down: Rules
) -> list[list[int]]:
    """Return more rectangles: neighbours in a row with vertical rules, but none between these two."""
    merged = [list(r) for r in rectangles]
    for row, (top, bottom) in enumerate(extents):
        ruled = [_rule_share(cut, down, top, bottom) for cut in cuts]
        if not any(share >= 0.6 for share in ruled):
            continue
        for number, (cut, share) in enumerate(zip(cuts, ruled, strict=True)):
            if cut.ruled and share < 0.3 and filled[row, number] + filled[row, number + 1] < 2:
                merged.append([row, number, row, number + 1])
    return merged


def merge_labels(rectangles: list[list[int]], filled: Array, n_head: int) -> list[list[int]]:
    """Return more rectangles: labels stand over a second column that few rows fill and no heading names."""
    merged = [list(r) for r in rectangles]
    if filled.shape[1] < 3 or filled.shape[0] < 4:
        return merged
    head = max(n_head, 1)
    if filled[:head, 1].any() or not filled[:head, 0].any() or filled[:, 1].mean() > 0.3:
        return merged
    rows = np.flatnonzero(filled[:, 0] & ~filled[:, 1])
    return merged + [[int(row), 0, int(row), 1] for row in rows]


def _rule_share(cut: Cut, down: Rules, top: float, bottom: float) -> float:
    if not cut.ruled:
        return 0.0
    near = np.abs(down.at - cut.at) <= 8
    inside = np.minimum(down.end[near], bottom) - np.maximum(down.start[near], top)
    return float(inside.clip(0).sum() / max(bottom - top, 1.0))


def merge_unruled(
    rectangles: list[list[int]], filled: Array, boundaries: Sequence[Array | None], n_head: int, boxed: bool
) -> list[list[int]]:
    """Return more rectangles: cells one above the other where a rule parts their neighbours, but not them.

    `boundaries` holds for every boundary between rows which share of each column a rule covers, None where none is.
    """
    merged = [list(r) for r in rectangles]
    for row, shares in enumerate(boundaries):
        if shares is None or not (shares >= _MOSTLY).any() or ((shares > _HARDLY) & (shares < _MOSTLY)).any():
            continue
        open_ = np.flatnonzero(shares <= _HARDLY)
        prefix = open_.size and bool((open_ == np.arange(len(open_))).all())
        for column in open_:
            if filled[row, column] + filled[row + 1, column] == 1 and (row < n_head or boxed or prefix):
                merged.append([row, int(column), row + 1, int(column)])
    return merged
