"""What a run costs before it starts: parameters, forward tokens, floating-point operations, hours.

A multiplication and an addition count as two operations; only products of matrices count, as is usual for MFU.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields

import torch

from gravityocr.model.ocr_model import OcrConfig
from gravityocr.model.text import TextConfig
from gravityocr.model.vision import VisionConfig
from gravityocr.training.packing import Sample

UTILISATION = 0.35
"""Assumed share of the peak that the executed operations reach; a run prints the MFU that it measures."""

PEAK_FLOPS = {
    "B200": 2250e12, "H200": 989e12, "GH200": 989e12, "H100 PCIe": 756e12, "H100 NVL": 835e12, "H100": 989e12,
    "A100": 312e12, "L40S": 362e12, "L40": 181e12, "A40": 150e12, "A10": 125e12, "L4": 121e12,
    "RTX 4090": 165e12, "RTX 3090": 71e12,
}  # fmt: skip
"""Dense bf16 operations per second by what a device's name holds; the makers' figures, without sparsity."""


@dataclass(frozen=True)
class Parameters:
    """Number of parameters by part, as `train.freeze` names them (`gravityocr.training.optimizer.part_of`)."""

    vision: int
    merger: int
    embeddings: int
    decoder: int
    lm_head: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.vision + self.merger + self.embeddings + self.decoder + self.lm_head

    def trained(self, frozen: Collection[str]) -> int:
        """Return how many are trained where some parts are frozen."""
        return sum(getattr(self, part.name) for part in fields(self) if part.name not in frozen)


@dataclass(frozen=True)
class SampleShape:
    """Sizes of one sample: text tokens of its prompt, image cells, response tokens with the EOS fill of `n_eos`.

    The default is our guess at the paper's mean region: 402 forward tokens, 25.5 samples a row, the middle of the 21
    to 30 that section 3 tells. The split between the image and the response is an assumption.
    """

    n_prompt: float = 12.0
    n_cells: float = 138.0
    n_response: float = 84.0
    n_eos: int = 32
    n_corrupt: int = 2

    @property
    def n_tokens(self) -> float:
        """Forward tokens that the sample costs in a row.

        *Source*: section 3.
        """
        return self.n_prompt + self.n_cells + (1 + self.n_corrupt) * self.n_response


@dataclass(frozen=True)
class BatchStats:
    """What the operations of a batch depend on.

    `n_tokens` forward tokens, `n_pairs` pairs of query and key that the visibility rule admits, `n_segment_pairs` those
    that attention computes segment by segment, `n_patches` patches and `n_patch_pairs` pairs of them within a crop,
    `n_supervised` rows that the output layer sees.
    """

    n_tokens: float = 0.0
    n_pairs: float = 0.0
    n_segment_pairs: float = 0.0
    n_patches: float = 0.0
    n_patch_pairs: float = 0.0
    n_supervised: float = 0.0

    def __add__(self, other: BatchStats) -> BatchStats:
        """Return the figures of both batches together."""
        return BatchStats(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def times(self, factor: float) -> BatchStats:
        """Return the figures of `factor` such batches."""
        return BatchStats(*(factor * getattr(self, one.name) for one in fields(self)))


def count_parameters(network: OcrConfig) -> Parameters:
    """Return the number of parameters of a network, from its sizes alone."""
    vision, text = network.vision, network.text
    width, inner, bias = vision.hidden_size, vision.intermediate_size, int(vision.attention_bias)
    attention = 4 * width * width + bias * 4 * width + 2 * vision.head_dim
    mlp = 3 * width * inner + bias * (2 * inner + width)
    tower = vision.patch_dim * width + width + vision.depth * (attention + mlp + 2 * width) + width
    out, n_merged = vision.out_hidden_size, vision.spatial_merge_size**2
    merger = n_merged * width * out + out + out * out + 2 * out + 3 * out * out * vision.in_channels
    hidden = text.hidden_size
    layer = _decoder_products(text) + 4 * hidden
    table = text.vocab_size * hidden
    return Parameters(tower, merger, table, text.num_hidden_layers * layer + hidden, table)


def sample_stats(shape: SampleShape, block_size: int) -> BatchStats:
    """Return the figures of one sample of mean sizes, whose blocks start at the first response token."""
    prefix, response = shape.n_prompt + shape.n_cells, shape.n_response
    n_full, rest = divmod(response, block_size)
    # A corrupt block sees the clean blocks before it and itself: as many tokens as lie before its end.
    seen = block_size**2 * n_full * (n_full + 1) / 2 + rest * response
    pairs = _causal_pairs(prefix, response) + shape.n_corrupt * (response * prefix + seen)
    n_patches = 4 * shape.n_cells
    n_supervised = max(1.0, response - shape.n_eos + 1) + response
    segment_pairs = _segment_pairs(prefix, shape.n_tokens)
    return BatchStats(shape.n_tokens, pairs, segment_pairs, n_patches, n_patches**2, n_supervised)


def batch_stats(samples: Sequence[Sample]) -> BatchStats:
    """Return the figures of given samples, exactly."""
    return sum(map(_stats_of, samples), BatchStats())


def _stats_of(sample: Sample) -> BatchStats:
    prefix, response = sample.prompt.ids.numel(), sample.response.numel()
    masked = sample.corruption.masked
    sizes = torch.bincount(sample.corruption.block)
    seen = int((sizes * sizes.cumsum(0)).sum())
    pairs = _causal_pairs(prefix, response) + len(masked) * (response * prefix + seen)
    n_patches = sample.prompt.grid[0] * sample.prompt.grid[1]
    n_supervised = sample.n_supervised + sum(int(stream.sum()) for stream in masked)
    segment_pairs = _segment_pairs(prefix, sample.n_tokens)
    return BatchStats(sample.n_tokens, pairs, segment_pairs, n_patches, n_patches**2, n_supervised)


def _causal_pairs(prefix: float, response: float) -> float:
    """Return the pairs of the prefix and of the clean stream."""
    return prefix * (prefix + 1) / 2 + response * prefix + response * (response + 1) / 2


def _segment_pairs(prefix: float, n_tokens: float) -> float:
    """Return the pairs where the prefix sees itself and the streams see the whole sample, masked."""
    return prefix**2 + (n_tokens - prefix) * n_tokens


@dataclass(frozen=True)
class Flops:
    """Operations by what they are spent on; `patches` is the patch embedding, whose input needs no gradient."""

    patches: float
    vision: float
    vision_attention: float
    merger: float
    decoder: float
    decoder_attention: float
    lm_head: float

    @property
    def total(self) -> float:
        """All of them."""
        return sum(asdict(self).values())


def forward_flops(network: OcrConfig, stats: BatchStats) -> Flops:
    """Return the operations of one forward."""
    vision, text = network.vision, network.text
    n_cells = stats.n_patches / vision.spatial_merge_size**2
    merged, out = vision.spatial_merge_size**2 * vision.hidden_size, vision.out_hidden_size
    return Flops(
        patches=2.0 * vision.patch_dim * vision.hidden_size * stats.n_patches,
        vision=2.0 * vision.depth * _vision_products(vision) * stats.n_patches,
        vision_attention=4.0 * vision.depth * vision.hidden_size * stats.n_patch_pairs,
        merger=2.0 * n_cells * out * (merged + out * (1 + 3 * vision.in_channels)),
        decoder=2.0 * text.num_hidden_layers * _decoder_products(text) * stats.n_tokens,
        decoder_attention=4.0 * text.num_hidden_layers * text.num_attention_heads * text.head_dim * stats.n_pairs,
        lm_head=2.0 * text.hidden_size * text.vocab_size * stats.n_supervised,
    )


def model_flops(network: OcrConfig, stats: BatchStats, frozen: Collection[str] = ()) -> float:
    """Return the operations of one forward and backward, what is computed twice counted once: MFU's numerator.

    A product costs as much again for the gradient of its input, which is wanted where anything before it or in its
    part is trained, and once more for that of its weights, which is wanted where they are trained. Both operands of
    attention are inputs.
    """
    flops = forward_flops(network, stats)
    total = flops.patches * (1 if "vision" in frozen else 2)
    is_wanted = False
    for part, products, attention in (
        ("vision", flops.vision, flops.vision_attention),
        ("merger", flops.merger, 0.0),
        ("embeddings", 0.0, 0.0),
        ("decoder", flops.decoder, flops.decoder_attention),
        ("lm_head", flops.lm_head, 0.0),
    ):
        is_trained = part not in frozen
        is_wanted = is_wanted or is_trained
        total += products * (1 + is_wanted + is_trained) + attention * (3 if is_wanted else 1)
    return total


def executed_flops(
    network: OcrConfig, stats: BatchStats, activation_checkpointing: bool, frozen: Collection[str] = ()
) -> float:
    """Return the operations that are executed: those of the model, and what activation checkpointing repeats."""
    repeated = 0.0
    if activation_checkpointing:
        flops = forward_flops(network, stats)
        repeated = flops.decoder + flops.decoder_attention
        repeated += 0.0 if "vision" in frozen else flops.vision + flops.vision_attention
    # The loss forms its logits chunk by chunk, and their gradients at once: nothing of it is repeated.
    return model_flops(network, stats, frozen) + repeated


def peak_flops(device_name: str) -> float | None:
    """Return the peak of a device in dense bf16 operations per second, None where it is not known."""
    named = [name for name in PEAK_FLOPS if name.lower() in device_name.lower()]
    return PEAK_FLOPS[max(named, key=len)] if named else None


def run_tokens(row_tokens: int, accumulation: int, n_processes: int, steps: int) -> int:
    """Return the forward tokens of a run whose rows are full. *Source*: section 3, about 26 B in the paper."""
    return row_tokens * accumulation * n_processes * steps


def run_hours(executed: float, n_devices: int, peak: float, utilisation: float = UTILISATION) -> float:
    """Return the hours of a run of so many operations in all, the devices sharing them evenly."""
    return executed / (n_devices * peak * utilisation) / 3600


def _vision_products(vision: VisionConfig) -> int:
    return vision.hidden_size * (4 * vision.hidden_size + 3 * vision.intermediate_size)


def _decoder_products(text: TextConfig) -> int:
    q_width = text.num_attention_heads * text.head_dim
    kv_width = text.num_key_value_heads * text.head_dim
    return text.hidden_size * (2 * q_width + 2 * kv_width + 3 * text.intermediate_size)
