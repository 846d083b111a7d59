"""Region files: round trips, random access over row groups, broken files."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from gravityocr.errors import InputError
from gravityocr.training.corpora.region_shards import (
    ROW_GROUP,
    LabelledRegion,
    RegionFile,
    encode_picture,
    region_files,
    write_regions,
)  # fmt: skip


def region(number: int, **changes) -> LabelledRegion:
    picture = Image.new("L", (20 + number % 7, 10), number % 256)
    values = {
        "region_id": f"test/doc{number // 3}/0/{number}", "image": encode_picture(picture), "width_px": picture.width,
        "height_px": 10, "task": "text", "target": f"text {number}", "source": "test", "doc_id": f"doc{number // 3}",
        "page": number % 3, "bbox": (0.0, 1.0, 2.5, 3.0) if number % 2 else None, "target_origin": "annotation",
    }  # fmt: skip
    return LabelledRegion(**{**values, **changes})


def test_regions_come_back_as_they_were_written(tmp_path: Path) -> None:
    regions = [region(number) for number in range(2 * ROW_GROUP + 5)]
    file = tmp_path / "deep" / "a.regions.parquet"
    assert write_regions(file, iter(regions)) == len(regions)
    read = RegionFile(file)
    assert len(read) == len(regions) and [*read] == regions
    for number in (2 * ROW_GROUP + 4, 0, ROW_GROUP - 1, ROW_GROUP):
        assert read[number] == regions[number]
        assert read[number].picture().getpixel((0, 0)) == number % 256
    with pytest.raises(IndexError):
        read[len(regions)]
    assert read.columns("task", "page") == {"task": ["text"] * len(regions), "page": [r.page for r in regions]}
    assert region_files(tmp_path) == [file] and not [*file.parent.glob("*.part")]


def test_an_empty_file_has_no_regions(tmp_path: Path) -> None:
    file = tmp_path / "a.regions.parquet"
    assert write_regions(file, []) == 0
    assert len(RegionFile(file)) == 0 and [*RegionFile(file)] == []


def test_a_failing_source_leaves_no_file(tmp_path: Path) -> None:
    def regions():
        yield region(0)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        write_regions(tmp_path / "a.regions.parquet", regions())
    assert not (tmp_path / "a.regions.parquet").exists()


def test_coloured_pictures_stay_coloured_and_grey_ones_become_small() -> None:
    coloured, grey = Image.new("RGB", (9, 9), (250, 1, 1)), Image.new("RGB", (9, 9), (7, 7, 7))
    assert region(0, image=encode_picture(coloured)).picture().mode == "RGB"
    assert region(0, image=encode_picture(grey)).picture().mode == "L"


def test_bad_files_and_pictures_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no region file"):
        region_files(tmp_path)
    broken = tmp_path / "b.regions.parquet"
    broken.write_bytes(b"junk")
    with pytest.raises(InputError, match=r"b\.regions\.parquet is no region file"):
        RegionFile(broken)
    with pytest.raises(InputError, match="region x/1: its picture is broken"):
        region(0, region_id="x/1", image=b"no picture").picture()
    write_regions(broken, [region(0, task="speech")])
    with pytest.raises(InputError, match="'speech'"):
        RegionFile(broken)[0]
