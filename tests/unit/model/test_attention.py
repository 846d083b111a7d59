"""Attention by plain products: the fused kernel's result and gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from gravityocr.model.attention import attention


@pytest.mark.parametrize("n_kv", [1, 2, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_plain_products_equal_the_fused_kernel(n_kv: int, masked: bool) -> None:
    torch.manual_seed(n_kv)
    tensors = [torch.randn(3, heads, 7, 8, requires_grad=True) for heads in (4, n_kv, n_kv)]
    mask = (torch.rand(3, 1, 7, 7) > 0.5) | torch.eye(7, dtype=torch.bool) if masked else None
    fused = F.scaled_dot_product_attention(*tensors, attn_mask=mask, enable_gqa=True)
    plain = attention(*tensors, mask)
    assert torch.allclose(plain, fused, atol=1e-5)
    weights = torch.randn_like(plain)
    for ours, theirs in zip(
        torch.autograd.grad((plain * weights).sum(), tensors),
        torch.autograd.grad((fused * weights).sum(), tensors),
        strict=True,
    ):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_a_hidden_key_has_no_weight_at_all() -> None:
    q, k, v = (torch.randn(1, 1, 4, 8, requires_grad=True) for _ in range(3))
    mask = torch.ones(1, 1, 4, 4, dtype=torch.bool).tril()
    (gradient,) = torch.autograd.grad(attention(q, k, v, mask)[0, 0, 1].sum(), v)
    assert (gradient[0, 0, 2:] == 0).all() and (gradient[0, 0, :2] != 0).all()


def test_reading_takes_the_fused_kernel() -> None:
    q, k, v = (torch.randn(1, 2, 5, 8) for _ in range(3))
    assert torch.equal(attention(q, k, v), F.scaled_dot_product_attention(q, k, v))
