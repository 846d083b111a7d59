"""Packed rows: layout, the one-step shift, the EOS fill, positions."""

from __future__ import annotations

import pytest
import torch
from tests.training_data import EOS_ID, MASK_ID, PROMPTS, hand_sample, make_sample

from gravityocr.model.masks import CLEAN, CORRUPT_A, CORRUPT_B, PREFIX
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.packing import IGNORE, fill_response, pack

NOISE = NoiseConfig(4)
NO = IGNORE


def test_the_layout_of_a_hand_made_row() -> None:
    sample = hand_sample([7, 8, 0, 0], 3, [0, 0, 1, 1], [[1, 0, 0, 1], [0, 1, 1, 0]])
    row = pack([sample], mask_id=9)
    assert row.ids.tolist() == [[3, 4, 7, 8, 0, 0, 9, 8, 0, 9, 7, 9, 9, 0]]
    assert row.tags.stream.tolist() == [[PREFIX] * 2 + [CLEAN] * 4 + [CORRUPT_A] * 4 + [CORRUPT_B] * 4]
    assert row.tags.index.tolist() == [[0, 1, *[0, 1, 2, 3] * 3]]
    assert row.tags.block.tolist() == [[-1, -1, *[0, 0, 1, 1] * 3]]
    assert row.tags.segment.tolist() == [[0] * 14]
    assert row.positions.tolist() == [[[0, 1, *[2, 3, 4, 5] * 3]]] * 3
    (place,) = row.places
    assert (place.prefix, place.streams, place.end) == (0, (2, 6, 10), 14)


def test_targets_sit_at_the_row_that_predicts_them() -> None:
    sample = hand_sample([7, 8, 5, 6], 4, [0, 0, 1, 1], [[1, 0, 1, 1], [0, 1, 0, 0]])
    row = pack([sample], mask_id=9)
    # prefix: columns 0-1, clean: 2-5, corrupt a: 6-9, corrupt b: 10-13.
    assert row.ar_target.tolist() == [[NO, 7, 8, 5, 6, *[NO] * 9]]
    # y_0 from the last prefix row; y_2, the first of block 1, from the last row of block 0 in the same stream.
    assert row.diffusion_target.tolist() == [[NO, 7, *[NO] * 4, NO, 5, 6, NO, 8, NO, NO, NO]]


def test_all_needs_one_corrupt_stream() -> None:
    sample = hand_sample([7, 8], 2, [0, 0], [[1, 1]])
    row = pack([sample], mask_id=9)
    assert sample.n_tokens == 6
    assert row.ids.tolist() == [[3, 4, 7, 8, 9, 9]]
    assert row.diffusion_target.tolist() == [[NO, 7, NO, NO, 8, NO]]


def test_no_target_crosses_into_another_stream_or_sample() -> None:
    samples = [make_sample(n, NOISE, seed=n) for n in (3, 5)]
    row = pack(samples, MASK_ID)
    for sample, place in zip(samples, row.places, strict=True):
        n = sample.response.numel()
        for column in place.streams:  # a stream's last row predicts nothing
            assert row.ar_target[0, column + n - 1] == row.diffusion_target[0, column + n - 1] == IGNORE


def test_the_fill_is_exactly_one_block_of_eos() -> None:
    response, n_supervised = fill_response([20, 21, 22], EOS_ID, 5)
    assert response.tolist() == [20, 21, 22, *[EOS_ID] * 5]
    assert n_supervised == 4  # three tokens and the FIRST EOS
    empty, n_supervised = fill_response([], EOS_ID, 5)
    assert empty.tolist() == [EOS_ID] * 5 and n_supervised == 1


@pytest.mark.parametrize("schedule", ["uniform", "all"])
def test_ar_stops_at_the_first_eos_and_diffusion_does_not(schedule: str) -> None:
    sample = make_sample(6, NoiseConfig(8, schedule), seed=3)
    row = pack([sample], MASK_ID)
    ar = row.ar_target[row.ar_target != IGNORE]
    diffusion = row.diffusion_target[row.diffusion_target != IGNORE]
    assert ar.tolist() == sample.response[:7].tolist()
    assert (ar == EOS_ID).sum() == 1
    assert sorted(diffusion.tolist()) == sorted(sample.response.tolist())  # every token, the whole fill included
    assert (diffusion == EOS_ID).sum() == 8


def test_positions_continue_from_the_prefix_and_agree_in_all_streams() -> None:
    # A wide grid, where the next position is far below the number of prefix tokens.
    samples = [make_sample(5, NOISE, 1, (4, 8)), make_sample(2, NOISE, 2, (2, 2))]
    row = pack(samples, MASK_ID)
    for sample, place in zip(samples, row.places, strict=True):
        prompt, n = sample.prompt, sample.response.numel()
        end = place.prefix + prompt.ids.numel()
        assert torch.equal(row.positions[:, 0, place.prefix : end], prompt.positions)
        assert prompt.next_position == int(prompt.positions.max()) + 1 < prompt.ids.numel() + 1
        wanted = (prompt.next_position + torch.arange(n)).expand(3, -1)
        assert len(place.streams) == 3
        for column in place.streams:
            assert torch.equal(row.positions[:, 0, column : column + n], wanted)


def test_only_masked_tokens_are_hidden_and_only_in_the_corrupt_streams() -> None:
    sample = make_sample(9, NOISE, seed=4)
    row = pack([sample], MASK_ID)
    (place,) = row.places
    n = sample.response.numel()
    clean, first, second = (row.ids[0, column : column + n] for column in place.streams)
    assert torch.equal(clean, sample.response)
    for ids, masked in zip((first, second), sample.corruption.masked, strict=True):
        assert (ids[masked] == MASK_ID).all()
        assert torch.equal(ids[~masked], sample.response[~masked])


def test_a_row_costs_its_prefix_once() -> None:
    sample = make_sample(9, NOISE)
    assert sample.n_tokens == sample.prompt.ids.numel() + 3 * (9 + 4)
    all_masked = make_sample(9, NoiseConfig(4, "all"))
    assert all_masked.n_tokens == all_masked.prompt.ids.numel() + 2 * (9 + 4)


def test_a_fill_of_one_token_is_the_first_eos() -> None:
    noise = NoiseConfig(8, eos_fill=False)
    sample = make_sample(6, noise, seed=3)
    row = pack([sample], MASK_ID)
    assert sample.response.tolist().count(EOS_ID) == 1 and row.n_targets == (7, 7)
    assert sample.n_tokens == row.n_tokens == sample.prompt.ids.numel() + 3 * 7


def test_a_row_is_as_long_as_its_samples_and_keeps_them_apart() -> None:
    samples = [make_sample(4, NOISE, 1, (2, 2)), make_sample(9, NOISE, 2, (2, 6)), make_sample(1, NOISE, 3, (2, 4))]
    row = pack(samples, MASK_ID)
    assert row.n_tokens == row.ids.shape[1] == sum(sample.n_tokens for sample in samples)
    assert (row.tags.segment >= 0).all(), "nothing is padding"
    ends = [place.end for place in row.places]
    assert [place.prefix for place in row.places] == [0, *ends[:-1]] and ends[-1] == row.n_tokens
    for number, (sample, place) in enumerate(zip(samples, row.places, strict=True)):
        assert (row.tags.segment[0, place.prefix : place.end] == number).all()
        one = pack([sample], MASK_ID)
        for name in ("ids", "is_image", "ar_target", "diffusion_target"):
            assert torch.equal(getattr(row, name)[:, place.prefix : place.end], getattr(one, name)), name
        assert torch.equal(row.positions[..., place.prefix : place.end], one.positions)


def test_image_features_are_scattered_in_the_order_of_the_samples() -> None:
    samples = [make_sample(4, NOISE, 1, (2, 2)), make_sample(9, NOISE, 2, (2, 6)), make_sample(1, NOISE, 3, (2, 4))]
    row = pack(samples, MASK_ID)
    assert [int((row.is_image & (row.tags.segment == number)).sum()) for number in range(3)] == [1, 3, 2]
    for sample, place in zip(samples, row.places, strict=True):
        image = row.ids[0, place.prefix :][sample.prompt.is_image.nonzero()[:, 0]]
        assert (image == PROMPTS.image_id).all()


def test_targets_are_counted_by_kind() -> None:
    samples = [make_sample(n, NOISE, seed=n) for n in (3, 5)]
    assert pack(samples, MASK_ID).n_targets == (4 + 6, 7 + 9)  # letters and first EOS; letters and the whole fill


def test_a_row_moves_with_all_its_parts() -> None:
    row = pack([make_sample(3, NOISE)], MASK_ID)
    moved = row.to(torch.device("meta"))
    tensors = [moved.ids, moved.is_image, moved.positions, moved.ar_target, moved.diffusion_target]
    tensors += [moved.tags.segment, moved.tags.stream, moved.tags.index, moved.tags.block]
    assert all(tensor.device.type == "meta" for tensor in tensors)
    assert moved.tags.stream.shape == row.tags.stream.shape and moved.places == row.places
