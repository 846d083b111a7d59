"""What every layout detector shares: its protocol, and the care that its boxes cover the page's text once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from PIL import Image, ImageOps

from gravityocr.document import Box
from gravityocr.errors import ConfigError
from gravityocr.pipeline.ink import ink_map
from gravityocr.pipeline.layout_box import (
    LINE,
    TASKS,
    Edges,
    LayoutBox,
    areas,
    as_one,
    edges,
    intersections,
    moved,
    sides,
)
from gravityocr.pipeline.layout_furniture import believed
from gravityocr.pipeline.layout_uncovered import grown, with_uncovered

__all__ = [
    "TASKS",
    "LayoutBox",
    "LayoutConfig",
    "LayoutDetector",
    "WholePage",
    "clamped",
    "detector_name",
    "find_regions",
    "is_trusted",
    "merge_boxes",
]

_TALLEST_TITLE = 0.15  # of the page's height: above it, a "title" is a paragraph in large print
_SHARED = 0.3  # of the smaller text box
_SURE_FIGURE = 0.85  # share of a figure's crop that a second look must call figure again


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
    boxes = grown(boxes, ink, image.size)
    if config.find_uncovered:
        boxes = with_uncovered(boxes, ink, image.size)
    return boxes if is_trusted(detector) else believed(boxes, image.size)


def detector_name(detector: LayoutDetector) -> str:
    """Return what a detector calls itself, its class's name where it does not say."""
    return str(getattr(detector, "name", type(detector).__name__))


def is_trusted(detector: LayoutDetector) -> bool:
    """Tell whether a detector has resolved the overlaps of its boxes itself; one that does not say has not."""
    return bool(getattr(detector, "trusted", False))


def clamped(boxes: Sequence[LayoutBox], size_px: tuple[int, int]) -> list[LayoutBox]:
    """Return the boxes' parts on the page; those without area, off the page or not numbers are dropped.

    A score that is no number is 0.
    """
    sure = [item if math.isfinite(item.score) else replace(item, score=0.0) for item in boxes]
    found = [(item, item.box.clamp(size_px)) for item in sure]
    return [item if box == item.box else moved(item, box) for item, box in found if box is not None]


def merge_boxes(boxes: Sequence[LayoutBox], size_px: tuple[int, int], config: LayoutConfig) -> list[LayoutBox]:
    """Clamp boxes to the page and drop those that repeat another one, the surer or the wider staying."""
    usable = [_checked_title(item, size_px[1]) for item in clamped(boxes, size_px)]
    usable.sort(key=lambda item: (-item.score, item.box.y0, item.box.x0, item.box.x1))
    kept: list[LayoutBox] = []
    rows = np.zeros((len(usable), 4))
    for item in usable:
        twins = _iou(item.box, rows[: len(kept)]) >= config.duplicate_iou
        place = int(twins.argmax()) if twins.any() else len(kept)
        if place == len(kept):
            kept.append(item)
        elif _is_formula(item, kept[place], size_px[1]):
            kept[place] = item
        rows[place] = sides(kept[place].box)
    kept = _without(kept, _wraps, config)
    return _joined(_without(kept, _is_nested, config))


def _checked_title(item: LayoutBox, page_height: int) -> LayoutBox:
    """Call text what is too tall for a title."""
    tall = item.label == "title" and item.box.height > _TALLEST_TITLE * page_height
    return replace(item, label="text") if tall else item


def _iou(box: Box, boxes: Edges) -> Edges:
    both = intersections(box, boxes)
    union = box.area + areas(boxes) - both
    return np.asarray(both / np.where(union > 0, union, 1.0))


def _is_formula(item: LayoutBox, twin: LayoutBox, page_height: int) -> bool:
    """Tell whether a block that may be text or a formula is the latter: probable, and too tall for one line."""
    probable = item.label == "formula" and item.score >= 0.5 and TASKS[twin.label] == "text"
    return probable and item.box.height > LINE * page_height


Superfluous = Callable[[LayoutBox, Edges, Edges, LayoutConfig], bool]


def _without(boxes: list[LayoutBox], superfluous: Superfluous, config: LayoutConfig) -> list[LayoutBox]:
    """Return the regions that are not superfluous beside all the others."""
    rows = edges(boxes)
    sizes = areas(rows)
    return [item for item in boxes if not superfluous(item, rows, sizes, config)]


def _wraps(item: LayoutBox, boxes: Edges, sizes: Edges, config: LayoutConfig) -> bool:
    """Tell whether two or more boxes fill a text box: they say the same, more finely."""
    if TASKS[item.label] != "text":
        return False
    shared = intersections(item.box, boxes)
    parts = (sizes < item.box.area) & (shared / sizes >= config.nested_share)
    return int(parts.sum()) > 1 and float(shared[parts].sum()) > 0.6 * item.box.area


def _is_nested(item: LayoutBox, boxes: Edges, sizes: Edges, config: LayoutConfig) -> bool:
    shared = intersections(item.box, boxes)
    return bool(((sizes > item.box.area) & (shared / item.box.area >= config.nested_share)).any())


def _joined(boxes: list[LayoutBox]) -> list[LayoutBox]:
    """Make one region of text boxes that share lines: apart, those lines would be read twice."""
    result: list[LayoutBox] = []
    rows, texts = np.zeros((len(boxes), 4)), np.zeros(len(boxes), dtype=bool)
    for item in boxes:
        others = rows[: len(result)]
        shared, sizes = intersections(item.box, others), areas(others)
        low = np.minimum(others[:, :2], (item.box.x0, item.box.y0))
        high = np.maximum(others[:, 2:], (item.box.x1, item.box.y1))
        filled = item.box.area + sizes - shared > 0.85 * (high - low).prod(axis=1)
        fits = (shared > _SHARED * np.minimum(item.box.area, sizes)) & filled & texts[: len(result)]
        place = len(result)
        if TASKS[item.label] == "text" and fits.any():
            place = int(fits.argmax())
            result[place] = as_one(result[place], item, result[place].box.union(item.box))
        else:
            result.append(item)
            texts[place] = TASKS[item.label] == "text"
        rows[place] = sides(result[place].box)
    return result


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
        if not text or any(whole.inside(part.box) > _SURE_FIGURE for part in found if part.label == "figure"):
            result.append(item)
            continue
        rows = edges(text)
        # an inner figure around several text boxes is the same mistake again; its text is found as uncovered
        inner = [part for part in found if part.label != "figure" or _n_nested(rows, part, config) < 2]
        # their order is that of the crop, which says nothing about the page's
        result += [replace(_shifted(part, x0, y0), order=None) for part in inner]
    return result


def _n_nested(boxes: Edges, outer: LayoutBox, config: LayoutConfig) -> int:
    """Return how many of the boxes lie in another one."""
    sizes, shared = areas(boxes), intersections(outer.box, boxes)
    return int(((sizes < outer.box.area) & (shared / sizes >= config.nested_share)).sum())


def _shifted(item: LayoutBox, dx: float, dy: float) -> LayoutBox:
    box = Box(item.box.x0 + dx, item.box.y0 + dy, item.box.x1 + dx, item.box.y1 + dy)
    return replace(item, box=box, polygon=tuple((x + dx, y + dy) for x, y in item.polygon))
