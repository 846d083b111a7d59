"""The K/V cache: one row of slots per sequence, one slot per token.

    sequence b   | committed, causal ............ | window of this round ... | free |
    slot         0                          lens[b]                              capacity

A window overwrites the slots behind `lens[b]`; freeing a rejected suffix is nothing but a smaller `lens[b]`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from gravityocr.errors import CapacityError
from gravityocr.model.masks import slot_mask


class KVCache:
    """Hold keys and values of a batch and attend to them.

    *Shapes*: per layer [n_sequences, kv_heads, capacity, head_dim].
    """

    def __init__(
        self,
        n_layers: int,
        n_sequences: int,
        n_kv_heads: int,
        capacity: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (n_sequences, n_kv_heads, capacity, head_dim)
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(n_layers)]
        self.values = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(n_layers)]

    @property
    def capacity(self) -> int:
        """Number of slots per sequence."""
        return self.keys[0].shape[2]

    def keep(self, rows: Tensor) -> None:
        """Keep only the given sequences, in the given order."""
        self.keys = [k.index_select(0, rows) for k in self.keys]
        self.values = [v.index_select(0, rows) for v in self.values]

    def window(self, start: Tensor, n_rows: int, limits: Tensor) -> Window:
        """Prepare one forward: row i of sequence b writes slot `start[b] + i` and sees slots up to `limits[b, i]`.

        *Raises*: CapacityError where a row would leave the cache.
        """
        slots = start[:, None] + torch.arange(n_rows, device=start.device)
        highest = int(torch.maximum(slots.max(), limits.max()))
        if highest >= self.capacity:
            raise CapacityError(f"slot {highest} is beyond the cache of {self.capacity}; ask for fewer tokens")
        return Window(self, slots, limits)


class Window:
    """One forward's view of the cache; it is the decoder's `attend`."""

    def __init__(self, cache: KVCache, slots: Tensor, limits: Tensor) -> None:
        self.cache = cache
        self.slots = slots
        self.rows = torch.arange(slots.shape[0], device=slots.device)[:, None]
        self.length = int(torch.maximum(limits.max(), slots.max())) + 1
        self.mask = slot_mask(limits, self.length)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write the rows' keys and values, then attend up to each row's limit."""
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        keys[self.rows, :, self.slots] = k.transpose(1, 2).to(keys.dtype)
        values[self.rows, :, self.slots] = v.transpose(1, 2).to(values.dtype)
        return F.scaled_dot_product_attention(
            q,
            keys[:, :, : self.length],
            values[:, :, : self.length],
            attn_mask=self.mask,
            enable_gqa=q.shape[1] != k.shape[1],
        )
