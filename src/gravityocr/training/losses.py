"""The joint objective, as sums and counts, so that packing and accumulation change nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError
from gravityocr.model.attention import attention
from gravityocr.model.masks import RowTags, joint_mask
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.text import Attend
from gravityocr.training.packing import IGNORE, PackedBatch


@dataclass(frozen=True)
class LossConfig:
    """Weights of the joint loss. *Source*: eq (4)."""

    ar_weight: float = 1.0
    diffusion_weight: float = 1.0

    def __post_init__(self) -> None:
        check_numbers(self, "loss.", ar_weight=(0.0, 1e6), diffusion_weight=(0.0, 1e6))
        if self.ar_weight + self.diffusion_weight == 0:
            raise ConfigError("loss.ar_weight and loss.diffusion_weight must not both be 0")


@dataclass(frozen=True)
class JointLoss:
    """Summed losses and target counts of one batch.

    *Source*: eqs (2), (3) with w(t) = 1, (4).
    """

    ar_sum: Tensor
    n_ar: int
    diffusion_sum: Tensor
    n_diffusion: int

    def __add__(self, other: JointLoss) -> JointLoss:
        """Return the loss of both batches together."""
        return JointLoss(
            self.ar_sum + other.ar_sum,
            self.n_ar + other.n_ar,
            self.diffusion_sum + other.diffusion_sum,
            self.n_diffusion + other.n_diffusion,
        )

    def mean(self, config: LossConfig) -> Tensor:
        """Return `(w mean L_AR + lambda mean L_diff) / (w + lambda)`."""
        ar = self.ar_sum / max(self.n_ar, 1)
        diffusion = self.diffusion_sum / max(self.n_diffusion, 1)
        total = config.ar_weight + config.diffusion_weight
        return (config.ar_weight * ar + config.diffusion_weight * diffusion) / total


def masked_attention(tags: RowTags) -> Attend:
    """Return the `attend` of joint training with the dense mask of section 3."""
    mask = joint_mask(tags)[:, None]

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, mask)

    return attend


def packed_hidden(model: OcrModel, batch: PackedBatch, features: Tensor, attend: Attend) -> Tensor:
    """Run packed rows through the decoder.

    *Shapes*: features in the order of `batch.order` -> [b, n, hidden].
    """
    embedded = model.embed(batch.ids, batch.is_image, features)
    return model.hidden(embedded, batch.positions, attend)


def joint_loss(model: OcrModel, batch: PackedBatch, hidden: Tensor) -> JointLoss:
    """Return the AR and the diffusion loss of packed rows."""
    sums, counts = [], []
    for target in (batch.ar_target, batch.diffusion_target):
        rows = target != IGNORE
        logits = model.logits(hidden[rows])
        sums.append(F.cross_entropy(logits, target[rows], reduction="sum"))
        counts.append(int(torch.count_nonzero(rows)))
    return JointLoss(sums[0], counts[0], sums[1], counts[1])
