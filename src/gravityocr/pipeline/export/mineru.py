"""A document as MinerU's content list: a flat list of its parts in reading order.

*Source*: MinerU's description of `{stem}_content_list.json` as its VLM backend writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gravityocr.document import Box, Label, Passage, Region
from gravityocr.pipeline.export.captions import captions, is_note
from gravityocr.pipeline.export.document import Export, Places, mark_text, passages_by_page, picture_of, shown_markdown

_DISCARDED: dict[Label, str] = {
    "header": "header",
    "footer": "footer",
    "page_number": "page_number",
    "logo": "header",
    "aside": "aside_text",
    "footnote": "page_footnote",
}


def content_list(export: Export) -> list[dict[str, Any]]:
    """Return the list: `type`, its content, `bbox` in 0-1000 of the page, `page_idx` from 0.

    Captions are inside what they are of. Headers, footers, page numbers, side notes and footnotes are there under
    types of their own. A part that goes on across pages has the box and the page of its beginning, and all of them in
    `sources`; one that was not read has `status` and `error`, as a failed page has, all of it in one entry without
    text. These are additions to MinerU's fields.
    """
    document = export.document
    places = Places(document)
    numbered = passages_by_page(document)
    passages = [passage for _, passage in numbered]
    owner = captions(passages, places)
    failed = {page.index: page.error or "unknown" for page in document.pages if page.status == "failed"}
    owned: dict[int, list[int]] = {}
    for number, of in owner.items():
        owned.setdefault(of, []).append(number)
    by_page: dict[int, list[dict[str, Any]]] = {page.index: [] for page in document.pages}
    for number, (page_index, passage) in enumerate(numbered):
        if number not in owner:
            beside = [passages[other] for other in owned.get(number, ())]
            by_page.setdefault(page_index, []).append(_entry(passage, page_index, beside, places, failed))
    for page in document.pages:
        # at their place on the page: those above and those below the text
        beside_text = [region for region in places.uncited(page) if region.content.strip() or region.image]
        above = [region for region in beside_text if region.box.y1 < page.size_px[1] / 2]
        below = [region for region in beside_text if region not in above]
        first, last = ([_furniture(region, page.index, page.size_px) for region in group] for group in (above, below))
        by_page[page.index] = [*first, *by_page[page.index], *last]
    return [entry for index in sorted(by_page) for entry in by_page[index]]


def _furniture(region: Region, page_index: int, size_px: tuple[int, int]) -> dict[str, Any]:
    kind = "image" if region.label == "figure" else _DISCARDED.get(region.label, "text")
    entry: dict[str, Any] = {"type": kind}
    if region.image:
        entry["img_path"] = f"images/{region.image}"
    entry["text"] = region.content.strip()
    if kind == "image":
        entry = {"type": kind, "img_path": entry.get("img_path", ""), "image_caption": [], "image_footnote": []}
    return entry | _state([region]) | {"bbox": list(region.box.per_mille(size_px)), "page_idx": page_index}


def _entry(
    passage: Passage, page_index: int, beside: Sequence[Passage], places: Places, failed: Mapping[int, str]
) -> dict[str, Any]:
    found = places.of(passage)
    entry = _typed(passage, beside, places) | _state([place.region for place in found])
    if not found:
        lost = failed.get(page_index) if passage.kind == "mark" else None
        state = {"text": "", "status": "failed", "error": lost} if lost is not None else {}
        return entry | state | {"bbox": [0, 0, 1000, 1000], "page_idx": page_index}
    here = [place for place in found if place.page.index == page_index]
    box = here[0].box
    for place in here[1:]:
        box = box.union(place.box)
    entry |= {"bbox": _per_mille(box, here[0].page.size_px), "page_idx": page_index}
    if len({place.page.index for place in found}) > 1:
        entry["sources"] = [
            {"page_idx": place.page.index, "bbox": _per_mille(place.box, place.page.size_px)} for place in found
        ]
    return entry


def _per_mille(box: Box, size_px: tuple[int, int]) -> list[int]:
    return list(box.per_mille(size_px))


def _state(regions: Sequence[Region]) -> dict[str, Any]:
    bad = next((region for region in regions if region.status != "ok"), None)
    return {"status": bad.status, "error": bad.error} if bad else {}


def _typed(passage: Passage, beside: Sequence[Passage], places: Places) -> dict[str, Any]:
    notes = [_text(other) for other in beside if is_note(other, places)]
    named = [_text(other) for other in beside if not is_note(other, places)]
    name = picture_of(passage)
    picture = f"images/{name}" if name else ""
    if passage.kind == "table":
        body = passage.content or shown_markdown(passage)
        return {
            "type": "table", "img_path": picture, "table_caption": named, "table_footnote": notes, "table_body": body,
        }  # fmt: skip
    if passage.kind == "figure" or picture:
        return {"type": "image", "img_path": picture, "image_caption": named, "image_footnote": notes}
    if passage.kind == "formula":
        return {"type": "equation", "img_path": "", "text": shown_markdown(passage).strip(), "text_format": "latex"}
    if passage.kind == "code":
        return {
            "type": "code", "sub_type": "code", "code_caption": named, "code_body": passage.content.strip("\n"),
            "code_footnote": notes,
        }  # fmt: skip
    if passage.kind == "list" or passage.label == "reference":
        items = [line.strip() for line in passage.content.split("\n") if line.strip()]
        sub_type = "ref_text" if passage.label == "reference" else "text"
        return {"type": "list", "sub_type": sub_type, "list_items": items}
    if passage.kind == "title":
        return {"type": "text", "text": _text(passage), "text_level": max(1, passage.level)}
    return {"type": _DISCARDED.get(passage.label, "text"), "text": _text(passage)}


def _text(passage: Passage) -> str:
    if passage.kind == "mark":
        return mark_text(passage)
    return (passage.content or shown_markdown(passage)).strip()
