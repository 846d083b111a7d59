"""The loop guard: content that a recognizer repeated without end is cut to one round, what follows it stays."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

LEAST_COVERED = 200
"""Characters that a loop covers at least: below that, reading over it is easier than guessing."""

_LONGEST_UNIT = 4000
_LEADER_LIMIT = 4000  # characters of dots and dashes that a form or a table of contents may have in a row
_ROW_LIMIT = 100  # equal rows or cells that a table may have in a row
_LEADER = re.compile(r"[\s.·…_\-–—=*~⋅•․‥]+")
_CELL = re.compile(r"</?t[rdh]\b", re.IGNORECASE)


def cut_loops(text: str) -> tuple[str, bool]:
    """Return the text with one round left of whatever repeats without end, and whether anything was cut.

    The text after a loop stays, but for the beginning of a round that the end of the text broke off. Left alone are
    30 equal rows of a table, the dots and dashes of forms and tables of contents, and short items that repeat.
    """
    was_cut = False
    position = 0
    while len(text) - position >= LEAST_COVERED:
        loop = _first_loop(text, position)
        if loop is None:
            break
        start, unit, length = loop
        start, end = _round_start(text, start, unit), start + length
        n_rounds = (end - start) // unit
        tail = text[start + n_rounds * unit :] if end < len(text) else ""
        position = start + unit
        text = text[:position] + tail
        was_cut = True
    return text, was_cut


def _round_start(text: str, start: int, unit: int) -> int:
    """Return where a round of a loop begins for a reader: with a line, else a sentence, else a word, else at once."""
    starts = range(start, start + unit)
    for boundary in ("\n", ". ", "。", " "):
        for place in starts:
            if place == 0 or text.endswith(boundary, 0, place) and not text[place].isspace():
                return place
    return start


def _first_loop(text: str, position: int) -> tuple[int, int, int] | None:
    """Return start, length of a round and whole length of the loop with the shortest round; None without one."""
    codes = _codes(text[position:])
    for unit in range(1, min(len(codes) // 10, _LONGEST_UNIT) + 1):
        for start, length in _runs(codes, unit):
            if length < LEAST_COVERED:
                continue
            begin = position + start
            if length >= unit * _limit(text[begin : begin + unit], unit):
                return begin, unit, length
    return None


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)


def _runs(codes: np.ndarray, unit: int) -> list[tuple[int, int]]:
    """Return start and length of every stretch that has the period `unit` for at least ten rounds."""
    same = np.concatenate(([False], codes[unit:] == codes[:-unit], [False])).astype(np.int8)
    edges = np.flatnonzero(np.diff(same))
    starts, ends = edges[::2], edges[1::2]
    long = ends - starts >= 9 * unit
    return [(int(start), int(end - start) + unit) for start, end in zip(starts[long], ends[long], strict=True)]


def _limit(repeated: str, unit: int) -> int:
    """Return how often this may repeat before it is a loop: shorter things repeat more often for good reasons."""
    if _LEADER.fullmatch(repeated):
        return max(2, _LEADER_LIMIT // unit)
    if _CELL.search(repeated):
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
    codes = _codes(body)
    found = [
        (start, unit) for unit in range(10, len(body) // 10 + 1) for start, _ in _runs(codes, unit)
    ]  # fmt: skip
    if found:
        start, unit = min(found)
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
