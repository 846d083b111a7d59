r"""One spelling for what is drawn alike; refusals; `parse` of a target gives the target again."""

from __future__ import annotations

import pytest

from gravityocr.errors import InputError
from gravityocr.training.synthetic.charset import CHARSET
from gravityocr.training.synthetic.formula_items import FormulaFormError, write_items
from gravityocr.training.synthetic.formula_normal_form import target_tokens
from gravityocr.training.synthetic.formula_parser import parse_formula
from gravityocr.training.synthetic.latex_vocabulary import LATEX_TOKENS

SAME = [
    (r"a \le b", r"a\leq b"),
    (r"x\to 0", r"x\rightarrow 0"),
    (r"{1 \over 2}", r"\frac{1}{2}"),
    (r"\dfrac{1}{2}", r"\frac{1}{2}"),
    (r"{n \choose k}", r"\binom{n}{k}"),
    (r"x^2_i", r"x_{i}^{2}"),
    (r"\displaystyle \sum\limits_{i} x", r"\sum_i x"),
    (r"\! a\, b~c\ ", "abc"),
    (r"a\qquad b", r"a\quad\quad b"),
    (r"{\bf x}", r"\mathbf{x}"),
    (r"{\rm d}x", r"\mathrm{d}x"),
    (r"\bold{v}", r"\mathbf v"),
    (r"\operatorname{sin} x", r"\sin x"),
    (r"\mathrm{sin} x", r"\sin x"),
    (r"\operatorname{foo}", r"\mathrm{foo}"),
    (r"\operatorname*{lim}_{x} f", r"\lim_{x} f"),
    (r"\mathrm{H_2O}", r"\mathrm{H}_2\mathrm{O}"),
    (r"\mathrm{a}\mathrm{b}", r"\mathrm{ab}"),
    (r"\mathrm{12}", "12"),
    (r"\mathit{x}", "x"),
    (r"{{a}+{b}}", "a+b"),
    (r"{(a)}^2", "(a)^2"),
    (r"\phi{}^{\prime}", r"\phi'"),
    (r"f'", r"f^{\prime}"),
    (r"\bigl( x \bigr)", r"\left( x \right)"),
    (r"a\not= b", r"a\ne b"),
    (r"a+\dots+b", r"a+\cdots+b"),
    (r"a,\dots,b", r"a,\ldots,b"),
    (r"\R^n", r"\mathbb{R}^n"),
    (r"\begin{pmatrix}a&b\\c&d\end{pmatrix}", r"\left(\begin{array}{cc}a&b\\c&d\end{array}\right)"),
    (r"\begin{aligned}a&=b\\c&=d\end{aligned}", r"\begin{array}{rl}a&=b\\c&=d\end{array}"),
    (r"\mathrm{for\ all}\,\mathrm{x}", r"\text{for all x}"),
    (r"\left< x \right>", r"\left\langle x\right\rangle"),
]


def target(latex: str) -> str:
    return "".join(target_tokens(parse_formula(latex)))


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_draws_alike_is_written_alike(one, other):
    assert target(one) == target(other)


@pytest.mark.parametrize("latex", [latex for pair in SAME for latex in pair])
def test_a_target_is_its_own_normal_form(latex):
    assert target(target(latex)) == target(latex)


def test_the_spelling_of_a_formula_of_many_parts():
    spelled = target(r"{}_2F_1 = \sqrt[3]{\hat\alpha} \Big|_{x=0}")
    assert spelled == r"{}_{2}F_{1}=\sqrt [3]{\hat {\alpha }}\Big |_{x=0}"


def test_different_drawings_stay_different():
    pairs = [(r"\bar x", r"\overline{x}"), (r"\phi", r"\varphi"), (r"\mathbf x", "x"), ("a b", r"a\quad b")]
    for one, other in pairs:
        assert target(one) != target(other)


@pytest.mark.parametrize(
    "latex",
    [
        r"\def\a{b}", r"\color{red} x", r"a & b", r"\frac{}{2}", r"\mathbb{x}", r"\begin{array}{l}\end{array}",
        r"\not\beta", "∆", r"\left( x", r"\operatorname*{a+b}", r"{" * 60 + "x" + "}" * 60,
    ],
)  # fmt: skip
def test_formulas_without_a_rule_are_refused(latex):
    with pytest.raises(InputError):
        target(latex)


def test_a_row_that_starts_like_an_option_is_refused():
    with pytest.raises(FormulaFormError, match="option"):
        target(r"\begin{array}{l}a\\ {[}b]\end{array}")


def test_the_vocabulary_holds_every_token_once():
    assert len(set(LATEX_TOKENS)) == len(LATEX_TOKENS) <= 320
    assert not set(LATEX_TOKENS) & set(CHARSET)
    for token in LATEX_TOKENS:
        assert token.startswith("\\")
        assert token.endswith(" ") == (token.strip()[-1].isalpha() or token == "\\\\ ")


def test_written_tokens_say_what_they_draw():
    written = write_items(parse_formula(r"\hat x^2 + \frac{a}{b}"))
    roles = [(token.token, token.role) for token in written]
    assert roles[:4] == [("\\hat ", "ink"), ("{", "plain"), ("x", "body"), ("}", "plain")]
    assert [role for token, role in roles if token in "{}"][2:] == ["open", "close"] * 3
