"""Packed rows: layout, the one-step shift, the EOS fill, positions, first fit."""

from __future__ import annotations

import pytest
import torch
from tests.training_data import EOS_ID, MASK_ID, PROMPTS, hand_sample, make_sample

from gravityocr.errors import ConfigError
from gravityocr.model.masks import CLEAN, CORRUPT_A, CORRUPT_B, PREFIX
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.packing import IGNORE, assign_rows, fill_response, pack

NOISE = NoiseConfig(4)
NO = IGNORE


def test_the_layout_of_a_hand_made_row() -> None:
    sample = hand_sample([7, 8, 0, 0], 3, [0, 0, 1, 1], [[1, 0, 0, 1], [0, 1, 1, 0]])
    batch = pack([sample], mask_id=9, budget_tokens=14)
    assert batch.ids.tolist() == [[3, 4, 7, 8, 0, 0, 9, 8, 0, 9, 7, 9, 9, 0]]
    assert batch.tags.stream.tolist() == [[PREFIX] * 2 + [CLEAN] * 4 + [CORRUPT_A] * 4 + [CORRUPT_B] * 4]
    assert batch.tags.index.tolist() == [[0, 1, *[0, 1, 2, 3] * 3]]
    assert batch.tags.block.tolist() == [[-1, -1, *[0, 0, 1, 1] * 3]]
    assert batch.tags.segment.tolist() == [[0] * 14]
    assert batch.positions.tolist() == [[[0, 1, *[2, 3, 4, 5] * 3]]] * 3
    (place,) = batch.places
    assert (place.row, place.prefix, place.streams) == (0, 0, (2, 6, 10))


def test_targets_sit_at_the_row_that_predicts_them() -> None:
    sample = hand_sample([7, 8, 5, 6], 4, [0, 0, 1, 1], [[1, 0, 1, 1], [0, 1, 0, 0]])
    batch = pack([sample], mask_id=9, budget_tokens=14)
    # prefix: columns 0-1, clean: 2-5, corrupt a: 6-9, corrupt b: 10-13.
    assert batch.ar_target.tolist() == [[NO, 7, 8, 5, 6, *[NO] * 9]]
    # y_0 from the last prefix row; y_2, the first of block 1, from the last row of block 0 in the same stream.
    assert batch.diffusion_target.tolist() == [[NO, 7, *[NO] * 4, NO, 5, 6, NO, 8, NO, NO, NO]]


def test_all_needs_one_corrupt_stream() -> None:
    sample = hand_sample([7, 8], 2, [0, 0], [[1, 1]])
    batch = pack([sample], mask_id=9, budget_tokens=6)
    assert sample.n_tokens == 6
    assert batch.ids.tolist() == [[3, 4, 7, 8, 9, 9]]
    assert batch.diffusion_target.tolist() == [[NO, 7, NO, NO, 8, NO]]


def test_no_target_crosses_into_another_stream_or_sample() -> None:
    samples = [make_sample(n, NOISE, seed=n) for n in (3, 5)]
    batch = pack(samples, MASK_ID, 1000)
    for place, i in zip(batch.places, batch.order, strict=True):
        n = samples[i].response.numel()
        for column in place.streams:  # a stream's last row predicts nothing
            assert batch.ar_target[0, column + n - 1] == batch.diffusion_target[0, column + n - 1] == IGNORE


def test_the_fill_is_exactly_one_block_of_eos() -> None:
    response, n_supervised = fill_response([20, 21, 22], EOS_ID, 5)
    assert response.tolist() == [20, 21, 22, *[EOS_ID] * 5]
    assert n_supervised == 4  # three tokens and the FIRST EOS
    empty, n_supervised = fill_response([], EOS_ID, 5)
    assert empty.tolist() == [EOS_ID] * 5 and n_supervised == 1


@pytest.mark.parametrize("schedule", ["uniform", "all"])
def test_ar_stops_at_the_first_eos_and_diffusion_does_not(schedule: str) -> None:
    sample = make_sample(6, NoiseConfig(8, schedule), seed=3)
    batch = pack([sample], MASK_ID, 1000)
    ar = batch.ar_target[batch.ar_target != IGNORE]
    diffusion = batch.diffusion_target[batch.diffusion_target != IGNORE]
    assert ar.tolist() == sample.response[:7].tolist()
    assert (ar == EOS_ID).sum() == 1
    assert sorted(diffusion.tolist()) == sorted(sample.response.tolist())  # every token, the whole fill included
    assert (diffusion == EOS_ID).sum() == 8


def test_positions_continue_from_the_prefix_and_agree_in_all_streams() -> None:
    # A wide grid, where the next position is far below the number of prefix tokens.
    samples = [make_sample(5, NOISE, 1, (4, 8)), make_sample(2, NOISE, 2, (2, 2))]
    batch = pack(samples, MASK_ID, 1000)
    for place, i in zip(batch.places, batch.order, strict=True):
        prompt, n = samples[i].prompt, samples[i].response.numel()
        end = place.prefix + prompt.ids.numel()
        assert torch.equal(batch.positions[:, 0, place.prefix : end], prompt.positions)
        assert prompt.next_position == int(prompt.positions.max()) + 1 < prompt.ids.numel() + 1
        wanted = (prompt.next_position + torch.arange(n)).expand(3, -1)
        assert len(place.streams) == 3
        for column in place.streams:
            assert torch.equal(batch.positions[:, 0, column : column + n], wanted)


def test_only_masked_tokens_are_hidden_and_only_in_the_corrupt_streams() -> None:
    sample = make_sample(9, NOISE, seed=4)
    batch = pack([sample], MASK_ID, 1000)
    (place,) = batch.places
    n = sample.response.numel()
    clean, first, second = (batch.ids[0, column : column + n] for column in place.streams)
    assert torch.equal(clean, sample.response)
    for ids, masked in zip((first, second), sample.corruption.masked, strict=True):
        assert (ids[masked] == MASK_ID).all()
        assert torch.equal(ids[~masked], sample.response[~masked])


def test_a_row_costs_its_prefix_once() -> None:
    sample = make_sample(9, NOISE)
    assert sample.n_tokens == sample.prompt.ids.numel() + 3 * (9 + 4)
    all_masked = make_sample(9, NoiseConfig(4, "all"))
    assert all_masked.n_tokens == all_masked.prompt.ids.numel() + 2 * (9 + 4)


def test_shorter_rows_are_padded_with_nothing() -> None:
    samples = [make_sample(9, NOISE, 1), make_sample(2, NOISE, 2)]
    batch = pack(samples, MASK_ID, samples[0].n_tokens)
    assert batch.ids.shape == (2, samples[0].n_tokens)
    rest = slice(samples[1].n_tokens, None)
    assert (batch.tags.segment[1, rest] == -1).all() and (batch.tags.segment[1, : samples[1].n_tokens] == 0).all()
    assert (batch.ar_target[1, rest] == IGNORE).all() and (batch.diffusion_target[1, rest] == IGNORE).all()
    assert not batch.is_image[1, rest].any()


def test_image_features_are_scattered_in_the_order_that_is_told() -> None:
    # First fit puts sample 2 into the first row, before sample 1.
    samples = [make_sample(4, NOISE, 1, (2, 2)), make_sample(9, NOISE, 2, (2, 6)), make_sample(1, NOISE, 3, (2, 4))]
    batch = pack(samples, MASK_ID, samples[0].n_tokens + samples[2].n_tokens)
    assert batch.order == (0, 2, 1)
    n_cells = [int((batch.is_image & (batch.tags.segment == s))[r].sum()) for r, s in ((0, 0), (0, 1), (1, 0))]
    assert n_cells == [1, 2, 3]
    for place, i in zip(batch.places, batch.order, strict=True):
        image = batch.ids[place.row, place.prefix :][samples[i].prompt.is_image.nonzero()[:, 0]]
        assert (image == PROMPTS.image_id).all()


def test_first_fit_fills_the_first_row_with_room() -> None:
    assert assign_rows([6, 5, 4, 5, 1], 10) == [[0, 2], [1, 3], [4]]
    assert assign_rows([3, 8, 7, 2], 10) == [[0, 2], [1, 3]]
    assert assign_rows([], 10) == []


def test_a_sample_beyond_the_budget_is_refused_by_name() -> None:
    assert assign_rows([10], 10) == [[0]]
    with pytest.raises(ConfigError, match="11 forward tokens exceeds the row budget of 10"):
        assign_rows([4, 11], 10)
    with pytest.raises(ConfigError, match="row budget"):
        pack([make_sample(50, NOISE)], MASK_ID, 100)


def test_a_batch_moves_with_all_its_parts() -> None:
    batch = pack([make_sample(3, NOISE)], MASK_ID, 1000)
    moved = batch.to(torch.device("meta"))
    tensors = [moved.ids, moved.is_image, moved.positions, moved.ar_target, moved.diffusion_target]
    tensors += [moved.tags.segment, moved.tags.stream, moved.tags.index, moved.tags.block]
    assert all(tensor.device.type == "meta" for tensor in tensors)
    assert moved.tags.stream.shape == batch.tags.stream.shape and moved.places == batch.places
