"""The synthetic text crops: determinism, exact truth, character positions, splits."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import ImageFont

from gravityocr.errors import ConfigError, InputError
from gravityocr.training.synthetic.charset import ASCII, CHARSET, LIGATURES, fold_to_charset, restrict
from gravityocr.training.synthetic.corpus import clean_paragraph, typeset
from gravityocr.training.synthetic.fonts import FontLibrary, is_held_out
from gravityocr.training.synthetic.text_crops import CELL, CropConfig, TextCropRenderer, TextSample

TRAIN_TEXT = (
    "The quick brown fox jumps over the lazy dog while a jackdaw loves my big sphinx of quartz.\n"
    'It is said that "printing" (1450-1500) changed the world - and the office files of every flat office.'
)
HELD_OUT_TEXT = "Completely different evaluation sentences belong to documents that training never reads at all."


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a data directory from Pillow's own font: two families, two documents."""
    out = tmp_path_factory.mktemp("data")
    source = ImageFont.load_default(20).path
    assert isinstance(source, io.BytesIO)
    rows = []
    for name, family, split in (("plain", "Plain", "train"), ("carlito", "Carlito", "heldout")):
        (out / f"{name}.ttf").write_bytes(source.getvalue())
        rows.append({"path": f"{name}.ttf", "family": family, "style": "regular", "split": split, "chars": "–“”"})
    (out / "fonts.json").write_text(json.dumps(rows), encoding="utf-8")
    documents = ({"split": "train", "text": TRAIN_TEXT}, {"split": "heldout", "text": HELD_OUT_TEXT})
    (out / "corpus.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents), encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def renderer(data_dir: Path) -> TextCropRenderer:
    return TextCropRenderer(data_dir, "train")


def draw_many(renderer: TextCropRenderer, count: int, difficulty: float, seed: int = 0) -> list[TextSample]:
    rng = np.random.default_rng(seed)
    return [renderer.sample(rng, difficulty) for _ in range(count)]


@pytest.mark.parametrize("difficulty", [0.0, 0.6, 1.0])
def test_equal_seeds_give_equal_samples(data_dir: Path, renderer: TextCropRenderer, difficulty: float) -> None:
    other = TextCropRenderer(data_dir, "train")
    draw_many(other, 5, 1.0, seed=99)  # a warm cache must not change anything
    for a, b in zip(draw_many(renderer, 25, difficulty, 3), draw_many(other, 25, difficulty, 3), strict=True):
        assert a.text == b.text
        np.testing.assert_array_equal(a.image, b.image)
        np.testing.assert_array_equal(a.centers_px, b.centers_px)


def test_different_seeds_differ(renderer: TextCropRenderer) -> None:
    assert [s.text for s in draw_many(renderer, 10, 1.0, 1)] != [s.text for s in draw_many(renderer, 10, 1.0, 2)]


@pytest.mark.parametrize("difficulty", [0.0, 1.0])
def test_geometry_and_positions(renderer: TextCropRenderer, difficulty: float) -> None:
    for sample in draw_many(renderer, 150, difficulty):
        height, width = sample.image.shape
        assert sample.image.dtype == np.uint8
        assert height % CELL == 0 and width % CELL == 0
        assert height == 32 * (sample.text.count("\n") + 1) or "\n" not in sample.text
        assert sample.text and sample.text == sample.text.strip()
        assert sample.centers_px.shape == (len(sample.text), 2)
        assert sample.centers_px.dtype == np.float32
        assert (sample.centers_px >= 0).all()
        assert (sample.centers_px[:, 0] < width).all() and (sample.centers_px[:, 1] < height).all()
        start = 0
        for line in sample.text.split("\n"):
            xs = sample.centers_px[start : start + len(line), 0]
            assert (np.diff(xs) > 0).all(), sample.text
            start += len(line) + 1


def test_glyph_centers_lie_on_ink_and_space_centers_on_paper(renderer: TextCropRenderer) -> None:
    inked, blank = [], []
    for sample in draw_many(renderer, 120, 0.0):
        profile = 255.0 - sample.image.min(axis=0)
        for (x, _), char in zip(sample.centers_px, sample.text, strict=True):
            near = profile[max(0, int(x) - 2) : int(x) + 3].max()
            (blank if char == " " else inked).append(near)
    assert np.mean(np.array(inked) > 60) > 0.99
    assert np.mean(np.array(blank) < 60) > 0.9


def test_columns_outside_the_text_are_blank(renderer: TextCropRenderer) -> None:
    for sample in draw_many(renderer, 60, 0.0):
        columns = np.flatnonzero(sample.image.min(axis=0) < 128)
        assert columns[0] > sample.centers_px[0, 0] - 24
        assert columns[-1] < sample.centers_px[-1, 0] + 24


def test_ink_height_follows_the_configuration(data_dir: Path) -> None:
    heights = {}
    for ink in (12.0, 24.0):
        small = TextCropRenderer(data_dir, "train", CropConfig(ink=(ink, ink, ink)))
        samples = [s for s in draw_many(small, 120, 0.0) if {"p", "l"} <= set(s.text) and s.text.isascii()]
        rows = [np.flatnonzero(s.image.min(axis=1) < 128) for s in samples]
        heights[ink] = np.median([r[-1] - r[0] + 1 for r in rows])
    assert heights[12.0] == pytest.approx(12.0, abs=2.0)
    assert heights[24.0] == pytest.approx(24.0, abs=2.5)


def test_line_centers_are_jittered(renderer: TextCropRenderer) -> None:
    ys = [s.centers_px[0, 1] for s in draw_many(renderer, 80, 0.0)]
    assert np.std(ys) > 0.5


def test_text_stays_in_the_charset(renderer: TextCropRenderer) -> None:
    seen = set("".join(s.text for s in draw_many(renderer, 400, 1.0)))
    assert seen <= set(CHARSET)
    assert seen <= set(ASCII) | set("–“”\n")  # what the face does not cover is never in the label
    assert not seen & set(LIGATURES.values())
    assert len(seen & set(ASCII)) > 80


def test_multi_line_crops_appear_only_when_hard(renderer: TextCropRenderer) -> None:
    assert not any("\n" in s.text for s in draw_many(renderer, 100, 0.5))
    hard = draw_many(renderer, 150, 1.0)
    assert {s.image.shape[0] for s in hard} == {32, 64, 96}
    assert any("\n" in s.text for s in hard)


def test_easy_crops_are_black_on_white(renderer: TextCropRenderer) -> None:
    for sample in draw_many(renderer, 40, 0.0):
        assert np.median(sample.image) > 240
        assert sample.image.min() < 90


def test_splits_never_mix(data_dir: Path) -> None:
    train, held = (FontLibrary(data_dir, "train"), FontLibrary(data_dir, "heldout"))
    assert not any(is_held_out(face.family) for face in train.faces)
    assert all(is_held_out(face.family) for face in held.faces)
    words = set(HELD_OUT_TEXT.replace(".", "").split()) - set(TRAIN_TEXT.split())
    for split, expected in (("train", False), ("heldout", True)):
        texts = " ".join(s.text for s in draw_many(TextCropRenderer(data_dir, split), 80, 0.0))
        assert any(word in texts.split() for word in words) is expected


@pytest.mark.parametrize("family", ["Carlito", "TeX Gyre Pagella Math", "Linux Biolinum O", "Inconsolata"])
def test_held_out_families_are_known_by_prefix(family: str) -> None:
    assert is_held_out(family)
    assert not is_held_out("Linux Libertine O")


def test_charset_is_free_of_duplicates() -> None:
    assert len(CHARSET) == len(set(CHARSET))
    assert set(ASCII) | {"\n"} <= set(CHARSET)


def test_folding() -> None:
    assert fold_to_charset("5\u00a0µm  of\nﬁlm") == "5 μm of film"
    assert fold_to_charset("漢字") is None
    assert restrict("a≤b – “c”", frozenset(ASCII)) == 'a<=b - "c"'


def test_paragraphs_of_code_are_dropped() -> None:
    assert clean_paragraph("A sentence that is long enough to be kept in the corpus.")
    assert clean_paragraph("{ x = [1, 2, 3]; y = {4: 5}; } // 0x00 0x01 0x02 0x03 0x04") is None


def test_typesetting_curls_quotes() -> None:
    texts = {typeset('He said "no" in 1990-1995', np.random.default_rng(seed), 1.0) for seed in range(20)}
    assert "He said “no” in 1990–1995" in texts


def test_bad_inputs_name_the_remedy(tmp_path: Path, renderer: TextCropRenderer) -> None:
    with pytest.raises(InputError, match="prepare_data"):
        TextCropRenderer(tmp_path, "train")
    with pytest.raises(ConfigError, match="difficulty"):
        renderer.sample(np.random.default_rng(0), 1.5)
    with pytest.raises(ConfigError, match="multiples of 16"):
        CropConfig(widths=(100,), width_shares=(1.0,))
