"""The HTML of a table as a grid of cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree, html

_MOST_CELLS = 1000  # a span, as in HTML


@dataclass(frozen=True)
class TableCell:
    """One cell: its text, its first row and column from 0, how many of each it takes, whether it is a header."""

    text: str
    row: int
    column: int
    n_rows: int
    n_columns: int
    header: bool


@dataclass(frozen=True)
class TableGrid:
    """A table's cells in reading order; each place of the grid is of at most one of them."""

    n_rows: int
    n_columns: int
    cells: tuple[TableCell, ...]

    @property
    def n_head_rows(self) -> int:
        """Return how many rows at the top hold header cells only."""
        body = [cell.row for cell in self.cells if not cell.header]
        return min(body, default=self.n_rows)


def table_element(markup: str) -> html.HtmlElement | None:
    """Return the one table that a piece of HTML is; None where it is not one table, or holds text beside its cells."""
    try:
        root = html.fragment_fromstring(markup, create_parent="div")
    except (etree.ParserError, ValueError):  # nothing in it, or characters that no document can hold
        return None
    tables = root.xpath("./table | ./html/body/table | ./body/table")
    if len(tables) != 1 or len(root.xpath(".//table")) != 1:
        return None
    beside = "".join(root.xpath(".//text()[not(ancestor::td) and not(ancestor::th) and not(ancestor::caption)]"))
    return None if beside.strip() else tables[0]


def table_grid(markup: str) -> TableGrid | None:
    """Return a table's grid, spans laid out as in a browser, but never over one another; None for no plain table."""
    table = table_element(markup)
    if table is None:
        return None
    rows = list(_rows(table))
    cells: list[TableCell] = []
    spans: list[tuple[int, int, int]] = []  # first column, the one behind the last, the row behind the last
    for row, (element, n_left) in enumerate(rows):
        in_head = element.getparent() is not None and element.getparent().tag == "thead"
        spans = sorted(span for span in spans if span[2] > row)
        begun: list[tuple[int, int, int]] = []
        column = place = 0
        for item in element.xpath("./td | ./th"):
            while place < len(spans) and spans[place][0] <= column:
                column = max(column, spans[place][1])
                place += 1
            n_columns = _span(item, "colspan") or 1
            if place < len(spans):  # where spans overlap, the later one is cut short
                n_columns = min(n_columns, spans[place][0] - column)
            n_rows = min(_span(item, "rowspan") or n_left, n_left)
            begun.append((column, column + n_columns, row + n_rows))
            cells.append(TableCell(cell_text(item), row, column, n_rows, n_columns, in_head or item.tag == "th"))
            column += n_columns
        spans += begun
    if not cells:
        return None
    return TableGrid(len(rows), max(cell.column + cell.n_columns for cell in cells), tuple(cells))


def cell_text(element: html.HtmlElement) -> str:
    """Return an element's text, a line break as a blank."""
    pieces = [element.text or ""]
    for inner in element.iterdescendants():
        is_comment = not isinstance(inner.tag, str)
        pieces += [
            "" if is_comment else inner.text or "",
            " " if inner.tag in ("br", "p", "li") else "",
            inner.tail or "",
        ]
    return " ".join("".join(pieces).split())


def _rows(table: html.HtmlElement) -> Iterator[tuple[html.HtmlElement, int]]:
    """Yield each row and how many of its group are left, itself among them: no cell goes on beyond them."""
    groups: list[list[html.HtmlElement]] = [[]]
    for element in table:
        if element.tag == "tr":
            groups[-1].append(element)
        elif element.tag in ("thead", "tbody", "tfoot"):
            groups += [element.xpath("./tr"), []]
    for group in groups:
        for place, element in enumerate(group):
            yield element, len(group) - place


def _span(element: html.HtmlElement, name: str) -> int:
    text = (element.get(name) or "1").strip()
    return min(int(text), _MOST_CELLS) if text.isascii() and text.isdigit() else 1
