"""What may lie in an output folder: another run, links, full disks, and what earlier runs left."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from tests.unit.pipeline.test_exports import document

from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline import exports
from gravityocr.pipeline.export.folders import is_document_folder, owner_of
from gravityocr.pipeline.export.lock import LOCK_NAME, FolderLock
from gravityocr.pipeline.exports import FORMATS, DocumentWriter, OutputFolders


def written(out: Path, formats: tuple[str, ...] = FORMATS, source: str = "in/a.pdf") -> DocumentWriter:
    writer = DocumentWriter(OutputFolders(out).claim(source), formats, source)
    writer.save_image("page0001_region001.png", Image.new("RGB", (8, 8), "red"))
    writer.save_page(0, Image.new("RGB", (80, 80), "white"))
    writer.finish(document(source))
    return writer


def test_one_run_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "new/out"
    with FolderLock(out):
        assert (out / LOCK_NAME).is_file()
        with pytest.raises(ConfigError, match=r"out: another run writes into this folder; wait.*or choose another"):
            FolderLock(out)
        (out / "a").mkdir()
    assert [path.name for path in out.iterdir()] == ["a"]
    (out / "a").rmdir()
    FolderLock(out).close()
    assert out.is_dir()  # it was there before
    out.rmdir()
    FolderLock(out).close()
    assert not out.exists()


def test_a_killed_run_locks_nobody_out(tmp_path: Path) -> None:
    code = "import sys, time; from gravityocr.pipeline.export.lock import FolderLock as L; l = L(sys.argv[1]); print(1, flush=True); time.sleep(60)"  # noqa: E501
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(ConfigError, match="another run"):
            FolderLock(tmp_path)
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / LOCK_NAME).exists()
    FolderLock(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_no_lock_is_made_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / LOCK_NAME).symlink_to(tmp_path / "other")
    with pytest.raises(ConfigError, match="cannot be written"):
        FolderLock(tmp_path / "out")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("place", ["a", "a/images", "a/.pages", "a/layout", "omnidocbench"])
def test_links_below_the_output_folder_are_refused_by_name(tmp_path: Path, place: str) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    (out / place).parent.mkdir(parents=True)
    other.mkdir()
    mine = [other / name for name in ("page0001.jpg", "page0009.jpg", "page0009_region001.png", "tmp1.part", "b.html")]
    for path in mine:
        path.write_text("mine")
    (out / place).symlink_to(other)
    writer = DocumentWriter(OutputFolders(out).claim("in/a.pdf"), FORMATS)
    for work in (
        writer.check,
        lambda: writer.save_image("page0001_region001.png", Image.new("RGB", (8, 8))),
        lambda: writer.save_page(0, Image.new("RGB", (8, 8))),
        lambda: writer.finish(document()),
    ):
        with pytest.raises(InputError, match=rf"{place}: is a link, and outputs are not written through links"):
            work()
    writer.discard()
    assert sorted(other.iterdir()) == sorted(mine) and {path.read_text() for path in mine} == {"mine"}


def test_the_output_folder_itself_may_be_a_link_and_result_files_that_are_links_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    (tmp_path / "other").write_text("mine")
    written(tmp_path / "out")
    (tmp_path / "real/a/a.md").unlink()
    (tmp_path / "real/a/a.md").symlink_to(tmp_path / "other")
    written(tmp_path / "out")
    assert not (tmp_path / "real/a/a.md").is_symlink() and (tmp_path / "other").read_text() == "mine"


def noise() -> Image.Image:
    return Image.frombytes("RGB", (320, 320), random.Random(0).randbytes(320 * 320 * 3))


@pytest.mark.parametrize(
    ("place", "save"),
    [
        ("images/p.png", lambda writer: writer.save_image("p.png", noise())),
        (".pages/page0001.jpg", lambda writer: writer.save_page(0, noise())),
        ("layout/page0001.jpg", lambda writer: writer.finish(document())),
    ],
)
def test_a_disk_that_fills_in_the_middle_of_a_picture_is_told(
    tmp_path: Path, place: str, save: Callable[[DocumentWriter], object]
) -> None:
    formats = ("layout",)
    path = tmp_path / "a" / place
    if place.startswith("layout"):
        DocumentWriter(tmp_path / "a", formats).finish(document())
    else:
        save(DocumentWriter(tmp_path / "a", formats))
    n_bytes = path.stat().st_size
    path.unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes - 1000, before[1]))
    try:
        with pytest.raises(InputError, match=rf"{path.name}: cannot be written"):
            save(DocumentWriter(tmp_path / "a", formats))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not path.exists()


def test_what_an_earlier_run_wrote_in_other_formats_goes(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "a/mine.txt").write_text("mine")
    (tmp_path / "omnidocbench/other_1.md").write_text("of another document")
    DocumentWriter(OutputFolders(tmp_path).claim("in/a.pdf"), ("md",)).finish(document())
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [".source", "a.md", "mine.txt"]
    assert [path.name for path in (tmp_path / "omnidocbench").iterdir()] == ["other_1.md"]
    written(tmp_path)
    assert {f"a{end}" for end in (".md", ".json", ".html", "_docling.json")} <= {
        path.name for path in (tmp_path / "a").iterdir()
    }
    assert not (tmp_path / "a/.source").exists()


def test_what_could_not_be_written_anew_is_called_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, ("md", "json"))

    def fails(*arguments: object) -> None:
        raise InputError("no space")

    monkeypatch.setitem(exports._WRITERS, "md", fails)
    with pytest.raises(InputError, match=r"^format md: no space; the one there is of an earlier run$"):
        written(tmp_path, ("md", "json"))
    with pytest.raises(InputError, match=r"^format md: no space$"):
        written(tmp_path, ("md", "json"), "in/b.pdf")


def test_files_in_a_folder_that_is_not_ours_stay(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/a.html").write_text("mine")
    DocumentWriter(tmp_path / "a", ("md",)).finish(document())
    assert (tmp_path / "a/a.html").read_text() == "mine"


def test_a_folder_says_from_its_first_picture_on_whose_it_is(tmp_path: Path) -> None:
    writer = DocumentWriter(OutputFolders(tmp_path).claim("in/a.pdf"), ("md", "json"), "in/a.pdf")
    assert not (tmp_path / "a").exists()
    writer.save_image("page0001_region001.png", Image.new("RGB", (8, 8)))
    assert owner_of(tmp_path / "a") == os.path.realpath("in/a.pdf") and is_document_folder(tmp_path / "a")
    assert OutputFolders(tmp_path).claim("other/a.pdf").name == "a-2"
    assert OutputFolders(tmp_path).owned("in/a.pdf") == tmp_path / "a"
    assert OutputFolders(tmp_path).owned("other/a.pdf") is None


def test_records_of_owners_that_are_hostile_are_none(tmp_path: Path) -> None:
    for name, text in (("deep", "[" * 200_000), ("number", '{"source_path": 3}'), ("list", "[1]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.json").write_text(text)
    for name, file in (("pipe", "pipe.json"), ("pipe2", ".source")):
        (tmp_path / name).mkdir()
        os.mkfifo(tmp_path / name / file)
    (tmp_path / "linked").mkdir()
    (tmp_path / "real.json").write_text(json.dumps({"source_path": os.path.realpath("in/linked.pdf")}))
    (tmp_path / "linked/linked.json").symlink_to(tmp_path / "real.json")
    folders = OutputFolders(tmp_path)
    names = ("deep", "number", "list", "pipe", "pipe2", "linked")
    assert [folders.claim(f"in/{name}.pdf").name for name in names] == [
        "deep-2", "number-2", "list-2", "pipe-2", "pipe2", "linked-2",
    ]  # fmt: skip
    assert not any(is_document_folder(tmp_path / name) for name in names)


def test_pictures_are_what_pillow_writes(tmp_path: Path) -> None:
    DocumentWriter(tmp_path / "a").save_image("p.png", noise())
    encoded = io.BytesIO()
    noise().save(encoded, "PNG")
    assert (tmp_path / "a/images/p.png").read_bytes() == encoded.getvalue()
