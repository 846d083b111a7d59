"""Grids of drawn tables: rows, columns and spans, whatever rules and shades the table has."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from gravityocr.metrics.teds import score_teds
from gravityocr.model.table_grid import Grid, find_grid
from gravityocr.model.table_ink import read_table_ink

BODY = [
    ["Alpha group", "12.5", "103", "0.31"],
    ["Beta group", "7.25", "88", "0.44"],
    ["Gamma rays", "110.0", "5", "0.05"],
    ["Delta wing", "3.75", "1240", "0.92"],
]
HEAD = ["Name", "Mean", "Count", "Rate"]
LEFTS = [14, 190, 300, 400]
RIGHT, PITCH, SIZE = 480, 44, 20


@dataclass
class Drawing:
    """A table drawn with text at given places."""

    height: int = 300
    width: int = RIGHT + 20
    image: Image.Image = field(init=False)

    def __post_init__(self) -> None:
        self.image = Image.new("L", (self.width, self.height), 255)
        self.draw = ImageDraw.Draw(self.image)
        self.font = ImageFont.load_default(SIZE)

    def text(self, x: float, baseline: float, text: str, fill: int = 0) -> None:
        self.draw.text((x, baseline), text, font=self.font, fill=fill, anchor="ls")

    def rows(self, rows: list[list[str]], top: int = 0, fill: int = 0) -> None:
        for i, row in enumerate(rows):
            for x, text in zip(LEFTS, row, strict=True):
                self.text(x, top + 30 + i * PITCH, text, fill)

    def across(self, y: int, start: int = 4, end: int = RIGHT + 10, width: int = 2) -> None:
        self.draw.rectangle((start, y, end, y + width - 1), fill=0)

    def down(self, x: int, start: int = 0, end: int = 5 * PITCH) -> None:
        self.draw.rectangle((x, start, x + 1, end), fill=0)


def plain() -> Drawing:
    drawing = Drawing(height=5 * PITCH + 4)
    drawing.rows([HEAD, *BODY])
    return drawing


def grid_of(image: Image.Image) -> Grid:
    grid = find_grid(image)
    assert grid is not None
    return grid


def shape(image: Image.Image) -> tuple[int, int]:
    grid = grid_of(image)
    return grid.n_rows, grid.n_columns


def spans(image: Image.Image) -> set[tuple[int, int, int, int]]:
    """Return row, column, rows and columns of every cell that fills more than one of them."""
    return {(c.row, c.column, c.n_rows, c.n_columns) for c in grid_of(image).cells if c.n_rows * c.n_columns > 1}


def n_lines(grid: Grid, row: int, column: int) -> int:
    return next(len(ls) for c, ls in zip(grid.cells, grid.lines, strict=True) if (c.row, c.column) == (row, column))


def html_of(grid: Grid) -> str:
    rows: list[str] = [""] * grid.n_rows
    for cell in grid.cells:
        rows[cell.row] += f'<td colspan="{cell.n_columns}" rowspan="{cell.n_rows}"></td>'.replace(
            ' colspan="1"', ""
        ).replace(' rowspan="1"', "")
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def test_a_table_without_rules_has_one_cell_per_text() -> None:
    grid = grid_of(plain().image)
    assert (grid.n_rows, grid.n_columns) == (5, 4)
    assert all(len(lines) == 1 for lines in grid.lines)
    assert [(c.row, c.column) for c in grid.cells] == [(r, c) for r in range(5) for c in range(4)]


def test_rules_part_cells_and_are_no_text() -> None:
    drawing = plain()
    for i in range(6):
        drawing.across(i * PITCH)
    for x in (4, 170, 280, 380, RIGHT + 9):
        drawing.down(x)
    grid = grid_of(drawing.image)
    assert (grid.n_rows, grid.n_columns) == (5, 4)
    assert spans(drawing.image) == set()
    ink = read_table_ink(drawing.image)
    assert ink is not None and len(ink.across) == 6 and len(ink.down) == 5
    rule_rows = [int(at * ink.factor) for at in (1, PITCH, 2 * PITCH)]
    assert all((ink.grey[row] > 200).all() for row in rule_rows)


@pytest.mark.parametrize("shade", [235, 60])
def test_shaded_rows_are_read_like_white_ones(shade: int) -> None:
    drawing = Drawing(height=5 * PITCH + 4)
    for i in (0, 2, 4):
        drawing.draw.rectangle((0, i * PITCH, RIGHT + 20, (i + 1) * PITCH - 1), fill=shade)
    for i, row in enumerate([HEAD, *BODY]):
        drawing.rows([row], top=i * PITCH, fill=255 if shade < 128 and i % 2 == 0 else 0)
    assert shape(drawing.image) == (5, 4)
    assert spans(drawing.image) == set()


def test_a_heading_over_a_partial_rule_spans_its_columns() -> None:
    drawing = Drawing(height=6 * PITCH)
    drawing.across(0)
    drawing.text(14, 30, "Name")
    drawing.text(270, 30, "Measured values")
    drawing.across(42, 186, RIGHT + 10, 1)
    drawing.rows([["", *HEAD[1:]]], top=PITCH)
    drawing.across(2 * PITCH)
    drawing.rows(BODY[:3], top=2 * PITCH)
    drawing.across(5 * PITCH)
    assert shape(drawing.image) == (5, 4)
    assert spans(drawing.image) == {(0, 1, 1, 3), (0, 0, 2, 1)}


def test_a_title_over_all_columns_spans_them() -> None:
    drawing = Drawing(height=6 * PITCH)
    drawing.rows([HEAD, *BODY[:2]])
    drawing.text(14, 30 + 3 * PITCH, "All further groups of the second study")
    drawing.rows(BODY[2:], top=4 * PITCH)
    assert shape(drawing.image) == (6, 4)
    assert spans(drawing.image) == {(3, 0, 1, 4)}


def test_lines_set_close_make_one_cell() -> None:
    drawing = Drawing(height=8 * PITCH)
    y = 30
    for row in [HEAD, *BODY]:
        for x, text in zip(LEFTS, row, strict=True):
            drawing.text(x, y, text)
        drawing.text(14, y + 24, "of the study")
        y += 24 + PITCH
    grid = grid_of(drawing.image)
    assert (grid.n_rows, grid.n_columns) == (5, 4)
    assert all(n_lines(grid, row, 0) == 2 and n_lines(grid, row, 1) == 1 for row in range(5))


def test_a_label_half_way_between_two_rows_spans_both() -> None:
    drawing = Drawing(height=5 * PITCH)
    drawing.rows([HEAD])
    drawing.across(PITCH)
    for i in range(4):
        drawing.rows([["", *BODY[i][1:]]], top=PITCH + i * 32)
    for i, text in enumerate(("First pair", "Second pair")):
        drawing.text(14, PITCH + 30 + 16 + 64 * i, text)
    assert spans(drawing.image) == {(1, 0, 2, 1), (3, 0, 2, 1)}


def test_missing_rules_in_a_ruled_row_make_spans() -> None:
    drawing = Drawing(height=4 * PITCH)
    for i in range(5):
        drawing.across(i * PITCH - (i == 4) * 3)
    for x in (4, 170, RIGHT + 9):
        drawing.down(x, 0, 4 * PITCH)
    for x in (280, 380):
        drawing.down(x, PITCH, 4 * PITCH)
    drawing.text(14, 30, "Name")
    drawing.text(196, 30, "All")
    drawing.rows(BODY[:3], top=PITCH)
    assert shape(drawing.image) == (4, 4)
    assert spans(drawing.image) == {(0, 1, 1, 3)}


def test_small_print_and_skew_change_nothing() -> None:
    large = plain().image
    small = large.resize((large.width * 9 // 20, large.height * 9 // 20), Image.Resampling.BOX)
    assert shape(small) == (5, 4)
    skewed = large.rotate(0.7, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    assert shape(skewed) == (5, 4)


@pytest.mark.parametrize("size", [(1, 1), (2, 900), (900, 2), (300, 400)])
def test_noise_blank_and_black_give_an_answer(size: tuple[int, int]) -> None:
    noise = np.random.default_rng(1).integers(0, 256, size, dtype=np.uint8)
    for pixels in (noise, np.full(size, 255, np.uint8), np.zeros(size, np.uint8)):
        grid = find_grid(Image.fromarray(pixels))
        assert grid is None or len(grid.cells) == len(grid.lines)
    assert find_grid(Image.new("RGB", (200, 100), (255, 250, 240))) is None


def test_the_cells_fill_the_grid_once() -> None:
    noise = np.random.default_rng(2).random((240, 320))
    image = Image.fromarray(np.where(noise < 0.03, 0, 255).astype(np.uint8)).resize((640, 480))
    grid = grid_of(image)
    used = np.zeros((grid.n_rows, grid.n_columns), dtype=int)
    for cell in grid.cells:
        used[cell.row : cell.row + cell.n_rows, cell.column : cell.column + cell.n_columns] += 1
    assert (used == 1).all()


def test_the_handed_tables_keep_their_structure(cases_dir) -> None:
    cases = json.loads((cases_dir / "manifest.json").read_text(encoding="utf-8"))
    scores = []
    for case in cases:
        if case["kind"] == "table":
            grid = grid_of(Image.open(cases_dir / case["file"]))
            scores.append(score_teds(html_of(grid), case["ground_truth"]["html"]).teds_struct)
    assert len(scores) >= 20
    assert np.mean(scores) >= 0.85
