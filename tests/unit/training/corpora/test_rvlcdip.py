"""RVL-CDIP from lists and scans in its layout."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from tests.unit.training.corpora.page_fixtures import blank_page, encoded, taken, text_page

from gravityocr.errors import InputError
from gravityocr.training.corpora import rvlcdip
from gravityocr.training.corpora.conversion import ConversionConfig, Skipped, convert_source
from gravityocr.training.corpora.rvlcdip import RvlCdip

PAGES = (
    "imagesq/q/o/c/qoc54c00/80035521.tif",
    "imagesq/q/o/c/qoc54c00/80035522.tif",
    "imagese/e/j/e/eje42e00/2500126531_2500126536.tif",
    "imagesa/a/a/a/aaa06d00/50486482-6482.tif",
    "imagesa/a/a/b/aab01f00/missing.tif",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    scan, blank = encoded(text_page(1).convert("L"), "TIFF"), encoded(blank_page().convert("L"), "TIFF")
    for page, data in zip(PAGES, (scan, scan, scan[:200], blank, None), strict=True):
        file = tmp_path / "images" / page
        file.parent.mkdir(parents=True, exist_ok=True)
        if data is not None:
            file.write_bytes(data)
    lists = {"train": PAGES, "val": PAGES[:1], "test": PAGES[:1]}
    (tmp_path / "labels").mkdir()
    for name, pages in lists.items():
        text = "".join(f"{page} {number % 16}\n" for number, page in enumerate(pages))
        (tmp_path / "labels" / f"{name}.txt").write_text(text, encoding="utf-8")
    return tmp_path


def test_units_are_slices_of_the_lists_but_never_of_the_test(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rvlcdip, "UNIT_PAGES", 2)
    names = [unit.name for unit in RvlCdip(ConversionConfig(split="all")).units(root)]
    assert names == ["train-00000", "train-00001", "train-00002", "val-00000"]
    converter = RvlCdip(ConversionConfig(layout="none"))
    units = converter.units(root)
    assert [unit.name for unit in units] == names[:3]
    found = [taken(converter, unit) for unit in units]
    assert [len(regions) for regions, _ in found] == [2, 0, 0]
    assert [item.where for item in found[1][1]] == [
        "rvlcdip/eje42e00/2500126531_2500126536", "rvlcdip/aaa06d00/50486482-6482",
    ]  # fmt: skip
    (root / "labels" / "train.txt").unlink()
    with pytest.raises(InputError, match="labels/train.txt"):
        converter.units(root)


def test_scans_become_regions_and_what_fails_is_named(root: Path) -> None:
    converter = RvlCdip(ConversionConfig())
    regions, skipped = taken(converter, converter.units(root)[0])
    assert [region.region_id for region in regions] == ["rvlcdip/qoc54c00/80035521/0", "rvlcdip/qoc54c00/80035522/0"]
    assert {region.doc_id for region in regions} == {"qoc54c00"}
    assert {(region.target, region.target_origin) for region in regions} == {("", "pending")}
    assert regions[0].picture().mode == "L"
    kinds = [item.reason.split(":")[0] for item in skipped]
    assert kinds == ["unreadable page", "blank page", "missing file"]
    assert skipped[2].where == "train.txt, line 5" and "missing.tif" in skipped[2].reason


def test_lines_that_lead_elsewhere_are_skipped(root: Path) -> None:
    (root / "labels" / "train.txt").write_text("../../etc/passwd 3\n\n/etc/passwd 1\nlonely.tif 2\n", encoding="utf-8")
    converter = RvlCdip(ConversionConfig(layout="none"))
    regions, skipped = taken(converter, converter.units(root)[0])
    assert regions == [] and len(skipped) == 4
    assert skipped[0] == Skipped("train.txt, line 1", "no page and class: '../../etc/passwd 3'")


def test_shards_that_are_there_are_kept(root: Path, tmp_path: Path) -> None:
    config = ConversionConfig(layout="none", split="all")
    converter = pickle.loads(pickle.dumps(RvlCdip(config)))  # as it is sent to another process
    reports = [*convert_source(converter, root, tmp_path / "out", config)]
    assert [(report.unit, report.n_regions) for report in reports] == [("train-00000", 2), ("val-00000", 1)]
    assert [report.status for report in convert_source(converter, root, tmp_path / "out", config)] == ["kept"] * 2


def test_lines_that_are_no_utf_8_or_name_no_file_are_skipped(root: Path) -> None:
    (root / "labels" / "train.txt").write_bytes(b"a/\xff.tif 3\r\na/b\0.tif 3\r\n" + PAGES[0].encode() + b" 3\r\n")
    converter = RvlCdip(ConversionConfig(layout="none"))
    (unit,) = converter.units(root)
    regions, skipped = taken(converter, unit)
    assert len(regions) == 1 and [(item.where, item.reason.split(":")[0]) for item in skipped] == [
        ("train.txt, line 1", "no UTF-8 text"), ("train.txt, line 2", "missing file"),
    ]  # fmt: skip
