"""Turn a cached sample into the crop that the network sees: its size, its resolution, its wear."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from gravityocr.config import check_numbers
from gravityocr.model.formula_pieces import FormulaPieceSpec, framed, placement, type_height
from gravityocr.training.synthetic.degrade import degrade
from gravityocr.training.synthetic.formula_parts import formula_part
from gravityocr.training.synthetic.merged_tokens import with_merged_latex
from gravityocr.training.synthetic.shards import RenderedSample
from gravityocr.training.synthetic.table_tags import with_merged_tags


@dataclass(frozen=True)
class VariationConfig:
    """Say how much cached crops are varied.

    `size_jitter` bounds the logarithm of a formula's size against the one that reading gives it; `part_share` of the
    formulas are cut in two, as reading cuts those that are too wide; `upscaled_share` of the crops are first reduced by
    up to `most_reduction`, as from a scan of low resolution.
    """

    size_jitter: float = 0.16
    part_share: float = 0.2
    upscaled_share: float = 0.4
    most_reduction: float = 2.0

    def __post_init__(self) -> None:
        check_numbers(
            self, "data.variation.", size_jitter=(0.0, 2.0), part_share=(0.0, 1.0), upscaled_share=(0.0, 1.0),
            most_reduction=(1.0, 8.0),
        )  # fmt: skip


def vary(sample: RenderedSample, rng: np.random.Generator, difficulty: float, config: VariationConfig,
         spec: FormulaPieceSpec) -> RenderedSample | None:  # fmt: skip
    """Return a sample as the network sees it; None where a formula does not fit a piece at its size."""
    if sample.task == "formula":
        if rng.random() < config.part_share:
            sample = formula_part(sample, rng)
        placed = _place_formula(sample, rng, config, spec)
        if placed is None:
            return None
        sample = placed
    elif sample.task == "table":
        sample = with_merged_tags(sample)
    sample = with_merged_latex(sample)
    grey = Image.fromarray(sample.image)
    # Table pieces come from crops of every resolution already, and their rules are drawn anew.
    if sample.task != "table" and rng.random() < config.upscaled_share * difficulty:
        reduction = float(rng.uniform(1.0, config.most_reduction))
        small = (max(8, round(grey.width / reduction)), max(8, round(grey.height / reduction)))
        grey = grey.resize(small, Image.Resampling.BOX).resize(grey.size, Image.Resampling.BICUBIC)
    coverage = Image.fromarray(255 - np.asarray(grey))
    return replace(sample, image=degrade(coverage, rng, difficulty))


def _place_formula(sample: RenderedSample, rng: np.random.Generator, config: VariationConfig,
                   spec: FormulaPieceSpec) -> RenderedSample | None:  # fmt: skip
    size = type_height(sample.image)
    if size is None:
        return None
    scale = spec.ink_px / size * float(np.exp(rng.uniform(-config.size_jitter, config.size_jitter)))
    scale, left, top = placement(sample.image, scale, spec)
    if scale < 0.6 * spec.ink_px / size:
        return None
    canvas = framed(sample.image, scale, spec)
    centers = sample.centers_px * scale + np.array([left, top], dtype=np.float32)
    return replace(sample, image=np.asarray(canvas), centers_px=centers)
