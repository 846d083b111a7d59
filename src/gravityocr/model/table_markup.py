"""The markup of rows and cells as the network writes it: forgiving reading, and writing."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

_TAG = re.compile(r"<(/?)(tr|td|th|table|thead|tbody)\b([^<>]*)>|<(td|th)\b([^<>]*)$", re.IGNORECASE)
_ENDLESS_NUMBER = re.compile(r"&#(?:[xX][0-9a-fA-F]{100,}|[0-9]{100,});?")  # too long a number for Python to read
_SPAN = re.compile(r'(colspan|rowspan)\s*=\s*"?\s*(\d{1,3})', re.IGNORECASE)
_MOST_SPAN = 100


@dataclass(frozen=True)
class Written:
    """A cell as it was written: its text as markup, and its spans."""

    text: str
    n_rows: int
    n_columns: int


def read_rows(markup: str) -> list[list[Written]]:
    """Return the rows of whatever the network wrote; no text is lost, and every text comes back escaped."""
    rows: list[list[Written]] = []
    is_open = False  # whether text goes to the last cell
    at = 0
    for match in [*_TAG.finditer(markup), None]:
        text = markup[at : match.start() if match else len(markup)]
        if text.strip():
            _add_text(rows, text, is_open)
            is_open = True
        if match is None:
            break
        at = match.end()
        closing, name = match.group(1), (match.group(2) or match.group(4)).lower()
        if name == "tr":
            if not closing:
                rows.append([])
            is_open = False
        elif name in ("td", "th"):
            is_open = not closing
            if not closing:
                if not rows:
                    rows.append([])
                rows[-1].append(Written("", *_spans(match.group(3) or match.group(5) or "")))
    return [row for row in rows if row]


def _add_text(rows: list[list[Written]], text: str, is_open: bool) -> None:
    if not rows:
        rows.append([])
    if not is_open or not rows[-1]:
        rows[-1].append(Written("", 1, 1))
    cell = rows[-1][-1]
    clean = html.escape(html.unescape(_ENDLESS_NUMBER.sub("\ufffd", " ".join(text.split()))), quote=False)
    rows[-1][-1] = Written(f"{cell.text} {clean}".strip(), cell.n_rows, cell.n_columns)


def _spans(attributes: str) -> tuple[int, int]:
    found = {name.lower(): min(max(int(number), 1), _MOST_SPAN) for name, number in _SPAN.findall(attributes)}
    return found.get("rowspan", 1), found.get("colspan", 1)


def without_overlaps(rows: list[list[Written]]) -> list[list[Written]]:
    """Return rows whose spans end with the table and before the cells that reach down from above."""
    taken: set[tuple[int, int]] = set()
    settled: list[list[Written]] = []
    for y, row in enumerate(rows):
        settled.append([])
        x = 0
        for cell in row:
            while (y, x) in taken:
                x += 1
            free = next((n for n in range(1, cell.n_columns) if (y, x + n) in taken), cell.n_columns)
            columns = range(x, x + free)
            # Spans from above reach down without a gap, so what is free in this row is free below.
            n_rows = min(cell.n_rows, len(rows) - y)
            taken |= {(y + down, column) for down in range(n_rows) for column in columns}
            settled[-1].append(Written(cell.text, n_rows, free))
    return settled


def write_rows(rows: list[list[Written]]) -> str:
    """Return rows as markup, the text of the cells as it is."""
    return "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)


def _cell(cell: Written) -> str:
    columns = f' colspan="{cell.n_columns}"' if cell.n_columns > 1 else ""
    rows = f' rowspan="{cell.n_rows}"' if cell.n_rows > 1 else ""
    return f"<td{columns}{rows}>{cell.text}</td>"
