"""PubTabNet: its published layout becomes regions; faulty samples are named; slices restart apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.table_corpora import RAGGED, SPANS_HTML, picture, put, sample, write_lines, write_pubtabnet

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, convert_source
from gravityocr.training.corpora.pubtabnet import PubTabNet
from gravityocr.training.corpora.region_shards import RegionFile


def convert(root: Path, out: Path, **settings):
    config = ConversionConfig(**settings)
    reports = list(convert_source(PubTabNet(config), root, out, config))
    return reports, [region for file in sorted(out.rglob("*.parquet")) for region in RegionFile(file)]


def test_a_sample_becomes_a_region(tmp_path: Path) -> None:
    write_pubtabnet(tmp_path / "in", [sample("PMC1064074_007_02.png")])
    reports, (region,) = convert(tmp_path / "in", tmp_path / "out")
    assert [(r.unit, r.n_regions, r.n_skipped) for r in reports] == [("part-0000", 1, 0)]
    assert region.target == SPANS_HTML
    assert (region.region_id, region.doc_id, region.page) == ("pubtabnet/PMC1064074/7/2", "PMC1064074", 7)
    assert (region.task, region.source, region.target_origin) == ("table", "pubtabnet", "annotation")
    assert (region.image, region.width_px, region.height_px, region.bbox) == (picture(), 40, 24, None)
    _, (headed,) = convert(tmp_path / "in", tmp_path / "head", table_head="th")
    assert headed.target.startswith('<table><thead><tr><th rowspan="2">Group</th>')


def test_the_split_decides(tmp_path: Path) -> None:
    lines = [sample("PMC1_000_00.png"), sample("PMC2_000_00.png", split="val"), sample("PMC3_000_00.png")]
    write_pubtabnet(tmp_path / "pubtabnet", lines)
    assert [r.doc_id for r in convert(tmp_path, tmp_path / "train")[1]] == ["PMC1", "PMC3"]
    assert [r.doc_id for r in convert(tmp_path, tmp_path / "all", split="all")[1]] == ["PMC1", "PMC2", "PMC3"]


def test_faulty_samples_are_named_and_counted(tmp_path: Path) -> None:
    lines = [
        sample("PMC1_000_00.png"), sample("PMC2_000_00.png", RAGGED), "{broken", sample("PMC4_000_00.png"),
        sample("PMC5_000_00.png"), sample("table.png"), {"filename": "PMC7_000_00.png", "split": "train"},
    ]  # fmt: skip
    write_pubtabnet(tmp_path / "in", lines)
    (tmp_path / "in" / "train" / "PMC4_000_00.png").unlink()
    put(tmp_path / "in" / "train" / "PMC5_000_00.png", picture()[:70])
    (report,), regions = convert(tmp_path / "in", tmp_path / "out")
    assert [region.doc_id for region in regions] == ["PMC1"]
    assert [item.where.partition(", ")[2].partition(", ")[2] for item in report.skipped] == [
        "PMC2_000_00.png", "", "PMC4_000_00.png", "PMC5_000_00.png", "table.png", "PMC7_000_00.png",
    ]  # fmt: skip
    reasons = [item.reason for item in report.skipped]
    for reason, begin in zip(
        reasons, ("ragged rows", "no JSON", "missing file", "unreadable image", "unreadable name", "no annotation"),
        strict=True,
    ):  # fmt: skip
        assert reason.startswith(begin)


def test_a_lost_shard_alone_is_made_again(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("gravityocr.training.corpora.published_files.SLICE_BYTES", 1500)
    write_pubtabnet(tmp_path / "in", [sample(f"PMC{number}_000_00.png") for number in range(5)])
    reports, regions = convert(tmp_path / "in", tmp_path / "out")
    assert len(reports) > 2 and [region.doc_id for region in regions] == [f"PMC{number}" for number in range(5)]
    (tmp_path / "out" / "pubtabnet" / "part-0001.regions.parquet").unlink()
    again, same = convert(tmp_path / "in", tmp_path / "out")
    assert [report.unit for report in again if report.status == "made"] == ["part-0001"] and same == regions


def test_another_folder_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must hold PubTabNet_2\.0\.0\.jsonl"):
        PubTabNet(ConversionConfig()).units(tmp_path)


def test_one_bad_line_is_one_skipped_sample(tmp_path: Path) -> None:
    good, far, wide = (sample(f"PMC{n}_000_00.png") for n in (1, 2, 3))
    far["filename"] = "PMC2_99999999999_00.png"
    spans = ["<tr>", "<td", f' colspan="{"9" * 5000}"', ">", "</td>", "</tr>"]
    wide["html"] = {"structure": {"tokens": spans}, "cells": [{"tokens": ["a"]}]}
    odd = {**sample("PMC4_000_00.png"), "filename": [[["PMC4_000_00.png"]]]}
    write_pubtabnet(tmp_path / "in", [good])
    lines = [far, wide, odd, "[" * 100_000, '{"filename": ' + "9" * 5000 + "}", sample("PMC5_\ud800.png"), good]
    write_lines(tmp_path / "in" / "PubTabNet_2.0.0.jsonl", lines)
    with (tmp_path / "in" / "PubTabNet_2.0.0.jsonl").open("ab") as stream:
        stream.write(b'{"filename": "\xff"}\n')
    put(tmp_path / "in" / "train" / far["filename"], picture())
    (report,), regions = convert(tmp_path / "in", tmp_path / "out")
    assert report.status == "made" and [one.doc_id for one in regions] == ["PMC1"]
    assert report.reasons == {
        "unreadable name": 2, "unreadable span": 1, "unreadable filename": 1, "no JSON object": 3,
    }  # fmt: skip
    assert all(item.where.startswith("PubTabNet_2.0.0.jsonl, byte ") for item in report.skipped)


def test_lines_of_other_splits_are_counted(tmp_path: Path) -> None:
    lines = [sample("PMC1_000_00.png"), sample("PMC2_000_00.png", split="val"), sample("PMC3_000_00.png", split="val")]
    write_pubtabnet(tmp_path / "in", lines)
    assert [r.n_other_splits for r in convert(tmp_path / "in", tmp_path / "train")[0]] == [2]
    assert [r.n_other_splits for r in convert(tmp_path / "in", tmp_path / "all", split="all")[0]] == [0]
