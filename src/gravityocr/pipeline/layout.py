"""What every layout detector shares: its protocol, and the care that its boxes cover the page's text once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from PIL import Image, ImageOps

from gravityocr.document import Box, Label, Polygon, Task
from gravityocr.errors import ConfigError
from gravityocr.pipeline.ink import InkMap, ink_map

TASKS: dict[Label, Task | None] = {
    "doc_title": "text",
    "title": "text",
    "text": "text",
    "list": "text",
    "reference": "text",
    "caption": "text",
    "footnote": "text",
    "aside": "text",
    "code": "text",
    "formula_number": "text",
    "header": "text",
    "footer": "text",
    "page_number": "text",
    "table": "table",
    "formula": "formula",
    "figure": None,
    "logo": None,
}
"""The task that each label is read with; None is kept as an image."""

_TALLEST_TITLE = 0.15  # of the page's height: above it, a "title" is a paragraph in large print
_HEADER = 0.13  # of the page's height: a header ends above it, a footer begins below
_SHARED = 0.3  # of the smaller text box
_SURE_FIGURE = 0.85  # share of a figure's crop that a second look must call figure again
_ACROSS, _DOWN = 0.02, 0.006  # gaps of a page's width, height over which cut-off text is given back
_LINE = 0.025  # of the page's height: no single line of text is taller
_MARGIN = 0.08  # of the page's height, top and bottom: where page numbers stand


@dataclass(frozen=True)
class LayoutBox:
    """One detected region: where it is, what it is in our words and in the detector's, how sure it is.

    `order` is its place in the detector's own reading order and `polygon` its outline in pixels, where there is one.
    """

    box: Box
    label: Label
    native_label: str
    score: float = 1.0
    order: int | None = None
    polygon: Polygon = ()


class LayoutDetector(Protocol):
    """Finds the regions of a page image; their order is free.

    A detector may also say its `name`, and by `trusted` that it has resolved the overlaps of its boxes itself: then
    `find_regions` leaves boxes and labels as they are and only adds what they miss.
    """

    def detect(self, image: Image.Image) -> list[LayoutBox]:
        """Return the regions of one RGB page image, boxes in its pixels."""
        ...


@dataclass(frozen=True)
class LayoutConfig:
    """How detected boxes become a page's regions.

    Two boxes are one region from an IoU of `duplicate_iou`, or where `nested_share` of the smaller lies in
    the larger. A figure that takes `second_look` of the page is looked at again by itself, since a small
    network takes a page of unusual text for a picture (1 turns it off). `find_uncovered` adds text regions
    for strokes that no box covers.
    """

    duplicate_iou: float = 0.5
    nested_share: float = 0.8
    second_look: float = 0.08
    find_uncovered: bool = True

    def __post_init__(self) -> None:
        for name in ("duplicate_iou", "nested_share", "second_look"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(f"layout.{name} is {getattr(self, name)}: choose a share in (0, 1]")


class WholePage:
    """The detector of `--layout none`: the page is one text region."""

    name = "none"
    trusted = False

    def detect(self, image: Image.Image) -> list[LayoutBox]:
        """Return one box around the whole page."""
        return [LayoutBox(Box(0.0, 0.0, float(image.width), float(image.height)), "text", "page")]


def find_regions(image: Image.Image, detector: LayoutDetector, config: LayoutConfig) -> list[LayoutBox]:
    """Return a page's regions, not yet ordered; none for a blank page, and then the detector does not run.

    Text that the detector cut off is given back to its region; what it missed altogether comes as text
    regions of `native_label` `uncovered`, so that no text vanishes. The detector sees a page of light text on
    a dark ground inverted: as it is, it takes that for one picture.
    """
    ink = ink_map(image)
    if ink.blank:
        return []
    seen = ImageOps.invert(image) if ink.dark else image
    if is_trusted(detector):
        boxes = clamped(detector.detect(seen), image.size)
    else:
        boxes = merge_boxes(detector.detect(seen), image.size, config)
        boxes = merge_boxes(_look_again(seen, boxes, detector, config), image.size, config)
    if not boxes:
        bounds = ink.bounds()
        return [LayoutBox(bounds, "text", "uncovered", 0.0)] if bounds is not None else []
    boxes = [_grown(item, ink, boxes, image.size) for item in boxes]
    if config.find_uncovered:
        boxes = _with_uncovered(boxes, ink, image.size)
    return boxes


def detector_name(detector: LayoutDetector) -> str:
    """Return what a detector calls itself, its class's name where it does not say."""
    return str(getattr(detector, "name", type(detector).__name__))


def is_trusted(detector: LayoutDetector) -> bool:
    """Tell whether a detector has resolved the overlaps of its boxes itself; one that does not say has not."""
    return bool(getattr(detector, "trusted", False))


def clamped(boxes: Sequence[LayoutBox], size_px: tuple[int, int]) -> list[LayoutBox]:
    """Return the boxes' parts on the page; those without area, off the page or not numbers are dropped."""
    found = [(item, item.box.clamp(size_px)) for item in boxes]
    return [item if box == item.box else _moved(item, box) for item, box in found if box is not None]


def _moved(item: LayoutBox, box: Box) -> LayoutBox:
    """Return the region with another box; its outline does not go with that one."""
    return replace(item, box=box, polygon=())


def _one(first: LayoutBox, second: LayoutBox, box: Box) -> LayoutBox:
    """Return `first` with the box of both, at the place in reading order of the earlier."""
    orders = [item.order for item in (first, second) if item.order is not None]
    return replace(_moved(first, box), order=min(orders, default=None))


def merge_boxes(boxes: Sequence[LayoutBox], size_px: tuple[int, int], config: LayoutConfig) -> list[LayoutBox]:
    """Clamp boxes to the page and drop those that repeat another one, the surer or the wider staying."""
    usable = [replace(item, label=_checked_label(item.label, item.box, size_px[1])) for item in clamped(boxes, size_px)]
    usable.sort(key=lambda item: (-item.score, item.box.y0, item.box.x0, item.box.x1))
    kept: list[LayoutBox] = []
    for item in usable:
        twins = [k for k, other in enumerate(kept) if item.box.iou(other.box) >= config.duplicate_iou]
        if not twins:
            kept.append(item)
        elif _is_formula(item, kept[twins[0]], size_px[1]):
            kept[twins[0]] = item
    kept = [item for item in kept if not _wraps(item, kept, config)]
    kept = [item for item in kept if not any(_nested(item, other, config) for other in kept)]
    return _joined(kept)


def _is_formula(item: LayoutBox, twin: LayoutBox, page_height: int) -> bool:
    """Tell whether a block that may be text or a formula is the latter: probable, and too tall for one line."""
    probable = item.label == "formula" and item.score >= 0.5 and TASKS[twin.label] == "text"
    return probable and item.box.height > _LINE * page_height


def _checked_label(label: Label, box: Box, page_height: int) -> Label:
    """Call text what is too tall for a title or too far inside the page for a header or footer."""
    inside_page = box.y1 > _HEADER * page_height and box.y0 < (1 - _HEADER) * page_height
    tall = box.height > _TALLEST_TITLE * page_height
    return "text" if (label == "title" and tall) or (label in ("header", "footer") and inside_page) else label


def _joined(boxes: list[LayoutBox]) -> list[LayoutBox]:
    """Make one region of text boxes that share lines: apart, those lines would be read twice."""
    result: list[LayoutBox] = []
    for item in boxes:
        for place, other in enumerate(result):
            shared = item.box.intersection(other.box)
            both = item.box.union(other.box)
            is_text = TASKS[item.label] == "text" == TASKS[other.label]
            filled = item.box.area + other.box.area - shared
            if is_text and shared > _SHARED * min(item.box.area, other.box.area) and filled > 0.85 * both.area:
                result[place] = _one(other, item, both)
                break
        else:
            result.append(item)
    return result


def _wraps(item: LayoutBox, boxes: Sequence[LayoutBox], config: LayoutConfig) -> bool:
    """Tell whether two or more boxes fill a text box: they say the same, more finely."""
    if TASKS[item.label] != "text":
        return False
    parts = [other.box for other in boxes if _nested(other, item, config)]
    return len(parts) > 1 and sum(part.intersection(item.box) for part in parts) > 0.6 * item.box.area


def _nested(item: LayoutBox, other: LayoutBox, config: LayoutConfig) -> bool:
    return other.box.area > item.box.area and item.box.inside(other.box) >= config.nested_share


def _look_again(
    image: Image.Image, boxes: list[LayoutBox], detector: LayoutDetector, config: LayoutConfig
) -> list[LayoutBox]:
    """Put what a second look finds in the place of each large figure that it does not confirm."""
    result: list[LayoutBox] = []
    for item in boxes:
        share = item.box.area / (image.width * image.height)
        if item.label != "figure" or share < config.second_look:
            result.append(item)
            continue
        x0, y0, x1, y1 = item.box.pixels(image.size)
        crop = image.crop((x0, y0, x1, y1))
        found = detector.detect(crop)
        whole = Box(0.0, 0.0, float(crop.width), float(crop.height))
        text = [part for part in found if part.label != "figure"]
        if not text or any(whole.inside(part.box) > _SURE_FIGURE for part in found if part not in text):
            result.append(item)
            continue
        # an inner figure around several text boxes is the same mistake again; its text is found as uncovered
        inner = [part for part in found if part in text or sum(_nested(t, part, config) for t in text) < 2]
        # their order is that of the crop, which says nothing about the page's
        result += [replace(_shifted(part, x0, y0), order=None) for part in inner]
    return result


def _shifted(item: LayoutBox, dx: float, dy: float) -> LayoutBox:
    box = Box(item.box.x0 + dx, item.box.y0 + dy, item.box.x1 + dx, item.box.y1 + dy)
    return replace(item, box=box, polygon=tuple((x + dx, y + dy) for x, y in item.polygon))


def _grown(item: LayoutBox, ink: InkMap, boxes: Sequence[LayoutBox], size_px: tuple[int, int]) -> LayoutBox:
    if TASKS[item.label] is None:
        return item
    box = ink.grown(item.box).clamp(size_px) or item.box
    if item.polygon and _hardly_more(box, item.box, ink.scale):
        return item  # no stroke was cut, so the outline may stay
    return item if box == item.box or _runs_into(box, item, boxes) else _moved(item, box)


def _hardly_more(box: Box, inner: Box, slack_px: float) -> bool:
    """Tell whether a grown box is only its inner one on the raster of the ink map."""
    gains = (inner.x0 - box.x0, inner.y0 - box.y0, box.x1 - inner.x1, box.y1 - inner.y1)
    return max(gains) < slack_px


def _runs_into(box: Box, item: LayoutBox, boxes: Sequence[LayoutBox]) -> bool:
    """Tell whether `box` in the place of `item` would take ground from another region."""
    slack = 0.1 * (box.area - item.box.area)
    return any(
        box.intersection(other.box) - item.box.intersection(other.box) > slack for other in boxes if other is not item
    )


def _with_uncovered(boxes: list[LayoutBox], ink: InkMap, size_px: tuple[int, int]) -> list[LayoutBox]:
    """Give each uncovered block to the region that it was cut from; what is left becomes regions."""
    given = list(boxes)
    blocks = ink.uncovered([item.box for item in boxes])
    while True:
        # a block may reach its region only after the block between them has joined it
        rest = [block for block in blocks if not _give(block, given, size_px)]
        if len(rest) == len(blocks):
            break
        blocks = rest
    found: list[LayoutBox] = []
    for block in blocks:
        if _give(block, found, size_px):
            continue
        label: Label = "text" if ink.lined(block) else "figure"
        if _like_page_number(block, boxes, size_px):
            label = "page_number"
        found.append(LayoutBox(block.clamp(size_px) or block, label, "uncovered", 0.0))
    return given + _stacked(found, size_px)


def _stacked(found: list[LayoutBox], size_px: tuple[int, int]) -> list[LayoutBox]:
    """Join widely spaced lines that stand one below the other into paragraphs."""
    result: list[LayoutBox] = []
    for item in sorted(found, key=lambda item: (item.box.y0, item.box.x0)):
        for place, above in enumerate(result):
            if item.label == "text" == above.label and _next_line(above.box, item.box, size_px):
                result[place] = _one(above, item, above.box.union(item.box))
                break
        else:
            result.append(item)
    return result


def _next_line(above: Box, below: Box, size_px: tuple[int, int]) -> bool:
    gap = below.y0 - above.y1
    close = -_DOWN * size_px[1] <= gap <= min(above.height, below.height, _LINE * size_px[1])
    level = abs(above.x0 - below.x0) <= 0.03 * size_px[0]
    return close and level and below.height <= _LINE * size_px[1]


def _give(block: Box, boxes: list[LayoutBox], size_px: tuple[int, int]) -> bool:
    """Let the region that the block continues take it in; tell whether there is one."""
    home = _home(block, boxes, size_px)
    if home is not None:
        boxes[boxes.index(home)] = _moved(home, home.box.union(block))
    return home is not None


def _home(block: Box, boxes: Sequence[LayoutBox], size_px: tuple[int, int]) -> LayoutBox | None:
    """Return the nearest region that the block continues: along its lines, or by one line up or down."""
    best: tuple[float, LayoutBox] | None = None
    for item in boxes:
        if TASKS[item.label] is None or item.label == "formula":
            continue
        across = max(item.box.x0 - block.x1, block.x0 - item.box.x1, 0.0) / size_px[0]
        down = max(item.box.y0 - block.y1, block.y0 - item.box.y1, 0.0) / size_px[1]
        same_lines = Box(item.box.x0, block.y0, item.box.x1, block.y1).intersection(item.box)
        beside = across <= _ACROSS and same_lines > 0.6 * block.height * item.box.width
        same_column = Box(block.x0, item.box.y0, block.x1, item.box.y1).intersection(item.box)
        one_line = block.height <= _LINE * size_px[1]
        # a line above or below a table is its caption or note, to be read as text
        below = (
            item.label != "table" and down <= _DOWN and one_line and same_column > 0.9 * block.width * item.box.height
        )
        if not (beside or below) or _runs_into(item.box.union(block), item, boxes):
            continue
        distance = across + down
        if best is None or distance < best[0]:
            best = (distance, item)
    return best[1] if best else None


def _like_page_number(block: Box, boxes: Sequence[LayoutBox], size_px: tuple[int, int]) -> bool:
    """Tell whether a block is small and stands alone in the top or bottom margin."""
    width, height = size_px
    if block.width > 0.06 * width or block.height > _LINE * height:
        return False
    body = [item.box for item in boxes if item.label not in ("header", "footer")]
    if block.y1 < _MARGIN * height:
        return all(box.y0 >= block.y1 for box in body)
    return block.y0 > (1 - _MARGIN) * height and all(box.y1 <= block.y0 for box in body)
