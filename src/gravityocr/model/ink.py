"""From the pixels of a crop to clean ink: grey normalisation, connected components, rules removed, skew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageFilter

Array = NDArray[Any]

SPECK = -2  # label of ink too small to be text
_MAX_PIXELS = 12_000_000
_MAX_PARTS = 30_000
_MIN_CONTRAST = 14.0
_MAX_SKEW_DEG = 2.5


@dataclass(frozen=True)
class Components:
    """Hold the connected components of an ink mask, one entry of each array per component.

    *Shapes*: `labels` [height, width] int32 with -1 outside the ink; the boxes are 1-D, `right` and `bottom` exclusive.
    """

    labels: Array
    left: Array
    top: Array
    right: Array
    bottom: Array
    area: Array

    def __len__(self) -> int:
        return len(self.left)

    @property
    def width(self) -> Array:
        """Return the box widths."""
        return self.right - self.left

    @property
    def height(self) -> Array:
        """Return the box heights."""
        return self.bottom - self.top


@dataclass(frozen=True)
class Ink:
    """Hold the normalised grey image of a crop (dark on white, uint8) and its components.

    The crop, turned by `angle_deg` (as `Image.rotate` does), has the pixels of `grey`, which is smaller where the crop
    is very large.
    """

    grey: Array
    parts: Components
    glyph_px: float
    angle_deg: float = 0.0


def read_grey(image: Image.Image) -> Array | None:
    """Return the normalised grey of a crop, dark on white, with all its rules; None where there is nothing to read."""
    return _normalise(to_grey(image))


def survey(image: Image.Image) -> tuple[Array, float, float] | None:
    """Return the grey of a crop, its glyph height and its skew as `Image.rotate` takes it; None if blank.

    *Units*: pixels of that grey, which is smaller than a very large crop; degrees.
    """
    grey = to_grey(image)
    normal = _normalise(grey)
    ink = None if normal is None else _segment(normal)
    return None if ink is None else (grey, ink.glyph_px, _skew_deg(ink.parts, ink.glyph_px))


def read_ink(image: Image.Image) -> Ink | None:
    """Return the normalised, deskewed ink of a crop, or None where there is nothing to read."""
    grey = read_grey(image)
    if grey is None:
        return None
    ink = _segment(grey)
    if ink is None:
        return None
    angle = _skew_deg(ink.parts, ink.glyph_px)
    if angle:
        turned = Image.fromarray(grey).rotate(angle, Image.Resampling.BICUBIC, expand=False, fillcolor=255)
        straight = _segment(np.asarray(turned))
        ink = ink if straight is None else replace(straight, angle_deg=angle)
    return ink


def to_grey(image: Image.Image) -> Array:
    """Return the crop as grey, light ink on dark paper inverted; colour counts as ink."""
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        values = np.nan_to_num(np.asarray(image, dtype=np.float32))
        top = float(values.max(initial=1.0))
        image = Image.fromarray((values * (255.0 / top if top > 255 else 1.0)).clip(0, 255).astype(np.uint8))
    if "A" in image.getbands() or "transparency" in image.info:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, (255, 255, 255, 255)), over)
    pixels = image.width * image.height
    if pixels > _MAX_PIXELS:
        image = image.convert("RGB").reduce(int(np.ceil((pixels / _MAX_PIXELS) ** 0.5)))
    grey = image.convert("L")
    levels = np.asarray(grey)
    light = _is_light_on_dark(levels)
    if image.mode != "L" and image.mode != "1":
        red, green, blue = image.convert("RGB").split()
        pick = ImageChops.lighter if light else ImageChops.darker
        # Half luminance, half the extreme channel: red on white and yellow on blue become as strong as black on white.
        levels = np.asarray(Image.blend(grey, pick(pick(red, green), blue), 0.5))
    return 255 - levels if light else levels


def _is_light_on_dark(levels: Array) -> bool:
    histogram = level_histogram(levels)
    cut = otsu(histogram)
    dark_share = float(histogram[: cut + 1].sum() / levels.size)
    if 0.42 < dark_share < 0.58:  # heavy type: the paper is what the border shows
        border = np.concatenate([levels[0], levels[-1], levels[:, 0], levels[:, -1]])
        dark_share = float((border <= cut).mean())
    return dark_share > 0.5


def level_histogram(levels: Array) -> Array:
    """Return how often each of 256 levels occurs; Pillow counts bytes three times as fast as `np.bincount`.

    *Shapes*: levels uint8 [height, width] -> [256].
    """
    return np.array(Image.fromarray(levels).histogram(), dtype=np.int64)


def otsu(histogram: Array) -> int:
    """Return the bin that best separates a histogram in two (upper class starts after it)."""
    weights = histogram.astype(np.float64)
    n_low = np.cumsum(weights)
    n_high = n_low[-1] - n_low
    moment = np.cumsum(weights * np.arange(len(weights)))
    between = (moment[-1] * n_low / max(n_low[-1], 1) - moment) ** 2 / np.maximum(n_low * n_high, 1)
    best = np.flatnonzero(between >= between.max() * (1 - 1e-9))
    return int(best.mean())


def histogram_quantile(histogram: Array, share: float) -> int:
    """Return the bin of a histogram that `share` of its counts reach up to."""
    total = np.cumsum(histogram)
    return int(np.searchsorted(total, share * total[-1]))


def _normalise(grey: Array) -> Array | None:
    """Return dark ink on white paper, uint8: uneven background removed, contrast stretched; None if blank."""
    paper = _paper(grey)
    depth = np.maximum(paper, grey) - grey
    contrast = ink_contrast(depth)
    if contrast is None:
        return None
    noise, full = contrast
    table = 255.0 - ((np.arange(256) - noise) * (255.0 / (full - noise))).clip(0, 255)
    return np.asarray(Image.fromarray(depth).point(table.astype(np.uint8).tolist()))


def ink_contrast(depth: Array) -> tuple[float, int] | None:
    """Return the depth below the paper of noise and that of full ink; None where there is no ink.

    *Shapes*: depth uint8 [height, width].
    """
    histogram = level_histogram(depth)
    cut = otsu(histogram)
    if histogram[cut + 1 :].sum() == 0:
        return None
    full = cut + 1 + histogram_quantile(histogram[cut + 1 :], 0.85)
    middle, low = (histogram_quantile(histogram[: cut + 1], share) for share in (0.5, 0.1))
    noise = min(middle + 1.6 * (middle - low), 0.22 * full)
    return None if full - noise < _MIN_CONTRAST else (noise, full)


def _paper(grey: Array) -> Array:
    """Return the background level of every pixel: a closing wider than any stroke, then a blur."""
    height, width = grey.shape
    step = max(1, min(4, height // 12, width // 12))
    small = np.asarray(Image.fromarray(grey).reduce(step) if step > 1 else Image.fromarray(grey))
    # A window of about a third of a line crop, more than the thickest stroke of a paragraph.
    reach = max(3, min(12, min(small.shape) // 6))
    closed = 255 - spread_max(255 - spread_max(small, reach), reach)
    histogram = level_histogram(grey)
    histogram[: otsu(histogram) + 1] = 0
    typical = histogram_quantile(histogram, 0.5) if histogram.any() else int(grey.max())
    # Inside very thick strokes the closing sees only ink, and beside a light shadow or a glare no paper either.
    closed = np.where(closed < 0.55 * typical, typical, np.minimum(closed, min(255, int(1.15 * typical))))
    blurred = Image.fromarray(closed.astype(np.uint8)).filter(ImageFilter.BoxBlur(reach))
    return np.asarray(blurred.resize((width, height), Image.Resampling.BILINEAR))


def spread_max(values: Array, reach: int) -> Array:
    """Return the maximum over a square window of `2 reach + 1`, by doubling shifts along each axis."""
    for axis in (0, 1):
        pads = [(reach, reach) if a == axis else (0, 0) for a in (0, 1)]
        wide = np.moveaxis(np.pad(values, pads, mode="edge"), axis, 0)
        span, size = 1, 2 * reach + 1
        while span < size:
            shift = min(span, size - span)
            wide = np.maximum(wide[:-shift], wide[shift:])
            span += shift
        values = np.moveaxis(wide, 0, axis)
    return values


def _segment(grey: Array) -> Ink | None:
    """Return components of the ink with long rules, frames and specks taken out of image and mask."""
    depth = 255 - grey
    levels = level_histogram(depth)
    levels[:24] = 0
    cut = int(np.clip(0.7 * otsu(levels), 50, 80))
    mask = depth > cut
    parts = components(mask)
    if len(parts) == 0:
        return None
    glyph = typical_glyph(parts)
    cleaned = _without_rules(mask, parts, glyph)
    if cleaned is not mask:
        parts = components(cleaned)
        if len(parts) == 0:
            return None
        grey = np.where(mask & ~cleaned, np.uint8(255), grey)
        glyph = typical_glyph(parts)
    return Ink(grey, _without_specks(parts, glyph), glyph)


def components(mask: Array) -> Components:
    """Return the 8-connected components of a boolean mask by union-find over its horizontal runs."""
    height, width = mask.shape
    stride = width + 1
    flat = np.zeros(height * stride + 1, dtype=np.bool_)
    flat[1:].reshape(height, stride)[:, :width] = mask  # one blank column ends every row
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    start, end = edges[0::2], edges[1::2]
    n_runs = len(start)
    first = np.searchsorted(end, start + stride, side="left")
    last = np.searchsorted(start, end + stride, side="right")
    counts = np.maximum(last - first, 0)
    above = np.repeat(np.arange(n_runs), counts)
    offset = np.arange(len(above)) - np.repeat(np.cumsum(counts) - counts, counts)
    below = np.repeat(first, counts) + offset
    parent = np.arange(n_runs)
    while len(above):
        a, b = parent[above], parent[below]
        open_ = a != b
        if not open_.any():
            break
        above, below, a, b = above[open_], below[open_], a[open_], b[open_]
        np.minimum.at(parent, np.maximum(a, b), np.minimum(a, b))
        while True:
            jumped = parent[parent]
            if np.array_equal(jumped, parent):
                break
            parent = jumped
    label = (np.cumsum(parent == np.arange(n_runs)) - 1)[parent] if n_runs else parent
    labels = np.full((height, width), -1, dtype=np.int32)
    labels[mask] = np.repeat(label, end - start)
    order = np.argsort(label, kind="stable")
    heads = np.flatnonzero(np.diff(label[order], prepend=-1))
    row, x0, length = (start // stride)[order], (start % stride)[order], (end - start)[order]
    if n_runs == 0:
        empty = np.zeros(0, dtype=np.int64)
        return Components(labels, empty, empty, empty, empty, empty)
    return Components(labels, np.minimum.reduceat(x0, heads), np.minimum.reduceat(row, heads),
                      np.maximum.reduceat(x0 + length, heads), np.maximum.reduceat(row, heads) + 1,
                      np.add.reduceat(length, heads))  # fmt: skip


def weighted_quantile(values: Array, weights: Array, share: float) -> float:
    """Return the value below which `share` of the weight lies."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(total, share * total[-1])), len(values) - 1)])


def typical_glyph(parts: Components) -> float:
    """Return the width-weighted median height of the components that look like glyphs.

    *Units*: pixels; about the x-height of ordinary text, the capital height of capitals.
    """
    height, width = parts.height, parts.width
    usable = (width <= 12 * height) & (height <= 12 * width) & (height > 2)
    if not usable.any():
        return float(max(3, height.max(initial=3)))
    return weighted_quantile(height[usable], np.minimum(width, 2 * height)[usable], 0.5)


def _without_rules(mask: Array, parts: Components, glyph: float) -> Array:
    """Return the mask less horizontal strokes too long, and vertical bars too tall, to be text."""
    cleaned = mask
    thin, long_ = int(max(5.5 * glyph, 24)), int(max(10 * glyph, 40))
    if (parts.width >= 24).any():
        cleaned = _less_long_runs(cleaned, thin, long_, max(1, round(0.22 * glyph)))
    tall = int(max(6 * glyph, 24))
    if (parts.height >= tall).any():
        cleaned = _less_long_runs(np.ascontiguousarray(cleaned.T), tall, tall, 0).T
    return cleaned


def _less_long_runs(mask: Array, thin: int, long_: int, thickness: int) -> Array:
    """Return the mask less its horizontal runs of `long_`, and those of `thin` that have little ink beside them."""
    height, width = mask.shape
    flat = np.zeros(height * (width + 1) + 1, dtype=np.bool_)
    flat[1:].reshape(height, width + 1)[:, :width] = mask
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    start, end = edges[0::2], edges[1::2]
    if len(start) == 0:
        return mask
    if thickness:  # ruled paper makes glyphs look tall; strokes do not lie
        thin = min(thin, max(24, 30 * int(np.median(end - start))))
    cleaned = mask
    for a, b in zip(start[end - start >= thin], end[end - start >= thin], strict=True):
        row, x0, x1 = int(a) // (width + 1), int(a) % (width + 1), int(a) % (width + 1) + int(b - a)
        if x1 - x0 < long_:
            above = mask[max(row - thickness, 0), x0:x1].mean() if row >= thickness else 0.0
            below = mask[min(row + thickness, height - 1), x0:x1].mean() if row + thickness < height else 0.0
            if above > 0.35 and below > 0.35 or max(above, below) > 0.6:
                continue
        if cleaned is mask:
            cleaned = mask.copy()
        cleaned[row, x0:x1] = False
    return cleaned


def _without_specks(parts: Components, glyph: float) -> Components:
    """Return the components less those far too small to be a full stop."""
    if len(parts) > _MAX_PARTS:  # dirt and screens: the largest are the best guess
        least = np.partition(parts.area, -_MAX_PARTS)[-_MAX_PARTS] + 1
    else:
        least = 2
    keep = (parts.area >= max(least, 0.003 * glyph * glyph)) & (parts.height * parts.width >= 0.005 * glyph * glyph)
    if keep.all() or not keep.any():
        return parts
    renumber = np.append(np.where(keep, np.cumsum(keep) - 1, SPECK), -1).astype(np.int32)
    return Components(renumber[parts.labels], parts.left[keep], parts.top[keep], parts.right[keep],
                      parts.bottom[keep], parts.area[keep])  # fmt: skip


def _skew_deg(parts: Components, glyph: float) -> float:
    """Return the rotation that lines up the feet of the glyphs, 0 unless it helps clearly.

    *Units*: degrees, positive turns the image counter-clockwise as `Image.rotate` does.
    """
    height, width = parts.height, parts.width
    letters = (height >= 0.6 * glyph) & (height <= 3 * glyph) & (width <= 6 * glyph)
    if letters.sum() < 8:
        return 0.0
    x = (parts.left[letters] + parts.right[letters]) / 2
    feet = parts.bottom[letters].astype(np.float64)
    reach = float(x.max() - x.min())
    x = x - x.mean()
    bin_px = max(1.0, 0.1 * glyph)
    angles = np.arange(-_MAX_SKEW_DEG, _MAX_SKEW_DEG + 0.01, 0.1)
    slopes = np.tan(np.radians(angles))
    rows = (feet[None, :] - slopes[:, None] * x[None, :]) / bin_px
    rows = np.floor(rows - rows.min()).astype(np.int64)
    n_bins = int(rows.max()) + 2
    flat = np.bincount((rows + n_bins * np.arange(len(angles))[:, None]).ravel(), minlength=n_bins * len(angles))
    counts = flat.reshape(len(angles), n_bins).astype(np.float64)
    counts[:, 1:] += counts[:, :-1].copy()  # two bins together: a line may sit on the border of one
    score = (counts**2).sum(axis=1)
    best = int(score.argmax())
    level = float(score[int(np.abs(angles).argmin())])
    if score[best] < 1.25 * level or abs(slopes[best]) * reach < 0.2 * glyph or best in (0, len(angles) - 1):
        return 0.0
    return float(angles[best])
