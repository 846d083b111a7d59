"""Searches for inputs: outputs of runs are left out, what is passed over is told, and no login is printed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image
from tests.unit.pipeline.test_exports import document

from gravityocr.pipeline.exports import DocumentWriter, OutputFolders
from gravityocr.pipeline.inputs import collect_inputs, expand_input, find_inputs
from gravityocr.pipeline.manifest import MANIFEST_NAME
from gravityocr.pipeline.sources.names import source_identity, source_name


def picture(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path, "PNG")
    return path


def outputs(out: Path) -> Path:
    """Write a document as a run does that is stopped after its first picture, and return the picture."""
    writer = DocumentWriter(OutputFolders(out).claim("in/a.pdf"), ("md",), "in/a.pdf")
    writer.save_image("page0001_region001.png", Image.new("RGB", (8, 8)))
    return writer.folder / "images/page0001_region001.png"


def test_the_output_folder_of_the_run_is_left_out(tmp_path: Path) -> None:
    one = picture(tmp_path / "one.png")
    picture(tmp_path / "out/old.png")
    found = find_inputs([tmp_path], tmp_path / "out")
    assert [item.path for item in found.items] == [str(one)]
    assert found.notes == [f"{tmp_path}: 1 folder of outputs left out: {tmp_path / 'out'}"]
    assert len(collect_inputs([tmp_path])) == 2  # where it is no output folder, it is an ordinary one
    for pattern in ("*.png", "**/*.png", "*/*.png", "o*/*"):
        items = [item for item in collect_inputs([str(tmp_path / pattern)], tmp_path / "out") if item.error is None]
        assert [item.path for item in items] in ([str(one)], [])
    (failure,) = collect_inputs([str(tmp_path / "o*/*")], tmp_path / "out")
    assert "1 folder of outputs left out" in str(failure.error)


def test_other_runs_folders_and_documents_folders_are_left_out(tmp_path: Path) -> None:
    one = picture(tmp_path / "one.png")
    picture(tmp_path / "earlier/x/images/p.png")
    (tmp_path / "earlier" / MANIFEST_NAME).write_text("")
    outputs(tmp_path / "by_library")
    finished = DocumentWriter(OutputFolders(tmp_path).claim("in/b.pdf"))
    finished.save_image("page0001_region001.png", Image.new("RGB", (8, 8)))
    finished.finish(document("in/b.pdf"))
    found = find_inputs([tmp_path], tmp_path)  # into the very folder that is searched
    assert [item.path for item in found.items] == [str(one)]
    assert len(found.notes) == 1 and "3 folders of outputs left out" in found.notes[0]
    assert [item.path for item in collect_inputs([str(tmp_path / "**/*.png")])] == [str(one)]


def test_what_is_handed_by_name_is_read_wherever_it_is(tmp_path: Path) -> None:
    inside = outputs(tmp_path / "out")
    for handed in (inside, inside.parent, tmp_path / "out/a", str(inside.parent / "*.png")):
        assert [item.path for item in collect_inputs([handed], tmp_path / "out")] == [str(inside)]


def test_links_to_folders_and_other_files_are_told(tmp_path: Path) -> None:
    folder, other = tmp_path / "in", tmp_path / "other"
    one = picture(folder / "one.png")
    picture(other / "two.png")
    (folder / "link").symlink_to(other)
    for name in ("a.txt", "sub/b.docx"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("text")
    found = find_inputs([folder])
    assert [item.path for item in found.items] == [str(one)]
    assert found.notes == [
        f"{folder}: 1 link to folders not followed: {folder / 'link'}",
        f"{folder}: 2 files passed over, being no PDF and no image",
    ]
    assert find_inputs([one]).notes == [] and expand_input(folder) == found.items
    one.unlink()
    (failure,) = find_inputs([folder]).items
    assert "holds no document; " in str(failure.error) and "1 link to folders not followed" in str(failure.error)
    (found,) = [find_inputs([str(tmp_path / "*")])]
    assert "2 folders matched and not searched" in str(found.items[0].error)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ftp://user:secret@host/x.pdf?key=secret", "ftp://***@host/x.pdf"),
        (" http://user:secret@host/x.pdf#secret", "http://host/x.pdf"),
        ("http:user:secret@host/x.pdf", "http:***@host/x.pdf"),
        ("http:/user:secret@host/x.pdf", "http:/***@host/x.pdf"),
        ("https:\\\\user:secret@host/x.pdf", "https:\\\\***@host/x.pdf"),
        ("s3://user:sec@ret/@host/x.pdf", "s3://***@host/x.pdf"),
        ("ftp://user:\n@secret@host/x", "ftp://***@host/x"),
        ("https://user:secret@/x", "https://(not readable)"),
    ],
)
def test_logins_of_what_is_nearly_a_url_are_not_printed(text: str, name: str) -> None:
    assert source_name(text) == name == source_name(name)
    assert source_identity(name) == source_identity(text)
    (item,) = collect_inputs([text])
    assert item.name == name and item.error is not None
    assert not any(word in item.error for word in ("user", "secret", "ret/"))


def test_a_file_whose_name_looks_like_a_login_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    picture(tmp_path / "re:me@home.png")
    (item,) = collect_inputs(["re:me@home.png"])
    assert (item.error, item.name) == (None, "re:me@home.png")
    assert source_identity(item.name) == os.path.realpath("re:me@home.png")


def test_a_zero_byte_has_an_identity() -> None:
    assert source_identity("a\0b.png") == "a\0b.png"
