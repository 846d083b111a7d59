"""Regions to crops: cut out of the page image with a little margin, of a size and shape that can be looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from PIL import Image, ImageDraw

from gravityocr.document import Box, PlacedText, Polygon
from gravityocr.errors import ConfigError, InputError
from gravityocr.image_size import MAX_ASPECT, SizeRule, n_image_tokens, padded, padding_of, paper_colour

_LEAST_OUTLINE = 0.05  # of the box: a polygon that covers less outlines something else
_DRAWN_PX = 2  # an outline's last pixel may be the box's last or the one behind it
_FAR_PX = 100_000.0  # farther off, coordinates are cut: Pillow draws with 32-bit integers


@dataclass(frozen=True)
class CropConfig:
    """How regions are cut.

    `polygon` paints what lies outside a region's outline in the paper's colour, so that a neighbour which reaches into
    the box is not read twice.

    *Units*: `margin_px` of page around the box and around the outline; a crop narrower or lower than `min_side_px`,
    or with one side over `max_aspect` times the other, is padded; one of more than `max_pixels` is scaled down.
    """

    margin_px: int = 4
    min_side_px: int = 28
    max_aspect: int = MAX_ASPECT
    max_pixels: int = 40_000_000
    polygon: bool = False

    def __post_init__(self) -> None:
        if self.margin_px < 0 or self.min_side_px < 1:
            margin, side = self.margin_px, self.min_side_px
            raise ConfigError(f"crop.margin_px {margin}, crop.min_side_px {side}: choose at least 0 and 1")
        if not 1 <= self.max_aspect <= MAX_ASPECT:
            raise ConfigError(f"crop.max_aspect is {self.max_aspect}: choose a ratio from 1 to {MAX_ASPECT}")
        least = self.max_aspect * self.min_side_px**2
        if self.max_pixels < least:
            told = f"crop.max_aspect {self.max_aspect} and crop.min_side_px {self.min_side_px}"
            raise ConfigError(f"crop.max_pixels is {self.max_pixels}: choose at least {least}, with {told}")


def cut(page: Image.Image, box: Box, config: CropConfig | None = None, polygon: Polygon = ()) -> Image.Image:
    """Cut a box out of a page image, with margin, clamped to the page, padded where it is too small.

    *Raises*: InputError for a box that has no area on the page (empty, inverted, NaN or off the page).
    """
    return cut_out(page, box, config, polygon).image


@dataclass(frozen=True)
class Cut:
    """A crop, the part of the page that it shows, and how far from its upper left corner that begins.

    *Units*: pixels; `padding` (x, y) is not (0, 0) where the crop was too small or too long; `scale` counts crop pixels
    per page pixel and is below 1 where the crop was too large. The padding was added before the crop was scaled.
    """

    image: Image.Image
    shown: Box
    padding: tuple[int, int] = (0, 0)
    scale: float = 1.0

    def n_image_tokens(self, rule: SizeRule) -> int:
        """Return how many image tokens a network, or a server, of this rule makes of the crop.

        It holds for checkpoints that look at crops whole; nano cuts them into pieces of its own size first.
        """
        return n_image_tokens(self.image.height, self.image.width, rule)

    def scaled(self, words: Sequence[PlacedText]) -> tuple[PlacedText, ...]:
        """Return words that are placed in the crop as it was cut (`words_in`), placed in the image as it is."""
        if self.scale == 1.0:
            return tuple(words)

        def placed(box: Box) -> Box:
            return Box(*(side * self.scale for side in (box.x0, box.y0, box.x1, box.y1)))

        return tuple(replace(word, box=placed(word.box)) for word in words)


def cut_out(page: Image.Image, box: Box, config: CropConfig | None = None, polygon: Polygon = ()) -> Cut:
    """Cut as `cut` does, and tell where the crop is on the page.

    `polygon` is the region's outline in page pixels; it counts where `config.polygon` says so. The whole box is shown
    where the outline does not reach all of its sides, since the box was then widened over text after it was drawn.

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
    if config.polygon and _spans(polygon, inner, 2 * margin + _DRAWN_PX, page.size):
        crop = _outlined(crop, [(x - shown[0], y - shown[1]) for x, y in polygon], margin)
    size = _padded_size(crop.size, config)
    padding = padding_of(crop.size, size)
    crop = padded(crop, size)
    scale = min(1.0, math.sqrt(config.max_pixels / (size[0] * size[1])))
    if scale < 1:
        smaller = max(1, int(size[0] * scale)), max(1, int(size[1] * scale))
        crop = crop.resize(smaller, Image.Resampling.LANCZOS, reducing_gap=3.0)
    return Cut(crop, Box(*shown), padding, scale)


def _padded_size(size_px: tuple[int, int], config: CropConfig) -> tuple[int, int]:
    """Return the size (width, height) of a crop with both sides long enough for themselves and for each other."""
    width, height = (max(side, config.min_side_px) for side in size_px)
    return max(width, math.ceil(height / config.max_aspect)), max(height, math.ceil(width / config.max_aspect))


def _spans(outline: Polygon, box: Box, slack_px: float, size_px: tuple[int, int]) -> bool:
    """Tell whether an outline reaches every side of a box, but for the slack."""
    if len(outline) < 3 or not all(math.isfinite(value) for point in outline for value in point):
        return False
    across, down = [x for x, _ in outline], [y for _, y in outline]
    bounds = Box(min(across), min(down), max(across), max(down)).clamp(size_px)
    if bounds is None:
        return False
    return (
        bounds.x0 <= box.x0 + slack_px
        and bounds.y0 <= box.y0 + slack_px
        and bounds.x1 >= box.x1 - slack_px
        and bounds.y1 >= box.y1 - slack_px
    )


def _outlined(crop: Image.Image, outline: Sequence[tuple[float, float]], margin_px: int) -> Image.Image:
    """Return the crop with paper wherever it is farther than the margin from the outline's inside.

    An outline that covers next to nothing of the crop cannot be the region's: the crop is returned as it is.
    """
    points = [(min(max(x, -_FAR_PX), _FAR_PX), min(max(y, -_FAR_PX), _FAR_PX)) for x, y in outline]
    mask = Image.new("1", crop.size)
    draw = ImageDraw.Draw(mask)
    draw.polygon(points, fill=1)
    if crop.width * crop.height - mask.histogram()[0] < _LEAST_OUTLINE * crop.width * crop.height:
        return crop
    if margin_px:
        draw.line([*points, points[0], points[1]], fill=1, width=2 * margin_px + 1, joint="curve")
    paper = Image.new(crop.mode, crop.size, paper_colour(crop))
    if crop.mode == "P" and crop.palette is not None:
        paper.putpalette(crop.palette)
    paper.paste(crop, (0, 0), mask)
    return paper
