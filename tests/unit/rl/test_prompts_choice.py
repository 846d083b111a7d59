"""Which candidates become prompts: shares, weights, the draw, and the settings that are refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gravityocr.config import dump_config, load_config
from gravityocr.document import Task
from gravityocr.errors import ConfigError
from gravityocr.rl.prompt_choice import (
    Candidate,
    PromptConfig,
    choose_prompts,
    mining_weights,
    signal_fate,
    wanted_counts,
    within_limit,
)
from gravityocr.rl.trials import Trial

PAPER = PromptConfig()


def candidate(number: int, task: Task = "table", n_chars: int = 100) -> Candidate:
    return Candidate(f"{task}/{number}", task, n_chars, 0, number)


def trial(one: Candidate, *rewards: float, n_truncated: int = 0) -> Trial:
    return Trial(one.region_id, one.task, rewards, n_truncated=n_truncated)


def spread(n: int, task: Task = "table") -> tuple[list[Candidate], dict[str, Trial]]:
    """Give candidates whose difficulty and length are spread evenly and independently."""
    generator = np.random.default_rng(0)
    candidates = [candidate(number, task, int(chars)) for number, chars in enumerate(generator.integers(50, 4000, n))]
    means = generator.uniform(0.05, 0.95, n)
    return candidates, {
        one.region_id: trial(one, mean - 0.05, mean + 0.05) for one, mean in zip(candidates, means, strict=True)
    }


def figures(candidates: list[Candidate], trials: dict[str, Trial]) -> tuple[float, float]:
    means = [trials[one.region_id].mean for one in candidates]
    return float(np.mean(means)), float(np.median([one.n_chars for one in candidates]))


def test_the_papers_shares_add_up_to_its_prompts() -> None:
    plenty: dict[Task, int] = {"table": 10**5, "text": 10**5, "formula": 10**5}
    assert wanted_counts(plenty, PAPER) == {"text": 463, "table": 7105, "formula": 155}
    shared = replace(PAPER, n_prompts=100, table_share=1.0, text_share=1.0, formula_share=1.0)
    assert wanted_counts(plenty, shared) == {"text": 34, "table": 33, "formula": 33}


@pytest.mark.parametrize(
    ("shortfall", "available", "wanted"),
    [
        ("keep", (460, 1000, 1000), (460, 30, 10)),  # half the tables, so half of all
        ("keep", (1000, 5, 1000), (920, 5, 20)),
        ("keep", (1000, 0, 1000), (920, 0, 20)),
        ("keep", (0, 1000, 1000), (0, 60, 20)),
        ("shrink", (460, 1000, 1000), (460, 30, 10)),
        ("shrink", (1000, 6, 1000), (92, 6, 2)),
        ("shrink", (1000, 1000, 5), (230, 15, 5)),
    ],
)
def test_a_scarce_task_is_made_up_for_or_shrinks_the_pool(shortfall: Any, available, wanted) -> None:
    tasks: tuple[Task, ...] = ("table", "text", "formula")
    config = replace(PAPER, n_prompts=1000, shortfall=shortfall)
    assert wanted_counts(dict(zip(tasks, available, strict=True)), config) == dict(zip(tasks, wanted, strict=True))


def test_a_task_whose_share_rounds_to_none_is_not_missing() -> None:
    config = replace(PAPER, n_prompts=10, shortfall="shrink")
    assert wanted_counts({"table": 5, "text": 3, "formula": 0}, config) == {"text": 0, "table": 5, "formula": 0}


def test_the_weights_are_those_of_the_formula() -> None:
    config = replace(PAPER, hardness=2.0, length_weight=3.0, other_tasks=0.5)
    some = [candidate(0, n_chars=100), candidate(1, n_chars=200), candidate(2, n_chars=400)]
    rewards = ((0.25, 0.75), (0.8, 1.0), (0.0, 0.2))
    trials = {one.region_id: trial(one, *pair) for one, pair in zip(some, rewards, strict=True)}
    expected = [0.5**2 * 0.5**3, 0.1**2 * 1.0, 0.9**2 * 2.0**3]
    assert np.exp(mining_weights(some, trials, config)) == pytest.approx(expected)
    texts = [replace(one, task="text") for one in some]
    assert np.exp(mining_weights(texts, trials, config)) == pytest.approx([math.sqrt(one) for one in expected])


def test_hard_and_long_prompts_are_preferred_most_of_all_for_tables() -> None:
    shares = {"hardness": 0.0, "length_weight": 0.0, "n_prompts": 150, "table_share": 1.0, "text_share": 0.0}
    blind = replace(PAPER, **shares, formula_share=0.0)
    tables = spread(1500)

    def mined(**change: float) -> tuple[float, float]:
        return figures(choose_prompts(*tables, replace(blind, **change))[0], tables[1])

    mean, length = figures(*tables)
    assert mined() == pytest.approx((mean, length), rel=0.15)
    for change, is_harder, is_longer in (({"hardness": 2.0}, True, False), ({"length_weight": 2.0}, False, True)):
        got = mined(**change)
        assert (got[0] < mean - 0.1) == is_harder and (got[1] > 1.25 * length) == is_longer
    both = mined(hardness=2.0, length_weight=2.0)
    assert both[0] < mean - 0.1 and both[1] > 1.25 * length
    texts = spread(1500, "text")
    config = replace(blind, table_share=0.0, text_share=1.0, hardness=2.0, length_weight=2.0)
    got = figures(choose_prompts(*texts, config)[0], texts[1])
    assert both[0] < got[0] < mean and length < got[1] < both[1]


def test_the_draw_follows_the_weights() -> None:
    """One of weight 6 and six of weight 1: the first is drawn every other time."""
    some = [candidate(0, n_chars=600), *(candidate(number, n_chars=100) for number in range(1, 7))]
    trials = {one.region_id: trial(one, 0.4, 0.6) for one in some}
    config = replace(PAPER, n_prompts=1, text_share=0.0, formula_share=0.0)
    n_first = sum(choose_prompts(some, trials, replace(config, seed=seed))[0] == some[:1] for seed in range(2000))
    assert n_first / 2000 == pytest.approx(0.5, abs=0.04)


def test_the_seed_decides_the_order_too() -> None:
    candidates, trials = spread(30)
    config = replace(PAPER, n_prompts=40)
    orders = [choose_prompts(candidates, trials, replace(config, seed=seed))[0] for seed in (0, 1)]
    assert sorted(orders[0], key=lambda one: one.row) == sorted(orders[1], key=lambda one: one.row) == candidates
    assert orders[0] != orders[1] and candidates not in orders


def test_a_draw_does_not_depend_on_the_order_of_the_candidates() -> None:
    candidates, trials = spread(200)
    config = replace(PAPER, n_prompts=50)
    chosen = choose_prompts(candidates, trials, config)[0]
    assert choose_prompts(candidates[::-1], trials, config)[0] == chosen
    assert within_limit(candidates[::-1], replace(PAPER, max_candidates=20)) == within_limit(
        candidates, replace(PAPER, max_candidates=20)
    )


@pytest.mark.parametrize(
    ("rewards", "n_truncated", "fate"),
    [
        ((1.0, 1.0), 0, "solved"),
        ((1.0, 1.0 - 5e-10), 0, "solved"),
        ((0.0, 5e-10), 0, "hopeless"),
        ((0.4, 0.4), 0, "flat"),
        ((0.4, 0.4 + 5e-10), 0, "flat"),
        ((0.4, 0.41), 0, "nearly_flat"),
        ((0.4, 0.6), 1, None),
        ((0.4, 0.6), 2, "cut"),
    ],
)
def test_what_gives_no_signal_has_a_name(rewards, n_truncated: int, fate) -> None:
    assert signal_fate(trial(candidate(0), *rewards, n_truncated=n_truncated), 0.02) == fate


def test_without_a_floor_any_difference_is_a_signal() -> None:
    assert signal_fate(trial(candidate(0), 0.4, 0.4 + 2e-9), 0.0) is None


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"n_trials": 1}, "prompts.n_trials"),
        ({"n_prompts": 0}, "prompts.n_prompts"),
        ({"max_candidates": 0}, "prompts.max_candidates"),
        ({"table_share": 1.5}, "prompts.table_share"),
        ({"hardness": -1.0}, "prompts.hardness"),
        ({"min_std": math.nan}, "prompts.min_std"),
        ({"batch_regions": 0}, "prompts.batch_regions"),
        ({"pool": ""}, "prompts.pool is empty"),
        ({"table_share": 0.0, "text_share": 0.0, "formula_share": 0.0}, "all shares are 0"),
    ],
)
def test_settings_that_make_no_pool_are_refused(change: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        PromptConfig(**change)


def test_the_settings_survive_a_file(tmp_path) -> None:
    config = PromptConfig(folder="prompts", max_candidates=5, shortfall="shrink")
    file = tmp_path / "prompts.toml"
    file.write_text(dump_config(config), encoding="utf-8")
    assert load_config(PromptConfig, file) == config
