"""Degenerate repetition: what a model writes that has lost its place, told from what repeats on good paper.

Loops go on for dozens of times and hold words. Leaders of dots, forms, and matrices or tables of zeros repeat without
words, so what holds none may repeat far longer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gravityocr.config import check_numbers

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"\\[A-Za-z]+|\\.|[{_CJK}]|[^\W\d_{_CJK}]+|\S", re.DOTALL)
_PLAIN = re.compile(
    r"\\(?:[^A-Za-z]|q?quad|[cldvia]*dots|cdotp?|hline|hfill|times|ast|star|bullet|circ|square|Box|phantom|hspace|left|right"
    r"|checkmark)?|[^\\\w]|[\d_]"
)
_PERIOD_WORDS = 48
_PERIOD_LINES = 8
_PERIOD_CELLS = 4
_FEW_WORDS = 12


@dataclass(frozen=True)
class RepetitionConfig:
    """What counts as degenerate.

    More than `max_repeats` times the same words or lines in a row (of `min_chars` characters at least), more than
    `max_rows` times the same table rows or cells, more than `max_plain` times what holds no word (`max_plain_rows`:
    rows), or less than `min_distinct` of all stretches of `n_gram` words distinct where there are `min_grams` of them.
    """

    max_repeats: int = 12
    max_rows: int = 24
    min_chars: int = 60
    max_plain: int = 1000
    max_plain_rows: int = 100
    n_gram: int = 8
    min_grams: int = 64
    min_distinct: float = 0.3

    def __post_init__(self) -> None:
        check_numbers(
            self, "filters.repetition.", max_repeats=(2, 10**6), max_rows=(2, 10**6), min_chars=(1, 10**6),
            max_plain=(2, 10**9), max_plain_rows=(2, 10**9), n_gram=(2, 64), min_grams=(8, 10**6),
            min_distinct=(0.0, 1.0),
        )  # fmt: skip


def text_repetition(text: str, config: RepetitionConfig) -> str | None:
    """Say what a text or formula repeats, None where it is sound."""
    words = _WORD.findall(text)
    if len(words) < _FEW_WORDS:
        return None
    lettered = np.array([_PLAIN.fullmatch(word) is None for word in words])
    ids = _numbered(words)
    found = _looping_words(words, ids, lettered, config)
    if found is None:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        found = _looping_lines(lines, config)
    return found or _few_distinct(ids, lettered, config)


def table_repetition(rows: Sequence[Sequence[str]], config: RepetitionConfig) -> str | None:
    """Say what a table of cell texts repeats: rows, cells in a row, or the words of a cell."""
    for row in rows:
        for cell in row:
            found = text_repetition(cell, config)
            if found:
                return f"{found} in a cell"
        found = _looping_rows(row, _PERIOD_CELLS, config.max_rows, config.max_plain_rows)
        if found:
            return f"{found} as cells of a row"
    joined = ["\t".join(row) for row in rows]
    found = _looping_rows(joined, _PERIOD_LINES, config.max_rows, config.max_plain_rows)
    if found:
        return f"{found} as rows"
    worded = [row for row in joined if _has_words(row)]
    if len(worded) >= config.min_grams and len({*worded}) < config.min_distinct * len(worded):
        return f"{len({*worded})} distinct rows of {len(worded)}"
    return None


def _numbered(items: Sequence[str]) -> NDArray[np.int64]:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(item, len(numbers)) for item in items], dtype=np.int64)


def _longest_cycle(ids: NDArray[np.int64], period: int) -> tuple[int, int]:
    """Return start and length of the longest stretch that repeats every `period` items."""
    same = np.zeros(len(ids) - period + 2, dtype=np.int8)
    same[1:-1] = ids[period:] == ids[:-period]
    edges = np.flatnonzero(np.diff(same))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(lengths.argmax())
    return int(edges[2 * longest]), int(lengths[longest]) + period


def _looping_words(
    words: Sequence[str], ids: NDArray[np.int64], lettered: NDArray[np.bool_], config: RepetitionConfig
) -> str | None:
    # A word that stands too rarely for a loop rules its periods out: most texts end here.
    if np.bincount(ids).max() <= min(config.max_repeats, config.max_plain):
        return None
    for period in range(1, min(_PERIOD_WORDS, len(ids) // 2) + 1):
        start, length = _longest_cycle(ids, period)
        if length // period <= config.max_repeats:
            continue
        unit = words[start : start + period]
        # Cells of one constant are a matrix, not a loop.
        is_plain = not lettered[start : start + period].any() or "&" in unit
        n_chars = sum(map(len, unit)) * (length // period)
        most = config.max_plain if is_plain else config.max_repeats
        if length // period > most and n_chars >= config.min_chars:
            return _said(" ".join(unit), length // period)
    return None


def _looping_lines(lines: Sequence[str], config: RepetitionConfig) -> str | None:
    found = _looping_rows(lines, _PERIOD_LINES, config.max_repeats, config.max_plain)
    return f"{found} as lines" if found and sum(map(len, lines)) >= config.min_chars else None


def _looping_rows(rows: Sequence[str], periods: int, most: int, most_plain: int) -> str | None:
    if len(rows) <= most or len(rows) - len({*rows}) < most - 1:
        return None
    ids = _numbered(rows)
    for period in range(1, min(periods, len(ids) // 2) + 1):
        start, length = _longest_cycle(ids, period)
        unit = " ".join(rows[start : start + period])
        if length // period > (most if _has_words(unit) else most_plain):
            return _said(unit, length // period)
    return None


def _few_distinct(ids: NDArray[np.int64], lettered: NDArray[np.bool_], config: RepetitionConfig) -> str | None:
    n_grams = len(ids) - config.n_gram + 1
    if n_grams < config.min_grams:
        return None
    keys = np.zeros(n_grams, dtype=np.uint64)
    least, most = np.full(n_grams, len(ids)), np.full(n_grams, -1)
    for offset in range(config.n_gram):
        inside = slice(offset, offset + n_grams)
        keys = keys * np.uint64(0x9E3779B97F4A7C15) + ids[inside].astype(np.uint64)
        least = np.minimum(least, np.where(lettered[inside], ids[inside], len(ids)))
        most = np.maximum(most, np.where(lettered[inside], ids[inside], -1))
    # Stretches of two different words: a matrix of one letter has none.
    keys = keys[least < most]
    if len(keys) < config.min_grams:
        return None
    share = len(np.unique(keys)) / len(keys)
    return f"{100 * share:.0f} % of {config.n_gram}-grams distinct" if share < config.min_distinct else None


def _has_words(text: str) -> bool:
    return any(_PLAIN.fullmatch(word) is None for word in _WORD.findall(text))


def _said(unit: str, n: int) -> str:
    return f"{unit[:40]!r} {n} times"
