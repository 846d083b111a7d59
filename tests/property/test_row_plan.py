"""The plan of packed rows: first fit with carry-over, every sample once, no row above its budget, little waste."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravityocr.training.row_plan import PackingConfig, PlannedRow, plan_rows, waste


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[tuple[int, int]], PackingConfig]:
    """Draw samples and limits that they keep to; a sample's number says nothing of its place."""
    row_tokens = draw(st.integers(1, 600))
    costs = draw(st.lists(st.integers(1, row_tokens), max_size=60))
    numbers = draw(st.permutations(range(len(costs))))
    config = PackingConfig(row_tokens, open_rows=draw(st.integers(1, 8)))
    return [*zip(numbers, costs, strict=True)], config


@settings(max_examples=200)
@given(plan=plans())
def test_every_sample_is_in_one_row_within_the_budget(plan: tuple[list[tuple[int, int]], PackingConfig]) -> None:
    costs, config = plan
    rows = [*plan_rows(costs, config)]
    assert sorted(number for row in rows for number in row.samples) == sorted(number for number, _ in costs)
    cost_of = dict(costs)
    for row in rows:
        assert row.n_tokens == sum(cost_of[number] for number in row.samples) <= config.row_tokens
    place = {number: at for at, (number, _) in enumerate(costs)}
    for row in rows:  # a row keeps the order in which its samples came
        assert [place[number] for number in row.samples] == sorted(place[number] for number in row.samples)


@dataclass(frozen=True)
class Traced:
    """A row with the places in the stream where it was opened and given up; its samples are places too."""

    samples: tuple[int, ...]
    closed_at: int

    def holds(self, now: int, costs: list[int]) -> int:
        """Return its tokens before the sample at `now` came."""
        return sum(costs[one] for one in self.samples if one < now)


def traced(costs: list[int], config: PackingConfig) -> list[Traced]:
    """Plan and watch how far the stream was read when each row came out."""
    read = -1

    def stream() -> Iterator[tuple[int, int]]:
        nonlocal read
        for pair in enumerate(costs):
            read += 1
            yield pair
        read += 1

    return [Traced(row.samples, read) for row in plan_rows(stream(), config)]


@settings(max_examples=300)
@given(plan=plans())
def test_the_plan_is_first_fit_over_the_open_rows(plan: tuple[list[tuple[int, int]], PackingConfig]) -> None:
    costs, config = [cost for _, cost in plan[0]], plan[1]
    rows = traced(costs, config)
    home = {sample: row for row in rows for sample in row.samples}
    for now, cost in enumerate(costs):
        mine = home[now]
        opened_before = [row for row in rows if row.samples[0] < now and row.closed_at >= now]
        assert len(opened_before) <= config.open_rows
        earlier = [row for row in opened_before if row.samples[0] < mine.samples[0]]
        assert all(row.holds(now, costs) + cost > config.row_tokens for row in earlier), "an earlier row had room"


@settings(max_examples=300)
@given(plan=plans())
def test_a_row_is_given_up_when_it_is_full_or_the_fullest(plan: tuple[list[tuple[int, int]], PackingConfig]) -> None:
    """All others are carried over to the next samples."""
    costs, config = [cost for _, cost in plan[0]], plan[1]
    rows = traced(costs, config)
    for row in rows:
        if row.closed_at == len(costs):
            continue  # open to the end
        now, tokens = row.closed_at, sum(costs[one] for one in row.samples)
        if row.samples[-1] == now:
            assert config.row_tokens - tokens < max(1, config.row_tokens // 256)
            continue
        still_open = [one for one in rows if one.samples[0] < now and one.closed_at >= now]
        assert len(still_open) == config.open_rows
        assert tokens == max(one.holds(now, costs) for one in still_open)
    ends = [row.samples[0] for row in rows if row.closed_at == len(costs)]
    assert ends == sorted(ends), "what is open at the end comes in the order in which it was opened"


@settings(max_examples=100)
@given(plan=plans(), cut=st.integers(0, 60))
def test_a_longer_stream_changes_no_row_that_is_given_up(
    plan: tuple[list[tuple[int, int]], PackingConfig], cut: int
) -> None:
    costs, config = [cost for _, cost in plan[0]], plan[1]
    rows = traced(costs, config)
    assert rows == traced(costs, config)
    early = [row for row in traced(costs[:cut], config) if row.closed_at < len(costs[:cut])]
    assert early == rows[: len(early)]


def realistic_costs(n: int, seed: int) -> list[tuple[int, int]]:
    """Draw forward tokens of a 60/20/20 mixture: text 300 to 800, tables up to 9,000, formulas 250 to 900."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(3, n, p=(0.6, 0.2, 0.2))
    text, formula = rng.integers(300, 800, n), rng.integers(250, 900, n)
    table = np.clip(rng.lognormal(7.7, 0.7, n), 500, 9000).astype(int)
    return [*enumerate(np.choose(kinds, (text, table, formula)).tolist())]


def test_rows_of_a_realistic_mixture_waste_less_than_three_percent() -> None:
    config = PackingConfig()
    for seed in range(3):
        rows = [*islice(plan_rows(realistic_costs(6000, seed), config), 400)]
        assert len(rows) == 400, "the stream goes on, and what is open at its end is not looked at"
        assert 0.0 <= waste(rows, config.row_tokens) < 0.03
        sizes = [len(row.samples) for row in rows]
        assert 8 < np.mean(sizes) < 30


def test_waste_is_the_room_that_is_left() -> None:
    assert waste([PlannedRow((0,), 75), PlannedRow((1, 2), 95)], 100) == pytest.approx(0.15)
    assert waste([PlannedRow((0,), 100)], 100) == 0.0
