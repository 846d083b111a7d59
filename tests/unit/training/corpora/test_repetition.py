"""Degenerate repetition: loops go, and what repeats on good paper stays."""

from __future__ import annotations

import numpy as np
import pytest

from gravityocr.errors import ConfigError
from gravityocr.training.corpora.repetition import RepetitionConfig, table_repetition, text_repetition

CONFIG = RepetitionConfig()
GOOD = " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(300))
ZEROS = r"\begin{pmatrix}" + r" \\ ".join(" & ".join("0" * 20) for _ in range(20)) + r"\end{pmatrix}"


@pytest.mark.parametrize(
    "text",
    [
        GOOD + " and so on" * 40,
        "the cat " * 30,
        "甲乙丙" * 40,
        "\n".join(["This line comes again and again, for the model has lost its place on the page."] * 14),
        r"\frac{a}{b} + " * 20,
        "a, b; " * 30,
        GOOD + "." * 3000,
        " ".join(["alpha beta gamma delta epsilon zeta eta theta", "iota kappa"][n % 3 == 0] for n in range(90)),
    ],
)
def test_loops_go(text: str) -> None:
    assert text_repetition(text, CONFIG) is not None


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "no no no no no",
        "ha " * 12,
        "1 Introduction " + ". " * 120 + "7\n2 Method " + ". " * 118 + "9",
        "Name: " + "_" * 200,
        ZEROS,
        r"\begin{pmatrix}" + r" \\ ".join(" & ".join("x" * 9) for _ in range(9)) + r"\end{pmatrix}",
        r"\begin{matrix}" + r" \\ ".join(" & ".join([r"\cdots"] * 12) for _ in range(12)) + r"\end{matrix}",
        "0.000 " * 100,
        "the cat sat " * 5 + GOOD,
        "---|---|---|" * 30,
    ],
)
def test_what_repeats_on_good_paper_stays(text: str) -> None:
    assert text_repetition(text, CONFIG) is None


def test_tables_of_zeros_and_forms_stay_and_loops_go() -> None:
    zeros = [["0", "0.00", "-", ""] for _ in range(60)]
    assert table_repetition(zeros, CONFIG) is None
    assert (
        table_repetition([["Item", "Yes", "No"], *[[f"Item {chr(97 + n)}", "Yes", "No"] for n in range(26)]], CONFIG)
        is None
    )
    assert table_repetition([["yes"] * 8 for _ in range(20)], CONFIG) is None
    assert table_repetition([["Name", "Place"], *[["", ""]] * 50], CONFIG) is None
    assert "as rows" in table_repetition([["total", "a"]] * 30, CONFIG)
    assert "as rows" in table_repetition([["a1", "b"], ["c", "dd"]] * 30, CONFIG)
    assert "as rows" in table_repetition([["0", ""]] * 150, CONFIG)
    assert "as cells" in table_repetition([["x"] * 30], CONFIG)
    assert "in a cell" in table_repetition([["a", "the cat " * 30]], CONFIG)


def test_few_distinct_rows_go() -> None:
    rng = np.random.default_rng(0)
    rows = [[["alpha", "beta", "gamma", "delta"][n]] for n in rng.integers(0, 4, 100)]
    assert "distinct rows" in table_repetition(rows, CONFIG)
    assert table_repetition([[f"name {chr(97 + n % 26)}{chr(97 + n // 26)}"] for n in range(100)], CONFIG) is None


def test_the_limits_are_the_settings() -> None:
    text = "the cat sat down " * 8
    assert text_repetition(text, CONFIG) is None
    assert text_repetition(text, RepetitionConfig(max_repeats=6)) is not None
    with pytest.raises(ConfigError, match=r"filters\.repetition\.max_repeats"):
        RepetitionConfig(max_repeats=1)
