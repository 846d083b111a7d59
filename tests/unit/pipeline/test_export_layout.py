"""Drawn pages: outlines where the regions are, names that can be read at any size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from PIL import Image, ImageChops
from tests.unit.pipeline.export_documents import SIZE_PX, page_image, rich_document

from gravityocr.document import Box, Label, Page, Region
from gravityocr.pipeline.export.layout import COLOURS, draw_layout
from gravityocr.pipeline.exports import DocumentWriter


def page_of(*regions: Region, size_px: tuple[int, int] = SIZE_PX) -> Page:
    return Page(0, size_px, regions)


def test_every_label_has_a_colour() -> None:
    assert set(COLOURS) == set(get_args(Label))


def test_outlines_are_where_the_regions_are_whatever_the_picture_s_size() -> None:
    region = Region(3, "table", "table", "table", Box(200, 400, 600, 800))
    for size in ((800, 1000), (1600, 2000)):
        blank = Image.new("RGB", size, "white")
        drawn = draw_layout(blank, page_of(region))
        assert drawn.size == size
        changed = ImageChops.difference(drawn, blank).getbbox()
        scale = size[0] / 800
        assert changed is not None
        assert changed[0] == pytest.approx(200 * scale, abs=6) and changed[2] == pytest.approx(600 * scale, abs=6)
        assert changed[3] == pytest.approx(800 * scale, abs=6)
        edge = drawn.getpixel((round(200 * scale), round(700 * scale)))
        assert edge == COLOURS["table"]


def test_a_small_page_is_enlarged_and_a_name_stays_inside_the_page() -> None:
    region = Region(0, "text", "text", "text", Box(55, 0, 60, 80))
    drawn = draw_layout(Image.new("RGB", (60, 80), "white"), page_of(region, size_px=(60, 80)))
    assert drawn.size == (750, 1000)
    assert drawn.crop((300, 0, 740, 25)).getextrema()[0][0] < 40  # the name, moved to the left


def test_a_failed_region_is_crossed_out() -> None:
    sound = Region(0, "text", "text", "text", Box(100, 100, 700, 900))
    failed = replace(sound, status="failed", error="lost")
    blank = Image.new("RGB", SIZE_PX, "white")
    centre = [draw_layout(blank, page_of(region)).getpixel((400, 500)) for region in (sound, failed)]
    assert centre[0] != (224, 49, 49) == centre[1]


def test_an_outline_of_its_own_is_drawn_instead_of_the_box() -> None:
    slanted = Region(
        0, "text", "text", "text", Box(100, 100, 700, 900), polygon=((100, 500), (400, 100), (700, 500), (400, 900))
    )
    drawn = draw_layout(Image.new("RGB", SIZE_PX, "white"), page_of(slanted))
    assert drawn.getpixel((690, 890)) == (255, 255, 255)  # the box's corner
    assert drawn.getpixel((250, 300)) != (255, 255, 255)


def test_pages_of_an_earlier_run_go_and_foreign_files_stay(tmp_path: Path) -> None:
    document = rich_document()
    for pages in (document.pages, document.pages[:1]):
        writer = DocumentWriter(tmp_path / "paper", ["layout"])
        writer.save_page(0, page_image())
        paths = writer.finish(replace(document, pages=pages))
        assert len(paths) == len(pages)
        (tmp_path / "paper/layout/mine.txt").write_text("x")
    assert sorted(path.name for path in (tmp_path / "paper/layout").iterdir()) == ["mine.txt", "page0001.jpg"]
