from __future__ import annotations

import pytest

from gravityocr.metrics.formulas.latex_tokens import FormulaSyntaxError, tokenize_formula, tokenize_tabular


@pytest.mark.parametrize(
    ("latex", "tokens"),
    [
        (r"\dfrac{a}{b}", r"\frac { a } { b }"),
        (r"x^2_i", "x _ { i } ^ { 2 }"),
        (r"f''", r"f ^ { \prime \prime }"),
        (r"\left( x \right]", r"\left( x \right]"),
        (r"\sum\limits_{i}^n", r"\sum _ { i } ^ { n }"),
        (r"\operatorname{sin} x", r"\sin x"),
        (r"\operatorname{Tr}(A)", r"\operatorname { T r } ( A )"),
        (r"\lim_{n} a", r"\operatorname* { l i m } _ { n } a"),
        (r"\text{a b}", r"\mathrm { a ~ b }"),
        (r"{\rm d}x", r"\mathrm { d } x"),
        (r"\hat\mathbf{x}", r"\hat { \mathbf { x } }"),
        (r"a \\ b", r"a \, b"),
        (r"a % comment", "a"),
        (r"\sqrt[3]{x}", r"\sqrt [ 3 ] { x }"),
        (r"\rule{1pt}{2.50em}", r"\rule { 1 pt } { 2.5 em }"),
        (r"\binom n k", r"\binom n k"),
        (r"\overline{xy}", r"\overline { { x y } }"),
    ],
)
def test_formulas_get_the_official_normal_form(latex: str, tokens: str) -> None:
    assert " ".join(tokenize_formula(latex)) == tokens


@pytest.mark.parametrize(
    ("latex", "tokens"),
    [
        (
            r"\begin{pmatrix} a & b \\ c & d \\ \end{pmatrix}",
            r"\left( \begin{array} { l l } { a } & { b } \\ { c } & { d } \end{array} \right)",
        ),
        (r"\begin{align*} a &= b \end{align*}", r"\begin{array} { r l } { a } & { { } = b } \end{array}"),
        (
            r"\begin{cases} a & b \\ c \end{cases}",
            r"\left\{ \begin{array} { l l } { a } & { b } \\ { c } \end{array} \right.",
        ),
        (r"\begin{array}{c|r} & \\ a & b \end{array}", r"\begin{array} { c r } { a } & { b } \end{array}"),
    ],
)
def test_environments_become_arrays(latex: str, tokens: str) -> None:
    assert " ".join(tokenize_formula(latex)) == tokens


@pytest.mark.parametrize("latex", ["{a", "a}", r"\begin{array}a", r"\left( a", "a $ b", "x" * 20_001, r"\end{a}"])
def test_unpaired_formulas_are_refused(latex: str) -> None:
    with pytest.raises(FormulaSyntaxError):
        tokenize_formula(latex)


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    with pytest.raises(FormulaSyntaxError, match="does not parse"):
        tokenize_formula("{" * 3000 + "}" * 3000)


def test_a_table_keeps_its_source_tokens() -> None:
    tokens = tokenize_tabular(r"\begin{tabular}{cc} a & $b$ \\ \hline 5\% & c % no" "\n")
    assert " ".join(tokens) == r"\begin {tabular} { c c } a & $ b $ \\ \hline 5 \% & c \end {tabular}"
