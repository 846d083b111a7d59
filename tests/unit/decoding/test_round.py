"""The pure functions of a round, each against literals."""

from __future__ import annotations

import pytest
import torch

from gravityocr.decoding.round import (
    NO_TOKEN,
    Rules,
    accept,
    commit,
    cut,
    decode_round,
    draft_window,
    verify_window,
)
from gravityocr.errors import ConfigError


def test_draft_window_is_causal_in_row_0_and_open_in_the_masks() -> None:
    window = draft_window(torch.tensor([5, 6]), torch.tensor([10, 20]), block_size=3, mask_id=9)
    assert window.tokens.tolist() == [[5, 9, 9, 9], [6, 9, 9, 9]]
    assert window.start.tolist() == [10, 20]
    assert window.limits.tolist() == [[10, 13, 13, 13], [20, 23, 23, 23]]


def test_verify_window_is_causal_over_the_slots_of_the_masks() -> None:
    drafts = torch.tensor([[1, 2, 3], [4, 5, 6]])
    window = verify_window(torch.tensor([7, 8]), drafts, torch.tensor([10, 20]))
    assert window.tokens.tolist() == [[7, 1, 2, 3], [8, 4, 5, 6]]
    assert window.start.tolist() == [11, 21]
    assert window.limits.tolist() == [[11, 12, 13, 14], [21, 22, 23, 24]]


def test_accept_takes_the_longest_agreeing_prefix_only() -> None:
    drafts = torch.tensor([[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3]])
    predictions = torch.tensor([[1, 2, 3, 4], [1, 0, 3, 4], [0, 2, 3, 4], [1, 2, 0, 3]])
    assert accept(drafts, predictions).tolist() == [3, 1, 0, 2]


def test_commit_is_a0_the_accepted_drafts_and_the_verifiers_token() -> None:
    a0 = torch.tensor([7, 7, 7])
    drafts = torch.tensor([[1, 2, 3]] * 3)
    predictions = torch.tensor([[1, 2, 3, 4], [1, 0, 3, 4], [0, 2, 3, 4]])
    tokens = commit(a0, drafts, predictions, torch.tensor([3, 1, 0]))
    assert tokens.tolist() == [
        [7, 1, 2, 3, 4],
        [7, 1, 0, NO_TOKEN, NO_TOKEN],
        [7, 0, NO_TOKEN, NO_TOKEN, NO_TOKEN],
    ]


@pytest.mark.parametrize(
    ("row", "count", "n_left", "kept"),
    [
        ([5, 6, 7, 8], 4, 9, 4),
        ([5, 6, 7, 8], 4, 4, 4),
        ([5, 6, 7, 8], 4, 3, 3),
        ([5, 6, 7, 8], 2, 9, 2),
        ([0, 6, 7, 8], 4, 9, 1),
        ([5, 1, 0, 8], 4, 9, 2),
        ([5, 6, 7, 0], 4, 9, 4),
        ([5, 6, 7, 0], 3, 9, 3),
        ([5, 6, 0, 8], 4, 2, 2),
        ([5, 6, 0, 8], 4, 3, 3),
    ],
)
def test_cut_ends_at_the_first_stop_token_or_the_limit(row: list[int], count: int, n_left: int, kept: int) -> None:
    stop_ids = torch.tensor([0, 1])
    assert cut(torch.tensor([row]), torch.tensor([count]), stop_ids, torch.tensor([n_left])).tolist() == [kept]


def test_cut_without_stop_ids_leaves_the_limit() -> None:
    none = torch.tensor([], dtype=torch.long)
    assert cut(torch.tensor([[0, 1, 2]]), torch.tensor([3]), none, torch.tensor([2])).tolist() == [2]


def test_round_gives_the_next_state_and_calls_step_twice() -> None:
    answers = [torch.tensor([[4, 5, 6], [4, 0, 6]]), torch.tensor([[5, 8, 9], [0, 6, 9]])]
    calls: list[tuple[list[list[int]], list[int]]] = []

    def step(tokens: torch.Tensor, start: torch.Tensor, limits: torch.Tensor) -> torch.Tensor:
        calls.append((tokens.tolist(), start.tolist()))
        return torch.nn.functional.one_hot(answers[len(calls) - 1], 12).float()

    outcome = decode_round(
        step,
        lambda logits: logits.argmax(-1),
        x0=torch.tensor([2, 3]),
        lens=torch.tensor([10, 20]),
        n_left=torch.tensor([50, 50]),
        rules=Rules(block_size=2, mask_id=11, stop_ids=torch.tensor([0])),
    )
    assert calls == [([[2, 11, 11], [3, 11, 11]], [10, 20]), ([[4, 5, 6], [4, 0, 6]], [11, 21])]
    assert outcome.n_accepted.tolist() == [1, 2]
    assert outcome.committed.tolist() == [[4, 5, 8, NO_TOKEN], [4, 0, 6, 9]]
    assert outcome.n_committed.tolist() == [3, 2]  # A + 2, and cut behind the stop token
    assert outcome.lens.tolist() == [13, 22]
    assert outcome.x0.tolist() == [8, 0]


@pytest.mark.parametrize(("block_size", "mask_id"), [(0, 5), (-1, 5), (4, -1)])
def test_rules_refuse_what_no_round_can_follow(block_size: int, mask_id: int) -> None:
    with pytest.raises(ConfigError):
        Rules(block_size, mask_id, torch.tensor([0]))
