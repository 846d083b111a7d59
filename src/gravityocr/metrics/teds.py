"""TEDS and TEDS-struct: how alike two HTML tables are as trees.

`TEDS = 1 - distance / n`, the edit distance of the two trees over the nodes of the larger one, the table apart.
Renaming a cell costs the edit distance of the contents over the longer; a different tag, colspan or rowspan costs 1.
TEDS-struct leaves the contents out.

Faults of the official scorers, kept where `compat` is asked for and mended otherwise:

- A colspan or rowspan that is no number makes the score 0; mended, it counts as 1 and the status is `malformed`.
- `<TABLE>` in capitals is not seen (mode omnidocbench); mended, it is.
- Of several tables the first alone counts, and in mode pubtabnet none inside another element; mended, the rows of all
  outermost tables are joined into one table, on either side.
- `n` counts the tags inside of cells too, which the distance does not: junk tags bring any score near 1; mended, it
  counts as many of them as both tables have.
- Two tables without cells divide by zero and make the score 0; mended, they are equal.
- A score can fall below 0, where nearly every node is deleted and inserted anew; mended, it ends at 0.

*Source*: PubTabNet, `metric.py`; OmniDocBench v1.6, `table_metric`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from gravityocr.errors import ConfigError
from gravityocr.metrics.tables.html_tokens import tokenize
from gravityocr.metrics.tables.table_html import normal_form
from gravityocr.metrics.tables.tree_edit import Floats, Ints, edit_distance, leftmost_leaves, n_subproblems

Mode = Literal["omnidocbench", "pubtabnet"]

# Two tables of 4,200 nodes, or what takes as long: some three seconds.
BUDGET = 150_000_000
# Comparing two texts takes their lengths' product over 64; eight such steps take as long as one pair of forests.
_CHARACTERS_PER_STEP = 64 * 8
_MOST_ATTRIBUTES = 1000
_LONG_TAG = re.compile(r"<[a-zA-Z][^>]{2000}")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Tags inside a cell's text count as one character each: these stand for them, beyond all that Unicode assigns.
_FIRST_TAG_CHARACTER = 0xF0000
_SCORED_0 = "the score is counted as 0"


@dataclass(frozen=True)
class TedsScore:
    """Scores of one pair of tables.

    `status` is ok, empty (a side is blank), no_table (a side has none), malformed or over_budget; `error` says for
    every status but ok what happened and what the score means. `n_nodes` are the nodes below the table of the
    prediction and of the reference.
    """

    teds: float
    teds_struct: float
    status: str
    error: str | None
    n_nodes: tuple[int, int]


@dataclass(frozen=True)
class _Cell:
    """What a cell holds: stretches of text and, as tuples, tags."""

    pieces: tuple[str | tuple[str], ...]


@dataclass
class _Tree:
    """A table's nodes in postorder; `cells` holds the contents of those that are cells."""

    labels: list[tuple[Any, ...]] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    cells: dict[int, _Cell] = field(default_factory=dict)
    n_inner_tags: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def n_nodes(self) -> int:
        """How many nodes the tree has below the table."""
        return len(self.labels) - 1

    def leftmost(self) -> Ints:
        """Return the tree's shape as the edit distance takes it."""
        return leftmost_leaves(self.parents)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Tree):
            return NotImplemented
        return (self.labels, self.parents, self.cells) == (other.labels, other.parents, other.cells)


class _UnscorableError(Exception):
    """Ends the scoring of a pair: carries the status and the reason."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def score_teds(
    pred: str, ref: str, *, mode: Mode = "omnidocbench", compat: bool = False, budget: int = BUDGET
) -> TedsScore:
    """Score a predicted table against the true one.

    Mode omnidocbench brings both sides into the benchmark's normal form first; pubtabnet takes the HTML as it is.
    `compat` keeps the faults of the official scorers (listed at the head of this module). `budget` bounds the pairs
    of forests that are compared; where it does not suffice the status is `over_budget` and the score 0, unless the
    two tables are the same. Takes any strings.

    *Raises*: ConfigError for an unknown mode.

    >>> score_teds("<table><tr><td>abc</td></tr></table>", "<table><tr><td>abd</td></tr></table>").teds
    0.8333333333333334
    """
    if mode not in ("omnidocbench", "pubtabnet"):
        raise ConfigError(f"unknown mode {mode!r} of TEDS; use omnidocbench or pubtabnet")
    trees: list[_Tree] = []
    try:
        for side, markup in (("prediction", pred), ("reference", ref)):
            trees.append(_read(markup, side, mode, compat))
        teds, teds_struct = _compare(trees[0], trees[1], compat, budget)
    except _UnscorableError as error:
        n_pred, n_ref = (trees[i].n_nodes if i < len(trees) else 0 for i in range(2))
        return TedsScore(0.0, 0.0, error.status, f"{error}; {_SCORED_0}", (n_pred, n_ref))
    if not compat:
        teds, teds_struct = max(teds, 0.0), max(teds_struct, 0.0)
    faults = [fault for tree in trees for fault in tree.faults]
    error_text = "; ".join([*faults, "the score is of what was read"]) if faults else None
    return TedsScore(
        teds, teds_struct, "malformed" if faults else "ok", error_text, (trees[0].n_nodes, trees[1].n_nodes)
    )


def _read(markup: str, side: str, mode: Mode, compat: bool) -> _Tree:
    if not markup.strip():
        raise _UnscorableError("empty", f"the {side} is blank")
    if not compat:
        markup = _SURROGATE.sub("\ufffd", markup)
    if mode == "omnidocbench":
        markup = normal_form(markup, any_case=not compat)
    else:
        markup = f"<html><body>{markup}</body></html>"
    _check_attributes(markup, side)
    tables, is_cut = _parse(markup, compat) if markup else ([], False)
    if not tables:
        raise _UnscorableError("no_table", f"the {side} has no table")
    tree = _tree_of(tables, side, compat)
    if is_cut:
        tree.faults.append(f"the {side} nests tags deeper than the parser reads, and ends there")
    return tree


def _check_attributes(markup: str, side: str) -> None:
    """Refuse a tag with so many attributes that the parser, which compares each with each, would never end."""
    if _LONG_TAG.search(markup):
        most = max((len(token.attributes) for token in tokenize(markup)), default=0)
        if most > _MOST_ATTRIBUTES:
            raise _UnscorableError("malformed", f"a tag of the {side} has {most} attributes")


def _parse(markup: str, compat: bool) -> tuple[list[Any], bool]:
    """Return the tables that count, and whether the parser gave up on the depth."""
    from lxml import etree, html

    parser = html.HTMLParser(remove_comments=True, encoding="utf-8")
    try:
        document = html.fromstring(markup, parser=parser)
    except (etree.LxmlError, ValueError) as error:
        raise _UnscorableError("malformed", f"the HTML cannot be parsed ({error})") from error
    is_cut = len(parser.error_log.filter_from_fatals()) > 0
    if compat:
        return document.xpath("body/table")[:1], is_cut
    return document.xpath("//table[not(ancestor::table)]"), is_cut


def _tree_of(tables: list[Any], side: str, compat: bool) -> _Tree:
    """List the nodes of a table in postorder; the children of several tables become children of one."""
    tree = _Tree()
    roots: list[int] = []
    for table in tables:
        roots += _add_children(tree, table, side, compat)
    tree.labels.append(("table", None, None))
    tree.parents.append(-1)
    for child in roots:
        tree.parents[child] = len(tree.labels) - 1
    tree.n_inner_tags = sum(1 for table in tables for _ in table.iterdescendants("*")) - tree.n_nodes
    return tree


def _add_children(tree: _Tree, element: Any, side: str, compat: bool) -> list[int]:
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
            tree.cells[place] = _Cell(tuple(_content(child)))
        tree.labels.append((tag, *spans))
        tree.parents.append(-1)
        places.append(place)
    return places


def _span(cell: Any, name: str, tree: _Tree, side: str, compat: bool) -> int:
    value = cell.get(name, "1")
    try:
        return int(value)
    except ValueError as error:
        if compat:
            raise _UnscorableError("malformed", f"a {name} of the {side} is {value[:40]!r}") from error
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


def _compare(pred: _Tree, ref: _Tree, compat: bool, budget: int) -> tuple[float, float]:
    """Return TEDS and TEDS-struct."""
    n_inner = min(pred.n_inner_tags, ref.n_inner_tags)
    n = max(tree.n_nodes + (tree.n_inner_tags if compat else n_inner) for tree in (pred, ref))
    if n == 0:
        if compat:
            raise _UnscorableError("malformed", "both tables are without any element, which divides by zero")
        return 1.0, 1.0
    if pred == ref:
        return 1.0, 1.0
    left1, left2 = pred.leftmost(), ref.leftmost()
    contents1, contents2 = _spell(pred, ref)
    work = n_subproblems(left1, left2)
    work += sum(map(len, set(contents1))) * sum(map(len, set(contents2))) // _CHARACTERS_PER_STEP
    if work > budget:
        sizes = len(pred.labels), len(ref.labels)
        most = 1.0 - abs(sizes[0] - sizes[1]) / n
        raise _UnscorableError(
            "over_budget",
            f"tables of {sizes[0]} and {sizes[1]} nodes take {work} steps, over the budget of {budget};"
            f" the true TEDS is at most {most:.4f}",
        )
    costs = _structure_costs(pred, ref)
    struct_distance = edit_distance(left1, left2, costs)
    if _add_content_costs(costs, pred, ref, contents1, contents2):
        distance = edit_distance(left1, left2, costs)
    else:
        distance = struct_distance
    return 1.0 - distance / n, 1.0 - struct_distance / n


def _structure_costs(pred: _Tree, ref: _Tree) -> Floats:
    numbers: dict[tuple[Any, ...], int] = {}
    ids = [np.array([numbers.setdefault(label, len(numbers)) for label in tree.labels]) for tree in (pred, ref)]
    return (ids[0][:, None] != ids[1]).astype(np.float64)


def _spell(pred: _Tree, ref: _Tree) -> tuple[list[str], list[str]]:
    """Write the contents of the cells as strings in which every tag is one character that no text holds."""
    used: set[str] = set()
    tags: dict[tuple[str], str] = {}
    for tree in (pred, ref):
        for cell in tree.cells.values():
            for piece in cell.pieces:
                if isinstance(piece, str):
                    used.update(piece)
                else:
                    tags.setdefault(piece, "")
    free = (chr(code) for code in range(_FIRST_TAG_CHARACTER, 0x110000) if chr(code) not in used)
    for tag, character in zip(tags, free, strict=False):
        tags[tag] = character
    first, second = (
        [
            "".join(piece if isinstance(piece, str) else tags[piece] for piece in cell.pieces)
            for cell in tree.cells.values()
        ]
        for tree in (pred, ref)
    )
    return first, second


def _add_content_costs(costs: Floats, pred: _Tree, ref: _Tree, contents1: list[str], contents2: list[str]) -> bool:
    """Raise the costs of renaming cells to what their contents cost; tell whether that changed anything."""
    if not contents1 or not contents2:
        return False
    unique1, unique2 = ({text: i for i, text in enumerate(dict.fromkeys(texts))} for texts in (contents1, contents2))
    table = process.cdist(list(unique1), list(unique2), scorer=Levenshtein.normalized_distance, dtype=np.float64)
    rows, columns = [unique1[text] for text in contents1], [unique2[text] for text in contents2]
    cells = np.ix_(list(pred.cells), list(ref.cells))
    # A cost of structure is 0 or 1, a cost of content at most 1.
    costs[cells] = np.maximum(costs[cells], table[np.ix_(rows, columns)])
    return bool(table.any())
