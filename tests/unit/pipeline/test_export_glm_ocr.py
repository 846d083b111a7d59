"""The SDK's JSON: its fields and contents, and that it reads back as the same document."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.pipeline.export_documents import LOST_PICTURE, PICTURE, rich_document

from gravityocr.document import Document, Label, Page
from gravityocr.pipeline.assembly import AssemblyConfig, assemble
from gravityocr.pipeline.export.document import Export
from gravityocr.pipeline.export.glm_ocr import NATIVE_LABELS, glm_ocr_json
from gravityocr.pipeline.exports import DocumentWriter
from gravityocr.pipeline.glm_ocr_json import read_glm_ocr

MARKDOWN = AssemblyConfig(text_format="markdown", merge=False)


def put_together(config: AssemblyConfig | None = None) -> Document:
    document = rich_document()
    return replace(document, passages=assemble(document.pages, config))


def test_entries_have_the_sdk_s_fields_and_contents() -> None:
    first, second, third = glm_ocr_json(Export(put_together(), Path("out/paper")))
    assert [entry["index"] for entry in first] == list(range(8))
    assert third == [{
        "index": 0, "label": "text", "native_label": "text", "content": "", "bbox_2d": [0, 0, 1000, 1000],
        "status": "failed", "error": "page 3: cannot be rendered",
    }]  # fmt: skip
    title, text, formula, table, figure, caption, items, cut = first
    assert title == {
        "index": 0, "label": "text", "native_label": "doc_title", "content": "# A Study of Things",
        "bbox_2d": [75, 30, 800, 100],
    }  # fmt: skip
    assert text["polygon"] == [[75, 120], [800, 125], [800, 190], [75, 185]]
    assert text["content"].startswith(r"Costs \$5 and \$6; $x^2$")
    assert (formula["label"], formula["native_label"]) == ("formula", "display_formula")
    assert formula["content"] == "$$\nE = mc^2 \\tag{3.1}\n$$" and formula["bbox_2d"] == [75, 210, 800, 280]
    assert table["label"] == "table" and table["content"].startswith("<table")
    assert (figure["label"], figure["content"], figure["image_path"]) == ("image", "", f"images/{PICTURE}")
    assert caption["native_label"] == "figure_title" and items["content"] == "- first\n- second"
    assert (cut["content"], cut["status"], cut["error"]) == ("goes on", "truncated", "reached 4096 tokens")
    lost, rest = second[:2]  # a failed region is there, and what goes on has its own part
    assert (lost["content"], lost["status"], lost["image_path"]) == ("", "failed", f"images/{LOST_PICTURE}")
    assert rest["content"] == "on the next page." and second[3]["content"] == "## Results"
    assert second[2]["native_label"] == "algorithm" and second[2]["content"].startswith("```")


def test_furniture_is_there_where_the_markdown_has_it() -> None:
    labels = [entry["native_label"] for page in glm_ocr_json(Export(put_together(), Path("a"))) for entry in page]
    assert "header" not in labels and "number" not in labels
    kept = put_together(AssemblyConfig(keep_furniture=True))
    labels = [entry["native_label"] for page in glm_ocr_json(Export(kept, Path("a"))) for entry in page]
    assert "header" in labels and "number" in labels


def test_it_reads_back_as_the_same_markdown(tmp_path: Path) -> None:
    document = put_together()
    (path,) = DocumentWriter(tmp_path / "paper", ["glm-ocr"]).finish(document)
    pages = read_glm_ocr(path)
    assert [len(page.regions) for page in pages] == [8, 7, 1]
    read = [passage for passage in assemble(pages, MARKDOWN) if passage.kind != "mark"]
    again = [passage.markdown.replace("\n\n- ", "\n- ") for passage in read]
    again = [text.replace("region 7 was cut", "region 8 was cut") for text in again]  # its number went into the formula
    assert again == [passage.markdown for passage in document.passages if passage.kind != "mark"]
    assert pages[2].regions[0].error == "page 3: cannot be rendered"


@pytest.mark.parametrize("label", NATIVE_LABELS)
def test_every_label_reads_back(label: Label, tmp_path: Path) -> None:
    page = rich_document().pages[0]
    region = replace(page.regions[0], label=label, native_label="of another detector", task="text")
    document = Document("a.png", "ok", (Page(0, page.size_px, (region,)),))
    document = replace(document, passages=assemble(document.pages, AssemblyConfig(keep_furniture=True)))
    (path,) = DocumentWriter(tmp_path / "a", ["glm-ocr"]).finish(document)
    ((back,),) = [page.regions for page in read_glm_ocr(path)]
    assert back.label == ("text" if label == "list" else label)


@pytest.mark.parametrize(
    "name", ["page/page", "paper/paper", "code/code", "handwritten/handwritten", "table/table", "GLM-4.5V"]
)
def test_the_published_results_come_out_as_they_went_in(name: str, cases_dir: Path) -> None:
    source = cases_dir / "glm_reference/result" / f"{name}.json"
    pages = tuple(read_glm_ocr(source))
    config = AssemblyConfig(text_format="markdown", mends=frozenset())
    document = Document(str(source), "ok", pages, passages=assemble(pages, config))
    written = glm_ocr_json(Export(document, Path("out/a"), assembly=config))
    published = json.loads(source.read_text(encoding="utf-8"))
    fields = ("index", "label", "content", "bbox_2d")
    assert [[{name: entry[name] for name in fields} for entry in page] for page in written] == published
