"""Rotary position embeddings: axial for the vision tower, multimodal (M-RoPE) for the decoder."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def inverse_frequencies(theta: float, dim: int) -> Tensor:
    """Return the rotary frequencies of one axis.

    *Shapes*: [dim / 2], always fp32: a bf16 copy is off by up to 0.7 rad at position 600.
    """
    return theta ** -(torch.arange(0, dim, 2, dtype=torch.float32) / dim)


def patch_positions(grids: Sequence[tuple[int, int]], merge: int) -> Tensor:
    """Return (row, column) of every patch, the patches of one merged cell being neighbours.

    *Shapes*: [n_patches, 2] for `grids` of (patch rows, patch columns).
    """
    parts = []
    for height, width in grids:
        ids = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij"), -1)
        cells = ids.view(height // merge, merge, width // merge, merge, 2).transpose(1, 2)
        parts.append(cells.reshape(-1, 2))
    return torch.cat(parts)


def axial_rope(positions: Tensor, theta: float, head_dim: int) -> tuple[Tensor, Tensor]:
    """Return cos and sin of the vision tower's two-axis rotary embedding.

    *Shapes*: positions [n, 2] -> two of [n, head_dim].
    """
    frequencies = inverse_frequencies(theta, head_dim // 2).to(positions.device)
    angles = (positions[:, :, None].float() * frequencies).flatten(1)
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def mrope(positions: Tensor, frequencies: Tensor, sections: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return cos and sin of M-RoPE: each section of the frequencies turns with one axis.

    *Shapes*: positions [3, b, n] (temporal, height, width) -> two of [b, 1, n, 2 x sum(sections)].
    *Source*: section 1.
    """
    parts = frequencies.split(list(sections))
    angles = torch.cat([positions[i % 3, ..., None].float() * part for i, part in enumerate(parts)], -1)
    angles = angles.repeat_interleave(2, -1)[:, None]
    return angles.cos(), angles.sin()


def rotate_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate `x`, dimension i being paired with i + head_dim / 2 (the vision tower's layout)."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate `x`, dimension 2 i being paired with 2 i + 1 (the decoder's layout)."""
    swapped = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    return x * cos + swapped * sin
