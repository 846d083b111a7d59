"""The guard by hand: loops cost, what the reference repeats does not."""

from __future__ import annotations

import doctest
import html

import pytest

from gravityocr.rl import guard as guard_module
from gravityocr.rl.guard import distinct_share, guard, longest_run

WORDS = [f"w{n}" for n in range(40)]


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(guard_module).failed == 0


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", 1.0),
        ("a " * 15, 1.0),  # below 16 tokens nothing is counted
        ("a " * 16, 1 / 9),
        (" ".join(WORDS), 1.0),
        (" ".join(WORDS[:8] * 4), 8 / 25),
        ("a\n\tb " * 8, 2 / 9),
    ],
)
def test_the_share_of_distinct_8_grams(text: str, share: float) -> None:
    assert distinct_share(text) == pytest.approx(share)


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("", 16), ("aaa", 16), ("a" * 16, 16), ("b" + "a" * 17 + "b", 17), ("a" * 20 + "b" * 30, 30), ("ab" * 50, 16),
        (" \t\n\xa0" * 5, 20), ("x\u200b\u200c\u200d\ufeff\u2060" * 1 + "\u00ad" * 20, 25), ("\x00" * 18, 18),
    ],
)  # fmt: skip
def test_the_longest_run(text: str, run: int) -> None:
    assert longest_run(text) == run


def test_the_smaller_of_the_two_counts() -> None:
    looping = " ".join(["a"] * 16)
    assert guard(looping, "b") == pytest.approx(1 / 9)
    assert guard(looping + "-" * 320, "b") == pytest.approx(16 / 320)


@pytest.mark.parametrize("looping", ["a " * 60, "." * 500, "no yes " * 40, " " * 90])
def test_a_reference_that_repeats_is_never_punished(looping: str) -> None:
    assert guard(looping, looping) == 1.0
    assert guard(looping, "another text") < 1.0
    assert guard("a text without a loop", looping) == 1.0


def test_repeating_more_than_the_reference_costs() -> None:
    assert guard("." * 80, "." * 40) == 0.5
    assert guard("a " * 60, "a " * 30) == pytest.approx((1 / 53) / (1 / 23))


def test_what_a_language_does_not_print_is_laid_out() -> None:
    assert guard("&nbsp;" * 32, "x") == 1.0
    assert guard("&nbsp;" * 32, "x", (html.unescape("&nbsp;" * 32), "x")) == 0.5
