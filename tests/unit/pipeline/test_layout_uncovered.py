"""Cut-off text finds its way home, and thousands of boxes do not take minutes."""

from __future__ import annotations

import random
import time

import pytest
from PIL import Image, ImageDraw
from tests.unit.pipeline.scripted import ScriptedDetector, draw_lines

from gravityocr.document import Box, Label
from gravityocr.pipeline.layout import LayoutBox, LayoutConfig, find_regions
from gravityocr.pipeline.layout_box import areas, edges, intersections, runs_into


def item(box: tuple[float, float, float, float], label: Label = "text") -> LayoutBox:
    return LayoutBox(Box(*box), label, label, 0.9)


def test_many_boxes_are_compared_as_two_are() -> None:
    source = random.Random(0)
    corners = [(source.uniform(0, 90), source.uniform(0, 90)) for _ in range(40)]
    items = [item((x, y, x + source.uniform(-5, 60), y + source.uniform(0, 60))) for x, y in corners]
    rows = edges(items)
    assert areas(rows).tolist() == [other.box.area for other in items]
    for one in items:
        assert intersections(one.box, rows).tolist() == [one.box.intersection(other.box) for other in items]
    assert edges([]).shape == (0, 4) and intersections(items[0].box, edges([])).tolist() == []


def test_a_box_runs_into_others_but_not_into_itself() -> None:
    rows = edges([item((0, 0, 100, 20)), item((110, 0, 200, 20))])
    assert not runs_into(Box(0, 0, 108, 20), 0, rows)
    assert runs_into(Box(0, 0, 130, 20), 0, rows)
    assert not runs_into(Box(0, 0, 100, 20), 0, rows[:1])


def test_pieces_go_home_one_after_the_other() -> None:
    page = Image.new("RGB", (800, 1000), "white")
    for left in (102, 186, 270):  # each joins the one to its right, which comes later
        draw_lines(page, (left, 100, left + 72, 200))
    draw_lines(page, (354, 100, 702, 200))
    draw_lines(page, (354, 400, 702, 500))
    near, far = item((354, 98, 704, 200)), item((350, 398, 704, 500))
    regions = find_regions(page, ScriptedDetector([near, far]), LayoutConfig())
    assert len(regions) == 2 and regions[0].box.x0 <= 102 and regions[1].box == far.box


@pytest.mark.parametrize("covered", [True, False])
def test_thousands_of_boxes_are_a_matter_of_seconds(covered: bool) -> None:
    page = Image.new("RGB", (1000, 1000), "white")
    draw = ImageDraw.Draw(page)
    places = [(x, y) for y in range(10, 985, 20) for x in range(10, 985, 24)]
    for x, y in places:
        draw.rectangle((x, y, x + 3, y + 7), fill="black")
    # beside the marks, or around them: the marks are then cut off from their boxes, or theirs
    boxes = [item((x - 2, y - 2, x + 10, y + 10) if covered else (x + 6, y, x + 9, y + 4)) for x, y in places]
    started = time.process_time()
    regions = find_regions(page, ScriptedDetector(boxes), LayoutConfig())
    assert len(places) > 2000 and len(regions) >= len(places)
    assert time.process_time() - started < 10  # box by box it is a minute
