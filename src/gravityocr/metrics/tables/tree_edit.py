"""The edit distance of ordered trees: the least cost of deleting, inserting and renaming nodes.

A tree is given by one array over its nodes in postorder: the place of each node's leftmost leaf. Deleting and inserting
cost 1, renaming costs what the caller says. The recurrence is Zhang and Shasha's, compiled by numba when the first
distance is asked for (a second or two, once: the compiled code is kept on disk). Of the two ways to decompose the
trees, by leftmost or by rightmost leaves, the cheaper is taken.

*Source*: Zhang, Shasha, Simple fast algorithms for the editing distance between trees, SIAM J. Comput. 18(6), 1989.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


def leftmost_leaves(parents: list[int]) -> Ints:
    """Return the place of every node's leftmost leaf, from the place of its parent (-1 at the root), in postorder.

    >>> leftmost_leaves([1, 4, 3, 4, -1]).tolist()
    [0, 0, 2, 2, 0]
    """
    leftmost = list(range(len(parents)))
    for node, parent in enumerate(parents):
        if parent >= 0 and leftmost[node] < leftmost[parent]:
            leftmost[parent] = leftmost[node]
    return np.array(leftmost, dtype=np.intp)


def n_subproblems(left1: Ints, left2: Ints) -> int:
    """Count the pairs of forests that the distance of two trees takes."""
    return min(_relevant(left1) * _relevant(left2), _relevant(_mirror(left1)) * _relevant(_mirror(left2)))


def edit_distance(left1: Ints, left2: Ints, renames: Floats) -> float:
    """Return the edit distance of two trees.

    *Shapes*: `left1` [n1], `left2` [n2]; `renames` [n1, n2], the cost of renaming a node into another.
    """
    mirror1, mirror2 = _mirror(left1), _mirror(left2)
    if _relevant(mirror1) * _relevant(mirror2) < _relevant(left1) * _relevant(left2):
        renames = renames[np.ix_(_mirror_order(left1), _mirror_order(left2))]
        left1, left2 = mirror1, mirror2
    # One layout of the costs means one compilation.
    renames = np.ascontiguousarray(renames, dtype=np.float64)
    return float(_compiled()(left1, _keyroots(left1), left2, _keyroots(left2), renames))


def _mirror_order(leftmost: Ints) -> Ints:
    """Return the nodes in the postorder of the mirrored tree, which is the preorder backwards."""
    # A subtree begins at its leftmost leaf; of those that begin at the same leaf the larger comes first in preorder.
    return np.lexsort((-np.arange(len(leftmost)), leftmost))[::-1]


def _mirror(leftmost: Ints) -> Ints:
    nodes = np.arange(len(leftmost))
    sizes = nodes - leftmost + 1
    return nodes - sizes[_mirror_order(leftmost)] + 1


def _keyroots(leftmost: Ints) -> Ints:
    """Return the highest node of every path along leftmost leaves, in postorder."""
    last = np.full(len(leftmost), -1, dtype=np.intp)
    last[leftmost] = np.arange(len(leftmost))  # of several nodes with one leaf the last, the highest, stays
    return np.sort(last[last >= 0])


def _relevant(leftmost: Ints) -> int:
    roots = _keyroots(leftmost)
    return int((roots - leftmost[roots] + 1).sum())


def _solve(left1: Ints, roots1: Ints, left2: Ints, roots2: Ints, renames: Floats) -> float:
    """Fill in the distances of all pairs of subtrees, keyroot by keyroot; return the last.

    `forests[row, column]` is the distance of the first `row` and `column` nodes of the two subtrees at hand.
    """
    subtrees = np.zeros(renames.shape)
    forests = np.empty((renames.shape[0] + 1, renames.shape[1] + 1))
    for root1 in roots1:
        first1 = left1[root1]
        for root2 in roots2:
            first2 = left2[root2]
            for column in range(root2 - first2 + 2):
                forests[0, column] = column
            for node1 in range(first1, root1 + 1):
                row = node1 - first1 + 1
                before1 = left1[node1] - first1
                forests[row, 0] = row
                for node2 in range(first2, root2 + 1):
                    column = node2 - first2 + 1
                    before2 = left2[node2] - first2
                    best = min(forests[row - 1, column], forests[row, column - 1]) + 1.0
                    if before1 == 0 and before2 == 0:
                        best = min(best, forests[row - 1, column - 1] + renames[node1, node2])
                        subtrees[node1, node2] = best
                    else:
                        best = min(best, forests[before1, before2] + subtrees[node1, node2])
                    forests[row, column] = best
    return subtrees[-1, -1]


@functools.cache
def _compiled() -> Callable[[Ints, Ints, Ints, Ints, Floats], float]:
    from numba import njit

    try:
        return njit(cache=True, nogil=True)(_solve)
    except RuntimeError:  # no folder in which the compiled code could be kept
        return njit(nogil=True)(_solve)
