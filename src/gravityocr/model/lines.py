"""From the components of a crop to its text lines: bands, ownership of every pixel, size of the type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gravityocr.model.ink import Array, Components, Ink, typical_glyph, weighted_quantile

_VALLEY = 0.55
_MULTI, _NOBODY = -2, -1


@dataclass(frozen=True)
class TextLine:
    """Describe one text line of a crop.

    *Units*: pixels of the normalised crop. `ascent` and `descent` are those of the type (b, d, l; p, q, y), whether
    or not the line has such letters; lines of one type size share them. `bottom` and `right` are exclusive.
    """

    left: int
    top: int
    right: int
    bottom: int
    baseline: float
    ascent: float
    descent: float

    @property
    def size_px(self) -> float:
        """Return ascender to descender."""
        return self.ascent + self.descent


@dataclass(frozen=True)
class _Shape:
    """What the letters of one line say about its type; `high` and `descent` are 0 where no letter shows them."""

    baseline: float
    low: float
    high: float
    descent: float
    slim: bool
    n_letters: int

    def agrees(self, other: _Shape) -> bool:
        """Tell whether both lines may be of one type size."""
        if self.low < 0.55 * other.low and self.n_letters <= 6:
            return True  # a row of dots or a dash says nothing about the size of the type
        if self.high and other.high:
            return _near(self.high, other.high, 1.16) or (
                _near(self.low, other.low, 1.1) and _near(self.high, other.high, 1.3)
            )
        if other.high:
            if self.n_letters < 4:
                return 0.75 * other.low <= self.low <= 1.25 * other.high
            return _near(self.low, other.low, 1.14) or _near(self.low, other.high, 1.16)
        return _near(self.low, other.low, 1.14) or (self.n_letters < 4 and _near(self.low, other.low, 1.6))


def _near(a: float, b: float, ratio: float) -> bool:
    return a < b * ratio and b < a * ratio


def find_lines(ink: Ink) -> tuple[list[TextLine], Array]:
    """Return the text lines from top to bottom and the line number of every pixel (-1: no line's ink).

    Marks that the border of the crop cut off from neighbouring lines belong to nobody.
    """
    parts = ink.parts
    bands = _all_bands(parts, ink.glyph_px)
    if not bands:
        return [], np.full(parts.labels.shape, _NOBODY, dtype=np.int32)
    owner = _assign(parts, bands, ink.glyph_px)
    _disown_far_border_marks(parts, owner, bands)
    shapes = [_shape(parts, np.flatnonzero(owner == i), band) for i, band in enumerate(bands)]
    sizes = _sizes(shapes)
    dropped = _slivers(parts, owner, shapes, sizes)
    _disown_far_marks(parts, owner, shapes, sizes)
    kept = [(i, s) for i, s in enumerate(shapes) if s is not None and i not in dropped and (owner == i).any()]
    renumber = np.full(len(bands) + 2, _NOBODY, dtype=np.int32)  # two more: owners -2 and -1 are nobody
    renumber[[i for i, _ in kept]] = np.arange(len(kept))
    lines = []
    for i, shape in kept:
        ids = np.flatnonzero(owner == i)
        lines.append(TextLine(int(parts.left[ids].min()), int(parts.top[ids].min()), int(parts.right[ids].max()),
                              int(parts.bottom[ids].max()), shape.baseline, *sizes[i]))  # fmt: skip
    return lines, _pixel_owner(parts, owner, bands, renumber)


def _all_bands(parts: Components, glyph: float) -> list[tuple[int, int]]:
    """Return the core rows of every line, sorted; what the first look leaves over gets a second one."""
    rest = np.arange(len(parts))
    found: list[tuple[int, int]] = []
    for attempt in range(3):
        size = glyph if attempt == 0 else typical_glyph(_pick(parts, rest))
        height = parts.height[rest]
        usable = rest[(height >= 0.5 * size) & (height <= 3.2 * size)]
        plain = usable[parts.height[usable] <= 2.3 * size]
        if parts.width[plain].sum() >= 0.5 * parts.width[usable].sum():
            usable = plain  # glyphs of two lines that touch would fill the valley between them
        if attempt and not _could_be_line(parts, rest, usable, glyph):
            break
        found = sorted(found + _bands(parts, usable, size))
        if not found:
            break
        owner = _assign(parts, found, glyph)
        rest = np.flatnonzero(owner == _NOBODY)
        if rest.size == 0:
            break
    return found


def _pick(parts: Components, ids: Array) -> Components:
    box = (parts.left[ids], parts.top[ids], parts.right[ids], parts.bottom[ids])
    return Components(parts.labels, *box, parts.area[ids])


def _could_be_line(parts: Components, rest: Array, usable: Array, glyph: float) -> bool:
    """Tell whether components far from every line are text (a row of dots, a heading) rather than dirt or cut ink."""
    n_rows = parts.labels.shape[0]
    inside = usable[(parts.top[usable] > 0) & (parts.bottom[usable] < n_rows)]
    if inside.size == 0 or inside.size < usable.size / 2:
        return False
    tall = parts.height[inside].max() >= 0.6 * glyph
    return bool(tall or inside.size >= 3) and float(parts.area[inside].sum()) >= 0.05 * glyph * glyph


def _bands(parts: Components, ids: Array, glyph: float) -> list[tuple[int, int]]:
    """Return the core rows of lines: where the boxes of glyph-sized components cover at least half the peak."""
    n_rows = parts.labels.shape[0]
    if ids.size == 0:
        return []
    weight = np.minimum(parts.width[ids], 4 * parts.height[ids]).astype(np.float64)
    steps = np.zeros(n_rows + 1)
    np.add.at(steps, parts.top[ids], weight)
    np.add.at(steps, parts.bottom[ids], -weight)
    cover = np.cumsum(steps)[:n_rows]
    reach = round(0.06 * glyph)
    if reach:
        window = np.ones(2 * reach + 1) / (2 * reach + 1)
        smooth = np.convolve(cover, window, mode="same")
    else:
        smooth = cover
    edges = np.flatnonzero(np.diff(np.concatenate([[0], (cover > 1e-6).astype(np.int8), [0]])))
    spans: list[tuple[int, int]] = []
    for top, bottom in zip(edges[0::2], edges[1::2], strict=True):
        spans += _split_span(smooth, int(top), int(bottom), max(2.0, 0.45 * glyph))
    cores = []
    for top, bottom in spans:
        rows = np.flatnonzero(cover[top:bottom] >= 0.5 * cover[top:bottom].max())
        cores.append((top + int(rows[0]), top + int(rows[-1]) + 1, float(cover[top:bottom].max())))
    return _merge_satellites(cores, glyph)


def _split_span(cover: Array, top: int, bottom: int, least: float) -> list[tuple[int, int]]:
    """Return a span cut, recursively, at rows where the cover falls well below the peaks of both sides."""
    rows = cover[top:bottom]
    if len(rows) < 2 * least:
        return [(top, bottom)]
    lower_peak = np.minimum(np.maximum.accumulate(rows), np.maximum.accumulate(rows[::-1])[::-1])
    ratio = rows / np.maximum(lower_peak, 1e-9)
    margin = int(least)
    ratio[:margin] = ratio[len(rows) - margin :] = 1.0
    best = float(ratio.min())
    if best >= _VALLEY:
        return [(top, bottom)]
    flat = np.flatnonzero(ratio <= best + 1e-9)
    at = top + int(flat[len(flat) // 2])
    return _split_span(cover, top, at, least) + _split_span(cover, at, bottom, least)


def _merge_satellites(cores: list[tuple[int, int, float]], glyph: float) -> list[tuple[int, int]]:
    """Return the cores with accents, superscripts and other low rows close to a line joined to it."""
    cores = sorted(cores)
    keep = [True] * len(cores)
    for i, (top, bottom, peak) in enumerate(cores):
        if bottom - top >= 0.75 * glyph:
            continue
        for j in (i - 1, i + 1):
            if not 0 <= j < len(cores) or cores[j][1] - cores[j][0] < 0.75 * glyph:
                continue
            gap = max(top - cores[j][1], cores[j][0] - bottom)
            if gap <= 0.45 * glyph and peak < 0.5 * cores[j][2]:
                keep[i] = False
    return [(top, bottom) for (top, bottom, _), wanted in zip(cores, keep, strict=True) if wanted]


def _assign(parts: Components, bands: list[tuple[int, int]], glyph: float) -> Array:
    """Return the band of every component, -1 for none near, -2 for one that several lines share."""
    tops = np.array([band[0] for band in bands])
    bottoms = np.array([band[1] for band in bands])
    size = bottoms - tops
    overlap = np.minimum(parts.bottom[:, None], bottoms) - np.maximum(parts.top[:, None], tops)
    nearest = overlap.argmax(axis=1)  # a negative overlap is a distance
    best, size_there = overlap.max(axis=1), size[nearest]
    far = best < -np.minimum(1.1 * np.maximum(glyph, size_there), 2.2 * glyph)
    # A letter whose middle is far from the core is on a line of its own, however short.
    middle = (parts.top + parts.bottom) / 2
    away = np.maximum(middle - bottoms[nearest], tops[nearest] - middle)
    own_line = (parts.height >= 0.6 * glyph) & (away > 0.9 * np.minimum(size_there, 1.1 * glyph))
    shared = (overlap >= 0.6 * size).sum(axis=1) >= 2
    drawing = (best > 0) & (parts.height > 6 * size_there)
    owner = np.where(shared, _MULTI, np.where(far | own_line | drawing, _NOBODY, nearest))
    return owner.astype(np.int32)


def _shape(parts: Components, ids: Array, band: tuple[int, int]) -> _Shape | None:
    """Return what the letters of a line show, None for a line without any."""
    ids = ids[(parts.top[ids] < band[1]) & (parts.bottom[ids] > band[0])]
    if ids.size == 0:
        return None
    height, width, bottom = parts.height[ids], parts.width[ids], parts.bottom[ids]
    usual = weighted_quantile(height, np.minimum(width, 2 * height), 0.5)
    letters = (height >= 0.55 * usual) & (height <= 2.4 * usual)
    tolerance = max(1.0, 0.09 * usual)
    feet = bottom[letters]
    votes = np.bincount(feet - feet.min(), np.minimum(width, 2 * height)[letters])
    reach = int(tolerance)
    smooth = np.convolve(votes, np.ones(2 * reach + 1), mode="full")[reach : reach + len(votes)]
    baseline = float(np.mean(feet[np.abs(feet - feet.min() - int(smooth.argmax())) <= tolerance]))
    sitting = letters & (np.abs(bottom - baseline) <= 1.4 * tolerance)
    tall = np.sort(baseline - parts.top[ids][sitting])
    low, high = _two_heights(tall)
    slim = bool(np.median((width / np.maximum(height, 1))[sitting]) < 0.78)
    hangs = bottom - baseline
    top_size = high or low
    hanging = (hangs > 0.16 * top_size) & (hangs < 0.62 * top_size) & (baseline - parts.top[ids] > 0.5 * low)
    descent = float(np.quantile(hangs[hanging], 0.7)) if hanging.any() else 0.0
    return _Shape(baseline, low, high, descent, slim, int(sitting.sum()))


def _two_heights(tall: Array) -> tuple[float, float]:
    """Return the x-height and the ascender height of sorted letter heights, (height, 0) where there is one only."""
    n = len(tall)
    total = np.cumsum(tall)
    count = np.arange(1, n)
    mean_low = total[:-1] / count
    mean_high = (total[-1] - total[:-1]) / (n - count)
    between = count * (n - count) * (mean_high - mean_low) ** 2
    if n > 1 and between.max() > 0:
        cut = int(between.argmax()) + 1
        # Among the taller are t, digits and capitals too; b, d and l are near the top of them.
        low, high = float(np.median(tall[:cut])), float(tall[cut + int(0.7 * (n - cut - 1))])
        if 1.2 <= high / max(low, 1e-9) <= 2.1 and min(cut, n - cut) >= 0.03 * n:
            return low, high
    return float(np.median(tall)), 0.0


def _sizes(shapes: list[_Shape | None]) -> list[tuple[float, float]]:
    """Return ascent and descent of every line; lines of one type size are measured together."""
    order = sorted((i for i, s in enumerate(shapes) if s is not None),
                   key=lambda i: (not shapes[i].high, -shapes[i].n_letters))  # type: ignore[union-attr]  # fmt: skip
    result = [(0.0, 0.0)] * len(shapes)
    left = list(order)
    while left:
        lead = shapes[left[0]]
        assert lead is not None
        family = [i for i in left if i == left[0] or shapes[i].agrees(lead)]  # type: ignore[union-attr]
        members = [s for i in family if (s := shapes[i]) is not None]
        size = _family_size(members)
        for i in family:
            result[i] = size
        left = [i for i in left if i not in family]
    return result


def _family_size(members: list[_Shape]) -> tuple[float, float]:
    """Return ascent and descent shared by lines of one type size."""

    def middle(pairs: list[tuple[float, int]]) -> float:
        return weighted_quantile(np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs]), 0.5)

    drops = [(s.descent, s.n_letters) for s in members if s.descent]
    highs = [(s.high, s.n_letters) for s in members if s.high]
    if highs:
        ascent = middle(highs)
        descent = middle(drops) if drops else 0.3 * ascent
        return ascent, float(np.clip(descent, 0.2 * ascent, 0.45 * ascent))
    only = middle([(s.low, s.n_letters) for s in members])
    if drops and middle(drops) > 0.36 * only:  # x-height letters with descenders, no ascender: "your own gear"
        return 1.42 * only, float(np.clip(middle(drops), 0.4 * only, 0.6 * only))
    if sum(s.slim for s in members) * 2 >= len(members):
        return 1.03 * only, 0.31 * only  # digits or narrow capitals
    return 1.18 * only, 0.37 * only  # capitals, or x-height letters only: between the two


def measure_lines(parts: Components, lines: list[Array]) -> list[tuple[float, float, float] | None]:
    """Return baseline, ascent and descent of lines given by their components; None where there are none.

    Lines of one type size are measured together, so one of few letters gets the size of its neighbours.
    """
    shapes = [
        _shape(parts, ids, (int(parts.top[ids].min()), int(parts.bottom[ids].max()))) if len(ids) else None
        for ids in lines
    ]
    return [
        None if shape is None else (shape.baseline, *size)
        for shape, size in zip(shapes, _sizes(shapes), strict=True)
    ]


def _slivers(
    parts: Components, owner: Array, shapes: list[_Shape | None], sizes: list[tuple[float, float]]
) -> set[int]:
    """Return the lines that the border of the crop cuts so far that they belong to a neighbouring region."""
    n_rows = parts.labels.shape[0]
    dropped: set[int] = set()
    inner = [i for i, s in enumerate(shapes) if s is not None]
    if len(inner) < 2:
        return dropped
    for i in (inner[0], inner[-1]):
        ids = np.flatnonzero(owner == i)
        cut = (parts.top[ids] <= 0) if i == inner[0] else (parts.bottom[ids] >= n_rows)
        weight = np.minimum(parts.width[ids], 3 * parts.height[ids]).astype(np.float64)
        if (weight * cut).sum() < 0.25 * weight.sum():
            continue
        seen = weighted_quantile(parts.bottom[ids], weight, 0.9) - weighted_quantile(parts.top[ids], weight, 0.1)
        typical = float(np.median([sum(sizes[j]) for j in inner if j != i]))
        if seen < 0.64 * typical:
            dropped.add(i)
    return dropped if len(dropped) < len(inner) else set()


def _disown_far_border_marks(parts: Components, owner: Array, bands: list[tuple[int, int]]) -> None:
    """Take ink cut by the border, clear of the core rows of its line, away from it: a neighbour's tips or tails."""
    n_rows = parts.labels.shape[0]
    (top, bottom), (last_top, last_bottom) = bands[0], bands[-1]
    above = (owner == 0) & (parts.top <= 0) & (parts.bottom < top - 0.42 * (bottom - top))
    below = (owner == len(bands) - 1) & (parts.bottom >= n_rows)
    below &= parts.top > last_bottom + 0.15 * (last_bottom - last_top)
    owner[above | below] = _NOBODY


def _disown_far_marks(
    parts: Components, owner: Array, shapes: list[_Shape | None], sizes: list[tuple[float, float]]
) -> None:
    """Take marks out of the reach of their line's own letters away from it, those that the border cuts sooner."""
    n_rows = parts.labels.shape[0]
    for i, shape in enumerate(shapes):
        if shape is None:
            continue
        ascent, descent = sizes[i]
        above = parts.bottom <= shape.baseline - np.where(parts.top <= 0, 0.96, 1.35) * ascent
        below = parts.top >= shape.baseline + np.where(parts.bottom >= n_rows, 0.6, 1.15) * descent
        owner[(owner == i) & (above | below)] = _NOBODY


def _pixel_owner(parts: Components, owner: Array, bands: list[tuple[int, int]], renumber: Array) -> Array:
    """Return the line of every pixel; components that lines share are cut at their thinnest row between the lines."""
    table = np.append(renumber[owner], np.full(2, _NOBODY, dtype=np.int32))  # labels -2 and -1: a speck, no ink
    table[np.flatnonzero(owner == _MULTI)] = _NOBODY
    pixels = table[parts.labels]
    for part in np.flatnonzero(owner == _MULTI):
        rows = slice(int(parts.top[part]), int(parts.bottom[part]))
        box = (rows, slice(int(parts.left[part]), int(parts.right[part])))
        mask = parts.labels[box] == part
        ink = mask.sum(axis=1)
        line_of_row = np.zeros(len(ink), dtype=np.int64)
        for i in range(len(bands) - 1):
            between = np.arange(bands[i][1], max(bands[i + 1][0], bands[i][1] + 1)) - rows.start
            inside = between[(between >= 0) & (between < len(ink))]
            if inside.size:
                middle = (between[0] + between[-1]) / 2
                cost = ink[inside] + 0.5 * np.abs(inside - middle)
                cut = int(inside[int(cost.argmin())])
            else:
                cut = 0 if bands[i][1] <= rows.start else len(ink)
            line_of_row[cut:] = i + 1
        owner_of_row = renumber[line_of_row]
        pixels[box] = np.where(mask, owner_of_row[:, None], pixels[box])
    return pixels


def whole_crop_line(ink: Ink) -> tuple[list[TextLine], Array]:
    """Return the crop as a single line, for ink in which no lines are found."""
    parts = ink.parts
    top, bottom = int(parts.top.min()), int(parts.bottom.max())
    size = bottom - top
    left, right = int(parts.left.min()), int(parts.right.max())
    line = TextLine(left, top, right, bottom, bottom - 0.2 * size, 0.8 * size, 0.2 * size)
    return [line], np.where(parts.labels >= 0, 0, _NOBODY).astype(np.int32)
