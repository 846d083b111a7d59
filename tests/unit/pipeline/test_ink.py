"""Ink: strokes yes, pictures, rules, shadows and specks no."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.unit.pipeline.scripted import draw_lines

from gravityocr.document import Box
from gravityocr.pipeline.ink import ink_map


def close(box: Box, expected: tuple[int, int, int, int], slack: float = 10) -> bool:
    values = (box.x0, box.y0, box.x1, box.y1)
    return all(abs(a - b) <= slack for a, b in zip(values, expected, strict=True))


@pytest.mark.parametrize("colour", ["white", "black", "gray", (30, 60, 120)])
def test_an_even_page_is_blank(colour: object) -> None:
    assert ink_map(Image.new("RGB", (800, 1000), colour)).blank  # type: ignore[arg-type]


def test_a_noisy_scan_of_an_empty_page_is_blank() -> None:
    noise = np.random.default_rng(0).normal(235, 6, (1000, 800)).clip(0, 255).astype(np.uint8)
    assert ink_map(Image.fromarray(noise)).blank


def test_a_lone_page_number_is_not_blank() -> None:
    page = Image.new("RGB", (800, 1000), "white")
    ImageDraw.Draw(page).rectangle((400, 960, 402, 970), fill="black")
    ink = ink_map(page)
    assert not ink.blank
    bounds = ink.bounds()
    assert bounds is not None and close(bounds, (400, 960, 403, 971), 2)


def test_a_picture_is_no_text_but_not_blank_either() -> None:
    page = Image.new("RGB", (800, 1000), "white")
    page.paste((90, 40, 40), (100, 100, 600, 700))
    ink = ink_map(page)
    assert not ink.blank
    assert ink.bounds() is None


def test_paragraphs_are_two_blocks(two_paragraphs: Image.Image) -> None:
    blocks = ink_map(two_paragraphs).uncovered([])
    assert len(blocks) == 2
    assert close(blocks[0], (100, 100, 700, 300), 24)
    assert close(blocks[1], (100, 600, 700, 800), 24)


@pytest.mark.parametrize("scale", [1, 2, 4])
def test_blocks_come_in_page_pixels(two_paragraphs: Image.Image, scale: int) -> None:
    page = two_paragraphs.resize((800 * scale, 1000 * scale))
    blocks = ink_map(page).uncovered([Box(0, 0, 800 * scale, 450 * scale)])
    assert len(blocks) == 1
    expected = (100 * scale, 600 * scale, 700 * scale, 800 * scale)
    assert close(blocks[0], expected, 24 * scale)


def test_light_text_on_dark_paper_is_ink() -> None:
    page = Image.new("RGB", (800, 1000), (20, 40, 60))
    draw_lines(page, (100, 100, 700, 300), colour="white")
    (block,) = ink_map(page).uncovered([])
    assert close(block, (100, 100, 700, 300), 24)


def test_frames_rules_and_tinted_panels_are_not_ink(two_paragraphs: Image.Image) -> None:
    page = Image.new("RGB", (800, 1000), "white")
    draw = ImageDraw.Draw(page)
    draw.rectangle((50, 50, 750, 400), fill=(210, 225, 245), outline="black", width=2)
    draw.line((50, 500, 750, 500), fill="black", width=3)
    draw_lines(page, (100, 100, 700, 300))
    (block,) = ink_map(page).uncovered([])
    assert close(block, (100, 100, 700, 300), 24)


def test_the_dirty_edge_of_a_scan_is_dropped() -> None:
    page = Image.new("RGB", (800, 1000), "white")
    draw = ImageDraw.Draw(page)
    for top in range(100, 900, 30):
        draw.rectangle((792, top, 797, top + 24), fill="black")
    assert ink_map(page).uncovered([]) == []


def test_grown_reaches_the_end_of_cut_strokes_but_not_the_next_line(two_paragraphs: Image.Image) -> None:
    ink = ink_map(two_paragraphs)
    grown = ink.grown(Box(106, 103, 694, 110))
    assert grown.x0 <= 101 and 694 <= grown.x1 <= 709
    assert grown.y0 <= 101 and 113 <= grown.y1 < 124


def test_lined_tells_text_from_texture(two_paragraphs: Image.Image) -> None:
    assert ink_map(two_paragraphs).lined(Box(100, 100, 700, 300))
    noise = np.random.default_rng(0).integers(0, 2, (100, 80), dtype=np.uint8).repeat(5, 0).repeat(5, 1)
    page = Image.new("RGB", (800, 1000), "white")
    page.paste(Image.fromarray(noise * 255), (100, 100))
    ink = ink_map(page)
    assert not ink.lined(Box(100, 100, 500, 600))
    assert ink.lined(Box(100, 100, 500, 130))  # too low to tell
