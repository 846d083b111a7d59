"""Optimisers with part-wise learning rates, and the learning-rate schedule."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from torch import nn
from torch.optim import AdamW, Muon, Optimizer

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError

Part = Literal["vision", "merger", "embeddings", "decoder", "lm_head"]
"""The parts of the network that may have a learning rate of their own, or be frozen."""


@dataclass(frozen=True)
class OptimizerConfig:
    """Settings of the optimiser; the defaults are the paper's.

    `adamw` trains everything with AdamW. `muon` (ours, for networks that start from nothing) trains the matrices of
    the layers with Muon and the rest with AdamW. `lr_merger` is the vision tower's rate where it is None,
    `lr_embeddings` and `lr_lm_head` are the decoder's. The rate rises over `warmup`, stays, and falls linearly to
    `final_share` of the peak from `decay_from` on, all in fractions of the run. *Source*: section 3.
    """

    kind: Literal["adamw", "muon"] = "adamw"
    lr_decoder: float = 2e-5
    lr_vision: float = 2e-6
    lr_merger: float | None = None
    lr_embeddings: float | None = None
    lr_lm_head: float | None = None
    patch_lr_share: float = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    warmup: float = 0.0125
    decay_from: float = 0.0125
    final_share: float = 0.0
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        rate = (0.0, 100.0)
        check_numbers(
            self, "optimizer.", optional=("lr_merger", "lr_embeddings", "lr_lm_head"), lr_decoder=rate,
            lr_vision=rate, lr_merger=rate, lr_embeddings=rate, lr_lm_head=rate, patch_lr_share=(0.0, 1000.0),
            betas=(0.0, 0.9999999), weight_decay=(0.0, 100.0), warmup=(0.0, 1.0), decay_from=(0.0, 1.0),
            final_share=(0.0, 1.0), clip_norm=(1e-9, 1e9),
        )  # fmt: skip

    def rate(self, part: Part) -> float:
        """Return the peak rate of a part."""
        own = {"merger": self.lr_merger, "embeddings": self.lr_embeddings, "lm_head": self.lr_lm_head}.get(part)
        if own is not None:
            return own
        return self.lr_vision if part in ("vision", "merger") else self.lr_decoder


def part_of(name: str) -> Part:
    """Return the part that a weight of the network belongs to."""
    if name.startswith(("visual.merger.", "visual.downsample.")):
        return "merger"
    if name.startswith("visual."):
        return "vision"
    if name.startswith("language_model.embed_tokens."):
        return "embeddings"
    return "lm_head" if name.startswith("lm_head.") else "decoder"


def freeze(model: nn.Module, parts: Collection[Part]) -> None:
    """Let the gradients stop at some parts of the network.

    *Raises*: ConfigError for a part that there is not.
    """
    unknown = [part for part in parts if part not in get_args(Part)]
    if unknown:
        raise ConfigError(f"train.freeze: no part is called {unknown[0]!r}; choose out of {', '.join(get_args(Part))}")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(part_of(name) not in parts)


def build_optimizers(model: nn.Module, heads: nn.Module | None, config: OptimizerConfig) -> list[Optimizer]:
    """Return the optimisers of a network and its auxiliary heads; each group keeps its peak rate as `peak`."""
    matrices: dict[float, list[nn.Parameter]] = {}
    others: dict[float, list[nn.Parameter]] = {}
    named = [(name, parameter, config.rate(part_of(name))) for name, parameter in model.named_parameters()]
    if heads is not None:
        named += [(f"heads.{name}", parameter, config.lr_decoder) for name, parameter in heads.named_parameters()]
    for name, parameter, lr in named:
        if not parameter.requires_grad:
            continue
        if name.startswith("visual.patch_embed"):
            lr *= config.patch_lr_share
        in_layer = any(part in name for part in (".blocks.", ".layers.", ".merger.", ".downsample."))
        use_muon = config.kind == "muon" and parameter.dim() == 2 and in_layer
        (matrices if use_muon else others).setdefault(lr, []).append(parameter)
    optimizers: list[Optimizer] = []
    if others:
        optimizers.append(AdamW(_groups(others), betas=config.betas, weight_decay=config.weight_decay))
    if matrices:
        muon = Muon(_groups(matrices), weight_decay=config.weight_decay, adjust_lr_fn="match_rms_adamw")
        optimizers.append(muon)
    return optimizers


def _groups(by_rate: dict[float, list[nn.Parameter]]) -> list[dict[str, object]]:
    return [{"params": params, "lr": lr, "peak": lr} for lr, params in by_rate.items()]


def rate_share(progress: float, config: OptimizerConfig) -> float:
    """Return the share of the peak rate at `progress` in 0..1 of the run."""
    if progress < config.warmup:
        return progress / config.warmup
    if progress <= config.decay_from:
        return 1.0
    left = max(0.0, 1.0 - progress) / (1.0 - config.decay_from)
    return config.final_share + (1.0 - config.final_share) * left


def set_rates(optimizers: Iterable[Optimizer], share: float) -> None:
    """Set every group's rate to `share` of its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * share
