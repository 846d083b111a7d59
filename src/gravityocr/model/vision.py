"""The vision tower: patches of several crops in, one feature per merged cell out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError
from gravityocr.model.attention import attention
from gravityocr.model.norm import RMSNorm
from gravityocr.model.packed import gated, inner
from gravityocr.model.rope import axial_rope, patch_positions, rotate_halves


@dataclass(frozen=True)
class VisionConfig:
    """Sizes of the vision tower; the defaults are GLM-OCR's."""

    depth: int = 24
    hidden_size: int = 1024
    intermediate_size: int = 4096
    num_heads: int = 16
    in_channels: int = 3
    patch_size: int = 14
    temporal_patch_size: int = 2
    spatial_merge_size: int = 2
    out_hidden_size: int = 1536
    rms_norm_eps: float = 1e-5
    attention_bias: bool = True
    rope_theta: float = 10000.0

    def __post_init__(self) -> None:
        check_numbers(
            self, "vision.", depth=(1, 256), hidden_size=(1, 65536), intermediate_size=(1, 262144),
            num_heads=(1, 1024), in_channels=(3, 3), patch_size=(1, 256), temporal_patch_size=(1, 16),
            spatial_merge_size=(1, 16), out_hidden_size=(1, 65536), rms_norm_eps=(1e-30, 1.0), rope_theta=(1.0, 1e12),
        )  # fmt: skip
        if self.hidden_size % (4 * self.num_heads):
            raise ConfigError(
                f"vision.hidden_size is {self.hidden_size}; it must be a multiple of 4 x {self.num_heads} heads, "
                "since each of two axes turns pairs"
            )
        if type(self.attention_bias) is not bool:
            raise ConfigError(f"vision.attention_bias is {self.attention_bias!r}; choose true or false")

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_heads

    @property
    def patch_dim(self) -> int:
        """Number of values in one flattened patch: channel, time, row, column."""
        return self.in_channels * self.temporal_patch_size * self.patch_size**2


class VisionAttention(nn.Module):
    """Attend within each crop, never across crops."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.n_heads = config.num_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=config.attention_bias)
        self.proj = nn.Linear(config.hidden_size, config.hidden_size, bias=config.attention_bias)
        self.q_norm = RMSNorm(config.head_dim, eps=config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, eps=config.rms_norm_eps)

    def forward(self, x: Tensor, turns: Tensor, groups: Sequence[tuple[int, int]]) -> Tensor:
        """Return the attention output; `groups` lists (number of crops, patches of each) in the order of `x`."""
        q, k, v = inner(self.qkv, x).unflatten(-1, (3, self.n_heads, -1)).unbind(1)
        q, k = (rotate_halves(norm(x), turns).to(v.dtype) for norm, x in ((self.q_norm, q), (self.k_norm, k)))
        sizes = [n_crops * n_patches for n_crops, n_patches in groups]
        outputs = []
        for group, parts in zip(groups, zip(*(t.split(sizes) for t in (q, k, v)), strict=True), strict=True):
            q_crops, k_crops, v_crops = (t.unflatten(0, group).transpose(1, 2) for t in parts)
            outputs.append(attention(q_crops, k_crops, v_crops).transpose(1, 2).flatten(2).flatten(0, 1))
        return self.proj(outputs[0] if len(outputs) == 1 else torch.cat(outputs))


class VisionMlp(nn.Module):
    """Gated MLP with biases."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        width, inner, bias = config.hidden_size, config.intermediate_size, config.attention_bias
        self.gate_proj = nn.Linear(width, inner, bias=bias)
        self.up_proj = nn.Linear(width, inner, bias=bias)
        self.down_proj = nn.Linear(inner, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the transformed features."""
        return self.down_proj(gated(self.gate_proj, self.up_proj, x))


class VisionBlock(nn.Module):
    """One pre-norm transformer block."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.norm1 = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.norm2 = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.attn = VisionAttention(config)
        self.mlp = VisionMlp(config)

    def forward(self, x: Tensor, turns: Tensor, groups: Sequence[tuple[int, int]]) -> Tensor:
        """Return the block's output."""
        x = x + self.attn(self.norm1(x), turns, groups)
        return x + self.mlp(self.norm2(x))


class PatchMerger(nn.Module):
    """Map a merged cell to the decoder's width."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        width, inner = config.out_hidden_size, config.out_hidden_size * config.in_channels
        self.proj = nn.Linear(width, width, bias=False)
        self.post_projection_norm = nn.LayerNorm(width)
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the decoder's input features."""
        x = F.gelu(self.post_projection_norm(self.proj(x)))
        return self.down_proj(gated(self.gate_proj, self.up_proj, x))


class VisionTower(nn.Module):
    """Encode packed crops of any sizes in one call.

    *Source*: section 1. The patch embedding and the 2x2 merge are strided convolutions in the checkpoint; here they
    are linears over flattened patches, which is the same map and faster on CPU.
    """

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = nn.Linear(config.patch_dim, config.hidden_size)
        self.blocks = nn.ModuleList(VisionBlock(config) for _ in range(config.depth))
        self.post_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.downsample = nn.Linear(config.hidden_size * config.spatial_merge_size**2, config.out_hidden_size)
        self.merger = PatchMerger(config)

    def forward(self, pixels: Tensor, grids: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        """Return the features before and after the merger, crop after crop, cells in reading order.

        *Shapes*: pixels [n_patches, patch_dim], grids in patches -> two of [n_cells, out_hidden_size].
        """
        merge = self.config.spatial_merge_size
        by_size = sorted(range(len(grids)), key=lambda i: math.prod(grids[i]))
        in_order = by_size == list(range(len(grids)))
        if not in_order:  # crops of one size lie side by side, so that they are attended to without gathering
            crops = pixels.split([math.prod(grid) for grid in grids])
            pixels, grids = torch.cat([crops[i] for i in by_size]), [grids[i] for i in by_size]
        n_of_size = Counter(math.prod(grid) for grid in grids)
        groups = [(n_crops, size) for size, n_crops in n_of_size.items()]
        positions = patch_positions(grids, merge).to(pixels.device)
        turns = axial_rope(positions, self.config.rope_theta, self.config.head_dim)[:, None]
        x = self.patch_embed(pixels.to(self.patch_embed.weight.dtype))
        for block in self.blocks:
            x = block(x, turns, groups)
        x = self.post_layernorm(x).view(-1, merge * merge, x.shape[-1])
        if not in_order:
            cells = x.split([math.prod(grid) // merge**2 for grid in grids])
            x = torch.cat([cells[by_size.index(i)] for i in range(len(grids))])
        # A convolution's weight is [out, in, row, column], so the channel comes before the patch.
        features = self.downsample(x.transpose(1, 2).flatten(1))
        return features, self.merger(features)
