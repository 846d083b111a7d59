"""The decoder: one stack of layers, whose visibility is decided by the caller's `attend`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError
from gravityocr.model.norm import RMSNorm
from gravityocr.model.packed import inner
from gravityocr.model.rope import mrope, rotate_pairs

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [b, heads, n, d], k and v [b, kv_heads, n, d]) -> [b, heads, n, d]."""


@dataclass(frozen=True)
class TextConfig:
    """Sizes of the decoder; the defaults are GLM-OCR's."""

    vocab_size: int = 59392
    hidden_size: int = 1536
    intermediate_size: int = 4608
    num_hidden_layers: int = 16
    num_attention_heads: int = 16
    num_key_value_heads: int = 8
    head_dim: int = 128
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    mrope_section: tuple[int, ...] = (16, 24, 24)

    def __post_init__(self) -> None:
        check_numbers(
            self, "text.", vocab_size=(1, 2**20), hidden_size=(1, 65536), intermediate_size=(1, 262144),
            num_hidden_layers=(1, 256), num_attention_heads=(1, 1024), num_key_value_heads=(1, 1024),
            head_dim=(2, 4096), rms_norm_eps=(1e-30, 1.0), rope_theta=(1.0, 1e12), mrope_section=(1, 2048),
        )  # fmt: skip
        if self.num_attention_heads % self.num_key_value_heads:
            raise ConfigError(
                f"text.num_attention_heads is {self.num_attention_heads}; "
                f"it must be a multiple of the {self.num_key_value_heads} key and value heads"
            )
        if 2 * sum(self.mrope_section) != self.head_dim:
            raise ConfigError(
                f"text.mrope_section {self.mrope_section} must sum to half of the head_dim {self.head_dim}"
            )


class TextAttention(nn.Module):
    """Grouped-query attention; what a row may see is `attend`'s affair."""

    JOINT: ClassVar[Mapping[str, tuple[str, ...]]] = {"qkv": ("q_proj", "k_proj", "v_proj")}

    def __init__(self, config: TextConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.head_dim = config.head_dim
        self.n_heads = config.num_attention_heads
        self.n_turned = self.n_heads + config.num_key_value_heads
        q_width = config.num_attention_heads * config.head_dim
        kv_width = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, q_width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.o_proj = nn.Linear(q_width, config.hidden_size, bias=False)
        self.qkv: nn.Module | None = None

    def forward(self, x: Tensor, turns: Tensor, attend: Attend, rows: Tensor | None = None) -> Tensor:
        """Return the attention output, all of it or that of one row of each sequence."""
        joint = torch.cat([self.q_proj(x), self.k_proj(x), self.v_proj(x)], -1) if self.qkv is None else self.qkv(x)
        heads = joint.unflatten(-1, (-1, self.head_dim))
        turned = rotate_pairs(heads[:, :, : self.n_turned], turns).to(x.dtype)
        q = _chosen(turned[:, :, : self.n_heads], rows).transpose(1, 2)
        k, v = turned[:, :, self.n_heads :].transpose(1, 2), heads[:, :, self.n_turned :].transpose(1, 2)
        return self.o_proj(attend(self.layer, q, k, v).transpose(1, 2).flatten(2))


def _chosen(x: Tensor, rows: Tensor | None) -> Tensor:
    """Return one row of each sequence, [b, 1, ...], or all rows."""
    return x if rows is None else x[torch.arange(len(rows), device=rows.device), rows][:, None]


class TextMlp(nn.Module):
    """Gated MLP with one joint gate and up projection."""

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the transformed features."""
        gate, up = inner(self.gate_up_proj, x).chunk(2, -1)
        return self.down_proj(up * F.silu(gate))


class TextLayer(nn.Module):
    """One layer with sandwich norms: each branch is normalised before and after."""

    def __init__(self, config: TextConfig, layer: int) -> None:
        super().__init__()
        norms = [RMSNorm(config.hidden_size, eps=config.rms_norm_eps) for _ in range(4)]
        self.input_layernorm, self.post_self_attn_layernorm = norms[:2]
        self.post_attention_layernorm, self.post_mlp_layernorm = norms[2:]
        self.self_attn = TextAttention(config, layer)
        self.mlp = TextMlp(config)

    def forward(self, x: Tensor, turns: Tensor, attend: Attend, rows: Tensor | None = None) -> Tensor:
        """Return the layer's output, all of it or that of one row of each sequence."""
        attended = self.self_attn(self.input_layernorm(x), turns, attend, rows)
        x = self.post_self_attn_layernorm.added(_chosen(x, rows), attended)
        return self.post_mlp_layernorm.added(x, self.mlp(self.post_attention_layernorm(x)))


class TextDecoder(nn.Module):
    """Run embedded rows through all layers.

    *Source*: section 1.
    """

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(TextLayer(config, i) for i in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self, x: Tensor, positions: Tensor, attend: Attend, last: tuple[Tensor, Attend] | None = None
    ) -> Tensor:
        """Return the final hidden states, or only those of one row of each sequence.

        `last` holds these rows and the `attend` of the last layer, which gets the queries of these rows alone, with the
        keys and values of all.

        *Shapes*: x [b, n, hidden], positions [3, b, n], rows [b] -> [b, n, hidden], or [b, 1, hidden] of `last`.
        """
        turns = mrope(positions, self.config.rope_theta, self.config.mrope_section)
        *below, top = self.layers
        for layer in below:
            x = layer(x, turns, attend)
        rows, attend = (None, attend) if last is None else last
        return self.norm(top(x, turns, attend, rows))
