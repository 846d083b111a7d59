"""Rewards from 0 to 1 for what the network wrote, and the same as reward functions of TRL.

*Source*: section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gravityocr.document import Task
from gravityocr.errors import GravityOCRError, InputError
from gravityocr.metrics.edit import text_edit
from gravityocr.rl.formula_reward import score_formula
from gravityocr.rl.guard import guard
from gravityocr.rl.reward_settings import EDIT_BUDGET, PAPER, RewardSettings
from gravityocr.rl.table_reward import score_table

NO_REWARD = (GravityOCRError, ValueError, ArithmeticError, RecursionError)
"""What a text that no reward foresaw can raise: it costs its own region, not those that are rewarded with it."""
Completion = str | Sequence[dict[str, Any]]


def score_text(pred: str, ref: str, settings: RewardSettings = PAPER) -> float:
    """Return the reward of a text, guard included: `1 - NED` of the normal forms, times the guard.

    `NED` is the edit distance over the length of the longer side. Both sides pass the scorer's normalisation, which
    keeps letters, digits and what inline formulas become; a side that normalises to nothing is compared as it stands.
    The guard reads the texts as they stand. Ours: beyond `EDIT_BUDGET` the distance is a bound from above.

    *Source*: section 5.

    >>> score_text("Hello, Wxrld", "Hello World!")
    0.9
    """
    return (1.0 - text_edit(pred, ref, budget=EDIT_BUDGET).ned) * guard(pred, ref, None, settings)


_Score = Callable[[str, str, RewardSettings], float]
_SCORES: dict[Task, _Score] = {"text": score_text, "table": score_table, "formula": score_formula}


def reward_of(task: Task, pred: str, ref: str, settings: RewardSettings = PAPER) -> float:
    """Return the reward of a prediction, from 0 to 1, guard included.

    *Raises*: InputError for an unknown task.
    """
    if task not in _SCORES:
        raise InputError(f"unknown task {task!r} of a reward; use one of {', '.join(_SCORES)}")
    return min(1.0, max(0.0, _SCORES[task](pred, ref, settings)))


def text_reward(
    prompts: Sequence[Any], completions: Sequence[Completion], target: Sequence[str], task: Sequence[str],
    settings: RewardSettings = PAPER, **kwargs: Any,
) -> list[float | None]:
    """Reward the texts of a batch, None for what is no text: `(1 - NED) guard`.

    *Source*: section 5; see `score_text`.
    """
    return _batch("text", completions, target, task, settings)


def table_reward(
    prompts: Sequence[Any], completions: Sequence[Completion], target: Sequence[str], task: Sequence[str],
    settings: RewardSettings = PAPER, **kwargs: Any,
) -> list[float | None]:
    """Reward the tables of a batch, None for what is no table.

    `r = clip((0.45 TEDS_struct + 0.55 s_cell) (1 - p_row) (1 - p_loop))`, `r <- r + b (1 - r)`, times the guard.

    *Source*: section 5; see `score_table`.
    """
    return _batch("table", completions, target, task, settings)


def formula_reward(
    prompts: Sequence[Any], completions: Sequence[Completion], target: Sequence[str], task: Sequence[str],
    settings: RewardSettings = PAPER, **kwargs: Any,
) -> list[float | None]:
    """Reward the formulas of a batch, None for what is no formula: `sim(canon(pred), canon(ref)) 0.3^v guard`.

    *Source*: section 5; see `score_formula`.
    """
    return _batch("formula", completions, target, task, settings)


REWARDS: tuple[Callable[..., list[float | None]], ...] = (text_reward, table_reward, formula_reward)
"""The reward functions that a trainer is given: of every completion exactly one is a number."""


def rewards_with(settings: RewardSettings) -> tuple[Callable[..., list[float | None]], ...]:
    """Return the reward functions with other constants."""
    return REWARDS if settings == PAPER else tuple(partial(one, settings=settings) for one in REWARDS)


def completion_text(completion: Completion) -> str:
    """Return the text of a completion: a string, or the messages of a conversation.

    >>> completion_text([{"role": "assistant", "content": "x"}])
    'x'
    """
    return completion if isinstance(completion, str) else "".join(str(message["content"]) for message in completion)


def _batch(
    wanted: Task, completions: Sequence[Completion], targets: Sequence[str], tasks: Sequence[str],
    settings: RewardSettings,
) -> list[float | None]:
    return [
        reward_of(wanted, completion_text(completion), target, settings) if task == wanted else None
        for completion, target, task in zip(completions, targets, tasks, strict=True)
    ]
