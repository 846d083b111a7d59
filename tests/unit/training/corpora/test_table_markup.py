"""Annotated tables in the markup of evaluation: spans, heads, empty cells, escapes; faulty grids are refused."""

from __future__ import annotations

import pytest
from tests.table_corpora import OVERLAPPING, RAGGED, SPANS, SPANS_HTML, annotation, tokens

from gravityocr.errors import InputError
from gravityocr.metrics.tables.html_tokens import cell_texts
from gravityocr.metrics.teds import score_teds
from gravityocr.model.table_markup import read_rows, without_overlaps
from gravityocr.training.corpora.table_markup import (
    MarkedCell,
    MarkedTable,
    annotated_table,
    text_markup,
    tokens_markup,
)


def cell(text: str, n_rows: int = 1, n_columns: int = 1) -> MarkedCell:
    return MarkedCell(text, n_rows, n_columns)


def test_spans_empty_cells_and_escapes_reach_the_markup() -> None:
    table = annotated_table(annotation(SPANS, n_head=2))
    assert table.html() == SPANS_HTML
    assert table.n_head == 2


def test_the_markup_is_the_same_table_for_our_metrics() -> None:
    markup = annotated_table(annotation(SPANS, n_head=2)).html()
    for mode in ("omnidocbench", "pubtabnet"):
        score = score_teds(markup, markup, mode=mode)
        assert (score.teds, score.teds_struct, score.status, score.error) == (1.0, 1.0, "ok", None)
    assert cell_texts(markup) == ["Group", "R&D < 5", "", "10 3", "b", "x", "", "1 > 0"]
    rows = read_rows(markup)
    assert [[(c.n_rows, c.n_columns) for c in row] for row in rows] == [
        [(2, 1), (1, 2), (2, 1)], [(1, 1), (1, 1)], [(1, 1), (1, 1), (1, 2)],
    ]  # fmt: skip
    assert without_overlaps(rows) == rows


@pytest.mark.parametrize(
    ("head", "begins", "ends"),
    [
        ("td", "<table><tr><td>a</td></tr><tr><td>b</td></tr>", "</table>"),
        ("th", "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>b</td></tr>", "</tbody></table>"),
        ("thead", "<table><thead><tr><td>a</td></tr></thead><tbody><tr><td>b</td></tr>", "</tbody></table>"),
    ],
)
def test_header_rows_are_written_as_asked_and_score_the_same(head, begins, ends) -> None:
    table = MarkedTable(((cell("a"),), (cell("b"),)), n_head=1)
    assert table.html(head) == begins + ends
    assert score_teds(table.html(head), table.html("td")).teds == 1.0
    bodiless = MarkedTable(((cell("a"),),), n_head=1)
    assert bodiless.html("th") == "<table><thead><tr><th>a</th></tr></thead></table>"
    assert MarkedTable(((cell("a"),),)).html(head) == "<table><tr><td>a</td></tr></table>"


def test_tables_without_groups_and_with_frames_are_read() -> None:
    plain = annotation((((("a"), 1, 1),), (("b", 1, 1),)), parts=False)
    assert annotated_table(plain).n_head == 0
    framed = {
        **plain,
        "structure": {"tokens": ["<start>", "<table>", *plain["structure"]["tokens"], "</table>", "<end>"]},
    }
    assert annotated_table(framed) == annotated_table(plain)
    renamed = {"structure": plain["structure"], "cell": plain["cells"]}
    assert annotated_table(renamed) == annotated_table(plain)


def test_only_rows_at_the_top_are_the_head() -> None:
    structure = [
        "<tbody>",
        "<tr>",
        "<td>",
        "</td>",
        "</tr>",
        "</tbody>",
        "<thead>",
        "<tr>",
        "<td>",
        "</td>",
        "</tr>",
        "</thead>",
    ]
    table = annotated_table({"structure": {"tokens": structure}, "cells": [{"tokens": ["a"]}, {"tokens": ["b"]}]})
    assert table.n_head == 0 and len(table.rows) == 2


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("<b>Total</b>", "Total"),
        ("<b> </b>", ""),
        (" \u2264 5  mm\u00a0x", "\u2264 5 mm x"),
        ("CO<sub>2</sub><sup>-</sup>", "CO<sub>2</sub><sup>-</sup>"),
        ("<sup><i>a</i></sup>", "<sup>a</sup>"),
        ("x<sup> <b></b></sup>", "x"),
        ("<strike>no</strike><overline>x</overline>", "nox"),
        ("a<br>b", "a b"),
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("&lt;b&gt;", "&amp;lt;b&amp;gt;"),
        ("10</sup>3", "103"),
    ],
)
def test_marks_in_cells(text: str, markup: str) -> None:
    assert tokens_markup(tokens(text)) == markup


def test_halves_of_characters_are_joined() -> None:
    assert tokens_markup(["\ud835", "\udc65", "="]) == "\U0001d465="
    assert tokens_markup(["\ud835", "="]) == "\ufffd="
    assert text_markup(" a\n<\ud835\udc65 ") == "a &lt;\U0001d465"


def test_a_tag_that_no_text_has_is_refused() -> None:
    with pytest.raises(InputError, match="unknown tag in a cell: <td>"):
        tokens_markup(["<td>"])


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (((cell("a"), cell("b")), (cell("c"),)), "ragged rows: row 2 fills 1 of 2 columns"),
        (((cell("a"),), (cell("b"), cell("c"))), "ragged rows: row 1 fills 1 of 2 columns"),
        (((cell("a"), cell("b", 2)), (cell("c", 1, 2),)), "overlapping cells: row 2"),
        (((cell("a", 2), cell("b")),), "a span beyond the last row: row 1"),
        ((), "no cells in the table"),
        (((),), "no cells in the table"),
        (((cell(""), cell("<sup> </sup>")),), "no text in the table"),
        (((cell("a", 1, 1_000_000),),), "too large a table: 1000000 places"),
    ],
)
def test_faulty_grids_are_refused(rows, reason: str) -> None:
    with pytest.raises(InputError, match=f"^{reason}"):
        MarkedTable(rows)


def test_a_row_that_spans_from_above_fill_is_whole() -> None:
    table = MarkedTable(((cell("a", 2), cell("b", 2)), ()))
    assert table.html() == '<table><tr><td rowspan="2">a</td><td rowspan="2">b</td></tr><tr></tr></table>'


def one_cell(span: str) -> dict:
    return {"structure": {"tokens": ["<tr>", "<td", span, ">", "</td>", "</tr>"]}, "cells": [{"tokens": ["a"]}]}


def faulty(**changes) -> dict:
    return {**annotation(SPANS), **changes}


@pytest.mark.parametrize(
    ("annotation_", "reason"),
    [
        (None, "no annotation"),
        ({}, "no annotation"),
        ({"structure": {"tokens": ["<tr>", "<td>", "</td>", "</tr>"]}, "cells": None}, "no annotation"),
        (annotation(RAGGED), "ragged rows"),
        (annotation(OVERLAPPING), "overlapping cells"),
        (faulty(cells=[{"tokens": ["a"]}]), "cells and structure differ: 1 and 8 cells"),
        (one_cell(' colspan="x"'), "unreadable span: colspan 'x'"),
        (one_cell(' colspan="0"'), "unreadable span"),
        ({"structure": {"tokens": ["<tr>", "<unk>", "</tr>"]}, "cells": []}, "unknown token in the structure: 'unk'"),
        ({"structure": {"tokens": ["<tr>", "word", "</tr>"]}, "cells": []}, "unknown token in the structure: 'word'"),
        ({"structure": {"tokens": ["<td>", "</td>"]}, "cells": [{"tokens": ["a"]}]}, "a cell outside all rows"),
    ],
)  # fmt: skip
def test_faulty_annotations_are_refused(annotation_, reason: str) -> None:
    with pytest.raises(InputError, match=f"^{reason}"):
        annotated_table(annotation_)
