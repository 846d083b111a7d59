"""Normalised edit distance, the score of plain text."""

from __future__ import annotations

from rapidfuzz.distance import Levenshtein


def fold_whitespace(text: str) -> str:
    """Turn every run of whitespace into one space and drop it at both ends.

    >>> fold_whitespace("  one\\n two\\t three ")
    'one two three'
    """
    return " ".join(text.split())


def edit_distance(pred: str, ref: str) -> int:
    """Count the fewest insertions, deletions and substitutions of code points that turn `pred` into `ref`.

    >>> edit_distance("kitten", "sitting")
    3
    """
    return Levenshtein.distance(pred, ref)


def ned(pred: str, ref: str) -> float:
    """Return the edit distance over the length of the longer string.

    `NED = levenshtein(pred, ref) / max(len(pred), len(ref))`, so 0 is equality and 1 shares nothing;
    two empty strings are equal. Nothing is folded here: pass both sides through `fold_whitespace` first
    where line breaks do not count.

    >>> ned("abcd", "abxd")
    0.25
    >>> ned("", "")
    0.0
    """
    longer = max(len(pred), len(ref))
    return edit_distance(pred, ref) / longer if longer else 0.0
