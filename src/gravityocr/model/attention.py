"""Attention over whole sequences: the fused kernel, or plain products where those are faster."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

_MASKED = -1e4


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return scaled dot-product attention; `mask` is True where a query sees a key.

    On a CPU the fused kernel takes up to three times as long as plain products over sequences of a few hundred rows,
    in training and in bf16, so these take the products there.

    *Shapes*: q [b, heads, n, d]; k, v [b, kv heads, m, d]; mask [b, 1, n, m] bool -> [b, heads, n, d].
    """
    grouped = q.shape[1] != k.shape[1]
    trains = torch.is_grad_enabled() and q.requires_grad
    if q.device.type != "cpu" or not (trains or q.dtype == torch.bfloat16):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)
    if grouped:
        k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    with torch.autocast("cpu", enabled=False):  # it would turn the scores into fp32
        scores = (q * q.shape[-1] ** -0.5) @ k.to(q.dtype).transpose(-1, -2)
        if mask is not None:
            scores = scores + torch.where(mask, 0.0, _MASKED).to(scores.dtype)
        return scores.softmax(-1) @ v.to(q.dtype)
