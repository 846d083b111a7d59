"""Edit distance: against a textbook table, on known pairs, at the empty edges."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravityocr.metrics import edit
from gravityocr.metrics.edit import edit_distance, fold_whitespace, ned

words = st.text(alphabet="abé \U0001d465", max_size=12)


def textbook_distance(pred: str, ref: str) -> int:
    """Fill the whole table of prefix distances, cell by cell."""
    table = {(i, 0): i for i in range(len(pred) + 1)} | {(0, j): j for j in range(len(ref) + 1)}
    for i, left in enumerate(pred, start=1):
        for j, right in enumerate(ref, start=1):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (left != right))
    return table[len(pred), len(ref)]


@given(words, words)
def test_distance_is_the_textbook_one(pred: str, ref: str) -> None:
    assert edit_distance(pred, ref) == textbook_distance(pred, ref)


@given(words, words)
def test_ned_is_a_share_of_the_longer_and_symmetric(pred: str, ref: str) -> None:
    longer = max(len(pred), len(ref), 1)
    assert ned(pred, ref) == ned(ref, pred) == textbook_distance(pred, ref) / longer
    assert 0.0 <= ned(pred, ref) <= 1.0
    assert (ned(pred, ref) == 0.0) == (pred == ref)


@pytest.mark.parametrize(
    ("pred", "ref", "expected"),
    [
        ("", "", 0.0),
        ("", "abc", 1.0),
        ("abc", "", 1.0),
        ("abcd", "abxd", 0.25),
        ("kitten", "sitting", 3 / 7),
        ("a b", "a  b", 0.25),  # nothing is folded here
        ("e\u0301", "\u00e9", 1.0),  # code points, not what a reader sees
    ],
)
def test_ned_of_known_pairs(pred: str, ref: str, expected: float) -> None:
    assert ned(pred, ref) == expected


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("", ""),
        (" \n\t ", ""),
        ("  one\n two\t\tthree ", "one two three"),
        ("no-break\u00a0space\u2003em", "no-break space em"),
        ("zero\u200bwidth", "zero\u200bwidth"),  # not whitespace to Unicode
    ],
)
def test_fold_whitespace(text: str, folded: str) -> None:
    assert fold_whitespace(text) == folded


def test_the_examples_in_the_docstrings() -> None:
    results = doctest.testmod(edit)
    assert results.attempted >= 4
    assert results.failed == 0
