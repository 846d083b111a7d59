"""What a forward is worth: measured costs, running acceptance, and the window that both recommend."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Forward = Callable[[int], float]
"""n_rows -> seconds of one forward over that many rows."""

BLOCK_SIZES = (2, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64)
LONGEST = 64
MEASURED_ROWS = (1, 8, 16, 32, 64, 128, 512)
PROBE_EVERY = 64
"""Where drafting loses, one round in so many tokens tests whether it still does."""


@dataclass(frozen=True)
class CostTable:
    """Map the rows of a forward, of all its sequences together, to seconds, linear between the measured points."""

    rows: tuple[int, ...]
    seconds: tuple[float, ...]

    @classmethod
    def measure(cls, forward: Forward, repeats: int = 3, rows: Sequence[int] = MEASURED_ROWS) -> CostTable:
        """Time a forward at some numbers of rows and return the table; the best of `repeats` counts.

        Larger forwards never get cheaper, so that noise does not look like a bargain.
        """
        seconds: list[float] = []
        for n_rows in rows:
            best = min(forward(n_rows) for _ in range(repeats + 1))
            seconds.append(max(best, seconds[-1] if seconds else 0.0))
        return cls(tuple(rows), tuple(seconds))

    def __call__(self, n_rows: float) -> float:
        """Return the seconds of a forward over that many rows."""
        at = min(max(bisect_left(self.rows, n_rows), 1), len(self.rows) - 1)
        x0, x1, y0, y1 = self.rows[at - 1], self.rows[at], self.seconds[at - 1], self.seconds[at]
        return max(y0 + (n_rows - x0) * (y1 - y0) / (x1 - x0), self.seconds[0])


@dataclass
class AcceptanceRecord:
    """How often a draft at each distance was accepted, given that all before it were; older rounds fade."""

    fade: float = 0.98
    accepted: list[float] = field(default_factory=lambda: [1.6] * LONGEST)
    tried: list[float] = field(default_factory=lambda: [2.0] * LONGEST)

    def learn(self, n_drafts: int, n_accepted: int) -> None:
        """Take note of one verified draft."""
        for place in range(min(n_drafts, n_accepted + 1, LONGEST)):
            self.tried[place] = self.tried[place] * self.fade + 1.0
            self.accepted[place] = self.accepted[place] * self.fade + (place < n_accepted)

    def expected(self, n_drafts: int) -> float:
        """Return how many of so many drafts will be accepted."""
        total, chance = 0.0, 1.0
        for place in range(min(n_drafts, LONGEST)):
            chance *= self.accepted[place] / self.tried[place]
            total += chance
        return total


@dataclass
class Planner:
    """Choose how far to draft and to verify, from what a forward costs and what drafts were worth so far.

    Kinds of sequences and sources of drafts are recorded apart. Choices change the speed, never the ids.
    """

    costs: CostTable
    records: dict[tuple[str, str], AcceptanceRecord] = field(default_factory=lambda: defaultdict(AcceptanceRecord))
    rate: float = 0.0
    n_plain: int = 0

    def learn(self, kind: str, source: str, n_drafts: int, n_accepted: int) -> None:
        """Take note of one verified draft."""
        self.records[kind, source].learn(n_drafts, n_accepted)

    def block_size(self, kinds: Mapping[str, int], largest: int) -> int:
        """Return how many tokens to draft, 0 where one token a forward is faster.

        `kinds` counts the running sequences of each kind. The rate, in tokens per second, is kept for `verify_width`.
        """
        n = sum(kinds.values())
        plain = n / self.costs(n)
        best, size = plain, 0
        for candidate in sorted({*(b for b in BLOCK_SIZES if b < largest), largest}):
            drafted = sum(count * self.records[kind, "diffusion"].expected(candidate) for kind, count in kinds.items())
            rate = (2 * n + drafted) / (2 * self.costs(n * (candidate + 1)))
            if rate > best:
                best, size = rate, candidate
        self.rate = best
        if size:
            self.n_plain = 0
            return size
        self.n_plain += 1
        return min(BLOCK_SIZES[1], largest) if self.n_plain % PROBE_EVERY == 0 else 0

    def reference_wins(self, kind: str, n: int, width: int, largest: int) -> bool:
        """Tell whether verifying a reference promises more tokens per second than a diffusion round."""
        reference = (1 + self.records[kind, "reference"].expected(width)) / self.costs(n * (width + 1))
        rounds = (2 + self.records[kind, "diffusion"].expected(largest)) / (2 * self.costs(n * (largest + 1)))
        return reference >= max(rounds, 1 / self.costs(n))

    def verify_width(self, gains: Sequence[float], n: int, widest: int) -> int:
        """Return how many drafts to verify in a rectangle of `n` sequences.

        `gains[j]` is the expected number of accepted drafts at distance j + 1, over all sequences.
        """
        best, width, total = -self.rate * self.costs(n), 0, 0.0
        for j, gain in enumerate(gains[:widest]):
            total += gain
            value = total - self.rate * self.costs(n * (j + 2))
            if value > best:
                best, width = value, j + 1
        return width

    def candidates_pay(self, chance: float, n: int, n_rows: int, n_mask_rows: int) -> bool:
        """Tell whether mask blocks behind the drafts are worth their rows.

        `chance` is that of a hit, which saves a sequence its share of a draft forward, but for the token that such a
        forward commits; `n_rows` are the rows without them.
        """
        extra = self.costs(n_rows + n_mask_rows) - self.costs(n_rows)
        saved = self.costs(n_mask_rows) - n / max(self.rate, 1e-9)
        return chance * saved > extra
