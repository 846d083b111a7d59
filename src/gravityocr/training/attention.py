"""Attention over a packed row in three interchangeable ways, all of one visibility rule.

`dense` masks the whole row, the oracle of the other two. `segments` attends sample by sample, since samples never see
each other: a row's cost is then the sum of squares instead of the square of the sum. `flex` hands the rule to
FlexAttention as a block mask, which skips what is not visible on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from gravityocr.model.attention import attention
from gravityocr.model.masks import RowTags, joint_mask, sees
from gravityocr.model.text import Attend
from gravityocr.training.packing import PackedRow

AttentionKind = Literal["dense", "segments", "flex"]
FLEX_BLOCK = 128


def attend_in(row: PackedRow, kind: AttentionKind) -> Attend:
    """Return the `attend` of joint training over one packed row."""
    if kind == "dense":
        return dense_attention(row.tags)
    return flex_attention_of(row.tags) if kind == "flex" else segment_attention(row)


def dense_attention(tags: RowTags) -> Attend:
    """Return the `attend` with the mask of the whole row."""
    mask = joint_mask(tags)[:, None]

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, mask)

    return attend


@dataclass(frozen=True)
class Segment:
    """One sample of a row and who sees whom in it.

    *Shapes*: mask [end - start, end - start]; `n_prefix` rows of it are the prefix, which sees nothing but itself.
    """

    start: int
    end: int
    n_prefix: int
    mask: Tensor


def segments_of(row: PackedRow) -> list[Segment]:
    """Return the segments of a row, which cover it."""
    parts = []
    for place in row.places:
        tags = row.tags[0, place.prefix : place.end]
        parts.append(Segment(place.prefix, place.end, place.streams[0] - place.prefix, joint_mask(tags)))
    return parts


def segment_attention(row: PackedRow) -> Attend:
    """Return the `attend` that takes sample after sample, and its prefix apart from its streams."""
    parts = segments_of(row)

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        outputs = []
        for part in parts:
            prefix, whole = slice(part.start, part.start + part.n_prefix), slice(part.start, part.end)
            streams = slice(part.start + part.n_prefix, part.end)
            for rows, seen, mask in (
                (prefix, prefix, part.mask[: part.n_prefix, : part.n_prefix]),
                (streams, whole, part.mask[part.n_prefix :]),
            ):
                outputs.append(attention(q[:, :, rows], k[:, :, seen], v[:, :, seen], mask[None, None]))
        return torch.cat(outputs, 2)

    return attend


def flex_attention_of(tags: RowTags) -> Attend:
    """Return the `attend` of FlexAttention over one row; on a CPU it has no backward pass."""
    row = tags[0]
    n_tokens = row.segment.numel()
    on_gpu = row.segment.device.type != "cpu"

    def visible(_batch: Tensor, _head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return sees(row[q], row[k]) | (q == k)

    block_mask = create_block_mask(
        visible, None, None, n_tokens, n_tokens, device=str(row.segment.device), BLOCK_SIZE=FLEX_BLOCK, _compile=on_gpu
    )
    kernel: Callable[..., Tensor] = _compiled_flex() if on_gpu else flex_attention  # type: ignore[assignment]

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = q.to(v.dtype)
        return kernel(q, k.to(v.dtype), v, block_mask=block_mask, enable_gqa=q.shape[1] != k.shape[1])

    return attend


@lru_cache(maxsize=1)
def _compiled_flex() -> Callable[..., Tensor]:
    # Rows differ in length, so shapes stay symbolic: one kernel serves all.
    return torch.compile(flex_attention, dynamic=True)
