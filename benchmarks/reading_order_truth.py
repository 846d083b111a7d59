"""The handed pages with an annotated reading order: the regions of each, and which pages are left out and why.

OmniDocBench's pages have regions with an order. DocBank's have tokens in a list: tokens that touch and bear one label
are made into regions, whose place is that of their first token in the list. DocBank's list goes line by line over the
whole width of a page, so it tells nothing of two columns: for such a page the order within each column is the list's,
the left column comes first, what spans both above all, and the page is marked as derived.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from gravityocr.document import Box, Label
from gravityocr.errors import InputError

OMNIDOCBENCH: dict[str, Label] = {
    "title": "title",
    "text_block": "text",
    "reference": "reference",
    "code_txt": "code",
    "code_algorithm": "code",
    "figure": "figure",
    "figure_caption": "caption",
    "figure_footnote": "footnote",
    "table": "table",
    "table_caption": "caption",
    "table_footnote": "footnote",
    "code_txt_caption": "caption",
    "code_algorithm_caption": "caption",
    "equation_isolated": "formula",
    "equation_caption": "formula_number",
    "header": "header",
    "footer": "footer",
    "page_number": "page_number",
    "page_footnote": "footnote",
    "abandon": "logo",
}
DOCBANK: dict[str, Label] = {
    "title": "doc_title",
    "section": "title",
    "paragraph": "text",
    "abstract": "text",
    "author": "text",
    "date": "text",
    "list": "list",
    "reference": "reference",
    "caption": "caption",
    "footer": "footnote",  # so DocBank calls the notes at a page's foot
    "table": "table",
    "figure": "figure",
    "equation": "formula",
}
_GRAPHICS, _PICTURE = "##LT", "##LTFigure##"  # lines and pictures come after all words of the list
_UNREAD = "(cid:"  # glyphs without Unicode: brackets and signs with the box of their whole font
_TOUCH = {"table": (60, 20), "figure": (60, 20), "equation": (40, 12)}
"""Thousandths of the page, sideways and down, over which tokens of one such label are one region."""
_TOUCH_TEXT = (18, 4)
_FEW = 2  # tokens: as many with a label of their own, on a line with others, belong to those (marks of footnotes)
_COLUMNS = 0.3  # share of the lines over whose gap the list jumps, from which the page has two columns
_GUTTER = 20  # thousandths of the page: wider than any gap between words


@dataclass(frozen=True)
class TruthRegion:
    """A region of the annotation: `order` is None where it has no place in the reading order, as page numbers."""

    box: Box
    label: Label
    order: float | None


@dataclass(frozen=True)
class TruthPage:
    """A page with annotated regions; `derived` where the annotation gives the order within columns only."""

    file: Path
    source: str
    size_px: tuple[int, int]
    regions: tuple[TruthRegion, ...]
    derived: bool = False

    @property
    def n_ordered(self) -> int:
        """Return how many regions have a place in the order."""
        return sum(region.order is not None for region in self.regions)


def load_pages(folder: Path) -> tuple[list[TruthPage], list[dict[str, str]]]:
    """Read the pages with an order from `manifest.json`, and say of every other page why it is left out.

    *Raises*: InputError where the manifest or a page image is missing or broken, or no page has an order.
    """
    manifest = folder / "manifest.json"
    try:
        rows = [row for row in json.loads(manifest.read_text(encoding="utf-8")) if row["kind"] == "page"]
        read = [_page(folder, row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        reason = f"cannot be read ({type(error).__name__}: {error})"
        raise InputError(f"{manifest} {reason}; --cases wants a folder with a manifest.json and its pages") from error
    pages = [page for page in read if isinstance(page, TruthPage)]
    if not pages:
        raise InputError(f"{manifest} holds no page with an annotated reading order")
    left_out = [
        {"file": row["file"], "reason": page}
        for row, page in zip(rows, read, strict=True)
        if not isinstance(page, TruthPage)
    ]
    return pages, left_out


def _page(folder: Path, row: dict[str, Any]) -> TruthPage | str:
    truth, file = row["ground_truth"], folder / row["file"]
    if "omnidocbench" in truth:
        regions = [_annotated(item) for item in truth["omnidocbench"]["layout_dets"]]
        page = TruthPage(file, "OmniDocBench", _size(file), tuple(regions))
    elif "docbank_tokens" in truth:
        size_px = _size(file)
        found, derived = docbank_regions(truth["docbank_tokens"], size_px)
        page = TruthPage(file, "DocBank", size_px, tuple(found), derived)
    elif "layout" in truth:
        return "its boxes have no order (PubLayNet)"
    else:
        return "no boxes are annotated"
    return page if page.n_ordered else "no region has an order"


def _size(file: Path) -> tuple[int, int]:
    with Image.open(file) as image:
        return image.size


def _annotated(item: dict[str, Any]) -> TruthRegion:
    xs, ys = item["poly"][0::2], item["poly"][1::2]
    label = OMNIDOCBENCH.get(item["category_type"], "text")
    order = None if item.get("ignore") else item.get("order")
    return TruthRegion(Box(min(xs), min(ys), max(xs), max(ys)), label, order)


@dataclass(frozen=True)
class _Part:
    """Tokens that belong together: their label, the box around them in thousandths, their places in the list."""

    label: str
    box: Box
    places: tuple[int, ...]
    text: str = ""

    def joined(self, other: _Part) -> _Part:
        """Return both as one, with the label of the part of more tokens, a picture before its words."""
        larger = max(self, other, key=lambda part: (part.label == "figure", len(part.places)))
        return _Part(larger.label, self.box.union(other.box), self.places + other.places, f"{self.text} {other.text}")


def docbank_regions(tokens: Sequence[dict[str, Any]], size_px: tuple[int, int]) -> tuple[list[TruthRegion], bool]:
    """Return the regions of a DocBank page, and whether their order is derived because the page has two columns."""
    parts = [
        _Part(token["label"], Box(*map(float, token["bbox_1000"])), (place,), token["text"])
        for place, token in enumerate(tokens)
        if not token["text"].startswith(_GRAPHICS) and _UNREAD not in token["text"]
    ]
    pictures = [
        _Part("figure", Box(*map(float, token["bbox_1000"])), ()) for token in tokens if token["text"] == _PICTURE
    ]
    if not parts:
        return [], False
    gutter = _list_gutter(parts)
    parts = _merged([*pictures, *parts])
    ordered = sorted(parts, key=lambda part: min(part.places, default=len(tokens)))
    if gutter is not None:
        ordered.sort(key=lambda part: _column(part, parts, gutter))
    numbers = {id(part) for part in ordered if _is_page_number(part, parts)}
    placeless = numbers | {id(part) for part in ordered if not part.places}
    wide, tall = size_px[0] / 1000, size_px[1] / 1000
    regions = []
    for order, part in enumerate(ordered, 1):
        box = Box(part.box.x0 * wide, part.box.y0 * tall, part.box.x1 * wide, part.box.y1 * tall)
        label: Label = "page_number" if id(part) in numbers else DOCBANK.get(part.label, "text")
        regions.append(TruthRegion(box, label, None if id(part) in placeless else order))
    return regions, gutter is not None


def _merged(parts: list[_Part]) -> list[_Part]:
    """Join what touches and bears one label, and what lies in another part for the most part, until nothing does."""
    done: list[_Part] = []
    for part in parts:
        while True:
            mate = next((other for other in done if _belong(part, other)), None)
            if mate is None:
                break
            done.remove(mate)
            part = part.joined(mate)
        done.append(part)
    return done if len(done) == len(parts) else _merged(done)


def _belong(one: _Part, other: _Part) -> bool:
    small, large = sorted((one.box, other.box), key=lambda box: box.area)
    if small.inside(large) > 0.5:
        return True
    a, b = one.box, other.box
    sideways, down = max(a.x0, b.x0) - min(a.x1, b.x1), max(a.y0, b.y0) - min(a.y1, b.y1)
    if one.label == other.label:
        most = _TOUCH.get(one.label, _TOUCH_TEXT)
        return sideways < most[0] and down < most[1]
    level = -down > 0.5 * min(a.height, b.height)
    return min(len(one.places), len(other.places)) in range(1, _FEW + 1) and level and sideways < _TOUCH_TEXT[0]


def _list_gutter(words: Sequence[_Part]) -> float | None:
    """Return where the list goes on over a wide gap in many of its lines, None where it does not."""
    steps = list(zip(words, words[1:], strict=False))
    n_lines = 1 + sum(after.box.x0 < before.box.x0 - 50 for before, after in steps)
    jumps = [
        (before.box.x1, after.box.x0)
        for before, after in steps
        if after.box.x0 - before.box.x1 >= _GUTTER and abs(before.box.y0 - after.box.y0) < before.box.height
    ]
    counts = {x: sum(start <= x <= end for start, end in jumps) for x in range(300, 701, 5)}
    best = max(counts.values())
    crossed = {x: sum(word.box.x0 < x < word.box.x1 for word in words) for x in counts}
    if best < _COLUMNS * n_lines:
        return None
    at = min((x for x in counts if counts[x] == best), key=lambda x: crossed[x])
    return None if crossed[at] > 0.1 * n_lines else float(at)


def _column(part: _Part, parts: Iterable[_Part], gutter: float) -> int:
    """Return 0 for what spans both columns and what stands level with it, 1 for the left column, 2 for the right."""
    spanning = [other for other in parts if other.box.x0 < gutter < other.box.x1]
    level = any(
        part is other or min(part.box.y1, other.box.y1) - max(part.box.y0, other.box.y0) > 0.5 * part.box.height
        for other in spanning
    )
    return 0 if level else 1 if part.box.x1 <= gutter else 2


def _is_page_number(part: _Part, parts: Iterable[_Part]) -> bool:
    """Tell whether a part is a lone number above or below all other lines."""
    others = [other.box for other in parts if other is not part]
    highest, lowest = (min(box.y0 for box in others), max(box.y1 for box in others)) if others else (0.0, 0.0)
    outside = part.box.y0 <= highest or part.box.y1 >= lowest
    return len(part.places) == 1 and part.text.isdigit() and outside and bool(others)
