"""The one place where logits become tokens, so that every decoder breaks ties and bars the mask alike."""

from __future__ import annotations

import torch
from torch import Tensor


def bar_mask(logits: Tensor, mask_id: int) -> Tensor:
    """Return an fp32 copy of the logits in which the mask token cannot win. *Shapes*: [..., vocab]."""
    barred = logits.to(torch.float32, copy=True)
    barred[..., mask_id] = -torch.inf
    return barred


def greedy(logits: Tensor, mask_id: int) -> Tensor:
    """Return the most probable tokens, the lowest id among equals.

    *Shapes*: logits [..., vocab] -> [...].
    """
    return bar_mask(logits, mask_id).argmax(dim=-1)


def greedy_with_confidence(logits: Tensor, mask_id: int) -> tuple[Tensor, Tensor]:
    """Return the greedy tokens and their probabilities, the mask token left out of the softmax.

    *Shapes*: logits [..., vocab] -> tokens [...], confidence [...].
    """
    barred = bar_mask(logits, mask_id)
    return barred.argmax(dim=-1), (barred.amax(dim=-1) - barred.logsumexp(dim=-1)).exp()
