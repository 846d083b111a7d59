"""The one visibility rule: who may attend to whom, built from small predicates.

Every pattern of the product is a predicate over a query row and a key row. Decoding needs only the highest slot that
each row sees (`slot_mask`; the limits themselves are part of the round); training needs the mask of a packed row
(`joint_mask`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

PREFIX, CLEAN, CORRUPT_A, CORRUPT_B = 0, 1, 2, 3
"""Stream tags of a packed row."""


@dataclass(frozen=True)
class RowTags:
    """What the visibility rule knows of each token of a packed row.

    *Shapes*: all [..., n]. `segment` numbers the samples of the row (-1 is padding), `stream` is PREFIX, CLEAN,
    CORRUPT_A or CORRUPT_B, `index` counts tokens within the prefix or within the response, `block` is the
    diffusion block of a response token (-1 in the prefix).
    """

    segment: Tensor
    stream: Tensor
    index: Tensor
    block: Tensor


    def __getitem__(self, where: object) -> RowTags:
        """Return the tags of some tokens."""
        return RowTags(self.segment[where], self.stream[where], self.index[where], self.block[where])  # type: ignore[index]


def sees(q: RowTags, k: RowTags) -> Tensor:
    """Return whether query tokens see key tokens in a packed row of joint training.

    Prefix: causal. Clean: prefix and earlier clean tokens. Corrupt block k: prefix, clean blocks before k and its own
    block of its own stream in both directions.

    *Shapes*: those of the tags, broadcast. *Source*: section 3.
    """
    same_sample = (q.segment == k.segment) & (q.segment >= 0)
    q_corrupt, k_corrupt = q.stream >= CORRUPT_A, k.stream >= CORRUPT_A
    prefix_is_visible = (k.stream == PREFIX) & ((q.stream != PREFIX) | (k.index <= q.index))
    clean_is_causal = (q.stream == CLEAN) & (k.stream == CLEAN) & (k.index <= q.index)
    corrupt_sees_clean_past = q_corrupt & (k.stream == CLEAN) & (k.block < q.block)
    corrupt_sees_own_block = q_corrupt & k_corrupt & (q.stream == k.stream) & (q.block == k.block)
    return same_sample & (prefix_is_visible | clean_is_causal | corrupt_sees_clean_past | corrupt_sees_own_block)


def joint_mask(tags: RowTags) -> Tensor:
    """Return who sees whom in a packed row of joint training; every token sees itself, so no softmax row is empty.

    *Shapes*: [..., n, n] bool, query row by key column. *Source*: section 3.
    """
    itself = torch.eye(tags.segment.shape[-1], dtype=torch.bool, device=tags.segment.device)
    return sees(tags[..., :, None], tags[..., None, :]) | itself


def slot_mask(limits: Tensor, n_slots: int, spans: Tensor | None = None) -> Tensor:
    """Return who sees which slot in decoding: row i of sequence b sees slots `0..limits[b, i]` and those of its span.

    Prefill, draft and verify differ in `limits` alone; the span is that of a mask block behind drafts that its rows do
    not see. *Shapes*: limits [b, r], spans [b, r, 2] (first and last slot) -> [b, 1, r, n_slots] bool.
    *Source*: section 4.
    """
    slot = torch.arange(n_slots, device=limits.device)
    visible = slot <= limits[:, None, :, None]
    if spans is None:
        return visible
    first, last = spans[:, None, :, :1], spans[:, None, :, 1:]
    return visible | ((slot >= first) & (slot <= last))
