"""The joint objective over a packed row, as weighted sums, so that packing and accumulation change nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.text import Attend
from gravityocr.training.packing import IGNORE, PackedRow

CHUNK_ROWS = 1024
"""Supervised rows whose logits exist at a time."""


@dataclass(frozen=True)
class LossConfig:
    """Weights of the joint loss: `diffusion_weight` is lambda. *Source*: eq (4)."""

    ar_weight: float = 1.0
    diffusion_weight: float = 1.0

    def __post_init__(self) -> None:
        check_numbers(self, "loss.", ar_weight=(0.0, 1e6), diffusion_weight=(0.0, 1e6))
        if self.ar_weight + self.diffusion_weight == 0:
            raise ConfigError("loss.ar_weight and loss.diffusion_weight must not both be 0")


@dataclass(frozen=True)
class TargetScale:
    """What one AR target and one diffusion target count in the loss of a step."""

    ar: float
    diffusion: float


def target_scale(n_ar: int, n_diffusion: int, config: LossConfig) -> TargetScale:
    """Return the scales that make sums over all rows of a step `(w mean L_AR + lambda mean L_diff) / (w + lambda)`.

    `n_ar` and `n_diffusion` count the targets of the whole step, in all processes. *Source*: eq (4).
    """
    total = config.ar_weight + config.diffusion_weight
    return TargetScale(
        config.ar_weight / (total * max(n_ar, 1)), config.diffusion_weight / (total * max(n_diffusion, 1))
    )


@dataclass(frozen=True)
class JointLoss:
    """The scaled loss of a row, and its plain sums for the log.

    *Source*: eqs (2), (3) with w(t) = 1, (4).
    """

    scaled: Tensor
    ar_sum: Tensor
    diffusion_sum: Tensor


def joint_loss(model: OcrModel, row: PackedRow, hidden: Tensor, scale: TargetScale) -> JointLoss:
    """Return the joint loss of a packed row; logits are formed at supervised positions only.

    *Shapes*: hidden [1, n, hidden].
    """
    rows, targets, scales = [], [], []
    for target, weight in ((row.ar_target[0], scale.ar), (row.diffusion_target[0], scale.diffusion)):
        supervised = (target != IGNORE).nonzero()[:, 0]
        rows.append(supervised)
        targets.append(target[supervised])
        scales.append(torch.full_like(supervised, weight, dtype=torch.float32))
    states = hidden[0].index_select(0, torch.cat(rows))
    scaled, losses = linear_cross_entropy(states, model.lm_head.weight, torch.cat(targets), torch.cat(scales))
    ar, diffusion = losses.split([part.numel() for part in rows])
    return JointLoss(scaled, ar.sum(), diffusion.sum())


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, target: Tensor, scale: Tensor, chunk_rows: int = CHUNK_ROWS
) -> tuple[Tensor, Tensor]:
    """Return the scaled sum of the cross-entropies of `hidden @ weight.T`, and each of them in fp32 without gradient.

    Output layer and loss are one operation that works chunk by chunk, gradients included, so the logits of
    `chunk_rows` rows are all that ever exists of [rows, vocabulary].

    *Shapes*: hidden [n, width], weight [vocabulary, width], target and scale [n] -> [], [n].
    """
    scaled, losses = _LinearCrossEntropy.apply(hidden, weight, target, scale, chunk_rows)
    return scaled, losses


class _LinearCrossEntropy(torch.autograd.Function):
    """Form the gradients of each chunk while its logits are there."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, scale: Tensor, chunk_rows: int
    ) -> tuple[Tensor, Tensor]:
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        states, matrix = hidden.to(dtype), weight.to(dtype)
        wants_hidden, wants_weight = ctx.needs_input_grad[:2]
        losses = torch.empty(len(target), dtype=torch.float32, device=hidden.device)
        grad_hidden = torch.empty_like(states) if wants_hidden else None
        grad_weight = torch.zeros_like(weight, dtype=torch.float32) if wants_weight else None
        with torch.autocast(device, enabled=False):
            for start in range(0, len(target), chunk_rows):
                rows = slice(start, start + chunk_rows)
                logits = (states[rows] @ matrix.T).float()
                total = logits.logsumexp(-1)
                losses[rows] = total - logits.gather(1, target[rows, None])[:, 0]
                if grad_hidden is None and grad_weight is None:
                    continue
                errors = logits.sub_(total[:, None]).exp_()
                errors.scatter_add_(1, target[rows, None], errors.new_full((len(errors), 1), -1.0))
                errors = errors.mul_(scale[rows, None]).to(dtype)
                if grad_hidden is not None:
                    grad_hidden[rows] = errors @ matrix
                if grad_weight is not None:
                    grad_weight += errors.T @ states[rows]
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.dtypes = hidden.dtype, weight.dtype
        ctx.mark_non_differentiable(losses)
        return (losses * scale).sum(), losses

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _losses: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = (
            None if part is None else (part * gradient).to(dtype)
            for part, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        )
        return grad_hidden, grad_weight, None, None, None


def packed_hidden(model: OcrModel, row: PackedRow, features: Tensor, attend: Attend) -> Tensor:
    """Run a packed row through the decoder.

    *Shapes*: features of the samples' cells in order -> [1, n, hidden].
    """
    embedded = model.embed(row.ids, row.is_image, features)
    return model.hidden(embedded, row.positions, attend)
