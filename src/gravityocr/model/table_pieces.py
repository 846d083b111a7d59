"""Tables in normalised pieces: whatever a table looked like, it is drawn anew as a ruled one, a few rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError, InputError
from gravityocr.model.table_grid import Grid, GridCell, find_grid
from gravityocr.model.table_layout import Block, pack
from gravityocr.model.table_markup import Written, read_rows, without_overlaps, write_rows
from gravityocr.model.table_strips import Strip, cell_strips

__all__ = ["Fragment", "GridCell", "TablePiece", "TablePieceSpec", "join_table", "piece_markup", "split_table"]

_PAD_PX = 5  # white on either side of a cell's text
_RULE_DEPTH = 176
_TICK_PX = 3


@dataclass(frozen=True)
class TablePieceSpec:
    """Say which pieces of tables a checkpoint was trained on.

    A piece has at most `max_rows` rows, those that a cell spans counted once, and `max_strips` lines of text; short
    pieces matter, since a drafter loses count on the way.

    *Units*: pixels. `line_ink_px` is ascender to descender, `width_step_px` is what a piece's width is a multiple of;
    it divides `max_width_px`.
    """

    line_height_px: int = 32
    line_ink_px: int = 25
    max_width_px: int = 320
    max_rows: int = 1
    max_strips: int = 1
    width_step_px: int = 64
    cell_px: int = 16

    def __post_init__(self) -> None:
        size = (1, 8192)
        check_numbers(self, "table_pieces.", line_height_px=size, line_ink_px=size, max_width_px=size,
                      max_rows=(1, 64), max_strips=(1, 64), width_step_px=size, cell_px=size)  # fmt: skip
        if self.width_step_px % self.cell_px or self.max_width_px % self.width_step_px:
            raise ConfigError(
                f"table_pieces.max_width_px {self.max_width_px} must be a multiple of width_step_px "
                f"{self.width_step_px}, and that of cell_px {self.cell_px}"
            )
        if self.line_height_px % self.cell_px:
            raise ConfigError(
                f"table_pieces.line_height_px {self.line_height_px} must be a multiple of cell_px {self.cell_px}"
            )
        if self.line_ink_px >= self.line_height_px or self.max_width_px <= 4 * self.line_height_px:
            raise ConfigError(
                f"table_pieces.line_ink_px {self.line_ink_px} must be below line_height_px {self.line_height_px}, "
                f"and max_width_px {self.max_width_px} above {4 * self.line_height_px}"
            )


@dataclass(frozen=True)
class Fragment:
    """Place a stretch of one text line of a cell: where it was in the crop and where it is in the piece.

    `cell` counts in the piece's cells, `line` the strips of that cell from the top. A point of the crop, turned about
    its middle by the piece's `angle_deg`, is at `(x - source[0]) * scale + place[0]`, the same for y.
    """

    cell: int
    line: int
    source: tuple[float, float, float, float]
    place: tuple[float, float]
    scale: float


@dataclass(frozen=True)
class TablePiece:
    """Hold some rows and columns of a table, drawn for the network.

    `cells` are those that start in the piece, in row-major order, with their places and spans in the whole table.
    `angle_deg` is how the crop was turned about its `middle` (as `Image.rotate` does) before its ink was copied. A row
    too tall for a piece comes in several of the same rows and columns.
    """

    image: Image.Image
    cells: tuple[GridCell, ...]
    fragments: tuple[Fragment, ...]
    rows: range
    columns: range
    angle_deg: float = 0.0
    middle: tuple[float, float] = (0.0, 0.0)


def split_table(image: Image.Image, spec: TablePieceSpec) -> list[TablePiece]:
    """Return the pieces of a table crop from top to bottom, the parts of wide rows from left to right.

    None where nothing is written. Every piece is grey, dark on white, its width a multiple of `width_step_px`, its
    height of `line_height_px`.
    """
    grid = find_grid(image)
    if grid is None:
        return []
    widest = spec.max_width_px - 2 * _PAD_PX - 2
    strips = cell_strips(grid, spec.line_height_px, spec.line_ink_px, widest)
    widths = [max((strip.width for strip in own), default=0) + 2 * _PAD_PX for own in strips]
    blocks = pack(grid.cells, grid.n_rows, grid.n_columns, widths, [len(own) for own in strips],
                  max_width=spec.max_width_px - 2, max_rows=spec.max_rows, max_strips=spec.max_strips,
                  step=spec.width_step_px)  # fmt: skip
    middle = (image.width / 2, image.height / 2)
    return [replace(_drawn(grid, strips, block, spec), middle=middle) for block in blocks]


def _drawn(grid: Grid, strips: list[list[Strip]], block: Block, spec: TablePieceSpec) -> TablePiece:
    """Return the picture of a block of cells and where its ink came from."""
    unit = spec.line_height_px
    width = -(-(block.x[-1] + 2) // spec.width_step_px) * spec.width_step_px
    canvas = np.full((block.y[-1] * unit, width), 255, dtype=np.uint8)
    fragments: list[Fragment] = []
    numbers = [n for n in block.cells if grid.cells[n].row >= block.rows.start]
    for place, n in enumerate(numbers):
        left, top = block.box(grid.cells[n])[:2]
        first = block.first_strip if n in block.parted else 0
        shown = strips[n][first : first + block.y[-1]]
        for line, strip in enumerate(shown):
            x, y = left + 1 + _PAD_PX, (top + line) * unit
            for patch in strip.patches:
                area = canvas[y : y + unit, x + patch.x : x + patch.x + patch.pixels.shape[1]]
                np.minimum(area, patch.pixels[:, : area.shape[1]], out=area)
                source = tuple(v / grid.ink.factor for v in patch.source)
                fragments.append(Fragment(place, line, source, (float(x + patch.x), float(y)),  # type: ignore[arg-type]
                                          patch.scale * grid.ink.factor))  # fmt: skip
    _rule(canvas, grid, block, unit)
    cells = tuple(grid.cells[n] for n in numbers)
    return TablePiece(Image.fromarray(canvas), cells, tuple(fragments), block.rows, block.columns, grid.ink.angle_deg)


def _rule(canvas: np.ndarray, grid: Grid, block: Block, unit: int) -> None:
    """Draw the borders of all cells, and ticks where a column boundary meets a spanning cell."""
    ink = np.uint8(255 - _RULE_DEPTH)
    for n in block.cells:
        left, top, right, bottom = block.box(grid.cells[n])
        y0, y1 = top * unit, bottom * unit
        for x in (left, right):
            canvas[y0:y1, x : x + 2] = np.minimum(canvas[y0:y1, x : x + 2], ink)
        for y in (y0, y1):
            rows = slice(max(y - 1, 0), y + 1)
            canvas[rows, left : right + 2] = np.minimum(canvas[rows, left : right + 2], ink)
        for x in block.x:
            if left < x < right:
                canvas[y0 : y0 + _TICK_PX, x : x + 2] = ink
                canvas[y1 - _TICK_PX : y1, x : x + 2] = ink


def piece_markup(piece: TablePiece, cell_texts: Sequence[str]) -> str:
    """Return what the network is to write for a piece: its rows and cells with the given texts.

    Spans are those within the piece. The texts stand as they are, in the tokens of the training target.
    *Raises*: InputError where there is not one text per cell.
    """
    if len(cell_texts) != len(piece.cells):
        raise InputError(
            f"{len(cell_texts)} texts for {len(piece.cells)} cells: give one text per cell, in their order"
        )
    rows: list[list[Written]] = [[] for _ in piece.rows]
    for cell, text in zip(piece.cells, cell_texts, strict=True):
        n_rows = min(cell.row + cell.n_rows, piece.rows.stop) - cell.row
        n_columns = min(cell.column + cell.n_columns, piece.columns.stop) - cell.column
        rows[cell.row - piece.rows.start].append(Written(text, n_rows, n_columns))
    return write_rows(rows)


def join_table(texts: Sequence[str], pieces: Sequence[TablePiece]) -> str:
    """Return the HTML of a table from what the network wrote for each of its pieces, whatever that is.

    Where a piece has as many rows and cells as were drawn, the spans are the drawn ones; else the row stays as it was
    written. Texts are escaped.
    *Raises*: InputError where there is not one text per piece.
    """
    if len(texts) != len(pieces):
        raise InputError(f"{len(texts)} texts for {len(pieces)} pieces: give one text per piece, in their order")
    joined: list[list[Written]] = []
    at = 0
    while at < len(pieces):
        same = at
        while same < len(pieces) and pieces[same].rows == pieces[at].rows:
            same += 1
        joined += _joined_rows(texts[at:same], pieces[at:same])
        at = same
    return f"<table>{write_rows(without_overlaps(joined))}</table>" if joined else ""


def _joined_rows(texts: Sequence[str], pieces: Sequence[TablePiece]) -> list[list[Written]]:
    """Return the rows that pieces of the same rows make up: parts of wide rows side by side."""
    rows: list[list[Written]] = []
    at = 0
    while at < len(pieces):
        same = at
        parts: list[list[list[Written]]] = []
        while same < len(pieces) and pieces[same].columns == pieces[at].columns:
            parts.append(_fitted(read_rows(texts[same]), pieces[same]))
            same += 1
        for number, row in enumerate(_continued(parts)):
            while len(rows) <= number:
                rows.append([])
            rows[number] += row
        at = same
    return rows


def _fitted(written: list[list[Written]], piece: TablePiece) -> list[list[Written]]:
    """Return the written rows with the spans of the drawn cells where their number is right."""
    drawn: list[list[GridCell]] = [[] for _ in piece.rows]
    for cell in piece.cells:
        drawn[cell.row - piece.rows.start].append(cell)
    n_written = sum(len(row) for row in written)
    if n_written == len(piece.cells) and [len(r) for r in written] != [len(r) for r in drawn]:
        flat = iter([cell for row in written for cell in row])
        written = [[next(flat) for _ in row] for row in drawn]
    while len(written) < len(drawn):
        written = [*written, []]
    rows = []
    for number, row in enumerate(written):
        cells = drawn[number] if number < len(drawn) else []
        if len(row) < len(cells):
            row = row + [Written("", 1, 1)] * (len(cells) - len(row))
        spans = [(cell.n_rows, cell.n_columns) for cell in cells]
        spans += [(w.n_rows, w.n_columns) for w in row[len(cells) :]]
        rows.append([Written(w.text, *span) for w, span in zip(row, spans, strict=True)])
    return rows


def _continued(parts: list[list[list[Written]]]) -> list[list[Written]]:
    """Return the rows of a piece with the text of those that continue it added cell by cell."""
    rows = parts[0]
    for more in parts[1:]:
        for number, row in enumerate(more):
            if number >= len(rows):
                rows.append(row)
                continue
            base = rows[number]
            for i, cell in enumerate(row):
                if i < len(base):
                    text = f"{base[i].text} {cell.text}".strip()
                    base[i] = Written(text, base[i].n_rows, base[i].n_columns)
                else:
                    base.append(cell)
    return rows
