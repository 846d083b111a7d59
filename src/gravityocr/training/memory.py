"""Memory of one training process, term by term, from the sizes of the network and of a row.

Each term states its assumption. What no formula knows (the CUDA context, the allocator's gaps, NCCL's buffers) is one
constant, `OVERHEAD_BYTES`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from gravityocr.errors import ConfigError
from gravityocr.model.ocr_model import OcrConfig
from gravityocr.training.cost import BatchStats, count_parameters
from gravityocr.training.losses import CHUNK_ROWS

Sharding = Literal["none", "zero2", "zero3", "fsdp2"]
"""What the processes share out: nothing (DDP), optimiser and gradients (ZeRO-2), or the weights as well."""

OVERHEAD_BYTES = 2.5e9
CPU_OVERHEAD_BYTES = 0.5e9
BUCKET_ELEMENTS = 1e8
"""Elements of one communication bucket; recipes/paper-slurm/zero2.json says the same."""


@dataclass(frozen=True)
class Memory:
    """Bytes of one process by what they hold."""

    weights: float
    gradients: float
    optimizer: float
    buckets: float
    activations: float
    logits: float
    overhead: float

    @property
    def total(self) -> float:
        """All of them."""
        return sum(asdict(self).values())


@dataclass(frozen=True)
class MemorySettings:
    """What decides the memory of a process beside the network and the row. *Units*: `loss_rows` rows of logits."""

    n_processes: int = 1
    sharding: Sharding = "none"
    bf16: bool = True
    activation_checkpointing: bool = False
    frozen: Collection[str] = ()
    ema: bool = False
    is_cuda: bool = True
    loss_rows: int = CHUNK_ROWS

    def __post_init__(self) -> None:
        if self.sharding not in get_args(Sharding):
            raise ConfigError(f"sharding {self.sharding!r} is unknown; choose one of {', '.join(get_args(Sharding))}")


def training_memory(network: OcrConfig, stats: BatchStats, settings: MemorySettings) -> Memory:
    """Return the memory of one process at the peak of a step over one row of the given figures."""
    weights, gradients, optimizer, buckets = _states(network, settings)
    width = 2 if settings.bf16 else 4
    vocab = network.text.vocab_size
    rows = min(float(settings.loss_rows), stats.n_supervised)
    # A chunk of logits in the type of the product and in fp32, its gradient in the type of the product; the gradient of
    # the output layer in fp32, and a chunk's part of it.
    logits = rows * vocab * (2 * width + 4)
    if "lm_head" not in settings.frozen:
        logits += vocab * network.text.hidden_size * (4 + width)
    # Under autocast the residual stream stays in the type of the weights, which is fp32 where nothing is shared out.
    stream = 4 if settings.sharding == "none" else width
    checkpointing = settings.activation_checkpointing
    activations = activation_bytes(network, stats, checkpointing, width, stream, settings.frozen)
    if not settings.is_cuda:
        activations += width * _score_values(network, stats, checkpointing)
    overhead = OVERHEAD_BYTES if settings.is_cuda else CPU_OVERHEAD_BYTES
    return Memory(weights, gradients, optimizer, buckets, activations, logits, overhead)


def _states(network: OcrConfig, settings: MemorySettings) -> tuple[float, float, float, float]:
    """Return the bytes of weights, gradients, optimiser state (masters and the mean of weights too) and buckets."""
    parameters = count_parameters(network)
    total, trained, n = float(parameters.total), float(parameters.trained(settings.frozen)), settings.n_processes
    mean = 4.0 * total if settings.ema else 0.0
    low = 2 if settings.bf16 else 4
    if settings.sharding == "none":
        # fp32 weights, and the bf16 copies of the matrices that autocast keeps for a step; AdamW has two moments.
        copies = 2.0 * (total - parameters.embeddings) if settings.bf16 else 0.0
        buckets = 4.0 * trained if n > 1 else 0.0  # DDP sums gradients in buckets of its own
        return 4.0 * total + copies, 4.0 * trained, 8.0 * trained + mean, buckets
    if settings.sharding == "fsdp2":
        # fp32 weights, gradients and moments, all shared out; what is gathered is so in bf16, gradients leave in fp32.
        gathered = low * _gathered(network)
        return 4.0 * total / n + gathered, 4.0 * trained / n, 8.0 * trained / n + mean, 4.0 * _largest_layer(network)
    # bf16 weights and gradients; fp32 masters and two moments, shared out. ZeRO-3 shares the weights out as well.
    weights = low * total / n + low * _gathered(network) if settings.sharding == "zero3" else low * total
    return weights, low * trained / n, 12.0 * trained / n + mean, 2 * low * min(BUCKET_ELEMENTS, trained)


def _largest_layer(network: OcrConfig) -> float:
    parameters = count_parameters(network)
    return max(parameters.decoder / network.text.num_hidden_layers, parameters.vision / network.vision.depth)


def _gathered(network: OcrConfig) -> float:
    """Return the parameters that are there as a whole: what is in no layer, one layer, and the next in advance."""
    parameters = count_parameters(network)
    return parameters.embeddings + parameters.lm_head + parameters.merger + 2 * _largest_layer(network)


def activation_bytes(
    network: OcrConfig, stats: BatchStats, checkpointing: bool, width: int, stream: int, frozen: Collection[str] = ()
) -> float:
    """Return what the backward keeps of a forward, without the loss: all of it, or layer inputs and one layer.

    *Units*: `width` bytes a value, `stream` one of the residual stream. Attention is counted as fused: queries, keys,
    values and its output, no scores.
    """
    vision, text = network.vision, network.text
    n_patches = 0.0 if "vision" in frozen else stats.n_patches
    # Two of a layer's values are of the residual stream: what comes in, and what lies between its halves.
    patch_stream, token_stream = n_patches * vision.hidden_size, stats.n_tokens * text.hidden_size
    block = width * n_patches * vision_block_values(network) + 2 * (stream - width) * patch_stream
    layer = width * stats.n_tokens * decoder_layer_values(network) + 2 * (stream - width) * token_stream
    # The merger: its input, the projection twice (norm and GELU), gate, up, SiLU and product, and the output.
    n_cells = stats.n_patches / vision.spatial_merge_size**2
    ends = width * n_cells * vision.out_hidden_size * (5 + 4 * vision.in_channels)
    ends += width * n_patches * vision.patch_dim + 2 * stream * patch_stream + 3 * stream * token_stream
    if not checkpointing:
        return vision.depth * block + text.num_hidden_layers * layer + ends
    inputs = stream * (vision.depth * patch_stream + text.num_hidden_layers * token_stream)
    # The layer that is being repeated keeps everything, and its gradients need as much again at worst.
    return inputs + 2 * max(block, layer) + ends


def _score_values(network: OcrConfig, stats: BatchStats, checkpointing: bool) -> float:
    """Return the values of the scores, before and after the softmax, where attention is plain products (on a CPU)."""
    vision, text = network.vision, network.text
    layer, block = text.num_attention_heads * stats.n_segment_pairs, vision.num_heads * stats.n_patch_pairs
    if checkpointing:
        return 2 * max(layer, block)
    return 2 * (text.num_hidden_layers * layer + vision.depth * block)


def vision_block_values(network: OcrConfig) -> int:
    """Return the values that the backward of one vision block keeps for each patch.

    The input, the norm's output, q, k and v, q and k turned, attention's output, the second norm's input and output;
    gate, SiLU, up and their product.
    """
    return 10 * network.vision.hidden_size + 4 * network.vision.intermediate_size


def decoder_layer_values(network: OcrConfig) -> int:
    """Return the values that the backward of one decoder layer keeps for each forward token.

    The inputs of four norms and the outputs of two; q, k and v, q and k turned, attention's output; gate and up, SiLU
    and their product.
    """
    text = network.text
    q_width, kv_width = text.num_attention_heads * text.head_dim, text.num_key_value_heads * text.head_dim
    return 6 * text.hidden_size + 3 * q_width + 3 * kv_width + 4 * text.intermediate_size
