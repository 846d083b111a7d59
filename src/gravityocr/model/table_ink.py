"""The ink of a table crop at one working scale: local backgrounds evened out, ruling lines found and taken out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from gravityocr.model.ink import Array, Components, components, histogram_quantile, ink_contrast, spread_max, survey

_GLYPH_PX = 13.0  # the x-height that the working image is brought to, about that of the pieces
_MAX_PIXELS = 7_000_000
_MAX_ENLARGEMENT = 5.0
_MIN_CONTRAST = 14.0
_TEXT_DEPTH = 70  # depth of ink from which a pixel counts as text
_PAPER_RANK = 0.62  # rank of the paper among the pixels of a neighbourhood: dark text is the usual case
_BAR = 0.88  # share of the brightness of the page below which text may be lighter than its background
_EDGE = 6  # levels: what two backgrounds differ by at least
_RULE_DEPTH, _FAINT_DEPTH = 90, 34


@dataclass(frozen=True)
class Rules:
    """Hold straight ruling lines of one direction: `at` is the middle across, `start` and `end` run along it."""

    at: Array
    start: Array
    end: Array

    def __len__(self) -> int:
        return len(self.at)


@dataclass(frozen=True)
class TableInk:
    """Hold the working image of a table crop and what is drawn on it.

    `grey` is dark on white, uint8, without rules. A crop turned by `angle_deg` about its middle (as `Image.rotate`
    does) and enlarged by `factor` has the pixels of `grey`. `glyph_px` is about an x-height. `across` and `down` are
    ruling lines, `bars` the upper and lower edges of shaded rows.
    """

    grey: Array
    parts: Components
    glyph_px: float
    factor: float
    angle_deg: float
    across: Rules
    down: Rules
    bars: Rules


def read_table_ink(image: Image.Image) -> TableInk | None:
    """Return the ink of a table crop, or None where nothing is written."""
    look = survey(image) if min(image.size) > 1 else None
    if look is None:
        return None
    grey, glyph, angle = look
    reduced = grey.shape[1] / image.width
    wanted = _GLYPH_PX / glyph if glyph < 0.85 * _GLYPH_PX else min(1.0, 2 * _GLYPH_PX / glyph)
    factor = min(wanted, _MAX_ENLARGEMENT, (_MAX_PIXELS / grey.size) ** 0.5)
    picture = Image.fromarray(grey)
    if angle:
        paper = histogram_quantile(np.bincount(grey.ravel(), minlength=256), 0.8)
        picture = picture.rotate(angle, Image.Resampling.BICUBIC, expand=False, fillcolor=paper)
    if factor != 1.0:
        size = (max(2, round(grey.shape[1] * factor)), max(2, round(grey.shape[0] * factor)))
        picture = picture.resize(size, Image.Resampling.LANCZOS if factor < 1 else Image.Resampling.BICUBIC)
    glyph *= factor
    *page, bars = _background(np.asarray(picture), glyph)
    depth = _depth((page[0], page[1]), glyph, None)
    if depth is None:
        return None
    across_mask, across = _rules(depth, glyph, 5.5 * glyph, 14 * glyph)
    down_mask, down = _rules(np.ascontiguousarray(depth.T), glyph, 3.2 * glyph, 8 * glyph)
    ruled = across_mask | down_mask.T
    if ruled.any():  # beside black rules grey text would count as faint
        depth = _depth((page[0], page[1]), glyph, ruled)
    if depth is None:
        return None
    grey = np.where(ruled, np.uint8(255), 255 - depth)
    parts = components((depth > _TEXT_DEPTH) & ~ruled)
    return TableInk(grey, parts, glyph, factor * reduced, angle, across, down, bars)


def _background(grey: Array, glyph: float) -> tuple[Array, Array, Rules]:
    """Return the local median, how far the grey lies below it (negative: above), and the edges of bars."""
    step = max(1, round(glyph / 4))
    small = np.asarray(Image.fromarray(grey).reduce(step) if step > 1 else Image.fromarray(grey))
    unit = glyph / step
    # First along, then down: so the corners of bars stay sharp. Strips as low as letters, first dark ones (text,
    # rules) and then light ones (text on a bar), are closed in between; shaded rows are higher.
    along, reach = _running_rank(small, 8.0 * unit, 17, _PAPER_RANK), max(1, round(0.6 * unit))
    along = 255 - _greatest_near(255 - _greatest_near(along, reach), reach)
    along = _greatest_near(255 - _greatest_near(255 - along, reach), reach)
    middle = _running_rank(np.where(*_dark_bars(small, unit), along).T, 1.3 * unit, 9, 0.5).T
    middle = np.ascontiguousarray(middle)
    paper = _resized(middle, grey.shape).astype(np.int16)
    high, low = spread_max(middle, 1), 255 - spread_max(255 - middle, 1)
    edge = high - low > _EDGE
    edge = _long_runs(edge, int(4 * unit)) | _long_runs(np.ascontiguousarray(edge.T), int(1.5 * unit)).T
    if edge.any():  # at the edge of a bar every pixel is on one side or on the other
        size = (grey.shape[1], grey.shape[0])
        above, below, at_edge = (
            np.asarray(Image.fromarray(v).resize(size, Image.Resampling.NEAREST)).astype(np.int16)
            for v in (high, low, edge.astype(np.uint8))
        )
        nearer = np.where(np.abs(above - grey) < np.abs(below - grey), above, below)
        paper = np.where(at_edge > 0, nearer, paper)
    return paper, paper - grey, _bar_edges(middle, step, glyph)


def _bar_edges(paper: Array, step: int, glyph: float) -> Rules:
    """Return the upper and lower edges of shaded rows as ruling lines, given the background at a reduced scale."""
    values = paper.astype(np.int16)
    height = len(values)
    lasting = np.full(paper.shape, 255, dtype=np.int16)
    sign = np.zeros(paper.shape, dtype=np.int16)
    sign[1:] = np.sign(np.diff(values, axis=0))
    for reach in range(round(1.4 * glyph / step)):  # further than a line of text could darken it
        rows = np.arange(1, height)
        above, below = values[(rows - 1 - reach).clip(0)], values[(rows + reach).clip(max=height - 1)]
        lasting[1:] = np.minimum(lasting[1:], (below - above) * sign[1:])
    lasting[0] = 0
    parts = components(_long_runs(lasting > _EDGE, int(14 * glyph / step)))
    flat = np.flatnonzero(parts.height <= 2)
    middle = (parts.top[flat] + parts.bottom[flat] - 1) / 2 * step
    return _joined(Rules(middle, parts.left[flat] * step, parts.right[flat] * step), glyph)


def _depth(page: tuple[Array, Array], glyph: float, ruled: Array | None) -> Array | None:
    """Return how much every pixel differs from its background, 255 where it is as strong as the ink around it."""
    paper, there = page
    if ruled is not None:
        there = np.where(ruled, np.int16(0), there)
    step = max(1, round(glyph / 4))
    reach = max(2, round(3 * glyph / step))
    beside = there if ruled is None else np.where(spread_max(ruled.astype(np.uint8), 2) > 0, np.int16(0), there)
    usual = histogram_quantile(np.bincount(paper.ravel().astype(np.uint8), minlength=256), 0.7)
    small_bar = _reduced(paper, step) < _BAR * usual
    dark_near, light_near = (_near(_reduced(side, step), small_bar, reach) for side in (beside, -beside))
    # Beside dark text the paper is lit by the compression: only on bars may the text be light.
    is_light = _resized(np.where(small_bar & (light_near > dark_near), np.uint8(255), np.uint8(0)), paper.shape) > 127
    is_light &= paper < _BAR * usual
    depth = np.where(is_light, -there, there).clip(0, 255).astype(np.uint8)
    contrast = ink_contrast(depth)
    if contrast is None:
        return None
    noise, full = contrast
    # Faint ink on the page is bleed-through or dirt, on a dark bar it may be all there is.
    least = np.where(paper < 0.6 * usual, _MIN_CONTRAST, max(0.3 * full, _MIN_CONTRAST)).astype(np.uint8)
    strength = (np.maximum(light_near, dark_near) * 0.9).clip(0, full).astype(np.uint8)
    strength = np.maximum(_resized(strength, paper.shape), least).astype(np.float32)
    weak = np.minimum(noise, 0.25 * strength)
    scaled = (depth.astype(np.float32) - weak) * (255.0 / np.maximum(strength - weak, 1.0))
    return np.asarray(scaled.clip(0, 255).astype(np.uint8))


def _near(strength: Array, bar: Array, reach: int) -> Array:
    """Return the greatest strength around every pixel, that of bars for bars and that of the page for the page."""
    on_bar, on_page = (spread_max(np.where(part, strength, np.uint8(0)), reach) for part in (bar, ~bar))
    return np.where(bar, on_bar, on_page)


def _reduced(values: Array, step: int) -> Array:
    """Return the mean of squares of `step` pixels, at least zero; single pixels of noise do not count."""
    image = Image.fromarray(values.clip(0, 255).astype(np.uint8))
    return np.asarray(image.reduce(step) if step > 1 else image)


def _dark_bars(small: Array, unit: float) -> tuple[Array, Array]:
    """Return where bars much darker than the page are, and how dark; the text on them may be light and dense."""
    usual = histogram_quantile(np.bincount(small.ravel(), minlength=256), 0.7)
    dark = _running_rank(small, 8.0 * unit, 17, 0.3)
    high = _long_runs(np.ascontiguousarray((dark < 0.6 * usual).T), max(2, int(1.7 * unit))).T
    # Beside the end of a bar, too, its pixels are a third of the neighbourhood: a bar is dark in its own columns.
    reach = max(1, round(1.1 * unit))
    total = np.cumsum(np.pad(small < 0.6 * usual, ((reach + 1, reach), (0, 0)), mode="edge"), axis=0)
    share = (total[2 * reach + 1 :] - total[: -2 * reach - 1]) / (2 * reach + 1)
    return high & (share >= 0.3), dark


def _greatest_near(values: Array, reach: int) -> Array:
    """Return the maximum within `reach` above and below every pixel."""
    wide = np.pad(values, ((reach, reach), (0, 0)), mode="edge")
    return np.asarray(np.max([wide[y : y + len(values)] for y in range(2 * reach + 1)], axis=0))


def _running_rank(values: Array, reach: float, n_samples: int, share: float) -> Array:
    """Return the value that `share` of the samples within `reach` to the left and right of every pixel stay below."""
    offsets = np.unique(np.round(np.linspace(-reach, reach, n_samples)).astype(int))
    wide = np.pad(values, ((0, 0), (int(offsets[-1]), int(offsets[-1]))), mode="symmetric")
    width = values.shape[1]
    stack = np.stack([wide[:, x : x + width] for x in offsets - offsets[0]])
    rank = round(share * (len(stack) - 1))
    return np.asarray(np.partition(stack, rank, axis=0)[rank])


def _resized(values: Array, shape: tuple[int, ...]) -> Array:
    return np.asarray(Image.fromarray(values).resize((shape[1], shape[0]), Image.Resampling.BILINEAR))


def _rules(depth: Array, glyph: float, least: float, faint: float) -> tuple[Array, Rules]:
    """Return the pixels and the places of the horizontal rules of an image."""
    thick = max(3, round(0.7 * glyph))
    near = depth.copy()  # a rule may step by a pixel
    near[1:] = np.maximum(near[1:], depth[:-1])
    near[:-1] = np.maximum(near[:-1], depth[1:])
    mask = _long_runs(near > _RULE_DEPTH, int(least)) | _long_runs(near > _FAINT_DEPTH, int(faint))
    mask &= ~_long_runs(np.ascontiguousarray(mask.T), thick + 3).T  # thicker than a rule: a bar, or bold text
    parts = components(mask)
    keep = parts.width >= 0.8 * least
    for i in np.flatnonzero(keep & (parts.width < 2.5 * faint)):
        keep[i] = _stands_free(depth, parts, int(i), thick)
    kept = np.append(keep, False)
    found = np.flatnonzero(keep)
    order = found[np.argsort(parts.top[found], kind="stable")]
    middle = (parts.top[order] + parts.bottom[order]) / 2
    return kept[parts.labels], _joined(Rules(middle, parts.left[order], parts.right[order]), glyph)


def _stands_free(depth: Array, parts: Components, i: int, thick: int) -> bool:
    """Tell whether a short stroke has paper on at least one side, as the strokes of letters have not."""
    left, right = int(parts.left[i]), int(parts.right[i])
    top, bottom = int(parts.top[i]), int(parts.bottom[i])
    if bottom - top > 2 * thick + 4:
        return right - left > 12 * (bottom - top)
    sides = []
    for rows in (slice(max(top - 4, 0), max(top - 1, 0)), slice(bottom + 1, bottom + 4)):
        ink = depth[rows, left:right]
        sides.append(float((ink > _TEXT_DEPTH).mean()) if ink.size else 0.0)
    return min(sides) < 0.12 and max(sides) < 0.45


def _joined(rules: Rules, glyph: float) -> Rules:
    """Return the rules with pieces of one line put together."""
    merged: list[list[float]] = []
    for at, start, end in sorted(zip(rules.at, rules.start, rules.end, strict=True), key=lambda r: (r[1], r[0])):
        for rule in merged:
            if abs(rule[0] - at) <= 0.35 * glyph and start - rule[2] <= 1.2 * glyph and start > rule[1]:
                rule[2] = max(rule[2], end)
                break
        else:
            merged.append([float(at), float(start), float(end)])
    merged.sort()
    columns = np.array(merged, dtype=np.float64).reshape(-1, 3)
    return Rules(columns[:, 0], columns[:, 1], columns[:, 2])


def _long_runs(mask: Array, least: int) -> Array:
    """Return the horizontal runs of a mask that are at least so long."""
    height, width = mask.shape
    flat = np.zeros(height * (width + 1) + 2, dtype=np.int8)
    flat[1:-1].reshape(height, width + 1)[:, :width] = mask  # one blank column ends every row
    change = np.diff(flat)
    start, end = np.flatnonzero(change == 1), np.flatnonzero(change == -1)
    long_ = end - start >= least
    steps = np.zeros(height * (width + 1) + 1, dtype=np.int8)
    steps[start[long_]] = 1
    steps[end[long_]] = -1
    return np.cumsum(steps, dtype=np.int8)[:-1].reshape(height, width + 1)[:, :width].astype(np.bool_)
