"""Tables as data: cells with their places and styled text, and the HTML that is the truth of a whole table."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Style = Literal["", "b", "i", "sup", "sub"]
STYLES: tuple[Style, ...] = get_args(Style)
Kind = Literal["head", "section", "stub", "number", "text"]

_MARKS: dict[str, Style] = {"^": "sup", "_": "sub", "~": "i", "!": "b"}
_MARKED = re.compile(r"([\^_~!])\{([^{}]*)\}")
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True)
class Run:
    """Hold text of one style; a newline is a forced line break."""

    text: str
    style: Style = ""


@dataclass(frozen=True)
class Cell:
    """Hold one cell: its place in the grid and what it says."""

    row: int
    column: int
    n_rows: int = 1
    n_columns: int = 1
    runs: tuple[Run, ...] = ()
    kind: Kind = "text"
    indent: int = 0

    @property
    def text(self) -> str:
        """Return the plain text with single spaces."""
        return _SPACES.sub(" ", "".join(run.text for run in self.runs)).strip()


@dataclass(frozen=True)
class Table:
    """Hold a table: `cells` in row-major order cover the grid exactly once; the first `n_head` rows are its head."""

    n_rows: int
    n_columns: int
    n_head: int
    cells: tuple[Cell, ...]
    source: str

    def html(self) -> str:
        """Return the truth: bare cells with spans and escaped text."""
        rows: list[list[str]] = [[] for _ in range(self.n_rows)]
        for cell in self.cells:
            spans = f' colspan="{cell.n_columns}"' if cell.n_columns > 1 else ""
            spans += f' rowspan="{cell.n_rows}"' if cell.n_rows > 1 else ""
            rows[cell.row].append(f"<td{spans}>{html.escape(cell.text, quote=False)}</td>")
        return "<table>" + "".join(f"<tr>{''.join(row)}</tr>" for row in rows) + "</table>"


def parse_runs(text: str) -> tuple[Run, ...]:
    """Read text with marks: `^{superscript}`, `_{subscript}`, `~{italic}` and `!{bold}`."""
    runs, end = [], 0
    for match in _MARKED.finditer(text):
        runs += [Run(text[end : match.start()]), Run(match[2], _MARKS[match[1]])]
        end = match.end()
    return tuple(run for run in (*runs, Run(text[end:])) if run.text)


def is_complete(cells: Sequence[Cell], n_rows: int, n_columns: int) -> bool:
    """Tell whether the cells cover every place of the grid exactly once."""
    places = [
        (row, column)
        for cell in cells
        for row in range(cell.row, cell.row + cell.n_rows)
        for column in range(cell.column, cell.column + cell.n_columns)
    ]
    whole = {(row, column) for row in range(n_rows) for column in range(n_columns)}
    return len(places) == len(whole) and set(places) == whole
