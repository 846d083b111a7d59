"""Output folders: the JSON contract, whole files, nobody overwritten."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from PIL import Image

from gravityocr.document import Box, Document, Page, Region
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline import exports
from gravityocr.pipeline.export import files as export_files
from gravityocr.pipeline.export import folders as export_folders
from gravityocr.pipeline.exports import DocumentWriter, OutputFolders, document_json


def document(source: str = "in/a.pdf") -> Document:
    regions = (
        Region(0, "title", "title", "text", Box(10, 20, 90.55, 40), "T", n_tokens=3, n_forwards=2, score=0.5),
        Region(
            1, "table", "table", "table", Box(0, 50, 100, 200), status="skipped", error="no tables",
            image="page0001_region001.png",
        ),
    )  # fmt: skip
    page = Page(0, (100, 200), regions, seconds={"render": 0.123456}, markdown="# T\n")
    return Document(source, "ok", (page, Page(1, (0, 0), (), "failed", "page 2: broken", {}, "")))


def test_json_has_the_fields_of_the_contract() -> None:
    data = document_json(document())
    assert (data["source"], data["status"], data["n_pages"], data["n_regions"]) == ("in/a.pdf", "ok", 2, 2)
    assert data["region_status"] == {"ok": 1, "skipped": 1}
    first, second = data["pages"]
    assert (first["page"], first["size_px"], first["seconds"]) == (1, [100, 200], {"render": 0.1235})
    assert (second["page"], second["status"], second["error"]) == (2, "failed", "page 2: broken")
    contract = {
        "index", "label", "native_label", "task", "bbox_px", "bbox_2d", "content", "status", "error",
        "n_tokens", "n_forwards",
    }  # fmt: skip
    title, table = first["regions"]
    assert contract <= set(title) and contract <= set(table)
    assert title["bbox_px"] == [10, 20, 90.5, 40] or title["bbox_px"] == [10, 20, 90.6, 40]
    assert title["bbox_2d"] == [100, 100, 906, 200]
    assert table["image"] == "images/page0001_region001.png"
    assert json.loads(json.dumps(data)) == data


def test_writer_writes_folder_and_pictures(tmp_path: Path) -> None:
    writer = DocumentWriter(OutputFolders(tmp_path).claim("in/a.pdf"))
    writer.save_image("page0001_region001.png", Image.new("RGB", (8, 8), "red"))
    assert (tmp_path / "a/images/page0001_region001.png").is_file()  # at once, not at the end
    paths = writer.finish(document())
    assert paths == [tmp_path / "a/a.md", tmp_path / "a/a.json"]
    assert paths[0].read_text() == "# T\n"
    assert json.loads(paths[1].read_text())["source"] == "in/a.pdf"
    assert sorted(path.name for path in (tmp_path / "a").rglob("*")) == [
        "a.json", "a.md", "images", "page0001_region001.png",
    ]  # fmt: skip


def test_formats_are_chosen_and_checked(tmp_path: Path) -> None:
    (path,) = DocumentWriter(tmp_path / "a", ["json"]).finish(document())
    assert path.name == "a.json" and not (tmp_path / "a/a.md").exists()
    with pytest.raises(ConfigError, match="docx"):
        DocumentWriter(tmp_path / "a", ["docx"])


def test_two_inputs_of_one_stem_do_not_overwrite_one_another(tmp_path: Path) -> None:
    folders = OutputFolders(tmp_path)
    claims = [folders.claim(source) for source in ("x/a.pdf", "y/a.png", "z/a.pdf", "x/a.pdf")]
    assert [claim.name for claim in claims] == ["a", "a-2", "a-3", "a"]


def test_stems_that_differ_by_case_only_are_kept_apart(tmp_path: Path) -> None:
    folders = OutputFolders(tmp_path)
    assert [folders.claim(source).name for source in ("x/Report.pdf", "y/report.pdf")] == ["Report", "report-2"]


def test_a_later_run_overwrites_its_own_folder_only(tmp_path: Path) -> None:
    DocumentWriter(OutputFolders(tmp_path).claim("x/a.pdf")).finish(document("x/a.pdf"))
    assert OutputFolders(tmp_path).claim("y/a.pdf").name == "a-2"
    assert OutputFolders(tmp_path).claim("x/a.pdf").name == "a"
    (tmp_path / "b").mkdir()  # a run that was killed left no JSON
    assert OutputFolders(tmp_path).claim("x/b.pdf").name == "b"


def test_pictures_of_an_earlier_run_go_but_foreign_files_stay(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    first = DocumentWriter(folder)
    for name in ("page0001_region001.png", "page0009_region001.png"):
        first.save_image(name, Image.new("RGB", (8, 8)))
    (folder / "images/mine.png").write_bytes(b"x")
    first.finish(document())
    second = DocumentWriter(folder)
    second.save_image("page0001_region001.png", Image.new("RGB", (8, 8)))
    second.finish(document())
    assert sorted(path.name for path in (folder / "images").iterdir()) == ["mine.png", "page0001_region001.png"]


def test_an_interrupted_write_leaves_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.md"
    exports.write_text(path, "old")

    def interrupted(part: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(export_files.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        exports.write_text(path, "new")
    assert path.read_text() == "old"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file.*cannot be made"):
        DocumentWriter(tmp_path / "file" / "a").finish(document())


@pytest.mark.parametrize("name", ["..png", "...png", ".. .png", "/", ".", " .png"])
def test_no_name_leads_out_of_the_output_folder(tmp_path: Path, name: str) -> None:
    assert OutputFolders(tmp_path).claim(name) == tmp_path / "document"


def test_long_names_are_shortened_and_stay_apart(tmp_path: Path) -> None:
    folders = OutputFolders(tmp_path)
    claims = [folders.claim("文" * 84 + end + ".png") for end in ("a", "b")]
    assert claims[0] != claims[1]
    assert claims == [OutputFolders(tmp_path).claim("文" * 84 + end + ".png") for end in ("a", "b")]
    for claim in claims:
        paths = DocumentWriter(claim).finish(document())
        assert all(len(os.fsencode(path.name)) <= 255 and path.is_file() for path in paths)


def test_names_that_are_no_unicode_are_written(tmp_path: Path) -> None:
    source = os.fsdecode(b"in/\xff\xfe.pdf")
    folder = OutputFolders(tmp_path).claim(source)
    _, path = DocumentWriter(folder).finish(Document(source, "ok", (Page(0, (1, 1), markdown="a\udcff\n"),)))
    assert json.loads(path.read_text(encoding="utf-8"))["source"] == source
    assert OutputFolders(tmp_path).claim(source) == folder


def test_owners_are_known_from_every_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    out = tmp_path / "out"
    monkeypatch.chdir(tmp_path / "one")
    (_, path) = DocumentWriter(OutputFolders(out).claim("a.pdf")).finish(document("a.pdf"))
    data = json.loads(path.read_text())
    assert (data["source"], data["source_path"]) == ("a.pdf", str(tmp_path / "one/a.pdf"))
    monkeypatch.chdir(tmp_path / "two")
    assert OutputFolders(out).claim("a.pdf").name == "a-2"
    assert OutputFolders(out).claim("../one/a.pdf").name == "a"


def test_owners_are_known_without_json(tmp_path: Path) -> None:
    for source, name in (("x/a.pdf", "a"), ("y/a.pdf", "a-2"), ("x/a.pdf", "a")):
        folder = OutputFolders(tmp_path).claim(source)
        assert folder.name == name
        DocumentWriter(folder, ["md"]).finish(document(source))


def test_names_that_differ_by_case_only_are_kept_apart_from_an_earlier_run(tmp_path: Path) -> None:
    DocumentWriter(OutputFolders(tmp_path).claim("x/Report.pdf")).finish(document("x/Report.pdf"))
    assert OutputFolders(tmp_path).claim("y/report.pdf").name == "report-2"
    assert OutputFolders(tmp_path).claim("x/Report.pdf").name == "Report"


def test_what_we_did_not_write_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file where a folder should be")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/b.md").write_text("my notes")
    (tmp_path / "c").mkdir()
    (tmp_path / "c/c.json").write_text('{"source_path": 3}')
    folders = OutputFolders(tmp_path)
    assert [folders.claim(f"{name}.png").name for name in "abc"] == ["a-2", "b-2", "c-2"]


@pytest.mark.parametrize("name", ["a.md", "a.json", "images/page0001_region001.png", "images/page0009_region001.png"])
def test_a_folder_where_a_file_should_be_is_named_and_no_part_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / "a" / name / "full").mkdir(parents=True)
    writer = DocumentWriter(tmp_path / "a")
    with pytest.raises(InputError, match=name):
        writer.save_image("page0001_region001.png", Image.new("RGB", (8, 8)))
        writer.finish(document())
    assert not list(tmp_path.rglob("*.part"))


def test_a_failed_write_leaves_no_part(tmp_path: Path) -> None:
    broken = Image.new("RGB", (8, 8))
    broken.save = fails  # type: ignore[method-assign, assignment]
    with pytest.raises(InputError, match=r"p\.png: cannot be written \(No space left on device\)"):
        DocumentWriter(tmp_path / "a").save_image("p.png", broken)
    assert list((tmp_path / "a/images").iterdir()) == []


def fails(*arguments: object) -> None:
    raise OSError(28, "No space left on device")


def test_an_unusable_output_folder_is_told_at_once_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "gone").symlink_to("nowhere")
    for out in ("file", "file/out", "gone", "gone/out", "x" * 300):
        with pytest.raises(ConfigError, match=out):
            OutputFolders(tmp_path / out)
    with pytest.raises(ConfigError, match="no name"):
        OutputFolders("")
    OutputFolders(tmp_path / "new/out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "gone"]
    monkeypatch.setattr(export_folders.os, "access", lambda *arguments: False)
    with pytest.raises(ConfigError, match="cannot be written to"):
        OutputFolders(tmp_path / "new/out")
