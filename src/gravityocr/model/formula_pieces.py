"""Bring a formula crop to the size of type that a small checkpoint reads, in pieces where it is too large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError, InputError
from gravityocr.model.ink import Array, components, read_grey, weighted_quantile
from gravityocr.model.latex_repair import balanced, settable
from gravityocr.model.latex_spacing import compact_latex

MARGIN_PX = 5
_INK_LEVEL = 70
_GLYPH_SHARE = 0.88  # what the glyphs measure, as a share of the type's ascender-to-descender height
_MAX_ENLARGEMENT = 6.0
_LEAST_SHRINKING = 0.75  # a formula that this much of its scale makes fit is not cut
_LINE_GAP, _LINE_HEIGHT, _BAR_HEIGHT = 0.5, 0.55, 0.2  # in type heights: between lines, of a line at least, of a bar


@dataclass(frozen=True)
class FormulaPieceSpec:
    """Say which formula pieces a checkpoint was trained on.

    *Units*: pixels. `ink_px` is the height of type from ascender to descender; sides are multiples of the steps.
    """

    ink_px: int = 25
    max_width_px: int = 640
    max_height_px: int = 192
    width_step_px: int = 64
    height_step_px: int = 32
    cell_px: int = 16

    def __post_init__(self) -> None:
        size = (1, 8192)
        check_numbers(
            self, "formula_pieces.", ink_px=size, max_width_px=size, max_height_px=size, width_step_px=size,
            height_step_px=size, cell_px=size,
        )  # fmt: skip
        if self.width_step_px % self.cell_px or self.height_step_px % self.cell_px:
            raise ConfigError(f"formula_pieces: the steps must be multiples of cell_px {self.cell_px}")
        if self.max_width_px % self.width_step_px or self.max_height_px % self.height_step_px:
            raise ConfigError("formula_pieces: the largest sides must be multiples of the steps")
        if min(self.max_width_px, self.max_height_px) <= 4 * MARGIN_PX:
            raise ConfigError(f"formula_pieces: the largest sides must be above {4 * MARGIN_PX}")


@dataclass(frozen=True)
class FormulaPiece:
    """Hold one piece of a formula, ready for the network; `line` counts the lines of a formula from 0."""

    image: Image.Image
    line: int


def split_formula(image: Image.Image, spec: FormulaPieceSpec) -> list[FormulaPiece]:
    """Return the pieces of a formula crop in reading order, none where nothing is written."""
    grey = read_grey(image) if min(image.size) > 1 else None
    if grey is None:
        return []
    grey = trimmed(grey)
    size = type_height(grey)
    if size is None:
        return []
    scale = min(spec.ink_px / size, _MAX_ENLARGEMENT)
    pieces = []
    for number, line in enumerate(_lines(grey, size)):
        for part in _parts(line, size, (spec.max_width_px - 2 * MARGIN_PX) / scale):
            fitting, _, _ = placement(part, scale, spec)
            pieces.append(FormulaPiece(framed(part, fitting, spec), number))
    return pieces


def trimmed(grey: Array) -> Array:
    """Return a picture without the white around its ink; all of it where it has none."""
    ink = grey < 255 - _INK_LEVEL
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    if not rows.size:
        return grey
    return grey[max(rows[0] - 1, 0) : rows[-1] + 2, max(columns[0] - 1, 0) : columns[-1] + 2]


def type_height(grey: Array) -> float | None:
    """Estimate the ascender-to-descender height of a formula's type; None where nothing is as large as a glyph.

    *Units*: pixels.
    """
    parts = components(grey < 255 - _INK_LEVEL)
    glyphs = (parts.height > 3) & (parts.width <= 4 * parts.height) & (parts.height <= 8 * parts.width)
    if not glyphs.any():
        return float(parts.height.max()) if len(parts) and parts.height.max() > 1 else None
    height, width = parts.height[glyphs], parts.width[glyphs]
    return weighted_quantile(height, np.minimum(width, 2 * height), 0.55) / _GLYPH_SHARE


def placement(grey: Array, scale: float, spec: FormulaPieceSpec) -> tuple[float, int, int]:
    """Return the scale at which a part fits a piece, and the place of its upper left corner there."""
    height, width = grey.shape
    scale = min(scale, (spec.max_width_px - 2 * MARGIN_PX) / width, (spec.max_height_px - 2) / height)
    size = _size_at(grey, scale)
    return scale, MARGIN_PX, (_step_up(size[1] + 2, spec.height_step_px) - size[1]) // 2


def framed(grey: Array, scale: float, spec: FormulaPieceSpec) -> Image.Image:
    """Return a part of a formula on a canvas of a trained size; `scale` is one that `placement` gave."""
    size = _size_at(grey, scale)
    _, left, top = placement(grey, scale, spec)
    steps = spec.width_step_px, spec.height_step_px
    canvas = Image.new("L", (_step_up(size[0] + 2 * MARGIN_PX, steps[0]), _step_up(size[1] + 2, steps[1])), 255)
    canvas.paste(Image.fromarray(grey).resize(size, Image.Resampling.LANCZOS), (left, top))
    return canvas


def _size_at(grey: Array, scale: float) -> tuple[int, int]:
    return max(1, round(grey.shape[1] * scale)), max(1, round(grey.shape[0] * scale))


def _step_up(length: int, step: int) -> int:
    return -(-length // step) * step


def _lines(grey: Array, size: float) -> list[Array]:
    """Cut the lines of a displayed block apart: where a blank as high as a line gap runs through the whole width."""
    if grey.shape[0] < 2.2 * size:
        return [grey]
    inked = (grey < 255 - _INK_LEVEL).any(axis=1)
    # A band as thin as a fraction's bar belongs to what is above it and below.
    runs = [(a - 1, b - 1) for a, b in _runs(np.concatenate([[False], inked, [False]]))]
    bands = [(a, b) for a, b in runs if b - a > _BAR_HEIGHT * size]
    bars = [a for a, b in runs if b - a <= _BAR_HEIGHT * size]
    bottoms, tops = [b for _, b in bands[:-1]], [a for a, _ in bands[1:]]
    gaps = [
        (a, b)
        for a, b in zip(bottoms, tops, strict=True)
        if b - a >= _LINE_GAP * size and not any(a <= bar <= b for bar in bars)
    ]
    bounds = [0, *[(a + b) // 2 for a, b in gaps], grey.shape[0]]
    lines: list[Array] = []
    for top, bottom in zip(bounds[:-1], bounds[1:], strict=True):
        band = trimmed(grey[top:bottom])
        if (band < 255 - _INK_LEVEL).any():
            lines.append(band)
    if any(line.shape[0] < _LINE_HEIGHT * size for line in lines):
        return [grey]  # a bar, dots or limits alone: one formula, not lines
    return lines


def _parts(line: Array, size: float, limit: float) -> list[Array]:
    """Cut a line that is too wide at its widest blanks; the parts are of similar width."""
    width = line.shape[1]
    if width * _LEAST_SHRINKING <= limit:
        return [line]
    blank = np.asarray((line >= 255 - _INK_LEVEL).all(axis=0))
    gaps = [(a, b) for a, b in _runs(blank) if b - a >= 0.12 * size]
    n_parts = int(np.ceil(width / limit))
    cuts: list[int] = []
    for part in range(1, n_parts):
        ideal, reach = width * part / n_parts, 0.35 * width / n_parts
        near = [gap for gap in gaps if abs((gap[0] + gap[1]) / 2 - ideal) <= reach]
        if near:
            # A little wider is worth little further from the middle.
            worth = [min(b - a, 0.9 * size) - 0.25 * size * abs((a + b) / 2 - ideal) / reach for a, b in near]
            cuts.append(sum(near[int(np.argmax(worth))]) // 2)
    bounds = [0, *cuts, width]
    parts = [trimmed(line[:, a:b]) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    return [part for part in parts if (part < 255 - _INK_LEVEL).any()]


def _runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return start and end of the runs of True that touch neither end."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8))) + 1
    if mask[0]:
        edges = edges[1:]
    return [(int(a), int(b)) for a, b in zip(edges[0::2], edges[1::2], strict=False)]


def join_formula(texts: Sequence[str], pieces: Sequence[FormulaPiece]) -> str:
    """Return the LaTeX of a formula from that of its pieces; groups and arrays are closed, lines are rows of an array.

    *Raises*: InputError where there is not one text per piece.
    """
    if len(texts) != len(pieces):
        raise InputError(f"{len(texts)} texts for {len(pieces)} pieces: give one text per piece, in their order")
    lines: dict[int, list[str]] = {}
    for text, piece in zip(texts, pieces, strict=True):
        if text.strip():
            lines.setdefault(piece.line, []).append(balanced(text.strip()))
    joined = [compact_latex(settable(" ".join(parts))) for parts in lines.values()]
    if len(joined) < 2:
        return "".join(joined)
    return r"\begin{array}{l}" + r" \\ ".join(joined) + r"\end{array}"
