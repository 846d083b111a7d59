"""Annotated tables in the markup that evaluation reads: one `<table>` of `<tr>` and `<td>` with spans and escaped text.

The benchmark's normal form of a table knows no `<thead>`, `<tbody>` and `<th>`, so by default header rows are rows of
`<td>` like all others, as nano writes them. Of the marks in a cell's text `<sup>` and `<sub>` stay, since 10 is no 10
to the third; bold, italics and rules go, which no truth of the benchmark holds. An empty cell is `<td></td>`.

A table whose cells do not cover its grid exactly once is refused: as a target it would teach a wrong structure.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gravityocr.errors import InputError
from gravityocr.metrics.tables.html_tokens import Token, tokenize

TableHead = Literal["td", "th", "thead"]
TABLE_HEADS: tuple[TableHead, ...] = get_args(TableHead)
MOST_PLACES = 50_000

_TAG = re.compile(r"</?\s*([a-zA-Z]+)[^<>]*>")
_KEPT = frozenset({"sup", "sub"})
_DROPPED = frozenset({
    "b", "strong", "i", "em", "u", "underline", "overline", "strike", "s", "del", "ins", "small", "big", "font", "span",
    "p", "div", "a",
})  # fmt: skip
_MARKS = re.compile(r"<(/?)(sup|sub)>")
_HOLLOW = re.compile(r"<(sup|sub)>\s*</\1>")
_SURROGATES = re.compile("[\ud800-\udfff]")
_ANY_MARK = re.compile(r"</?su[pb]>")
# What frames a sequence of structure tokens in SynthTabNet and says nothing of the table.
_FRAME = frozenset({"start", "end", "pad"})
_GROUPS = frozenset({"html", "body", "table", "tbody", "tfoot"})


@dataclass(frozen=True)
class MarkedCell:
    """A cell: the markup of its text, escaped, and its spans."""

    markup: str = ""
    n_rows: int = 1
    n_columns: int = 1


@dataclass(frozen=True)
class MarkedTable:
    """A table: each row holds the cells that start in it, from left to right; the first `n_head` rows are its head.

    *Raises*: InputError where the cells do not cover the grid exactly once, or nothing is written in any of them.
    """

    rows: tuple[tuple[MarkedCell, ...], ...]
    n_head: int = 0

    def __post_init__(self) -> None:
        _check_grid(self.rows)
        if not any(_ANY_MARK.sub("", cell.markup).strip() for row in self.rows for cell in row):
            raise InputError("no text in the table")

    def html(self, head: TableHead = "td") -> str:
        """Return the table as a target.

        `head` says what becomes of the header rows: `td` (rows like all others), `th` (`<thead>` with `<th>`, and
        `<tbody>`) or `thead` (the same with `<td>`, as PubTabNet has it).
        """
        rows = [_row(row, "th" if head == "th" and y < self.n_head else "td") for y, row in enumerate(self.rows)]
        if head == "td" or not self.n_head:
            return f"<table>{''.join(rows)}</table>"
        top, body = "".join(rows[: self.n_head]), "".join(rows[self.n_head :])
        return f"<table><thead>{top}</thead>{f'<tbody>{body}</tbody>' if body else ''}</table>"


def text_markup(text: str) -> str:
    """Return plain text as the markup of a cell: escaped, white space folded.

    >>> text_markup(" R&D  < 5 ")
    'R&amp;D &lt; 5'
    """
    return html.escape(" ".join(_whole(text).split()), quote=False)


def tokens_markup(tokens: Sequence[str]) -> str:
    """Return a cell's tokens, single characters and tags, as the markup of a cell.

    *Raises*: InputError for a tag that no text has.

    >>> tokens_markup(["<b>", " ", "1", "0", "<sup>", "3", "</sup>", "<", "</b>"])
    '10<sup>3</sup>&lt;'
    """
    parts = []
    for token in tokens:
        tag = _TAG.fullmatch(token)
        name = tag[1].lower() if tag else ""
        if tag is None:
            parts.append(html.escape(token, quote=False))
        elif name in _KEPT:
            parts.append(f"</{name}>" if token.startswith("</") else f"<{name}>")
        elif name == "br":
            parts.append(" ")
        elif name not in _DROPPED:
            raise InputError(f"unknown tag in a cell: {token[:40]}")
    text = " ".join(_whole("".join(parts)).split())
    if not _is_balanced(text):
        text = _ANY_MARK.sub("", text)
    while _HOLLOW.search(text):
        text = _HOLLOW.sub("", text)
    return text.strip()


def annotated_table(annotation: object) -> MarkedTable:
    """Return the table of an annotation as PubTabNet has it: `structure.tokens`, and `cells` with their `tokens`.

    *Raises*: InputError whose message begins with the kind of fault.
    """
    try:
        structure = "".join(annotation["structure"]["tokens"])  # type: ignore[index]
        cells = annotation["cells"] if "cells" in annotation else annotation["cell"]  # type: ignore[index,operator]
        texts = [tokens_markup(cell.get("tokens", ())) for cell in cells]
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"no annotation: {type(error).__name__} {error}") from error
    rows: list[list[MarkedCell]] = []
    n_used = n_head = 0
    in_head = False
    for token in tokenize(structure):
        _check_token(token)
        if token.data == "thead":
            in_head = token.kind == "start"
        elif token.data == "tr" and token.kind == "start":
            n_head += in_head and n_head == len(rows)
            rows.append([])
        elif token.data in ("td", "th") and token.kind == "start":
            if not rows:
                raise InputError("a cell outside all rows")
            text = texts[n_used] if n_used < len(texts) else ""
            rows[-1].append(MarkedCell(text, _span(token, "rowspan"), _span(token, "colspan")))
            n_used += 1
    if n_used != len(texts):
        raise InputError(f"cells and structure differ: {len(texts)} and {n_used} cells")
    return MarkedTable(tuple(tuple(row) for row in rows), n_head)


def _check_token(token: Token) -> None:
    known = token.data in _GROUPS | _FRAME | {"thead", "tr", "td", "th"}
    if token.kind in ("start", "end") and known:
        return
    if token.kind != "text" or token.data.strip():
        raise InputError(f"unknown token in the structure: {token.data[:40]!r}")


def _span(token: Token, name: str) -> int:
    value = dict(token.attributes).get(name, "1")
    if not value.isdecimal() or len(value) > len(str(MOST_PLACES)) or not 1 <= int(value) <= MOST_PLACES:
        raise InputError(f"unreadable span: {name} {value[:40]!r}")
    return int(value)


def _check_grid(rows: Sequence[Sequence[MarkedCell]]) -> None:
    """Lay the cells out as a browser does, and refuse what overlaps, sticks out or leaves holes."""
    n_places = sum(cell.n_rows * cell.n_columns for row in rows for cell in row)
    if not n_places:
        raise InputError("no cells in the table")
    if n_places > MOST_PLACES:
        raise InputError(f"too large a table: {n_places} places")
    taken: list[set[int]] = [set() for _ in rows]
    for y, row in enumerate(rows):
        x = 0
        for cell in row:
            while x in taken[y]:
                x += 1
            if y + cell.n_rows > len(rows):
                raise InputError(f"a span beyond the last row: row {y + 1}")
            columns = set(range(x, x + cell.n_columns))
            for below in taken[y : y + cell.n_rows]:
                if below & columns:
                    raise InputError(f"overlapping cells: row {y + 1}")
                below |= columns
            x += cell.n_columns
    n_columns = max(len(columns) for columns in taken)
    for y, columns in enumerate(taken):
        if columns != set(range(n_columns)):
            raise InputError(f"ragged rows: row {y + 1} fills {len(columns)} of {n_columns} columns")


def _row(row: Sequence[MarkedCell], tag: str) -> str:
    parts = []
    for cell in row:
        spans = f' colspan="{cell.n_columns}"' if cell.n_columns > 1 else ""
        spans += f' rowspan="{cell.n_rows}"' if cell.n_rows > 1 else ""
        parts.append(f"<{tag}{spans}>{cell.markup}</{tag}>")
    return f"<tr>{''.join(parts)}</tr>"


def _is_balanced(text: str) -> bool:
    open_tags: list[Any] = []
    for match in _MARKS.finditer(text):
        if not match[1]:
            open_tags.append(match[2])
        elif not open_tags or open_tags.pop() != match[2]:
            return False
    return not open_tags


def _whole(text: str) -> str:
    """Join the halves of characters beyond the basic plane, which token lists hold one by one."""
    if not _SURROGATES.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
