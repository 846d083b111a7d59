"""Rotary position embeddings: axial for the vision tower, multimodal (M-RoPE) for the decoder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

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


def axial_rope(positions: Tensor, theta: float, head_dim: int) -> Tensor:
    """Return the turns of the vision tower's two-axis rotary embedding, complex numbers of length 1.

    *Shapes*: positions [n, 2] -> [n, head_dim / 2].
    """
    frequencies = inverse_frequencies(theta, head_dim // 2).to(positions.device)
    angles = (positions[:, :, None].float() * frequencies).flatten(1)
    return torch.complex(angles.cos(), angles.sin())


def mrope(positions: Tensor, theta: float, sections: Sequence[int]) -> Tensor:
    """Return the turns of M-RoPE, complex numbers of length 1: each section of the frequencies follows one axis.

    *Shapes*: positions [3, b, n] (temporal, height, width) -> [b, n, 1, sum(sections)]. *Source*: section 1.
    """
    frequencies, axes = _mrope_tables(theta, tuple(sections), positions.device)
    angles = positions.movedim(0, -1)[:, :, None].float().index_select(-1, axes) * frequencies
    return torch.complex(angles.cos(), angles.sin())


@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _mrope_tables(theta: float, sections: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    axes = torch.tensor([i % 3 for i, size in enumerate(sections) for _ in range(size)], device=device)
    return inverse_frequencies(theta, 2 * axes.numel()).to(device), axes


def rotate_halves(x: Tensor, turns: Tensor) -> Tensor:
    """Return `x` rotated in fp32, dimension i being paired with i + head_dim / 2 (the vision tower's layout).

    The result has the two of a pair as neighbours: queries and keys that share this order have the same products.
    """
    first, second = x.float().chunk(2, -1)
    return torch.view_as_real(torch.complex(first, second).mul_(turns)).flatten(-2)


def rotate_pairs(x: Tensor, turns: Tensor) -> Tensor:
    """Return `x` rotated in fp32, dimension 2 i being paired with 2 i + 1 (the decoder's layout).

    *Shapes*: x [b, n, heads, head_dim], turns [b, n, 1, head_dim / 2].
    """
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2)
