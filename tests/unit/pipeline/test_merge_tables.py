"""Tables over pages: one table where that is safe, both where it is not, and never a cell less."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html as lxml_html

from gravityocr.pipeline.passages.merge_tables import GrowingTable, close_table, read_shape

HEAD = "<tr><th>Name</th><th>Value</th></tr>"


def table(*rows: str, head: str = "", attributes: str = "") -> str:
    return f"<table{attributes}>{head}{''.join(rows)}</table>"


def row(*cells: str, tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def merge_tables(first: str, second: str) -> str | None:
    growing = GrowingTable(first)
    return growing.html() if growing.take(second) else None


def words(html: str) -> list[list[str]]:
    tree = lxml_html.fragment_fromstring(html, create_parent="div")
    return [[cell.text_content() for cell in line.iter("td", "th")] for line in tree.iter("tr")]


def test_a_repeated_header_goes_and_every_cell_stays_as_it_is() -> None:
    first = table(row("a_b", "<b>1</b>"), head=HEAD, attributes=' class="x"')
    second = table(row("c|d", "&amp; 2"), row("", ""), head=HEAD)
    assert merge_tables(first, second) == (
        f'<table class="x">{HEAD}{row("a_b", "<b>1</b>")}{row("c|d", "&amp; 2")}{row("", "")}</table>'
    )


def test_thead_and_tbody() -> None:
    first = f"<table><thead>{HEAD}</thead><tbody>{row('a', '1')}</tbody></table>"
    second = f"<table><thead>{HEAD}</thead><tbody>{row('b', '2')}</tbody></table>"
    merged = merge_tables(first, second)
    assert merged == f"<table><thead>{HEAD}</thead><tbody>{row('a', '1')}{row('b', '2')}</tbody></table>"
    assert merge_tables(merged, second) == merged.replace("</tbody>", row("b", "2") + "</tbody>")


def test_a_header_without_th_and_one_that_does_not_repeat() -> None:
    head = row("Name", "Value")
    first, second = table(head, row("a", "1")), table(head, row("b", "2"))
    assert words(merge_tables(first, second) or "") == [["Name", "Value"], ["a", "1"], ["b", "2"]]
    assert words(merge_tables(first, table(row("b", "2"))) or "") == [["Name", "Value"], ["a", "1"], ["b", "2"]]


def test_a_header_of_two_rows_with_spans() -> None:
    head = '<tr><td rowspan="2">Name</td><td colspan="2">Value</td></tr><tr><td>low</td><td>high</td></tr>'
    first, second = table(head, row("a", "1", "2")), table(head, row("b", "3", "4"))
    merged = merge_tables(first, second)
    assert merged is not None and merged.count("rowspan") == 1 and len(words(merged)) == 4


def test_equal_rows_are_data_and_all_stay() -> None:
    same = row("n/a", "none")
    merged = merge_tables(table(same, same), table(same, same, same))
    assert merged is not None and merged.count("<tr>") == 5


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (table(row("a", "1")), table(row("a", "1", "2"))),  # other columns
        (table('<tr><td rowspan="3">a</td><td>1</td></tr>'), table(row("b", "2"))),  # a span across the seam
        (table(row("a", "1"), head=HEAD), table(row("b", "2"), head=row("City", "Area", tag="th"))),  # another header
        (table(row("a", "1"), row("b", "2")), table(row("City", "Area"), row("c", "3"))),  # ... without th
        (table(row("a", "1"), "<tfoot><tr><td>sum</td><td>1</td></tr></tfoot>"), table(row("b", "2"))),
        (table(row("a", "1"), head=HEAD), table(head=HEAD)),  # nothing but the header
        ("<table><tr><td>a</td><td>1", table(row("b", "2"))),  # broken
        (table(row("a", "1")), "<table><tr><td>b<td>2</table>"),
        (table(row("a", table(row("x")))), table(row("b", "2"))),  # a table in a cell
        (table(row("a", "1"), row("b")), table(row("b", "2"))),  # not rectangular
        ("text", table(row("b", "2"))),
        ("<table></table>", "<table></table>"),
    ],
)
def test_what_is_not_safe_stays_apart(first: str, second: str) -> None:
    assert merge_tables(first, second) is None


cells = st.sampled_from(["", "a_b", "x|y", "<b>bold</b>", "1", "2,300.5", "R&amp;D", "a &lt; b", "$x$"])


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(*[st.lists(st.tuples(*[cells] * n), min_size=1, max_size=6)] * 2)))
def test_no_cell_is_lost_or_written_anew(tables: tuple[list[tuple[str, ...]], list[tuple[str, ...]]]) -> None:
    first, second = ([row(*cells) for cells in rows] for rows in tables)
    merged = merge_tables(table(*first), table(*second))
    if merged is None:
        return
    rows = merged.removeprefix("<table>").removesuffix("</table>")
    kept = [second, second[1:]] if second[0] == first[0] else [second]
    assert rows in ["".join(first + rest) for rest in kept]


@pytest.mark.parametrize(
    ("cut", "closed"),
    [
        ("<table><tr><td>a</td><td>b", "<table><tr><td>a</td><td>b</td></tr></table>"),
        ("<table><tr><td>a</td>", "<table><tr><td>a</td></tr></table>"),
        ("<table><tr><td>a</td><t", "<table><tr><td>a</td>&lt;t</tr></table>"),
        ("<table><tr><td>a<br>b", "<table><tr><td>a<br>b</td></tr></table>"),
        (table(row("a")), table(row("a"))),
        ("<table><tr><td>a<td>b</tr></table>", "<table><tr><td>a<td>b</tr></table>"),
    ],
)
def test_a_cut_table_is_closed_and_a_crooked_one_left(cut: str, closed: str) -> None:
    assert close_table(cut) == closed


def test_an_empty_column_counts() -> None:
    shape = read_shape(table(row("a", "", "1"), row("b", "", "2")))
    assert shape is not None and shape.n_columns == 3


def test_hundreds_of_parts_take_no_time() -> None:
    growing = GrowingTable(table(row("name 0", "0"), head=HEAD))
    rows = [row(f"name {number}", str(number)) for number in range(1, 9001)]
    started = time.perf_counter()
    assert all(growing.take(table(*rows[first : first + 30], head=HEAD)) for first in range(0, 9000, 30))
    assert growing.html() == table(row("name 0", "0"), *rows, head=HEAD)
    assert time.perf_counter() - started < 10


def test_a_seam_inside_a_span_ends_the_run() -> None:
    growing = GrowingTable(table(row("a", "1"), head=HEAD))
    assert growing.take(table(row("b", "2"), '<tr><td rowspan="2">c</td><td>3</td></tr>'))
    assert not growing.take(table(row("d", "4")))
    assert growing.html().count("<tr>") == 4
