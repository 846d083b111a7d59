"""Blanks in recognised LaTeX."""

from __future__ import annotations

import pytest

from gravityocr.model.latex_spacing import (
    compact_inline_formulas,
    compact_latex,
    join_formula_parts,
    with_both_dollars,
)


@pytest.mark.parametrize(
    ("latex", "compact"),
    [
        (r"\alpha x", r"\alpha x"),
        (r"\frac {a}{\beta }", r"\frac{a}{\beta}"),
        (r"\alpha  \beta ", r"\alpha\beta"),
        (r"a \leq 2", r"a \leq2"),
        (r"\operatorname* {x}", r"\operatorname*{x}"),
        ("a b", "a b"),
        ("a\\ ", "a"),
        ("a\\\\ ", "a\\\\"),
        ("a\\\\\\ ", "a\\\\"),
        (r"\ x", r"\ x"),
        ("", ""),
    ],
)
def test_a_blank_stays_before_a_letter_only(latex: str, compact: str) -> None:
    assert compact_latex(latex) == compact


@pytest.mark.parametrize(
    ("text", "compact"),
    [
        (r"an $\alpha \beta $ b", r"an $\alpha\beta$ b"),
        (r"\alpha ) costs \$5 or $", r"\alpha ) costs \$5 or $"),
        (r"$\mu \$ $ and \mu ; $x$", r"$\mu\$$ and \mu ; $x$"),
    ],
)
def test_text_outside_of_formulas_stays(text: str, compact: str) -> None:
    assert compact_inline_formulas(text) == compact


@pytest.mark.parametrize(
    ("before", "after", "joined"),
    [
        ("if $a=$", "$b$ then", "if $a= b$ then"),
        ("if $a$", "then", None),
        ("pay 5$", "$b$", None),  # an odd dollar is money
        (r"pay 5\$", "$b$", None),
        ("", "$b$", None),
    ],
)
def test_a_formula_cut_in_two_becomes_one(before: str, after: str, joined: str | None) -> None:
    assert join_formula_parts(before, after) == joined


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        (r"on $\partial U. Since", r"on $\partial U. Since$"),
        (r"since \bar{U}$ is", r"since $\bar{U}$ is"),
        ("if x^{2}$ is", "if $x^{2}$ is"),
        ("it costs $5 a piece", "it costs $5 a piece"),
        (r"$a$ and $b$", r"$a$ and $b$"),
        (r"\$5 for $x^{2}", r"\$5 for $x^{2}$"),
        ("", ""),
    ],
)
def test_a_forgotten_dollar_is_set(text: str, closed: str) -> None:
    assert with_both_dollars(text) == closed
