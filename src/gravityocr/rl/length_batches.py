"""Score completions of like length together: crops differ in size by far, and the trainer pads all to the longest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS_AT_ONCE = 8
Scores = tuple[Tensor, Tensor | None, Tensor | None]


@dataclass(frozen=True)
class _Chunk:
    """Some rows of a batch without the columns that hold padding in all of them; `n_cut` were cut on the right."""

    rows: Tensor
    columns: slice
    n_cut: int


def scores_by_length(
    score: Callable[..., Scores], model: Any, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int,
    batch_size: int | None = None, **fields: Any,
) -> Scores:  # fmt: skip
    """Call TRL's scoring on rows of like length, and return log-probabilities and entropies in the order of the batch.

    Prompts are padded on the left and completions on the right. What is scored stays the same: padding is attended
    to by nothing. Where a batch holds no pictures, or more than one a row, it is scored as it is.
    *Shapes*: input_ids and attention_mask [b, n] -> log-probabilities and entropies [b, logits_to_keep].
    """
    n_rows = input_ids.shape[0]
    pictures = fields.get("num_images")
    if pictures is None or any(n != 1 for n in pictures) or fields.get("image_grid_thw") is None:
        return score(model, input_ids, attention_mask, logits_to_keep, batch_size, **fields)
    pixels = fields["pixel_values"].split(fields["image_grid_thw"].prod(dim=-1).tolist())
    log_probs: list[Tensor] = []
    entropies: list[Tensor] = []
    order: list[Tensor] = []
    for chunk in _chunks(attention_mask, logits_to_keep, min(batch_size or n_rows, ROWS_AT_ONCE)):
        rows = chunk.rows.tolist()
        own = {name: value for name, value in fields.items() if name not in ("pixel_values", "image_grid_thw")}
        own |= {
            "pixel_values": torch.cat([pixels[row] for row in rows]),
            "image_grid_thw": fields["image_grid_thw"][chunk.rows],
            "num_images": [1] * len(rows),
        }
        for name in ("mm_token_type_ids", "token_type_ids"):
            if own.get(name) is not None:
                own[name] = own[name][chunk.rows, chunk.columns]
        found, entropy, _ = score(
            model, input_ids[chunk.rows, chunk.columns], attention_mask[chunk.rows, chunk.columns],
            logits_to_keep - chunk.n_cut, None, **own,
        )  # fmt: skip
        log_probs.append(F.pad(found, (0, chunk.n_cut)))
        if entropy is not None:
            entropies.append(F.pad(entropy, (0, chunk.n_cut)))
        order.append(chunk.rows)
    back = torch.cat(order).argsort()
    return torch.cat(log_probs)[back], torch.cat(entropies)[back] if entropies else None, None


def _chunks(attention_mask: Tensor, logits_to_keep: int, n_rows: int) -> Iterator[_Chunk]:
    """Split a batch into rows of like length; every chunk keeps a column of the completions."""
    width = attention_mask.shape[1]
    for rows in attention_mask.sum(dim=1).argsort(stable=True).split(n_rows):
        used = attention_mask[rows].any(dim=0).nonzero()
        first, last = int(used[0]), int(used[-1])
        last = max(last, width - logits_to_keep)
        yield _Chunk(rows, slice(first, last + 1), width - 1 - last)
