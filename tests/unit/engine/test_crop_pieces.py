"""Which pieces a crop becomes, how much each may hold, and how they are joined."""

from __future__ import annotations

import pytest
from PIL import Image, ImageDraw, ImageFont

from gravityocr.document import Box, PlacedText, Task
from gravityocr.engine.crop_pieces import join_pieces, piece_reference, split_into_pieces, token_limit
from gravityocr.model.checkpoint import BlockDiffusion
from gravityocr.model.formula_pieces import FormulaPiece, FormulaPieceSpec
from gravityocr.model.pieces import Piece, PieceSpec
from gravityocr.model.table_pieces import TablePiece, TablePieceSpec, piece_markup

ALL = BlockDiffusion(8, 0, pieces=PieceSpec(), formula_pieces=FormulaPieceSpec(), table_pieces=TablePieceSpec())


WORDS = (PlacedText("alpha", Box(20, 20, 80, 40)), PlacedText("27.5", Box(150, 20, 200, 40)))
PARAGRAPH = (
    "The quick brown fox jumps over the lazy dog and runs away through",
    "fields of barley, past an old red-brick mill, to the water’s edge where",
    "nobody has seen it since. Some say it still lives there, by itself.",
)


def paragraph(size: int = 24) -> tuple[Image.Image, tuple[PlacedText, ...]]:
    """Draw lines of text; return them with the words and their places."""
    font = ImageFont.load_default(size)
    image = Image.new("L", (int(font.getlength(max(PARAGRAPH, key=len))) + 60, 3 * size * 3 // 2 + 30), 255)
    draw, words = ImageDraw.Draw(image), []
    for number, line in enumerate(PARAGRAPH):
        x, y = 25.0, 15 + number * size * 3 // 2
        for word in line.split():
            draw.text((x, y), word, fill=0, font=font)
            words.append(PlacedText(word, Box(*draw.textbbox((x, y), word, font=font))))
            x += font.getlength(word + " ")
    return image, tuple(words)


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


def references(image: Image.Image, words: tuple[PlacedText, ...], task: Task = "text") -> list[str]:
    return [piece_reference(piece, words) for piece in split_into_pieces(image, task, ALL) or []]


def test_the_reference_of_a_text_piece_is_what_the_layer_says_of_its_place() -> None:
    image, words = paragraph()
    pieces = split_into_pieces(image, "text", ALL) or []
    assert len(pieces) >= 6 and {piece.line for piece in pieces if isinstance(piece, Piece)} == {0, 1, 2}
    found = references(image, words[::-1])  # the source's order does not matter within a line
    assert " ".join(found).split() == " ".join(PARAGRAPH).split() and all(found)
    assert " ".join(references(image.resize((image.width * 2, image.height * 2)), tuple(
        PlacedText(w.text, Box(w.box.x0 * 2, w.box.y0 * 2, w.box.x1 * 2, w.box.y1 * 2)) for w in words
    ))).split() == " ".join(PARAGRAPH).split()  # fmt: skip
    assert set(references(image, ())) == {""}


@pytest.mark.parametrize("angle", [-2.3, 2.3])
def test_a_skewed_crop_is_turned_with_its_words(angle: float) -> None:
    image, words = paragraph()
    wide = Image.new("L", (image.width + 80, image.height + 80), 255)
    wide.paste(image, (40, 40))
    marks = []
    for word in words:  # where the turned image has the word: found by turning a mark in its place
        mark = Image.new("L", wide.size)
        x, y = round((word.box.x0 + word.box.x1) / 2) + 40, round((word.box.y0 + word.box.y1) / 2) + 40
        ImageDraw.Draw(mark).rectangle((x - 2, y - 2, x + 2, y + 2), fill=255)
        mark = mark.rotate(angle, Image.Resampling.BILINEAR).point(lambda level: 255 * (level > 99))
        left, top, right, bottom = mark.getbbox()
        middle_x, middle_y, reach = (left + right) / 2, (top + bottom) / 2, word.box.width / 2
        marks.append(PlacedText(word.text, Box(middle_x - reach, middle_y - 9, middle_x + reach, middle_y + 9)))
    turned = wide.rotate(angle, Image.Resampling.BICUBIC, fillcolor=255)
    pieces = split_into_pieces(turned, "text", ALL) or []
    assert all(abs(piece.angle_deg + angle) < 0.25 for piece in pieces if isinstance(piece, Piece))
    assert " ".join(references(turned, tuple(marks))).split() == " ".join(PARAGRAPH).split()


def test_of_a_word_cut_in_two_each_piece_has_its_characters() -> None:
    font = ImageFont.load_default(24)
    word = "n" * 30 + "o" * 30
    image = Image.new("L", (int(font.getlength(word)) + 40, 60), 255)
    ImageDraw.Draw(image).text((20, 14), word, fill=0, font=font)
    left, top, right, bottom = ImageDraw.Draw(image).textbbox((20, 14), word, font=font)
    found = references(image, (PlacedText(word, Box(left, top, right, bottom)),))
    assert len(found) >= 2 and "".join(found) == word and min(map(len, found)) > 10


def test_a_table_piece_has_the_layers_text_in_its_markup() -> None:
    (table,) = split_into_pieces(crop(), "table", ALL) or []
    assert isinstance(table, TablePiece)
    assert references(crop(), WORDS, "table") == [piece_markup(table, ["alpha", "27.5"])]
    split = (*WORDS[:1], PlacedText("27", Box(150, 20, 172, 40)), PlacedText("<5", Box(176, 20, 200, 40)))
    assert references(crop(), split, "table") == [piece_markup(table, ["alpha", "27 <5"])]
    assert references(crop(), WORDS[1:], "table") == [piece_markup(table, ["", "27.5"])]
    assert references(crop(), (), "table") == [""]


def test_a_formula_has_no_reference() -> None:
    assert set(references(crop(), WORDS, "formula")) == {""}


def test_references_are_in_the_characters_that_networks_write() -> None:
    box = Box(20, 20, 240, 40)
    text = "e\ufb03cient\u00a0\u2010 \uff21\u2033 5\u00b5m … “x” – − ²"
    (found, *_) = [piece_reference(Piece(crop(), 0, "", (0, 0, 260, 60)), (PlacedText(text, box),))]
    assert found == 'efficient - A" 5μm … “x” – − 2'
