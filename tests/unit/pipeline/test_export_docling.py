"""DoclingDocument JSON, validated by docling-core itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.unit.pipeline.export_documents import PICTURE, SIZE_PX, rich_document

from gravityocr.document import Document
from gravityocr.pipeline.export.docling import docling_json
from gravityocr.pipeline.export.document import Export
from gravityocr.pipeline.exports import DocumentWriter


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return docling_json(Export(rich_document(), Path("out/paper"), {PICTURE: (40, 30)}))


@pytest.fixture(scope="module")
def docling() -> Any:
    return pytest.importorskip("docling_core.types.doc", reason="no docling-core: pip install docling-core")


@pytest.fixture(scope="module")
def document(docling: Any, data: dict[str, Any]) -> Any:
    return docling.DoclingDocument.model_validate_json(json.dumps(data))


def test_docling_reads_it_and_its_markdown_holds_the_text(document: Any) -> None:
    text = document.export_to_markdown()
    for expected in (
        "# A Study of Things", "Costs", "E = mc^2", "Figure 1: A curve.", "first", "second",
        "goes on on the next page.", "if a < b:", "## Results", "Table 2: Numbers.", "failed",
        "page 3: cannot be rendered", "one two",
    ):  # fmt: skip
        assert expected in text
    assert text.count("Figure 1: A curve.") == 1  # a caption is not said twice
    assert "Journal of Things" not in text and "17" not in text


def test_furniture_is_in_its_layer(document: Any, docling: Any) -> None:
    layer = docling.ContentLayer.FURNITURE
    found = {item.text: item for item, _ in document.iterate_items(included_content_layers={layer})}
    assert set(found) == {"17", "Journal of Things"}
    assert (found["17"].label.value, found["Journal of Things"].label.value) == ("page_footer", "page_header")
    assert found["Journal of Things"].prov[0].page_no == 2


def test_a_table_s_grid_has_its_spans_and_headers(document: Any) -> None:
    first = document.tables[0].data
    assert (first.num_rows, first.num_cols) == (3, 3)
    assert [[cell.text for cell in row] for row in first.grid] == [
        ["Name", "$x_1$ | y", "$x_1$ | y"], ["Name", "a_b", "<b>"], ["one two", "2 & 3", ""],
    ]  # fmt: skip
    assert [cell.column_header for cell in first.grid[1]] == [True] * 3
    assert not any(cell.column_header or cell.row_header for cell in first.grid[2])
    assert document.tables[1].caption_text(document) == "Table 2: Numbers."


def test_places_are_on_their_pages(document: Any) -> None:
    assert {number: (page.size.width, page.size.height) for number, page in document.pages.items()} == {
        1: SIZE_PX, 2: SIZE_PX, 3: (0, 0),
    }  # fmt: skip
    merged = next(item for item in document.texts if item.text.startswith("goes on"))
    assert [place.page_no for place in merged.prov] == [1, 2]
    assert [merged.text[slice(*place.charspan)] for place in merged.prov] == ["goes on", "on the next page."]
    box = merged.prov[0].bbox
    assert (box.l, box.t, box.r, box.b, box.coord_origin.value) == (60, 750, 640, 820, "TOPLEFT")


def test_kinds_levels_and_pictures(document: Any) -> None:
    labels = {item.text: item.label.value for item in document.texts}
    assert labels["A Study of Things"] == "title" and labels["Results"] == "section_header"
    assert labels["E = mc^2 \\tag{3.1}"] == "formula" and labels["first"] == "list_item"
    assert labels["Figure 1: A curve."] == "caption"
    picture = document.pictures[0]
    assert str(picture.image.uri) == f"images/{PICTURE}" and picture.image.size.width == 40
    assert picture.caption_text(document) == "Figure 1: A curve."
    assert document.groups[0].label.value == "list" and len(document.groups[0].children) == 2


def test_every_reference_leads_to_an_item_and_back(data: dict[str, Any]) -> None:
    items = {"#/body": data["body"], "#/furniture": data["furniture"]}
    items |= {item["self_ref"]: item for kind in ("texts", "tables", "pictures", "groups") for item in data[kind]}
    children = {child["$ref"]: ref for ref, item in items.items() for child in item["children"]}
    for ref, item in items.items():
        if item["parent"] is not None:
            assert children[ref] == item["parent"]["$ref"]
    assert len(children) == len(items) - 2


@pytest.mark.parametrize("source", ["in/a.pdf", "in/\udcff.png"])
def test_odd_documents_are_valid_too(tmp_path: Path, docling: Any, source: str) -> None:
    for document in (Document(source, "failed"), rich_document(source)):
        writer = DocumentWriter(tmp_path / "a", ["docling"])
        writer.save_image(PICTURE, Image.new("RGB", (4, 4)))
        (path,) = writer.finish(document)
        docling.DoclingDocument.model_validate_json(path.read_text(encoding="utf-8"))
