"""What a forward is worth: measured costs, running acceptance, and the window that both recommend."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Forward = Callable[[int, int], float]
"""(n_rows, n_sequences) -> seconds of one forward over that many rows of all sequences together."""

BLOCK_SIZES = (2, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64)
LONGEST = 64
WIDEST, MANY = 32, 16
MEASURED_ROWS = (1, 8, 16, 32, 64, 128, 512)
_LEARNING_RATE = 0.1
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
        cls, forward: Forward, repeats: int = 4, rows: Sequence[int] = MEASURED_ROWS, budget_s: float = 2.0
    ) -> CostTable:
        """Time forwards over some numbers of rows and return the table; the best of `repeats` counts.

        The sizes take turns, so that a machine whose speed changes does not bend the table. Larger forwards never get
        cheaper. Sizes for which `budget_s` does not suffice are extrapolated.
        """
        single, spread = list(rows), max(row for row in rows if row <= MANY)
        best: dict[tuple[int, int], float] = {}
        spent = 0.0
        for turn in range(repeats + 1):
            for n_rows, n in [*((n_rows, max(1, n_rows // WIDEST)) for n_rows in single), (spread, spread)]:
                if turn and spent > budget_s * len(single):
                    break
                seconds = forward(n_rows, n)
                spent += seconds
                if turn or seconds > budget_s / 4:  # the first turn warms up, if there is time for that
                    best[n_rows, n] = min(seconds, best.get((n_rows, n), seconds))
                if seconds > budget_s / 4 and len(single) > 2 and n_rows in single:
                    single = single[: max(2, single.index(n_rows) + 1)]
                    break
        return cls._fitted(single, spread, best)

    @classmethod
    def _fitted(cls, rows: list[int], spread: int, best: Mapping[tuple[int, int], float]) -> CostTable:
        known = [n_rows for n_rows in rows if (n_rows, max(1, n_rows // WIDEST)) in best]
        rising: list[float] = []
        for n_rows in known:
            rising.append(max([best[n_rows, max(1, n_rows // WIDEST)], *rising]))
        alone = cls(tuple(known), tuple(rising))
        together = best.get((spread, spread), 0.0)
        per_sequence_s = max(0.0, together - alone(spread)) / max(1, spread - 1)
        # What the wide forwards of the table spent on their sequences is not to be counted twice.
        own = [total - per_sequence_s * (max(1, n // WIDEST) - 1) for n, total in zip(known, rising, strict=True)]
        return cls(alone.rows, tuple(max(seconds, rising[0]) for seconds in own), per_sequence_s)

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
    curve: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.accepted = [2.0 * self.prior] * LONGEST

    def learn(self, n_drafts: int, n_accepted: int) -> None:
        """Take note of one verified draft."""
        self.curve = []
        for place in range(min(n_drafts, n_accepted + 1, LONGEST)):
            self.tried[place] = self.tried[place] * self.fade + 1.0
            self.accepted[place] = self.accepted[place] * self.fade + (place < n_accepted)

    def expected(self, n_drafts: int) -> float:
        """Return how many of so many drafts will be accepted."""
        if not self.curve:
            total, chance, self.curve = 0.0, 1.0, [0.0]
            for accepted, tried in zip(self.accepted, self.tried, strict=True):
                chance *= accepted / tried
                total += chance
                self.curve.append(total)
        return self.curve[min(n_drafts, LONGEST)]


StepKind = Literal["plain", "draft", "verify"]
Drafter = Literal["diffusion", "head"]


@dataclass
class Planner:
    """Choose how far to draft and to verify, from what a forward costs and what drafts were worth so far.

    Kinds of sequences and sources of drafts are recorded apart. `slowness` is how much longer than its measured forward
    a step of a kind and size takes (bookkeeping, cold caches, near ties decided in fp32), and is learnt on the way.
    `head` is what the draft head takes for one token of each sequence, None where there is none. Choices change the
    speed, never the ids.
    """

    costs: CostTable
    head: CostTable | None = None
    records: dict[tuple[str, str], AcceptanceRecord] = field(default_factory=dict)
    slowness: dict[tuple[StepKind, int], float] = field(default_factory=dict)
    rate: float = 0.0
    n_plain: int = 0

    def learn(self, kind: str, source: str, n_drafts: int, n_accepted: int) -> None:
        """Take note of a draft of `n_drafts` tokens, `n_accepted` of which were committed."""
        self.record(kind, source).learn(n_drafts, n_accepted)

    def record(self, kind: str, source: str) -> AcceptanceRecord:
        """Return what is known of a source; all are trusted until they disappoint, or they would not be tried."""
        prior = 0.99 if source == "reference" else 0.95
        return self.records.setdefault((kind, source), AcceptanceRecord(prior))

    def observe(self, step: StepKind, n: int, n_rows: int, seconds: float) -> None:
        """Take note of how long a step over `n_rows` rows of `n` sequences took, the draft head left out."""
        ratio = min(max(seconds / self.costs(n_rows, n), 0.5), 3.0)  # an outlier says nothing
        known = self._slowness(step, n_rows)
        self.slowness[step, n_rows.bit_length()] = known + _LEARNING_RATE * (ratio - known)

    def _slowness(self, step: StepKind, n_rows: int) -> float:
        """Return that of steps of about this size, or else of the nearest size that is known."""
        sizes = [size for kind, size in self.slowness if kind == step]
        if not sizes:
            return 1.0 if step == "plain" else 1.2
        return self.slowness[step, min(sizes, key=lambda size: abs(size - n_rows.bit_length()))]

    def head_s(self, n: int, size: int) -> float:
        """Return the seconds that the draft head takes for `size` tokens of each of `n` sequences."""
        return 0.0 if self.head is None else size * self.head(n)

    def step_s(self, step: StepKind, n: int, width: int) -> float:
        """Return the seconds that a step with `width` rows for each of `n` sequences is expected to take."""
        return self.costs(n * width, n) * self._slowness(step, n * width)

    def round_s(self, n: int, size: int, source: Drafter) -> float:
        """Return the seconds of a draft of `size` tokens for each sequence and its verification."""
        head_s = self.head_s(n, size) if source == "head" else 0.0
        return self.step_s("draft", n, size + 1) + self.step_s("verify", n, size + 1) + head_s

    def block_size(self, kinds: Mapping[str, int], largest: int) -> tuple[int, Drafter]:
        """Return how many tokens to draft, 0 where one token a forward is faster, and by which drafter.

        `kinds` counts the running sequences of each kind. The rate, in tokens per second, is kept for `verify_width`.
        """
        n = sum(kinds.values())
        best, size, drafter = n / self.step_s("plain", n, 1), 0, self._drafters()[-1]
        sizes = sorted({*(b for b in BLOCK_SIZES if b < largest), largest})
        for source in self._drafters():
            records = [(count, self.record(kind, source)) for kind, count in kinds.items()]
            for candidate in sizes:
                drafted = sum(count * record.expected(candidate) for count, record in records)
                rate = (2 * n + drafted) / self.round_s(n, candidate, source)
                if rate > best:
                    best, size, drafter = rate, candidate, source
        self.rate = best
        if size:
            self.n_plain = 0
            return size, drafter
        self.n_plain += 1
        return min(BLOCK_SIZES[1], largest) if self.n_plain % PROBE_EVERY == 0 else 0, drafter

    def _drafters(self) -> tuple[Drafter, ...]:
        return ("diffusion",) if self.head is None else ("diffusion", "head")

    def reference_wins(self, kind: str, n: int, width: int, largest: int) -> bool:
        """Tell whether verifying `width` tokens of a reference promises more per second than drafting or neither."""
        reference = (1 + self.record(kind, "reference").expected(width)) / self.step_s("verify", n, width + 1)
        others = [
            (2 + self.record(kind, source).expected(b)) / self.round_s(n, b, source)
            for source in self._drafters()
            for b in BLOCK_SIZES
            if b <= largest
        ]
        return reference >= max(1 / self.step_s("plain", n, 1), *others, 0.0)

    def verify_width(self, gains: Sequence[float], n: int, widest: int) -> int:
        """Return how many drafts to verify in a rectangle of `n` sequences.

        `gains[j]` is the expected number of accepted drafts at distance j + 1, over all sequences.
        """
        best, width, total = -self.rate * self.step_s("plain", n, 1), 0, 0.0
        for j, gain in enumerate(gains[:widest]):
            total += gain
            value = total - self.rate * self.step_s("verify", n, j + 2)
            if value > best:
                best, width = value, j + 1
        return width

    def candidates_pay(self, chance: float, n: int, n_rows: int, n_mask_rows: int) -> bool:
        """Tell whether mask blocks behind the drafts are worth their rows.

        `chance` is that of a hit, which saves a sequence its share of a draft forward, but for the token that such a
        forward commits; `n_rows` are the rows without them.
        """
        extra = self.costs(n_rows + n_mask_rows) - self.costs(n_rows)
        saved = self.costs(n_mask_rows, n) * self._slowness("draft", n_mask_rows) - n / max(self.rate, 1e-9)
        return chance * saved > extra
