"""The strict reader of tables: grids with spans, ragged rows, broken markup."""

from __future__ import annotations

import pytest

from gravityocr.training.corpora.table_check import TableFault, TableGrid, read_table, table_fault


def fault(markup: str, max_columns: int = 100) -> TableFault | None:
    read = read_table(markup)
    return table_fault(read, max_columns) if isinstance(read, TableGrid) else read


@pytest.mark.parametrize(
    "markup",
    [
        "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td></td></tr></table>",
        "<tr><td>a</td></tr>",
        '<table border="1"><thead><tr><th colspan="2">a</th></tr></thead><tr><td>b</td><td>c</td></tr></table>',
        '<table><tr><td rowspan="2">a</td><td>b</td></tr><tr><td>c</td></tr></table>',
        '<table><tr><td rowspan="2">a</td><td>b</td><td rowspan=2>c</td></tr><tr><td>d</td></tr></table>',
        "<html><body><table><tr><td>p &lt; 0.05 <b>x</b><br>y<sup>2</sup></td></tr></table></body></html>",
        '<table><tr><td rowspan="2">a</td><td rowspan="2">b</td></tr><tr></tr></table>',
        "<table><tr><td>p < 0.05</td></tr></table>\n",
    ],
)
def test_good_tables_stay(markup: str) -> None:
    assert fault(markup) is None


@pytest.mark.parametrize(
    ("markup", "kind"),
    [
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "ragged"),
        ('<table><tr><td colspan="2">a</td></tr><tr><td>c</td></tr></table>', "ragged"),
        ('<table><tr><td rowspan="3">a</td><td>b</td></tr><tr><td>c</td></tr></table>', "ragged"),
        (
            '<table><tr><td>a</td><td rowspan="2">b</td><td>c</td></tr>'
            '<tr><td colspan="2">d</td><td>e</td></tr></table>',
            "ragged",
        ),
        ("<table><tr><td>a</td>", "broken"),
        ("<table><tr><td>a<td>b</td></tr></table>", "broken"),
        ("<table><td>a</td></table>", "broken"),
        ("<table><tr>loose<td>a</td></tr></table>", "broken"),
        ("<table><tr><td>a</td></tr></table> and so on", "broken"),
        ("<table><tr><td>a</td></tr></table><table><tr><td>a</td></tr></table>", "broken"),
        ("<table><tr><td><table><tr><td>a</td></tr></table></td></tr></table>", "broken"),
        ('<table><tr><td colspan="0">a</td></tr></table>', "broken"),
        ('<table><tr><td colspan="9999">a</td></tr></table>', "broken"),
        ("| a | b |", "broken"),
        ("<table><tr><td></td><td> </td></tr></table>", "empty"),
        ("<table></table>", "empty"),
        ("", "empty"),
    ],
)
def test_bad_tables_go(markup: str, kind: str) -> None:
    found = fault(markup)
    assert found is not None and found.kind == kind


def test_too_many_columns_are_no_table() -> None:
    markup = f"<tr>{'<td>a</td>' * 11}</tr>"
    assert fault(markup, 11) is None and fault(markup, 10).what == "11 columns"


def test_texts_and_widths_are_read() -> None:
    grid = read_table(
        '<table><tr><td rowspan="2">a &amp;  b</td><td colspan="2">c</td></tr><tr><td>d</td><td>e</td></tr></table>'
    )
    assert isinstance(grid, TableGrid)
    assert grid.rows == [["a & b", "c"], ["d", "e"]] and grid.widths() == [3, 3]
