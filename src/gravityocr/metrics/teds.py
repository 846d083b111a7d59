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

from dataclasses import dataclass
from typing import Any

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from gravityocr.errors import ConfigError
from gravityocr.metrics.tables.table_tree import (
    FIRST_TAG_CHARACTER,
    Mode,
    TableReading,
    TableTree,
    UnscorableError,
    read_tree,
)
from gravityocr.metrics.tables.tree_edit import Floats, edit_distance, n_subproblems

# Two tables of 4,200 nodes, or what takes as long: some three seconds.
BUDGET = 150_000_000
# For a reward, which scores hundreds of tables a step: a fifth of a second.
STRUCTURE_BUDGET = 10_000_000
# Comparing two texts takes their lengths' product over 64; eight such steps take as long as one pair of forests.
_CHARACTERS_PER_STEP = 64 * 8
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
    trees: list[TableTree] = []
    try:
        for side, markup in (("prediction", pred), ("reference", ref)):
            trees.append(read_tree(markup, side, mode, compat))
        teds, teds_struct = _compare(trees[0], trees[1], compat, budget)
    except UnscorableError as error:
        n_pred, n_ref = (trees[i].n_nodes if i < len(trees) else 0 for i in range(2))
        return TedsScore(0.0, 0.0, error.status, f"{error}; {_SCORED_0}", (n_pred, n_ref))
    if not compat:
        teds, teds_struct = max(teds, 0.0), max(teds_struct, 0.0)
    faults = [fault for tree in trees for fault in tree.faults]
    error_text = "; ".join([*faults, "the score is of what was read"]) if faults else None
    return TedsScore(
        teds, teds_struct, "malformed" if faults else "ok", error_text, (trees[0].n_nodes, trees[1].n_nodes)
    )


def score_structure(pred: TableReading, ref: TableReading, budget: int = STRUCTURE_BUDGET) -> float:
    """Return TEDS-struct of two tables without ever looking into their cells.

    `budget` bounds the pairs of forests. Where it does not suffice, the result is a bound from above: `1 - d / n` with
    the edit distance `d` of the lists of nodes in postorder, below which the edit distance of the trees never falls.

    >>> from gravityocr.metrics.tables.table_tree import read_table
    >>> score_structure(read_table("<table><tr><td>a</table>"), read_table("<table><tr><td>b</table>"))
    1.0
    """
    trees = pred.tree, ref.tree
    n = _n_counted(*trees, compat=False)
    if n == 0 or (trees[0].labels, trees[0].parents) == (trees[1].labels, trees[1].parents):
        return 1.0
    left1, left2 = (tree.leftmost() for tree in trees)
    if n_subproblems(left1, left2) <= budget:
        distance = edit_distance(left1, left2, _structure_costs(*trees))
    else:
        distance = float(Levenshtein.distance(trees[0].labels, trees[1].labels))
    return max(0.0, 1.0 - distance / n)


def _compare(pred: TableTree, ref: TableTree, compat: bool, budget: int) -> tuple[float, float]:
    """Return TEDS and TEDS-struct."""
    n = _n_counted(pred, ref, compat)
    if n == 0:
        if compat:
            raise UnscorableError("malformed", "both tables are without any element, which divides by zero")
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
        raise UnscorableError(
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


def _n_counted(pred: TableTree, ref: TableTree, compat: bool) -> int:
    """Return the nodes of the larger table, which the distance is divided by."""
    n_inner = min(pred.n_inner_tags, ref.n_inner_tags)
    return max(tree.n_nodes + (tree.n_inner_tags if compat else n_inner) for tree in (pred, ref))


def _structure_costs(pred: TableTree, ref: TableTree) -> Floats:
    numbers: dict[tuple[Any, ...], int] = {}
    ids = [np.array([numbers.setdefault(label, len(numbers)) for label in tree.labels]) for tree in (pred, ref)]
    return (ids[0][:, None] != ids[1]).astype(np.float64)


def _spell(pred: TableTree, ref: TableTree) -> tuple[list[str], list[str]]:
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
    free = (chr(code) for code in range(FIRST_TAG_CHARACTER, 0x110000) if chr(code) not in used)
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


def _add_content_costs(
    costs: Floats, pred: TableTree, ref: TableTree, contents1: list[str], contents2: list[str]
) -> bool:
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
