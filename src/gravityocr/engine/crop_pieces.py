"""Cut crops of every kind into the pieces that a checkpoint reads, and join what it read."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from gravityocr.document import PlacedText, Task
from gravityocr.engine.reference_text import text_within, turned
from gravityocr.model.checkpoint import BlockDiffusion
from gravityocr.model.formula_pieces import FormulaPiece, join_formula, split_formula
from gravityocr.model.pieces import Piece, join_texts, split_crop
from gravityocr.model.table_pieces import TablePiece, join_table, piece_markup, split_table

AnyPiece = Piece | FormulaPiece | TablePiece
SPARE_TOKENS = 16
TEXT_TOKENS_PER_COLUMN = 3
"""No line holds more than three characters in a vision cell's width: what is longer is a loop, and is cut there."""
FORMULA_TOKENS_PER_COLUMN, FORMULA_TOKENS_PER_CELL = 5, 1
TABLE_TOKENS_PER_CELL = 12
"""Beside its text a table cell has at most two tags with two spans."""


def split_into_pieces(image: Image.Image, task: Task, diffusion: BlockDiffusion) -> list[AnyPiece] | None:
    """Return the pieces of a crop in reading order; None where the checkpoint reads such crops whole."""
    if task == "formula":
        return None if diffusion.formula_pieces is None else [*split_formula(image, diffusion.formula_pieces)]
    if task == "table":
        return None if diffusion.table_pieces is None else [*split_table(image, diffusion.table_pieces)]
    return None if diffusion.pieces is None else [*split_crop(image, diffusion.pieces)]


def token_limit(piece: AnyPiece, cell_px: int) -> int:
    """Return how many tokens a piece can hold at most."""
    columns, rows = -(-piece.image.width // cell_px), -(-piece.image.height // cell_px)
    if isinstance(piece, FormulaPiece):
        return SPARE_TOKENS + FORMULA_TOKENS_PER_COLUMN * columns + FORMULA_TOKENS_PER_CELL * columns * rows
    # A text line is two vision cells high.
    n_lines = max(1, rows // 2)
    limit = SPARE_TOKENS + TEXT_TOKENS_PER_COLUMN * columns * n_lines
    return limit + TABLE_TOKENS_PER_CELL * len(piece.cells) if isinstance(piece, TablePiece) else limit


def piece_reference(piece: AnyPiece, words: Sequence[PlacedText]) -> str:
    """Return what a crop's text layer says that the network is to write for a piece; "" where it says nothing of it.

    A formula has no reference: a text layer holds no LaTeX.
    """
    if isinstance(piece, FormulaPiece):
        return ""
    words = turned(words, piece.middle, piece.angle_deg)
    if isinstance(piece, Piece):
        return text_within(words, piece.box)
    cells: list[list[str]] = [[] for _ in piece.cells]
    for fragment in sorted(piece.fragments, key=lambda fragment: (fragment.cell, fragment.line, fragment.source[0])):
        if text := text_within(words, fragment.source):
            cells[fragment.cell].append(text)
    return piece_markup(piece, [" ".join(texts) for texts in cells]) if words else ""


def join_pieces(texts: Sequence[str], pieces: Sequence[AnyPiece]) -> str:
    """Return the text, LaTeX or HTML of a crop from that of its pieces, which are all of one kind."""
    if formulas := [piece for piece in pieces if isinstance(piece, FormulaPiece)]:
        return join_formula(texts, formulas)
    if tables := [piece for piece in pieces if isinstance(piece, TablePiece)]:
        return join_table(texts, tables)
    return join_texts(texts, [piece for piece in pieces if isinstance(piece, Piece)])
