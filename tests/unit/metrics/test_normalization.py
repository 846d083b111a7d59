"""Normal forms of text and formulas: rule by rule, and on broken input of a megabyte."""

from __future__ import annotations

import doctest
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravityocr.metrics import latex_text, normalization
from gravityocr.metrics.latex_text import formula_to_unicode, inline_formulas, uncircle
from gravityocr.metrics.normalization import (
    normalize_formula,
    normalize_inline_formulas,
    normalize_table,
    normalize_text,
    strip_formula_delimiters,
    strip_formula_tags,
)

FUNCTIONS: list[Callable[[str], str]] = [
    normalize_text, normalize_formula, normalize_table, normalize_inline_formulas,
    strip_formula_delimiters, strip_formula_tags,
]  # fmt: skip
PIECES = [
    "{", "}", "$", "$$", "\\(", "\\)", "\\[", "\\]", "\\tag", "\\tag*{2}", "\\phantom{", "\\frac{a}{b}", "^", "_", "x",
    "\\alpha", "\\text{ab}", " ", "\n", "&", "\\\\", "\\left(", "\\begin{array}", "\\end{array}", "\\hspace{",
    "\\textcircled{", "①", "=", "\\", "中", "é", "\\unknown{y}", "\\t",
]  # fmt: skip
anything = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=20).map("".join),
    st.text(alphabet=st.characters(exclude_categories=()), max_size=20),
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("", ""),
        ("A-b_C 1,5%\n", "Ab_C15"),  # case and underscore stay
        ("ﬁ １ 中文。", "ﬁ１中文"),  # no NFKC
        ("a\\tb\\nc/td/ne\tf", "abcdef"),  # the words \t, \n, /t and /n go like the characters
        ("② ⓒ \\textcircled{ 7 }", "2c7"),
        ("$\\alpha_{1}$", "α_1"),
        ("\\(x^2\\) and $5", "x2and5"),
        ("$no marks$ $5 and $6", "nomarks5and6"),
        ("$\\begin{matrix}a\\end{matrix}$", "beginmatrixaendmatrix"),
        (f"${'x_1' * 43}$", "x_1" * 43),  # over 128 characters
        (f"$\\alpha {'x_1' * 43}$", "alpha" + "x_1" * 43),
        ("$\\frac{1}{2$", "frac12"),  # unbalanced
    ],
)
def test_text(text: str, normal: str) -> None:
    assert normalize_text(text) == normal


@pytest.mark.parametrize(
    ("latex", "normal"),
    [
        ("", ""),
        ("$$ X $$", "x"),
        ("\\[ a \\]", "a"),
        ("see \\(y\\) there", "y"),  # the first delimited part counts alone
        ("\\mathbf{ab} \\quad c\\,d", "abcd"),
        ("\\begin{array}{lcr} a & b \\\\ c \\& d \\end{array}", "ab\\\\c\\&d"),
        ("x \\tag{1} \\notag \\nonumber", "x"),
        ("\\left| x \\right|", "|x|"),
        ("a \\mid b \\vert c", "a|b|c"),
        ("{a}_{i+1}^{\\alpha}", "a_i+1^{\\alpha}"),
        ("{{{a}}}{}", "a"),
        ("\\phantom{x{y}} z", "z"),
        ("\\phantom{x z", "{xz"),
        ("\\hspace{1em} a~b.", "ab"),
        ("\\{1\\}", "1"),
    ],
)
def test_formula(latex: str, normal: str) -> None:
    assert normalize_formula(latex) == normal


@pytest.mark.parametrize(
    ("latex", "stripped"),
    [
        ("x", "x"),
        ("$x$", "x"),
        ("$$x$", "$x"),
        ("$ \\( \\[ x \\] \\) $", "x"),
        ("$", "$"),
        ("$$", ""),
        ("$a$ and $b$", "a$ and $b"),
    ],
)
def test_delimiters(latex: str, stripped: str) -> None:
    assert strip_formula_delimiters(latex) == stripped


@pytest.mark.parametrize(
    ("latex", "stripped"),
    [
        ("x\\tag{1}", "x"),
        ("x\\tag * {a{b}}y", "xy"),
        ("x\\tag{1", "x{1"),
        ("x\\tag 1", "x\\tag 1"),
        ("x\\tags{1}", "x\\tags{1}"),
        ("x\\notag\\nonumber", "x"),
    ],
)
def test_tags(latex: str, stripped: str) -> None:
    assert strip_formula_tags(latex) == stripped


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        ("\\alpha \\le 2", "α≤2"),
        ("a+b", "a+b"),
        ("{a} hello there world once", "{a} hello there world once"),  # words, hardly any LaTeX
        ("\\left( a", "\\left( a"),
        ("\\begin{x} a", "\\begin{x} a"),
        ("a } { b \\alpha", "a } { b \\alpha"),
        ("\\alpha" * 2000, "\\alpha" * 2000),  # over 8000 characters
    ],
)
def test_formulas_become_characters_where_they_can(latex: str, text: str) -> None:
    assert formula_to_unicode(latex) == text


def test_an_inline_formula_ends_on_its_line() -> None:
    assert list(inline_formulas("$a\nb$ \\(c\n\\) $d$")) == [(13, 16, "d")]


def test_a_circle_without_content_stays() -> None:
    assert uncircle("\\textcircled{} \\textcircled{a") == "\\textcircled{} \\textcircled{a"


@given(anything)
def test_anything_has_a_normal_form(text: str) -> None:
    assert all(isinstance(function(text), str) for function in FUNCTIONS)


@given(anything)
def test_delimiters_and_tags_are_stripped_once_and_for_all(text: str) -> None:
    once = strip_formula_delimiters(text)
    assert strip_formula_delimiters(once) == once
    assert "\\notag" not in strip_formula_tags(text.replace("\\nonumber", ""))


@pytest.mark.parametrize(
    "unit",
    ["$", "\\(", "\\[", "{", "{a", "\\tag{", "\\phantom{", "\\hspace{", "\\textcircled{ ", " ", "$\\frac{a}{b}$ "],
    ids=repr,
)
def test_a_megabyte_takes_seconds_at_most(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    start = time.perf_counter()
    for function in FUNCTIONS:
        function(text)
    function(text + "}" * len(text))
    assert time.perf_counter() - start < 20.0  # a search that starts over at every unit takes minutes


@pytest.mark.parametrize("module", [normalization, latex_text])
def test_the_examples_in_the_docstrings(module) -> None:
    results = doctest.testmod(module)
    assert results.attempted >= 4
    assert results.failed == 0
