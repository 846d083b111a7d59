"""Reading order on drawn-up layouts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravityocr.document import Box, Label
from gravityocr.pipeline.layout import LayoutBox
from gravityocr.pipeline.reading_order import reading_order

SIZE = (1000, 1400)


def item(name: str, x0: float, y0: float, x1: float, y1: float, label: Label = "text") -> LayoutBox:
    return LayoutBox(Box(x0, y0, x1, y1), label, name)


def order(boxes: list[LayoutBox]) -> str:
    names = " ".join(box.native_label for box in reading_order(boxes, SIZE))
    for seed in range(3):  # the order in which boxes come must not matter
        shuffled = boxes[:]
        random.Random(seed).shuffle(shuffled)
        assert " ".join(box.native_label for box in reading_order(shuffled, SIZE)) == names
    return names


def test_nothing_and_one() -> None:
    assert order([]) == ""
    assert order([item("a", 0, 0, 9, 9)]) == "a"


def test_one_column_reads_down() -> None:
    boxes = [item(name, 100, y, 900, y + 80) for name, y in (("a", 100), ("b", 200), ("c", 300))]
    assert order(boxes) == "a b c"


def test_title_spans_two_columns_and_paragraph_gaps_line_up() -> None:
    boxes = [
        item("title", 200, 50, 800, 100, "title"),
        item("l1", 50, 150, 480, 400),
        item("l2", 50, 420, 480, 800),
        item("l3", 50, 820, 480, 1300),
        item("r1", 520, 150, 950, 400),
        item("r2", 520, 420, 950, 800),
        item("r3", 520, 820, 950, 1300),
    ]
    assert order(boxes) == "title l1 l2 l3 r1 r2 r3"


def test_a_wide_figure_between_two_column_parts() -> None:
    boxes = [
        item("l1", 50, 100, 480, 400),
        item("r1", 520, 100, 950, 390),
        item("wide", 50, 450, 950, 800, "figure"),
        item("caption", 300, 810, 700, 840, "caption"),
        item("l2", 50, 900, 480, 1300),
        item("r2", 520, 900, 950, 1300),
    ]
    assert order(boxes) == "l1 r1 wide caption l2 r2"


def test_three_columns() -> None:
    boxes = [
        item(f"{name}{row}", x, 100 + 300 * row, x + 280, 380 + 300 * row)
        for name, x in (("a", 30), ("b", 350), ("c", 670))
        for row in range(3)
    ]
    assert order(boxes) == "a0 a1 a2 b0 b1 b2 c0 c1 c2"


def test_headers_first_footers_and_page_numbers_last() -> None:
    boxes = [
        item("number", 480, 1350, 520, 1380, "page_number"),
        item("footer", 100, 1350, 300, 1380, "footer"),
        item("body", 100, 100, 900, 1300),
        item("right", 700, 20, 900, 40, "header"),
        item("left", 100, 20, 300, 40, "header"),
    ]
    assert order(boxes) == "left right body footer number"


def test_equation_numbers_stay_with_their_equations() -> None:
    boxes = [
        item("t1", 100, 100, 700, 150),
        item("e1", 300, 170, 600, 220, "formula"),
        item("n1", 850, 180, 900, 210),
        item("t2", 100, 240, 500, 270),
        item("e2", 300, 290, 600, 340, "formula"),
        item("n2", 850, 300, 900, 330),
        item("t3", 100, 360, 900, 500),
    ]
    assert order(boxes) == "t1 e1 n1 t2 e2 n2 t3"


def test_cards_in_a_grid_read_row_by_row() -> None:
    boxes = [
        item("a1", 50, 100, 480, 140, "title"),
        item("a2", 50, 150, 480, 300),
        item("b1", 520, 100, 950, 140, "title"),
        item("b2", 520, 150, 950, 280),
        item("c1", 50, 360, 480, 400, "title"),
        item("c2", 50, 410, 480, 500),
        item("d1", 520, 360, 950, 400, "title"),
        item("d2", 520, 410, 950, 600),
    ]
    assert order(boxes) == "a1 a2 b1 b2 c1 c2 d1 d2"


def test_slightly_overlapping_boxes_still_have_gaps() -> None:
    boxes = [
        item("l1", 50, 100, 504, 405),
        item("l2", 50, 400, 503, 800),
        item("r1", 500, 100, 950, 600),
        item("r2", 500, 596, 950, 800),
    ]
    assert order(boxes) == "l1 l2 r1 r2"


def test_boxes_without_any_gap_are_divided_by_the_widest() -> None:
    boxes = [
        item("top", 100, 100, 500, 320),
        item("wide", 100, 260, 900, 640),
        item("bottom", 450, 580, 900, 900),
    ]
    assert order(boxes) == "top wide bottom"


@pytest.mark.parametrize("n_boxes", [60])
def test_many_identical_boxes_end(n_boxes: int) -> None:
    boxes = [item(str(k), 10, 10, 500, 500) for k in range(n_boxes)]
    assert len(reading_order(boxes, SIZE)) == n_boxes


@given(
    st.lists(
        st.tuples(
            st.integers(0, 900), st.integers(0, 1300), st.integers(1, 500), st.integers(1, 400),
            st.sampled_from(["text", "title", "header", "footer", "figure"]),
        ),
        max_size=14,
    ),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_every_box_comes_once_and_input_order_is_free(
    raw: list[tuple[int, int, int, int, Label]], shuffle: random.Random
) -> None:
    boxes = [item(str(k), x, y, x + w, y + h, label) for k, (x, y, w, h, label) in enumerate(raw)]
    result = reading_order(boxes, SIZE)
    assert sorted(box.native_label for box in result) == sorted(box.native_label for box in boxes)
    shuffle.shuffle(boxes)
    assert reading_order(boxes, SIZE) == result
