"""MinerU's content list: types, captions inside what they are of, places, nothing lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.unit.pipeline.export_documents import LOST_PICTURE, PICTURE, rich_document

from gravityocr.pipeline.assembly import assemble
from gravityocr.pipeline.export.document import Export
from gravityocr.pipeline.export.mineru import content_list

TYPES = {
    "text", "table", "image", "equation", "code", "list", "header", "footer", "page_number", "aside_text",
    "page_footnote",
}  # fmt: skip


def entries() -> list[dict[str, Any]]:
    return content_list(Export(rich_document(), Path("out/paper")))


def test_every_part_is_there_in_its_type_and_order() -> None:
    found = entries()
    assert [(entry["type"], entry["page_idx"]) for entry in found] == [
        ("text", 0), ("text", 0), ("equation", 0), ("table", 0), ("image", 0), ("list", 0), ("text", 0),
        ("page_number", 0), ("header", 1), ("image", 1), ("code", 1), ("text", 1), ("equation", 1), ("table", 1),
        ("text", 2),
    ]  # fmt: skip
    assert {entry["type"] for entry in found} <= TYPES
    assert all(len(entry["bbox"]) == 4 and all(0 <= side <= 1000 for side in entry["bbox"]) for entry in found)


def test_the_fields_of_each_type() -> None:
    title, text, formula, table, image, items, merged, number, header, lost, code, heading, _, second, failed = (
        entries()
    )
    assert (title["text"], title["text_level"], title["bbox"]) == ("A Study of Things", 1, [75, 30, 800, 100])
    assert "text_level" not in text and heading["text_level"] == 2
    assert formula["text_format"] == "latex" and formula["text"] == "$$\nE = mc^2 \\tag{3.1}\n$$"
    assert formula["bbox"] == [75, 210, 925, 280]  # the formula's and its number's
    assert table["table_body"].startswith("<table") and table["table_caption"] == table["table_footnote"] == []
    assert (image["img_path"], image["image_caption"]) == (f"images/{PICTURE}", ["Figure 1: A curve."])
    assert items["sub_type"] == "text" and items["list_items"] == ["- first", "- second"]
    assert code["code_body"].startswith("if a < b:") and second["table_caption"] == ["Table 2: Numbers."]
    assert (number["text"], header["text"]) == ("17", "Journal of Things")
    assert (lost["img_path"], lost["status"]) == (f"images/{LOST_PICTURE}", "failed")
    assert failed == {
        "type": "text", "text": "", "status": "failed", "error": "page 3: cannot be rendered",
        "bbox": [0, 0, 1000, 1000], "page_idx": 2,
    }  # fmt: skip
    assert merged["status"] == "truncated" and [source["page_idx"] for source in merged["sources"]] == [0, 1]


def test_every_region_with_content_is_somewhere() -> None:
    document = rich_document()
    found = str(content_list(Export(replace(document, passages=assemble(document.pages)), Path("out/paper"))))
    for region in (region for page in document.pages for region in page.regions):
        for word in region.content.replace("<", " ").split()[:1]:
            assert word in found or word == "(3.1)"
    assert r"\\tag{3.1}" in found
