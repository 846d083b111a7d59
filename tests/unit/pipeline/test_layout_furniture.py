"""Headers, footers and page numbers: kept where they stand outside the text, text where they do not."""

from __future__ import annotations

import pytest
from PIL import Image
from tests.unit.pipeline.scripted import ScriptedDetector, draw_lines

from gravityocr.document import Box, Label
from gravityocr.pipeline.layout import LayoutBox, LayoutConfig, find_regions
from gravityocr.pipeline.layout_furniture import believed, like_page_numbers

SIZE = (800, 1000)
Sides = tuple[float, float, float, float]
BODY: Sides = (100, 200, 700, 790)


def item(box: Sides, label: Label = "text") -> LayoutBox:
    return LayoutBox(Box(*box), label, label, 0.9)


def label_of(box: Sides, label: Label, *others: LayoutBox) -> str:
    checked = believed([*others, item(box, label)], SIZE)
    assert checked[:-1] == list(others)
    return checked[-1].label


@pytest.mark.parametrize(
    ("box", "label", "expected"),
    [
        ((390, 826, 410, 836), "footer", "footer"),  # a page number above a wide margin, as LaTeX sets it on A4
        ((390, 600, 410, 610), "footer", "text"),  # within the text
        ((390, 800, 410, 810), "footer", "text"),  # no farther off than the next line
        ((300, 826, 500, 840), "footer", "footer"),  # a line
        ((150, 826, 650, 840), "footer", "text"),  # a line as wide as the text
        ((300, 826, 500, 866), "footer", "text"),  # a paragraph
        ((150, 900, 650, 960), "footer", "footer"),  # at the edge all are believed
        ((300, 160, 500, 174), "header", "header"),
        ((300, 180, 500, 194), "header", "text"),
        ((300, 140, 500, 174), "header", "text"),  # a title
        ((100, 40, 700, 100), "header", "header"),
    ],
)
def test_furniture_is_believed_where_no_text_lies_beyond(box: Sides, label: Label, expected: str) -> None:
    assert label_of(box, label, item(BODY)) == expected


def test_text_beyond_or_beside_makes_it_text_and_other_furniture_does_not() -> None:
    number: Sides = (390, 826, 410, 836)
    assert label_of(number, "footer", item(BODY), item((100, 850, 700, 950))) == "text"
    assert label_of(number, "footer", item(BODY), item((500, 820, 700, 840))) == "text"
    others: tuple[Label, ...] = ("footer", "page_number", "logo", "aside")
    for label in others:
        assert label_of(number, "footer", item(BODY), item((300, 950, 500, 964), label)) == "footer"
    heading: Sides = (300, 160, 500, 174)
    assert label_of(heading, "header", item(BODY), item((100, 100, 700, 140), "title")) == "text"
    assert label_of(heading, "header", item(BODY), item((100, 100, 700, 114), "header")) == "header"


def test_a_number_ends_a_short_page_but_a_line_does_not() -> None:
    short = item((100, 200, 700, 500))
    assert label_of((390, 587, 410, 599), "footer", short) == "footer"
    assert label_of((300, 587, 500, 599), "footer", short) == "text"


def test_a_page_of_nothing_else_keeps_its_footer() -> None:
    assert label_of((390, 826, 410, 836), "footer") == "footer"


def numbers(*found: Sides, given: tuple[Sides, ...] = (BODY,)) -> list[bool]:
    return like_page_numbers([item(box) for box in found], [item(box) for box in given], SIZE)


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((395, 826, 405, 836), True),
        ((395, 800, 405, 810), False),  # no gap
        ((395, 826, 455, 836), False),  # too wide
        ((395, 826, 405, 860), False),  # too tall
        ((395, 165, 405, 175), True),
        ((395, 185, 405, 195), False),
        ((395, 400, 405, 410), False),
        ((395, 960, 405, 970), True),
    ],
)
def test_a_lone_small_block_outside_the_text_is_a_page_number(box: Sides, expected: bool) -> None:
    assert numbers(box) == [expected]


def test_blocks_that_are_not_alone_are_no_page_numbers() -> None:
    assert numbers() == []
    assert numbers((395, 826, 405, 836), (500, 826, 510, 836)) == [False, False]  # the axis of a chart
    assert numbers((395, 826, 405, 836), (300, 880, 500, 890)) == [False, False]
    assert numbers((395, 826, 405, 836), (395, 160, 405, 170)) == [True, True]
    assert numbers((395, 700, 405, 710), given=((100, 100, 700, 400),)) == [False]  # far inside the page
    assert numbers((395, 826, 405, 836), given=(BODY, (100, 860, 700, 880))) == [False]


def page_with_number(top: int) -> Image.Image:
    page = Image.new("RGB", SIZE, "white")
    draw_lines(page, (100, 200, 700, 790))
    draw_lines(page, (395, top, 412, top + 14))
    return page


@pytest.mark.parametrize("seen", [True, False])
def test_a_page_number_above_a_wide_margin_is_no_text(seen: bool) -> None:
    boxes = [item((95, 195, 705, 795))] + [item((392, 828, 412, 846), "footer")] * seen
    regions = find_regions(page_with_number(830), ScriptedDetector(boxes), LayoutConfig())
    assert [region.label for region in regions] == ["text", "footer" if seen else "page_number"]


def test_text_that_the_detector_missed_below_a_footer_makes_it_text() -> None:
    page = page_with_number(830)
    draw_lines(page, (100, 880, 700, 960))
    boxes = [item((95, 195, 705, 795)), item((392, 828, 412, 846), "footer")]
    assert {region.label for region in find_regions(page, ScriptedDetector(boxes), LayoutConfig())} == {"text"}


def test_a_trusted_detectors_labels_stay() -> None:
    class TrustedDetector(ScriptedDetector):
        trusted = True

    boxes = [item((95, 195, 705, 500), "header"), item((95, 510, 705, 795))]
    regions = find_regions(page_with_number(830), TrustedDetector(boxes), LayoutConfig())
    assert [region.label for region in regions] == ["header", "text", "page_number"]
