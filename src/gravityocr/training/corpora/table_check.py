"""A strict reader of table targets: cells on a grid, or what is wrong with the markup."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from gravityocr.metrics.tables.html_tokens import Token, decode_entities, tokenize

TableFaultKind = Literal["broken", "ragged", "empty"]
_PARENTS = {
    "table": ("", "html", "body"),
    "thead": ("table",), "tbody": ("table",), "tfoot": ("table",),
    "tr": ("table", "thead", "tbody", "tfoot", ""), "td": ("tr",), "th": ("tr",),
}  # fmt: skip
_WRAPPERS = frozenset({"html", "body"})
_SPAN = re.compile(r"[1-9]\d{0,2}")
_VOID = frozenset({"br", "img", "hr", "col"})
_MOST_SPAN = 400


@dataclass(frozen=True)
class TableFault:
    """What is wrong with a table."""

    kind: TableFaultKind
    what: str


@dataclass
class TableGrid:
    """The cells of a table: their texts row by row, and how many columns every row spans."""

    rows: list[list[str]] = field(default_factory=list)
    spans: list[list[tuple[int, int]]] = field(default_factory=list)

    def widths(self) -> list[int]:
        """Return the number of columns that each row fills, spans from above counted.

        *Raises*: ValueError for cells that overlap, or spans that reach below the last row.
        """
        below: dict[int, int] = {}  # column -> rows that a cell above still fills
        widths = []
        for number, row in enumerate(self.spans):
            taken = {*below}
            column = 0
            for n_rows, n_columns in row:
                while column in taken:
                    column += 1
                cells = range(column, column + n_columns)
                if not taken.isdisjoint(cells):
                    raise ValueError(f"cells overlap in row {number + 1}")
                taken.update(cells)
                below |= dict.fromkeys(cells, n_rows)
                column += n_columns
            widths.append(len(taken))
            below = {column: left - 1 for column, left in below.items() if left > 1}
        if below:
            raise ValueError("a cell reaches below the last row")
        return widths


def read_table(markup: str) -> TableGrid | TableFault:
    """Read a table target, with or without `<table>` around its rows; the first fault of its markup ends it."""
    reader = _Reader()
    for token in tokenize(markup.strip()):
        what = reader.feed(token)
        if what:
            return TableFault("broken", what)
    if reader.stack:
        return TableFault("broken", f"<{reader.stack[-1]}> that nothing closes")
    grid = reader.grid
    if not any(cell for row in grid.rows for cell in row):
        return TableFault("empty", "no cell holds text")
    return grid


def table_fault(grid: TableGrid, max_columns: int) -> TableFault | None:
    """Say whether the rows of a table do not fill the same columns, or too many."""
    try:
        widths = grid.widths()
    except ValueError as error:
        return TableFault("ragged", str(error))
    if len({*widths}) > 1:
        odd = next(number for number, width in enumerate(widths) if width != widths[0])
        return TableFault("ragged", f"row {odd + 1} fills {widths[odd]} columns, the first {widths[0]}")
    return TableFault("broken", f"{widths[0]} columns") if widths[0] > max_columns else None


class _Reader:
    """Takes the tokens of a table, keeping what is open."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.grid = TableGrid()
        self.n_tables = 0

    def feed(self, token: Token) -> str | None:
        if token.kind in ("text", "raw"):
            return self._text(token.data)
        if token.kind == "start":
            return self._open(token)
        return self._close(token.data) if token.kind == "end" else None

    def _text(self, text: str) -> str | None:
        clean = " ".join(decode_entities(text).split())
        if not clean:
            return None
        if not self._in_cell():
            return f"text outside of cells: {clean[:30]!r}"
        cell = self.grid.rows[-1][-1]
        self.grid.rows[-1][-1] = f"{cell} {clean}".strip()
        return None

    def _in_cell(self) -> bool:
        return any(name in ("td", "th") for name in self.stack)

    def _open(self, token: Token) -> str | None:
        name = token.data.lower()
        if name in _VOID:
            return None
        if name in _PARENTS:
            top = self.stack[-1] if self.stack else ""
            if top not in _PARENTS[name]:
                return f"<{name}> in <{top}>" if top else f"<{name}> outside of a row"
            self.n_tables += name == "table"
            if self.n_tables > 1:
                return "more than one table"
            if name == "tr":
                self.grid.rows.append([])
                self.grid.spans.append([])
            elif name in ("td", "th"):
                spans = [self._span(token, wanted) for wanted in ("rowspan", "colspan")]
                if not all(spans):
                    return f"a span of <{name}> that is no number from 1 to {_MOST_SPAN}"
                self.grid.rows[-1].append("")
                self.grid.spans[-1].append((spans[0], spans[1]))
        elif not self._in_cell() and name not in _WRAPPERS:
            return f"<{name}> outside of cells"
        if not token.closed:
            self.stack.append(name)
        return None

    @staticmethod
    def _span(token: Token, name: str) -> int:
        given = next((value for key, value in token.attributes if key.lower() == name), "1").strip()
        return int(given) if _SPAN.fullmatch(given) and int(given) <= _MOST_SPAN else 0

    def _close(self, name: str) -> str | None:
        name = name.lower()
        if name in _VOID:
            return None
        if not self.stack or self.stack[-1] != name:
            return f"</{name}> where {f'<{self.stack[-1]}>' if self.stack else 'nothing'} is open"
        self.stack.pop()
        return None
