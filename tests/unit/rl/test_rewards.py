"""The reward functions as TRL calls them, and the text reward by hand."""

from __future__ import annotations

import doctest
import inspect
import pickle

import pytest

from gravityocr.document import Task
from gravityocr.errors import InputError
from gravityocr.metrics import edit
from gravityocr.metrics.edit import text_edit
from gravityocr.rl import rewards
from gravityocr.rl.reward_settings import EDIT_BUDGET
from gravityocr.rl.rewards import REWARDS, formula_reward, reward_of, score_text, table_reward, text_reward

TABLE = "<table><tr><td>a</td><td>b</td></tr></table>"


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(rewards).failed == 0


def test_a_batch_is_shared_out_by_task() -> None:
    batch = {
        "prompts": ["p"] * 3,
        "completions": ["abcd", TABLE, "x"],
        "target": ["abxd", TABLE, "y"],
        "task": ["text", "table", "formula"],
        "completion_ids": [[1], [2], [3]],  # TRL hands on more than a reward wants
        "trainer_state": None,
    }
    columns = [reward(**batch) for reward in REWARDS]
    assert columns == [[0.75, None, None], [None, 1.0, None], [None, None, 0.0]]


def test_conversations_are_read() -> None:
    said = [[{"role": "assistant", "content": "ab"}], [{"role": "assistant", "content": ""}]]
    assert text_reward(["p"] * 2, said, target=["ab", ""], task=["text"] * 2) == [1.0, 1.0]


@pytest.mark.parametrize("reward", REWARDS)
def test_reward_functions_are_plain_and_pickle(reward) -> None:
    assert inspect.isfunction(reward) and reward.__name__.endswith("_reward")
    again = pickle.loads(pickle.dumps(reward))
    assert again(["p"], ["x"], target=["x"], task=["other"]) == [None]
    assert "guard" in reward.__doc__ and "*Source*" in reward.__doc__


def test_the_order_of_the_rewards_is_that_of_the_tasks() -> None:
    assert (text_reward, table_reward, formula_reward) == REWARDS


def test_batches_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        text_reward(["p"] * 2, ["a", "b"], target=["a"], task=["text"] * 2)


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(InputError, match="unknown task 'page'.*text, table, formula"):
        reward_of("page", "a", "a")


@pytest.mark.parametrize(
    ("pred", "ref", "reward"),
    [
        ("abcd", "abcd", 1.0),
        ("abcd", "abxd", 0.75),
        ("ab", "abcd", 0.5),
        ("", "abcd", 0.0),
        ("", "", 1.0),
        ("a, b. c!", "abc", 1.0),  # the scorer keeps letters and digits
        ("AB", "ab", 0.0),
        (r"$\alpha_{1}$", "α_1", 1.0),
        ("...", "...", 1.0),  # what normalises to nothing is compared as it stands
        ("..", "....", 0.5),
        ("a" + "." * 32, "a", 0.5),  # the guard reads the text as it stands
    ],
)
def test_texts_by_hand(pred: str, ref: str, reward: float) -> None:
    assert score_text(pred, ref) == pytest.approx(reward)


def test_a_text_is_rewarded_by_what_the_scorer_measures() -> None:
    pred, ref = "The qu1ck brown f0x", "The quick brown fox."
    assert reward_of("text", pred, ref) == 1 - text_edit(pred, ref).ned


@pytest.mark.parametrize("task", ["text", "formula"])
def test_monstrous_texts_are_compared_part_by_part(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def distance(pred: str, ref: str) -> int:
        sizes.append(len(pred) * len(ref))
        return abs(len(pred) - len(ref))

    monkeypatch.setattr(edit.Levenshtein, "distance", distance)
    reward_of(task, "ab " * 80_000, "cd " * 80_000)
    assert sum(sizes) <= 1.01 * EDIT_BUDGET < len("ab" * 80_000) ** 2
    sizes.clear()
    reward_of(task, "a" * 40_000, "b" * 10_000)
    assert sizes == [40_000 * 10_000]  # at the lengths of training nothing is cut
