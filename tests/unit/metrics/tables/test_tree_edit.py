"""Tree edit distance: against the textbook and apted on random trees, by hand on small ones, and its count of work."""

from __future__ import annotations

import doctest
import functools
from types import SimpleNamespace

import numpy as np
import pytest
from apted import APTED, Config
from hypothesis import given, settings
from hypothesis import strategies as st

from gravityocr.metrics.tables import tree_edit
from gravityocr.metrics.tables.tree_edit import edit_distance, leftmost_leaves, n_subproblems

# A tree as nested lists of children; two shapes that favour either decomposition come up often enough.
shapes = st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=4), max_leaves=10)


def postorder(shape: list) -> tuple[list[int], SimpleNamespace]:
    """Return the parents of the nodes in postorder, and the tree that apted takes; `place` is the postorder."""
    parents: list[int] = []

    def visit(children: list) -> SimpleNamespace:
        nodes = [visit(child) for child in children]
        place = len(parents)
        parents.append(-1)
        for node in nodes:
            parents[node.place] = place
        return SimpleNamespace(place=place, children=nodes)

    return parents, visit(shape)


class TableCosts(Config):
    """Renaming costs what a table says."""

    def __init__(self, renames: np.ndarray) -> None:
        self.renames = renames

    def rename(self, node1, node2) -> float:
        return float(self.renames[node1.place, node2.place])


def textbook_distance(tree1: SimpleNamespace, tree2: SimpleNamespace, renames: np.ndarray) -> float:
    """Try, for every pair of forests, to delete, insert or match the last roots."""

    @functools.cache
    def forests(first: tuple, second: tuple) -> float:
        if not first and not second:
            return 0.0
        ways = []
        if first:
            ways.append(1 + forests(first[:-1] + below[0, first[-1]], second))
        if second:
            ways.append(1 + forests(first, second[:-1] + below[1, second[-1]]))
        if first and second:
            inside = forests(below[0, first[-1]], below[1, second[-1]])
            ways.append(renames[first[-1], second[-1]] + inside + forests(first[:-1], second[:-1]))
        return min(ways)

    below: dict[tuple[int, int], tuple[int, ...]] = {}

    def note(side: int, node: SimpleNamespace) -> None:
        below[side, node.place] = tuple(child.place for child in node.children)
        for child in node.children:
            note(side, child)

    note(0, tree1)
    note(1, tree2)
    return float(forests((tree1.place,), (tree2.place,)))


@settings(max_examples=60)
@given(shapes, shapes, st.integers(0, 2**32 - 1))
def test_the_distance_is_the_textbook_one(shape1: list, shape2: list, seed: int) -> None:
    (parents1, tree1), (parents2, tree2) = postorder(shape1), postorder(shape2)
    renames = np.random.default_rng(seed).random((len(parents1), len(parents2)))
    expected = textbook_distance(tree1, tree2, renames)
    left1, left2 = leftmost_leaves(parents1), leftmost_leaves(parents2)
    assert edit_distance(left1, left2, renames) == pytest.approx(expected, abs=1e-9)
    assert edit_distance(left2, left1, renames.T) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60)
@given(shapes, shapes, st.integers(0, 2**32 - 1))
def test_the_distance_is_the_one_of_apted(shape1: list, shape2: list, seed: int) -> None:
    """Compare for whole costs: apted 1.0.3 misses the least distance where renaming inner nodes costs a fraction."""
    (parents1, tree1), (parents2, tree2) = postorder(shape1), postorder(shape2)
    renames = np.random.default_rng(seed).integers(0, 2, (len(parents1), len(parents2))).astype(np.float64)
    expected = APTED(tree1, tree2, TableCosts(renames)).compute_edit_distance()
    assert edit_distance(leftmost_leaves(parents1), leftmost_leaves(parents2), renames) == expected


def test_the_compiled_code_is_the_written_one() -> None:
    left = leftmost_leaves(postorder([[[], []], [[]]])[0])
    roots = tree_edit._keyroots(left)
    renames = np.random.default_rng(0).random((len(left), len(left)))
    assert edit_distance(left, left, renames) == pytest.approx(tree_edit._solve(left, roots, left, roots, renames))


@pytest.mark.parametrize(
    ("shape1", "shape2", "distance"),
    [
        ([], [], 0.5),  # one node renamed
        ([[]], [[]], 1.0),
        ([[], [], []], [[]], 3.0),  # two deleted, two renamed
        ([[[[]]]], [], 3.5),
        ([[[], []]], [[], []], 2.5),  # the node between goes, its children move up
    ],
)
def test_distances_counted_by_hand(shape1: list, shape2: list, distance: float) -> None:
    left1, left2 = (leftmost_leaves(postorder(shape)[0]) for shape in (shape1, shape2))
    assert edit_distance(left1, left2, np.full((len(left1), len(left2)), 0.5)) == distance


def comb(depth: int, leaf_first: bool) -> list:
    shape: list = []
    for _ in range(depth):
        shape = [[], shape] if leaf_first else [shape, []]
    return shape


def test_the_cheaper_decomposition_is_taken() -> None:
    left, right = (leftmost_leaves(postorder(comb(20, leaf_first))[0]) for leaf_first in (False, True))
    assert n_subproblems(left, left) == n_subproblems(right, right) == 61**2  # the path once, 20 leaves
    same = 1.0 - np.eye(41)
    assert edit_distance(right, right, same) == edit_distance(left, left, same) == 0.0


def test_a_table_takes_as_many_subproblems_as_counted_by_hand() -> None:
    rows = leftmost_leaves(postorder([[[]] * 4] * 3)[0])
    # the whole (16), two rows more (5 each), three cells more in every row (1 each)
    assert n_subproblems(rows, rows) == (16 + 2 * 5 + 3 * 3) ** 2


def test_the_examples_in_the_docstrings() -> None:
    results = doctest.testmod(tree_edit)
    assert (results.attempted, results.failed) == (1, 0)
