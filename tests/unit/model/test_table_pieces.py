"""Pieces of tables: complete and legible, of the trained sizes, and joined to one valid table."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from gravityocr.errors import ConfigError, InputError
from gravityocr.model.table_markup import Written, without_overlaps
from gravityocr.model.table_pieces import (
    Fragment,
    GridCell,
    TablePiece,
    TablePieceSpec,
    join_table,
    piece_markup,
    split_table,
)

SPEC = TablePieceSpec(max_width_px=640, max_rows=8, max_strips=6)
SIZE = 20


def table(rows: list[list[str]], lefts: list[int], pitch: int = 44, width: int = 0) -> Image.Image:
    font = ImageFont.load_default(SIZE)
    width = width or lefts[-1] + 140
    image = Image.new("L", (width, pitch * len(rows) + 8), 255)
    draw = ImageDraw.Draw(image)
    for i, row in enumerate(rows):
        for x, text in zip(lefts, row, strict=True):
            draw.text((x, 30 + i * pitch), text, font=font, fill=0, anchor="ls")
    return image


def numbers(n_rows: int, n_columns: int) -> Image.Image:
    rows = [[f"{r * 7 + c * 3 + 10}.{c}5" for c in range(n_columns)] for r in range(n_rows)]
    return table(rows, [14 + 110 * c for c in range(n_columns)])


def blank_piece(cells: list[GridCell], rows: range, columns: range) -> TablePiece:
    return TablePiece(Image.new("L", (64, 32), 255), tuple(cells), (), rows, columns)


def square(n_rows: int, n_columns: int) -> TablePiece:
    cells = [GridCell(r, c, 1, 1) for r in range(n_rows) for c in range(n_columns)]
    return blank_piece(cells, range(n_rows), range(n_columns))


def covered(fragments: tuple[Fragment, ...], dark: np.ndarray) -> np.ndarray:
    """Return the mask less everything that some fragment was copied from."""
    rest = dark.copy()
    for f in fragments:
        left, top, right, bottom = f.source
        rest[max(0, int(top)) : int(np.ceil(bottom)) + 1, max(0, int(left)) : int(np.ceil(right)) + 1] = False
    return rest


def test_pieces_have_the_trained_sizes() -> None:
    for image in (numbers(9, 3), numbers(5, 12), table([["word " * 30, "x"]] * 3, [14, 1700])):
        pieces = split_table(image, SPEC)
        for piece in pieces:
            assert piece.image.mode == "L"
            assert piece.image.width % SPEC.width_step_px == 0 and piece.image.width <= SPEC.max_width_px
            assert piece.image.height % SPEC.line_height_px == 0
            assert piece.image.height <= SPEC.max_strips * SPEC.line_height_px or len(piece.rows) == 1


def test_every_cell_is_in_one_piece_and_all_ink_is_copied() -> None:
    image = numbers(7, 8)
    pieces = split_table(image, SPEC)
    cells = [cell for piece in pieces for cell in piece.cells]
    assert sorted((c.row, c.column) for c in cells) == [(r, c) for r in range(7) for c in range(8)]
    rest = np.asarray(image) < 128
    for piece in pieces:
        rest = covered(piece.fragments, rest)
    assert not rest.any()


def test_fragments_say_where_ink_went() -> None:
    image = numbers(4, 4)
    grey = np.asarray(image)
    for piece in split_table(image, SPEC):
        drawn = np.asarray(piece.image)
        for f in piece.fragments:
            left, top, right, bottom = f.source
            y, x = np.nonzero(grey[int(top) : int(bottom), int(left) : int(right)] < 60)
            to_x = ((x + int(left) + 0.5 - left) * f.scale + f.place[0]).astype(int)
            to_y = ((y + int(top) + 0.5 - top) * f.scale + f.place[1]).astype(int)
            assert len(x) > 20
            assert (drawn[to_y.clip(0, drawn.shape[0] - 1), to_x] < 170).mean() > 0.9


def test_text_has_the_trained_height_and_no_rule_runs_through_it() -> None:
    (piece, *_) = split_table(table([["Hpd", "dpl"], ["lpd", "bpq"]], [14, 140]), SPEC)
    pixels = np.asarray(piece.image)
    f = next(f for f in piece.fragments if piece.cells[f.cell] == GridCell(1, 1, 1, 1))
    width = round((f.source[2] - f.source[0]) * f.scale)
    strip = pixels[int(f.place[1]) : int(f.place[1]) + 32, int(f.place[0]) : int(f.place[0]) + width]
    rows = np.flatnonzero((strip[2:-2] < 128).any(axis=1))
    assert 22 <= rows[-1] - rows[0] + 1 <= 27


def test_cells_are_ruled_and_spans_are_ticked() -> None:
    image = table([["Everything that was measured", ""], ["a1 b1", "c1 d1"], ["a2 b2", "c2 d2"]], [14, 190])
    (piece,) = split_table(image, SPEC)
    assert piece.cells[0] == GridCell(0, 0, 1, 2)
    pixels = np.asarray(piece.image) < 128
    right = int(np.flatnonzero(pixels[:, : piece.image.width].any(axis=0))[-1])
    for y in (0, 31, 63, 95):
        assert pixels[y, : right + 1].all()
    borders = [x for x in range(2, right - 2) if pixels[32:96, x].all()]
    assert borders and pixels[0:3, borders[0]].all() and pixels[29:32, borders[0]].all()
    assert not pixels[4:28, borders[0]].all()
    assert not pixels[:, right + 1 :].any()


def test_a_line_too_long_for_a_piece_is_set_in_several_strips() -> None:
    text = "some words that go on and on until nobody would want to read any more of them today"
    pieces = split_table(table([[text, "12"], ["short", "34"]], [14, 900]), SPEC)
    lines = {f.line for piece in pieces for f in piece.fragments if piece.cells[f.cell] == GridCell(0, 0, 1, 1)}
    assert lines == set(range(len(lines))) and len(lines) >= 2


def test_nothing_written_gives_nothing() -> None:
    for image in (Image.new("L", (300, 200), 255), Image.new("L", (300, 200), 0), Image.new("L", (1, 1), 0)):
        assert split_table(image, SPEC) == []
    assert join_table([], []) == ""


def test_splitting_is_deterministic_and_large_crops_take_seconds() -> None:
    rows = [[f"alpha {r}.{c} beta" for c in range(10)] for r in range(90)]
    image = table(rows, [14 + 295 * c for c in range(10)], width=3000)
    start = time.process_time()
    first = split_table(image, SPEC)
    assert time.process_time() - start < 12.0  # three seconds on an idle machine
    assert {(c.row, c.column) for piece in first for c in piece.cells} == {(r, c) for r in range(90) for c in range(10)}
    small = numbers(6, 5)
    once, again = split_table(small, SPEC), split_table(small, SPEC)
    assert [p.image.tobytes() for p in once] == [p.image.tobytes() for p in again]
    assert [p.fragments for p in once] == [p.fragments for p in again]


def test_what_the_labels_say_joins_to_the_table() -> None:
    image = numbers(6, 9)
    pieces = split_table(image, SPEC)
    assert len({piece.columns for piece in pieces}) > 1
    texts = [piece_markup(piece, [f"{c.row},{c.column}" for c in piece.cells]) for piece in pieces]
    rows = "".join("<tr>" + "".join(f"<td>{r},{c}</td>" for c in range(9)) + "</tr>" for r in range(6))
    assert join_table(texts, pieces) == f"<table>{rows}</table>"


def test_markup_of_a_piece_names_the_spans_inside_it() -> None:
    piece = blank_piece([GridCell(0, 0, 1, 3), GridCell(1, 0, 3, 1), GridCell(1, 1, 1, 1)], range(0, 2), range(0, 2))
    assert piece_markup(piece, ["a", "b", "$x^{2}$"]) == (
        '<tr><td colspan="2">a</td></tr><tr><td>b</td><td>$x^{2}$</td></tr>'
    )
    with pytest.raises(InputError, match="2 texts for 3 cells"):
        piece_markup(piece, ["a", "b"])
    more = blank_piece([GridCell(1, 2, 1, 1)], range(0, 2), range(2, 3))
    below = blank_piece([GridCell(2, 1, 1, 2), GridCell(3, 1, 1, 2)], range(2, 4), range(0, 3))
    texts = [piece_markup(piece, ["a", "b", "c"]), piece_markup(more, ["d"]), piece_markup(below, ["e", "f"])]
    head = '<table><tr><td colspan="3">a</td></tr><tr>'
    tail = '<tr><td colspan="2">e</td></tr><tr><td colspan="2">f</td></tr></table>'
    joined = join_table(texts, [piece, more, below])
    assert joined == f'{head}<td rowspan="3">b</td><td>c</td><td>d</td></tr>{tail}'
    assert join_table(texts[:2], [piece, more]) == f"{head}<td>b</td><td>c</td><td>d</td></tr></table>", "no row below"


@pytest.mark.parametrize(
    ("rows", "spans"),
    [
        ([[(9, 1), (1, 1)], [(1, 9)]], [[(2, 1), (1, 1)], [(1, 9)]]),
        ([[(1, 1), (3, 1)], [(1, 2)], [(1, 1)]], [[(1, 1), (3, 1)], [(1, 1)], [(1, 1)]]),
        ([[(2, 2)], [(2, 1)], [(1, 1)]], [[(2, 2)], [(2, 1)], [(1, 1)]]),
    ],
)
def test_spans_stay_in_the_table_and_off_each_other(
    rows: list[list[tuple[int, int]]], spans: list[list[tuple[int, int]]]
) -> None:
    settled = without_overlaps([[Written("x", *span) for span in row] for row in rows])
    assert [[(cell.n_rows, cell.n_columns) for cell in row] for row in settled] == spans


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<tr><td>a<td>b</tr><tr><td>c</td><td>d", "<tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr>"),
        ("<tr><td>a</td><td>b</td><td>c</td><td>d</td>", "<tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr>"),
        ("a < b & c", "<tr><td>a &lt; b &amp; c</td><td></td></tr><tr><td></td><td></td></tr>"),
        ("", "<tr><td></td><td></td></tr><tr><td></td><td></td></tr>"),
        (
            "<tr><td>a</td></tr><tr><td>b</td></tr><tr><td>c</td></tr>",
            "<tr><td>a</td><td></td></tr><tr><td>b</td><td></td></tr><tr><td>c</td></tr>",
        ),
        ("<tr><td colspan=\"9", "<tr><td></td><td></td></tr><tr><td></td><td></td></tr>"),
    ],
)  # fmt: skip
def test_faulty_markup_keeps_its_texts(text: str, expected: str) -> None:
    assert join_table([text], [square(2, 2)]) == f"<table>{expected}</table>"


TOKENS = ["<tr>", "</tr>", "<td>", "</td>", "<td", ' colspan="', ' rowspan="', '"', ">", "7", "word", "&", "<", "$x^2$"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.sampled_from(TOKENS), max_size=25).map("".join), min_size=3, max_size=3))
def test_joining_is_total(texts: list[str]) -> None:
    pieces = [square(2, 2), square(2, 2), square(1, 3)]
    html = join_table(texts, pieces)
    assert html.count("word") == sum(t.count("word") for t in map(_outside_tags, texts))
    assert html.count("<td") == html.count("</td>") and html.count("<tr>") == html.count("</tr>")
    text = re.sub(r"</?table>|</?tr>|<td( colspan=\"\d+\")?( rowspan=\"\d+\")?>|</td>", "", html)
    assert "<" not in text and ">" not in text.replace("&gt;", "")


def _outside_tags(text: str) -> str:
    return re.sub(r"</?t[rd]\b[^<>]*>|<td\b[^<>]*$", "", text)


def test_a_row_taller_than_any_piece_is_continued() -> None:
    rows = [["Label", "x"]] + [["", f"line {i} of it"] for i in range(29)]
    image = table([["Head", "Text"]], [14, 140], pitch=60)
    tall = table(rows, [14, 140], pitch=26)
    both = Image.new("L", (max(image.width, tall.width), image.height + tall.height), 255)
    both.paste(image, (0, 0))
    both.paste(tall, (0, image.height))
    pieces = split_table(both, SPEC)
    continued = [piece for piece in pieces if GridCell(1, 1, 1, 1) in piece.cells]
    assert len(continued) == 5
    assert all(piece.image.height <= 6 * 32 for piece in pieces)
    texts = [piece_markup(piece, ["part"] * len(piece.cells)) for piece in pieces]
    assert join_table(texts, pieces).count("part part part part part") == 2


def test_a_bad_spec_is_refused() -> None:
    for wrong in ({"width_step_px": 100}, {"line_ink_px": 32}, {"line_height_px": 30}, {"max_strips": 0}):
        with pytest.raises(ConfigError, match="table_pieces"):
            TablePieceSpec(**wrong)


def test_each_piece_needs_a_text() -> None:
    with pytest.raises(InputError, match="1 texts for 2 pieces"):
        join_table(["a"], [square(1, 1), square(1, 1)])


def test_rows_come_one_by_one_but_for_those_that_a_cell_spans() -> None:
    pieces = split_table(numbers(4, 3), TablePieceSpec())
    assert [piece.rows for piece in pieces] == [range(i, i + 1) for i in range(4)]
    image = Image.new("L", (330, 130), 255)
    draw = ImageDraw.Draw(image)
    for x in (4, 130, 225, 320):
        draw.line([(x, 4), (x, 124)], fill=0, width=2)
    for y, left in ((4, 4), (44, 130), (84, 4), (124, 4)):  # the first cell spans two rows
        draw.line([(left, y), (320, y)], fill=0, width=2)
    for x, y, text in ((20, 54, "alpha"), (145, 34, "b1"), (240, 34, "c1"), (145, 74, "b2"), (240, 74, "c2"),
                       (20, 114, "beta"), (145, 114, "b3"), (240, 114, "c3")):  # fmt: skip
        draw.text((x, y), text, font=ImageFont.load_default(SIZE), fill=0, anchor="ls")
    pieces = split_table(image, TablePieceSpec(max_strips=2))
    assert [piece.rows for piece in pieces] == [range(0, 2), range(2, 3)]
    assert GridCell(0, 0, 2, 1) in pieces[0].cells
    pieces = split_table(image, TablePieceSpec())
    assert [piece.rows for piece in pieces] == [range(i, i + 1) for i in range(3)], "two rows do not fit a single strip"
    texts = [piece_markup(piece, [f"{c.row},{c.column}" for c in piece.cells]) for piece in pieces]
    assert join_table(texts, pieces).startswith('<table><tr><td rowspan="2">0,0</td><td>0,1</td>')
