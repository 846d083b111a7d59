"""Region files: round trips, random access over row groups, broken files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from PIL import Image

from gravityocr.errors import InputError
from gravityocr.training.corpora.region_shards import (
    ROW_GROUP,
    LabelledRegion,
    RegionFile,
    encode_picture,
    region_fault,
    region_files,
    region_schema,
    write_regions,
)  # fmt: skip

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


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


NULLABLE = ("target", "bbox", "teacher")
FIXED = tuple(name for name in region_schema().names if name not in NULLABLE)
READ = tuple(name for name in region_schema().names if name != "image")


def rows(n: int = ROW_GROUP + 3) -> dict[str, list]:
    """Return the columns of good regions, over two row groups."""
    regions = [region(number) for number in range(n)]
    columns = {name: [getattr(one, name) for one in regions] for name in region_schema().names}
    return {**columns, "bbox": [list(box) if box else None for box in columns["bbox"]]}


def write_columns(file: Path, columns: dict[str, list | pa.Array], **kinds: pa.DataType) -> RegionFile:
    schema = pa.schema([pa.field(field.name, kinds.get(field.name, field.type)) for field in region_schema()])
    arrays = [
        values if isinstance(values, pa.Array) else pa.array(values, type=schema.field(name).type)
        for name, values in columns.items()
    ]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), file, row_group_size=ROW_GROUP)
    return RegionFile(file)


def faults(file: RegionFile, row: int) -> list[str]:
    """Return what reading all, reading one and reading a column say; a picture is in no column that is read."""
    said = []
    for read in (lambda: [*file], lambda: file[row], lambda: file.columns(*READ)):
        with pytest.raises(InputError) as caught:
            read()
        said.append(str(caught.value))
    return said


@pytest.mark.parametrize("name", [name for name in FIXED if name != "image"])
def test_nulls_are_told_with_their_row(tmp_path: Path, name: str) -> None:
    row = ROW_GROUP + 1  # of the second group
    columns = rows()
    columns[name][row] = None
    for said in faults(write_columns(tmp_path / "a.regions.parquet", columns), row):
        region_told = "" if name == "region_id" else f" (region test/doc{row // 3}/0/{row})"
        assert f"a.regions.parquet: row {row}{region_told}: {name} is null" in said


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("width_px", 0, "width_px is 0"), ("height_px", -5, "height_px is -5"), ("page", -1, "page is -1"),
        ("task", "figure", "task is 'figure' and not one of text, table, formula"),
        ("target_origin", "me", "target_origin is 'me' and not one of annotation"),
        ("bbox", [1.0, 2.0], "bbox is"), ("bbox", [], "bbox is"), ("bbox", [float("nan")] * 4, "bbox is"),
        ("bbox", [0.0, 1.0, float("inf"), 2.0], "bbox is"), ("bbox", [0.0, 1.0, None, 2.0], "bbox is"),
    ],
)  # fmt: skip
def test_values_that_no_region_has_are_told_with_their_row(tmp_path: Path, name: str, value, told: str) -> None:
    row = ROW_GROUP + 2
    columns = rows()
    columns[name][row] = value
    for said in faults(write_columns(tmp_path / "a.regions.parquet", columns), row):
        assert f"row {row} (region test/doc{row // 3}/0/{row}): {told}" in said
    file = RegionFile(tmp_path / "a.regions.parquet")
    assert file.columns("source")["source"] == columns["source"] and file[0] == region(0)


@pytest.mark.parametrize("name", [field.name for field in region_schema() if field.type == pa.string()])
def test_texts_that_are_no_utf_8_are_told_with_their_row(tmp_path: Path, name: str) -> None:
    columns = rows()
    texts = pa.array([(text or "").encode() for text in columns[name][:-1]] + [b"\xff\xfe"], pa.binary())
    columns[name] = pa.StringArray.from_buffers(len(texts), texts.buffers()[1], texts.buffers()[2])
    row = len(texts) - 1
    for said in faults(write_columns(tmp_path / "a.regions.parquet", columns), row):
        assert f"row {row} (region" in said and f"{name} is no UTF-8 text" in said


def test_what_may_be_null_is(tmp_path: Path) -> None:
    columns = rows(4)
    columns["target"][1] = columns["bbox"][1] = columns["teacher"][1] = None
    file = write_columns(tmp_path / "a.regions.parquet", columns)
    assert file[1] == region(1, target="", bbox=None)
    assert file.columns("target")["target"] == [region(0).target, "", region(2).target, region(3).target]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("region_id", pa.int64()), ("image", pa.string()), ("width_px", pa.string()), ("page", pa.float64()),
        ("target", pa.int64()), ("bbox", pa.string()), ("bbox", pa.list_(pa.string())), ("task", pa.binary()),
    ],
)  # fmt: skip
def test_columns_of_another_type_are_refused_on_opening(tmp_path: Path, name: str, kind: pa.DataType) -> None:
    with pytest.raises(InputError, match=rf"a\.regions\.parquet holds .* in the column {name}, not"):
        write_columns(tmp_path / "a.regions.parquet", {**rows(3), name: pa.nulls(3, kind)}, **{name: kind})


def test_columns_that_are_missing_or_there_twice_are_refused_on_opening(tmp_path: Path) -> None:
    table = pa.table(rows(2), schema=region_schema())
    for changed, told in ((table.drop(["teacher"]), "lacks the column teacher"), (
        table.append_column("task", table["task"]), "has 2 columns task",
    )):  # fmt: skip
        pq.write_table(changed, tmp_path / "a.regions.parquet")
        with pytest.raises(InputError, match=told):
            RegionFile(tmp_path / "a.regions.parquet")


def test_other_widths_are_read_as_ours(tmp_path: Path) -> None:
    columns = rows(5)
    columns["bbox"] = [[0.0, 1.0, 2.5, 3.0]] * 5
    file = write_columns(
        tmp_path / "a.regions.parquet", columns, target=pa.large_string(), image=pa.large_binary(), page=pa.int64(),
        task=pa.dictionary(pa.int32(), pa.string()), bbox=pa.large_list(pa.float64()), teacher=pa.null(),
    )  # fmt: skip
    assert [*file] == [region(number, bbox=(0.0, 1.0, 2.5, 3.0)) for number in range(5)]
    columns["page"][2] = 2**40
    with pytest.raises(InputError, match=r"a\.regions\.parquet is broken"):
        [*write_columns(tmp_path / "a.regions.parquet", columns, page=pa.int64())]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, None), ({"bbox": None, "teacher": "t", "page": 2**31 - 1}, None), ({"page": 2**31}, "page"),
        ({"page": int("9" * 4000)}, "page"), ({"width_px": 0}, "size"), ({"height_px": 2**31}, "size"),
        ({"target": "a\ud800"}, "half a surrogate pair in its target"), ({"doc_id": 5}, "doc_id is no text"),
        ({"bbox": (0.0, 1.0, float("nan"), 2.0)}, "bbox"), ({"task": "speech"}, "task"),
        ({"target_origin": "me"}, "origin"),
    ],
)  # fmt: skip
def test_what_a_file_cannot_hold_is_known_before(tmp_path: Path, changes, told: str | None) -> None:
    one = dataclasses.replace(region(0), **changes)
    fault = region_fault(one)
    if told is not None:
        assert fault is not None and told in fault
    else:
        assert fault is None
        write_regions(tmp_path / "a.regions.parquet", [one])
        assert [*RegionFile(tmp_path / "a.regions.parquet")] == [one]
