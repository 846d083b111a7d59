"""Which samples share a packed row: first fit with carry-over, a function of the samples' costs alone.

A plan is made of the whole order of samples, not of batches of it: a sample that fits in no open row opens one, and
what is open is carried over to the next rows. So the plan is the same for any number of processes and loader workers,
and a resumed run finds its place in it by counting rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gravityocr.config import check_numbers


@dataclass(frozen=True)
class PackingConfig:
    """Limits of packed rows. *Units*: forward tokens a row, response tokens with the EOS fill, rows kept open.

    *Source*: section 3.
    """

    row_tokens: int = 10240
    response_cap_tokens: int = 3072
    open_rows: int = 32

    def __post_init__(self) -> None:
        check_numbers(
            self, "packing.", row_tokens=(1, 10**7), response_cap_tokens=(1, 10**6), open_rows=(1, 10**6)
        )

    def problem(self, cost_tokens: int, response_tokens: int) -> str | None:
        """Return why a sample cannot be trained on, None where it can."""
        if response_tokens > self.response_cap_tokens:
            return f"its response of {response_tokens} tokens exceeds packing.response_cap_tokens"
        if cost_tokens > self.row_tokens:
            return f"its cost of {cost_tokens} forward tokens exceeds packing.row_tokens"
        return None


@dataclass(frozen=True)
class PlannedRow:
    """The samples of one row, in their order, and their cost. *Units*: forward tokens."""

    samples: tuple[int, ...]
    n_tokens: int


@dataclass
class _OpenRow:
    samples: list[int]
    n_tokens: int

    def closed(self) -> PlannedRow:
        return PlannedRow(tuple(self.samples), self.n_tokens)


def plan_rows(costs: Iterable[tuple[int, int]], config: PackingConfig) -> Iterator[PlannedRow]:
    """Assign samples to rows, first fit over the open rows; a full set of open rows gives up its fullest one.

    `costs` are pairs of a sample's number and its cost, none above the budget; rows that are still open when they end
    come last, in the order in which they were opened.
    """
    smallest_room = config.row_tokens // 256
    rows: list[_OpenRow] = []
    for number, cost in costs:
        fitting = next((row for row in rows if row.n_tokens + cost <= config.row_tokens), None)
        if fitting is None:
            if len(rows) == config.open_rows:
                fullest = max(range(len(rows)), key=lambda i: (rows[i].n_tokens, -i))
                yield rows.pop(fullest).closed()
            rows.append(_OpenRow([number], cost))
        else:
            fitting.samples.append(number)
            fitting.n_tokens += cost
            if config.row_tokens - fitting.n_tokens < smallest_room:
                rows.remove(fitting)
                yield fitting.closed()
    yield from (row.closed() for row in rows)


def waste(rows: Iterable[PlannedRow], row_tokens: int) -> float:
    """Return the share of the rows' room that no sample fills."""
    planned = [row.n_tokens for row in rows]
    return 1.0 - sum(planned) / max(1, len(planned) * row_tokens)
