from __future__ import annotations

import pytest

from gravityocr.metrics.formulas.latex_coloring import (
    PALETTE_SIZE,
    closing,
    color_formula,
    palette_color,
    rewrite_tokens,
)
from gravityocr.metrics.formulas.latex_tokens import FormulaSyntaxError


def test_colors_differ_and_none_is_black_or_white() -> None:
    colors = {palette_color(i) for i in range(PALETTE_SIZE)}
    assert len(colors) == PALETTE_SIZE
    assert not colors & {(0, 0, 0), (255, 255, 255)}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (r"\frac { a } { b }", [r"\frac", "a", "b"]),
        (r"\mathrm { T r } ( A )", ["T", "r", "(", "A", ")"]),
        (r"\hat { x } _ { i }", [r"\hat", "x", "i"]),
        (r"\left( x \right)", [r"\left(", "x", r"\right)"]),
        (r"\sin x", ["s", "i", "n", "x"]),
        (r"a , \ldots , b", ["a", ",", ".", ".", ".", ",", "b"]),
        (r"\phantom { x } y", ["y"]),
        (r"\sqrt [ 3 ] { x }", [r"\sqrt", "3", "x"]),
        (r"\begin{array} { l l } { a } & { b } \\ \hline \end{array}", ["a", "b"]),
        (r"\color { r e d } x", ["x"]),
        (r"[ a b ]", ["[", "a", "b", "]"]),
        (r"\multicolumn { 2 } { c } { x }", ["x"]),
        (r"\rule { 1 pt } { 2 em } x", ["x"]),
    ],
)
def test_visible_tokens_get_a_color(text: str, names: list[str]) -> None:
    formula = color_formula(text)
    assert list(formula.tokens) == names
    assert formula.latex.count(r"\mathcolor[RGB]") == len(names)
    assert formula.latex.count("{") == formula.latex.count("}")


def test_a_color_encloses_what_belongs_to_its_token() -> None:
    assert color_formula(r"\hat { x } _ i").latex == (
        r"{\mathcolor[RGB]{0,0,15}{\hat { \mathcolor[RGB]{0,0,30}{x} }}} _ {\mathcolor[RGB]{0,0,45}{i}}"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r"\hat \bar x", r"\hat { \bar { x } }"),
        (r"\frac 1 2", r"\frac { 1 } { 2 }"),
        (r"\sqrt x", r"\sqrt { x }"),
        (r"\big ( \Bigl \{ \big <", r"\big( \Bigl\{ \big <"),
        (r"\hspace { 1 . 5 e m } x", r"\hspace{1.5em} x"),
        (r"\begin{array} { l c }", r"\begin{array} {lc}"),
        (r"\operatorname * { x }", r"\operatorname { x }"),
        (r"\pmatrix { a }", r"\mypmatrix { a }"),
    ],
)
def test_tokens_are_rewritten(before: str, after: str) -> None:
    assert " ".join(rewrite_tokens(before.split())) == after


@pytest.mark.parametrize("text", [r"\hat", r"\frac { a }", r"\sqrt [ 3", r"\phantom"])
def test_commands_without_arguments_are_refused(text: str) -> None:
    with pytest.raises(FormulaSyntaxError):
        color_formula(text)


def test_more_tokens_than_colors_are_refused() -> None:
    with pytest.raises(FormulaSyntaxError, match="can be told apart"):
        color_formula("x " * (PALETTE_SIZE + 1))


def test_closing_finds_the_partner() -> None:
    assert closing(["{", "{", "}", "}", "}"], 0) == 3
    with pytest.raises(FormulaSyntaxError):
        closing(["a", "}"], 0)
