"""SynthTabNet: folders and zips of its parts become the same regions; lines with a last comma are read."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from tests.table_corpora import RAGGED, SPANS_HTML, picture, put, sample, write_synthtabnet

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, convert_source
from gravityocr.training.corpora.region_shards import RegionFile
from gravityocr.training.corpora.synthtabnet import SynthTabNet


def convert(root: Path, out: Path, **settings):
    config = ConversionConfig(**settings)
    reports = list(convert_source(SynthTabNet(config), root, out, config))
    return reports, [region for file in sorted(out.rglob("*.parquet")) for region in RegionFile(file)]


LINES = [
    sample("image_000001_16.5.png"), sample("image_000002_16.6.png", split="val"),
    sample("image_000003_16.7.png", RAGGED),
]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_parts_become_regions_packed_or_not(tmp_path: Path, packed: bool) -> None:
    write_synthtabnet(tmp_path, "sparse", LINES, packed=packed)
    write_synthtabnet(tmp_path, "fintabnet", LINES[1:], packed=packed)
    assert (tmp_path / "sparse").exists() != packed
    reports, (region,) = convert(tmp_path, tmp_path / "out")
    assert [(r.unit, r.n_regions, r.reasons) for r in reports] == [
        ("fintabnet-0000", 0, {"ragged rows": 1}), ("sparse-0000", 1, {"ragged rows": 1}),
    ]  # fmt: skip
    assert region.target == SPANS_HTML and region.image == picture()
    assert region.doc_id == "sparse_image_000001_16.5"
    assert region.region_id == "synthtabnet/sparse_image_000001_16.5/0/0"
    assert [r.doc_id[:9] for r in convert(tmp_path, tmp_path / "all", split="all")[1]] == [
        "fintabnet", "sparse_im", "sparse_im",
    ]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_slices_restart_apart(tmp_path: Path, packed: bool, monkeypatch) -> None:
    monkeypatch.setattr("gravityocr.training.corpora.published_files.SLICE_BYTES", 1500)
    write_synthtabnet(tmp_path, "marketing", [sample(f"image_{n}.png") for n in range(5)], packed=packed)
    reports, regions = convert(tmp_path, tmp_path / "out")
    assert len(reports) > 2 and [r.doc_id for r in regions] == [f"marketing_image_{n}" for n in range(5)]
    (tmp_path / "out" / "synthtabnet" / "marketing-0002.regions.parquet").unlink()
    again, same = convert(tmp_path, tmp_path / "out")
    assert [r.unit for r in again if r.status == "made"] == ["marketing-0002"] and same == regions


def test_a_comma_behind_the_last_token_is_read_over(tmp_path: Path) -> None:
    line = json.dumps(sample("image_1.png"))
    write_synthtabnet(tmp_path, "pubtabnet", [line.replace('"x"]', '"x", ]')])
    put(tmp_path / "pubtabnet" / "images" / "train" / "image_1.png", picture())
    _, (region,) = convert(tmp_path, tmp_path / "out")
    assert region.target == SPANS_HTML


@pytest.mark.parametrize("packed", [False, True])
def test_missing_images_are_named(tmp_path: Path, packed: bool) -> None:
    write_synthtabnet(tmp_path, "sparse", [json.dumps(sample("image_1.png"))], packed=packed)
    (report,), _ = convert(tmp_path, tmp_path / "out")
    assert report.reasons == {"missing file": 1} and report.skipped[0].where.endswith("image_1.png")


def test_what_is_not_there_or_broken_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must hold one or more of fintabnet, marketing"):
        SynthTabNet(ConversionConfig()).units(tmp_path)


def test_a_broken_part_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "marketing.zip").write_bytes(b"PK nothing")
    (tmp_path / "sparse").mkdir()
    write_synthtabnet(tmp_path, "fintabnet", LINES[:1], packed=True)
    with zipfile.ZipFile(tmp_path / "pubtabnet.zip", "w") as archive:
        archive.writestr("pubtabnet/readme", "nothing else")
    reports, (region,) = convert(tmp_path, tmp_path / "out")
    assert [(report.unit, report.status) for report in reports] == [
        ("fintabnet-0000", "made"), ("marketing-0000", "failed"), ("pubtabnet-0000", "failed"),
        ("sparse-0000", "failed"),
    ]  # fmt: skip
    assert region.doc_id.startswith("fintabnet")
    for report, told in zip(reports[1:], ("is broken", "holds no synth", "synthetic_data.jsonl"), strict=True):
        assert report.error is not None and told in report.error and "download that part" in report.error


def test_a_broken_member_of_a_zip_is_one_sample(tmp_path: Path) -> None:
    write_synthtabnet(tmp_path, "sparse", [sample(f"image_{n}.png") for n in range(3)], packed=True)
    file = tmp_path / "sparse.zip"
    with zipfile.ZipFile(file) as archive:
        member = archive.getinfo("sparse/images/train/image_1.png")
    data = bytearray(file.read_bytes())
    start = member.header_offset + 30 + len(member.filename)
    data[start + 20 : start + 30] = bytes(10)
    file.write_bytes(data)
    (report,), regions = convert(tmp_path, tmp_path / "out")
    assert [one.doc_id for one in regions] == ["sparse_image_0", "sparse_image_2"]
    assert report.reasons == {"broken file in sparse.zip": 1} and report.skipped[0].where.endswith("image_1.png")


def test_samples_of_other_splits_are_counted(tmp_path: Path) -> None:
    write_synthtabnet(tmp_path, "sparse", LINES)
    (report,), _ = convert(tmp_path, tmp_path / "out")
    assert (report.n_regions, report.n_skipped, report.n_other_splits) == (1, 1, 1)
