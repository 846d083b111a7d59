"""Regions to crops: cut out of the page image with a little margin, never too small to look at."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image

from gravityocr.document import Box
from gravityocr.errors import ConfigError, InputError


@dataclass(frozen=True)
class CropConfig:
    """How regions are cut.

    *Units*: `margin_px` of page around the box; a crop narrower or lower than `min_side_px` is padded.
    """

    margin_px: int = 4
    min_side_px: int = 28

    def __post_init__(self) -> None:
        if self.margin_px < 0 or self.min_side_px < 1:
            margin, side = self.margin_px, self.min_side_px
            raise ConfigError(f"crop.margin_px {margin}, crop.min_side_px {side}: choose at least 0 and 1")


def cut(page: Image.Image, box: Box, config: CropConfig | None = None) -> Image.Image:
    """Cut a box out of a page image, with margin, clamped to the page, padded where it is too small.

    *Raises*: InputError for a box that has no area on the page (empty, inverted, NaN or off the page).
    """
    return cut_out(page, box, config).image


@dataclass(frozen=True)
class Cut:
    """A crop, the part of the page that it shows, and how far from its upper left corner that begins.

    *Units*: pixels; `padding` (x, y) is not (0, 0) where the crop was too small.
    """

    image: Image.Image
    shown: Box
    padding: tuple[int, int] = (0, 0)


def cut_out(page: Image.Image, box: Box, config: CropConfig | None = None) -> Cut:
    """Cut as `cut` does, and tell where the crop is on the page.

    *Raises*: InputError for a box that has no area on the page (empty, inverted, NaN or off the page).
    """
    config = config or CropConfig()
    inner = box.clamp(page.size)
    if inner is None:
        values = ", ".join(f"{value:g}" for value in (box.x0, box.y0, box.x1, box.y1))
        raise InputError(f"the box [{values}] has no area on the page of {page.width} x {page.height} px")
    margin = config.margin_px
    wide = Box(inner.x0 - margin, inner.y0 - margin, inner.x1 + margin, inner.y1 + margin)
    shown = wide.pixels(page.size)
    crop = page.crop(shown)
    if min(crop.size) >= config.min_side_px:
        return Cut(crop, Box(*shown))
    size = max(crop.width, config.min_side_px), max(crop.height, config.min_side_px)
    # the paper's own colour, so that the padding draws no edge
    padded = Image.new(crop.mode, size, crop.getpixel((0, 0)))
    padding = (size[0] - crop.width) // 2, (size[1] - crop.height) // 2
    padded.paste(crop, padding)
    return Cut(padded, Box(*shown), padding)
