"""Boxes and documents."""

import math

import pytest

from gravityocr.document import Box, Document, Page, Region


def test_box_measures() -> None:
    box = Box(2, 3, 6, 5)
    assert (box.width, box.height, box.area) == (4, 2, 8)
    assert Box(6, 3, 2, 5).area == 0  # inverted
    assert box.intersection(Box(4, 4, 9, 9)) == 2
    assert box.intersection(Box(7, 7, 9, 9)) == 0
    assert box.iou(Box(2, 3, 6, 7)) == pytest.approx(0.5)
    assert Box(4, 4, 6, 5).inside(box) == 1
    assert box.union(Box(0, 4, 3, 9)) == Box(0, 3, 6, 9)


def test_two_negative_overlaps_are_no_overlap() -> None:
    assert Box(0, 0, 1, 1).intersection(Box(5, 5, 6, 6)) == 0


@pytest.mark.parametrize(
    "box",
    [
        Box(math.nan, 0, 5, 5),
        Box(0, 0, 5, math.nan),
        Box(5, 5, 5, 9),  # no width
        Box(9, 0, 2, 5),  # inverted
        Box(200, 10, 300, 20),  # off the page
        Box(-9, -9, -1, -1),
    ],
)
def test_unusable_boxes_clamp_to_none(box: Box) -> None:
    assert box.clamp((100, 50)) is None


def test_clamp_keeps_the_part_on_the_page() -> None:
    assert Box(-5, -1, 120, 20).clamp((100, 50)) == Box(0, 0, 100, 20)
    assert Box(0, 0, math.inf, math.inf).clamp((100, 50)) == Box(0, 0, 100, 50)


def test_pixels_contain_the_box_and_stay_on_the_page() -> None:
    assert Box(1.2, 2.9, 3.1, 4.0).pixels((100, 50)) == (1, 2, 4, 4)
    assert Box(-3.5, 0.0, 100.4, 50.9).pixels((100, 50)) == (0, 0, 100, 50)


def test_per_mille_is_of_width_and_height() -> None:
    assert Box(50, 50, 100, 100).per_mille((200, 400)) == (250, 125, 500, 250)
    assert Box(-1, 0, 201, 400).per_mille((200, 400)) == (0, 0, 1000, 1000)


def test_document_joins_pages_and_counts_status() -> None:
    box = Box(0, 0, 9, 9)
    regions = (
        Region(0, "text", "text", "text", box),
        Region(1, "table", "table", "table", box, status="skipped"),
        Region(2, "text", "text", "text", box),
    )
    pages = (
        Page(0, (9, 9), regions, markdown="one\n"),
        Page(1, (9, 9), markdown=""),
        Page(2, (9, 9), markdown="three\n"),
    )
    document = Document("a.pdf", "ok", pages)
    assert document.markdown == "one\n\nthree\n"
    assert document.n_regions == 3
    assert document.status_counts() == {"ok": 2, "skipped": 1}
    assert Document("b.pdf", "failed").markdown == ""
