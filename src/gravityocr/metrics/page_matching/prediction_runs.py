"""Find runs of neighbouring predictions that together make one block of the ground truth.

Models break paragraphs where the ground truth does not. For every block without a near prediction, every start is
extended while the next prediction brings the joined text nearer to it; of the runs that overlap, the cheapest stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from gravityocr.metrics.edit import ned

MAX_RUN = 160
AT_HOME = 0.6
"""A piece belongs to a block if some stretch of the block lies within this normalised distance of it."""


@dataclass(frozen=True)
class Run:
    """Hold neighbouring predictions and their joint distance to the block that they were found for."""

    columns: tuple[int, ...]
    cost: float

    def overlaps(self, other: Run) -> bool:
        """Whether the runs share a prediction."""
        return not set(self.columns).isdisjoint(other.columns)


def join_runs(cost: NDArray[np.float64], gt: list[str], pred: list[str], near: float) -> list[tuple[int, ...]]:
    """Return all predictions in order, neighbours joined that make one block; nothing where no block lacks one.

    *Shapes*: cost float64 [len(gt), len(pred)].
    """
    close = cost < near
    rows = np.flatnonzero(~close.any(axis=1))
    free = np.asarray(~close.any(axis=0))
    starts = np.flatnonzero(free)
    if not len(rows) or not len(starts):
        return []
    best = [_best_run(gt[i], pred, cost[i], starts, free) for i in rows]
    columns: list[tuple[int, ...]] = []
    chosen = {run.columns[0]: run for run in _without_overlaps(best)}
    j = 0
    while j < len(pred):
        run = chosen[j].columns if j in chosen else (j,)
        columns.append(run)
        j += len(run)
    return columns


@lru_cache(maxsize=65536)
def has_window(text: str, piece: str, limit: float, strict: bool) -> bool:
    """Whether some stretch of `text` as long as `piece` lies within the normalised distance `limit` of it.

    A stretch that begins s characters later is at most 2 s edits nearer: the stretches between are passed over.
    """
    n = len(piece)
    if not n or len(text) < n:
        return False
    most = int(limit * n) + 1
    while most / n > limit or (strict and most / n >= limit):
        most -= 1
    if most < 0:
        return False
    if piece in text:
        return True
    start = 0
    while start <= len(text) - n:
        excess = Levenshtein.distance(text[start : start + n], piece) - most
        if excess <= 0:
            return True
        start += (excess + 1) // 2
    return False


def _best_run(
    block: str, pred: list[str], cost: NDArray[np.float64], starts: NDArray[np.intp], free: NDArray[np.bool_]
) -> Run:
    best: Run | None = None
    for start in map(int, starts):
        run = _extend(block, pred, start, float(cost[start]), free)
        if best is None or run.cost < best.cost:
            best = run
    assert best is not None  # there is at least one start
    return best


def _extend(block: str, pred: list[str], start: int, cost: float, free: NDArray[np.bool_]) -> Run:
    columns = [start]
    text = pred[start]
    for j in range(start + 1, min(len(pred), start + MAX_RUN)):
        # What is dear to compute comes last: few pieces are at home in a block.
        if not free[j] or not has_window(block, pred[j], AT_HOME, strict=True):
            break
        if len(columns) == 1 and not has_window(block, text, AT_HOME, strict=False):
            break
        longer = f"{text} {pred[j]}"
        longer_cost = ned(longer, block)
        if longer_cost > cost:
            break
        columns.append(j)
        text, cost = longer, longer_cost
        if len(text) > len(block):
            break
    return Run(tuple(columns), cost)


def _without_overlaps(runs: list[Run]) -> list[Run]:
    """Choose runs that share no prediction: in every chain of overlapping ones, the selection of least mean cost."""
    runs = sorted(runs, key=lambda run: run.columns[0])
    chains: list[list[Run]] = []
    for run in runs:
        if chains and any(run.overlaps(other) for other in chains[-1]):
            chains[-1].append(run)
        else:
            chains.append([run])
    return [run for chain in chains for run in _cheapest_selection(chain)]


def _cheapest_selection(chain: list[Run]) -> list[Run]:
    selections: list[list[Run]] = [[chain[0]]]
    for run in chain[1:]:
        placed = False
        for selection in selections:
            same = next((i for i, other in enumerate(selection) if other.columns == run.columns), None)
            if same is not None:
                placed = True
                if selection[same].cost > run.cost:
                    selection.append(run)
                    del selection[same]
            elif not any(run.overlaps(other) for other in selection):
                selection.append(run)
                placed = True
        if not placed:
            selections.append([run])
    return min(selections, key=lambda selection: sum(run.cost for run in selection) / len(selection))
