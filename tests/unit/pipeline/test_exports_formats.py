"""All formats from one document: what each holds, that all are the same each time, and what is left on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from tests.unit.pipeline.export_documents import LOST_PICTURE, PICTURE, page_image, rich_document

from gravityocr.document import Document
from gravityocr.errors import InputError
from gravityocr.pipeline.exports import FORMATS, DocumentWriter, OutputFolders, document_json, region_json

RICH = rich_document()


def write(
    out: Path, formats: Sequence[str] = FORMATS, document: Document = RICH, n_pages: int = 2
) -> tuple[DocumentWriter, list[Path]]:
    writer = DocumentWriter(OutputFolders(out).claim(document.source), formats)
    for name in (PICTURE, LOST_PICTURE):
        writer.save_image(name, Image.new("RGB", (40, 30), "red"))
    for index in range(n_pages):
        writer.save_page(index, page_image())
    return writer, writer.finish(document)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_format_gives_its_files(tmp_path: Path) -> None:
    _, paths = write(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in paths] == [
        "paper/paper.md", "paper/paper.json", "paper/paper.html", "paper/paper_glm-ocr.json",
        "paper/paper_content_list.json", "paper/paper_docling.json",
        "omnidocbench/paper_1.md", "omnidocbench/paper_2.md", "omnidocbench/paper_3.md",
        "paper/layout/page0001.jpg", "paper/layout/page0002.jpg", "paper/layout/page0003.jpg",
    ]  # fmt: skip
    assert all(path.is_file() for path in paths)
    kept = {path.name for path in tmp_path.rglob("*")}
    assert not any(name.endswith(".part") for name in kept) and ".pages" not in kept


def test_the_same_document_gives_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert len(files(tmp_path / "a")) == 15  # 12 outputs, two pictures, the record of the predictions


def test_page_pictures_are_put_by_only_where_a_format_shows_them(tmp_path: Path) -> None:
    plain = DocumentWriter(tmp_path / "plain", ["md", "docling"])
    plain.save_page(0, page_image())
    assert not plain.wants_pages and not (tmp_path / "plain").exists()
    shown = DocumentWriter(tmp_path / "shown", ["html"])
    assert shown.wants_pages
    shown.save_page(0, page_image((3000, 6000)))
    (kept,) = (tmp_path / "shown/.pages").iterdir()  # at once, and small
    with Image.open(kept) as image:
        assert image.size == (800, 1600)
    shown.discard()
    assert not (tmp_path / "shown/.pages").exists()


def test_json_tells_passages_notes_outlines_and_text_layers() -> None:
    document = replace(RICH, pages=(replace(RICH.pages[0], text_layer_ned=0.12345), *RICH.pages[1:]))
    data = json.loads(json.dumps(document_json(document)))
    assert data["notes"] == ["the first of 12 frames of an animation is read"]
    page = data["pages"][0]
    assert page["text_layer_ned"] == 0.1235 and data["pages"][1]["text_layer_ned"] is None
    region = page["regions"][1]
    assert region["polygon_px"][1] == [640.0, 125.0] and region["text_layer"] == "Costs"
    assert page["regions"][9]["content"] == "17"  # furniture is out of the passages, and here
    merged = data["passages"][7]
    assert merged["sources"] == [{"page": 1, "region": 8}, {"page": 2, "region": 2}]
    assert merged["markdown"] == "goes on on the next page." and merged["furniture"] is False
    assert "\n\n".join(passage["markdown"] for passage in data["passages"]) + "\n" == RICH.markdown


def test_a_format_that_cannot_be_written_is_named_and_the_others_are_there(tmp_path: Path) -> None:
    (tmp_path / "paper/paper_docling.json/full").mkdir(parents=True)
    (tmp_path / "paper/.source").write_text(str(Path("in/paper.pdf").resolve()))
    with pytest.raises(InputError, match=r"^format docling: .*paper_docling\.json: cannot be written"):
        write(tmp_path)
    written = files(tmp_path)
    assert {"paper/paper.md", "paper/paper.html", "paper/paper_content_list.json"} <= written.keys()
    assert not (tmp_path / "paper/.pages").exists()


def test_predictions_are_flat_keep_figure_marks_and_follow_the_document(tmp_path: Path) -> None:
    write(tmp_path, ["omnidocbench"])
    flat = tmp_path / "omnidocbench"
    assert (flat / "paper_2.md").read_text() == f"## Results\n\n![text](../paper/images/{LOST_PICTURE})\n"
    assert (flat / f"../paper/images/{LOST_PICTURE}").is_file()
    write(tmp_path, ["omnidocbench"], replace(RICH, pages=RICH.pages[:1]), n_pages=1)
    assert sorted(path.name for path in flat.iterdir()) == ["paper.md"]  # what the longer document left is gone


def test_predictions_of_another_document_are_not_overwritten(tmp_path: Path) -> None:
    one_page = replace(rich_document("in/paper_1.png"), pages=RICH.pages[:1])
    write(tmp_path, ["omnidocbench"], one_page)
    before = (tmp_path / "omnidocbench/paper_1.md").read_bytes()
    changed = replace(RICH, pages=tuple(replace(page, markdown="other\n") for page in RICH.pages))
    with pytest.raises(InputError, match=r"format omnidocbench: .*paper_1\.md: is there already"):
        write(tmp_path, ["omnidocbench"], changed)
    assert (tmp_path / "omnidocbench/paper_1.md").read_bytes() == before


def test_no_document_gets_the_folder_that_all_share(tmp_path: Path) -> None:
    folders = OutputFolders(tmp_path)
    assert [folders.claim(f"in/{name}.pdf").name for name in ("omnidocbench", "OmniDocBench")] == [
        "omnidocbench-2", "OmniDocBench-3",
    ]  # fmt: skip
    assert OutputFolders(tmp_path).claim("in/omnidocbench.pdf").name == "omnidocbench-2"


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_makes_a_folder_that_is_ours(tmp_path: Path, name: str) -> None:
    write(tmp_path, [name])
    assert OutputFolders(tmp_path).claim("in/paper.pdf").name == "paper"
    assert OutputFolders(tmp_path).claim("elsewhere/paper.pdf").name == "paper-2"


@pytest.mark.parametrize("name", FORMATS)
def test_a_document_of_nothing_is_written(tmp_path: Path, name: str) -> None:
    failed = Document("in/broken.pdf", "failed", (), "in/broken.pdf: is no PDF")
    paths = DocumentWriter(tmp_path / "broken", [name]).finish(failed)
    assert len(paths) == (0 if name in ("omnidocbench", "layout") else 1)
    assert all(path.is_file() for path in paths)


def test_names_that_are_no_unicode_or_markup_are_written_in_every_format(tmp_path: Path) -> None:
    for source in ('in/a "<b>&\n.pdf', "in/\udcff.pdf", "in/a b(1).png"):
        _, paths = write(tmp_path, FORMATS, rich_document(source))
        assert all(path.is_file() for path in paths)
        again, _ = write(tmp_path, FORMATS, rich_document(source))
        assert again.folder == paths[0].parent


def test_scores_and_outlines_that_are_no_numbers_are_null_in_valid_json() -> None:
    nan = float("nan")
    region = replace(rich_document().pages[0].regions[0], score=nan, polygon=((0.0, nan), (1.0, 2.0)))
    written = region_json(region, (100, 100))
    assert json.loads(json.dumps(written, allow_nan=False))["score"] is None
    assert written["polygon_px"] == [[0.0, None], [1.0, 2.0]]
