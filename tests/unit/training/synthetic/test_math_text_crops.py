"""Pieces of prose with formulas: their size, their dollars, their places; cuts only where a reader may cut."""

from __future__ import annotations

import json
import shutil
import subprocess

import numpy as np
import pytest

from gravityocr.errors import InputError
from gravityocr.training.synthetic.charset import CHARSET
from gravityocr.training.synthetic.formula_items import write_items
from gravityocr.training.synthetic.formula_parser import parse_formula
from gravityocr.training.synthetic.formula_source import prepare_formulas
from gravityocr.training.synthetic.inline_formulas import inline_formula
from gravityocr.training.synthetic.latex_vocabulary import LATEX_TOKENS
from gravityocr.training.synthetic.math_text_crops import make_math_text_samples
from gravityocr.training.synthetic.math_text_lines import InlineFormula, Word, paint_line, tex_of_word


def _has_fonts() -> bool:
    if not shutil.which("pdflatex") or not shutil.which("kpsewhich"):
        return False
    found = subprocess.run(["kpsewhich", "lmodern.sty", "ec-lmr10.tfm"], capture_output=True, text=True, check=False)
    return len(found.stdout.split()) == 2


needs_fonts = pytest.mark.skipif(not _has_fonts(), reason="no TeX fonts: apt-get install texlive-latex-extra lmodern")


@pytest.fixture
def data_dir(tmp_path):
    (tmp_path / "raw.json").write_text(json.dumps([rf"x_{{{k}}}+\alpha=\frac{{1}}{{2}}" for k in range(200)]))
    prepare_formulas(tmp_path / "raw.json", tmp_path)
    text = (
        "The efficient office of a first offer grows, as we said before (see below), with every single paragraph. " * 4
    )
    rows = [{"split": "train", "text": text}]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@needs_fonts
def test_pieces_are_ready_for_the_network(data_dir):
    samples = list(make_math_text_samples(data_dir, "train", 5, 40))
    assert len(samples) == 40
    known = set(CHARSET) | set(LATEX_TOKENS)
    for sample in samples:
        height, width = sample.image.shape
        assert sample.task == "text" and height == 32 and width % 64 == 0 and 64 <= width <= 384
        assert (sample.image[:, :3] > 200).all() and sample.image.min() < 128
        assert set(sample.tokens) <= known
        assert sample.tokens.count("$") % 2 == 0
        assert sample.tokens[0] != " " and sample.tokens[-1] != " " and "  " not in sample.target
        seen = np.isfinite(sample.centers_px[:, 0])
        assert (sample.centers_px[seen] >= 0).all() and (sample.centers_px[seen] < [width, height]).all()
        inside = np.cumsum([token == "$" for token in sample.tokens]) % 2 == 1
        for token, formula, placed in zip(sample.tokens, inside, seen, strict=True):
            assert placed or formula or token == "$", sample.target
        for text in sample.target.split("$")[1::2]:
            assert text.count("{") == text.count("}") and not text.startswith((" ", "^", "_"))
            parse_formula(text.replace("\\left", "").replace("\\right", ""))
    assert any("$" in s.target for s in samples) and any("$" not in s.target for s in samples)


@needs_fonts
def test_the_letters_stand_where_they_are_said_to(data_dir):
    for sample in make_math_text_samples(data_dir, "train", 6, 12):
        letters = [
            i for i, token in enumerate(sample.tokens) if token.isalpha() and np.isfinite(sample.centers_px[i, 0])
        ]
        inked = 0
        for i in letters:
            x = int(sample.centers_px[i, 0])
            inked += int((sample.image[:, max(0, x - 3) : x + 4] < 160).any())
        assert inked >= 0.95 * len(letters), sample.target
        order = [i for i in letters if "$" not in sample.target]
        assert (np.diff(sample.centers_px[order, 0]) > 0).all()


@needs_fonts
def test_a_seed_makes_the_same_samples(data_dir):
    one, two = (list(make_math_text_samples(data_dir, "train", 7, 5)) for _ in range(2))
    assert [s.target for s in one] == [s.target for s in two]
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.image, b.image)


def test_words_are_drawn_as_they_stand():
    assert tex_of_word("--listen") == "-{}-listen"
    assert tex_of_word("50%_$") == r"50\%\_\$"
    assert tex_of_word("“a–b”") == "``a--b''"
    assert tex_of_word("office") == "office"


def test_marks_of_a_line_are_counted_through():
    tokens = tuple(write_items(parse_formula("a+b")))
    line = paint_line([Word("one"), InlineFormula(tokens), Word(",", glued=True), Word("two")])
    assert line.marks == (0, 1, 4, 5) and line.n_marks == 6
    assert line.latex.count("\\GC") == 6 and "$," not in line.latex.replace("\\GC", "")
    assert [painted is None for painted in line.painted] == [True, False, True, True]


def test_the_small_grammar_writes_formulas_of_the_vocabulary():
    rng = np.random.default_rng(0)
    written = {inline_formula(rng) for _ in range(400)}
    assert len(written) > 300
    for latex in written:
        assert write_items(parse_formula(latex))


@needs_fonts
def test_a_corpus_without_a_line_to_set_is_named(data_dir):
    row = {"split": "train", "text": "日本語の文章 " * 20}
    (data_dir / "corpus.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match=r"corpus\.jsonl has no line"):
        next(make_math_text_samples(data_dir, "train", 0, 1))
