"""Labels of table pieces from pieces and characters whose places are written down by hand."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from gravityocr.model.table_pieces import Fragment, GridCell, TablePiece, TablePieceSpec
from gravityocr.training.synthetic import table_labels
from gravityocr.training.synthetic.shards import RenderedSample
from gravityocr.training.synthetic.table_labels import TableCrop, label_pieces

LINE, WIDTH = 10.0, 5.0  # of a drawn character, in crop px


def crop_of(*lines: tuple[int, int, float, float, str]) -> TableCrop:
    """Give a crop with lines (cell, line, x, y, text) of equally wide characters; "_" joins a line to the last one."""
    chars, boxes, cells, spaced, numbers = "", [], [], [], []
    for cell, number, x, y, text in lines:
        space = not text.startswith("_")
        for place, char in enumerate(text.removeprefix("_")):
            if char != " ":
                chars += char
                boxes.append((x + WIDTH * place, y, x + WIDTH * (place + 1), y + LINE))
                cells.append(cell)
                spaced.append(space)
                numbers.append(number)
            space = char == " "
    edges = np.array(boxes)
    return TableCrop(
        np.full((60, 200), 255, dtype=np.uint8), "", chars, edges, (edges[:, :2] + edges[:, 2:]) / 2, np.array(cells),
        np.array(spaced), np.array(numbers), "test",
    )  # fmt: skip


def piece_of(n_columns: int, *fragments: tuple[int, int, tuple[float, float, float, float]]) -> TablePiece:
    """Give a piece of one row whose fragments (cell, line, source) are copied to (10, 20 + 32 line) at scale 2."""
    copied = tuple(Fragment(cell, line, source, (10.0, 20.0 + 32.0 * line), 2.0) for cell, line, source in fragments)
    cells = tuple(GridCell(0, column, 1, 1) for column in range(n_columns))
    return TablePiece(Image.new("L", (512, 128), 255), cells, copied, range(1), range(n_columns))


def label(monkeypatch: pytest.MonkeyPatch, crop: TableCrop, *pieces: TablePiece) -> tuple[list[RenderedSample], dict]:
    monkeypatch.setattr(table_labels, "split_table", lambda image, spec: list(pieces))
    samples, counts = label_pieces(crop, TablePieceSpec())
    return samples, dict(counts)


def test_text_places_and_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    crop = crop_of((0, 0, 0, 0, "a <b"), (1, 0, 100, 0, "0.5"))
    piece = piece_of(3, (0, 0, (0, 0, 30, 12)), (1, 0, (95, 0, 120, 12)))
    (sample,), counts = label(monkeypatch, crop, piece)
    assert counts == {"pieces": 1}
    assert sample.task == "table"
    assert sample.tokens == (
        "<tr>", "<td>", "a", " ", "<", "b", "</td>", "<td>", "0", ".", "5", "</td>", "<td>", "</td>", "</tr>",
    )  # fmt: skip
    expected = {2: (15, 30), 3: (25, 30), 4: (35, 30), 5: (45, 30), 8: (25, 30), 9: (35, 30), 10: (45, 30)}
    for place, center in enumerate(sample.centers_px):
        if place in expected:
            assert tuple(center) == pytest.approx(expected[place])
        else:
            assert np.isnan(center).all()


def test_spans_are_single_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = piece_of(1, (0, 0, (0, 0, 30, 12)))
    wide = TablePiece(piece.image, (GridCell(0, 0, 1, 12),), piece.fragments, range(1), range(12))
    (sample,), _ = label(monkeypatch, crop_of((0, 0, 0, 0, "ab")), wide)
    assert sample.tokens == ("<tr>", "<td", ' colspan="', "1", "2", '"', ">", "a", "b", "</td>", "</tr>")


def test_lines_are_joined_as_the_source_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    crop = crop_of((0, 0, 0, 0, "5-"), (0, 1, 0, 12, "_fold"), (0, 2, 0, 24, "test"))
    piece = piece_of(1, (0, 2, (0, 23, 40, 35)), (0, 0, (0, 0, 40, 11)), (0, 1, (0, 11, 40, 23)))
    (sample,), _ = label(monkeypatch, crop, piece)
    assert sample.target == "<tr><td>5-fold test</td></tr>"
    space = sample.tokens.index(" ")
    assert np.isnan(sample.centers_px[space]).all()  # no ink and no place between two lines
    assert sample.centers_px[space + 1][1] > sample.centers_px[space - 1][1]


def test_columns_that_the_splitter_merged_are_read_from_left_to_right(monkeypatch: pytest.MonkeyPatch) -> None:
    crop = crop_of((1, 0, 60, 0, "cd"), (0, 0, 0, 0, "ab"))
    (sample,), _ = label(monkeypatch, crop, piece_of(1, (0, 0, (0, 0, 100, 12))))
    assert sample.target == "<tr><td>ab cd</td></tr>"


@pytest.mark.parametrize(
    ("crop", "reason"),
    [
        (crop_of((0, 0, 0, 0, "ab"), (0, 1, 0, 4, "cd")), "two lines in one fragment"),
        (crop_of((0, 0, 0, 0, "ab"), (0, 0, 40, 0, "c"), (1, 0, 90, 0, "d")), "characters outside of all fragments"),
        (crop_of((0, 0, 150, 40, "ab")), "no text"),
        (crop_of((0, 0, 0, 0, "a中")), "characters outside of the charset"),
    ],
)
def test_unclear_pieces_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch, crop: TableCrop, reason: str) -> None:
    piece = piece_of(2, (0, 0, (0, 0, 30, 12)), (1, 0, (80, 0, 120, 12)))
    samples, counts = label(monkeypatch, crop, piece)
    assert samples == []
    assert counts == {"pieces": 1, reason: 1}
