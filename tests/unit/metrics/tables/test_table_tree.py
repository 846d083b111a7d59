"""Tables read once: rows as a browser makes them, columns, and structure scores without contents."""

from __future__ import annotations

import doctest

import pytest

from gravityocr.metrics.tables import table_tree
from gravityocr.metrics.tables.table_tree import read_table
from gravityocr.metrics.teds import score_structure, score_teds


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(table_tree).failed == 0


@pytest.mark.parametrize(
    ("inner", "rows"),
    [
        ("<tr><td>a</td><td>b</td></tr><tr><td>c</td></tr>", [["a", "b"], ["c"]]),
        ("<tr></tr><tr><td>a</td></tr><tr></tr>", [[], ["a"], []]),
        ("<td>a</td><td>b</td><tr><td>c</td></tr><td>d</td>", [["a", "b"], ["c"], ["d"]]),
        ("<thead><tr><th>a</th></tr></thead><tr><td>b</td></tr>", [["a"], ["b"]]),
        ("<tr><td>a<b>b</b></td></tr>", [["a\U000f0000b\U000f0000"]]),
        ("<tr><td>$\\pm$ 1 &amp; 2</td></tr>", [["$±$ 1 & 2"]]),
        ("<tr><td><table><tr><td>x</td></tr></table></td></tr>", None),
    ],
)
def test_rows_and_cells(inner: str, rows: list[list[str]] | None) -> None:
    table = read_table(f"<table>{inner}</table>")
    found = [[cell.text for cell in row] for row in table.rows]
    if rows is None:  # a table in a cell is the text of that cell
        assert len(found) == 1 and len(found[0]) == 1 and "x" in found[0][0]
    else:
        assert found == rows


@pytest.mark.parametrize(
    ("inner", "n_columns"),
    [
        ("<tr></tr>", 0),
        ("<tr><td></td><td></td></tr><tr><td></td></tr>", 2),
        ("<tr><td colspan=3></td><td></td></tr>", 4),
        ("<tr><td rowspan=2></td><td></td></tr><tr><td></td></tr>", 2),
        ("<tr><td rowspan=2></td><td></td></tr><tr><td></td><td></td></tr><tr><td></td><td></td></tr>", 3),
        ("<tr><td rowspan=3 colspan=2></td></tr><tr><td></td></tr><tr><td></td></tr><tr><td></td></tr>", 3),
        ("<tr><td colspan=-4 rowspan=0></td><td></td></tr>", 2),
        (f"<tr><td colspan={10**30} rowspan={10**30}></td></tr><tr><td></td></tr>", 10**30 + 1),
    ],
)
def test_columns_are_counted_over_spans(inner: str, n_columns: int) -> None:
    assert read_table(f"<table>{inner}</table>").n_columns == n_columns


@pytest.mark.parametrize("markup", ["", " ", "a", "<p>", "<tr><td>a</td></tr>"])
def test_what_is_no_table_is_none(markup: str) -> None:
    assert read_table(markup) is None


def grid(n_rows: int, n_columns: int, span: str = "") -> str:
    return "<table>" + f"<tr>{f'<td{span}>x</td>' * n_columns}</tr>" * n_rows + "</table>"


PAIRS = [
    (grid(4, 3), grid(4, 3)), (grid(3, 3), grid(4, 3)), (grid(4, 2), grid(4, 3)), (grid(40, 2), grid(4, 3)),
    (grid(4, 3, " colspan=2"), grid(4, 3)), (grid(1, 12), grid(4, 3)), ("<table></table>", grid(2, 2)),
    ("<table></table>", "<table></table>"), (grid(2, 2).replace("x", "<b>x</b>"), grid(2, 3).replace("x", "<i>y</i>")),
]  # fmt: skip


@pytest.mark.parametrize(("pred", "ref"), PAIRS)
def test_structure_scores_as_teds_does(pred: str, ref: str) -> None:
    assert score_structure(read_table(pred), read_table(ref)) == pytest.approx(score_teds(pred, ref).teds_struct)


@pytest.mark.parametrize(("pred", "ref"), PAIRS)
def test_over_the_budget_the_score_is_bounded_from_above(pred: str, ref: str) -> None:
    exact, bound = (score_structure(read_table(pred), read_table(ref), budget) for budget in (10**7, 0))
    assert exact <= bound <= exact + 0.15
