"""Tables out of boxes and words: the grid comes back, whatever the boxes' small faults; broken ones are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.table_corpora import Boxes, Row, boxes_of

from gravityocr.errors import InputError
from gravityocr.metrics.teds import score_teds
from gravityocr.training.corpora.table_boxes import MarkedObject, PlacedWord, read_objects, read_words, table_of_boxes
from gravityocr.training.corpora.table_markup import MarkedCell, MarkedTable, text_markup

ROWS: tuple[Row, ...] = (
    (("Name", 2, 1), ("Both of them", 1, 2)),
    (("first", 1, 1), ("second", 1, 1)),
    (("All rows below", 1, 3),),
    (("R&D < 5", 1, 1), ("", 1, 1), ("1.5", 1, 1)),
    (("b", 1, 1), ("2", 2, 2)),
    (("c d", 1, 1),),
)


def table_of(boxes: Boxes) -> MarkedTable:
    return table_of_boxes(read_objects(boxes.xml()), read_words(json.dumps(boxes.words).encode()))


def wanted(rows, n_head: int) -> MarkedTable:
    return MarkedTable(tuple(tuple(MarkedCell(text_markup(t), r, c) for t, r, c in row) for row in rows), n_head)


def test_the_grid_comes_back() -> None:
    table = table_of(boxes_of(ROWS, n_head=2))
    assert table == wanted(ROWS, 2)
    assert table.n_head == 2
    assert score_teds(table.html(), wanted(ROWS, 2).html(), mode="pubtabnet").teds == 1.0


def random_rows(rng: np.random.Generator) -> list[Row]:
    n_rows, n_columns = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    taken = np.zeros((n_rows, n_columns), dtype=bool)
    rows: list[list[tuple[str, int, int]]] = [[] for _ in range(n_rows)]
    for y in range(n_rows):
        for x in range(n_columns):
            if taken[y, x]:
                continue
            down, across = int(rng.integers(1, n_rows - y + 1)), int(rng.integers(1, n_columns - x + 1))
            if rng.random() < 0.7 or taken[y : y + down, x : x + across].any():
                down = across = 1
            taken[y : y + down, x : x + across] = True
            text = "" if down * across == 1 and rng.random() < 0.3 else f"w{y}{x} & v"
            rows[y].append((text, down, across))
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_any_table_survives_its_annotation(seed: int) -> None:
    """The round trip: a table, its annotation with boxes a little off, and back."""
    rng = np.random.default_rng(seed)
    rows = random_rows(rng)
    if not any(text for row in rows for text, _, _ in row):
        rows[0] = [("x", down, across) for _, down, across in rows[0]]
    first = next(iter(rows[0]), ("", 1, 1))
    n_head = int(rng.integers(0, 2)) if all(down == 1 for _, down, _ in rows[0]) and first else 0
    boxes = boxes_of(rows, n_head)
    moved = [(kind, tuple(edge + float(rng.uniform(-3, 3)) for edge in bbox)) for kind, bbox in boxes.objects]
    shuffled = [moved[place] for place in rng.permutation(len(moved))]
    assert table_of(replace(boxes, objects=shuffled)) == wanted(rows, n_head)


def test_words_are_put_where_most_of_them_lies_and_those_outside_are_left_out() -> None:
    objects = [
        *(MarkedObject("table row", (0, y, 200, y + 20)) for y in (0, 20)),
        *(MarkedObject("table column", (x, 0, x + 100, 40)) for x in (0, 100)),
    ]
    words = [
        PlacedWord("Caption", (0, -30, 60, -18)), PlacedWord("a", (2, 15, 40, 29)), PlacedWord("b", (92, 3, 130, 14)),
        PlacedWord("dot", (150, 30, 150, 30)),
    ]  # fmt: skip
    table = table_of_boxes(objects, words)
    assert table.html() == "<table><tr><td></td><td>b</td></tr><tr><td>a</td><td>dot</td></tr></table>"


def test_words_are_read_in_their_order_and_cut_ones_joined() -> None:
    entries = [
        {"text": "ment", "bbox": [2, 14, 40, 24], "block_num": 0, "line_num": 1, "span_num": 0},
        {"text": "treat-", "bbox": [2, 2, 60, 12], "block_num": 0, "line_num": 0, "span_num": 1},
        {"text": "A", "bbox": [0, 2, 2, 12], "block_num": 0, "line_num": 0, "span_num": 0},
        {"text": "5-", "bbox": [50, 14, 60, 24], "block_num": 0, "line_num": 1, "span_num": 1},
        {"text": "fold", "bbox": [2, 26, 40, 36], "block_num": 0, "line_num": 2, "span_num": 0},
    ]
    words = read_words(json.dumps(entries).encode())
    objects = [MarkedObject("table row", (0, 0, 100, 40)), MarkedObject("table column", (0, 0, 100, 40))]
    assert table_of_boxes(objects, words).html() == "<table><tr><td>A treat-ment 5- fold</td></tr></table>"


def test_words_on_their_sides_are_refused() -> None:
    boxes = boxes_of(ROWS)
    turned = [{**word, "bbox": [*word["bbox"][:2], word["bbox"][0] + 10, word["bbox"][1] + 40]} for word in boxes.words]
    with pytest.raises(InputError, match="^words across the rows"):
        table_of(replace(boxes, words=turned))


def test_spanning_cells_that_overlap_are_refused() -> None:
    boxes = boxes_of(ROWS)
    more = [*boxes.objects, ("table spanning cell", (10, 30, 170, 50))]
    with pytest.raises(InputError, match="^overlapping spanning cells: row 2, column 1"):
        table_of(replace(boxes, objects=more))


@pytest.mark.parametrize(
    ("xml", "words", "reason"),
    [
        (b"<annotation>", b"[]", "unreadable annotation"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><annotation/>', b"[]", "unreadable annotation: it declares entities"),
        (b"<annotation><object><name>table row</name></object></annotation>", b"[]", "unreadable box"),
        (b"<annotation/>", b"[]", "no grid: 0 rows and 0 columns"),
        (None, b"{", "unreadable words"),
        (None, b'[{"text": "a"}]', "unreadable words"),
        (None, b'[{"text": "a", "bbox": [1, 2]}]', "unreadable words"),
        (None, b"[]", "no text in the table"),
    ],
)
def test_broken_annotations_are_refused(xml: bytes | None, words: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=f"^{reason}"):
        table_of_boxes(read_objects(xml or boxes_of(ROWS).xml()), read_words(words))


@pytest.mark.parametrize(
    "words",
    [
        b"[" * 100_000, b'[{"text": "a", "bbox": [1, 2, 3, 4], "span_num": 1e999}]',
        b'[{"text": "a", "bbox": [NaN, 2, 3, 4]}]', b'[{"text": "a", "bbox": [1' + b"0" * 400 + b", 2, 3, 4]}]",
        b'[{"text": "a", "bbox": [1, 2, 3, 4], "span_num": ' + b"9" * 5000 + b"}]", b"\xff",
    ],
)  # fmt: skip
def test_odd_words_are_refused(words: bytes) -> None:
    with pytest.raises(InputError, match="^unreadable words"):
        read_words(words)


@pytest.mark.parametrize("edge", ["nan", "1e999", "", "x"])
def test_odd_boxes_are_refused(edge: str) -> None:
    xml = f"<a><object><name>table</name><bndbox><xmin>{edge}</xmin><ymin>0</ymin><xmax>1</xmax><ymax>1</ymax>"
    with pytest.raises(InputError, match="^unreadable box"):
        read_objects(f"{xml}</bndbox></object></a>".encode())
    for head in ("<?xml version='1.0' encoding='nope'?>", "<?xml version='1.0' encoding='utf-32'?>"):
        with pytest.raises(InputError, match="^unreadable annotation"):
            read_objects(f"{head}<a/>".encode())
