"""Costs, running acceptance, and the windows that they recommend."""

from __future__ import annotations

import pytest

from gravityocr.decoding.plan import PROBE_EVERY, AcceptanceRecord, CostTable, Planner

FLAT = CostTable((1, 64, 512), (1.0, 1.0, 1.0))
STEEP = CostTable((1, 64, 512), (1.0, 64.0, 512.0))


def test_costs_are_linear_between_and_behind_the_measured_points() -> None:
    table = CostTable((1, 8, 64), (1.0, 2.0, 9.0))
    assert [table(n) for n in (1, 4.5, 8, 36, 64, 120)] == pytest.approx([1.0, 1.5, 2.0, 5.5, 9.0, 16.0])
    assert table(0) == 1.0


def test_measured_costs_never_fall_and_the_best_repeat_counts() -> None:
    calls: list[tuple[int, int]] = []

    def forward(n_rows: int, n: int) -> float:
        calls.append((n_rows, n))
        turn = len(calls) // 4
        return {1: 2.0, 8: 1.0, 64: 4.0 + 0.5 * n}[n_rows] * (0.001 if turn == 2 else 0.002)

    table = CostTable.measure(forward, repeats=3, rows=(1, 8, 64))
    assert calls[:4] == [(1, 1), (8, 1), (64, 2), (8, 8)] and len(calls) == 16, "the sizes take turns"
    assert table.seconds == pytest.approx((0.002, 0.002, 0.005))


def test_a_sequences_own_cost_is_told_from_that_of_its_rows() -> None:
    def forward(n_rows: int, n: int) -> float:
        return 0.001 + 0.0001 * n_rows + 0.0002 * n

    table = CostTable.measure(forward, repeats=1)
    for n, width in [(1, 1), (1, 30), (4, 8), (16, 1), (16, 32)]:
        assert table(n * width, n) == pytest.approx(forward(n * width, n), rel=0.15)


def test_sizes_that_would_take_too_long_are_extrapolated() -> None:
    calls: list[int] = []

    def forward(n_rows: int, n: int) -> float:
        calls.append(n_rows)
        return 0.05 * n_rows

    table = CostTable.measure(forward)
    assert max(calls) <= 16 and len(calls) < 20
    assert table(512) == pytest.approx(forward(512, 1), rel=0.05)


def test_a_record_follows_what_is_accepted_at_each_distance() -> None:
    record = AcceptanceRecord()
    for _ in range(400):
        record.learn(8, 3)
    assert record.expected(3) == pytest.approx(3.0, abs=0.01)
    assert record.expected(8) == pytest.approx(3.0, abs=0.01)
    for _ in range(400):
        record.learn(8, 8)
    assert record.expected(8) == pytest.approx(8.0, abs=0.1), "it does not forget"


def learned(costs: CostTable, n_accepted: int, source: str = "diffusion") -> Planner:
    planner = Planner(costs)
    for _ in range(300):
        planner.learn("text", source, 32, n_accepted)
    return planner


def test_where_rows_are_free_everything_is_drafted_and_where_they_are_dear_little_or_nothing() -> None:
    assert learned(FLAT, 32).block_size({"text": 4}, 32)[0] == 32
    assert learned(STEEP, 2).block_size({"text": 4}, 32)[0] == 0
    middle = CostTable((1, 64, 512), (1.0, 2.0, 9.0))
    assert 4 <= learned(middle, 8).block_size({"text": 1}, 32)[0] <= 12


def test_the_head_drafts_where_it_is_worth_its_time() -> None:
    costs, per_token = CostTable((1, 64, 512), (1.0, 2.0, 9.0)), [0.001, 5.0]
    chosen = []
    for seconds in per_token:
        planner = Planner(costs, CostTable((1, 16), (seconds, seconds)))
        for _ in range(300):
            planner.learn("text", "diffusion", 16, 4)
            planner.learn("text", "head", 16, 8)
        chosen.append(planner.block_size({"text": 1}, 16)[1])
    assert chosen == ["head", "diffusion"]


def test_what_steps_take_beyond_their_forwards_is_learnt() -> None:
    planner = Planner(CostTable((1, 64, 512), (1.0, 2.0, 9.0)))
    for _ in range(300):
        planner.observe("draft", 1, 64, 5.0)
        planner.observe("plain", 1, 1, 1.1)
        planner.observe("verify", 1, 64, 999.0)  # an outlier counts as three times the forward
    assert planner.step_s("draft", 1, 64) == pytest.approx(5.0, rel=0.01)
    assert planner.step_s("plain", 1, 1) == pytest.approx(1.1, rel=0.01)
    assert planner.step_s("verify", 1, 64) == pytest.approx(6.0, rel=0.01)


def test_a_sequence_of_its_own_costs_more_than_a_row() -> None:
    table = CostTable((1, 64), (1.0, 2.0), per_sequence_s=0.5)
    assert table(16, 1) < table(16, 2) == table(16, 1) + 0.5


def test_the_request_bounds_the_block() -> None:
    assert learned(FLAT, 32).block_size({"text": 1}, 5)[0] == 5


def test_kinds_have_records_of_their_own() -> None:
    planner = learned(CostTable((1, 64, 512), (1.0, 4.0, 32.0)), 20)
    for _ in range(300):
        planner.learn("formula", "diffusion", 32, 0)
    assert planner.block_size({"text": 1}, 32)[0] > planner.block_size({"formula": 1}, 32)[0]


def test_where_drafting_loses_it_is_tested_again_from_time_to_time() -> None:
    planner = learned(STEEP, 0)
    sizes = [planner.block_size({"text": 1}, 8)[0] for _ in range(3 * PROBE_EVERY)]
    assert sum(size > 0 for size in sizes) == 3


def test_only_drafts_worth_their_rows_are_verified() -> None:
    planner = Planner(CostTable((1, 64, 512), (1.0, 4.0, 32.0)))
    planner.block_size({"text": 1}, 8)  # fixes the rate
    sure, doubtful = [0.99] * 4, [0.01] * 4
    assert planner.verify_width(sure + doubtful, 1, 8) == 4
    assert planner.verify_width(doubtful, 1, 4) == 0
    assert planner.verify_width(sure, 1, 2) == 2


def test_a_reference_is_taken_while_it_is_the_better_source() -> None:
    costs = CostTable((1, 64, 512), (1.0, 2.0, 9.0))
    good = learned(costs, 30, "reference")
    assert good.reference_wins("text", 1, 32, 12)
    bad = learned(costs, 0, "reference")
    for _ in range(300):
        bad.learn("text", "diffusion", 12, 11)
    assert not bad.reference_wins("text", 1, 32, 12)


def test_candidates_pay_where_hits_are_likely_and_rows_cheap() -> None:
    cheap = Planner(CostTable((1, 64, 512), (1.0, 1.1, 2.0)))
    cheap.block_size({"text": 1}, 8)
    assert cheap.candidates_pay(0.9, 1, 9, 8)
    assert not cheap.candidates_pay(0.001, 1, 9, 8)
    steep = Planner(STEEP)
    steep.block_size({"text": 1}, 8)
    assert not steep.candidates_pay(0.5, 1, 9, 8)
