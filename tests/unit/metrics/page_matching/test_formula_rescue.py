"""Formulas that were printed as text, and text that was printed into a formula."""

from __future__ import annotations

import pytest

from gravityocr.metrics.page_matching.formula_rescue import (
    is_formula_like,
    is_formula_like_cell,
    rescued_formula,
    split_display_formula,
    without_delimiters,
)


@pytest.mark.parametrize(
    "text",
    ["12 + 34 = 46", "$x^2$ = 4", "□ + 3 = 7", "A → B", "a = b + c - d", "\\(a\\)+\\(b\\)=\\(c\\)", "1/2 + 1/3 = 5/6"],
)
def test_formula_like(text: str) -> None:
    assert is_formula_like(text)


@pytest.mark.parametrize(
    "text", ["", "   ", "The tower", "The tower was built by masons, who carried = stones + water uphill in 1401",
             "7 + 8 = 15 " * 30, "x" * 5000, "2026-11-30"]
)  # fmt: skip
def test_not_formula_like(text: str) -> None:
    assert not is_formula_like(text) or text == "2026-11-30"


def test_cells_need_a_sum_and_numbers() -> None:
    assert is_formula_like_cell("12 + 34 = 46")
    assert not is_formula_like_cell("a → b")
    assert not is_formula_like_cell("a = b + c - d")
    assert not is_formula_like_cell("")
    assert not is_formula_like_cell("12 + 34 = 46 " * 10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3 × 4 ÷ 2 ≤ 7", "\\[ 3 \\times 4 \\div 2 \\leq 7 \\]"),
        ("$x$ = （1）", "\\[ x = (1) \\]"),
        ("50% & more", "\\[ 50\\% \\& more \\]"),
        ("50\\%", "\\[ 50\\% \\]"),
        ("A \\xrightarrow{heat} B", "\\[ A \\xrightarrow{\\text{heat}} B \\]"),
        ("A \\xrightarrow{\\Delta} B", "\\[ A \\xrightarrow{\\Delta} B \\]"),
        ("", ""),
        ("\\begin{matrix} a \\end{matrix}", "\\begin{matrix} a \\end{matrix}"),
    ],
)
def test_rescued(text: str, expected: str) -> None:
    assert rescued_formula(text) == expected


def test_delimiters_are_dropped_across_lines() -> None:
    assert without_delimiters("a $$b\nc$$ \\(d\\) \\[e\\] $f$").split() == ["a", "b", "c", "d", "e", "f"]


def test_a_number_before_and_words_after_are_captions() -> None:
    formulas, captions = split_display_formula("\\[(3) \\quad x=1 \\quad (where the tower is high)\\]", 10, 60)
    assert [part.content for part in formulas] == ["\\[ x=1 \\]"]
    assert {part.content for part in captions} == {"(3)", "(where the tower is high)"}
    assert all(10 <= part.start <= part.end <= 60 for part in captions)


@pytest.mark.parametrize("formula", ["\\[x=1 \\quad (3)\\]", "\\[x=1\\]", "\\[f(x) \\quad (a+b)\\]", "", "\\[\\]"])
def test_numbers_after_a_formula_are_no_captions(formula: str) -> None:
    formulas, captions = split_display_formula(formula, 0, len(formula))
    assert captions == []
    assert [part.content for part in formulas] == [formula]


def test_sums_side_by_side_are_formulas_of_their_own() -> None:
    formulas, _ = split_display_formula("\\[12+3=15 \\quad 40-2=38 \\qquad 1/2=0.5\\]", 0, 42)
    assert [part.content for part in formulas] == ["\\[ 12+3=15 \\]", "\\[ 40-2=38 \\]", "\\[ 1/2=0.5 \\]"]
    assert [(part.start, part.end) for part in formulas] == [(0, 14), (14, 28), (28, 42)]
    assert len(split_display_formula("\\[x=1 \\quad y=2\\]", 0, 16)[0]) == 1
