"""scripts/render_crops.py: whole crops of all kinds as one region file, tables of many sizes."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scripts import render_crops
from tests.training_data import write_data_dir

from gravityocr.errors import ConfigError
from gravityocr.metrics.teds import score_teds
from gravityocr.training.corpora.region_shards import SUFFIX, RegionFile
from gravityocr.training.synthetic.chromium import find_chromium
from gravityocr.training.synthetic.table_labels import TableCrop

needs_chromium = pytest.mark.skipif(find_chromium() is None, reason="no Chromium: apt-get install chromium")


class Tables:
    """Draws tables of so many rows, in turn."""

    def __init__(self, *rows: int) -> None:
        self._rows = rows
        self.n_batches = 0

    def batch(self, rng: np.random.Generator, n_tables: int) -> list[TableCrop]:
        self.n_batches += 1
        none = np.zeros(0)
        crop = TableCrop(np.zeros((4, 4), np.uint8), "", "", none, none, none, none, none, "")
        return [replace(crop, html="<tr>" * self._rows[i % len(self._rows)]) for i in range(n_tables)]


def drawn(tables: Tables, n: int, rows: tuple[int, int] = (3, 30)) -> list[int]:
    found = render_crops.tables(tables, np.random.default_rng(0), n, rows)  # type: ignore[arg-type]
    return [render_crops.n_rows(crop) for crop in found]


def test_tables_of_all_sizes_come_in_turn_however_rare_they_are() -> None:
    often_short = Tables(*[4] * 30, 2, 31, 8, 8, 13, 20)
    assert drawn(often_short, 8) == [4, 8, 13, 20, 4, 8, 13, 20]
    assert often_short.n_batches == 2  # one batch of 40 holds a single table of 20 rows


def test_sizes_that_do_not_occur_are_made_up_for_and_too_few_tables_are_refused() -> None:
    assert Counter(drawn(Tables(4, 9), 10)) == {4: 5, 9: 5}
    with pytest.raises(ConfigError, match="only 0 tables of 3 to 30 rows"):
        drawn(Tables(2, 40), 10)


def test_bands_are_as_wide_as_ratios() -> None:
    bands = [render_crops.band_of(rows, 3, 30) for rows in (2, 3, 5, 6, 9, 10, 17, 18, 30, 31)]
    assert bands == [None, 0, 0, 1, 1, 2, 2, 3, 3, None]


def render(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["render_crops.py", *map(str, arguments)])
    render_crops.main()


def test_text_of_the_held_out_split_is_the_same_for_the_same_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_data_dir(tmp_path)
    files = [tmp_path / f"{name}{SUFFIX}" for name in "abc"]
    for file, seed in zip(files, (1, 1, 2), strict=True):
        render(monkeypatch, "--data", data, "--out", file, "--lines", 3, "--paragraphs", 2, "--seed", seed)
    first, again, other = ([*RegionFile(file)] for file in files)
    assert first == again
    assert [one.target for one in first] != [one.target for one in other]
    assert [one.region_id for one in first] == [
        *(f"whole/heldout-1-line-{i}/0/0" for i in range(3)),
        *(f"whole/heldout-1-paragraph-{i}/0/0" for i in range(2)),
    ]
    assert all("\n" in one.target for one in first[3:])
    assert all(one.picture().size == (one.width_px, one.height_px) for one in first)


@needs_chromium
def test_tables_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / f"t{SUFFIX}"
    render(monkeypatch, "--data", write_data_dir(tmp_path), "--out", out, "--tables", 4, "--seed", 5)
    regions = [*RegionFile(out)]
    assert [one.task for one in regions] == ["table"] * 4
    assert len({one.target.count("<tr>") for one in regions}) == 4
    for one in regions:
        assert one.target.startswith("<table><tr><td")
        assert score_teds(one.target, one.target).status == "ok"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tables", 1, "--out", "a.parquet"), "name a file that ends in"),
        (("--out", f"a{SUFFIX}"), "nothing to render"),
        (("--tables", -1, "--out", f"a{SUFFIX}"), "counts of 0 or more"),
        (("--tables", 1, "--rows", 9, 3, "--out", f"a{SUFFIX}"), "ascending"),
    ],
)
def test_wrong_arguments_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments, message: str
) -> None:
    with pytest.raises(SystemExit):
        render(monkeypatch, "--data", tmp_path, *arguments)
    assert message in capsys.readouterr().err


def test_a_folder_without_data_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"error: .*prepare_data\.py"):
        render(monkeypatch, "--data", tmp_path, "--out", tmp_path / f"a{SUFFIX}", "--lines", 1)


def test_help_tells_every_option_and_its_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        render(monkeypatch, "--help")
    shown = " ".join(capsys.readouterr().out.split("options:")[1].split())
    for part in ("number of tables to render (default: 0)", "lines of text to render", "(default: 3 30)",
                 "(default: heldout)", "prepare_data.py filled", "same crops (default: 0)"):  # fmt: skip
        assert part in shown
