"""The fused output layer and cross-entropy against the plain one, over sizes, chunks and scales."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.nn import functional as F

from gravityocr.training.losses import linear_cross_entropy


@dataclass(frozen=True)
class Problem:
    """Hidden rows, an output layer, targets and what each counts."""

    hidden: Tensor
    weight: Tensor
    target: Tensor
    scale: Tensor

    @property
    def rounding(self) -> float:
        """What the rounding of logits of this size may cost in fp32."""
        return 1e-6 * (10.0 + float((self.hidden @ self.weight.T).abs().max()))

    def leaves(self) -> tuple[Tensor, Tensor]:
        return self.hidden.clone().requires_grad_(), self.weight.clone().requires_grad_()


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Draw a problem; some targets may count nothing."""
    n, width, vocabulary = draw(st.integers(1, 40)), draw(st.integers(1, 12)), draw(st.integers(2, 60))
    generator = Generator().manual_seed(draw(st.integers(0, 10**6)))
    size = draw(st.sampled_from([0.1, 1.0, 20.0]))
    hidden, weight = torch.randn(n, width, generator=generator), torch.randn(vocabulary, width, generator=generator)
    target = torch.randint(vocabulary, (n,), generator=generator)
    scale = torch.rand(n, generator=generator) * torch.randint(2, (n,), generator=generator)
    return Problem(size * hidden, weight, target, scale)


@settings(max_examples=100)
@given(problem=problems(), chunk_rows=st.integers(1, 50), factor=st.sampled_from([1.0, 0.25, 8.0]))
def test_the_fused_loss_is_cross_entropy_and_so_are_its_gradients(
    problem: Problem, chunk_rows: int, factor: float
) -> None:
    hidden, weight = problem.leaves()
    scaled, losses = linear_cross_entropy(hidden, weight, problem.target, problem.scale, chunk_rows)
    (factor * scaled).backward()
    plain_hidden, plain_weight = problem.leaves()
    plain = F.cross_entropy(plain_hidden @ plain_weight.T, problem.target, reduction="none")
    (factor * (plain * problem.scale).sum()).backward()
    assert losses.dtype == torch.float32 and not losses.requires_grad
    atol = problem.rounding
    torch.testing.assert_close(losses, plain.detach(), rtol=1e-5, atol=atol)
    wanted = (plain * problem.scale).sum().detach()
    torch.testing.assert_close(scaled.detach(), wanted, rtol=1e-5, atol=atol * len(losses))
    for gradient, other in ((hidden.grad, plain_hidden.grad), (weight.grad, plain_weight.grad)):
        largest = factor * max(1.0, float(problem.hidden.abs().max()), float(problem.weight.abs().max()))
        torch.testing.assert_close(gradient, other, rtol=1e-4, atol=atol * largest)


@settings(max_examples=30)
@given(problem=problems(), chunk_rows=st.integers(1, 50), trained=st.sampled_from(["hidden", "weight"]))
def test_a_frozen_side_costs_no_gradient(problem: Problem, chunk_rows: int, trained: str) -> None:
    both = problem.leaves()
    linear_cross_entropy(*both, problem.target, problem.scale, chunk_rows)[0].backward()
    hidden, weight = problem.leaves()
    hidden.requires_grad_(trained == "hidden")
    weight.requires_grad_(trained == "weight")
    linear_cross_entropy(hidden, weight, problem.target, problem.scale, chunk_rows)[0].backward()
    for one, other, name in ((hidden, both[0], "hidden"), (weight, both[1], "weight")):
        if name == trained:
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-6, atol=1e-6)
        else:
            assert one.grad is None


@settings(max_examples=30)
@given(problem=problems(), chunk_rows=st.integers(1, 50))
def test_under_autocast_the_products_are_bf16_and_the_loss_is_fp32(problem: Problem, chunk_rows: int) -> None:
    hidden, weight = problem.leaves()
    with torch.autocast("cpu", torch.bfloat16):
        scaled, losses = linear_cross_entropy(hidden, weight, problem.target, problem.scale, chunk_rows)
    scaled.backward()
    plain_hidden, plain_weight = problem.leaves()
    logits = (plain_hidden.bfloat16() @ plain_weight.bfloat16().T).float()
    plain = F.cross_entropy(logits, problem.target, reduction="none")
    (plain * problem.scale).sum().backward()
    assert losses.dtype == scaled.dtype == torch.float32
    assert hidden.grad.dtype == weight.grad.dtype == torch.float32
    torch.testing.assert_close(losses, plain.detach(), rtol=1e-5, atol=problem.rounding)
    # Both sides round the terms of their sums to bf16, so what counts is the size of the terms.
    errors = problem.scale[:, None]
    terms = (errors * 2 * problem.weight.abs().amax(0)).max(), (errors * problem.hidden.abs()).sum(0).max()
    for gradient, other, size in zip(
        (hidden.grad, weight.grad), (plain_hidden.grad, plain_weight.grad), terms, strict=True
    ):
        torch.testing.assert_close(gradient, other, rtol=0, atol=0.01 * float(size) + 1e-7)


@settings(max_examples=20)
@given(problem=problems(), chunk_rows=st.integers(1, 12))
def test_no_chunk_is_larger_than_told(problem: Problem, chunk_rows: int) -> None:
    """Watched at the exponentials, which only logits go through."""
    seen: list[int] = []
    original = Tensor.logsumexp

    def watched(self: Tensor, *args: object, **kwargs: object) -> Tensor:
        seen.append(len(self))
        return original(self, *args, **kwargs)

    Tensor.logsumexp = watched
    try:
        linear_cross_entropy(*problem.leaves(), problem.target, problem.scale, chunk_rows)
    finally:
        Tensor.logsumexp = original
    assert sum(seen) == len(problem.target) and max(seen) <= chunk_rows
