"""A document as DoclingDocument JSON.

*Source*: the data types of docling-core, which the tests validate the result with.
"""

from __future__ import annotations

import re
from typing import Any

from gravityocr.document import Document, Label, Page, Passage, Region
from gravityocr.pipeline.export.captions import captions, is_note
from gravityocr.pipeline.export.document import (
    Export,
    Place,
    Places,
    mark_text,
    passages_by_page,
    picture_of,
    shown_markdown,
)
from gravityocr.pipeline.export.tables import TableGrid, table_grid

_LABELS: dict[Label, str] = {
    "reference": "reference",
    "caption": "caption",
    "footnote": "footnote",
    "header": "page_header",
    "footer": "page_footer",
    "page_number": "page_footer",
}
_ITEM = re.compile(r"\s*(?:[•●▪◦‣∙·*+\-–]|(\d{1,3}[.)]))\s*(?=\S)")
_VERSION = "1.5.0"  # of the data types; readers refuse one that is newer than theirs
_DPI = 72  # pages are given in pixels, so one is a point

Item = dict[str, Any]


def docling_json(export: Export) -> Item:
    """Return the document: texts, tables, pictures and lists in reading order, each with where it is on which page.

    Pages count from 1; boxes are in pixels of the page from its top left corner. Headers, footers and page numbers are
    in the furniture layer. Captions are children of what they are of.
    """
    builder = _Builder(export)
    numbered = passages_by_page(export.document)
    passages = [passage for _, passage in numbered]
    owner = captions(passages, builder.places)
    items: dict[int, Item] = {}
    for number, passage in enumerate(passages):
        if number not in owner:
            items[number] = builder.add(passage)
    for number, of in owner.items():
        builder.add_caption(passages[number], items[of])
    for page in export.document.pages:
        for region in builder.places.uncited(page):
            builder.add_furniture(page, region)
    return builder.finished(export.document)


class _Builder:
    """The lists of a DoclingDocument, filled item by item."""

    def __init__(self, export: Export) -> None:
        self.places = Places(export.document)
        self._export = export
        self._body: Item = _root("#/body", "body")
        self._furniture: Item = _root("#/furniture", "furniture")
        self._lists: dict[str, list[Item]] = {"groups": [], "texts": [], "pictures": [], "tables": []}

    def finished(self, document: Document) -> Item:
        """Return the whole, once everything is in."""
        pages = {
            str(page.index + 1): {"size": _size(page.size_px), "image": None, "page_no": page.index + 1}
            for page in document.pages
        }
        return {
            "schema_name": "DoclingDocument",
            "version": _VERSION,
            "name": self._export.stem,
            "origin": None,
            "furniture": self._furniture,
            "body": self._body,
            **self._lists,
            "key_value_items": [],
            "form_items": [],
            "pages": pages,
        }

    def add(self, passage: Passage) -> Item:
        """Add one passage as what it is, and return the item that captions of it belong to."""
        found = self.places.of(passage)
        layer = "furniture" if passage.furniture else "body"
        if passage.kind == "table":
            grid = table_grid(passage.content or shown_markdown(passage))
            if grid is not None:
                return self._float("tables", "table", found, layer, {"data": _table(grid), "annotations": []})
        if passage.kind == "mark":
            mark = self._text(mark_text(passage), "text", found, layer, {})
            if passage.image is None:
                return mark
        if passage.kind in ("figure", "mark"):
            fields: Item = {"image": self._image(picture_of(passage)), "annotations": []}
            return self._float("pictures", "picture", found, layer, fields)
        if passage.kind == "list":
            return self._list(passage, found, layer)
        text = (passage.content or shown_markdown(passage)).strip()
        return self._text(text, self._label(passage), found, layer, _extra(passage))

    def add_caption(self, passage: Passage, of: Item) -> None:
        """Add a caption or note below the figure, table or code that it is of."""
        note = is_note(passage, self.places)
        text = (passage.content or shown_markdown(passage)).strip()
        item = self._text(text, "footnote" if note else "caption", self.places.of(passage), of["content_layer"], {}, of)
        if "captions" in of:
            of["footnotes" if note else "captions"].append({"$ref": item["self_ref"]})

    def add_furniture(self, page: Page, region: Region) -> None:
        """Add what is on a page and not in its text: in the furniture layer, a picture where it has no words."""
        found = [Place(page, region)]
        if region.label in ("figure", "logo"):
            fields: Item = {"image": self._image(region.image), "annotations": []}
            self._float("pictures", "picture", found, "furniture", fields)
        elif region.content.strip():
            self._text(region.content.strip(), _LABELS.get(region.label, "text"), found, "furniture", {})

    def _label(self, passage: Passage) -> str:
        if passage.kind == "title":
            return "title" if passage.level == 1 else "section_header"
        if passage.kind in ("formula", "code"):
            return passage.kind
        return _LABELS.get(passage.label, "text")

    def _text(
        self, text: str, label: str, found: list[Place], layer: str, extra: Item, parent: Item | None = None
    ) -> Item:
        prov = _provenance(found, text)
        return self._placed("texts", {"label": label, "prov": prov, "orig": text, "text": text} | extra, layer, parent)

    def _float(self, kind: str, label: str, found: list[Place], layer: str, extra: Item) -> Item:
        fields = {"label": label, "prov": _provenance(found, ""), "captions": [], "references": [], "footnotes": []}
        return self._placed(kind, fields | {"image": None} | extra, layer)

    def _list(self, passage: Passage, found: list[Place], layer: str) -> Item:
        group = self._placed("groups", {"name": "list", "label": "list"}, layer)
        for line in (passage.content or shown_markdown(passage)).split("\n"):
            if not line.strip():
                continue
            mark = _ITEM.match(line)
            number = mark[1] if mark else None
            fields = {"enumerated": number is not None, "marker": number or "-"}
            self._text(line[mark.end() if mark else 0 :].strip(), "list_item", found, layer, fields, group)
        return group

    def _placed(self, kind: str, fields: Item, layer: str, parent: Item | None = None) -> Item:
        above = parent or self._body
        items = self._lists[kind]
        item: Item = {
            "self_ref": f"#/{kind}/{len(items)}",
            "parent": {"$ref": above["self_ref"]},
            "children": [],
            "content_layer": layer,
            **fields,
        }
        items.append(item)
        above["children"].append({"$ref": item["self_ref"]})
        return item

    def _image(self, name: str | None) -> Item | None:
        size = self._export.pictures.get(name or "")
        if size is None:
            return None
        return {"mimetype": "image/png", "dpi": _DPI, "size": _size(size), "uri": f"images/{name}"}


def _root(ref: str, layer: str) -> Item:
    return {
        "self_ref": ref, "parent": None, "children": [], "content_layer": layer,
        "name": "_root_", "label": "unspecified",
    }  # fmt: skip


def _size(size_px: tuple[int, int]) -> Item:
    return {"width": float(size_px[0]), "height": float(size_px[1])}


def _extra(passage: Passage) -> Item:
    if passage.kind == "title" and passage.level != 1:
        return {"level": max(1, passage.level - 1)}
    if passage.kind == "code":
        return {"captions": [], "references": [], "footnotes": [], "image": None, "code_language": "unknown"}
    return {}


def _provenance(found: list[Place], text: str) -> list[Item]:
    """Give each region its part of the text where that can be told: its own words, found again in order."""
    result: list[Item] = []
    position = 0
    for place in found:
        words = place.region.content.strip()
        start = text.find(words, position) if words and len(found) > 1 else -1
        span = [start, start + len(words)] if start >= 0 else [0, len(text)]
        position = span[1] if start >= 0 else position
        box = place.box
        bbox = {"l": box.x0, "t": box.y0, "r": box.x1, "b": box.y1, "coord_origin": "TOPLEFT"}
        result.append({"page_no": place.page.index + 1, "bbox": bbox, "charspan": span})
    return result


def _table(grid: TableGrid) -> Item:
    cells = [
        {
            "row_span": cell.n_rows,
            "col_span": cell.n_columns,
            "start_row_offset_idx": cell.row,
            "end_row_offset_idx": cell.row + cell.n_rows,
            "start_col_offset_idx": cell.column,
            "end_col_offset_idx": cell.column + cell.n_columns,
            "text": cell.text,
            "column_header": cell.header and cell.row < grid.n_head_rows,
            "row_header": cell.header and cell.row >= grid.n_head_rows,
            "row_section": False,
        }
        for cell in grid.cells
    ]
    return {"table_cells": cells, "num_rows": grid.n_rows, "num_cols": grid.n_columns}
