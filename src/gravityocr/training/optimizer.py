"""Optimisers with part-wise learning rates, and the learning-rate schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.optim import AdamW, Muon, Optimizer

from gravityocr.config import check_numbers


@dataclass(frozen=True)
class OptimizerConfig:
    """Settings of the optimiser; the defaults are the paper's.

    `adamw` trains everything with AdamW. `muon` (ours, for networks that start from nothing) trains the matrices of
    the layers with Muon and the rest with AdamW. The rate rises over `warmup`, stays, and falls linearly to
    `final_share` of the peak from `decay_from` on, all in fractions of the run. *Source*: section 3.
    """

    kind: Literal["adamw", "muon"] = "adamw"
    lr_decoder: float = 2e-5
    lr_vision: float = 2e-6
    patch_lr_share: float = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    warmup: float = 0.0125
    decay_from: float = 0.0125
    final_share: float = 0.0
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        check_numbers(
            self, "optimizer.", lr_decoder=(0.0, 100.0), lr_vision=(0.0, 100.0), patch_lr_share=(0.0, 1000.0),
            betas=(0.0, 0.9999999), weight_decay=(0.0, 100.0), warmup=(0.0, 1.0), decay_from=(0.0, 1.0),
            final_share=(0.0, 1.0), clip_norm=(1e-9, 1e9),
        )  # fmt: skip


def build_optimizers(model: nn.Module, heads: nn.Module, config: OptimizerConfig) -> list[Optimizer]:
    """Return the optimisers of a network and its auxiliary heads; each group keeps its peak rate as `peak`."""
    matrices: dict[float, list[nn.Parameter]] = {}
    others: dict[float, list[nn.Parameter]] = {}
    named = [*model.named_parameters(), *((f"heads.{name}", p) for name, p in heads.named_parameters())]
    for name, parameter in named:
        lr = config.lr_vision if name.startswith("visual") else config.lr_decoder
        if name.startswith("visual.patch_embed"):
            lr *= config.patch_lr_share
        in_layer = any(part in name for part in (".blocks.", ".layers.", ".merger.", ".downsample."))
        use_muon = config.kind == "muon" and parameter.dim() == 2 and in_layer
        (matrices if use_muon else others).setdefault(lr, []).append(parameter)
    groups = [{"params": params, "lr": lr, "peak": lr} for lr, params in others.items()]
    optimizers: list[Optimizer] = [AdamW(groups, betas=config.betas, weight_decay=config.weight_decay)]
    if matrices:
        groups = [{"params": params, "lr": lr, "peak": lr} for lr, params in matrices.items()]
        optimizers.append(Muon(groups, weight_decay=config.weight_decay, adjust_lr_fn="match_rms_adamw"))
    return optimizers


def rate_share(progress: float, config: OptimizerConfig) -> float:
    """Return the share of the peak rate at `progress` in 0..1 of the run."""
    if progress < config.warmup:
        return progress / config.warmup
    if progress <= config.decay_from:
        return 1.0
    left = max(0.0, 1.0 - progress) / (1.0 - config.decay_from)
    return config.final_share + (1.0 - config.final_share) * left


def set_rates(optimizers: list[Optimizer], share: float) -> None:
    """Set every group's rate to `share` of its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * share


def clip_gradients(parameters: list[nn.Parameter], norm: float) -> float:
    """Clip the total gradient norm and return it as it was."""
    return float(torch.nn.utils.clip_grad_norm_(parameters, norm))
