"""The pure functions of a forward's window and its acceptance, each against literals."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gravityocr.decoding.round import NO_STOP, NO_TOKEN, Plan, Window, accept, commit, cut, judge, round_window
from gravityocr.model.masks import slot_mask

MASK = 9


def plan(drafts: list[list[int]], n_drafts: list[int], points: list[list[int]], n_blocks: list[int], size: int) -> Plan:
    return Plan(
        torch.tensor(drafts, dtype=torch.long).view(len(n_drafts), -1),
        torch.tensor(n_drafts),
        torch.tensor(points, dtype=torch.long).view(len(n_drafts), -1),
        torch.tensor(n_blocks),
        torch.full((len(n_drafts), size), MASK),
    )


def test_a_draft_forward_is_causal_in_x0_and_open_in_the_masks() -> None:
    window = round_window(torch.tensor([5, 6]), torch.tensor([10, 20]), plan([], [0, 0], [[0], [0]], [1, 1], 3))
    assert window.tokens.tolist() == [[5, 9, 9, 9], [6, 9, 9, 9]]
    assert window.start.tolist() == [10, 20]
    assert window.limits.tolist() == [[10, 13, 13, 13], [20, 23, 23, 23]]
    assert window.spans is None and window.offsets is None, "one limit a row says it all, which is cheaper"


def test_a_verify_forward_is_causal() -> None:
    drafts = [[1, 2, 3], [4, 5, 6]]
    window = round_window(torch.tensor([7, 8]), torch.tensor([10, 20]), plan(drafts, [3, 3], [], [0, 0], 3))
    assert window.tokens.tolist() == [[7, 1, 2, 3], [8, 4, 5, 6]]
    assert window.limits.tolist() == [[10, 11, 12, 13], [20, 21, 22, 23]]
    assert window.spans is None and window.offsets is None


def test_a_fused_window_places_each_block_behind_its_candidate() -> None:
    """The example of the module: w = 3, K = 1, B = 2, c = 2; a second sequence drafts meanwhile."""
    both = plan([[1, 2, 3], [0, 0, 0]], [3, 0], [[2], [0]], [1, 1], 2)
    window = round_window(torch.tensor([7, 8]), torch.tensor([10, 20]), both)
    assert window.tokens.tolist() == [[7, 1, 2, 3, 9, 9], [8, 9, 9, 0, 0, 0]]
    assert window.limits[0].tolist() == [10, 11, 12, 13, 12, 12]
    assert window.limits[1, :3].tolist() == [20, 20, 20]
    assert window.spans is not None and window.offsets is not None
    assert window.spans[0, 4:].tolist() == [[14, 15], [14, 15]] and window.spans[1, 1].tolist() == [21, 22]
    slots = window.start[:, None] + torch.arange(6)
    positions = slots + window.offsets
    assert positions[0].tolist() == [10, 11, 12, 13, 13, 14]  # the masks stand where d_3 and what follows it stand
    assert positions[1, :3].tolist() == [20, 21, 22]


def brute_force(one: Plan, lens: list[int], n_rows: int, n_slots: int) -> torch.Tensor:
    """Return who sees whom, row by row, from the words of the module's docstring."""
    sees = torch.zeros(len(lens), n_rows, n_slots, dtype=torch.bool)
    size = one.blocks.shape[1]
    for b, length in enumerate(lens):
        w, k = int(one.n_drafts[b]), int(one.n_blocks[b])
        for row in range(1 + w):
            sees[b, row, : length + row + 1] = True
        for block in range(k):
            first = 1 + w + block * size
            for row in range(first, first + size):
                sees[b, row, : length + int(one.points[b, block]) + 1] = True
                sees[b, row, length + first : length + first + size] = True
    return sees


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[int], Plan]:
    n, width, k, size = (draw(st.integers(1, most)) for most in (3, 5, 3, 4))
    n_drafts = draw(st.lists(st.integers(0, width), min_size=n, max_size=n))
    n_blocks = draw(st.lists(st.integers(0, k), min_size=n, max_size=n))
    points = [[draw(st.integers(0, w)) for _ in range(k)] for w in n_drafts]
    lens = draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    return lens, plan([[1] * width] * n, n_drafts, points, n_blocks, size)


@given(plans())
@settings(deadline=None, max_examples=200)
def test_the_window_is_what_brute_force_says(case: tuple[list[int], Plan]) -> None:
    lens, one = case
    window: Window = round_window(torch.ones(len(lens), dtype=torch.long), torch.tensor(lens), one)
    n_rows = window.tokens.shape[1]
    mask = slot_mask(window.limits, max(lens) + n_rows, window.spans)[:, 0]
    expected = brute_force(one, lens, n_rows, max(lens) + n_rows)
    for b in range(len(lens)):
        used = 1 + int(one.n_drafts[b]) + int(one.n_blocks[b]) * one.blocks.shape[1]
        assert torch.equal(mask[b, :used], expected[b, :used])
        assert bool(mask[b].any(dim=1).all()), "a row that sees nothing has no softmax"


def test_accept_takes_the_longest_agreeing_prefix_only() -> None:
    drafts = torch.tensor([[1, 2, 3]] * 5)
    predictions = torch.tensor([[1, 2, 3, 4], [1, 0, 3, 4], [0, 2, 3, 4], [1, 2, 0, 3], [1, 2, 3, 4]])
    assert accept(drafts, torch.tensor([3, 3, 3, 3, 1]), predictions).tolist() == [3, 1, 0, 2, 1]


def test_commit_is_the_accepted_drafts_and_the_verifiers_token() -> None:
    predictions = torch.tensor([[1, 2, 3, 4], [1, 0, 3, 4], [0, 2, 3, 4]])
    tokens = commit(predictions, torch.tensor([3, 1, 0]))
    assert tokens.tolist() == [[1, 2, 3, 4], [1, 0, NO_TOKEN, NO_TOKEN], [0, NO_TOKEN, NO_TOKEN, NO_TOKEN]]


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
    stops = torch.tensor([[0, 1]])
    assert cut(torch.tensor([row]), torch.tensor([count]), stops, torch.tensor([n_left])).tolist() == [kept]


def test_cut_knows_each_sequences_own_stop_tokens() -> None:
    tokens = torch.tensor([[5, 6, NO_TOKEN]] * 3)
    stops = torch.tensor([[6, NO_STOP], [5, 6], [NO_STOP, NO_STOP]])
    assert cut(tokens, torch.tensor([2] * 3), stops, torch.tensor([9] * 3)).tolist() == [2, 1, 2]


def test_judge_finds_the_block_behind_the_point_where_acceptance_ends() -> None:
    one = plan([[1, 2]] * 4, [2] * 4, [[2, 0]] * 4, [2, 2, 1, 2], 3)
    predictions = torch.tensor([[1, 2, 7], [8, 2, 7], [8, 2, 7], [1, 8, 7]])
    outcome = judge(one, predictions, torch.tensor([[0]] * 4), torch.tensor([50] * 4))
    assert outcome.n_accepted.tolist() == [2, 0, 0, 1]
    assert outcome.hit.tolist() == [True, True, False, False]  # the third has no second block, the last no such point
    assert outcome.columns[:2].tolist() == [[3, 4, 5], [6, 7, 8]]
    assert outcome.n_committed.tolist() == [3, 1, 1, 2]


def test_what_is_cut_is_no_hit() -> None:
    one = plan([[1, 2]] * 2, [2, 2], [[2], [2]], [1, 1], 3)
    predictions = torch.tensor([[1, 2, 7]] * 2)
    outcome = judge(one, predictions, torch.tensor([[2], [0]]), torch.tensor([50, 2]))
    assert outcome.n_committed.tolist() == [2, 2] and outcome.hit.tolist() == [False, False]
