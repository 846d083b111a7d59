"""A document as the GLM-OCR SDK's JSON: pages of regions with their content in Markdown.

*Source*: the layout of the SDK's published results, and of its result formatter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gravityocr.document import Label, Page, Passage, Region
from gravityocr.pipeline.assembly import AssemblyConfig, assemble
from gravityocr.pipeline.export.document import Export
from gravityocr.pipeline.export.document_json import polygon_per_mille

NATIVE_LABELS: dict[Label, str] = {
    "doc_title": "doc_title",
    "title": "paragraph_title",
    "text": "text",
    "list": "text",
    "reference": "reference_content",
    "caption": "figure_title",
    "footnote": "footnote",
    "aside": "aside_text",
    "code": "algorithm",
    "table": "table",
    "formula": "display_formula",
    "formula_number": "formula_number",
    "figure": "image",
    "header": "header",
    "footer": "footer",
    "page_number": "number",
    "logo": "header_image",
}
"""What PP-DocLayoutV3 calls our labels."""

_KNOWN = frozenset(NATIVE_LABELS.values()) | {
    "abstract", "chart", "content", "footer_image", "inline_formula", "reference", "seal", "vertical_text",
    "vision_footnote",
}  # fmt: skip
_IMAGES = frozenset({"figure", "logo"})


def glm_ocr_json(export: Export) -> list[list[dict[str, Any]]]:
    """Return a list of pages, each a list of `index, label, native_label, content, bbox_2d`, and what else is known.

    `label` is text, table, formula or image. A formula has its number in it; regions that are read together are
    apart, each with its own part. Headers, footers and page numbers are there where the Markdown has them.
    A region that was not read has its `status` and `error` beside the empty content; so has a page that was not, as
    one region. `image_path` is a region's picture.
    """
    document = export.document
    furniture = any(passage.furniture for passage in document.passages)
    return [_page(page, furniture, export.assembly) for page in document.pages]


def _page(page: Page, furniture: bool, assembly: AssemblyConfig) -> list[dict[str, Any]]:
    """Each page is put together by itself, so that no passage is of two of its regions, formula numbers apart."""
    of_region: dict[int, Passage] = {}
    numbers: set[int] = set()
    mends = tuple(mend for mend in assembly.mends if mend != "failures")  # told by `status`, not in the text
    for passage in assemble([page], replace(assembly, merge=False, keep_furniture=True, mends=mends)):
        found = {source.region for source in passage.sources}
        sources = [region for region in page.regions if region.index in found]
        if passage.kind == "formula" and len(sources) > 1:
            inside = {
                region.index for region in sources if region.label == "formula_number" or region.task != "formula"
            }
            numbers |= inside
            sources = [region for region in sources if region.index not in inside]
        of_region |= {region.index: passage for region in sources[:1]}
    shown = [region for region in page.regions if region.index not in numbers and (furniture or not _drops(region))]
    if page.status == "failed" and not page.regions:
        return [_lost(page)]
    return [_entry(place, region, page, of_region.get(region.index)) for place, region in enumerate(shown)]


def _lost(page: Page) -> dict[str, Any]:
    """A page that could not be read is one region all over it."""
    return {
        "index": 0, "label": "text", "native_label": "text", "content": "", "bbox_2d": [0, 0, 1000, 1000],
        "status": "failed", "error": page.error,
    }  # fmt: skip


def _drops(region: Region) -> bool:
    return region.label in ("header", "footer", "page_number", "logo")


def _entry(place: int, region: Region, page: Page, passage: Passage | None) -> dict[str, Any]:
    label = "image" if region.label in _IMAGES else region.task or "text"
    entry: dict[str, Any] = {
        "index": place,
        "label": label,
        "native_label": region.native_label if region.native_label in _KNOWN else NATIVE_LABELS[region.label],
        "content": _content(region, passage),
        "bbox_2d": list(region.box.per_mille(page.size_px)),
    }
    if region.polygon:
        entry["polygon"] = polygon_per_mille(region.polygon, page.size_px)
    if region.image:
        entry["image_path"] = f"images/{region.image}"
    if region.status != "ok":
        entry |= {"status": region.status, "error": region.error}
    return entry


def _content(region: Region, passage: Passage | None) -> str:
    """A region's content is its passage's Markdown; a picture has none."""
    if region.label in _IMAGES or not region.content.strip():
        return ""
    if passage is None or passage.kind in ("mark", "figure"):  # it was read in part at most
        return region.content.strip()
    return passage.markdown.strip("\n")
