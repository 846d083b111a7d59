"""Align predicted formulas with the ground truth in reading order, joining predictions where that is nearer."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

MAX_JOINED = 10
MAX_PAIRS_WITH_GAPS = 4096
"""Of more pairs than that, gaps are not looked for: the number of runs with gaps explodes."""


@dataclass(frozen=True)
class _State:
    """Hold the cost of an alignment so far: less is better, the first difference decides."""

    cost: float
    n_edits: int
    n_chars: int
    n_inline: int

    def beats(self, other: _State | None) -> bool:
        if other is None or self.cost + 1e-12 < other.cost:
            return True
        if self.cost > other.cost + 1e-12:
            return False
        if self.n_chars and other.n_chars:
            left, right = self.n_edits * other.n_chars, other.n_edits * self.n_chars
            if left != right:
                return left < right
        elif self.n_chars or other.n_chars:
            return bool(self.n_chars)
        return self.n_inline < other.n_inline


def align(
    gt: Sequence[str],
    pred: Sequence[str],
    sources: Sequence[Hashable],
    joinable: Sequence[bool],
    inline: Sequence[bool],
    allow_gaps: bool,
) -> list[list[int]]:
    """Return for every formula of the ground truth the predictions that are joined for it, none where it stays alone.

    Predictions are joined where they were split from one formula (`sources`), then with gaps too if they are allowed,
    or where they are `joinable` neighbours. A formula that stays alone costs 1 on either side.
    """
    n_gt, n_pred = len(gt), len(pred)
    allow_gaps = allow_gaps and n_gt * n_pred <= MAX_PAIRS_WITH_GAPS
    if not n_gt or not n_pred:
        return []
    runs = [
        [run for run in _runs(start, n_gt, n_pred, sources, joinable, allow_gaps) if any(pred[j] for j in run)]
        for start in range(n_pred)
    ]
    texts = {run: " ".join(pred[j] for j in run).strip() for of_start in runs for run in of_start}
    best: list[list[_State | None]] = [[None] * (n_pred + 1) for _ in range(n_gt + 1)]
    parent: list[list[tuple[int, int, tuple[int, ...]]]] = [[(0, 0, ())] * (n_pred + 1) for _ in range(n_gt + 1)]
    best[0][0] = _State(0.0, 0, 0, 0)

    def reach(i: int, j: int, state: _State, came_from: tuple[int, int, tuple[int, ...]]) -> None:
        if state.beats(best[i][j]):
            best[i][j], parent[i][j] = state, came_from

    for i in range(n_gt + 1):
        for j in range(n_pred + 1):
            now = best[i][j]
            if now is None:
                continue
            alone = _State(now.cost + 1.0, now.n_edits, now.n_chars, now.n_inline)
            if j < n_pred:
                reach(i, j + 1, alone, (i, j, ()))
            if i < n_gt:
                reach(i + 1, j, alone, (i, j, ()))
            if i < n_gt and j < n_pred:
                for run in runs[j]:
                    n_edits = Levenshtein.distance(gt[i], texts[run])
                    n_chars = max(len(gt[i]), len(texts[run]))
                    n_inline = now.n_inline + (len(run) == 1 and inline[j])
                    cost = now.cost + (n_edits / n_chars if n_chars else 0.0)
                    state = _State(cost, now.n_edits + n_edits, now.n_chars + n_chars, n_inline)
                    reach(i + 1, run[-1] + 1, state, (i, j, run))
    return _trace(parent, n_gt, n_pred)


def _trace(parent: list[list[tuple[int, int, tuple[int, ...]]]], i: int, j: int) -> list[list[int]]:
    out: list[list[int]] = []
    while i or j:
        before_i, before_j, run = parent[i][j]
        if before_i < i:
            out.append(list(run))
        i, j = before_i, before_j
    return out[::-1]


def _runs(
    start: int, n_gt: int, n_pred: int, sources: Sequence[Hashable], joinable: Sequence[bool], allow_gaps: bool
) -> Iterator[tuple[int, ...]]:
    """Yield the runs of predictions that begin at `start` and may be joined."""
    gap = abs(n_gt - n_pred)
    most = min(n_pred, MAX_JOINED + (2 if n_gt > 1 and gap >= 2 else 0))
    last = min(n_pred, start + (min(n_pred, most + 2) if allow_gaps else most))
    n_skips = 0 if not allow_gaps else 2 if gap >= 3 else 1 if gap >= 1 or n_pred >= 4 else 0
    stack: list[tuple[tuple[int, ...], int]] = [((start,), n_skips)]
    while stack:
        run, skips = stack.pop()
        one_source = all(sources[j] == sources[start] for j in run)
        whole = run[-1] - start + 1 == len(run) and all(joinable[j] for j in run)
        if len(run) == 1 or one_source or whole:
            yield run
        if len(run) < most:
            for nxt in range(min(last, run[-1] + 2 + skips) - 1, run[-1], -1):
                skipped = nxt - run[-1] - 1
                # A gap may only lie within one source.
                if not skipped or sources[nxt] == sources[start]:
                    stack.append(((*run, nxt), skips - skipped))
