"""Rotary embeddings of the decoder."""

from __future__ import annotations

import math

import torch
from tests.factories import tiny_network

from gravityocr.model.rope import inverse_frequencies, mrope, rotate_pairs


def test_frequencies_are_fp32_and_fall_from_one() -> None:
    frequencies = inverse_frequencies(10000.0, 8)
    assert frequencies.dtype == torch.float32
    torch.testing.assert_close(frequencies, torch.tensor([1.0, 0.1, 0.01, 0.001]))


def test_each_section_turns_with_its_axis() -> None:
    positions = torch.tensor([5, 7, 11])[:, None, None]
    cos, sin = mrope(positions, torch.tensor([1.0, 0.5, 0.25, 0.125]), (1, 2, 1))
    angles = [5 * 1.0, 7 * 0.5, 7 * 0.25, 11 * 0.125]
    assert cos.shape == sin.shape == (1, 1, 1, 8)
    torch.testing.assert_close(cos[0, 0, 0], torch.tensor([math.cos(angle) for angle in angles for _ in "ab"]))
    torch.testing.assert_close(sin[0, 0, 0], torch.tensor([math.sin(angle) for angle in angles for _ in "ab"]))


def test_sections_beyond_the_third_start_again_with_the_first_axis() -> None:
    positions = torch.tensor([5, 7, 11])[:, None, None]
    cos, _ = mrope(positions, torch.ones(4), (1, 1, 1, 1))
    torch.testing.assert_close(cos[0, 0, 0, ::2], torch.tensor([math.cos(angle) for angle in (5, 7, 11, 5)]))


def test_pairs_are_neighbours() -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    quarter = rotate_pairs(x, torch.zeros(4), torch.ones(4))  # a quarter turn of each pair
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
