"""Table crops as Chromium and PDFium draw them: places of the characters, determinism, margins, shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.training_data import write_data_dir

from gravityocr.errors import ConfigError, InputError
from gravityocr.model.table_pieces import TablePieceSpec
from gravityocr.training.synthetic import chromium
from gravityocr.training.synthetic.charset import CHARSET
from gravityocr.training.synthetic.chromium import Chromium, find_chromium
from gravityocr.training.synthetic.table_crops import (
    TableCropConfig,
    TableCropRenderer,
    make_table_samples,
    table_samples,
)

needs_chromium = pytest.mark.skipif(find_chromium() is None, reason="no Chromium: apt-get install chromium")
CLEAN = TableCropConfig(ink=((14.0, 20.0),), ink_shares=(1.0,), degraded_share=0.0, reduced_share=0.0)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_dir(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def renderer(data_dir: Path) -> Iterator[TableCropRenderer]:
    with TableCropRenderer(data_dir, "train", CLEAN) as opened:
        yield opened


@needs_chromium
def test_lay_out_measures_and_prints() -> None:
    with Chromium() as browser:
        document = '<body style="margin: 0"><p style="margin: 0; width: 120px">text</p></body>'
        laid_out = browser.lay_out(document, "() => document.querySelector('p').offsetWidth", (300, 200))
        assert laid_out.measured == 120
        assert laid_out.pdf.startswith(b"%PDF")
        with pytest.raises(InputError, match="script failed"):
            browser.lay_out(document, "() => missing.value", (300, 200))


def test_missing_chromium_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "PROGRAMS", ("no-such-browser",))
    with pytest.raises(ConfigError, match="install the system package chromium"):
        Chromium()


@needs_chromium
def test_ink_stands_where_the_characters_are(renderer: TableCropRenderer) -> None:
    crops = renderer.batch(np.random.default_rng(2), 8)
    assert len(crops) >= 6
    for crop in crops:
        height, width = crop.image.shape
        assert crop.image.dtype == np.uint8
        assert len(crop.chars) == len(crop.boxes) == len(crop.centers_px) == len(crop.cells) == len(crop.spaced)
        x, y = crop.centers_px.T
        assert ((x >= 0) & (x < width) & (y >= 0) & (y < height)).all()
        assert crop.html.startswith("<table><tr><td")
        contrasts, inside, between = [], [], []
        for char, (left, top, right, bottom) in zip(crop.chars, crop.boxes, strict=True):
            if not char.isalnum() or top < 0 or left < 0 or right > width - 1 or bottom > height:
                continue
            rows = slice(round(top), round(bottom) + 1)
            box = crop.image[rows, round(left) : round(right) + 1].astype(float)
            contrasts.append(np.ptp(box))
            inside.append(box[:, 1:-1].std())
            between.append(crop.image[rows, int(left)].astype(float).std())
        assert np.mean(np.array(contrasts) > 60) > 0.97
        assert np.mean(between) < 0.7 * np.mean(inside)  # at the border of a character there is less ink


@needs_chromium
def test_equal_seeds_give_equal_crops(data_dir: Path, renderer: TableCropRenderer) -> None:
    first = renderer.batch(np.random.default_rng(7), 3)
    renderer.batch(np.random.default_rng(8), 1)
    with TableCropRenderer(data_dir, "train", CLEAN) as other:
        second = other.batch(np.random.default_rng(7), 3)
    assert [crop.html for crop in first] == [crop.html for crop in second]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.image, b.image)
        np.testing.assert_array_equal(a.centers_px, b.centers_px)


@needs_chromium
def test_pieces_hold_the_characters_of_their_table(renderer: TableCropRenderer) -> None:
    crops = renderer.batch(np.random.default_rng(3), 8)
    samples = [(crop, sample) for crop in crops for sample in table_samples(crop, TablePieceSpec())]
    assert len(samples) >= 8
    read = written = 0
    for crop, sample in samples:
        text = [token for token in sample.tokens if token in CHARSET and len(token) == 1]
        known = crop.chars
        read += sum(token in known for token in text if token != " ")
        written += sum(token != " " for token in text)
        assert sample.task == "table"
        assert sample.tokens[0] == "<tr>"
        assert sample.tokens[-1] == "</tr>"
        placed = sample.centers_px[~np.isnan(sample.centers_px[:, 0])]
        height, width = sample.image.shape
        assert ((placed >= 0) & (placed < [width, height])).all()
    # Digits of spans are tokens too, and may be missing in the table.
    assert read >= 0.97 * written


@needs_chromium
def test_samples_of_a_seed(data_dir: Path) -> None:
    first, second = ([s.target for s in make_table_samples(data_dir, "heldout", 5, 2)] for _ in range(2))
    assert first
    assert first == second


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ink_shares": (0.5, 0.5)}, "ink_shares"),
        ({"ink": ((9.0, 6.0), (10.0, 16.0), (17.0, 30.0))}, "ink"),
        ({"degraded_share": 1.5}, "degraded_share"),
    ],
)
def test_wrong_configurations_are_refused(values: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TableCropConfig(**values)
