"""The GLM-OCR SDK's JSON as pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gravityocr.document import Box
from gravityocr.errors import InputError
from gravityocr.pipeline.assembly import AssemblyConfig, assemble
from gravityocr.pipeline.glm_ocr_json import read_glm_ocr


def write(folder: Path, pages: Any) -> Path:
    path = folder / "x.json"
    path.write_text(json.dumps(pages), encoding="utf-8")
    return path


def item(label: str, content: str | None, box: Any = (10, 20, 30, 40), **more: Any) -> dict[str, Any]:
    return {"index": 0, "label": label, "content": content, "bbox_2d": list(box) if box else box, **more}


def test_regions_boxes_and_labels(tmp_path: Path) -> None:
    first = [item("text", "# Title"), item("text", "## 1 Part"), item("text", "Text"), item("text", "```\na\n```")]
    second = [
        item("table", "<table></table>"),
        item("formula", "$$\nx\n$$"),
        item("image", ""),
        item("text", "x", None),
    ]
    pages = read_glm_ocr(write(tmp_path, [first, second, []]))
    assert [page.index for page in pages] == [0, 1, 2] and pages[0].size_px == (1000, 1000)
    assert [region.label for region in pages[0].regions] == ["doc_title", "title", "text", "code"]
    assert [region.label for region in pages[1].regions] == ["table", "formula", "figure", "text"]
    assert [region.task for region in pages[1].regions] == ["table", "formula", None, "text"]
    assert pages[0].regions[0].box == Box(10, 20, 30, 40) and pages[1].regions[3].box == Box(0, 0, 1000, 1000)


def test_what_the_detector_saw_goes_first(tmp_path: Path) -> None:
    regions = [
        item("text", "# Title", native_label="text"), item("text", "(1)", native_label="formula_number"),
        item("text", "Fig. 1", native_label="figure_title"), item("image", "", image_path="imgs/a.jpg"),
        item("text", "x", native_label="of_another_detector"),
    ]  # fmt: skip
    read = read_glm_ocr(write(tmp_path, [regions]))[0].regions
    assert [region.label for region in read] == ["text", "formula_number", "caption", "figure", "text"]
    assert read[3].image == "a.jpg" and read[4].native_label == "of_another_detector"


def test_what_was_formatted_comes_out_as_it_was(tmp_path: Path) -> None:
    regions = [item("text", "## 1 Part"), item("text", "- one\n\n- two"), item("formula", "$$\nx\n$$")]
    passages = assemble(read_glm_ocr(write(tmp_path, [regions])), AssemblyConfig("markdown"))
    assert [passage.markdown for passage in passages] == ["## 1 Part", "- one\n\n- two", "$$\nx\n$$"]


@pytest.mark.parametrize(
    ("pages", "told"),
    [
        ({"pages": []}, "list of pages"),
        ([{"label": "text"}], "list of pages"),
        ([["text"]], "page 1, region 0.*no object"),
        ([[item("text", 3)]], "label and content"),  # type: ignore[arg-type]
        ([[{"content": "x"}]], "label and content"),
        ([[item("text", "x", (1, 2, 3))]], "bbox_2d"),
        ([[], [item("text", "x", ("1", 2, 3, 4))]], "page 2, region 0.*bbox_2d"),
    ],
)
def test_other_json_is_refused(tmp_path: Path, pages: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_glm_ocr(write(tmp_path, pages))


def test_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("<html>", encoding="utf-8")
    with pytest.raises(InputError, match="is no JSON"):
        read_glm_ocr(tmp_path / "x.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_glm_ocr(tmp_path / "y.json")
