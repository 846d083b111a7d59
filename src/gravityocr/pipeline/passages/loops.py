"""The loop guard: content that a recognizer repeated without end is cut to one round, what follows it stays."""

from __future__ import annotations

import re
from collections import Counter

from gravityocr.pipeline.passages.repeats import LEAST_ROUNDS, codes_of, stretches

LEAST_COVERED = 200
"""Characters that a loop covers at least: below that, reading over it is easier than guessing."""

LONGEST_TEXT = 200_000
"""Characters that the text of one region has at most: no page holds more."""

_LONGEST_UNIT = 4000
_LEADER_LIMIT = 4000  # characters of dots and dashes that a form or a table of contents may have in a row
_ROW_LIMIT = 100  # equal rows or cells that a table may have in a row
_LEADER = re.compile(r"[\s.·…_\-–—=*~⋅•․‥]+")
_CELL = re.compile(r"</?t[rdh]\b", re.IGNORECASE)


def cut_length(text: str) -> tuple[str, str | None]:
    """Return at most the first `LONGEST_TEXT` characters of a text, and the reason where some were cut."""
    if len(text) <= LONGEST_TEXT:
        return text, None
    return text[:LONGEST_TEXT], f"{len(text)} characters were read: the first {LONGEST_TEXT} are kept"


def cut_loops(text: str) -> tuple[str, bool]:
    """Return the text with one round left of whatever repeats without end, and whether anything was cut.

    The text after a loop stays, but for the beginning of a round that the end of the text broke off. Left alone are
    30 equal rows of a table, the dots and dashes of forms and tables of contents, and short items that repeat.
    """
    if len(text) < LEAST_COVERED:
        return text, False
    out: list[str] = []
    position = 0
    for stretch in stretches(codes_of(text), _LONGEST_UNIT, LEAST_COVERED):
        start, end = max(stretch.start, position), stretch.start + stretch.length
        unit = _loop_unit(text, start, end, stretch.unit)
        if unit is None:
            continue
        start = _round_start(text, start, unit)
        out.append(text[position : start + unit])
        position = start + (end - start) // unit * unit if end < len(text) else len(text)
    return "".join([*out, text[position:]]), bool(out)


def _loop_unit(text: str, start: int, end: int, period: int) -> int | None:
    """Return the shortest multiple of a period that repeats too often; None where none does."""
    length = end - start
    longest = min(length // LEAST_ROUNDS, _LONGEST_UNIT)
    if length < LEAST_COVERED or period > longest:
        return None
    once, twice = text[start : start + period], text[start : start + 2 * period]
    is_leader = _LEADER.fullmatch(once) is not None
    has_cell, seam_cell = _CELL.search(once) is not None, _CELL.search(twice) is not None
    for unit in range(period, longest + 1, period):
        if length >= unit * _limit(unit, is_leader, has_cell if unit == period else seam_cell):
            return unit
    return None


def _round_start(text: str, start: int, unit: int) -> int:
    """Return where a round of a loop begins for a reader: with a line, else a sentence, else a word, else at once."""
    starts = range(start, start + unit)
    for boundary in ("\n", ". ", "。", " "):
        for place in starts:
            if place == 0 or text.endswith(boundary, 0, place) and not text[place].isspace():
                return place
    return start


def _limit(unit: int, is_leader: bool, has_cell: bool) -> int:
    """Return how often this may repeat before it is a loop: shorter things repeat more often for good reasons."""
    if is_leader:
        return max(2, _LEADER_LIMIT // unit)
    if has_cell:
        return _ROW_LIMIT
    return 100 if unit < 8 else 50 if unit < 20 else 20


def cut_like_sdk(text: str) -> str:
    """Return what the GLM-OCR SDK leaves of a text: up to the first of ten repeats of ten or more characters.

    Only texts of 2,048 characters and more are looked at. Without such repeats, a line that makes up four fifths of
    ten or more lines ends the text where it first stands three times in a row.
    """
    if len(text) < 2048:
        return text
    body = text.strip()
    first: tuple[int, int] | None = None
    for one in stretches(codes_of(body), len(body) // LEAST_ROUNDS, 10 * LEAST_ROUNDS):
        unit = one.unit * -(-10 // one.unit)  # its first multiple of ten and more characters
        if unit * LEAST_ROUNDS <= one.length and (first is None or (one.start, unit) < first):
            first = one.start, unit
    if first is not None:
        start, unit = first
        return body[: start + unit]
    lines = text.split("\n")
    filled = [(place, line.strip()) for place, line in enumerate(lines) if line.strip()]
    if len(filled) < 10:
        return text
    common, count = Counter(line for _, line in filled).most_common(1)[0]
    if count < 10 or count / len(filled) < 0.8:
        return text
    for k in range(len(filled) - 2):
        if all(line == common for _, line in filled[k : k + 3]):
            return "\n".join(lines[: filled[k][0] + 1])
    return text
