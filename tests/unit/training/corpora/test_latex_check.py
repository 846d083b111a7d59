"""The fast check of LaTeX: what TeX does not set goes, and what looks odd but is right stays."""

from __future__ import annotations

import pytest

from gravityocr.training.corpora.latex_check import formula_fault, is_known_command, text_fault

SOUND = [
    r"x",
    r"x_i^2",
    r"x^{2}_{i}",
    r"x'^2",
    r"x''_a",
    r"{x^a}^b",
    r"x^a{}^b",
    r"\frac12",
    r"\frac\alpha\beta",
    r"\sqrt[3]{x}",
    r"\left( a \right]",
    r"\left. a \right|_{x=0}",
    r"\left\{ a \middle| b \right\}",
    r"\{ a",
    r"a \} b",
    r"[0, 1)",
    r"\begin{cases} a & b \\ c & d \end{cases}",
    r"\begin{array}{c|c} a & b \\ \hline c \end{array}",
    r"\begin{array}[t]{@{}l@{}} a \end{array}",
    r"\matrix{a & b \cr c & d}",
    r"\pmatrix{1 & 0 \\ 0 & 1}",
    r"\text{if } x > 0",
    r"\text{for $x_1$ and } y",
    r"\operatorname{div} u",
    r"\operatorname*{argmax}_x f",
    r"a \over b",
    r"{a \over b} + {c \over d}",
    r"\sum\limits_{i=1}^{n} i",
    r"\tag{1}",
    r"\hat\bar x",
    r"x_\mathbf{Y}",
    r"\sqrt\frac{1}{2}",
    r"\bigl\langle x \big{|}",
    r"\label{eq:a_b}",
    r"\hspace{1em} a",
    r"\begin{aligned} a &= \left( b \right) \\ &= c \end{aligned}",
    r"50\% of x",
    "a % a comment { $\n b",
    r"\mathrm{d}x",
    r"\bigl( x \bigr)",
    r"\overbrace{a+b}^{n}",
    r"\underset{x}{\lim}",
    r"x \ ",
    r"a\, b\; c\! d",
    "",
    r"^2",
    r"$$ x^2 $$",
    r"\[ x^2 \]",
    r"\substack{a \\ b}",
    r"\mathbf x_1",
    r"e^\frac{1}{2}",
    r"\phantom{x}",
    r"\xrightarrow[a]{b}",
    r"\color{red}{x}",
    r"\textcolor{red}{x_1}",
    r"\ce{H2O}",
    r"\not= b",
    r"\begin{gathered} a \\ b \end{gathered}",
]
BROKEN = [
    r"\frac{a}{b",
    r"a}",
    r"x^2^3",
    r"x_1_2",
    r"x^{2}'",
    r"x^",
    r"x^}",
    r"{x_}",
    r"x^^2",
    r"\frac{a}",
    r"{\sqrt}",
    r"\left( a",
    r"a \right)",
    r"\left a \right)",
    r"\left( { a \right) }",
    r"\middle| a",
    r"\begin{cases} a & b",
    r"\begin{cases} a \end{array}",
    r"a \end{cases}",
    r"a & b",
    r"{ a & b }",
    r"\left( a & b \right)",
    r"\begin{array} a & b \end{array}",
    r"\begin{nowhere} a \end{nowhere}",
    r"\begin",
    r"a $ b",
    r"a # b",
    r"\text{a_b}",
    r"\text{a^b}",
    r"\tag{1_a}",
    r"\vec\mathrm{F}",
    r"\frac\sqrt{2}{3}",
    r"\mathbf\hat{x}",
    r"\Bigl \sum",
    r"\big",
    r"\begin{matrix} \left( a & b \right) \end{matrix}",
    r"{a \over b \over c}",
    r"\begin{gather} a & b \end{gather}",
    r"\begin{matrix} x^ & b \end{matrix}",
    r"\left\lfoor x \right)",
]


@pytest.mark.parametrize("latex", SOUND)
def test_sound_formulas_stay(latex: str) -> None:
    assert formula_fault(latex) is None


@pytest.mark.parametrize("latex", BROKEN)
def test_broken_formulas_go(latex: str) -> None:
    fault = formula_fault(latex)
    assert fault is not None and fault.kind == "structure"


def test_unknown_commands_are_named_and_may_be_allowed() -> None:
    fault = formula_fault(r"\fracc{a}{b} + \alpha")
    assert fault is not None and (fault.kind, fault.what) == ("command", r"\fracc")
    assert formula_fault(r"\fracc{a}{b} + \alpha", ["fracc"]) is None
    assert formula_fault(r"\begin{nowhere} a \end{nowhere}", ["nowhere"]) is None
    # A broken structure says more than a strange name.
    assert formula_fault(r"\fracc{a}{b").kind == "structure"
    assert is_known_command("varepsilon") and not is_known_command("varepsilonn")


def test_formulas_in_texts_are_checked_and_prices_are_none() -> None:
    assert text_fault(r"mass $m_{\alpha}$ and \(x^2\) and $$\frac{a}{b}$$") is None
    assert text_fault("between $5 & $6, or $7") is None
    assert text_fault("no formula } at all { _ ^ & #") is None
    for text in (r"mass $m_{\alpha$ here", r"a \(x^2^3\) b", "see $$\\frac{a}{b$$ there", "\\[ a & b \\]"):
        assert text_fault(text) is not None
    assert text_fault(r"a $\foobar x$ b").what == r"\foobar"


def test_a_long_formula_takes_linear_time() -> None:
    deep = "{" * 50_000
    assert formula_fault(deep).what == "{ that nothing closes"
    assert formula_fault(deep + "}" * 50_000) is None
