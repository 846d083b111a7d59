"""UniMER-1M from images and formulas in its layout."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from tests.unit.training.corpora.page_fixtures import encoded, taken

from gravityocr.errors import InputError
from gravityocr.training.corpora import unimer
from gravityocr.training.corpora.conversion import ConversionConfig
from gravityocr.training.corpora.unimer import UniMer

FORMULAS = (
    r"\frac { a } { b }", r"x ^ { 2 }  +  y", r"\text { a" + "\r" + r"b }", "", r"z _ { 1 }", r"\alpha", r"\beta",
)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "UniMER-1M"
    (folder / "images").mkdir(parents=True)
    (folder / "train.txt").write_bytes("\n".join(FORMULAS).encode("utf-8"))
    grey = encoded(Image.new("L", (60, 20), 200))
    kinds = {0: grey, 1: encoded(Image.new("RGBA", (50, 30), (0, 0, 0, 0))), 2: grey, 3: grey, 4: grey[:40], 6: grey}
    for number, data in kinds.items():
        (folder / "images" / f"{number:07d}.png").write_bytes(data)
    (tmp_path / "UniMER-Test" / "spe").mkdir(parents=True)
    (tmp_path / "UniMER-Test" / "spe.txt").write_text("x\n", encoding="utf-8")
    return tmp_path


def test_images_have_the_formula_of_their_line(root: Path) -> None:
    converter = UniMer(ConversionConfig())
    (unit,) = converter.units(root)
    assert unit.name == "train-00000"
    regions, skipped = taken(converter, unit)
    assert {region.doc_id: region.target for region in regions} == {
        "0000000": r"\frac { a } { b }", "0000001": r"x ^ { 2 } + y", "0000002": r"\text { a b }",
        "0000006": r"\beta",
    }  # fmt: skip
    first, second = regions[:2]
    assert (first.region_id, first.task, first.bbox) == ("unimer/0000000/0/0", "formula", None)
    assert (first.target_origin, first.width_px, first.height_px) == ("annotation", 60, 20)
    assert first.image == (root / "UniMER-1M" / "images" / "0000000.png").read_bytes()
    assert second.picture().getpixel((0, 0)) == 255, "transparent is paper"
    kinds = {item.where: item.reason.split(":")[0] for item in skipped}
    assert kinds == {
        "0000003.png": "no formula", "0000004.png": "unreadable image", "0000005.png": "missing image",
    }  # fmt: skip


def test_units_are_slices_of_lines(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unimer, "UNIT_LINES", 3)
    converter = UniMer(ConversionConfig())
    units = converter.units(root / "UniMER-1M")
    assert [unit.name for unit in units] == ["train-00000", "train-00001", "train-00002"]
    found = [[region.doc_id for region in taken(converter, unit)[0]] for unit in units]
    assert found == [["0000000", "0000001", "0000002"], [], ["0000006"]]


def test_another_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="UniMER-1M/images/ and UniMER-1M/train.txt"):
        UniMer(ConversionConfig()).units(tmp_path)


def test_a_line_that_is_no_utf_8_is_one_skipped_sample(root: Path) -> None:
    lines = (root / "UniMER-1M" / "train.txt").read_bytes().split(b"\n")
    (root / "UniMER-1M" / "train.txt").write_bytes(b"\n".join([lines[0], b"\xff", *lines[2:]]))
    converter = UniMer(ConversionConfig())
    (unit,) = converter.units(root)
    regions, skipped = taken(converter, unit)
    assert [region.doc_id for region in regions] == ["0000000", "0000002", "0000006"]
    assert (skipped[0].where, skipped[0].reason.split(":")[0]) == ("train.txt, line 2", "no UTF-8 text")
