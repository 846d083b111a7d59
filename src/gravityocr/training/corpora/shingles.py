"""What two targets have in common, as sets of hashes: shingles of words and characters, cells, formula shingles.

A shingle is a run of neighbouring words (or, where words have no blanks between them, characters) after case, white
space, hyphens, punctuation and markup are gone. 64-bit hashes stand for all of them: among 10^9 lookups in an index
of 10^7 one in a thousand runs meets a false one.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gravityocr.config import check_numbers
from gravityocr.metrics.tables.html_tokens import cell_texts
from gravityocr.metrics.tables.table_html import normalize_cell
from gravityocr.training.corpora.formula_strings import formula_tokens

Hashes = npt.NDArray[np.uint64]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
# Ideographs, kana, and the scripts of South-East Asia that leave no blank between words.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_MARKUP = re.compile(r"</?[A-Za-z][^<>]{0,200}>|\\[A-Za-z]+")
_HYPHEN = re.compile(r"(?<=\w)[\u00ad\-\u2010\u2011]\s*(?=\w)")
_WORD = re.compile(rf"[^\W_{_UNSPACED}]+")
_CHARACTER = re.compile(f"[{_UNSPACED}]")
_FIGURE = re.compile(r"[\d.,%()+\-±—€£]+")
_MARKS = str.maketrans("", "", "${}\\_^*")  # of LaTeX and Markdown around what a cell says


@dataclass(frozen=True)
class ShingleConfig:
    """How long a common stretch must be to tell anything.

    `words` and `characters` are the lengths of shingles of text, `formula_tokens` of those of formulas; a shingle of
    fewer than `min_characters` characters (enumerations, ticks of an axis) does not count, nor does a cell of fewer
    than `min_cell_characters` or a figure of fewer than `min_digits` digits.
    """

    words: int = 8
    characters: int = 12
    formula_tokens: int = 6
    min_characters: int = 24
    min_cell_characters: int = 4
    min_digits: int = 4

    def __post_init__(self) -> None:
        check_numbers(
            self, "shingles.", words=(2, 64), characters=(2, 256), formula_tokens=(2, 64), min_characters=(0, 1000),
            min_cell_characters=(1, 100), min_digits=(1, 20),
        )  # fmt: skip


@dataclass(frozen=True)
class Features:
    """The distinct hashes of a target; `spell` writes out the one at a place."""

    hashes: Hashes
    spell: Callable[[int], str]


@dataclass(frozen=True)
class WholeForm:
    """A target as a whole: two spellings of one target have the same `text`, which is empty where it says nothing.

    `n_words` counts the words of two characters or more, `n_symbols` the characters of scripts without blanks, or the
    tokens of a formula: of short targets they tell how much it means that two are the same.
    """

    text: str
    n_words: int
    n_symbols: int


# Features ------------------------------------------------------------------------------------------


def text_features(text: str, config: ShingleConfig) -> Features:
    """Return the shingles of a text or of the text of a table."""
    words, characters = _words(text)
    n_words, n_characters = config.words, config.characters
    hashes = _shingles(_word_hashes(words), n_words)
    starts = np.flatnonzero(_spans(words, n_words) >= config.min_characters) if len(hashes) else np.arange(0)
    cjk = _shingles(_character_hashes(characters), n_characters)
    unique, first = np.unique(np.concatenate([hashes[starts], cjk]), return_index=True)

    def spell(place: int) -> str:
        at = int(first[place])
        if at < len(starts):
            return " ".join(words[starts[at] : starts[at] + n_words])
        return characters[at - len(starts) : at - len(starts) + n_characters]

    return Features(unique, spell)


def table_features(html: str, config: ShingleConfig) -> Features:
    """Return the distinct cells of a table that tell it from others."""
    cells = {cell for text in cell_texts(html) if (cell := _telling_cell(text, config))}
    ordered = sorted(cells)
    unique, first = np.unique(np.fromiter(map(_hash, ordered), np.uint64, len(ordered)), return_index=True)
    return Features(unique, lambda place: ordered[int(first[place])])


def formula_features(latex: str, config: ShingleConfig) -> Features:
    """Return the shingles of a formula's tokens."""
    tokens = formula_tokens(latex)
    n = config.formula_tokens
    unique, first = np.unique(_shingles(_word_hashes(tokens), n), return_index=True)
    return Features(unique, lambda place: " ".join(tokens[first[place] : first[place] + n]))


# Whole targets -------------------------------------------------------------------------------------


def whole_text(text: str) -> WholeForm:
    """Return the words of a text.

    >>> whole_text("The **Fast** Fox, 2") == whole_text("the fast fox 2")
    True
    """
    words, characters = _words(text)
    return WholeForm(
        " ".join([*words, characters]).strip(), sum(len(word) > 1 for word in words), len(characters)
    )


def whole_table(html: str) -> WholeForm:
    """Return the words of a table, cell by cell."""
    cells = [whole_text(text) for text in cell_texts(html)]
    n_words, n_symbols = sum(cell.n_words for cell in cells), sum(cell.n_symbols for cell in cells)
    return WholeForm("|".join(cell.text for cell in cells).strip("|"), n_words, n_symbols)


def whole_formula(latex: str) -> WholeForm:
    """Return the tokens of a formula."""
    tokens = formula_tokens(latex)
    return WholeForm(" ".join(tokens), 0, len(tokens))


def _words(text: str) -> tuple[list[str], str]:
    """Return the words of a text and, apart, its characters of scripts without blanks."""
    plain = unicodedata.normalize("NFKC", _MARKUP.sub(" ", text)).casefold()
    plain = _HYPHEN.sub("", plain)
    if plain.isascii():
        return _WORD.findall(plain), ""
    return _WORD.findall(plain), "".join(_CHARACTER.findall(plain))


def _telling_cell(text: str, config: ShingleConfig) -> str:
    """Return a cell's normal form, or '' where many tables have such a cell."""
    cell = "".join(normalize_cell(text).translate(_MARKS).casefold().split())
    if not _FIGURE.fullmatch(cell):
        return cell if len(cell) >= config.min_cell_characters else ""
    digits = cell.replace(",", "")
    n_digits = sum(character.isdigit() for character in digits.lstrip("0.(-+—€£"))
    is_year = digits.isdecimal() and len(digits) <= config.min_digits
    return "" if n_digits < config.min_digits or is_year else digits


def _spans(words: Sequence[str], n: int) -> npt.NDArray[np.int64]:
    """Return how many characters each shingle of `n` words has."""
    ends = np.concatenate([[0], np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))])
    spans: npt.NDArray[np.int64] = ends[n:] - ends[:-n]
    return spans


# Hashes --------------------------------------------------------------------------------------------


@lru_cache(maxsize=2**18)
def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", errors="surrogatepass"), digest_size=8).digest(), "big")


def _word_hashes(words: Sequence[str]) -> Hashes:
    return np.fromiter(map(_hash, words), np.uint64, len(words))


def _character_hashes(characters: str) -> Hashes:
    return _mixed(np.frombuffer(characters.encode("utf-32-le", errors="surrogatepass"), np.uint32).astype(np.uint64))


def _mixed(values: Hashes) -> Hashes:
    for mixer, shift in zip(_MIXERS, (30, 27), strict=True):
        values = (values ^ (values >> np.uint64(shift))) * mixer
    return values ^ (values >> np.uint64(31))


def _shingles(tokens: Hashes, n: int) -> Hashes:
    """Return the hash of each run of `n` tokens."""
    n_runs = len(tokens) - n + 1
    if n_runs <= 0:
        return np.empty(0, np.uint64)
    hashes = tokens[:n_runs].copy()
    for place in range(1, n):
        hashes *= _FACTOR
        hashes += tokens[place : place + n_runs]
    return _mixed(hashes)


# Index ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Common:
    """What a target has in common with an index.

    `places` are those of its features that any item has; `items` are the items that have some, `counts` how many each.

    *Shapes*: places [n], items and counts [m].
    """

    places: npt.NDArray[np.intp]
    items: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]


class HashIndex:
    """Which items have a hash: two sorted arrays, 12 bytes a hash."""

    def __init__(self, features: Sequence[Hashes]) -> None:
        """Index the distinct hashes of each item."""
        self.sizes = np.array([len(hashes) for hashes in features], np.int64)
        every = np.concatenate([np.empty(0, np.uint64), *features])
        owners = np.repeat(np.arange(len(features), dtype=np.int32), self.sizes)
        order = np.argsort(every, kind="stable")
        self._hashes, self._owners = every[order], owners[order]

    def common(self, features: Features) -> Common:
        """Return what a target has in common with the items."""
        starts = np.searchsorted(self._hashes, features.hashes, side="left")
        inside = np.flatnonzero(starts < len(self._hashes))
        places = inside[self._hashes[starts[inside]] == features.hashes[inside]]
        starts = starts[places]
        lengths = np.searchsorted(self._hashes, features.hashes[places], side="right") - starts
        # The ranges [start, start + length) one after the other.
        before = np.cumsum(lengths) - lengths
        every = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
        items, counts = np.unique(self._owners[every], return_counts=True)
        return Common(places, items, counts)
