"""A document as the JSON contract has it: all that is known of it, pages and regions in reading order."""

from __future__ import annotations

import math
from typing import Any

from gravityocr.document import Box, Document, Page, Passage, Polygon, Region
from gravityocr.pipeline.inputs import source_identity


def document_json(document: Document) -> dict[str, Any]:
    """Return a document as the JSON contract has it; pages count from 1 in `page`.

    `source` is the input as handed, `source_path` where it really lies.
    """
    return {
        "source": document.source,
        "source_path": source_identity(document.source),
        "status": document.status,
        "error": document.error,
        "notes": list(document.notes),
        "n_pages": len(document.pages),
        "n_regions": document.n_regions,
        "region_status": document.status_counts(),
        "pages": [page_json(page) for page in document.pages],
        "passages": [passage_json(passage) for passage in document.passages],
    }


def page_json(page: Page) -> dict[str, Any]:
    """Return one page as the JSON contract has it."""
    return {
        "page": page.index + 1,
        "status": page.status,
        "error": page.error,
        "size_px": list(page.size_px),
        "seconds": {name: _finite(value, 4) for name, value in page.seconds.items()},
        "text_layer_ned": None if page.text_layer_ned is None else _finite(page.text_layer_ned, 4),
        "regions": [region_json(region, page.size_px) for region in page.regions],
    }


def region_json(region: Region, size_px: tuple[int, int]) -> dict[str, Any]:
    """Return one region as the JSON contract has it: `bbox_px` in page pixels, `bbox_2d` in 0-1000."""
    return {
        "index": region.index,
        "label": region.label,
        "native_label": region.native_label,
        "task": region.task,
        "bbox_px": _rounded(region.box),
        "bbox_2d": list(region.box.per_mille(size_px)),
        "polygon_px": [[_finite(x, 1), _finite(y, 1)] for x, y in region.polygon],
        "content": region.content,
        "status": region.status,
        "error": region.error,
        "n_tokens": region.n_tokens,
        "n_forwards": region.n_forwards,
        "score": _finite(region.score, 4),
        "image": f"images/{region.image}" if region.image else None,
        "text_layer": region.text_layer,
    }


def passage_json(passage: Passage) -> dict[str, Any]:
    """Return one passage: its Markdown and where it came from, `page` from 1, `region` as in `regions[].index`."""
    return {
        "kind": passage.kind,
        "label": passage.label,
        "level": passage.level,
        "markdown": passage.markdown,
        "sources": [{"page": source.page + 1, "region": source.region} for source in passage.sources],
        "furniture": passage.furniture,
    }


def polygon_per_mille(polygon: Polygon, size_px: tuple[int, int]) -> list[list[int]]:
    """Return an outline in 0-1000 of the page's width and height, as `bbox_2d` has its corners."""
    finite = [(x, y) for x, y in polygon if math.isfinite(x) and math.isfinite(y)]
    points = [Box(x, y, x, y).per_mille(size_px) for x, y in finite]
    return [[x, y] for x, y, _, _ in points]


def _finite(value: float, n_digits: int) -> float | None:
    """JSON has no nan and no infinity: null."""
    return round(value, n_digits) if math.isfinite(value) else None


def _rounded(box: Box) -> list[float | None]:
    return [_finite(value, 1) for value in (box.x0, box.y0, box.x1, box.y1)]
