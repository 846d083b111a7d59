"""Crops: margin, clamping, padding, refusals."""

from __future__ import annotations

import math

import pytest
from PIL import Image

from gravityocr.document import Box
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.crops import CropConfig, Cut, cut, cut_out


def page() -> Image.Image:
    image = Image.new("RGB", (200, 100), "white")
    image.paste((255, 0, 0), (50, 40, 150, 80))
    return image


def test_margin_is_added_and_clamped() -> None:
    assert cut(page(), Box(50, 40, 150, 80), CropConfig(margin_px=4)).size == (108, 48)
    assert cut(page(), Box(0, 0, 200, 100)).size == (200, 100)
    exact = cut(page(), Box(50, 40, 150, 80), CropConfig(margin_px=0))
    assert exact.size == (100, 40)
    assert exact.getcolors() == [(4000, (255, 0, 0))]


def test_a_cut_tells_where_it_was() -> None:
    found = cut_out(page(), Box(50.5, 40, 150, 80), CropConfig(margin_px=4))
    assert found == Cut(found.image, Box(46, 36, 154, 84)) and found.image.size == (108, 48)
    low = cut_out(page(), Box(50, 90, 150, 99), CropConfig(margin_px=2, min_side_px=40))
    assert (low.image.size, low.shown, low.padding) == ((104, 40), Box(48, 88, 152, 100), (0, 14))


@pytest.mark.parametrize("box", [Box(60, 50, 61, 51), Box(50, 40, 150, 44), Box(199, 99, 250, 120)])
def test_small_crops_are_padded_with_paper(box: Box) -> None:
    crop = cut(page(), box, CropConfig(margin_px=0, min_side_px=28))
    assert min(crop.size) >= 28
    assert crop.width == max(28, int(min(box.x1, 200) - box.x0))
    assert len(crop.getcolors() or []) == 1


def test_padding_keeps_the_pixels() -> None:
    image = Image.new("RGB", (200, 100), "white")
    image.paste((0, 0, 0), (60, 50, 62, 52))
    crop = cut(image, Box(59, 49, 63, 53), CropConfig(margin_px=0))
    assert dict((colour, count) for count, colour in crop.getcolors() or [])[(0, 0, 0)] == 4


@pytest.mark.parametrize("box", [Box(5, 5, 5, 9), Box(9, 9, 2, 2), Box(math.nan, 0, 1, 1), Box(500, 500, 600, 600)])
def test_boxes_without_area_are_refused_with_their_numbers(box: Box) -> None:
    with pytest.raises(InputError, match="has no area on the page of 200 x 100 px"):
        cut(page(), box)


def test_config_is_checked() -> None:
    with pytest.raises(ConfigError, match="crop"):
        CropConfig(margin_px=-1)
