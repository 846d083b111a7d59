"""Rows of a table: ruling lines part them, otherwise the spacing of its lines and which columns they fill."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

_LOOSE = 1.22  # a line pitch so many times the usual one inside of cells starts a row
_STEP = 1.12  # ratio of neighbouring pitches that parts those inside of cells from those between rows
_OFFSET = 1.35  # in glyph heights: lines nearer than this are set beside each other, not below


@dataclass(frozen=True)
class Item:
    """One line of text in one cell: the words, the columns that it stands in, its box and its baseline."""

    words: tuple[int, ...]
    columns: range
    left: float
    right: float
    top: float
    bottom: float
    baseline: float
    first_word_px: float


@dataclass
class Line:
    """Items on one baseline, `band` is the space between two ruling lines that they stand in."""

    baseline: float
    band: int
    items: list[int] = field(default_factory=list)
    columns: set[int] = field(default_factory=set)


def find_lines(items: list[Item], bands: list[int], glyph: float) -> list[Line]:
    """Return the items (given with the band of each) put together to lines by their baselines."""
    lines: list[Line] = []
    for i in sorted(range(len(items)), key=lambda i: (bands[i], items[i].baseline)):
        item = items[i]
        last = lines[-1] if lines else None
        if last is None or last.band != bands[i] or item.baseline - last.baseline > 0.6 * glyph:
            lines.append(Line(item.baseline, bands[i]))
            last = lines[-1]
        last.items.append(i)
        last.columns.update(item.columns)
        last.baseline = float(np.median([items[j].baseline for j in last.items]))
    return lines


def group_rows(
    items: list[Item], lines: list[Line], n_columns: int, glyph: float, boxed: set[int], head: int
) -> tuple[list[int], dict[int, tuple[int, int]]]:
    """Return the row of every line, and for lines that stand beside two rows the first and the last.

    Bands in `boxed` have rules on all sides of their cells: there lines start rows only where all columns do. The
    bands up to `head` hold the headings.
    """
    floating = [i for i in _between(lines, glyph) if lines[i].band not in boxed]
    kept = [i for i in range(len(lines)) if i not in floating]
    beside_two = {j for i in floating for j in (i - 1, i + 1)}
    starts = _row_starts(items, [lines[i] for i in kept], n_columns, glyph, boxed, head,
                         [i in beside_two for i in kept])  # fmt: skip
    row_of = [-1] * len(lines)
    row = -1
    for i, start in zip(kept, starts, strict=True):
        row += int(start)
        row_of[i] = row
    beside: dict[int, tuple[int, int]] = {}
    for i in floating:
        row_of[i] = row_of[i - 1]
        beside[i] = (row_of[i - 1], row_of[i + 1])
    return row_of, beside


def _between(lines: list[Line], glyph: float) -> list[int]:
    """Return the lines set half way between two lines of other columns."""
    found = []
    for i in range(1, len(lines) - 1):
        above, line, below = lines[i - 1 : i + 2]
        if not above.band == line.band == below.band:
            continue
        half_way = line.baseline - above.baseline < _OFFSET * glyph and below.baseline - line.baseline < _OFFSET * glyph
        apart = not line.columns & (above.columns | below.columns)
        if half_way and apart and len(line.columns) <= min(len(above.columns), len(below.columns)):
            found.append(i)
    return found


def _row_starts(
    items: list[Item],
    lines: list[Line],
    n_columns: int,
    glyph: float,
    boxed: set[int],
    head: int,
    beside_two: list[bool],
) -> list[bool]:
    """Tell for every line whether it starts a row."""
    if not lines:
        return []
    pitch = [np.inf] + [
        b.baseline - a.baseline if a.band == b.band else np.inf for a, b in zip(lines[:-1], lines[1:], strict=True)
    ]
    widest = _widest_inner_pitch([p for p in pitch if _OFFSET * glyph <= p < 6 * glyph], glyph)
    usual = float(np.quantile([len(line.columns) for line in lines], 0.75))
    full = [_is_full(line, usual) or (two and len(line.columns) > 1)
            for line, two in zip(lines, beside_two, strict=True)]  # fmt: skip
    between_full = [pitch[i] for i in range(1, len(lines))
                    if full[i] and full[i - 1] and pitch[i] < np.inf and lines[i].band > head]  # fmt: skip
    row_pitch = float(np.median(between_full)) if between_full else None
    runs = _tight_runs(pitch, widest, lines, head)
    widths = _column_widths(items, n_columns)
    crowded = sum(sum(full[i] for i in run) > 1 for run in runs) > 0.4 * len(runs) or len(runs) < 3
    starts = [True] * len(lines)
    for run in runs:
        band = lines[run[0]].band
        n_full = sum(full[i] for i in run)
        inside = max((pitch[i] for i in run[1:]), default=0.0)
        loose_around = len(runs) > 1 and len(run) <= 7 and (row_pitch is None or inside <= 0.88 * row_pitch)
        columns_so_far: set[int] = set(lines[run[0]].columns)
        for before, i in zip(run[:-1], run[1:], strict=True):
            if band in boxed:
                starts[i] = _all_columns_start(lines, run, n_columns)
            elif band <= head or _heads(items, lines[before], lines[i]):
                starts[i] = _heads(items, lines[before], lines[i])
            elif pitch[i] < _OFFSET * glyph or (
                loose_around and (n_full <= 1 or not crowded and 2 * n_full <= len(run) + 1)
            ):
                starts[i] = False
            else:
                starts[i] = not _continues(
                    items, lines[before], lines[i], columns_so_far, full[i], pitch[i], row_pitch, widths, glyph
                )
            columns_so_far = set(lines[i].columns) if starts[i] else columns_so_far | lines[i].columns
    return starts


def _is_full(line: Line, usual: float) -> bool:
    """Tell whether a line fills the columns that a row fills as a rule; a label beside it may be missing."""
    n = len(line.columns)
    return n >= max(2.0, 0.75 * usual) or (n >= 4 and 0 not in line.columns and n >= 0.9 * (usual - 1))


def _heads(items: list[Item], above: Line, line: Line) -> bool:
    """Tell whether a line has columns that an item of the line above spans."""
    spans = [set(items[i].columns) for i in above.items if len(items[i].columns) > 1]
    return any(len(span & line.columns) > 1 for span in spans)


def _widest_inner_pitch(pitches: list[float], glyph: float) -> float:
    """Return the widest pitch that lines of one cell may have: up to the first clear step between pitches."""
    if not pitches:
        return 2.7 * glyph
    steps = np.sort(pitches)
    steps = steps[steps >= 0.9 * float(np.quantile(steps, 0.1))]
    ratio = steps[1:] / steps[:-1]
    clear = np.flatnonzero((ratio >= _STEP) & (steps[:-1] <= 3.2 * glyph))
    if clear.size:
        return float(np.sqrt(steps[clear[0]] * steps[clear[0] + 1]))
    return _LOOSE * float(np.median(steps[steps <= 1.2 * steps[0]]))


def _tight_runs(pitch: list[float], widest: float, lines: list[Line], head: int) -> list[list[int]]:
    """Return the lines in runs without a wide space; headings are set wider."""
    runs: list[list[int]] = []
    for i, p in enumerate(pitch):
        if i == 0 or p > (1.25 if lines[i].band <= head else 1.0) * widest:
            runs.append([])
        runs[-1].append(i)
    return runs


def _all_columns_start(lines: list[Line], run: list[int], n_columns: int) -> bool:
    """Tell whether in a box all lines fill the same columns, several of them: rows without rules between."""
    columns = lines[run[0]].columns
    return len(columns) >= 2 and all(lines[i].columns == columns for i in run) and len(run) >= 3 and n_columns >= 3


def _column_widths(items: list[Item], n_columns: int) -> list[tuple[float, float]]:
    """Return the left edge and the greatest right edge of the text of every column."""
    edges = []
    for column in range(n_columns):
        own = [item for item in items if item.columns == range(column, column + 1)]
        edges.append((min((i.left for i in own), default=0.0), max((i.right for i in own), default=np.inf)))
    return edges


def _continues(
    items: list[Item],
    above: Line,
    line: Line,
    row_columns: set[int],
    is_full: bool,
    pitch: float,
    row_pitch: float | None,
    widths: list[tuple[float, float]],
    glyph: float,
) -> bool:
    """Tell whether a line close below another goes on with its cells."""
    new_columns = bool(line.columns - row_columns)
    if is_full or new_columns:
        return False
    if row_pitch is not None and pitch >= 0.9 * row_pitch:  # lines stand as close as rows: was the text wrapped?
        if len(line.columns) > max(1, 0.3 * len(row_columns)) or pitch > min(1.06 * row_pitch, 2.8 * glyph):
            return False
        return all(_wrapped(items, above, i, widths) for i in (items[j] for j in line.items))
    return True


def _wrapped(items: list[Item], above: Line, item: Item, widths: list[tuple[float, float]]) -> bool:
    """Tell whether the first word of a line would not have fitted in the line above."""
    column = item.columns[0]
    left, right = widths[column]
    before = [items[i] for i in above.items if items[i].columns == item.columns]
    if not before or not np.isfinite(right):
        return False
    indent = 0.5 * (item.bottom - item.top)
    if item.left < before[0].left - indent and item.right < before[0].right - indent:
        return False  # further left than the line above, and not centred below it
    used = max(before[0].right - left, before[0].right - before[0].left)
    return used + item.first_word_px * 1.05 + 0.3 * (item.bottom - item.top) >= right - left
