"""Which pieces a crop becomes, how much each may hold, and how they are joined."""

from __future__ import annotations

import pytest
from PIL import Image, ImageDraw, ImageFont

from gravityocr.document import Task
from gravityocr.engine.crop_pieces import join_pieces, split_into_pieces, token_limit
from gravityocr.model.checkpoint import BlockDiffusion
from gravityocr.model.formula_pieces import FormulaPiece, FormulaPieceSpec
from gravityocr.model.pieces import Piece, PieceSpec
from gravityocr.model.table_pieces import TablePiece, TablePieceSpec

ALL = BlockDiffusion(8, 0, pieces=PieceSpec(), formula_pieces=FormulaPieceSpec(), table_pieces=TablePieceSpec())


def crop() -> Image.Image:
    """Draw a ruled table of two cells."""
    image = Image.new("L", (260, 60), 255)
    draw = ImageDraw.Draw(image)
    draw.rectangle((4, 4, 255, 55), outline=0, width=2)
    draw.line((130, 4, 130, 55), fill=0, width=2)
    for x, text in ((20, "alpha"), (150, "27.5")):
        draw.text((x, 16), text, fill=0, font=ImageFont.load_default(24))
    return image


@pytest.mark.parametrize(("task", "kind"), [("text", Piece), ("formula", FormulaPiece), ("table", TablePiece)])
def test_each_task_has_its_pieces(task: Task, kind: type) -> None:
    pieces = split_into_pieces(crop(), task, ALL)
    assert pieces and all(type(piece) is kind for piece in pieces)
    assert split_into_pieces(crop(), task, BlockDiffusion(8, 0)) is None, "a full-size checkpoint reads crops whole"


def test_the_limit_grows_with_what_a_piece_can_hold() -> None:
    line = Piece(Image.new("L", (384, 32), 255), 0, "")
    assert token_limit(line, 16) == 16 + 3 * 24
    small, tall = (FormulaPiece(Image.new("L", (128, height), 255), 0) for height in (32, 128))
    assert token_limit(tall, 16) > token_limit(small, 16) > 8 * 3
    (table,) = split_into_pieces(crop(), "table", ALL) or []
    assert isinstance(table, TablePiece) and len(table.cells) == 2
    written = len("<tr><td>alpha</td><td>27.5</td></tr>")
    assert token_limit(table, 16) > written


def test_texts_are_joined_by_the_kind_of_their_pieces() -> None:
    assert join_pieces(["a", "b"], [FormulaPiece(Image.new("L", (64, 32)), n) for n in (0, 1)]).startswith(r"\begin")
    assert join_pieces(["a", "b"], [Piece(Image.new("L", (64, 32)), n, " ") for n in (0, 1)]) == "a b"
    tables = [piece for piece in split_into_pieces(crop(), "table", ALL) or [] if isinstance(piece, TablePiece)]
    joined = join_pieces(["<tr><td>alpha</td><td>27.5</td></tr>"], tables)
    assert joined == "<table><tr><td>alpha</td><td>27.5</td></tr></table>"
    assert join_pieces([], []) == ""
