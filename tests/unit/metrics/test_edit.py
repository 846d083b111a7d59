"""Edit distance: against a textbook table, on known pairs, at the empty edges; of normal forms and of a page."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravityocr.errors import ConfigError
from gravityocr.metrics import edit
from gravityocr.metrics.edit import edit_distance, fold_whitespace, ned, page_edit, text_edit

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


@pytest.mark.parametrize(
    ("pred", "ref", "kind", "compared", "n_edits", "n_chars"),
    [
        ("Hello, World!", "Hello World", "text", ("HelloWorld", "HelloWorld"), 0, 10),
        ("$x_{1}$", "x1", "text", ("x_1", "x1"), 1, 3),
        ("...", "abc", "text", ("...", "abc"), 3, 3),  # a side that normalises to nothing stands as it is
        ("...", "...", "text", ("...", "..."), 0, 3),
        ("", "", "text", ("", ""), 0, 0),
        ("$$\\mathbf{X}$$", "x", "formula", ("x", "x"), 0, 1),
        ("$$ $$", "x", "formula", ("$$ $$", "x"), 5, 5),
        ("| a |", "<p>", "table", ("| a |", "<p>"), 5, 5),
    ],
)
def test_text_edit_compares_normal_forms(
    pred: str, ref: str, kind: str, compared: tuple[str, str], n_edits: int, n_chars: int
) -> None:
    score = text_edit(pred, ref, kind)
    assert (score.pred, score.ref) == compared
    assert (score.n_edits, score.n_chars) == (n_edits, n_chars)
    assert score.ned == (n_edits / n_chars if n_chars else 0.0)


@given(words, words, st.sampled_from(["text", "formula", "table"]))
def test_text_edit_is_symmetric_and_0_for_the_same(pred: str, ref: str, kind: str) -> None:
    score, swapped = text_edit(pred, ref, kind), text_edit(ref, pred, kind)
    assert (score.ned, score.n_edits, score.n_chars) == (swapped.ned, swapped.n_edits, swapped.n_chars)
    assert 0.0 <= score.ned <= 1.0
    assert text_edit(pred, pred, kind).ned == 0.0


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="use one of text, formula, table"):
        text_edit("a", "b", "html")


def test_a_page_weighs_its_pairs_by_length() -> None:
    long, short = text_edit("a" * 9, "a" * 9), text_edit("", "b")
    assert page_edit([long, short]) == 0.1
    assert page_edit([short]) == 1.0
    assert page_edit([]) == page_edit([text_edit("", "")]) == 0.0


def test_the_examples_in_the_docstrings() -> None:
    results = doctest.testmod(edit)
    assert results.attempted >= 7
    assert results.failed == 0
