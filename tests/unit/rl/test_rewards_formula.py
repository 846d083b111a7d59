r"""The formula reward by hand: the canonical form, the checks, and their price."""

from __future__ import annotations

import doctest

import pytest

from gravityocr.rl import formula_reward
from gravityocr.rl.formula_reward import canon, format_faults, score_formula


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(formula_reward).failed == 0


@pytest.mark.parametrize(
    ("latex", "form"),
    [
        ("", ""),
        (" \n ", ""),
        ("$x$", "x"),
        (r"\[ x \]", "x"),
        (r"$$\( x \)$$", "x"),
        (r"\dfrac{a}{b}", r"\frac ab"),
        (r"\tfrac{1}{2}", r"\frac12"),
        (r"\left( x \right)", "(x)"),
        (r"\left. x \right|", ".x|"),
        (r"\leftarrow x", r"\leftarrow x"),
        (r"a\,b\;c\:d\!e\ f\quad g\qquad h~i", "abcdefghi"),
        (r"a\hspace{1em}b\hspace*{2pt}c\kern3pt d\mkern-2mu e", "abcde"),
        (r"a \\[2pt] b", r"a\\[2pt]b"),
        (r"a \\hspace", r"a\\hspace"),
        (r"\{ x \}", r"\{x\}"),
        (r"\alpha x", r"\alpha x"),
        (r"\alpha{x}", r"\alpha x"),
        (r"\alphax", r"\alphax"),
        (r"\alpha 2", r"\alpha2"),
        (r"\mathbf{X}", r"\mathbf X"),
        (r"x = 1 \tag{3.2} \notag", "x=1"),
        (r"5\$", r"5\$"),
        ("X", "X"),  # case counts
        ("\\", "\\"),
    ],
)
def test_the_canonical_form(latex: str, form: str) -> None:
    assert canon(latex) == form


@pytest.mark.parametrize(
    ("latex", "faults"),
    [
        (r"\left( \frac{a}{b} \right)", set()),
        ("{a", {"braces"}),
        ("}a{", {"braces"}),
        (r"\{a", set()),
        (r"\\{a}", set()),
        (r"\\\{a}", {"braces"}),
        (r"\left( a", {"left-right"}),
        (r"\right) a \left(", {"left-right"}),
        (r"\leftarrow", set()),
        (r"\left(a\right)\right)", {"left-right"}),
        (r"\begin{array}{l} a \end{array}", set()),
        (r"\begin{array} a", {"begin-end"}),
        (r"\begin{array} a \end{matrix}", {"begin-end"}),
        (r"\begin{a}\begin{b}\end{a}\end{b}", {"begin-end"}),
        (r"\end{a}\begin{a}", {"begin-end"}),
        ("$a", {"dollars"}),
        ("$a$", set()),
        (r"5\$", set()),
        (r"$\left{", {"dollars", "left-right", "braces"}),
    ],
)
def test_the_checks(latex: str, faults: set[str]) -> None:
    assert format_faults(latex) == faults


REF = r"\left( \frac{a}{b} \right)"


@pytest.mark.parametrize(
    ("pred", "ref", "reward"),
    [
        (REF, REF, 1.0),
        (r"$$(\dfrac ab)$$", REF, 1.0),
        (REF + "}", REF, 0.3),
        (r"\left( \frac{a}{b} )", REF, 0.3),
        (r"\left( \frac{a}{b )$", REF, 0.027),
        ("x+1", "x-1", 2 / 3),
        ("", "x", 0.0),
        ("", "", 1.0),
        ("{}", "{}", 1.0),
        ("{}", "{} {}", 0.4),  # a reference of nothing but what is dropped is compared as it stands
        ("{}{}", "x", 0.0),
    ],
)
def test_formulas_by_hand(pred: str, ref: str, reward: float) -> None:
    assert score_formula(pred, ref) == pytest.approx(reward)


@pytest.mark.parametrize("fault", ["}", "$", r"\left(", r"\begin{a}"])
def test_a_check_that_the_reference_fails_is_no_check(fault: str) -> None:
    ref = fault + "x+1"
    assert score_formula(ref, ref) == 1.0
    assert score_formula(ref, "x+1") <= 0.3
    assert score_formula("x+1", ref) == pytest.approx(score_formula(canon("x+1"), ref))


@pytest.mark.parametrize("nothing", ["{}", r"\,", r"\quad ", " ", "$$", r"\left\right", r"{\,}"])
def test_what_is_dropped_may_not_go_on_without_end(nothing: str) -> None:
    assert score_formula("x+1" + nothing * 2, "x+1") == 1.0
    assert score_formula("x+1" + nothing * 100, "x+1") <= 0.16
    assert score_formula("x+1" + nothing * 100, "x+1" + nothing * 100) == 1.0
