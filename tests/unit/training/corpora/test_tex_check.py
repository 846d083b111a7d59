"""TeX itself: errors are found, and one formula never spoils the verdict on another."""

from __future__ import annotations

import shutil

import pytest

from gravityocr.training.corpora.tex_check import set_without_error

pytestmark = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")


def test_every_formula_has_its_own_verdict() -> None:
    verdicts = {
        r"\frac{a}{b}": True,
        r"x^2^3": False,
        r"\sqrt{x}": True,
        r"\frac{a}{b": False,
        r"\begin{align} a &= b \\ c &= d \end{align}": True,
        r"\nosuchcommand x": False,
        "\n\nx_1\n\n+ y": True,
        r"\left( a": False,
        " ": False,
        r"\sum_{i} i": True,
    }
    assert dict(zip(verdicts, set_without_error([*verdicts]), strict=True)) == verdicts
