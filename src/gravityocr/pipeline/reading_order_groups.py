"""What is taken out of a page's body, or held together, before it is cut: captions, margin notes, footnotes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gravityocr.document import Box
from gravityocr.pipeline.layout import LayoutBox
from gravityocr.pipeline.reading_order_cut import PageScale, around, top_left

_CAPTIONED = frozenset({"figure", "table", "code"})
_NOTE_LABELS = frozenset({"text", "caption", "footnote", "list", "reference"})
_CAPTION_GAP = 0.03  # of the page's height: farther away, a caption belongs to something else
_NOTE = 0.2  # of the page's width: a note in the margin is no wider
_MAIN = 0.28  # of the page's width: what is as wide makes the columns that a note stands beside
_NOTES_SHARE = 0.5  # of the text's height: notes that fill more of it are a column
_LINE = 0.025  # of the page's height: a mark of one line in the left margin comes before what it marks
_UPRIGHT = 4  # height over width: a line written up the margin comes after the body
_NEAR = 0.05  # of the page's width: regions about as near to a note

_Boxes = list[LayoutBox]


@dataclass(frozen=True)
class Unit:
    """Regions that are read together: `whole` stands for them while the page is cut."""

    whole: LayoutBox
    members: tuple[LayoutBox, ...]


def joined_floats(boxes: Sequence[LayoutBox], page: PageScale) -> list[Unit]:
    """Return the regions as units: a picture, table or listing with its captions, everything else alone."""
    ordered = sorted(boxes, key=top_left)
    homes: dict[int, _Boxes] = {}
    for caption in ordered:
        if caption.label == "caption" and (home := _captioned(caption, ordered, page)) is not None:
            homes.setdefault(id(home), []).append(caption)
    units: list[Unit] = []
    placed = {id(caption) for captions in homes.values() for caption in captions}
    for item in ordered:
        if id(item) not in placed:
            members = (item, *homes.get(id(item), ()))
            units.append(Unit(item if len(members) == 1 else replace(item, box=around([*members])), members))
    return units


def _captioned(caption: LayoutBox, boxes: Sequence[LayoutBox], page: PageScale) -> LayoutBox | None:
    """Return what a caption stands right above or below; None where nothing is, or something else lies between."""
    best: tuple[float, bool, LayoutBox] | None = None
    for item in boxes:
        shared = min(caption.box.x1, item.box.x1) - max(caption.box.x0, item.box.x0)
        if item.label not in _CAPTIONED or shared < 0.5 * min(caption.box.width, item.box.width):
            continue
        below = caption.box.y0 + caption.box.y1 > item.box.y0 + item.box.y1
        gap = caption.box.y0 - item.box.y1 if below else item.box.y0 - caption.box.y1
        # between two of them, a caption is that of the figure above it or of the table below it
        expected = below != (item.label == "table")
        both = caption.box.union(item.box)
        clear = all(
            other is caption or other is item or other.label == "caption" or other.box.inside(both) < 0.1
            for other in boxes
        )
        if gap <= _CAPTION_GAP * page.height_px and clear:
            found = (max(gap, 0.0), not expected, item)
            best = found if best is None or found[:2] < best[:2] else best
    return best[2] if best is not None else None


def part_footnotes(boxes: Sequence[LayoutBox], page: PageScale) -> tuple[_Boxes, _Boxes]:
    """Part the notes at the foot of the page from its text, whose sentences go on over them in the next column.

    A note with text below it, or right under a table or picture, stays in the text.
    """
    text = [item for item in boxes if item.label != "footnote"]
    feet: _Boxes = []
    for item in boxes:
        if item.label != "footnote":
            continue
        over = [other for other in text if min(other.box.x1, item.box.x1) > max(other.box.x0, item.box.x0)]
        below = any(other.box.y0 + other.box.y1 > item.box.y0 + item.box.y1 for other in over)
        under = max(over, key=lambda other: (other.box.y1, top_left(other)), default=None)
        tied = under is not None and under.label in _CAPTIONED
        near = under is not None and item.box.y0 - under.box.y1 <= _CAPTION_GAP * page.height_px
        if not below and not (tied and near):
            feet.append(item)
    return [item for item in boxes if all(item is not foot for foot in feet)], feet


def part_notes(boxes: Sequence[LayoutBox], page: PageScale) -> tuple[_Boxes, _Boxes]:
    """Part notes in the margins from the text: asides, and narrow regions outside everything of a column's width."""
    asides = [item for item in boxes if item.label == "aside"]
    rest = [item for item in boxes if item.label != "aside"]
    main = [item for item in rest if item.box.width >= _MAIN * page.width_px]
    if not main:
        return (rest, asides) if rest else (asides, [])
    column = around(main)
    for on_left in (True, False):
        beside = [item for item in rest if _outside(item, column, page, on_left=on_left)]
        if sum(item.box.height for item in beside) <= _NOTES_SHARE * column.height:
            asides += beside
    notes = {id(item) for item in asides}
    return [item for item in boxes if id(item) not in notes], asides


def _outside(item: LayoutBox, column: Box, page: PageScale, *, on_left: bool) -> bool:
    box = item.box
    if item.label not in _NOTE_LABELS or box.width > _NOTE * page.width_px:
        return False
    if box.height <= _LINE * page.height_px and on_left:
        return False
    if on_left:
        return box.x1 <= column.x0 + page.slack_x_px
    return box.x0 >= column.x1 - page.slack_x_px


def insert_notes(ordered: Sequence[LayoutBox], notes: Sequence[LayoutBox], page: PageScale) -> _Boxes:
    """Return the regions with each note after the region that it stands beside, upright lines at the end."""
    result = list(ordered)
    places: dict[int, _Boxes] = {}
    last: _Boxes = []
    for note in sorted(notes, key=top_left):
        if note.box.height > _UPRIGHT * note.box.width:
            last.append(note)
        else:
            places.setdefault(_place(note.box, ordered, page), []).append(note)
    for place in sorted(places, reverse=True):
        result[place:place] = places[place]
    return result + last


def _place(note: Box, ordered: Sequence[LayoutBox], page: PageScale) -> int:
    """Return how many regions come before a note."""
    shared = [min(note.y1, item.box.y1) - max(note.y0, item.box.y0) for item in ordered]
    beside = [k for k, height in enumerate(shared) if height > 0]
    if beside:
        gaps = {k: max(ordered[k].box.x0 - note.x1, note.x0 - ordered[k].box.x1, 0.0) for k in beside}
        near = [k for k in beside if gaps[k] <= min(gaps.values()) + _NEAR * page.width_px]
        return max(near, key=lambda k: (shared[k], -k)) + 1
    above = [k for k, item in enumerate(ordered) if item.box.y1 <= note.y0]
    return max(above, key=lambda k: (ordered[k].box.y1, k)) + 1 if above else 0
