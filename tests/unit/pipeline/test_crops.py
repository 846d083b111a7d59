"""Crops: margin, clamping, padding, refusals."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gravityocr.document import Box, PlacedText, Polygon
from gravityocr.errors import ConfigError, InputError
from gravityocr.image_size import SizeRule, n_image_tokens
from gravityocr.pipeline.crops import CropConfig, Cut, cut, cut_out
from gravityocr.pipeline.text_layer import words_in


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


@pytest.mark.parametrize("changes", [{"max_aspect": 0}, {"max_aspect": 201}, {"max_pixels": 1000}])
def test_limits_are_checked(changes: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=rf"crop\.{next(iter(changes))} is .*choose"):
        CropConfig(**changes)


@pytest.mark.parametrize(
    ("box", "config", "size"),
    [
        (Box(10, 10, 910, 14), CropConfig(margin_px=1), (902, 28)),
        (Box(10, 10, 910, 11), CropConfig(margin_px=1, min_side_px=1), (902, 5)),
        (Box(10, 10, 910, 14), CropConfig(margin_px=1, max_aspect=10), (902, 91)),
        (Box(10, 10, 14, 910), CropConfig(margin_px=1, max_aspect=10), (91, 902)),
        (Box(10, 10, 11, 11), CropConfig(), (28, 28)),
        (Box(0, 0, 1, 1), CropConfig(), (28, 28)),
    ],
)
def test_thin_and_tiny_crops_are_padded_and_nothing_is_cut(box: Box, config: CropConfig, size: tuple[int, int]) -> None:
    sheet = Image.new("L", (1000, 1000), 255)
    sheet.paste(0, box.pixels(sheet.size))
    found = cut_out(sheet, box, config)
    assert found.image.size == size
    assert dict(swapped(found.image)) == {0: box.area, 255: size[0] * size[1] - box.area}
    # the padding tells where the box begins
    x, y = (int(found.padding[0] + box.x0 - found.shown.x0), int(found.padding[1] + box.y0 - found.shown.y0))
    assert found.image.getpixel((x, y)) == 0 and found.image.getpixel((x - 1, y)) == 255
    assert found.n_image_tokens(SizeRule()) == n_image_tokens(size[1], size[0], SizeRule())


def test_padding_has_the_papers_colour_where_ink_is_in_the_corner() -> None:
    sheet = Image.new("L", (400, 100), 240)
    sheet.paste(0, (100, 50, 130, 54))
    crop = cut(sheet, Box(100, 50, 200, 54), CropConfig(margin_px=0))
    assert crop.getcolors() == [(30 * 4, 0), (100 * 28 - 30 * 4, 240)]


def test_large_crops_are_scaled_down_and_words_with_them() -> None:
    sheet = Image.new("L", (1000, 800), 255)
    config = CropConfig(margin_px=0, max_pixels=200_000)
    found = cut_out(sheet, Box(0, 0, 1000, 800), config)
    assert found.scale == 0.5 and found.image.size == (500, 400)
    words = words_in([PlacedText("here", Box(100, 200, 300, 240))], found.shown, found.padding)
    assert found.scaled(words) == (PlacedText("here", Box(50, 100, 150, 120)),)
    whole = cut_out(sheet, Box(0, 0, 400, 500), config)
    assert whole.scale == 1.0 and whole.scaled(words) == tuple(words)


def two_columns() -> Image.Image:
    """A region whose neighbour reaches into its box: black ink inside, grey ink in the lower right corner."""
    sheet = Image.new("L", (300, 300), 250)
    sheet.paste(0, (60, 60, 200, 80))
    sheet.paste(99, (160, 130, 220, 160))
    return sheet


OUTLINE = ((50.0, 50.0), (210.0, 50.0), (210.0, 100.0), (140.0, 100.0), (140.0, 150.0), (50.0, 150.0))


def test_what_is_outside_the_outline_becomes_paper_where_asked() -> None:
    box = Box(50, 50, 210, 150)
    plain = cut(two_columns(), box, CropConfig(), OUTLINE)
    assert plain.tobytes() == cut(two_columns(), box).tobytes() and 99 in dict(swapped(plain))
    crop = cut(two_columns(), box, CropConfig(polygon=True), OUTLINE)
    assert crop.size == plain.size
    assert dict(swapped(crop)) == {250: crop.width * crop.height - 140 * 20, 0: 140 * 20}


def test_the_outline_has_the_margin_of_the_box() -> None:
    sheet = Image.new("L", (100, 100), 255)
    sheet.paste(0, (15, 15, 85, 85))
    outline = ((20.0, 20.0), (79.0, 20.0), (79.0, 79.0), (20.0, 79.0))
    config = CropConfig(margin_px=6, polygon=True)
    crop, plain = (cut(sheet, Box(20, 20, 80, 80), one, outline) for one in (config, CropConfig(margin_px=6)))
    for part in ((6, 0, 66, 72), (0, 6, 72, 66)):  # all but the corners, which are round
        assert crop.crop(part).tobytes() == plain.crop(part).tobytes()
    bare = cut(sheet, Box(20, 20, 80, 80), CropConfig(margin_px=0, polygon=True), outline[:3])
    assert 0.4 < bare.histogram()[0] / 60**2 <= 1.0


@pytest.mark.parametrize(
    "outline",
    [
        ((1.0, 1.0), (2.0, 2.0)),
        ((math.nan, 1.0), (200.0, 1.0), (200.0, 200.0)),
        ((400.0, 400.0), (500.0, 400.0), (500.0, 500.0)),
        ((-1e12, -1e12), (-1e12, -2e12), (-2e12, -1e12)),
        ((60.0, 60.0), (61.0, 60.0), (61.0, 61.0)),
        ((50.0, 50.0), (210.0, 150.0), (209.0, 150.0)),  # a line
        ((50.0, 50.0), (210.0, 50.0), (210.0, 139.0), (50.0, 139.0)),  # the box was widened since
        ((61.0, 50.0), (210.0, 50.0), (210.0, 150.0), (61.0, 150.0)),
    ],
)
def test_an_outline_of_something_else_loses_no_text(outline: Polygon) -> None:
    box = Box(50, 50, 210, 150)
    assert cut(two_columns(), box, CropConfig(polygon=True), outline).tobytes() == cut(two_columns(), box).tobytes()


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK"])
def test_pages_of_every_mode_are_cut(mode: str) -> None:
    sheet = two_columns().convert(mode)
    config = CropConfig(margin_px=0, min_side_px=64, polygon=True, max_pixels=64 * 64 * 200)
    found = cut_out(sheet, Box(50, 50, 210, 70), config, OUTLINE)
    assert found.image.mode == mode and found.image.size == (160, 64)
    assert found.image.convert("L").getpixel((80, 2)) > 200  # paper


@given(st.tuples(*[st.floats(-50, 350)] * 4), st.integers(0, 9), st.integers(1, 40), st.integers(1, 200))
def test_every_box_is_cut_within_the_limits_or_refused(sides, margin: int, side: int, aspect: int) -> None:
    sheet = two_columns()
    config = CropConfig(margin_px=margin, min_side_px=side, max_aspect=aspect, max_pixels=aspect * side**2 + 5000)
    box = Box(*sides)
    if box.clamp(sheet.size) is None:
        with pytest.raises(InputError):
            cut(sheet, box, config)
        return
    found = cut_out(sheet, box, config)
    width, height = found.image.size
    assert width * height <= config.max_pixels
    if found.scale == 1:
        assert min(width, height) >= side and max(width, height) <= aspect * min(width, height)
        assert width >= found.shown.width and height >= found.shown.height


def swapped(image: Image.Image) -> list[tuple[object, int]]:
    return [(colour, count) for count, colour in image.getcolors() or []]
