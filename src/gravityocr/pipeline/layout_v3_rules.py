"""From PP-DocLayoutV3's raw detections to regions: thresholds, suppression, containment, order. Pure numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gravityocr.pipeline.layout import TASKS
from gravityocr.pipeline.layout_v3_config import PICTURES, V3_LABELS, V3Config

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Detections:
    """What the network found on one page.

    *Shapes*: `boxes` `[n, 4]`, all others `[n]`. *Units*: boxes x0, y0, x1, y1 in page pixels; `orders` are ranks
    in reading order, with gaps; `queries` say which query of the network each one comes from.
    """

    class_ids: Integers
    scores: Floats
    boxes: Floats
    orders: Integers
    queries: Integers

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, places: Integers | Flags) -> Detections:
        """Return the detections at these places, in their order."""
        return Detections(
            self.class_ids[places],
            self.scores[places],
            self.boxes[places],
            self.orders[places],
            self.queries[places],
        )


def settle(found: Detections, names: Sequence[str], size_px: tuple[int, int], config: V3Config) -> Detections:
    """Return the detections that stay, in reading order.

    The rules and their order are the GLM-OCR SDK's, but that a box only goes where one that stays has half of it. Ours
    beside them: an inline formula inside text, and a list of references around its single references, are no regions.

    *Shapes*: `names` are the classes by id. *Source*: https://github.com/zai-org/GLM-OCR, layout post-processing.
    """
    limits = np.array([config.threshold_of(name) for name in names])
    found = found.take(np.isfinite(found.boxes).all(axis=1) & (found.scores >= limits[found.class_ids]))
    if config.nms:
        found = found.take(_suppressed(found, config))
    found = found.take(_not_the_page(found, names, size_px, config))
    found = found.take(_merged(found, names, config))
    found = found.take(_read_once(found, names, config))
    return found.take(np.argsort(found.orders, kind="stable"))


def stretched(box: Floats, factors: tuple[float, float]) -> Floats:
    """Return a box `[4]` stretched around its centre by factors of its width and height."""
    centre, half = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) / 2 * np.array(factors)
    return np.concatenate([centre - half, centre + half])


def _suppressed(found: Detections, config: V3Config) -> Integers:
    """Return the places that stay, the surest first: each unlike those before it."""
    kept: list[int] = []
    for place in np.argsort(-found.scores, kind="stable"):
        same = found.class_ids[kept] == found.class_ids[place]
        limits = np.where(same, config.nms_iou_same, config.nms_iou_different)
        if bool((_iou(found.boxes[place], found.boxes[kept]) < limits).all()):
            kept.append(int(place))
    return np.array(kept, dtype=np.int64)


def _iou(box: Floats, others: Floats) -> Floats:
    """Return intersection over union of one box with each other, the last pixel counted as the SDK does."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    both = np.clip(high - low + 1, 0, None).prod(axis=1)
    area, areas = (box[2:] - box[:2] + 1).prod(), (others[:, 2:] - others[:, :2] + 1).prod(axis=1)
    return np.asarray(both / (area + areas - both))


def _not_the_page(found: Detections, names: Sequence[str], size_px: tuple[int, int], config: V3Config) -> Flags:
    """Flag all but the images that are nearly the whole page, if others are left then."""
    width, height = size_px
    share = config.whole_page_image_landscape if width > height else config.whole_page_image
    limit = np.array([width, height], dtype=np.float64)
    sides = np.clip(found.boxes[:, 2:], 0, limit) - np.clip(found.boxes[:, :2], 0, limit)
    image = np.array([name == "image" for name in names])[found.class_ids]
    stays = ~(image & (sides.prod(axis=1) > share * width * height))
    return stays if len(found) > 1 and stays.any() else np.ones(len(found), dtype=bool)


def contained(boxes: Floats, share: float) -> Flags:
    """Tell whether box i lies in box j, `[n, n]`: from `share` of its area; never in itself, nor without area."""
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    both = np.clip(high - low, 0, None).prod(axis=2)
    areas = np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1)
    inside = (both >= share * areas[:, None]) & (areas[:, None] > 0)
    np.fill_diagonal(inside, False)
    return np.asarray(inside)


def _merged(found: Detections, names: Sequence[str], config: V3Config) -> Flags:
    """Flag what containment leaves, class by class; pictures are never held to lie in something."""
    inside = contained(found.boxes, config.contained_share)
    picture = np.array([name in PICTURES for name in names])[found.class_ids]
    inside[picture] = False
    # two boxes that lie in each other are one region: the SDK drops both, here the surer stays
    rank = np.empty(len(found), dtype=np.int64)
    rank[np.argsort(-found.scores, kind="stable")] = np.arange(len(found))
    inside &= ~(inside.T & (rank[:, None] < rank[None, :]))
    modes = np.array([config.merge_of(name) for name in names])[found.class_ids]
    groups = [found.class_ids == class_id for class_id in np.unique(found.class_ids)]
    if not config.merge_by_class:
        groups = [np.ones(len(found), dtype=bool)]
    stays = np.ones(len(found), dtype=bool)
    for group in groups:
        inner = inside & (group & (modes == "small"))[:, None]
        stays &= ~(inside & (group & (modes == "large"))[None, :]).any(axis=1)  # what lies in them goes
        stays &= ~inner.any(axis=0) | inner.any(axis=1)  # what they lie in goes, unless it lies in something itself
    return _with_orphans(stays, inside, found, modes)


def _with_orphans(stays: Flags, inside: Flags, found: Detections, modes: npt.NDArray[np.str_]) -> Flags:
    """Take back, from the largest, what went for boxes that went themselves.

    What lies in a box that stays by half does not come back, or much of it would be read twice: the rest of it is the
    affair of the search for uncovered text.
    """
    stays = stays.copy()
    half = contained(found.boxes, 0.5)
    areas = (found.boxes[:, 2:] - found.boxes[:, :2]).prod(axis=1)
    for place in np.argsort(-areas, kind="stable"):
        inner = inside[:, place] & (modes == "small")
        stays[place] |= not ((half[place] | inner) & stays).any()
    return stays


def _read_once(found: Detections, names: Sequence[str], config: V3Config) -> Flags:
    """Flag all but inline formulas in read regions and lists of references around single ones."""
    inside = contained(found.boxes, config.contained_share)
    native = [names[class_id] for class_id in found.class_ids]
    inline = np.array([name == "inline_formula" for name in native], dtype=bool)
    read = np.array([TASKS[V3_LABELS[name]] is not None for name in native], dtype=bool) & ~inline
    whole = np.array([name == "reference" for name in native], dtype=bool)
    single = np.array([name == "reference_content" for name in native], dtype=bool)
    in_text = inline & (inside & read[None, :]).any(axis=1)
    around = whole & (inside & single[:, None]).any(axis=0)
    return np.asarray(~in_text & ~around)
