"""What a forward costs by its rows, and the speed-up that follows from it."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ForwardTimer = Callable[[int, int], float]
"""Number of sequences, rows of each -> seconds of one forward."""

ROWS = (1, 2, 5, 9, 13, 17, 25, 33, 65)
COST_BOUNDARY = "one decode forward over a filled cache: embedding, all layers, logits; acceptance is outside"
_REPEATS, _WARM_UPS = 15, 2


@dataclass(frozen=True)
class CostTable:
    """Seconds of a forward, by sequences and rows: the shortest and the median of many.

    Ratios are those of the shortest: whatever disturbs a forward only ever adds to it.
    """

    shortest: Mapping[int, Mapping[int, float]]
    median: Mapping[int, Mapping[int, float]]

    @classmethod
    def measure(cls, timer: ForwardTimer, sizes: Sequence[int], more_rows: Iterable[int] = ()) -> CostTable:
        """Time forwards, the row counts taking turns so that a disturbance hits all of them."""
        rows = sorted({*ROWS, *more_rows})
        shortest, median = {}, {}
        for size in sizes:
            for n_rows in rows * _WARM_UPS:
                timer(size, n_rows)
            times: dict[int, list[float]] = {n_rows: [] for n_rows in rows}
            for _ in range(_REPEATS):
                for n_rows in rows:
                    times[n_rows].append(timer(size, n_rows))
            shortest[size] = {n_rows: min(found) for n_rows, found in times.items()}
            median[size] = {n_rows: statistics.median(found) for n_rows, found in times.items()}
        return cls(shortest, median)

    def ratio(self, size: int, n_rows: float) -> float:
        """Return the cost of a window over that of one row, between measured rows by a straight line."""
        costs = self.shortest[size]
        rows = sorted(costs)
        place = min(max(bisect_left(rows, n_rows), 1), len(rows) - 1)
        low, high = rows[place - 1], rows[place]
        share = (n_rows - low) / (high - low)
        return (costs[low] * (1 - share) + costs[high] * share) / costs[1]


@dataclass(frozen=True)
class RoundShape:
    """The rows of a round's forwards: B + 1 to draft; to verify as many, and B more for each candidate."""

    block_size: int
    n_candidates: int = 0

    @property
    def draft_rows(self) -> int:
        """Return the rows of a draft forward."""
        return self.block_size + 1

    @property
    def verify_rows(self) -> int:
        """Return the rows of a verify forward, mask blocks included."""
        return self.draft_rows + self.n_candidates * self.block_size

    def forward_over_one_row(self, costs: CostTable, size: int, hit_rate: float) -> float:
        """Return the mean cost of a forward over that of one row; a round whose candidate was hit drafts nothing."""
        drafted = (1 - hit_rate) * costs.ratio(size, self.draft_rows)
        return (costs.ratio(size, self.verify_rows) + drafted) / (2 - hit_rate)

    def break_even(self, costs: CostTable, size: int, n_accepted: float) -> float | None:
        """Return the hit rate at which candidates neither cost nor save time; None without candidates.

        A hit saves a draft forward and the one token that it commits: with W and F the costs of the forwards, h solves
        (F + (1 - h) W) / (A + 2 - h) = 2 W / (A + 2).
        """
        if not self.n_candidates or not n_accepted:
            return None
        draft, verify = costs.ratio(size, self.draft_rows), costs.ratio(size, self.verify_rows)
        return (verify / draft - 1) * (n_accepted + 2) / n_accepted


def n_together(ids: Sequence[Sequence[Sequence[int]]]) -> int:
    """Return how many sequences of a crop run together on average, rounded, crops weighed by their forwards of AR."""
    n_tokens = sum(len(piece) - 1 for pieces in ids for piece in pieces)
    n_steps = sum(max((len(piece) - 1 for piece in pieces), default=0) for pieces in ids)
    return max(1, round(n_tokens / n_steps)) if n_steps else 1


def cost_section(
    costs: CostTable, running: int, modes: Mapping[str, Mapping[str, Any]], shapes: Mapping[str, RoundShape]
) -> dict[str, Any]:
    """Return the costs and, for each mode of known rows, the speed-up to expect beside the measured one.

    expected = TPF / (cost of the forwards of a round / (their number x cost of a one-row forward)).
    """
    batches = {}
    for size, by_rows in costs.shortest.items():
        batches[str(size)] = {
            "ms": {str(n): 1000 * seconds for n, seconds in by_rows.items()},
            "ms_median": {str(n): 1000 * seconds for n, seconds in costs.median[size].items()},
            "window_over_one_row": {str(n): seconds / by_rows[1] for n, seconds in by_rows.items()},
        }
    expected = {}
    for name, shape in shapes.items():
        if name not in modes:
            continue
        row = modes[name]
        ratio = shape.forward_over_one_row(costs, running, row["hit_rate"])
        expected[name] = {
            "rows": shape.verify_rows,
            "window_over_one_row": ratio,
            "expected_speedup": row["tpf"] / ratio,
            "measured_speedup": row["x_ar"],
            "hit_rate": row["hit_rate"],
            "break_even_hit_rate": shape.break_even(costs, running, row["n_accepted"]),
        }
    return {"boundary": COST_BOUNDARY, "n_together": running, "batch": batches, "modes": expected}
