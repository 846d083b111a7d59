"""What was broken at the end of a column or page put together again, with all its sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gravityocr.pipeline.markdown import DROPPED
from gravityocr.pipeline.passages.hyphens import join_at_hyphen, join_continued, join_like_sdk
from gravityocr.pipeline.passages.merge_tables import GrowingTable
from gravityocr.pipeline.passages.parts import CONTINUED, Part, is_continued_caption

_FLOATS = frozenset({"figure", "table", "caption", "footnote", "aside"}) | DROPPED
_BESIDE_TABLE = frozenset({"footnote", "aside"}) | DROPPED
_LEAST_IN_COLUMN = 40  # characters of a text that goes on in the next column: shorter ones are labels of a form
_SAME_EXTENT = 0.6  # of what two tables cover together across the page


def merge_parts(parts: Sequence[Part], pages: set[int], mends: frozenset[str]) -> list[Part]:
    """Return the parts with paragraphs and tables that go on in the next column or page made one.

    `pages` are the pages that are there: nothing is joined over one that is not.
    """
    result: list[Part] = []
    gone: set[int] = set()
    for place, part in enumerate(parts):
        if place in gone:
            continue
        while True:
            taken, part = _with_next(part, place, parts, gone, pages, mends)
            if not taken:
                break
            gone |= taken
        result.append(part)
    return result


def merge_within_pages(parts: Sequence[Part]) -> list[Part]:
    """Return the parts joined at hyphens as the GLM-OCR SDK does: with the page's next text, whatever lies between."""
    result: list[Part] = []
    gone: set[int] = set()
    for place, part in enumerate(parts):
        if place in gone:
            continue
        if part.kind == "text" and part.content.rstrip().endswith("-"):
            later = range(place + 1, len(parts))
            k = next((k for k in later if parts[k].page == part.page and parts[k].kind == "text"), None)
            joined = join_like_sdk(part.content, parts[k].content) if k is not None else None
            if k is not None and joined is not None:
                part = part.with_source(parts[k], joined)
                gone.add(k)
        result.append(part)
    return result


def _with_next(
    part: Part, place: int, parts: Sequence[Part], gone: set[int], pages: set[int], mends: frozenset[str]
) -> tuple[set[int], Part]:
    """Return which parts this one takes in, none where it does not go on, and what it becomes."""
    if part.last.status != "ok":  # its end is not there: nothing goes on from it
        return set(), part
    if part.kind == "table" and "continued-tables" in mends:
        return _table_with_next(part, place, parts, gone, pages)
    if part.kind != "text" or not {"continued-text", "hyphens"} & mends:
        return set(), part
    skipped = _FLOATS - {part.region.label}
    for k in range(place + 1, len(parts)):
        other = parts[k]
        if k in gone:
            continue
        if other.region.label == part.region.label and other.kind == "text" and other.furniture == part.furniture:
            joined = _joined(part, other, pages, mends)
            return ({k}, part.with_source(other, joined)) if joined is not None else (set(), part)
        if other.region.label not in skipped:
            break
    return set(), part


def _joined(part: Part, other: Part, pages: set[int], mends: frozenset[str]) -> str | None:
    if part.furniture or not _follows(part, other, pages) or _is_fixed(part.content) or _is_fixed(other.content):
        return None
    if "hyphens" in mends:
        joined = join_at_hyphen(part.content, other.content)
        if joined is not None:
            return joined
    over_page = other.page != part.last_page
    if "continued-text" not in mends or not (over_page or _next_column(part, other)):
        return None
    if not over_page and len(part.content) < _LEAST_IN_COLUMN:
        return None
    return join_continued(part.content, other.content)


def _is_fixed(content: str) -> bool:
    """Code, HTML and headings that a recognizer wrote are never joined."""
    return bool(re.search(r"^(?:```|~~~)|^#{1,6}\s|</?(?:div|table|pre)\b", content.strip(), re.MULTILINE))


def _follows(part: Part, other: Part, pages: set[int]) -> bool:
    return other.page >= part.last_page and all(page in pages for page in range(part.last_page, other.page + 1))


def _next_column(part: Part, other: Part) -> bool:
    """Tell whether a region stands in another column than the end of a part, and begins above that end."""
    box, after = part.last.box, other.region.box
    shared = min(box.x1, after.x1) - max(box.x0, after.x0)
    return shared <= 0.1 * min(box.width, after.width) and after.y0 < box.y1


def _table_with_next(
    part: Part, place: int, parts: Sequence[Part], gone: set[int], pages: set[int]
) -> tuple[set[int], Part]:
    growing, taken = GrowingTable(part.content), set[int]()
    captions: list[int] = []
    for k in range(place + 1, len(parts)):
        other = parts[k]
        if k in gone or other.region.label in _BESIDE_TABLE:
            continue
        if is_continued_caption(other) and other.page > part.last_page:
            captions.append(k)
            continue
        if other.kind != "table" or not _on_next_page(part, other, pages) or not growing.take(other.content):
            break
        for caption in captions:
            if _says_nothing_new(parts[caption], parts[:place]):
                part = part.with_source(parts[caption], part.content)
                taken.add(caption)
        part = part.with_source(other, part.content)
        taken.add(k)
        captions.clear()
        if other.last.status != "ok":
            break
    return taken, replace(part, content=growing.html()) if taken else part


def _on_next_page(part: Part, other: Part, pages: set[int]) -> bool:
    """Tell whether a table begins on the page after the one that another ends on, and is about as wide."""
    if other.page != part.last_page + 1 or other.page not in pages:
        return False
    width, other_width = max(1, part.page_width), max(1, other.page_width)
    above = (part.last.box.x0 / width, part.last.box.x1 / width)
    below = (other.region.box.x0 / other_width, other.region.box.x1 / other_width)
    covered = max(above[1], below[1]) - min(above[0], below[0])
    shared = min(above[1], below[1]) - max(above[0], below[0])
    return covered <= 0 or shared >= _SAME_EXTENT * covered


def _says_nothing_new(caption: Part, before: Sequence[Part]) -> bool:
    """Tell whether an earlier caption has the words of this one, `continued` apart."""
    words = _letters(CONTINUED.sub("", caption.content))
    texts = (part.content for part in reversed(before) if part.kind == "text")
    return not words or any(_letters(text).startswith(words) for text in texts)


def _letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
