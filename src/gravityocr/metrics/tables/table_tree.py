"""A table as TEDS sees it: a tree of tags whose cells hold text and tags.

A tree is read once with `read_table` where a table is scored often.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from gravityocr.metrics.tables.html_tokens import tokenize
from gravityocr.metrics.tables.table_html import normal_form
from gravityocr.metrics.tables.tree_edit import Ints, leftmost_leaves

Mode = Literal["omnidocbench", "pubtabnet"]

FIRST_TAG_CHARACTER = 0xF0000
"""Tags inside a cell's text count as one character each: these stand for them, beyond all that Unicode assigns."""
_ANY_TAG = chr(FIRST_TAG_CHARACTER)
_MOST_ATTRIBUTES = 1000
_LONG_TAG = re.compile(r"<[a-zA-Z][^>]{2000}")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class CellContent:
    """What a cell holds: stretches of text and, as tuples, tags."""

    pieces: tuple[str | tuple[str], ...]


@dataclass
class TableTree:
    """A table's nodes in postorder; `cells` holds the contents of those that are cells."""

    labels: list[tuple[Any, ...]] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    cells: dict[int, CellContent] = field(default_factory=dict)
    n_inner_tags: int = 0
    is_cut: bool = False  # nested deeper than the parser reads
    faults: list[str] = field(default_factory=list)

    @property
    def n_nodes(self) -> int:
        """How many nodes the tree has below the table."""
        return len(self.labels) - 1

    def leftmost(self) -> Ints:
        """Return the tree's shape as the edit distance takes it."""
        return leftmost_leaves(self.parents)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TableTree):
            return NotImplemented
        return (self.labels, self.parents, self.cells) == (other.labels, other.parents, other.cells)


@dataclass(frozen=True)
class TableCell:
    """A cell as TEDS reads it: its text, in which every tag is one character, and its spans, 1 at least."""

    text: str
    n_columns: int = 1
    n_rows: int = 1


class TableReading:
    """A table read once, to be scored against many: `rows` holds its cells, row by row, those of tables in cells apart.

    Cells next to each other outside of any `<tr>` make a row, as a browser makes one.
    """

    def __init__(self, tree: TableTree) -> None:
        self.tree = tree
        self.rows = tuple(tuple(row) for row in _rows(tree))

    @property
    def n_columns(self) -> int:
        """Return how many columns the widest row fills, cells from the rows above counted."""
        widest = n_above = 0
        ends: dict[int, int] = {}  # row -> columns that are no longer filled from above
        for number, row in enumerate(self.rows):
            n_above -= ends.pop(number, 0)
            widest = max(widest, n_above + sum(cell.n_columns for cell in row))
            for cell in row:
                if cell.n_rows > 1:
                    n_above += cell.n_columns
                    ends[number + cell.n_rows] = ends.get(number + cell.n_rows, 0) + cell.n_columns
        return widest


class UnscorableError(Exception):
    """Ends the scoring of a pair: carries the status and the reason."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def read_table(markup: str) -> TableReading | None:
    """Read a table in the benchmark's normal form; None where there is none or the parser cannot read it.

    >>> [[cell.text for cell in row] for row in read_table("<table><tr><th>a<td>b</table>").rows]
    [['a', 'b']]
    """
    try:
        tree = read_tree(markup, "table", "omnidocbench", compat=False)
    except UnscorableError:
        return None
    return None if tree.is_cut else TableReading(tree)


def read_tree(markup: str, side: str, mode: Mode, compat: bool) -> TableTree:
    """Read the tree of a table; `side` names it in faults and errors.

    *Raises*: UnscorableError where there is no table, or one that the parser cannot read.
    """
    if not markup.strip():
        raise UnscorableError("empty", f"the {side} is blank")
    if not compat:
        markup = _SURROGATE.sub("\ufffd", markup)
    if mode == "omnidocbench":
        markup = normal_form(markup, any_case=not compat)
    else:
        markup = f"<html><body>{markup}</body></html>"
    _check_attributes(markup, side)
    tables, is_cut = _parse(markup, compat) if markup else ([], False)
    if not tables:
        raise UnscorableError("no_table", f"the {side} has no table")
    tree = _tree_of(tables, side, compat)
    tree.is_cut = is_cut
    if is_cut:
        tree.faults.append(f"the {side} nests tags deeper than the parser reads, and ends there")
    return tree


def _check_attributes(markup: str, side: str) -> None:
    """Refuse a tag with so many attributes that the parser, which compares each with each, would never end."""
    if _LONG_TAG.search(markup):
        most = max((len(token.attributes) for token in tokenize(markup)), default=0)
        if most > _MOST_ATTRIBUTES:
            raise UnscorableError("malformed", f"a tag of the {side} has {most} attributes")


def _parse(markup: str, compat: bool) -> tuple[list[Any], bool]:
    """Return the tables that count, and whether the parser gave up on the depth."""
    from lxml import etree, html

    parser = html.HTMLParser(remove_comments=True, encoding="utf-8")
    try:
        document = html.fromstring(markup, parser=parser)
    except (etree.LxmlError, ValueError) as error:
        raise UnscorableError("malformed", f"the HTML cannot be parsed ({error})") from error
    is_cut = len(parser.error_log.filter_from_fatals()) > 0
    if compat:
        return document.xpath("body/table")[:1], is_cut
    return document.xpath("//table[not(ancestor::table)]"), is_cut


def _tree_of(tables: list[Any], side: str, compat: bool) -> TableTree:
    """List the nodes of a table in postorder; the children of several tables become children of one."""
    tree = TableTree()
    roots: list[int] = []
    for table in tables:
        roots += _add_children(tree, table, side, compat)
    tree.labels.append(("table", None, None))
    tree.parents.append(-1)
    for child in roots:
        tree.parents[child] = len(tree.labels) - 1
    tree.n_inner_tags = sum(1 for table in tables for _ in table.iterdescendants("*")) - tree.n_nodes
    return tree


def _add_children(tree: TableTree, element: Any, side: str, compat: bool) -> list[int]:
    """Add the children of an element with all below them; return their places."""
    places = []
    for child in element:
        tag = child.tag if isinstance(child.tag, str) else "?"
        below = [] if tag == "td" else _add_children(tree, child, side, compat)
        place = len(tree.labels)
        for node in below:
            tree.parents[node] = place
        spans: tuple[int | None, ...] = (None, None)
        if tag == "td":
            spans = tuple(_span(child, name, tree, side, compat) for name in ("colspan", "rowspan"))
            tree.cells[place] = CellContent(tuple(_content(child)))
        tree.labels.append((tag, *spans))
        tree.parents.append(-1)
        places.append(place)
    return places


def _span(cell: Any, name: str, tree: TableTree, side: str, compat: bool) -> int:
    value = cell.get(name, "1")
    try:
        return int(value)
    except ValueError as error:
        if compat:
            raise UnscorableError("malformed", f"a {name} of the {side} is {value[:40]!r}") from error
        tree.faults.append(f"a {name} of the {side} is {value[:40]!r} and counts as 1")
        return 1


def _content(element: Any) -> Iterator[str | tuple[str]]:
    """List the text of an element and the tags in it; the tail of a cell inside a cell is left out."""
    if element.text:
        yield element.text
    for child in element:
        tag = child.tag if isinstance(child.tag, str) else "?"
        yield (f"<{tag}>",)
        yield from _content(child)
        if tag != "unk":
            yield (f"</{tag}>",)
        if tag != "td" and child.tail:
            yield child.tail


def _rows(tree: TableTree) -> Iterator[list[TableCell]]:
    """List the cells of every row, rows without cells included."""
    rows: dict[tuple[str, int], list[TableCell]] = {}
    last: tuple[str, int] | None = None
    for place, label in enumerate(tree.labels):
        if label[0] == "tr":
            rows.setdefault(("row", place), [])
            last = None
        elif label[0] == "td":
            above = tree.parents[place]
            while above >= 0 and tree.labels[above][0] != "tr":
                above = tree.parents[above]
            loose = last if last is not None and last[0] == "loose" else ("loose", place)
            last = ("row", above) if above >= 0 else loose
            text = "".join(piece if isinstance(piece, str) else _ANY_TAG for piece in tree.cells[place].pieces)
            spans = [max(1, span) for span in label[1:]]
            rows.setdefault(last, []).append(TableCell(text, *spans))
    yield from rows.values()
