"""LaTeX to MathML: converted whole or left as LaTeX, and nothing in it gets out."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from gravityocr.pipeline.export.mathml import formula_html, visible


def elements(markup: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(markup).iter())


def test_a_formula_is_mathml_with_its_source() -> None:
    math = ElementTree.fromstring(formula_html(r"\frac{a}{b} \leq c"))
    assert math.tag == "math" and math.get("display") == "inline" and math.get("title") == r"\frac{a}{b} \leq c"
    assert [item.text for item in math.iter() if item.text] == ["a", "b", "≤", "c"]
    assert [len(item) for item in math.iter("mfrac")] == [2]


def test_a_number_stands_beside_its_formula() -> None:
    shown = ElementTree.fromstring(formula_html(r"E = mc^2 \tag{3.1}", display=True))
    math, number = shown
    assert (shown.get("class"), math.get("display"), number.text) == ("formula", "block", "(3.1)")
    assert "tag" not in "".join(math.itertext())


@pytest.mark.parametrize(
    ("latex", "n_rows"),
    [
        (r"\begin{aligned}a&=b\\c&=d\end{aligned}", 2),
        (r"\begin{gathered}a\\b\\c\end{gathered}", 3),
        (r"\begin{alignedat}{2}a&=b\\c&=d\end{alignedat}", 2),
        (r"\begin{cases}a&b\\c&d\end{cases}", 2),
        (r"a\\b", 2),
    ],
)
def test_lines_stay_lines(latex: str, n_rows: int) -> None:
    assert [item.tag for item in elements(formula_html(latex, display=True))].count("mtr") == n_rows


@pytest.mark.parametrize(
    "latex",
    [r"\unknowncommand{x}", r"\frac{a", "a_{", "a & b", r"\left( a", r"\begin{array}{l}a", "a^2^2", "{" * 5000,
     "x" * 30000],
)  # fmt: skip
def test_what_cannot_be_converted_is_shown_as_it_is(latex: str) -> None:
    (code,) = elements(formula_html(latex, display=True))
    assert (code.tag, code.text) == ("code", latex)


@pytest.mark.parametrize(
    "latex",
    [
        r"\text{<script>alert(1)</script>}", r"\href{javascript:alert(1)}{x}", r"\class{a}{x}", r"\style{color:red}{x}",
        r"\text{&lt;img src=x&gt;}", '"><img src=x>', r"\color{red\"onclick=alert(1)}x",
    ],
)  # fmt: skip
def test_no_markup_comes_out_of_a_formula(latex: str) -> None:
    for item in elements(formula_html(latex)):
        assert item.tag in {"math", "mrow", "mi", "mo", "mn", "mtext", "mspace", "mstyle", "code"}
        assert item.attrib.keys() <= {"display", "title", "class", "mathvariant", "stretchy", "fence"}


def test_control_characters_are_seen() -> None:
    assert visible("a\x00\tb\x1b") == "a␀\tb␛"
    assert "␀" in formula_html("x\x00")
