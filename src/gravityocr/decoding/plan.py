"""What a forward is worth: measured costs, running acceptance, and the window that both recommend."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Forward = Callable[[int], float]
"""n_rows -> seconds of one forward over that many rows."""

BLOCK_SIZES = (2, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64)
LONGEST = 64
MEASURED_ROWS = (1, 8, 16, 32, 64, 128, 512)
_LEARNING_RATE = 0.05
PROBE_EVERY = 64
"""Where drafting loses, one round in so many tokens tests whether it still does."""


@dataclass(frozen=True)
class CostTable:
    """Map the rows of a forward, of all its sequences together, to seconds, linear between the measured points.

    Each sequence beyond the first costs `per_sequence_s` on top: its rows attend to a cache of their own.
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    per_sequence_s: float = 0.0

    @classmethod
    def measure(
        cls, forward: Forward, repeats: int = 3, rows: Sequence[int] = MEASURED_ROWS, budget_s: float = 2.0
    ) -> CostTable:
        """Time a forward at some numbers of rows and return the table; the best of `repeats` counts.

        Larger forwards never get cheaper, so that noise does not look like a bargain. Once `budget_s` are spent, those
        that are left are extrapolated.
        """
        seconds: list[float] = []
        spent = 0.0
        for n_rows in rows:
            if len(seconds) > 1 and spent > budget_s:
                break
            times = [forward(n_rows) for _ in range(repeats + 1)]
            spent += sum(times)
            seconds.append(max(min(times), seconds[-1] if seconds else 0.0))
        return cls(tuple(rows[: len(seconds)]), tuple(seconds))

    def __call__(self, n_rows: float, n_sequences: int = 1) -> float:
        """Return the seconds of a forward over that many rows, of all sequences together."""
        at = min(max(bisect_left(self.rows, n_rows), 1), len(self.rows) - 1)
        x0, x1, y0, y1 = self.rows[at - 1], self.rows[at], self.seconds[at - 1], self.seconds[at]
        seconds = max(y0 + (n_rows - x0) * (y1 - y0) / (x1 - x0), self.seconds[0])
        return seconds + (n_sequences - 1) * self.per_sequence_s


@dataclass
class AcceptanceRecord:
    """How often a draft at each distance was accepted, given that all before it were; older rounds fade."""

    prior: float = 0.8
    fade: float = 0.98
    accepted: list[float] = field(init=False)
    tried: list[float] = field(default_factory=lambda: [2.0] * LONGEST)

    def __post_init__(self) -> None:
        self.accepted = [2.0 * self.prior] * LONGEST

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


StepKind = Literal["plain", "draft", "verify"]


@dataclass
class Planner:
    """Choose how far to draft and to verify, from what a forward costs and what drafts were worth so far.

    Kinds of sequences and sources of drafts are recorded apart. What a step takes beyond its forward (bookkeeping, the
    draft head, near ties decided in fp32) is learnt for each kind of step. Choices change the speed, never the ids.
    """

    costs: CostTable
    records: dict[tuple[str, str], AcceptanceRecord] = field(default_factory=dict)
    beyond_s: dict[StepKind, float] = field(default_factory=lambda: {"plain": 0.0, "draft": 0.0, "verify": 0.0})
    rate: float = 0.0
    n_plain: int = 0

    def learn(self, kind: str, source: str, n_drafts: int, n_accepted: int) -> None:
        """Take note of one verified draft."""
        self.record(kind, source).learn(n_drafts, n_accepted)

    def record(self, kind: str, source: str) -> AcceptanceRecord:
        """Return what is known of a source; a reference is trusted until it disappoints."""
        prior = 0.99 if source == "reference" else 0.8
        return self.records.setdefault((kind, source), AcceptanceRecord(prior))

    def observe(self, step: StepKind, n: int, n_rows: int, seconds: float) -> None:
        """Take note of how long a step over `n_rows` rows of `n` sequences took."""
        forward = self.costs(n_rows, n)
        beyond = min(max(seconds - forward, -0.5 * forward), 2.0 * forward)  # an outlier says nothing
        self.beyond_s[step] += _LEARNING_RATE * (beyond - self.beyond_s[step])

    def step_s(self, step: StepKind, n: int, width: int) -> float:
        """Return the seconds that a step with `width` rows for each of `n` sequences is expected to take."""
        return max(self.costs(n * width, n) + self.beyond_s[step], 1e-9)

    def round_s(self, n: int, size: int) -> float:
        """Return the seconds of a draft of `size` tokens for each sequence and its verification."""
        return self.step_s("draft", n, size + 1) + self.step_s("verify", n, size + 1)

    def block_size(self, kinds: Mapping[str, int], largest: int) -> int:
        """Return how many tokens to draft, 0 where one token a forward is faster.

        `kinds` counts the running sequences of each kind. The rate, in tokens per second, is kept for `verify_width`.
        """
        n = sum(kinds.values())
        best, size = n / self.step_s("plain", n, 1), 0
        for candidate in sorted({*(b for b in BLOCK_SIZES if b < largest), largest}):
            drafted = sum(count * self.record(kind, "diffusion").expected(candidate) for kind, count in kinds.items())
            rate = (2 * n + drafted) / self.round_s(n, candidate)
            if rate > best:
                best, size = rate, candidate
        self.rate = best
        if size:
            self.n_plain = 0
            return size
        self.n_plain += 1
        return min(BLOCK_SIZES[1], largest) if self.n_plain % PROBE_EVERY == 0 else 0

    def reference_wins(self, kind: str, n: int, width: int, largest: int) -> bool:
        """Tell whether verifying `width` tokens of a reference promises more per second than drafting or neither."""
        reference = (1 + self.record(kind, "reference").expected(width)) / self.step_s("verify", n, width + 1)
        drafted = self.record(kind, "diffusion")
        others = [(2 + drafted.expected(b)) / self.round_s(n, b) for b in BLOCK_SIZES if b <= largest]
        return reference >= max(1 / self.step_s("plain", n, 1), *others, 0.0)

    def verify_width(self, gains: Sequence[float], n: int, widest: int) -> int:
        """Return how many drafts to verify in a rectangle of `n` sequences.

        `gains[j]` is the expected number of accepted drafts at distance j + 1, over all sequences.
        """
        best, width, total = -self.rate * self.costs(n, n), 0, 0.0
        for j, gain in enumerate(gains[:widest]):
            total += gain
            value = total - self.rate * self.costs(n * (j + 2), n)
            if value > best:
                best, width = value, j + 1
        return width

    def candidates_pay(self, chance: float, n: int, n_rows: int, n_mask_rows: int) -> bool:
        """Tell whether mask blocks behind the drafts are worth their rows.

        `chance` is that of a hit, which saves a sequence its share of a draft forward, but for the token that such a
        forward commits; `n_rows` are the rows without them.
        """
        extra = self.costs(n_rows + n_mask_rows) - self.costs(n_rows)
        saved = self.costs(n_mask_rows, n) + self.beyond_s["draft"] - n / max(self.rate, 1e-9)
        return chance * saved > extra
