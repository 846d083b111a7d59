"""The memory model: what the processes share out, what checkpointing saves, and what autograd really keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gravityocr.errors import ConfigError
from gravityocr.model import vision as vision_module
from gravityocr.model.ocr_model import OcrConfig, OcrModel
from gravityocr.model.rope import axial_rope, mrope, patch_positions
from gravityocr.model.text import TextConfig
from gravityocr.model.vision import VisionConfig
from gravityocr.training.cost import SampleShape, count_parameters, sample_stats
from gravityocr.training.memory import (
    BUCKET_ELEMENTS,
    MemorySettings,
    decoder_layer_values,
    training_memory,
    vision_block_values,
)

GLM = OcrConfig()
ROW = sample_stats(SampleShape(), 32).times(25)
PARAMETERS = count_parameters(GLM).total


def test_zero2_divides_gradients_and_optimizer_and_nothing_else() -> None:
    alone, shared = (training_memory(GLM, ROW, MemorySettings(n, "zero2")) for n in (1, 16))
    assert shared.gradients == alone.gradients / 16 == 2 * PARAMETERS / 16
    assert shared.optimizer == alone.optimizer / 16 == 12 * PARAMETERS / 16
    assert shared.weights == alone.weights == 2 * PARAMETERS
    assert (shared.activations, shared.logits) == (alone.activations, alone.logits)
    assert shared.buckets == 2 * 2 * BUCKET_ELEMENTS


def test_without_sharding_all_is_there_in_fp32() -> None:
    memory = training_memory(GLM, ROW, MemorySettings(8, bf16=False))
    assert (memory.weights, memory.gradients, memory.optimizer) == (4 * PARAMETERS, 4 * PARAMETERS, 8 * PARAMETERS)


@pytest.mark.parametrize("sharding", ["zero2", "zero3", "fsdp2"])
def test_more_processes_need_less_each(sharding: str) -> None:
    totals = [training_memory(GLM, ROW, MemorySettings(n, sharding)).total for n in (1, 2, 8, 16, 32)]  # type: ignore[arg-type]
    assert totals == sorted(totals, reverse=True) and len(set(totals)) == 5


def test_what_shares_more_out_needs_less() -> None:
    none, zero2, zero3 = (
        training_memory(GLM, ROW, MemorySettings(16, kind)).total for kind in ("none", "zero2", "zero3")
    )  # type: ignore[arg-type]
    assert none > zero2 > zero3


def test_each_setting_moves_its_own_term() -> None:
    settings = MemorySettings(16, "zero2")
    base = training_memory(GLM, ROW, settings)
    checkpointed = training_memory(GLM, ROW, replace(settings, activation_checkpointing=True))
    assert checkpointed.activations < 0.2 * base.activations
    frozen = training_memory(GLM, ROW, replace(settings, frozen=("vision",)))
    assert frozen.activations < base.activations and frozen.optimizer < base.optimizer
    assert training_memory(GLM, ROW, replace(settings, loss_rows=2048)).logits > base.logits
    assert training_memory(GLM, ROW, replace(settings, ema=True)).optimizer == base.optimizer + 4 * PARAMETERS
    assert training_memory(GLM, ROW.times(2), settings).activations == pytest.approx(2 * base.activations)
    assert training_memory(GLM, ROW, replace(settings, is_cuda=False)).activations > base.activations
    with pytest.raises(ConfigError, match="zero9"):
        MemorySettings(1, "zero9")  # type: ignore[arg-type]


SMALL = OcrConfig(
    VisionConfig(depth=1, hidden_size=128, intermediate_size=512, num_heads=4, out_hidden_size=192),
    TextConfig(
        vocab_size=64, hidden_size=192, intermediate_size=576, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, mrope_section=(8, 12, 12),
    ),
)  # fmt: skip


def kept_values(run: Callable[[], Tensor], apart: set[int]) -> float:
    """Return how many fp32 values autograd keeps for the backward, each storage counted once."""
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(t.untyped_storage().nbytes() / 4 for pointer, t in kept.items() if pointer not in apart)


def storages(*tensors: Tensor) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


def test_a_decoder_layer_keeps_what_the_model_says() -> None:
    model, n = OcrModel(SMALL), 300
    x = torch.randn(1, n, 192, requires_grad=True)
    turns = mrope(torch.arange(n).expand(3, 1, n), 1e4, SMALL.text.mrope_section)

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    values = kept_values(lambda: model.language_model.layers[0](x, turns, attend), storages(turns, *model.parameters()))
    # On a CPU a norm is several operations, which keep the normalised input beside the input: four norms.
    assert values / n == pytest.approx(decoder_layer_values(SMALL) + 4 * 192, rel=0.01)


def test_a_vision_block_keeps_what_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vision_module, "attention", F.scaled_dot_product_attention)
    model, grid = OcrModel(SMALL), (12, 24)
    x = torch.randn(288, 128, requires_grad=True)
    turns = axial_rope(patch_positions([grid], 2), 1e4, 32)[:, None]
    values = kept_values(lambda: model.visual.blocks[0](x, turns, [(1, 288)]), storages(turns, *model.parameters()))
    # Four norms as above; those of q and k also copy their input, which is a part of a larger tensor.
    assert values / 288 == pytest.approx(vision_block_values(SMALL) + 6 * 128, rel=0.01)
