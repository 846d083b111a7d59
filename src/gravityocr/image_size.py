"""How large a crop is when the network looks at it, and how many tokens that costs: one rule for all who ask.

Trainer, server and client take sizes from here, so that what a client predicts is what a server counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

MAX_ASPECT = 200
"""Longer crops are padded before they are fitted: GLM-OCR's processor refuses them."""

Colour = float | tuple[int, ...]


@dataclass(frozen=True)
class SizeRule:
    """Sizes in multiples of a merged cell within pixel limits; the defaults are GLM-OCR's (28 px cells).

    *Units*: `min_pixels` and `max_pixels` count pixels times `temporal_patch_size`.
    """

    patch_size: int = 14
    temporal_patch_size: int = 2
    merge_size: int = 2
    min_pixels: int = 112 * 112
    max_pixels: int = 28 * 28 * 15000

    @property
    def cell_px(self) -> int:
        """Return the side of a merged cell, which is one image token."""
        return self.patch_size * self.merge_size

    def exceeded_by(self, height_px: int, width_px: int) -> bool:
        """Tell whether a crop of this size is shrunk."""
        return self.temporal_patch_size * height_px * width_px > self.max_pixels


def fit_size(height_px: int, width_px: int, rule: SizeRule) -> tuple[int, int]:
    """Return the size in multiples of a merged cell that keeps the aspect ratio within the pixel limits.

    A crop longer than `MAX_ASPECT` allows is padded before (`pad_size`): here its proportions are kept. Its smallest
    side being one cell, a very long crop may stay over `max_pixels`.

    >>> fit_size(450, 470, SizeRule())
    (448, 476)
    """
    cell = rule.cell_px
    height, width = _enlarged(height_px, width_px, cell)
    time = rule.temporal_patch_size
    fitted_height, fitted_width = round(height / cell) * cell, round(width / cell) * cell
    if rule.exceeded_by(fitted_height, fitted_width):
        shrink = math.sqrt(time * height * width / rule.max_pixels)
        fitted_height = max(cell, math.floor(height / shrink / cell) * cell)
        fitted_width = max(cell, math.floor(width / shrink / cell) * cell)
    elif time * fitted_height * fitted_width < rule.min_pixels:
        grow = math.sqrt(rule.min_pixels / (time * height * width))
        fitted_height = math.ceil(height * grow / cell) * cell
        fitted_width = math.ceil(width * grow / cell) * cell
    return fitted_height, fitted_width


def _enlarged(height_px: int, width_px: int, cell_px: int) -> tuple[float, float]:
    """Return the size of a crop enlarged until a cell fits; whole pixels, as the processor truncates them."""
    height, width = float(height_px), float(width_px)
    if min(height, width) >= cell_px:
        return height, width
    scale = max(cell_px / height, cell_px / width)
    return int(height * scale), int(width * scale)


def pad_size(height_px: int, width_px: int, rule: SizeRule) -> tuple[int, int]:
    """Return the size to which a crop is padded so that it is not longer than `MAX_ASPECT` times its short side.

    >>> pad_size(4, 900, SizeRule()), pad_size(40, 900, SizeRule())
    ((5, 900), (40, 900))
    """
    short, long = sorted((height_px, width_px))
    short = max(short, math.ceil(long / MAX_ASPECT))
    while True:
        low, high = sorted(_enlarged(short, long, rule.cell_px))
        if high <= MAX_ASPECT * low:
            return (short, long) if height_px <= width_px else (long, short)
        short += 1  # enlarging dropped a fraction of a pixel from the short side


def n_image_tokens(height_px: int, width_px: int, rule: SizeRule) -> int:
    """Return how many image tokens a crop of this size becomes, without looking at it: padded, fitted, cut into cells.

    This is what a checkpoint that reads crops whole takes. One that reads them in pieces, as nano does, cuts them
    first, and the number holds for each piece.

    >>> n_image_tokens(448, 448, SizeRule())
    256
    """
    height, width = fit_size(*pad_size(height_px, width_px, rule), rule)
    return (height // rule.cell_px) * (width // rule.cell_px)


def padded(image: Image.Image, size_px: tuple[int, int], colour: Colour | None = None) -> Image.Image:
    """Return the image in the middle of a sheet of `size_px` (width, height) in the paper's own colour.

    The image itself comes back where it has that size already.
    """
    if image.size == size_px:
        return image
    sheet = Image.new(image.mode, size_px, paper_colour(image) if colour is None else colour)
    if image.mode == "P" and image.palette is not None:
        sheet.putpalette(image.palette)
    sheet.paste(image, padding_of(image.size, size_px))
    return sheet


def padding_of(size_px: tuple[int, int], sheet_px: tuple[int, int]) -> tuple[int, int]:
    """Return how far from a sheet's left and upper edge `padded` puts an image; sizes are width, height."""
    return (sheet_px[0] - size_px[0]) // 2, (sheet_px[1] - size_px[1]) // 2


def within_aspect(image: Image.Image, rule: SizeRule) -> Image.Image:
    """Return the image, padded where it is longer than `MAX_ASPECT` allows."""
    height, width = pad_size(image.height, image.width, rule)
    return padded(image, (width, height))


def paper_colour(image: Image.Image) -> Colour:
    """Return the pixel of median brightness on the image's edge: its paper, unless ink covers half of the edge."""
    width, height = image.size
    edges = [(0, 0, width, 1), (0, height - 1, width, height), (0, 0, 1, height), (width - 1, 0, width, height)]
    strips = [image.crop(edge) for edge in edges]
    brightness = np.concatenate([np.asarray(strip.convert("L")).ravel() for strip in strips])
    place = int(np.argsort(brightness, kind="stable")[len(brightness) // 2])
    for strip in strips:
        n_pixels = strip.width * strip.height
        if place < n_pixels:
            break
        place -= n_pixels
    colour = strip.getpixel((place % strip.width, place // strip.width))
    return 0 if colour is None else colour
