"""Files that are read: regular ones whatever their encoding; a FIFO, folder or device is told and never waited for."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from gravityocr.errors import InputError
from gravityocr.metrics.runs.benchmark_sets import read_golden, read_omnidocbench, read_pubtabnet, read_unimer
from gravityocr.metrics.runs.datasets import PairSet, read_folders, read_pairs
from gravityocr.metrics.runs.input_files import UnreadableFileError, read_text


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


def link_to_nothing(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


BAD: list[Callable[[Path], None]] = [fifo, link_to_a_device, loop, link_to_nothing, listening, Path.mkdir]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("data", "text", "fault"),
    [
        (b"plain \xc3\xa9", "plain é", None),
        (b"\xef\xbb\xbfmarked", "marked", None),
        (b"a\r\nb\rc\n", "a\nb\nc\n", None),
        (b"", "", None),
        (b"caf\xe9 au lait", "caf\ufffd au lait", "first at byte 3"),
        ("né".encode("utf-16"), "né", "is UTF-16"),
        (b"\xff\xfe\x00", "\ufffd", "is UTF-16"),
        (b"a\x00b", "a\x00b", None),
    ],
)
def test_text_is_read_whatever_its_encoding(tmp_path, data, text, fault):
    (tmp_path / "a.txt").write_bytes(data)
    found, told = read_text(tmp_path / "a.txt")
    assert found == text
    assert (told is None) == (fault is None) and (fault or "") in (told or "")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (fifo, "it is a FIFO, no regular file"),
        (link_to_a_device, "it is a device, no regular file"),
        (loop, "Too many levels of symbolic links"),
        (link_to_nothing, "does not exist; name an existing file"),
        (listening, "it is a socket"),
        (Path.mkdir, "it is a folder"),
    ],
)
def test_what_is_no_regular_file_is_told(tmp_path, monkeypatch, make, message):
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    make(Path("x.md"))
    with pytest.raises(UnreadableFileError, match=rf"x\.md: .*{message}"):
        read_text(Path("x.md"))


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "link").symlink_to(write(tmp_path / "a.md", "x"))
    assert read_text(tmp_path / "link") == ("x", None)


@pytest.mark.parametrize("read", [read_pairs, lambda path: read_golden(path, ("pred",))])
def test_single_files_must_be_regular(tmp_path, read):
    fifo(tmp_path / "x.jsonl")
    with pytest.raises(UnreadableFileError, match=r"x\.jsonl: .*a FIFO"):
        read(tmp_path / "x.jsonl")


# Predictions and references ---------------------------------------------------------------------------


def told(found: PairSet) -> list[tuple[str, str]]:
    return [(note.id, note.status) for note in found.notes]


@pytest.mark.parametrize("make", BAD)
def test_an_unreadable_prediction_of_a_folder_costs_its_own_sample_only(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    pred, ref = Path("pred"), Path("ref")
    for folder in (pred, ref):
        write(folder / "a.md", "a")
    write(ref / "b.md", "b")
    make(pred / "b.md")
    make(pred / "z.md")
    found = read_folders(pred, ref)
    assert [(pair.id, pair.pred) for pair in found.pairs] == [("a", "a"), ("b", "")]
    assert told(found) == [("b", "unreadable_prediction")] and not found.missing and found.extra == ("z",)
    assert found.notes[0].message.endswith("; scored as an empty one")
    (ref / "b.md").unlink()
    make(ref / "b.md")
    with pytest.raises(InputError, match=r"ref/b\.md: "):
        read_folders(pred, ref)


def test_a_prediction_that_may_not_be_read_is_unreadable(tmp_path, monkeypatch):
    for folder in ("pred", "ref"):
        write(tmp_path / folder / "a.md", "a")

    def refuse(path: Path) -> bytes:  # root may read everything
        if path.parent.name == "pred":
            raise PermissionError(13, "Permission denied")
        return b"a"

    monkeypatch.setattr(Path, "read_bytes", refuse)
    found = read_folders(tmp_path / "pred", tmp_path / "ref")
    assert told(found) == [("a", "unreadable_prediction")] and "(Permission denied)" in found.notes[0].message


@pytest.mark.parametrize("make", BAD)
def test_an_unreadable_page_costs_itself_only(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    gt, pred = Path("gt.json"), Path("pred")
    pages = [{"page_info": {"image_path": f"{name}.png"}, "layout_dets": []} for name in "abc"]
    write(gt, json.dumps(pages))
    write(pred / "b.md", "text")
    make(pred / "a.md")
    found = read_omnidocbench(gt, pred)
    assert [page.markdown for page in found.pages] == ["", "text", None] and found.missing == ("c.png",)
    statuses = [(note.id, note.status) for note in found.notes]
    assert statuses == [("a.png", "unreadable_prediction"), ("c.png", "missing_prediction")]
    gt.unlink()
    make(gt)
    with pytest.raises(InputError, match=r"gt\.json: "):
        read_omnidocbench(gt, pred)


@pytest.mark.parametrize("make", BAD)
@pytest.mark.parametrize("name", ["spe.txt", "spe.jsonl"])
def test_an_unreadable_subset_costs_itself_only(tmp_path, monkeypatch, make, name):
    monkeypatch.chdir(tmp_path)
    gt, pred = Path("gt"), Path("pred")
    for folder in (gt, pred):
        write(folder / "cpe.txt", "c\n")
    write(gt / "spe.txt", "a\nb\n")
    make(pred / name)
    found = read_unimer(gt, pred)
    assert [pair.pred for pair in found.pairs] == ["", "", "c"] and not found.missing and not found.extra
    assert told(found) == [(name, "unreadable_prediction")]
    make(gt / "hwe.txt")
    with pytest.raises(InputError, match=r"gt/hwe\.txt: "):
        read_unimer(gt, pred)


def test_a_single_file_of_predictions_must_be_readable(tmp_path):
    write(tmp_path / "gt" / "spe.txt", "a\n")
    gt = write(tmp_path / "gt.json", json.dumps({"a.png": {"html": "<table></table>"}}))
    fifo(tmp_path / "pred.json")
    with pytest.raises(InputError, match=r"pred\.json: .*a FIFO"):
        read_pubtabnet(gt, tmp_path / "pred.json")
    with pytest.raises(InputError, match=r"pred\.json: .*a FIFO"):
        read_unimer(tmp_path / "gt", tmp_path / "pred.json")
