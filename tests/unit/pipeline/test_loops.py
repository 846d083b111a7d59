"""The loop guard: what repeats without end is cut, what comes after it and what only looks like a loop stays."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravityocr.pipeline.passages.loops import LONGEST_TEXT, cut_length, cut_like_sdk, cut_loops

WORDS = "We thank the reviewers for their careful reading and all of their helpful remarks on this paper."


def test_a_text_longer_than_any_region_is_cut_and_told() -> None:
    assert cut_length("x" * LONGEST_TEXT) == ("x" * LONGEST_TEXT, None)
    text, reason = cut_length("x" * LONGEST_TEXT + "yz")
    assert text == "x" * LONGEST_TEXT and reason == "200002 characters were read: the first 200000 are kept"


@pytest.mark.parametrize("unit", ["x", "ab ", "The cat sat. ", "A line of text that comes again.\n", WORDS + "\n\n"])
@pytest.mark.parametrize("tail", ["", "And this is how the page really ends: 42 dogs."])
def test_200_repeats_are_cut_and_the_tail_stays(unit: str, tail: str) -> None:
    text, was_cut = cut_loops(f"Before it. {unit * 200}{tail}")
    assert was_cut
    assert text.startswith("Before it. ") and text.endswith(tail)
    assert len(text) <= len("Before it. ") + 2 * len(unit) + len(tail)
    assert unit.strip() in text


def test_half_a_round_at_the_end_goes_and_half_a_round_before_other_text_stays() -> None:
    unit = "One more sentence of it. "
    assert cut_loops(unit * 100 + "One more sen") == (unit, True)
    assert cut_loops(unit * 100 + "One more senator.") == (unit + "One more senator.", True)


def test_two_loops_are_both_cut() -> None:
    text, was_cut = cut_loops(
        "Start. " + "first loop of it. " * 100 + "Middle. " + "second one of them. " * 100 + "End."
    )
    assert was_cut and text == "Start. first loop of it. Middle. second one of them. End."


@pytest.mark.parametrize(
    "text",
    [
        "<table>" + "<tr><td>n/a</td><td>0</td></tr>" * 30 + "</table>",
        "<table><tr>" + "<td></td>" * 60 + "</tr></table>",
        "Introduction " + "." * 900 + " 3\nMethods " + ". " * 300 + "7",
        "Name " + "_" * 1500 + "\nAddress " + "_" * 1500,
        "-" * 300 + "\n" + "=" * 300,
        "- yes\n" * 40,
        "- not applicable\n" * 30,
        "0 & 0 & 0 & 0 \\\\\n" * 16,
        WORDS * 15,
        "short",
        "",
    ],
)
def test_what_may_repeat_is_left_alone(text: str) -> None:
    assert cut_loops(text) == (text, False)


def test_a_table_that_never_ends_is_cut() -> None:
    row = "<tr><td>1</td><td>same</td></tr>"
    text, was_cut = cut_loops("<table>" + row * 400 + "</table>")
    assert was_cut and text == f"<table>{row}</table>"


@given(st.text(max_size=300), st.text(min_size=1, max_size=40), st.integers(0, 250))
def test_cutting_is_stable_and_only_ever_takes_away(prefix: str, unit: str, n_repeats: int) -> None:
    text = prefix + unit * n_repeats
    once, was_cut = cut_loops(text)
    assert was_cut == (once != text)
    assert len(once) <= len(text) and text.startswith(once[: len(prefix)])
    assert cut_loops(once) == (once, False)


def test_a_long_text_takes_no_time() -> None:
    text = "".join(f"Sentence {number} says {number * 7919 % 9973} things. " for number in range(1000))
    started = time.perf_counter()
    assert cut_loops(text) == (text, False)
    assert time.perf_counter() - started < 5


def test_what_the_sdk_cuts() -> None:
    text = "Head. " + "ten letters or more; " * 120 + "The tail."
    assert cut_like_sdk(text).count("letters") == 1 and "tail" not in cut_like_sdk(text)
    lines = "\n".join(f"Line {k}" + "\nThe very same line" * 9 for k in range(20))
    assert cut_like_sdk(lines) == "Line 0\nThe very same line"
    assert cut_like_sdk("ab" * 500) == "ab" * 500  # below 2,048 characters it looks at nothing
