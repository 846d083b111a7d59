"""The K/V cache: one row of slots per sequence, one slot per token.

    sequence b   | committed, causal ............ | window of this forward .. | free |
    slot         0                          lens[b]                              capacity

A window overwrites the slots behind `lens[b]`; freeing a rejected suffix is nothing but a smaller `lens[b]`. Rows are
allocated for the most sequences that have run together so far; those in use come first.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from gravityocr.errors import CapacityError
from gravityocr.model.masks import slot_mask


class KVCache:
    """Hold keys and values of a batch and attend to them.

    *Shapes*: per layer [n_rows, kv_heads, capacity, head_dim], of which the first `n_sequences` are in use.
    """

    def __init__(
        self,
        n_layers: int,
        n_rows: int,
        n_kv_heads: int,
        capacity: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (n_rows, n_kv_heads, capacity, head_dim)
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(n_layers)]
        self.values = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(n_layers)]
        self.n_sequences = n_rows

    @property
    def capacity(self) -> int:
        """Number of slots per sequence."""
        return self.keys[0].shape[2]

    @property
    def n_rows(self) -> int:
        """Number of sequences that fit."""
        return self.keys[0].shape[0]

    def keep(self, rows: Tensor) -> None:
        """Keep only the given sequences, in the given order; only those that change their place are copied.

        A row that moves must not take the place of another one that stays: its place is one that was given up.
        """
        places = torch.arange(rows.numel(), device=rows.device)
        moved = rows != places
        sources, targets = rows[moved], places[moved]
        if sources.numel():
            for tensors in (self.keys, self.values):
                for tensor in tensors:
                    tensor[targets] = tensor[sources]
        self.n_sequences = rows.numel()

    def spread(self, rows: Tensor) -> None:
        """Hold the given sequences instead, in the given order, each as often as it is named."""
        self.keys = [tensor[rows] for tensor in self.keys]
        self.values = [tensor[rows] for tensor in self.values]
        self.n_sequences = rows.numel()

    def join(self, other: KVCache) -> None:
        """Append the sequences of another cache; where rows or slots do not suffice, this one grows."""
        first, last = self.n_sequences, self.n_sequences + other.n_sequences
        self.reserve(last, other.capacity)
        pairs = [*zip(self.keys, other.keys, strict=True), *zip(self.values, other.values, strict=True)]
        for own, theirs in pairs:
            own[first:last, :, : other.capacity] = theirs[: other.n_sequences]
        self.n_sequences = last

    def reserve(self, n_rows: int, capacity: int = 0) -> None:
        """Make room for so many sequences of so many slots."""
        n, heads, slots, dim = self.keys[0].shape
        if n_rows <= n and capacity <= slots:
            return
        shape = (max(n_rows, n), heads, max(capacity, slots), dim)
        for tensors in (self.keys, self.values):
            for layer, old in enumerate(tensors):
                tensors[layer] = old.new_zeros(shape)
                tensors[layer][: self.n_sequences, :, :slots] = old[: self.n_sequences]

    def window(
        self, start: Tensor, n_rows: int, limits: Tensor, spans: Tensor | None = None, rows: Tensor | None = None
    ) -> Window:
        """Prepare one forward: row i of sequence b writes slot `start[b] + i` and sees slots up to `limits[b, i]`, and
        those of its span; `rows` chooses sequences, None takes all.

        *Raises*: CapacityError where a row would leave the cache.
        """
        slots = start[:, None] + torch.arange(n_rows, device=start.device)
        highest = int(torch.maximum(slots[:, -1].max(), limits.max()))
        if highest >= self.capacity:
            raise CapacityError(f"slot {highest} is beyond the cache of {self.capacity}; ask for fewer tokens")
        return Window(self, slots, self._mask(limits, highest + 1, spans), rows)

    def whole_window(self, slots: Tensor, limits: Tensor, spans: Tensor) -> Window:
        """Prepare a forward over the whole cache, whose shapes do not depend on what is in use.

        *Shapes*: slots, limits [b, r], spans [b, r, 2]. Slots beyond the cache are the caller's affair.
        """
        return Window(self, slots, self._mask(limits, self.capacity, spans), None)

    def _mask(self, limits: Tensor, n_slots: int, spans: Tensor | None) -> Tensor:
        """Return what is added to the scores: the kernel would turn a boolean mask into it in every layer."""
        visible = slot_mask(limits, n_slots, spans)
        mask = torch.zeros(visible.shape, dtype=self.keys[0].dtype, device=visible.device)
        return mask.masked_fill_(~visible, -torch.inf)


class Window:
    """One forward's view of the cache; it is the decoder's `attend`."""

    def __init__(self, cache: KVCache, slots: Tensor, mask: Tensor, rows: Tensor | None) -> None:
        self.cache = cache
        self.slots = slots
        self.mask = mask
        self.length = mask.shape[-1]
        self.chosen = rows
        self.rows = (torch.arange(slots.shape[0], device=slots.device) if rows is None else rows)[:, None]

    def of_rows(self, places: Tensor) -> Window:
        """Return the view in which only one query row of each sequence attends; all keys and values are written."""
        sequences = torch.arange(len(places), device=places.device)
        return Window(self.cache, self.slots, self.mask[sequences, :, places][:, :, None], self.chosen)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write the rows' keys and values, then attend to what each row sees."""
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        keys[self.rows, :, self.slots] = k.transpose(1, 2).to(keys.dtype)
        values[self.rows, :, self.slots] = v.transpose(1, 2).to(values.dtype)
        if self.chosen is None:
            keys, values = keys[: len(q), :, : self.length], values[: len(q), :, : self.length]
        else:
            keys, values = keys[self.chosen, :, : self.length], values[self.chosen, :, : self.length]
        attended = F.scaled_dot_product_attention(
            q.to(keys.dtype), keys, values, attn_mask=self.mask, enable_gqa=q.shape[1] != k.shape[1]
        )
        return attended.to(q.dtype)
