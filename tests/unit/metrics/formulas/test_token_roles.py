from __future__ import annotations

import pytest

from gravityocr.metrics.formulas.formula_render import prepare_formula
from gravityocr.metrics.formulas.token_roles import MAX_LEVELS, token_roles


def roles(latex: str) -> str:
    """Return the tokens that have a role as `token:role`."""
    formula, _ = prepare_formula(latex)
    return " ".join(f"{t}:{r}" for t, r in zip(formula.tokens, formula.roles, strict=True) if r)


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("x^2+y", "2:^"),
        ("x_2+y", "2:_"),
        ("x^{y_{z}}w", "y:^ z:^_"),
        ("x^{y^{z}}_{i}", "i:_ y:^ z:^^"),
        (r"x^\mathrm{T}y", "T:^"),
        (r"x^\frac{a}{b}c", r"\frac:^ a:^ b:^"),
        (r"\sqrt[3]{x}y", "3:^"),
        (r"\xrightarrow[b]{a}c", "b:_ a:^"),
        (r"\begin{cases} a_1 & b \\ c^2 & d\end{cases}", "1:_ 2:^"),
        (r"\foo{bar}}{ x", ""),
    ],
)
def test_scripts_are_read(latex: str, expected: str) -> None:
    assert roles(latex) == expected


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"\mathbf{x}y", "x:*"),
        (r"\boldsymbol x y", "x:*"),
        (r"\bm{x}y", "x:*"),
        (r"\textbf{ab}c", "a:* b:*"),
        (r"\pmb{\alpha}+y", r"\alpha:*"),
        (r"{\bf x \rm y}z", "x:*"),
        (r"x^{\mathbf{T}}_{\mathbf{i}}", "i:_* T:^*"),
        (r"\mathbf{\hat{x}+1}", "x:* 1:*"),
        (r"\mathbb{R}\mathcal{L}\mathrm{d}", ""),
    ],
)
def test_bold_letters_are_read(latex: str, expected: str) -> None:
    assert roles(latex) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{x}^{2}", "x^2"),
        (r"\sum_{i}^{n}x", r"\sum^{n}_{i}x"),
        (r"\sum\limits_{i}^{n}x", r"\sum_{i}^{n}x"),
        (r"\dfrac12", r"\frac{1}{2}"),
        (r"\text{if }x", r"\mathrm{if}x"),
        (r"{\bf x}", r"\mathbf{x}"),
        (r"\overset{a}{=}", r"\stackrel{a}{=}"),
        (r"\mathbf{\hat{x}}", r"\hat{\mathbf{x}}"),
    ],
)
def test_spellings_of_the_same_have_the_same_roles(one: str, other: str) -> None:
    assert roles(one) == roles(other)


@pytest.mark.parametrize("latex", ["x'", r"x^{\prime}", r"x^\prime", "x^{'}", r"\mathrm{x'}", r"{x}'"])
def test_a_prime_stands_in_one_superscript(latex: str) -> None:
    formula, _ = prepare_formula(latex)
    assert formula.roles == ("", "^")


@pytest.mark.parametrize("latex", ["x^{a'}", r"x^{a^{\prime}}"])
def test_a_prime_of_a_script_stands_one_level_higher(latex: str) -> None:
    formula, _ = prepare_formula(latex)
    assert formula.roles == ("", "^", "^^")


def test_a_bold_switch_ends_with_its_cell() -> None:
    assert token_roles(["\\bf", "a", "&", "b", "\\bf", "\\\\", "c"]) == ["", "*", "", "", "", "", ""]


@pytest.mark.parametrize("tokens", [["}", "]", "x"], ["^"], ["{", "["], ["\\sqrt", "[", "}", "x"], ["\\frac"], []])
def test_brackets_that_do_not_pair_up_are_forgiven(tokens: list[str]) -> None:
    assert len(token_roles(tokens)) == len(tokens)


def test_roles_stay_short() -> None:
    tokens = ["^", "{"] * 20_000 + ["x"]
    assert token_roles(tokens)[-1] == "^" * MAX_LEVELS
