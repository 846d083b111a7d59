"""Words of a table crop, found from the bottom up: neighbouring columns may set their lines at different heights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gravityocr.model.ink import SPECK, Array, Components, components
from gravityocr.model.table_ink import Rules, TableInk

_MOST_LETTERS, _MOST_MARKS = 16_000, 3_000
_FAINT = 80  # depth that some pixel of a letter reaches
_LETTER_GAP = 0.36  # in glyph heights: what letters of one word stay below


@dataclass(frozen=True)
class Words:
    """Hold the boxes of words, one entry of each array per word.

    `members` holds the components of every word.
    """

    left: Array
    top: Array
    right: Array
    bottom: Array
    members: tuple[Array, ...]

    def __len__(self) -> int:
        return len(self.left)

    def parts(self, words: Sequence[int]) -> Array:
        """Return the components of some words, sorted."""
        return np.sort(np.concatenate([self.members[word] for word in words]))


def text_parts(ink: TableInk) -> Components:
    """Return the components that may be text; lines that touch are cut.

    Specks, remnants of rules and pictures have the label `SPECK`.
    """
    glyph = ink.glyph_px
    parts = _cut_tall(ink.parts, glyph)
    width, height = parts.width, parts.height
    speck = (parts.area < max(2.0, 0.006 * glyph * glyph)) | (height * width < 0.01 * glyph * glyph)
    flat = (height <= 0.3 * glyph) & (width > 2.6 * glyph)
    thin = (width <= 0.3 * glyph) & (height > 2.15 * glyph)
    huge = (height > 5 * glyph) | (height * width > 400 * glyph * glyph)
    n_rows, n_columns = parts.labels.shape
    # What the border of the crop cuts so thin is a neighbour's tip or tail.
    tip = ((parts.top <= 0) | (parts.bottom >= n_rows)) & (height < 0.5 * glyph)
    tip |= ((parts.left <= 0) | (parts.right >= n_columns)) & (width < 0.2 * glyph) & (height > 1.5 * glyph)
    remnant = _beside_rules(parts, ink.across, ink.down, glyph)
    frame = (parts.area < 0.1 * width * height) & (np.maximum(width, height) > 2.5 * glyph)
    keep = ~(speck | flat | thin | huge | frame | tip | remnant | (_darkest(parts, ink.grey) < _FAINT))
    for many, kind in ((_MOST_LETTERS, height >= 0.55 * glyph), (_MOST_MARKS, height < 0.55 * glyph)):
        some = np.flatnonzero(keep & kind)
        if len(some) > many:  # noise and screens
            keep[some[np.argsort(parts.area[some], kind="stable")[:-many]]] = False
    renumber = np.append(np.where(keep, np.cumsum(keep) - 1, SPECK), -1).astype(np.int32)
    return Components(renumber[parts.labels], parts.left[keep], parts.top[keep], parts.right[keep],
                      parts.bottom[keep], parts.area[keep])  # fmt: skip


def _beside_rules(parts: Components, across: Rules, down: Rules, glyph: float) -> Array:
    """Tell which components are thin strokes in line with a ruling line: pieces of it, or its shadow."""
    found = np.zeros(len(parts), dtype=np.bool_)
    upright = (parts.width <= 0.3 * glyph) & (parts.height >= 0.9 * glyph)
    for at in down.at:
        found |= upright & (parts.left - 0.3 * glyph <= at) & (at <= parts.right + 0.3 * glyph)
    lying = (parts.height <= 0.3 * glyph) & (parts.width >= 0.9 * glyph)
    for at in across.at:
        found |= lying & (parts.top - 0.45 * glyph <= at) & (at <= parts.bottom + 0.45 * glyph)
    low, middle = parts.height <= 0.3 * glyph, (parts.top + parts.bottom) / 2
    for at, start, end in zip(across.at, across.start, across.end, strict=True):
        found |= low & (np.abs(middle - at) <= 0.35 * glyph) & (parts.right > start) & (parts.left < end)
    small = (parts.height <= 0.4 * glyph) & (parts.width <= 0.4 * glyph)
    for at, start, end in zip(down.at, down.start, down.end, strict=True):
        near = (parts.left - 0.3 * glyph <= at) & (at <= parts.right + 0.3 * glyph)
        found |= small & near & (parts.bottom > start) & (parts.top < end)
    return found


def _darkest(parts: Components, grey: Array) -> Array:
    """Return the depth of the darkest pixel of every component."""
    mask = parts.labels >= 0
    depth = np.zeros(len(parts), dtype=np.uint8)
    np.maximum.at(depth, parts.labels[mask], 255 - grey[mask])
    return depth


def _cut_tall(parts: Components, glyph: float) -> Components:
    """Return the components with those of two touching lines cut at their thinnest row."""
    tall = np.flatnonzero((parts.height > 2.9 * glyph) & (parts.width > 0.5 * glyph) & (parts.height < 12 * glyph))
    if tall.size == 0:
        return parts
    mask = parts.labels >= 0
    for i in tall[:400]:
        box = (slice(int(parts.top[i]), int(parts.bottom[i])), slice(int(parts.left[i]), int(parts.right[i])))
        mine = parts.labels[box] == i
        rows = mine.sum(axis=1)
        n_lines = max(2, round(len(rows) / (2.4 * glyph)))
        for line in range(1, n_lines):
            middle = len(rows) * line / n_lines
            near = np.arange(int(middle - 0.6 * glyph), int(middle + 0.6 * glyph) + 1).clip(1, len(rows) - 2)
            at = int(near[int((rows[near] + 0.2 * np.abs(near - middle)).argmin())])
            if rows[at] <= 0.35 * mine.shape[1]:
                mask[box][at][mine[at]] = False
    return components(mask)


def ruled_apart(left: Array, right: Array, top: Array, bottom: Array, down: Rules) -> Array:
    """Tell for every gap, from `left` to `right`, whether a vertical ruling line runs through it."""
    apart = np.zeros(np.shape(left), dtype=np.bool_)
    for at, start, end in zip(down.at, down.start, down.end, strict=True):
        apart |= (left <= at + 3) & (at - 3 <= right) & (start < bottom) & (end > top)
    return apart


def find_words(parts: Components, glyph: float, down: Rules) -> Words:
    """Return the words that neighbouring components make up; no word crosses a vertical ruling line."""
    big = parts.height >= 0.55 * glyph
    if not big.any():
        big = np.ones(len(parts), dtype=np.bool_)
    ids = np.flatnonzero(big)
    left, right, top, bottom = (a[ids].astype(np.float64) for a in (parts.left, parts.right, parts.top, parts.bottom))
    links = []
    for a, b in _neighbours(top, bottom, left, glyph):
        overlap = np.minimum(bottom[a], bottom[b]) - np.maximum(top[a], top[b])
        low = np.minimum(bottom[a] - top[a], bottom[b] - top[b])
        gap = np.maximum(left[b] - right[a], left[a] - right[b])
        near = (gap <= _LETTER_GAP * glyph) & (overlap >= np.where(gap <= 0.15 * glyph, 0.3, 0.45) * low)
        x0, x1 = np.minimum(right[a], right[b]), np.maximum(left[a], left[b])
        near &= ~ruled_apart(x0, np.maximum(x0, x1), np.maximum(top[a], top[b]), np.minimum(bottom[a], bottom[b]), down)
        links.append(np.stack([a[near], b[near]]))
    group = _union(len(ids), np.concatenate(links, axis=1) if links else np.zeros((2, 0), dtype=np.int64))
    of_part = np.full(len(parts), -1, dtype=np.int64)
    of_part[ids] = group
    n_words = int(group.max()) + 1 if len(group) else 0
    box = _boxes(parts, of_part, n_words)
    of_part, n_words = _attach_marks(parts, of_part, box, glyph)
    members = np.split(np.argsort(of_part, kind="stable"), np.cumsum(np.bincount(of_part, minlength=n_words))[:-1])
    return Words(*_boxes(parts, of_part, n_words), tuple(members))


def find_baseline(parts: Components, ids: Array, glyph: float) -> float:
    """Return where the dense rows of a line of text end; half a glyph below the middle of a line without letters.

    Letters that touch make one component, so the feet of the components do not tell.
    """
    top, bottom = int(parts.top[ids].min()), int(parts.bottom[ids].max())
    left, right = int(parts.left[ids].min()), int(parts.right[ids].max())
    letters = ids[parts.height[ids] >= 0.55 * glyph]
    if letters.size == 0:
        return (top + bottom) / 2 + 0.5 * glyph
    if len(letters) <= 3 and parts.width[letters].max() < 1.8 * glyph:  # F and Y are thin where they stand
        feet = parts.bottom[letters]  # those of brackets and tails hang below the others
        return float(feet[feet > feet.max() - 0.5 * glyph].min())
    own = np.zeros(len(parts) + 2, dtype=np.bool_)
    own[ids] = True
    profile = own[parts.labels[top:bottom, left:right]].sum(axis=1).astype(np.float64)
    reach = max(2, round(0.35 * glyph))
    total = np.concatenate([[0.0], np.cumsum(np.pad(profile, reach))])
    at = np.arange(len(profile) + 1) + reach  # a baseline above each row, and below the last
    drop = 2 * total[at] - total[at - reach] - total[at + reach]
    low = np.arange(len(profile) + 1) >= 0.45 * len(profile)
    return float(top + int(np.where(low, drop, -np.inf).argmax()))


def _neighbours(top: Array, bottom: Array, left: Array, glyph: float) -> list[tuple[Array, Array]]:
    """Return pairs of boxes near each other: of one or of two neighbouring bands of rows, close in their order."""
    band_px = 2.5 * glyph
    pairs = []
    middle = (top + bottom) / 2
    for shift in (0.0, 0.5):
        band = np.floor(middle / band_px + shift)
        order = np.lexsort((left, band))
        for step in range(1, 7):
            a, b = order[:-step], order[step:]
            same = band[a] == band[b]
            pairs.append((a[same], b[same]))
    return pairs


def _union(n: int, links: Array) -> Array:
    """Return the group number of each of `n` things, given pairs that belong together."""
    parent = np.arange(n)
    a, b = links
    while True:
        x, y = parent[a], parent[b]
        open_ = x != y
        if not open_.any():
            break
        a, b = a[open_], b[open_]
        np.minimum.at(parent, np.maximum(x, y)[open_], np.minimum(x, y)[open_])
        while True:
            jumped = parent[parent]
            if np.array_equal(jumped, parent):
                break
            parent = jumped
    return (np.cumsum(parent == np.arange(n)) - 1)[parent] if n else parent


def _boxes(parts: Components, of_part: Array, n_words: int) -> tuple[Array, Array, Array, Array]:
    used = np.flatnonzero(of_part >= 0)
    word = of_part[used]
    big = np.full(n_words, 1 << 40, dtype=np.int64)
    left, top, right, bottom = big.copy(), big.copy(), -big, -big
    np.minimum.at(left, word, parts.left[used])
    np.minimum.at(top, word, parts.top[used])
    np.maximum.at(right, word, parts.right[used])
    np.maximum.at(bottom, word, parts.bottom[used])
    return left, top, right, bottom


def _attach_marks(
    parts: Components, of_part: Array, box: tuple[Array, Array, Array, Array], glyph: float
) -> tuple[Array, int]:
    """Return the word of every component with dots, commas, dashes and quotes given to the nearest word, or to none."""
    left, top, right, bottom = (a.astype(np.float64) for a in box)
    n_words = len(left)
    of_part = of_part.copy()
    for i in np.flatnonzero(of_part < 0):
        x0, x1, y0, y1 = parts.left[i], parts.right[i], parts.top[i], parts.bottom[i]
        if n_words:
            aside = np.maximum(left - x1, x0 - right).clip(0)
            apart = np.maximum(top - y1, y0 - bottom).clip(0)
            good = (aside <= _LETTER_GAP * glyph) & (apart <= np.where(aside > 0, 0.2, 0.55) * glyph)
            if good.any():
                cost = np.where(good, aside + 1.5 * apart, np.inf)
                of_part[i] = int(cost.argmin())
                continue
    rest = np.flatnonzero(of_part < 0)
    if rest.size == 0:
        return of_part, n_words
    a, b = np.triu_indices(min(len(rest), 1500), 1)
    gap = np.maximum(parts.left[rest[b]] - parts.right[rest[a]], parts.left[rest[a]] - parts.right[rest[b]])
    lie = np.maximum(parts.top[rest[b]] - parts.bottom[rest[a]], parts.top[rest[a]] - parts.bottom[rest[b]])
    near = (gap <= 0.9 * glyph) & (lie <= 0.1 * glyph) | (gap <= 0) & (lie <= 0.6 * glyph)
    of_part[rest] = n_words + _union(len(rest), np.stack([a[near], b[near]]))
    return of_part, int(of_part.max()) + 1
