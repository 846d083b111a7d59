"""Crops of formulas: every token where its ink is, deterministic, ordinary brackets written as such."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.tex_tools import needs_tex

from gravityocr.errors import InputError
from gravityocr.training.synthetic.formula_crops import make_formula_samples, paint, token_centers, without_small_fences
from gravityocr.training.synthetic.formula_items import write_items
from gravityocr.training.synthetic.formula_parser import parse_formula
from gravityocr.training.synthetic.formula_source import FormulaSource, prepare_formulas, renamed
from gravityocr.training.synthetic.tex_fonts import MATH_FONTS, font_preamble
from gravityocr.training.synthetic.tex_pages import render_pages

FORMULAS = [
    r"\frac{a}{b}+c",
    r"x^2+y^2=z^2",
    r"\sum_{i=1}^n a_i",
    r"\left(\frac{p}{q}\right)^n",
    r"\hat x \in \mathbb{R}",
    r"\bad",
]


@pytest.fixture
def data_dir(tmp_path):
    (tmp_path / "raw.json").write_text(json.dumps([*FORMULAS, *[rf"x_{{{k}}}+y" for k in range(200)]]))
    prepare_formulas(tmp_path / "raw.json", tmp_path)
    return tmp_path


def draw(latex: str):
    painted = paint(write_items(parse_formula(latex)))
    cm = next(font for font in MATH_FONTS if font.name == "cm")
    bodies = [rf"$\displaystyle {painted.latex}$", "$x$"]
    page, _ = render_pages(font_preamble(cm, 10), bodies, [painted.n_marks, 0], timeout_s=30)
    assert page is not None
    return painted, page


@needs_tex
def test_every_token_is_placed_where_its_ink_is():
    painted, page = draw(r"\frac{a}{b}+c^{2}\sqrt{d}\left(\frac{e}{f}\right)")
    centers = dict(zip((t.token for t in painted.tokens), token_centers(painted, page.boxes), strict=False))
    tokens = [t.token for t in painted.tokens]
    places = token_centers(painted, page.boxes)
    at = {token: places[i] for i, token in enumerate(tokens)}
    assert centers.keys() == at.keys()
    assert at["a"][1] < places[0][1] < at["b"][1]
    assert (
        at["a"][0]
        < at["+"][0]
        < at["c"][0]
        < at["2"][0]
        < at["d"][0]
        < at["\\left("][0]
        < at["e"][0]
        < at["\\right)"][0]
    )
    assert at["2"][1] < at["c"][1]
    for i, (token, mark) in enumerate(zip(tokens, painted.marks, strict=True)):
        assert np.isnan(places[i]).all() == (mark < 0), token
    left, top, right, bottom = page.boxes[painted.marks[tokens.index("c")]].astype(int)
    assert (page.image[top:bottom, left:right] < 128).any()


@needs_tex
def test_colours_move_nothing():
    latex = r"a+b^{2}_{i}=\frac{c}{d}\left(x-y\right)"
    painted, page = draw(latex)
    plain = "".join(t.token for t in painted.tokens)
    cm = next(font for font in MATH_FONTS if font.name == "cm")
    (bare,) = render_pages(font_preamble(cm, 10), [rf"$\displaystyle {plain}$"], [0], timeout_s=30)
    assert bare is not None
    height, width = bare.image.shape
    assert abs(page.image.shape[0] - height) <= 1 and abs(page.image.shape[1] - width) <= 2


@needs_tex
def test_a_formula_that_tex_refuses_spoils_no_other():
    cm = next(font for font in MATH_FONTS if font.name == "cm")
    bodies = ["$a$", r"$\nosuchcommand$", "$x^2^3$", "$b$"]
    pages = render_pages(font_preamble(cm, 10), bodies, [0] * 4, timeout_s=30)
    assert [page is not None for page in pages] == [True, False, False, True]


@needs_tex
def test_samples_are_deterministic_and_complete(data_dir):
    samples = list(make_formula_samples(data_dir, "train", 3, 6))
    again = list(make_formula_samples(data_dir, "train", 3, 6))
    assert len(samples) == 6
    for one, two in zip(samples, again, strict=True):
        assert one.tokens == two.tokens
        np.testing.assert_array_equal(one.image, two.image)
        assert one.task == "formula" and one.centers_px.shape == (len(one.tokens), 2)
        height, width = one.image.shape
        seen = one.centers_px[np.isfinite(one.centers_px[:, 0])]
        assert len(seen) and (seen >= 0).all() and (seen < [width, height]).all()
        assert (one.image[:2] == 255).all() and (one.image[:, -2:] == 255).all() and one.image.min() < 128
    assert [s.target for s in samples] != [s.target for s in make_formula_samples(data_dir, "train", 4, 6)]


def test_fences_of_ordinary_height_become_plain_brackets():
    tokens = ["\\left(", "x", "\\right)", "\\left.", "y", "\\right|", "\\left[", "z", "\\right]"]
    heights = np.array([30, 10, 30, np.nan, 10, 30, 60, 10, 60.0])
    centers = np.arange(18, dtype=np.float32).reshape(9, 2)
    out, places = without_small_fences(tokens, centers, heights, usual_px=33)
    assert out == ("(", "x", ")", "y", "|", "\\left[", "z", "\\right]")
    np.testing.assert_array_equal(places, centers[[0, 1, 2, 4, 5, 6, 7, 8]])


def test_the_source_splits_by_normal_form_and_counts_it_once(tmp_path):
    (tmp_path / "raw.json").write_text(json.dumps([r"a\le b", r"a \leq b", *[f"x_{{{k}}}=y" for k in range(900)]]))
    counts = prepare_formulas(tmp_path / "raw.json", tmp_path)
    assert counts["train"] + counts["heldout"] == 901 and counts["heldout"] > 0
    train, heldout = (FormulaSource(tmp_path, split)._latex for split in ("train", "heldout"))
    assert not set(train) & set(heldout)


def test_missing_and_broken_sources_are_named(tmp_path):
    with pytest.raises(InputError, match=r"formulas\.jsonl.*prepare_data"):
        FormulaSource(tmp_path, "train")
    (tmp_path / "formulas.jsonl").write_text('{"latex": "x"}\n')
    with pytest.raises(InputError, match="line 1"):
        FormulaSource(tmp_path, "train")
    (tmp_path / "raw.json").write_text("3")
    with pytest.raises(InputError, match="neither a list"):
        prepare_formulas(tmp_path / "raw.json", tmp_path)


def test_renaming_keeps_the_structure():
    items = parse_formula(r"x_{i}+\frac{x}{y}")
    new = renamed(items, np.random.default_rng(1))
    assert [item.kind for item in new if item.kind == "macro" and item.name == "\\frac"] == ["macro"]
    assert any(renamed(items, np.random.default_rng(seed)) != items for seed in range(5))


@needs_tex
def test_formulas_of_which_none_can_be_set_are_named(tmp_path):
    row = {"latex": "\\foo{", "split": "train", "n_tokens": 5, "source": "test"}
    (tmp_path / "formulas.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match=r"none of .*formulas\.jsonl can be set"):
        next(make_formula_samples(tmp_path, "train", 0, 1))
