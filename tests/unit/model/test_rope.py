"""Rotary embeddings of the decoder."""

from __future__ import annotations

import cmath

import torch
from tests.factories import tiny_network

from gravityocr.model.rope import inverse_frequencies, mrope, rotate_pairs


def test_frequencies_are_fp32_and_fall_from_one() -> None:
    frequencies = inverse_frequencies(10000.0, 8)
    assert frequencies.dtype == torch.float32
    torch.testing.assert_close(frequencies, torch.tensor([1.0, 0.1, 0.01, 0.001]))


def test_each_section_turns_with_its_axis() -> None:
    positions = torch.tensor([5, 7, 11])[:, None, None]
    turns = mrope(positions, 100.0, (1, 2, 1))
    one, two, three, four = inverse_frequencies(100.0, 8).tolist()
    angles = [5 * one, 7 * two, 7 * three, 11 * four]
    assert turns.shape == (1, 1, 1, 4)
    torch.testing.assert_close(turns[0, 0, 0], torch.tensor([cmath.rect(1, angle) for angle in angles]))


def test_sections_beyond_the_third_start_again_with_the_first_axis() -> None:
    positions = torch.tensor([5, 7, 11])[:, None, None]
    turns = mrope(positions, 1.0, (1, 1, 1, 1))  # theta 1: all frequencies are 1
    torch.testing.assert_close(turns[0, 0, 0], torch.tensor([cmath.rect(1, angle) for angle in (5, 7, 11, 5)]))


def test_frequencies_kept_from_reading_serve_training() -> None:
    positions = torch.tensor([5, 7, 11])[:, None, None]
    with torch.inference_mode():
        mrope(positions, 31.0, (1, 1))
    x = torch.ones(1, 1, 1, 4, requires_grad=True)
    rotate_pairs(x, mrope(positions, 31.0, (1, 1))).sum().backward()
    assert x.grad is not None


def test_pairs_are_neighbours() -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    quarter = rotate_pairs(x, torch.tensor([1j, 1j]))  # a quarter turn of each pair
    assert quarter.tolist() == [-2.0, 1.0, -4.0, 3.0]


def test_bf16_weights_leave_the_angles_alone() -> None:
    """A bf16 copy of the frequencies is off by up to 0.7 rad at position 600: the network must hold none to cast."""
    model = tiny_network()
    assert list(model.buffers()) == []
    text = model.config.text
    seen = []

    def attend(_layer, q, k, v):
        seen.append(k)
        return v.repeat_interleave(q.shape[1] // k.shape[1], 1)

    embedded = torch.randn(1, 1, text.hidden_size)
    for dtype in (torch.float32, torch.bfloat16):
        model.to(dtype).hidden(embedded.to(dtype), torch.full((3, 1, 1), 5003), attend)
    exact, rough = (k.float() for k in (seen[0], seen[text.num_hidden_layers]))
    assert (exact - rough).abs().max() < 0.05 * exact.abs().max()
