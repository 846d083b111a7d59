"""Which caption is whose: a caption or a note beside a figure, a table or code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gravityocr.document import Passage, PassageKind
from gravityocr.pipeline.export.document import Places

_FLOATS: frozenset[PassageKind] = frozenset({"figure", "table", "code"})
_NOTES = frozenset({"vision_footnote", "table_footnote", "figure_footnote", "image_footnote"})
_BEGINS: tuple[tuple[PassageKind, re.Pattern[str]], ...] = (
    ("table", re.compile(r"\s*(tab(le|\.)|表)", re.IGNORECASE)),
    ("figure", re.compile(r"\s*(fig(ure|\.)|图|圖|図)", re.IGNORECASE)),
    ("code", re.compile(r"\s*(algorithm|listing|算法)", re.IGNORECASE)),
)


def captions(passages: Sequence[Passage], places: Places) -> dict[int, int]:
    """Map the numbers of captions to the numbers of the figures, tables and code that they stand beside.

    A caption names what it is of, or else is of the nearest on its page: the one before it first, except that a
    table's caption stands above it. Each note of a detector's own is of what is before it.
    """
    found: dict[int, int] = {}
    for number, passage in enumerate(passages):
        if passage.label != "caption" and not is_note(passage, places):
            continue
        beside = [place for place in (number - 1, number + 1, number - 2, number + 2) if 0 <= place < len(passages)]
        beside = [place for place in beside if _is_of(passages, number, place)]
        named = next((kind for kind, start in _BEGINS if start.match(passage.content)), None)
        if is_note(passage, places):
            beside = [place for place in beside if place < number]
        elif named is not None:
            beside = [place for place in beside if passages[place].kind == named]
            if named == "table":
                beside.sort(key=lambda place: place < number)
        if beside:
            found[number] = beside[0]
    return found


def is_note(passage: Passage, places: Places) -> bool:
    """Tell whether a passage is a note that a detector found to belong to a figure or table."""
    return any(place.region.native_label in _NOTES for place in places.of(passage)[:1])


def _is_of(passages: Sequence[Passage], number: int, place: int) -> bool:
    """Tell whether `place` may be what `number` is of: on its page, with nothing but captions between them."""
    passage, other = passages[number], passages[place]
    if other.kind not in _FLOATS or not passage.sources or not other.sources:
        return False
    if passage.sources[0].page not in {source.page for source in other.sources}:
        return False
    between = passages[min(number, place) + 1 : max(number, place)]
    return all(item.label in ("caption", "footnote") for item in between)
