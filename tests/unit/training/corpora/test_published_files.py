"""Slices of lists give every line once; archives in one pass; pictures stay what they are where they can."""

from __future__ import annotations

import io
import json
import random
import tarfile
from pathlib import Path

import pytest
from PIL import Image
from tests.table_corpora import picture

from gravityocr.errors import InputError
from gravityocr.training.corpora import published_files
from gravityocr.training.corpora.conversion import Skipped
from gravityocr.training.corpora.published_files import (
    json_lines,
    line_slices,
    published_picture,
    read_published,
    tar_files,
    text_field,
)


@pytest.mark.parametrize("slice_bytes", [1, 7, 16, 17, 40, 10_000])
def test_slices_give_every_line_once(monkeypatch, slice_bytes: int) -> None:
    monkeypatch.setattr(published_files, "SLICE_BYTES", slice_bytes)
    data = b"".join(json.dumps({"n": n, "text": "é" * (n % 5)}).encode() + b"\n" for n in range(30)) + b'\n\n{"n": 30}'
    found = []
    for part in line_slices(len(data)):
        for where, value in json_lines(io.BytesIO(data), "list", part):
            assert data[int(where.rsplit(" ", 1)[1]) :].startswith(b'{"n": %d' % value["n"])
            found.append(value["n"])
    assert found == [*range(31)]
    assert line_slices(0) == ["0-0"]


def test_lines_that_are_no_objects_are_told() -> None:
    data = b'{"a": 1}\nnonsense\n[1]\n\xff\n{"b": [2, ]}\n' + b"[" * 100_000 + b'\n{"c": ' + b"9" * 5000 + b"}\n"
    lines = [*json_lines(io.BytesIO(data), "list", f"0-{len(data)}", lambda line: line.replace(", ]", "]"))]
    assert lines == [
        ("list, byte 0", {"a": 1}),
        *(Skipped(f"list, byte {at}", "no JSON object") for at in (9, 18, 22)),
        ("list, byte 24", {"b": [2]}),
        Skipped("list, byte 37", "no JSON object"),
        Skipped("list, byte 100038", "no JSON object"),
    ]


@pytest.mark.parametrize("kind", ["w", "w:gz"])
def test_archives_are_read_in_one_pass(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "a.tar"
    with tarfile.open(file, kind) as archive:
        for name in ("deep/a.xml", "b.jpg", "c.xml"):
            info = tarfile.TarInfo(name)
            info.size = len(name)
            archive.addfile(info, io.BytesIO(name.encode()))
    assert [*tar_files(file, lambda name: name.endswith(".xml"))] == [("a.xml", b"deep/a.xml"), ("c.xml", b"c.xml")]


def test_an_archive_that_is_cut_off_anywhere_is_broken(tmp_path: Path) -> None:
    file = tmp_path / "a.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        for number in range(20):
            info = tarfile.TarInfo(f"{number}.xml")
            info.size = 700
            archive.addfile(info, io.BytesIO(random.Random(number).randbytes(700)))
    whole = file.read_bytes()
    for end in range(40, len(whole) - 200, 97):
        file.write_bytes(whole[:end])
        with pytest.raises((tarfile.TarError, EOFError)):
            [*tar_files(file, lambda _: True)]


@pytest.mark.parametrize(("form", "mode"), [("PNG", "RGB"), ("PNG", "L"), ("JPEG", "RGB")])
def test_plain_pictures_stay_as_published(form: str, mode: str) -> None:
    data = picture(30, 20, form, mode)
    assert published_picture(data) == (data, 30, 20)


def test_other_pictures_become_png_on_white() -> None:
    data, width, height = published_picture(picture(mode="RGBA"))
    with Image.open(io.BytesIO(data)) as image:
        assert (image.mode, image.size, image.getpixel((0, 0))) == ("L", (width, height), 255)
    turned = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (30, 20)).save(turned, format="JPEG", exif=exif)
    assert published_picture(turned.getvalue())[1:] == (20, 30)


def test_broken_pictures_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="^unreadable image: it is broken"):
        published_picture(picture()[:60])
    with pytest.raises(InputError, match=r"^missing file: a\.png"):
        read_published(tmp_path / "a.png")


@pytest.mark.parametrize("name", ["a\0.png", "a\ud800.png", "a" * 5000, "missing.png"])
def test_names_that_no_file_has_are_missing_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="^missing file: ") as caught:
        read_published(tmp_path / name)
    assert len(str(caught.value)) < 500


def test_fields_that_must_be_texts() -> None:
    assert text_field({"a": "b"}, "a") == "b"
    for row, told in (({}, "none"), ({"a": 5}, "a int"), ({"a": [[["b"]]]}, "a list")):
        with pytest.raises(InputError, match=f"unreadable a: {told}"):
            text_field(row, "a")
