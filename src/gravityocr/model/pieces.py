"""Cut a text crop into single-line pieces that a small checkpoint reads, and join what it read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError, InputError
from gravityocr.model.ink import Array, Ink, read_ink
from gravityocr.model.latex_spacing import compact_inline_formulas, join_formula_parts, with_both_dollars
from gravityocr.model.lines import TextLine, find_lines, whole_crop_line

_MARGIN_PX = 5
_INK_LEVEL = 100  # a column of a strip without component counts as blank unless something is darker than 255 - this
_LONG_GAP_PX, _SHORT_GAP_PX = 22, 16  # blanks over the first are closed to the second: no reader needs the rest
_MAX_ENLARGEMENT = 6.0
_CJK = re.compile(r"[　-ヿ㐀-鿿豈-﫿＀-｠]")


@dataclass(frozen=True)
class PieceSpec:
    """Say which pieces a checkpoint was trained on.

    *Units*: pixels. `line_ink_px` is ascender to descender, `cell_px` a vision cell, `width_step_px` what a piece's
    width is a multiple of; it divides `max_width_px`.
    """

    line_height_px: int = 32
    line_ink_px: int = 25
    max_width_px: int = 384
    cell_px: int = 16
    width_step_px: int = 128

    def __post_init__(self) -> None:
        size = (1, 8192)
        check_numbers(
            self, "pieces.", line_height_px=size, line_ink_px=size, max_width_px=size, cell_px=size, width_step_px=size
        )
        if self.width_step_px % self.cell_px or self.max_width_px % self.width_step_px:
            raise ConfigError(
                f"pieces.max_width_px {self.max_width_px} must be a multiple of width_step_px {self.width_step_px}, "
                f"and that of cell_px {self.cell_px}"
            )
        if self.line_ink_px >= self.line_height_px or self.max_width_px <= 4 * _MARGIN_PX:
            raise ConfigError(
                f"pieces.line_ink_px {self.line_ink_px} must be below line_height_px {self.line_height_px}, "
                f"and max_width_px {self.max_width_px} above {4 * _MARGIN_PX}"
            )


@dataclass(frozen=True)
class Piece:
    """Hold one piece of a line, ready for the network, and how its text joins the text before it.

    `image` is grey, dark on white, `line_height_px` high. `joiner` is " ", "\\n" (a new paragraph or list item) or
    "" (the first piece of all; a cut inside a word). `box` (left, top, right, bottom) is where the piece was in the
    crop, turned about its `middle` by `angle_deg` (as `Image.rotate` does), from ascenders to descenders.

    *Units*: pixels of the crop.
    """

    image: Image.Image
    line: int
    joiner: str
    box: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    angle_deg: float = 0.0
    middle: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class _Strip:
    """A line scaled to the height of pieces, trimmed to its ink; `gaps` are its blank column runs, longest closed.

    `places` says of each column where its middle was in the ink picture.
    """

    pixels: Array
    places: Array
    gaps: list[tuple[int, int]]
    word_gap_px: float
    first_word_px: float
    first_gap_px: float


def split_crop(image: Image.Image, spec: PieceSpec) -> list[Piece]:
    """Return the pieces of a text crop in reading order, none where nothing is written."""
    ink = read_ink(image) if min(image.size) > 1 else None
    if ink is None or len(ink.parts) == 0:
        return []
    lines, owner = find_lines(ink)
    if not lines:
        lines, owner = whole_crop_line(ink)
    strips = [_strip(ink, owner, number, line, spec) for number, line in enumerate(lines)]
    used = [i for i, strip in enumerate(strips) if strip is not None]
    lines, kept = [lines[i] for i in used], [strip for strip in strips if strip is not None]
    pieces: list[Piece] = []
    reduced, middle = image.width / ink.grey.shape[1], (image.width / 2, image.height / 2)
    for number, (line, strip, joiner) in enumerate(zip(lines, kept, _line_joiners(lines, kept), strict=True)):
        top, bottom = (line.baseline - line.ascent) * reduced, (line.baseline + line.descent) * reduced
        for start, end, inner in _cuts(strip, spec.max_width_px - 2 * _MARGIN_PX):
            canvas = _framed(strip.pixels[:, start:end], spec)
            left, right = (float(strip.places[column]) * reduced for column in (start, end - 1))
            box = (left, top, right, bottom)
            joined = joiner if inner is None else inner
            pieces.append(Piece(canvas, number, joined, box, ink.angle_deg, middle))
    return pieces


def _strip(ink: Ink, owner: Array, number: int, line: TextLine, spec: PieceSpec) -> _Strip | None:
    """Return one line alone on white at the scale of pieces, its baseline where the type size puts it."""
    height = spec.line_height_px
    up, down = line.baseline - line.top, line.bottom - line.baseline
    scale = min(spec.line_ink_px / line.size_px, _MAX_ENLARGEMENT)
    room = height - 1.0
    if (up + down) * scale > room:  # brackets, fractions, accents: a little smaller rather than clipped
        scale *= max(0.76, room / ((up + down) * scale))
    base = (height - line.size_px * scale) / 2 + line.ascent * scale
    base = max(base, 0.5 + up * scale) if (up + down) * scale <= room else base
    base = min(base, height - 0.5 - down * scale) if (up + down) * scale <= room else base
    y0, y1 = line.baseline - base / scale, line.baseline + (height - base) / scale
    pad = int(np.ceil(4 / scale)) + 2
    top, bottom = int(np.floor(y0)) - 2, int(np.ceil(y1)) + 2
    left, right = line.left - pad, line.right + pad
    grey, mine, foreign = _window(ink, owner, number, (left, top, right, bottom))
    if not mine.any():
        return None
    if foreign.any():
        hidden = _dilate(foreign, int(np.clip(round(0.08 * line.size_px), 1, 4))) & ~_dilate(mine, 1)
        grey = np.where(hidden | foreign, np.uint8(255), grey)
    width = max(1, round((right - left) * scale))
    box = (0.0, y0 - top, float(right - left), y1 - top)
    pixels = np.asarray(Image.fromarray(grey).resize((width, height), Image.Resampling.LANCZOS, box=box))
    columns = np.concatenate([[0], np.cumsum(mine.any(axis=0))])
    edges = np.arange(width + 1) * ((right - left) / width)
    first, last = np.floor(edges[:-1] + 0.25).astype(int), np.ceil(edges[1:] - 0.25).astype(int)
    dark = (columns[last] > columns[first]) | (pixels.min(axis=0) < 255 - _INK_LEVEL)
    places = left + (np.arange(width) + 0.5) * ((right - left) / width)
    return _trimmed(pixels, dark, places, scale)


def _window(ink: Ink, owner: Array, number: int, box: tuple[int, int, int, int]) -> tuple[Array, Array, Array]:
    """Return grey, own ink and other ink of a box that may reach over the borders of the crop."""
    left, top, right, bottom = box
    height, width = ink.grey.shape
    grey = np.full((bottom - top, right - left), 255, dtype=np.uint8)
    lines = np.full(grey.shape, -1, dtype=np.int32)
    ink_there = np.zeros(grey.shape, dtype=np.bool_)
    x0, y0, x1, y1 = max(left, 0), max(top, 0), min(right, width), min(bottom, height)
    target = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
    source = (slice(y0, y1), slice(x0, x1))
    grey[target], lines[target] = ink.grey[source], owner[source]
    ink_there[target] = ink.parts.labels[source] != -1
    mine = lines == number
    return grey, mine, ink_there & ~mine


def _dilate(mask: Array, reach: int) -> Array:
    """Return a boolean mask grown by `reach` pixels in a square."""
    grown = mask
    for axis in (0, 1):
        wide = grown.copy()
        for step in range(1, reach + 1):
            ahead = [slice(None)] * 2
            behind = [slice(None)] * 2
            ahead[axis], behind[axis] = slice(step, None), slice(None, -step)
            wide[tuple(ahead)] |= grown[tuple(behind)]
            wide[tuple(behind)] |= grown[tuple(ahead)]
        grown = wide
    return grown


def _blank_runs(dark: Array) -> list[tuple[int, int]]:
    """Return the runs of blank columns between the first and the last column with ink."""
    change = np.flatnonzero(np.diff(dark.astype(np.int8))) + 1
    if not dark[0]:
        change = change[1:]
    return [(int(a), int(b)) for a, b in zip(change[0::2], change[1::2], strict=False)]


def _trimmed(pixels: Array, dark: Array, places: Array, scale: float) -> _Strip | None:
    """Return a strip from its first to its last ink column, with very long blanks shortened."""
    columns = np.flatnonzero(dark)
    if columns.size == 0:
        return None
    window = slice(int(columns[0]), int(columns[-1]) + 1)
    pixels, dark = pixels[:, window], dark[window]
    gaps = _blank_runs(dark)
    word_gap = _word_gap(np.array([b - a for a, b in gaps], dtype=np.float64))
    words = [(a, b) for a, b in gaps if b - a >= word_gap]
    first_word = words[0][0] / scale if words else pixels.shape[1] / scale
    first_gap = (words[0][1] - words[0][0]) / scale if words else 0.0
    keep = np.ones(pixels.shape[1], dtype=np.bool_)
    for a, b in gaps:
        if b - a > _LONG_GAP_PX:
            keep[a + _SHORT_GAP_PX // 2 : b - _SHORT_GAP_PX // 2] = False
    return _Strip(pixels[:, keep], places[window][keep], _blank_runs(dark[keep]), word_gap, first_word, first_gap)


def _word_gap(widths: Array) -> float:
    """Return the width from which a blank run parts words.

    *Units*: pixels at the scale of pieces, where a letter gap is 1-3 and a space 5-12.
    """
    low, high = 3.0, 8.5
    usual = np.sort(np.minimum(widths, 14.0))
    n = len(usual)
    if n < 2 or usual[-1] < low:
        return low + 1.0
    total, count = np.cumsum(usual), np.arange(1, n)
    between = count * (n - count) * (total[:-1] / count - (total[-1] - total[:-1]) / (n - count)) ** 2
    middles = (usual[1:] + usual[:-1]) / 2
    allowed = (middles >= low) & (middles <= high)
    if not allowed.any():
        return low + 1.0 if usual[0] < low else high
    return float(middles[int(np.where(allowed, between, -1.0).argmax())])


def _cuts(strip: _Strip, limit: int) -> list[tuple[int, int, str | None]]:
    """Return start, end and joiner (None for the first) of the pieces of a strip, balanced, at most `limit` wide."""
    width = strip.pixels.shape[1]
    if width <= limit:
        return [(0, width, None)]
    words = [(a, b, " ") for a, b in strip.gaps if b - a >= strip.word_gap_px]
    marks = sorted(words + _inner_cuts(strip, words, limit))
    ends = np.array([a for a, _, _ in marks] + [width])
    starts = np.array([0] + [b for _, b, _ in marks])
    widths = ends[None, :] - starts[:, None]  # a piece from mark i to mark j
    space = float(np.median([b - a for a, b, _ in words])) if words else 1.0
    price = np.array([_cut_price((b - a) / space, text) for a, b, text in marks] + [0.0])
    n_least = -(-width // limit)
    for n_pieces in range(n_least, len(marks) + 2):
        target = width / n_pieces
        cost = np.where((widths > 0) & (widths <= limit), ((widths - target) / target) ** 2, np.inf) + price[None, :]
        best, path = cost[0], []
        for _ in range(n_pieces - 1):
            total = best[:-1, None] + cost[1:]
            path.append(total.argmin(axis=0))
            best = total.min(axis=0)
        if np.isfinite(best[-1]):
            at, chosen = len(marks), []
            for back in reversed(path):
                at = int(back[at])
                chosen.append(marks[at])
            chosen.reverse()
            bounds = [(0, "")] + [(b, text) for _, b, text in chosen]
            tails = [a for a, _, _ in chosen] + [width]
            spans = enumerate(zip(bounds, tails, strict=True))
            return [(start, end, None if i == 0 else text) for i, ((start, text), end) in spans]
    return [(x, min(x + limit, width), None if x == 0 else "") for x in range(0, width, limit)]


def _cut_price(spaces: float, joiner: str) -> float:
    """Return what a cut costs, in squared relative imbalance: inside a word much, at a doubtful space some."""
    return 0.6 if joiner == "" else 0.25 * max(0.0, 1.0 - spaces) + 0.01 / max(spaces, 0.1)


def _inner_cuts(strip: _Strip, words: list[tuple[int, int, str]], limit: int) -> list[tuple[int, int, str]]:
    """Return cuts inside words wider than a piece: at letter gaps, or else where a column holds least ink."""
    width = strip.pixels.shape[1]
    starts = [0] + [b for _, b, _ in words]
    ends = [a for a, _, _ in words] + [width]
    load = (255 - strip.pixels.astype(np.float64)).sum(axis=0)
    marks: list[tuple[int, int, str]] = []
    for start, end in zip(starts, ends, strict=True):
        n_parts = -(-(end - start) // int(0.85 * limit)) if end - start > limit else 1
        for part in range(1, n_parts):
            ideal = start + (end - start) * part / n_parts
            reach = int(0.07 * limit)
            columns = np.arange(max(start + 1, int(ideal) - reach), min(end - 1, int(ideal) + reach))
            cost = load[columns] + 2.0 * np.abs(columns - ideal)
            at = int(columns[int(cost.argmin())])
            marks.append((at, at, ""))
    return marks


def _framed(pixels: Array, spec: PieceSpec) -> Image.Image:
    """Return a piece with white margins, its width a multiple of the step that the network was trained on.

    Text positions continue behind the widest side of the image, so a width that was never trained shifts every
    character's place: a network of few widths reads only those.
    """
    width = pixels.shape[1] + 2 * _MARGIN_PX
    width = -(-width // spec.width_step_px) * spec.width_step_px
    canvas = np.full((spec.line_height_px, width), 255, dtype=np.uint8)
    canvas[:, _MARGIN_PX : _MARGIN_PX + pixels.shape[1]] = pixels
    return Image.fromarray(canvas)


def _line_joiners(lines: Sequence[TextLine], strips: Sequence[_Strip]) -> list[str]:
    """Return what joins every line to the one before: a blank, or a line break where the page clearly shows one."""
    if not lines:
        return []
    left_edge = min(line.left for line in lines)
    right_edge = max(line.right for line in lines)
    gaps = np.array([b.baseline - a.baseline for a, b in zip(lines[:-1], lines[1:], strict=True)])
    usual_gap = float(np.quantile(gaps, 0.3)) if len(gaps) > 1 else 2.4 * lines[0].size_px
    indented = [line.left - left_edge > 0.6 * line.size_px for line in lines]
    hanging_style = sum(indented) * 2 >= len(lines) and not indented[0]
    joiners = [""]
    for i in range(1, len(lines)):
        above, line = lines[i - 1], lines[i]
        size = min(above.size_px, line.size_px)
        room = right_edge - above.right - 0.3 * size - strips[i].first_word_px
        centred = abs((above.left + above.right) - (line.left + line.right)) < 0.8 * size and (
            abs(above.left - line.left) > 0.6 * size
        )
        steps_in = indented[i] and not indented[i - 1] and not hanging_style
        steps_out = not indented[i] and indented[i - 1] and hanging_style
        fresh = (
            max(above.size_px, line.size_px) > 1.2 * size
            or gaps[i - 1] > 1.35 * usual_gap + 0.1 * size
            or _starts_item(lines, strips, i)
            or (not centred and room > 0.3 * size and (steps_in or steps_out))
            or (not centred and room > 0.35 * (right_edge - left_edge) and abs(above.left - line.left) < 0.6 * size)
        )
        joiners.append("\n" if fresh else " ")
    return joiners


def _starts_item(lines: Sequence[TextLine], strips: Sequence[_Strip], i: int) -> bool:
    """Tell whether a line starts with a bullet or number set off from text that other lines align with."""
    line, strip = lines[i], strips[i]
    size = line.size_px
    if strip.first_gap_px < 0.42 * size or strip.first_word_px > 1.7 * size:
        return False
    text_left = line.left + strip.first_word_px + strip.first_gap_px

    def aligned(j: int) -> bool:
        other, other_strip = lines[j], strips[j]
        starts = [float(other.left)]
        if other_strip.first_gap_px >= 0.42 * size and other_strip.first_word_px <= 1.7 * size:
            starts = [other.left + other_strip.first_word_px + other_strip.first_gap_px]
        return any(abs(x - text_left) < 0.35 * size for x in starts)

    return any(aligned(j) for j in (i - 1, i + 1) if 0 <= j < len(lines))


def join_texts(texts: Sequence[str], pieces: Sequence[Piece]) -> str:
    """Return the text of a crop from the texts of its pieces.

    A hyphen that ends a line after a letter goes where the next line goes on with a lower-case letter.
    *Raises*: InputError where there is not one text per piece.
    """
    if len(texts) != len(pieces):
        raise InputError(f"{len(texts)} texts for {len(pieces)} pieces: give one text per piece, in their order")
    joined, joiner, last_line = "", "", -1
    for text, piece in zip(texts, pieces, strict=True):
        joiner = "\n" if "\n" in (joiner, piece.joiner) else " " if " " in (joiner, piece.joiner) else ""
        text = with_both_dollars(re.sub(r"[ \t]{2,}", " ", text.strip()))
        if not text:
            continue
        parted = join_formula_parts(joined, text) if piece.line == last_line else None
        if parted is not None:
            joined = parted
        elif joined:
            joined = _joined(joined, text, joiner, new_line=piece.line != last_line)
        else:
            joined = text
        joiner, last_line = "", piece.line
    return compact_inline_formulas(joined)


def _joined(before: str, after: str, joiner: str, *, new_line: bool) -> str:
    if new_line and re.search(r"\w[-\u2010\u00ad]$", before):
        if before[-2].isalpha() and after[0].islower():
            return before[:-1] + after
        if joiner == " " and after[0].isalnum():
            return before + after
    if joiner == " " and _CJK.match(before[-1]) and _CJK.match(after[0]):
        return before + after
    return before + joiner + after
