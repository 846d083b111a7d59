"""Pictures of formulas for the report."""

from __future__ import annotations

import io
import shutil

import numpy as np
import pytest
from PIL import Image

from gravityocr.metrics.formulas.formula_pictures import draw_formulas

pytestmark = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX here: pictures are made with it")


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("L"))


def test_formulas_are_drawn_whatever_stands_beside_them():
    wide = "+".join(f"x_{{{n}}}" for n in range(60))
    formulas = [
        r"\frac{a}{b}",
        r"\undefined x",
        "",
        r"\end{document}",
        "速度=v",
        r"\begin{tabular}{ll}a&b\end{tabular}",
        wide,
    ]
    drawn = draw_formulas([*formulas, formulas[0]])
    assert [png is not None for png in drawn] == [True, True, False, False, True, True, True, True]
    assert drawn[0] == drawn[7]
    tall, long = pixels(drawn[0]), pixels(drawn[6])
    assert tall.shape[0] > tall.shape[1] * 0.8 and long.shape[1] > 20 * tall.shape[1]
    for picture in (tall, long):
        assert picture.min() < 100 and (picture[:8] == 255).all() and (picture[-8:] == 255).all()


def test_long_and_unprintable_formulas_are_no_reason_to_stop():
    drawn = draw_formulas(["x" * 100_000, "a\x00b\ud800", "a\n\nb"])
    assert [png is not None for png in drawn] == [False, True, True]
