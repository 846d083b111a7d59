"""The JSON of the GLM-OCR SDK as pages: what it was recognised as elsewhere, to be assembled and exported here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

from gravityocr.document import Box, Label, Page, Region, RegionStatus, Task
from gravityocr.errors import InputError
from gravityocr.pipeline.layout import TASKS
from gravityocr.pipeline.passages.markdown_text import is_fenced

SIDE_PX = 1000
"""Width and height of the pages: boxes are in thousandths of both, and the true sizes are not in the file."""

_LABELS: dict[str, Label] = {
    "doc_title": "doc_title", "paragraph_title": "title", "text": "text", "content": "text", "abstract": "text",
    "vertical_text": "text", "algorithm": "code", "reference": "reference", "reference_content": "reference",
    "figure_title": "caption", "table_title": "caption", "chart_title": "caption", "footnote": "footnote",
    "vision_footnote": "footnote", "aside_text": "aside", "number": "page_number", "header": "header",
    "footer": "footer", "header_image": "logo", "footer_image": "logo", "seal": "text", "table": "table",
    "formula": "formula", "display_formula": "formula", "inline_formula": "text", "formula_number": "formula_number",
    "image": "figure", "chart": "figure",
}  # fmt: skip


def read_glm_ocr(path: str | Path) -> list[Page]:
    """Return the pages of a GLM-OCR JSON file; text is in the format `markdown`.

    A text that is one heading becomes a title, a fenced one code, where the file does not name what the detector saw.

    *Raises*: InputError naming the file, the page and the entry that is not as the SDK writes it.
    """
    file = Path(path)
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); check the path") from error
    except ValueError as error:
        raise InputError(f"{file}: is no JSON ({error}); hand the file that the GLM-OCR SDK wrote") from error
    if not isinstance(raw, list) or not all(isinstance(page, list) for page in raw):
        raise InputError(f"{file}: must be a list of pages, each a list of regions; hand the GLM-OCR SDK's JSON")
    return [
        Page(number, (SIDE_PX, SIDE_PX), tuple(_regions(page, f"{file}: page {number + 1}")))
        for number, page in enumerate(raw)
    ]


def _regions(page: list[Any], where: str) -> list[Region]:
    return [_region(item, place, f"{where}, region {place}") for place, item in enumerate(page)]


def _region(item: Any, place: int, where: str) -> Region:
    if not isinstance(item, dict):
        raise InputError(f"{where}: is {type(item).__name__}, no object; hand the GLM-OCR SDK's JSON")
    native, content = item.get("native_label") or item.get("label"), item.get("content") or ""
    if not isinstance(native, str) or not isinstance(content, str):
        raise InputError(f"{where}: label and content must be strings; hand the GLM-OCR SDK's JSON")
    label = _LABELS.get(native, _LABELS.get(str(item.get("label")), "text"))
    if item.get("native_label") is None and label == "text":
        label, native = _written_label(content, native)
    task: Task | None = TASKS[label]
    image = item.get("image_path")
    name = Path(image).name if isinstance(image, str) and image else None
    status, error = _outcome(item)
    return Region(place, label, native, task, _box(item.get("bbox_2d"), where), content, status, error, image=name)


def _outcome(item: dict[str, Any]) -> tuple[RegionStatus, str | None]:
    """Return what our own export adds; the SDK writes no such keys, and what it wrote was read."""
    status, error = item.get("status"), item.get("error")
    known: RegionStatus = next((one for one in get_args(RegionStatus) if one == status), "ok")
    return known, error if isinstance(error, str) else None


def _written_label(content: str, native: str) -> tuple[Label, str]:
    """Return what a text says of itself."""
    body = content.strip()
    if "\n" not in body and body.startswith("# "):
        return "doc_title", "doc_title"
    if "\n" not in body and body.startswith("## "):
        return "title", "paragraph_title"
    return ("code", native) if is_fenced(body) else ("text", native)


def _box(value: Any, where: str) -> Box:
    if value is None:
        return Box(0.0, 0.0, float(SIDE_PX), float(SIDE_PX))
    if not (isinstance(value, list) and len(value) == 4 and all(type(side) in (int, float) for side in value)):
        raise InputError(f"{where}: bbox_2d {value!r} must be four numbers from 0 to 1000; hand the GLM-OCR SDK's JSON")
    x0, y0, x1, y1 = (float(side) for side in value)
    return Box(x0, y0, x1, y1)
