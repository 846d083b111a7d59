"""Normalised edit distance: of plain strings, of text, formulas and tables in their normal form, and of a page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from rapidfuzz.distance import Levenshtein

from gravityocr.errors import ConfigError
from gravityocr.metrics.normalization import normalize_formula, normalize_table, normalize_text

_NORMALIZERS = {"text": normalize_text, "formula": normalize_formula, "table": normalize_table}


@dataclass(frozen=True)
class EditScore:
    """The edit distance of one pair: `n_edits` over `n_chars`, the length of the longer side, is `ned`.

    `pred` and `ref` are the strings that were compared.
    """

    ned: float
    n_edits: int
    n_chars: int
    pred: str
    ref: str


def fold_whitespace(text: str) -> str:
    """Turn every run of whitespace into one space and drop it at both ends.

    >>> fold_whitespace("  one\\n two\\t three ")
    'one two three'
    """
    return " ".join(text.split())


def edit_distance(pred: str, ref: str, budget: int | None = None) -> int:
    """Count the fewest insertions, deletions and substitutions of code points that turn `pred` into `ref`.

    The time grows with the product of the lengths. Where that is above `budget`, both are cut into equally many parts,
    as many as the product exceeds it by, and the distances of the parts are added up: a bound from above, still 0 for
    equal strings and never more than the length of the longer one.

    >>> edit_distance("kitten", "sitting")
    3
    """
    work = len(pred) * len(ref)
    if budget is None or work <= budget:
        return Levenshtein.distance(pred, ref)
    n_parts = -(-work // budget)
    cuts = [[len(side) * number // n_parts for number in range(n_parts + 1)] for side in (pred, ref)]
    distance = sum(
        Levenshtein.distance(pred[start:end], ref[other:last])
        for (start, end), (other, last) in zip(*(pairwise(places) for places in cuts), strict=True)
    )
    return min(distance, max(len(pred), len(ref)))


def ned(pred: str, ref: str, budget: int | None = None) -> float:
    """Return the edit distance over the length of the longer string.

    `NED = levenshtein(pred, ref) / max(len(pred), len(ref))`, so 0 is equality and 1 shares nothing;
    two empty strings are equal. Nothing is folded here: pass both sides through `fold_whitespace` first
    where line breaks do not count. `budget` is that of `edit_distance`.

    >>> ned("abcd", "abxd")
    0.25
    >>> ned("", "")
    0.0
    """
    longer = max(len(pred), len(ref))
    return edit_distance(pred, ref, budget) / longer if longer else 0.0


def text_edit(pred: str, ref: str, kind: str = "text", budget: int | None = None) -> EditScore:
    """Score a prediction by the edit distance of the normal forms, as OmniDocBench does.

    `kind` is text, formula or table. A side that normalises to nothing is compared as it stands; two empty sides are
    equal. `budget` is that of `edit_distance`.

    *Raises*: ConfigError for another kind.

    >>> text_edit("Hello, World!", "hello world").ned
    0.2
    >>> text_edit("...", "...").n_chars
    3
    """
    if kind not in _NORMALIZERS:
        raise ConfigError(f"unknown kind {kind!r} of text; use one of {', '.join(_NORMALIZERS)}")
    normalize = _NORMALIZERS[kind]
    pred, ref = normalize(pred) or pred, normalize(ref) or ref
    n_edits, n_chars = edit_distance(pred, ref, budget), max(len(pred), len(ref))
    return EditScore(n_edits / n_chars if n_chars else 0.0, n_edits, n_chars, pred, ref)


def page_edit(scores: Iterable[EditScore]) -> float:
    """Return the edits of all pairs of a page over the lengths of their longer sides; 0 where there is no text.

    >>> page_edit([text_edit("abcd", "abcd"), text_edit("", "ab")])
    0.3333333333333333
    """
    scores = list(scores)
    n_chars = sum(score.n_chars for score in scores)
    return sum(score.n_edits for score in scores) / n_chars if n_chars else 0.0
