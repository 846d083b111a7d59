"""PubTables-1M: its archives and folders become the same regions; faulty tables are named; parts restart apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.table_corpora import Row, boxes_of, picture, put, write_pubtables

from gravityocr.errors import InputError
from gravityocr.training.corpora import pubtables1m
from gravityocr.training.corpora.conversion import ConversionConfig, convert_source
from gravityocr.training.corpora.pubtables1m import PubTables1M
from gravityocr.training.corpora.region_shards import RegionFile

ROWS: tuple[Row, ...] = (
    (("Name", 2, 1), ("Both", 1, 2)),
    (("first", 1, 1), ("second", 1, 1)),
    (("All below", 1, 3),),
    (("R&D", 1, 1), ("", 1, 1), ("< 5", 1, 1)),
)
HTML = (
    '<table><tr><td rowspan="2">Name</td><td colspan="2">Both</td></tr><tr><td>first</td><td>second</td></tr>'
    '<tr><td colspan="3">All below</td></tr><tr><td>R&amp;D</td><td></td><td>&lt; 5</td></tr></table>'
)
TABLES = {f"PMC{number}_table_{number % 2}": boxes_of(ROWS, n_head=2) for number in range(6)}


@pytest.fixture(autouse=True)
def _three_parts(monkeypatch) -> None:
    monkeypatch.setattr(pubtables1m, "N_PARTS", {"train": 3, "val": 1, "test": 1})


def convert(root: Path, out: Path, **settings):
    config = ConversionConfig(**settings)
    reports = list(convert_source(PubTables1M(config), root, out, config))
    return reports, [region for file in sorted(out.rglob("*.parquet")) for region in RegionFile(file)]


@pytest.mark.parametrize("layout", [{}, {"packed": True}, {"plain": True}])
def test_every_layout_gives_the_same_regions(tmp_path: Path, layout: dict) -> None:
    write_pubtables(tmp_path, TABLES, **layout)
    reports, regions = convert(tmp_path, tmp_path / "out")
    assert [report.unit for report in reports] == ["train-00", "train-01", "train-02"]
    assert sum(report.n_regions for report in reports) == 6 and not any(report.n_skipped for report in reports)
    assert max(report.n_regions for report in reports) < 6
    assert {region.region_id for region in regions} == {f"pubtables1m/PMC{n}/0/{n % 2}" for n in range(6)}
    region = regions[0]
    assert region.target == HTML
    assert region.image == picture(260, 100, "JPEG") and (region.width_px, region.height_px) == (260, 100)
    assert region.doc_id.startswith("PMC") and region.bbox is None


@pytest.mark.parametrize("packed", [False, True])
def test_faulty_tables_are_named_and_counted(tmp_path: Path, packed: bool) -> None:
    good = boxes_of(ROWS)
    tables = {
        "PMC1_table_0": good, "PMC2_table_0": replace(good, words=[]), "PMC3_table_0": replace(good, objects=[]),
        "odd": good,
    }  # fmt: skip
    write_pubtables(tmp_path, tables, packed=packed)
    reports, regions = convert(tmp_path, tmp_path / "out")
    assert [region.doc_id for region in regions] == ["PMC1"]
    skipped = {item.where: item.reason.split(":")[0] for report in reports for item in report.skipped}
    assert skipped == {
        "PMC2_table_0": "no text in the table", "PMC3_table_0": "no grid", "odd": "unreadable name",
    }  # fmt: skip


def test_missing_files_are_named(tmp_path: Path) -> None:
    write_pubtables(tmp_path, TABLES, plain=True)
    (tmp_path / "words" / "PMC1_table_1_words.json").unlink()
    (tmp_path / "images" / "PMC2_table_0.jpg").unlink()
    put(tmp_path / "images" / "PMC3_table_1.jpg", b"nothing")
    reports, regions = convert(tmp_path, tmp_path / "out")
    skipped = {item.where: item.reason for report in reports for item in report.skipped}
    assert len(regions) == 3 and skipped.keys() == {"PMC1_table_1", "PMC2_table_0", "PMC3_table_1"}
    assert skipped["PMC1_table_1"].startswith("missing file: PMC1_table_1_words.json")
    assert skipped["PMC2_table_0"] == "missing image"


def test_a_lost_shard_alone_is_made_again_and_a_torn_archive_fails(tmp_path: Path) -> None:
    write_pubtables(tmp_path, TABLES, packed=True)
    _, regions = convert(tmp_path, tmp_path / "out")
    (tmp_path / "out" / "pubtables1m" / "train-01.regions.parquet").unlink()
    reports, same = convert(tmp_path, tmp_path / "out")
    assert [r.unit for r in reports if r.status == "made"] == ["train-01"] and same == regions
    images = tmp_path / "PubTables-1M-Structure_Images_Train.tar.gz"
    images.write_bytes(images.read_bytes()[:200])
    reports, _ = convert(tmp_path, tmp_path / "torn")
    assert {report.status for report in reports} == {"failed"} and "EOFError: Compressed" in (reports[0].error or "")
    assert not [*(tmp_path / "torn").rglob("*.parquet*")]


def test_the_split_decides_and_its_files_must_be_there(tmp_path: Path) -> None:
    write_pubtables(tmp_path, TABLES)
    with pytest.raises(InputError, match=r"must hold PubTables-1M-Structure_Annotations_Val \(folder or \.tar\.gz\)"):
        convert(tmp_path, tmp_path / "out", split="all")
    write_pubtables(tmp_path, {"PMC7_table_0": boxes_of(ROWS)}, "Val")
    write_pubtables(tmp_path, {"PMC8_table_0": boxes_of(ROWS)}, "Test")
    assert len(convert(tmp_path, tmp_path / "train")[1]) == 6
    assert len(convert(tmp_path, tmp_path / "all", split="all")[1]) == 8
