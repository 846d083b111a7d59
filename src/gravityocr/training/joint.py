"""One forward of joint training: packed row in, loss out; what data-parallel wrappers wrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gravityocr.model.ocr_model import OcrModel
from gravityocr.training.attention import AttentionKind, attend_in
from gravityocr.training.glyphs import GlyphConfig, GlyphHeads, GlyphTruth, GuidedAttention
from gravityocr.training.losses import TargetScale, joint_loss, packed_hidden
from gravityocr.training.packing import PackedRow, Sample, pack


@dataclass(frozen=True)
class SkippedSample:
    """A sample that is not trained on, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class RowData:
    """The samples of one row, where their glyphs lie (synthetic ones only), and what had to be left out of it."""

    samples: tuple[Sample, ...]
    truths: tuple[GlyphTruth, ...] = ()
    skipped: tuple[SkippedSample, ...] = field(default=())

    def without(self, bad: Sequence[SkippedSample]) -> RowData:
        """Return the row without some of its samples."""
        names = {one.name for one in bad}
        kept = [i for i, sample in enumerate(self.samples) if sample.name not in names]
        truths = tuple(self.truths[i] for i in kept) if self.truths else ()
        return RowData(tuple(self.samples[i] for i in kept), truths, (*self.skipped, *bad))


class JointModule(nn.Module):
    """The network and the auxiliary heads under one forward.

    Its result is a dictionary of scalars: `loss`, which has the gradient, and what is logged.
    """

    def __init__(
        self, model: OcrModel, heads: GlyphHeads | None, glyphs: GlyphConfig, mask_id: int, attention: AttentionKind,
        bf16: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.model = model
        self.heads = heads
        self.glyphs = glyphs
        self.mask_id = mask_id
        self.attention: AttentionKind = attention
        self.bf16 = bf16

    def forward(
        self, data: RowData, scale: TargetScale, auxiliary_scale: float, vision_only: bool
    ) -> dict[str, Tensor]:
        """Return the scaled loss of a row and its parts.

        `auxiliary_scale` is this row's share of the step, which the auxiliary losses, means over the row, count.
        """
        device = self.model.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self.bf16):
            if not data.samples:
                return {"loss": self._nothing()}
            _, features = self.model.encode_images([sample.prompt for sample in data.samples])
            record = self._glyph_record(features, data)
            auxiliary = record.get("auxiliary", features.new_zeros(()))
            if not vision_only:
                row = pack(data.samples, self.mask_id).to(device)
                joint, guide = self._decoder_loss(row, features, data, scale)
                record |= joint
                auxiliary = auxiliary + self.glyphs.guide_weight * guide
            loss = record.pop("scaled", features.new_zeros(())) + auxiliary_scale * auxiliary
        record.pop("auxiliary", None)
        # Every process must have a gradient for every weight, also for those that this row does not touch.
        return {"loss": loss.float() + (self._nothing() if vision_only else 0.0), **record}

    def _nothing(self) -> Tensor:
        return torch.stack([p.flatten()[0].float() for p in self.parameters() if p.requires_grad]).sum() * 0.0

    def _glyph_record(self, features: Tensor, data: RowData) -> dict[str, Tensor]:
        if self.heads is None:
            return {}
        glyph, index, accuracy = self.heads(features, data.truths)
        weighted = self.glyphs.glyph_weight * glyph + self.glyphs.index_weight * index
        record = {"glyph": glyph.detach(), "index": index.detach(), "glyph_accuracy": features.new_tensor(accuracy)}
        return {"auxiliary": weighted, **record}

    def _decoder_loss(
        self, row: PackedRow, features: Tensor, data: RowData, scale: TargetScale
    ) -> tuple[dict[str, Tensor], Tensor]:
        attend = attend_in(row, self.attention)
        guided = None
        if self.glyphs.guide_weight:
            attend = guided = GuidedAttention(row, data.truths, self.glyphs.guide_layers, attend)
        loss = joint_loss(self.model, row, packed_hidden(self.model, row, features, attend), scale)
        record = {"scaled": loss.scaled, "ar": loss.ar_sum, "diffusion": loss.diffusion_sum}
        if guided is None:
            return record, features.new_zeros(())
        guide = guided.loss().to(features.device)
        return {**record, "guide": guide.detach()}, guide


def checkpoint_activations(model: OcrModel) -> None:
    """Let every layer keep its input only and run again in the backward pass."""
    for layer in (*model.language_model.layers, *model.visual.blocks):
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
