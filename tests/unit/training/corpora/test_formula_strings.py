"""One formula, several spellings; several formulas, never one string."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravityocr.training.corpora.formula_strings import formula_tokens


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"$$\dfrac{a}{b}$$", r"\[\frac ab\]"),
        (r"x_{i}^{2}", "x^2_i"),
        (r"x_{a_{1}^{2}}^{n}", "x^n_{a^2_1}"),
        (r"\left( \mathbf{x} \right)", r"\big(x\big)"),
        (r"\left. f \right|_{0}", "f|_0"),
        (r"a \leqslant b", r"a\le b"),
        (r"\operatorname{max} f", r"\max f"),
        (r"f'(x)", r"f^{\prime}(x)"),
        (r"\begin{array}{ll} a & b \\ c & d \end{array}", r"\begin{aligned}a&b\\[2pt]c&d\end{aligned}"),
        (r"x = 1 \tag{2.3}", "x=1"),
        (r"x = 1 \label{eq:a}\,.", "x=1."),
        (r"\text{if } x", r"\mathrm{if}\ x"),
        (r"{{x}}", "x"),
        (r"\|x\|", r"\Vert x\Vert"),
    ],
)
def test_spellings_of_one_formula(one: str, other: str) -> None:
    assert formula_tokens(one) == formula_tokens(other) != []


@pytest.mark.parametrize(
    ("one", "other"),
    [("x_i", "x_j"), ("x_2", "x^2"), (r"\frac ab", r"\frac ba"), ("X", "x"), (r"\alpha", r"\beta"), ("a+b", "a-b")],
)
def test_different_formulas_stay_different(one: str, other: str) -> None:
    assert formula_tokens(one) != formula_tokens(other)


PIECES = [*r"\{}_^ab1 $&~'[]()", r"\frac", r"\left", r"\begin{array}{c}", r"\end{array}", r"\\"]
ATOMS = st.sampled_from(["a", "1", r"\alpha ", r"\sum "])


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_any_string_is_taken(text: str) -> None:
    assert all(token and not token.isspace() and token not in "{}" for token in formula_tokens(text))


@given(st.lists(st.tuples(ATOMS, ATOMS, ATOMS), min_size=1, max_size=12))
def test_neither_braces_nor_the_order_of_scripts_matter(parts: list[tuple[str, str, str]]) -> None:
    plain = "".join(f"{base}_{{{low}}}^{{{high}}}" for base, low, high in parts)
    other = " ".join(rf"{{{base}}}^ {high} _{{\mathrm{{{low}}}}}\," for base, low, high in parts)
    assert formula_tokens(plain) == formula_tokens(other)
    assert len(formula_tokens(plain)) == 5 * len(parts)


def test_hostile_formulas_take_no_time() -> None:
    for text in ("{" * 20_000, "}" * 20_000, "^" * 20_000, "_{" * 10_000, "\\" * 20_000, r"\begin{" * 3000):
        assert len(formula_tokens(text)) <= 20_000
