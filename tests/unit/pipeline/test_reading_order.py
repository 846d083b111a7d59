"""Reading order on drawn-up layouts: languages from left to right only, right-to-left columns are out of scope."""

from __future__ import annotations

import random
from dataclasses import replace

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


def columns(n_columns: int, n_rows: int, top: float = 100, bottom: float = 1300) -> list[LayoutBox]:
    """Draw equal columns named a, b, c... of as many paragraphs, whose gaps line up."""
    step, wide = (bottom - top) / n_rows, 900 / n_columns
    return [
        item(f"{'abcde'[c]}{r}", 50 + c * wide, top + r * step, 50 + (c + 1) * wide - 20, top + (r + 1) * step - 15)
        for c in range(n_columns)
        for r in range(n_rows)
    ]


def names(boxes: list[LayoutBox]) -> str:
    return " ".join(box.native_label for box in boxes)


@pytest.mark.parametrize("n_columns", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("n_rows", [1, 2, 7])
def test_equal_columns_read_one_after_another(n_columns: int, n_rows: int) -> None:
    assert order(columns(n_columns, n_rows)) == names(columns(n_columns, n_rows))


@pytest.mark.parametrize("label", ["title", "figure", "table", "text"])
def test_what_spans_all_columns_parts_them(label: Label) -> None:
    above, below = columns(3, 2, 100, 500), columns(3, 2, 800, 1300)
    wide = item("wide", 50, 520, 930, 780, label)
    assert order([*above, wide, *below]) == " ".join([names(above), "wide", names(below)])


def test_what_spans_two_of_three_columns_stands_with_those() -> None:
    boxes = [
        item("a", 50, 100, 330, 1300),
        item("b1", 350, 100, 630, 500),
        item("c1", 650, 100, 930, 480),
        item("wide", 350, 520, 930, 800, "figure"),
        item("b2", 350, 820, 630, 1300),
        item("c2", 650, 820, 930, 1290),
    ]
    assert order(boxes) == "a b1 c1 wide b2 c2"


def test_short_lines_below_each_other_are_no_columns() -> None:
    boxes = [
        item("text", 100, 100, 900, 200),
        item("formula", 400, 220, 700, 280, "formula"),
        item("therefore", 100, 290, 300, 320),
        item("right", 600, 330, 900, 360, "formula"),
        item("left", 100, 370, 350, 400),
    ]
    assert order(boxes) == "text formula therefore right left"


def test_what_stands_above_the_right_column_only_comes_first() -> None:
    boxes = [item("date", 650, 60, 930, 90), *columns(2, 3)]
    assert order(boxes) == "date " + names(columns(2, 3))


def test_a_right_column_that_begins_lower_is_a_column() -> None:
    boxes = [
        item("l1", 50, 100, 480, 300),
        item("l2", 50, 320, 480, 700),
        item("l3", 50, 720, 480, 1300),
        item("r1", 520, 330, 950, 900),
        item("r2", 520, 920, 950, 1300),
    ]
    assert order(boxes) == "l1 l2 l3 r1 r2"


def test_an_equation_number_at_a_columns_edge_does_not_break_the_columns() -> None:
    boxes = [
        item("l1", 50, 100, 480, 500),
        item("e", 150, 530, 330, 580, "formula"),
        item("n", 440, 540, 480, 570, "formula_number"),
        item("l2", 50, 600, 480, 1300),
        item("r1", 520, 100, 950, 480),
        item("r2", 520, 530, 640, 570),
        item("r3", 520, 600, 950, 1300),
    ]
    assert order(boxes) == "l1 e n l2 r1 r2 r3"


def test_a_caption_goes_with_its_picture() -> None:
    boxes = [
        item("f1", 50, 100, 450, 400, "figure"),
        item("c1", 150, 410, 350, 440, "caption"),
        item("f2", 500, 100, 950, 400, "figure"),
        item("c2", 600, 410, 800, 440, "caption"),
        item("f3", 50, 460, 450, 700, "figure"),
        item("c3", 150, 710, 350, 740, "caption"),
        item("f4", 500, 460, 950, 700, "figure"),
        item("c4", 600, 710, 800, 740, "caption"),
        item("text", 50, 800, 950, 1300),
    ]
    result = order(boxes).split()
    assert result[-1] == "text"
    assert [result.index(f"c{k}") - result.index(f"f{k}") for k in (1, 2, 3, 4)] == [1, 1, 1, 1]


def test_a_caption_between_a_figure_and_a_table_is_that_of_the_nearer() -> None:
    table = item("table", 520, 300, 950, 600, "table")
    boxes = [
        item("figure", 50, 100, 480, 250, "figure"),
        item("near", 60, 255, 470, 275, "caption"),
        item("head", 530, 270, 940, 290, "caption"),
        table,
        item("l", 50, 300, 480, 1300),
        item("r", 520, 620, 950, 1300),
    ]
    assert order(boxes) == "figure near l head table r"


def test_a_short_text_below_pictures_side_by_side_comes_after_both() -> None:
    boxes = [
        item("f1", 50, 100, 480, 400, "figure"),
        item("f2", 520, 100, 950, 400, "figure"),
        item("therefore", 50, 430, 300, 460),
        item("text", 50, 480, 950, 700),
    ]
    assert order(boxes) == "f1 f2 therefore text"


def test_a_line_above_some_pictures_of_a_row_comes_before_all() -> None:
    row = [item(f"f{k}", 50 + 300 * k, 140, 330 + 300 * k, 300, "figure") for k in range(3)]
    boxes = [item("head", 50, 100, 500, 130), *row, item("next", 50, 320, 500, 350), item("text", 50, 370, 930, 600)]
    assert order(boxes) == "head f0 f1 f2 next text"


def test_footnotes_of_both_columns_come_after_the_text_that_goes_on() -> None:
    boxes = [
        item("l", 50, 100, 480, 1200),
        item("note1", 50, 1220, 480, 1300, "footnote"),
        item("r", 520, 100, 950, 1240),
        item("note2", 520, 1250, 950, 1300, "footnote"),
        item("number", 480, 1340, 510, 1360, "page_number"),
    ]
    assert order(boxes) == "l r note1 note2 number"


@pytest.mark.parametrize("below", [True, False])
def test_the_note_of_a_table_stays_with_it(below: bool) -> None:
    boxes = [
        item("table", 50, 900, 480, 1200, "table"),
        item("note", 50, 1205, 480, 1230, "footnote"),
        item("l", 50, 100, 480, 880),
        item("r", 520, 100, 950, 1300),
    ]
    boxes += [item("after", 50, 1240, 480, 1300)] if below else []
    assert order(boxes) == "l table note after r" if below else "l table note r"


@pytest.mark.parametrize("label", ["aside", "text"])
@pytest.mark.parametrize("x", [(20, 150), (860, 990)])
def test_a_note_in_the_margin_comes_after_the_paragraph_beside_it(label: Label, x: tuple[float, float]) -> None:
    boxes = [item(f"p{k}", 170, 100 + 300 * k, 840, 390 + 300 * k) for k in range(4)]
    boxes += [item("n1", x[0], 420, x[1], 480, label), item("n2", x[0], 680, x[1], 800, label)]
    assert order(boxes) == "p0 p1 n1 p2 n2 p3"


def test_a_note_beside_two_columns_goes_with_the_nearer_one() -> None:
    boxes = [
        item("l1", 50, 100, 430, 600),
        item("l2", 50, 620, 430, 1300),
        item("r1", 460, 100, 840, 600),
        item("r2", 460, 620, 840, 1300),
        item("note", 860, 300, 980, 380, "aside"),
    ]
    assert order(boxes) == "l1 l2 r1 note r2"


def test_a_full_side_column_is_a_column_and_an_upright_stamp_comes_last() -> None:
    side = [item(f"s{k}", 840, 100 + 400 * k, 990, 480 + 400 * k) for k in range(3)]
    text = [item(f"p{k}", 50, 100 + 300 * k, 800, 390 + 300 * k) for k in range(4)]
    assert order([*side, *text]) == names([*text, *side])
    stamp = item("stamp", 10, 300, 40, 900, "aside")
    assert order([stamp, *text]) == names([*text, stamp])


def test_section_numbers_in_the_left_margin_come_before_their_titles() -> None:
    boxes = [
        item("1", 30, 100, 60, 125),
        item("title", 100, 100, 500, 130, "title"),
        item("text", 100, 150, 900, 600),
        item("2", 30, 620, 60, 645),
        item("next", 100, 620, 500, 650, "title"),
        item("end", 100, 670, 900, 900),
    ]
    assert order(boxes) == "1 title text 2 next end"


@pytest.mark.parametrize("slope", [0.012, -0.012])
def test_columns_of_a_page_that_lies_askew(slope: float) -> None:
    straight = columns(2, 6, 60, 1340)
    askew = [
        item(
            one.native_label,
            min(one.box.x0 - slope * one.box.y0, one.box.x0 - slope * one.box.y1),
            min(one.box.y0 + slope * one.box.x0, one.box.y0 + slope * one.box.x1),
            max(one.box.x1 - slope * one.box.y0, one.box.x1 - slope * one.box.y1),
            max(one.box.y1 + slope * one.box.x0, one.box.y1 + slope * one.box.x1),
        )
        for one in straight
    ]
    assert order(askew) == names(straight)


def test_the_detectors_own_order_is_kept_and_others_are_put_in() -> None:
    boxes = [
        replace(item("l", 50, 100, 480, 600), order=7),
        replace(item("r", 520, 100, 950, 600), order=3),
        item("missed", 50, 620, 480, 700),
        replace(item("head", 50, 20, 480, 40, "header"), order=9),
        item("first", 50, 50, 950, 80),
    ]
    assert order(boxes) == "head first r l missed"


@pytest.mark.parametrize("n_boxes", [60, 400])
def test_many_identical_boxes_end(n_boxes: int) -> None:
    boxes = [item(str(k), 10, 10, 500, 500) for k in range(n_boxes)]
    assert len(reading_order(boxes, SIZE)) == n_boxes


@given(
    st.lists(
        st.tuples(
            st.integers(0, 900), st.integers(0, 1300), st.integers(1, 500), st.integers(1, 400),
            st.sampled_from(["text", "title", "header", "footer", "figure", "caption", "footnote", "aside", "table"]),
            st.sampled_from([None, None, None, 0, 1, 2]),
        ),
        max_size=14,
    ),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_every_box_comes_once_and_input_order_is_free(
    raw: list[tuple[int, int, int, int, Label, int | None]], shuffle: random.Random
) -> None:
    boxes = [
        replace(item(str(k), x, y, x + w, y + h, label), order=place)
        for k, (x, y, w, h, label, place) in enumerate(raw)
    ]
    result = reading_order(boxes, SIZE)
    assert sorted(box.native_label for box in result) == sorted(box.native_label for box in boxes)
    shuffle.shuffle(boxes)
    assert reading_order(boxes, SIZE) == result


@given(
    st.integers(2, 4),
    st.lists(st.lists(st.integers(20, 300), min_size=1, max_size=6), min_size=4, max_size=4),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_clean_columns_never_interleave(
    n_columns: int, heights: list[list[int]], titled: bool, shuffle: random.Random
) -> None:
    """Draw columns of any paragraphs that fill the page alike, under a title that spans them or not."""
    wide = 900 / n_columns
    boxes = [item("title", 60, 20, 940, 60, "title")] if titled else []
    for column, parts in enumerate(heights[:n_columns]):
        y, scale = 80.0, 1200 / sum(parts)
        for row, part in enumerate(parts):
            x = 50 + column * wide
            boxes.append(item(f"{column}-{row}", x, y, x + wide - 30, y + scale * part - 8))
            y += scale * part
    expected = names(boxes)
    shuffle.shuffle(boxes)
    assert names(reading_order(boxes, SIZE)) == expected
