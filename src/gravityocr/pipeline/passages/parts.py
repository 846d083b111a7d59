"""The parts of a page before they are merged and written: what each region is, and what becomes of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gravityocr.document import Box, Page, PassageKind, Region, RegionRef
from gravityocr.pipeline.markdown import DROPPED, comment, formula_block, is_table
from gravityocr.pipeline.passages.formula_numbers import clean_number, pair_by_order, pair_numbers, tagged

CONTINUED = re.compile(
    r"\b(?:continued|cont['’]d\b|contd\b|cont\.|fortsetzung|suite\b)(?:\s+from\s+(?:the\s+)?previous\s+page)?|续|續|続き",
    re.IGNORECASE,
)
"""How a caption says that its table began on the page before."""

_TABLE_WORD = re.compile(r"\W*(?:table|tab\.|tableau|tabelle|表|续|續)", re.IGNORECASE)
_BEFORE_TITLE = frozenset({"text", "list", "table", "formula", "reference"})
_NO_REGION = Region(0, "text", "text", None, Box(0.0, 0.0, 0.0, 0.0), status="failed")


@dataclass(frozen=True)
class Part:
    """What becomes one passage: the first region, all sources, and the content as it was read.

    `last` and `last_page` are the region and page that it ends with, `mark` the reason for a `mark`. `numbers` are
    those of a formula. *Units*: `page_width` in pixels.
    """

    kind: PassageKind
    region: Region
    page: int
    page_width: int
    sources: tuple[RegionRef, ...]
    last: Region
    last_page: int
    content: str = ""
    mark: str = ""
    numbers: tuple[str, ...] = ()
    level: int = 0
    furniture: bool = False

    def with_source(self, other: Part, content: str) -> Part:
        """Return the part that goes on with another one."""
        return replace(
            self, content=content, sources=self.sources + other.sources, last=other.last, last_page=other.last_page
        )


def page_parts(page: Page, keep_furniture: bool, mends: frozenset[str]) -> list[Part]:
    """Return a page's parts in reading order; a page that failed as a whole is one mark, its regions the sources."""
    if _failed_whole(page):
        return [_page_mark(page)] if "failures" in mends else []
    pairs = _pairs(page.regions, mends)
    top = _document_title(page.regions) if page.index == 0 else None
    parts: list[Part] = []
    for place, region in enumerate(page.regions):
        if place in pairs or (region.label in DROPPED and not keep_furniture):
            continue
        part = _part(region, page, region.index == top, mends)
        if part is None:
            continue
        own = [page.regions[k] for k in sorted(pairs) if pairs[k] == place]
        parts.append(_numbered(part, own) if own else part)
    return parts


def _failed_whole(page: Page) -> bool:
    if page.status != "failed":
        return False
    return all(region.status == "failed" and region.error == page.error for region in page.regions)


def _page_mark(page: Page) -> Part:
    region = replace(page.regions[0], image=None) if page.regions else _NO_REGION
    sources = tuple(RegionRef(page.index, region.index) for region in page.regions)
    name = f"page {page.index + 1}"
    told = re.sub(rf"^{name}:? ", "", page.error or "unknown")  # most errors begin with the page
    mark = f"<!-- {name} failed: {comment(told)} -->"
    return Part("mark", region, page.index, page.size_px[0], sources, region, page.index, mark=mark)


def cut_mark(region: Region) -> str:
    """Return the comment behind the text of a region that was cut."""
    return f"<!-- region {region.index} was cut: {comment(region.error or region.status)} -->"


def _pairs(regions: Sequence[Region], mends: frozenset[str]) -> dict[int, int]:
    """Return which numbers go into which formulas; those of a formula that cannot take all of its stay apart."""
    if "formula-numbers" not in mends:
        return pair_by_order(regions)
    by_formula: dict[int, list[int]] = defaultdict(list)
    for number, formula in pair_numbers(regions).items():
        by_formula[formula].append(number)
    pairs: dict[int, int] = {}
    for formula, numbers in by_formula.items():
        cleaned = [clean_number(regions[k].content) or "" for k in numbers]
        if tagged(formula_block(regions[formula].content), cleaned) is not None:
            pairs |= {number: formula for number in numbers}
    return pairs


def _numbered(part: Part, numbers: Sequence[Region]) -> Part:
    ordered = sorted(numbers, key=lambda region: (region.box.y0, region.box.x0))
    sources = part.sources + tuple(RegionRef(part.page, region.index) for region in ordered)
    cleaned = tuple(clean_number(region.content) or region.content.strip() for region in ordered)
    return replace(part, numbers=cleaned, sources=tuple(sorted(sources, key=lambda ref: ref.region)))


def _document_title(regions: Sequence[Region]) -> int | None:
    """The first page's first title is the document's, where its detector does not say and no text comes before it."""
    if any(region.label == "doc_title" for region in regions):
        return None
    for region in regions:
        if region.label == "title":
            return region.index if region.native_label != "paragraph_title" else None
        if region.label in _BEFORE_TITLE:
            return None
    return None


def _part(region: Region, page: Page, is_top: bool, mends: frozenset[str]) -> Part | None:
    """Return what a region becomes; None for one that has nothing to show."""
    furniture = region.label in DROPPED
    part = Part(
        "text", region, page.index, page.size_px[0], (RegionRef(page.index, region.index),), region, page.index,
        region.content, furniture=furniture,
    )  # fmt: skip
    kept = "failures" in mends
    if region.status == "failed":
        mark = f"<!-- region {region.index} failed: {comment(region.error or 'unknown')} -->"
        return replace(part, kind="mark", mark=mark) if kept else None
    if region.status == "skipped" or region.task is None:
        mark = f"<!-- {region.label}: {comment(region.error or 'not read, no picture kept')} -->"
        if region.image:
            return replace(part, kind="figure")
        return replace(part, kind="mark", mark=mark) if kept else None
    if not region.content.strip():
        if region.status == "ok" or not kept:
            return None
        mark = f"<!-- region {region.index} {region.status}: {comment(region.error or 'nothing is left')} -->"
        return replace(part, kind="mark", mark=mark)
    if region.label == "formula_number" and "formula-numbers" not in mends:
        return None  # the SDK drops the numbers that it does not pair
    return _readable(part, is_top)


def _readable(part: Part, is_top: bool) -> Part:
    region = part.region
    if region.label in ("title", "doc_title"):
        level = 1 if is_top or region.label == "doc_title" else 2
        return replace(part, kind="title", level=level)
    if region.task == "formula":
        return replace(part, kind="formula")
    if region.task == "table":
        return replace(part, kind="table" if is_table(region.content) else "text")
    return replace(part, kind="code" if region.label == "code" else "text")


def is_continued_caption(part: Part) -> bool:
    """Tell whether a part only says that a table goes on, as `Table 2 (continued)` does."""
    text = part.content.strip()
    if part.kind not in ("text", "title") or len(text) > 200:
        return False
    return bool(CONTINUED.search(text)) and (part.region.label == "caption" or bool(_TABLE_WORD.match(text)))
