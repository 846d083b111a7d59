"""Recognised LaTeX that TeX would refuse, mended."""

from __future__ import annotations

import pytest

from gravityocr.model.latex_repair import balanced, settable


def test_braces_come_to_match() -> None:
    assert balanced("}}a{b{c") == "a{b{c}}" and balanced("{a\\") == "{a}"


@pytest.mark.parametrize(
    ("latex", "mended"),
    [
        ("x^{a}^{b}", "x^{a}{}^{b}"),
        ("x^{a}_{b}^{c}", "x^{a}_{b}{}^{c}"),
        ("x_{a}^{b}y_{c}^{d}", "x_{a}^{b}y_{c}^{d}"),
        ("x^", "x^{}"),
        ("x^_{a}", "x^{}_{a}"),
        (r"\frac{a}", r"\frac{a}{}"),
        (r"\frac {a}{b}", r"\frac {a}{b}"),
        (r"{\frac a}b", r"{\frac a{}}b"),
        (r"\sqrt[3]{x}", r"\sqrt[3]{x}"),
        (r"\sqrt", r"\sqrt{}"),
        (r"\hat\mathbf{x}", r"\hat{\mathbf{x}}"),
        (r"x^\frac{1}{2}", r"x^{\frac{1}{2}}"),
        (r"\begin{array}{c}x^&y\end{array}", r"\begin{array}{c}x^{}&y\end{array}"),
        (r"a\\ b", r"a\\ b"),
        ("", ""),
    ],
)
def test_arguments_are_completed_and_scripts_never_double(latex: str, mended: str) -> None:
    assert settable(latex) == mended
    assert settable(mended) == mended


@pytest.mark.parametrize("token", ["{", r"\frac ", "x^", r"\hat{", r"\left("])
def test_junk_nested_without_end_comes_back_balanced(token: str) -> None:
    mended = settable(balanced(token * 900))
    assert mended.count("{") == mended.count("}")
