"""The words of a text layer that stand in one region, put into lines."""

from __future__ import annotations

import statistics
import unicodedata
from collections.abc import Iterable, Sequence

from gravityocr.document import Box, PlacedText

_SMALL = 0.7  # of the usual word height: below it, a word is an index or an exponent of the line that it stands in
_TALL = 1.6  # of the usual word height: above it, a word is an initial or a bracket over several lines
_UPRIGHT = 1.5  # height over width from which a word of several characters is written downwards
_GUTTER = 0.6  # share of a region's lines that one white gap must run through to part it into columns
_FEWEST = 3  # lines with such a gap: below it, a gap says nothing of columns

_Line = list[PlacedText]


def words_to_text(words: Sequence[PlacedText], *, by_rows: bool = False) -> str:
    """Return the words of one region in lines from top to bottom, parted by newlines.

    Where a white gap parts the region into columns, and in vertical writing, the words stay in the layer's own order;
    with `by_rows`, as in a table, lines go across columns all the same.
    """
    if not words:
        return ""
    if _is_vertical(words):
        return " ".join(word.text for word in words)
    lines = _lines(words)
    if not by_rows and _has_columns(lines):
        lines = [[words[k] for k in run] for run in _own_lines(words, range(len(words)))]
    return "\n".join(" ".join(word.text for word in line) for line in lines)


def _is_vertical(words: Sequence[PlacedText]) -> bool:
    several = [word.box.height > _UPRIGHT * word.box.width for word in words if len(word.text) > 1]
    return bool(several) and sum(several) > len(several) / 2


def _usual_height(words: Iterable[PlacedText]) -> float:
    return statistics.median_high(word.box.height for word in words)


def _own_lines(words: Sequence[PlacedText], chosen: Iterable[int]) -> list[list[int]]:
    """Return the layer's own lines: runs of words of which each goes on to the right of the one before."""
    lines: list[list[int]] = []
    for k in chosen:
        before = words[lines[-1][-1]].box if lines else None
        if before is not None and words[k].box.x0 >= before.x0 and _level(before, words[k].box):
            lines[-1].append(k)
        else:
            lines.append([k])
    return lines


def _level(one: Box, other: Box) -> bool:
    """Tell whether two words share more than half of the lower one's height."""
    return min(one.y1, other.y1) - max(one.y0, other.y0) > 0.5 * min(one.height, other.height)


def _lines(words: Sequence[PlacedText]) -> list[_Line]:
    """Return lines from top to bottom, whatever the layer's own order of them.

    Words of usual size make the lines, beginning with the layer's own runs, so that a page's slope does not mix
    neighbouring lines; words of other sizes join the line that they belong to.
    """
    usual = _usual_height(words)
    plain = [k for k, word in enumerate(words) if _SMALL * usual <= word.box.height <= _TALL * usual]
    runs = _own_lines(words, plain)
    lines: list[list[int]] = []
    for run in sorted(runs, key=lambda run: _place([words[k] for k in run])):
        inside = [words[k] for k in run]
        line = next((line for line in reversed(lines[-8:]) if _continues([words[k] for k in line], inside)), None)
        if line is None:
            lines.append(run)
        else:
            line += run
    of_word = {k: line for line in lines for k in line}
    for k in range(len(words)):
        if k not in of_word:
            of_word[_neighbour(words, k, plain, usual)].append(k)
    return [_in_line([words[k] for k in sorted(line)]) for line in lines]


def _place(run: _Line) -> tuple[float, float]:
    return statistics.mean((word.box.y0 + word.box.y1) / 2 for word in run), run[0].box.x0


def _continues(line: _Line, run: _Line) -> bool:
    """Tell whether a run stands in a gap or at an end of a line, level with the words next to it."""
    start, end = min(word.box.x0 for word in run), max(word.box.x1 for word in run)
    give = 0.25 * min(word.box.height for word in run)
    if any(word.box.x0 < end - give and word.box.x1 > start + give for word in line):
        return False
    nearest = min(line, key=lambda word: max(word.box.x0 - end, start - word.box.x1))
    facing = run[0] if nearest.box.x0 < start else run[-1]
    return _level(nearest.box, facing.box)


def _neighbour(words: Sequence[PlacedText], k: int, plain: Sequence[int], usual: float) -> int:
    """Return the word of usual size whose line a small word (the nearest one) or a tall one (at its top) belongs to."""
    box = words[k].box
    if box.height > usual:
        box = Box(box.x0, box.y0, box.x1, box.y0 + usual)

    def apart(other: int) -> tuple[float, float]:
        there = words[other].box
        right = max(there.x0 - box.x1, box.x0 - there.x1, 0.0)
        down = max(there.y0 - box.y1, box.y0 - there.y1, 0.0)
        middles = abs(there.y0 + there.y1 - box.y0 - box.y1) / 2
        return right + 2 * down, middles

    return min(plain, key=apart)


def _in_line(line: _Line) -> _Line:
    """Return a line from left to right, or as the layer has it where it is Arabic or Hebrew."""
    kinds = [unicodedata.bidirectional(char) for word in line for char in word.text]
    if sum(kind in ("R", "AL") for kind in kinds) > sum(kind == "L" for kind in kinds):
        return line
    return sorted(line, key=lambda word: word.box.x0)


def _has_columns(lines: Sequence[_Line]) -> bool:
    """Tell whether the lines have a white gap at one and the same place, wider than a word's."""
    usual = _usual_height(word for line in lines for word in line)
    edges: list[tuple[float, int]] = []
    for line in lines:
        for left, right in zip(line, line[1:], strict=False):
            if right.box.x0 - left.box.x1 > usual:
                edges += [(left.box.x1, 1), (right.box.x0, -1)]
    most = depth = 0
    for _, step in sorted(edges):
        depth += step
        most = max(most, depth)
    return most >= max(_FEWEST, _GUTTER * len(lines))
