"""Tables that go on over pages: their grids, whether two are one, and one HTML table of both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser

_OPENING = {name: re.compile(rf"<({name})\b([^<>]*)>", re.IGNORECASE) for name in ("tr", "t[hd]", "thead")}
_CLOSING = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in ("tr", "td", "th", "thead")}
_SPAN = r"\b{}\s*=\s*[\"']?\s*(\d+)"
_TAG = re.compile(r"<[^<>]*>")
_VOID = frozenset({
    "br", "hr", "img", "input", "col", "wbr",
})  # fmt: skip
_MAX_SPAN = 1000
_NUMERIC = re.compile(r"[\s\d.,:%+\-–−()/$€£¥]*\d[\s\d.,:%+\-–−()/$€£¥]*")


@dataclass(frozen=True)
class _Cell:
    text: str
    is_header: bool
    rowspan: int
    colspan: int


@dataclass(frozen=True)
class TableShape:
    """A table as rows of raw HTML and what they hold.

    `n_header_rows` counts the rows that a continuation may repeat: those of its `thead`, or of `th` only, or a first
    row of words above rows with numbers; `reaches_below` says that a cell spans more rows than follow it.
    """

    rows: tuple[str, ...]
    cells: tuple[tuple[_Cell, ...], ...]
    n_columns: int
    n_header_rows: int
    has_marked_header: bool
    reaches_below: bool


def read_shape(html: str) -> TableShape | None:
    """Return the rows and columns of one plain table; None for what is no whole, rectangular table without another."""
    body = html.strip()
    lowered = body.lower()
    if not lowered.startswith("<table") or not lowered.endswith("</table>") or lowered.count("<table") != 1:
        return None
    if close_table(body) != body:
        return None
    rows = tuple(whole for whole, _, _, _ in _elements(body, "tr"))
    if not rows or len(rows) != len(re.findall(r"<tr\b", lowered)):
        return None
    cells = tuple(tuple(_cells(row)) for row in rows)
    if sum(map(len, cells)) != len(re.findall(r"<t[hd]\b", lowered)):
        return None
    widths, reaches_below = _widths(cells)
    if len(set(widths)) != 1 or widths[0] == 0:
        return None
    n_marked = _marked_header_rows(body, cells)
    n_header = n_marked or _unmarked_header_rows(cells)
    return TableShape(rows, cells, widths[0], n_header, n_marked > 0, reaches_below)


class GrowingTable:
    """A table that takes in what it goes on with, each part looked at once, however many there are.

    What is no plain, whole table takes in nothing.
    """

    def __init__(self, html: str) -> None:
        self._html = html.strip()
        self._first = read_shape(html)
        self._last = self._first
        self._rows: list[str] = []

    def take(self, html: str) -> bool:
        """Take in the rows of a table, without the header that it repeats; tell whether that is safe.

        Unsafe are another number of columns, a cell that spans the seam, another header, a `tfoot` and anything
        broken. No cell is lost but those of the repeated header, and none is written anew.
        """
        below = read_shape(html) if self._first is not None else None
        if self._first is None or self._last is None or below is None or "<tfoot" in (self._html + html).lower():
            return False
        if self._first.n_columns != below.n_columns or self._last.reaches_below:
            return False
        n_dropped = _repeated_header(self._first, self._last, below)
        if n_dropped is None or n_dropped == len(below.rows):
            return False
        self._rows += below.rows[n_dropped:]
        self._last = replace(below, n_header_rows=n_dropped)
        return True

    def html(self) -> str:
        """Return the one table of all."""
        if not self._rows:
            return self._html
        lowered = self._html.lower()
        seam = lowered.rfind("</tbody")
        if seam < 0:
            seam = lowered.rfind("</table")
        between = "\n" if self._html[:seam].endswith("\n") else ""
        return self._html[:seam] + between.join(self._rows) + between + self._html[seam:]


def close_table(html: str) -> str:
    """Return a cut table with the end tags that it lacks; as it is where it is whole or its tags do not nest.

    Half a tag at its end is escaped, so that it shows and takes no text behind it along.
    """
    reader = _OpenTags()
    reader.feed(html)
    rest = reader.rawdata
    if reader.crossed:
        return html
    if rest.startswith("<"):
        html = f"{html[: len(html) - len(rest)]}&lt;{rest[1:]}"
    return html + "".join(f"</{name}>" for name in reversed(reader.open))


class _OpenTags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.open: list[str] = []
        self.crossed = False

    # the names of these three are html.parser's
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that closes itself opens nothing."""

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.crossed = True


def _elements(html: str, kind: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield each element that has an end tag: the whole of it, its name, its attributes and what is in it."""
    position = 0
    unclosed: set[str] = set()
    while opening := _OPENING[kind].search(html, position):
        name = opening.group(1).lower()
        closing = None if name in unclosed else _CLOSING[name].search(html, opening.end())
        if closing is None:
            unclosed.add(name)
            position = opening.end()
            continue
        inside = html[opening.end() : closing.start()]
        yield html[opening.start() : closing.end()], name, opening.group(2), inside
        position = closing.end()


def _cells(row: str) -> list[_Cell]:
    found: list[_Cell] = []
    for _, name, attributes, content in _elements(row, "t[hd]"):
        text = " ".join(_TAG.sub(" ", content).split())
        found.append(_Cell(text, name == "th", _span(attributes, "rowspan"), _span(attributes, "colspan")))
    return found


def _span(attributes: str, name: str) -> int:
    match = re.search(_SPAN.format(name), attributes, re.IGNORECASE)
    return min(_MAX_SPAN, max(1, int(match.group(1)))) if match else 1


def _widths(cells: Sequence[Sequence[_Cell]]) -> tuple[list[int], bool]:
    """Return each row's number of grid columns, and whether a cell reaches below the last row."""
    widths: list[int] = []
    open_spans: list[tuple[int, int]] = []  # rows still to come, columns
    for row in cells:
        widths.append(sum(cell.colspan for cell in row) + sum(columns for _, columns in open_spans))
        open_spans = [(rows - 1, columns) for rows, columns in open_spans if rows > 1]
        open_spans += [(cell.rowspan - 1, cell.colspan) for cell in row if cell.rowspan > 1]
    return widths, bool(open_spans)


def _marked_header_rows(html: str, cells: Sequence[Sequence[_Cell]]) -> int:
    head = next(_elements(html, "thead"), None)
    if head:
        return sum(1 for _ in _elements(head[0], "tr"))
    n_rows = 0
    while n_rows < len(cells) and cells[n_rows] and all(cell.is_header for cell in cells[n_rows]):
        n_rows += 1
    return n_rows


def _unmarked_header_rows(cells: Sequence[Sequence[_Cell]]) -> int:
    """Count the rows of a header without `th`: a first row of words only, over another one, as deep as its spans."""
    words = any(cell.text for cell in cells[0]) and not any(_NUMERIC.fullmatch(cell.text) for cell in cells[0])
    depth = max((cell.rowspan for cell in cells[0]), default=1)
    if not words or depth >= len(cells) or cells[depth] == cells[0]:
        return 0
    return depth


def _repeated_header(first: TableShape, above: TableShape, below: TableShape) -> int | None:
    """Return how many rows of `below` repeat the header of the first; None where it has another header."""
    n_rows = first.n_header_rows
    if n_rows and _words(below, n_rows) == _words(first, n_rows):
        deeper = below.has_marked_header and below.n_header_rows > n_rows
        return None if deeper or _reaches_out(below, n_rows) else n_rows
    if below.has_marked_header or _heads_numbers(above, below):
        return None
    return 0


def _words(shape: TableShape, n_rows: int) -> list[list[tuple[str, int, int]]]:
    return [[(cell.text, cell.rowspan, cell.colspan) for cell in row] for row in shape.cells[:n_rows]]


def _reaches_out(shape: TableShape, n_rows: int) -> bool:
    return any(k + cell.rowspan > n_rows for k, row in enumerate(shape.cells[:n_rows]) for cell in row)


def _heads_numbers(above: TableShape, below: TableShape) -> bool:
    """Tell whether the first row of `below` has words where both tables have numbers: then it is a header itself."""
    body, rest = above.cells[above.n_header_rows :], below.cells[1:]
    plain = [row for row in (*body, *rest, below.cells[0]) if len(row) == above.n_columns]
    if below.cells[0] not in plain or len(rest) < 1 or not body:
        return False
    for column in range(above.n_columns):
        others = [row[column].text for row in (*body, *rest) if len(row) == above.n_columns and row[column].text]
        first = below.cells[0][column].text
        if first and others and all(map(_NUMERIC.fullmatch, others)) and not _NUMERIC.fullmatch(first):
            return True
    return False
