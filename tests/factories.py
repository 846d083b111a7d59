"""Tiny networks, tokenizers, prompts and checkpoint folders, drawn from a seed, for all tests that need a network."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from gravityocr.model.checkpoint import MASK_TOKEN, BlockDiffusion
from gravityocr.model.ocr_model import OcrConfig, OcrModel
from gravityocr.model.prompt import ImageSpec, Prompt, PromptBuilder
from gravityocr.model.text import TextConfig
from gravityocr.model.vision import VisionConfig
from gravityocr.training.export import export_checkpoint
from gravityocr.training.nano import EOS_TOKEN, build_tokenizer

VOCAB = 96  # a little more than the tokenizer has, as in GLM-OCR

# Every size that may be confused with another one differs from it somewhere: heads x head_dim and hidden, heads and
# kv heads, patch 8 and 14, sections of M-RoPE, biases, epsilons, theta of both ropes.
CONFIGS: dict[str, OcrConfig] = {
    "gqa": OcrConfig(
        VisionConfig(depth=2, hidden_size=32, intermediate_size=48, num_heads=2, patch_size=14, out_hidden_size=48),
        TextConfig(
            vocab_size=VOCAB, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, mrope_section=(2, 3, 3),
        ),
    ),
    "mqa": OcrConfig(
        VisionConfig(
            depth=1, hidden_size=48, intermediate_size=64, num_heads=3, patch_size=8, out_hidden_size=32,
            attention_bias=False, rms_norm_eps=1e-4, rope_theta=100.0,
        ),
        TextConfig(
            vocab_size=VOCAB, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=1, head_dim=32, rms_norm_eps=1e-3, rope_theta=1000.0, mrope_section=(6, 4, 6),
        ),
    ),
    "nano": OcrConfig(
        VisionConfig(
            depth=2, hidden_size=24, intermediate_size=40, num_heads=3, patch_size=8, out_hidden_size=40,
            rope_theta=50.0,
        ),
        TextConfig(
            vocab_size=VOCAB, hidden_size=40, intermediate_size=64, num_hidden_layers=2, num_attention_heads=3,
            num_key_value_heads=3, head_dim=24, rope_theta=100.0, mrope_section=(1, 2, 4, 2, 2, 1),
        ),
    ),
}  # fmt: skip


def image_spec(name: str) -> ImageSpec:
    """Return an image spec whose patches fit the network and whose limits let small images be small."""
    patch = CONFIGS[name].vision.patch_size
    cell = 2 * patch
    return ImageSpec(
        patch_size=patch, min_pixels=2 * cell * cell, max_pixels=2 * 12 * cell * cell,
        mean=(0.5, 0.6, 0.4), std=(0.3, 0.25, 0.4),
    )  # fmt: skip


@lru_cache(maxsize=1)
def tiny_tokenizer() -> Tokenizer:
    """Return a character tokenizer with GLM-OCR's markers."""
    return build_tokenizer("\n " + string.ascii_letters)


def mask_id() -> int:
    """Return the id of the mask token."""
    token = tiny_tokenizer().token_to_id(MASK_TOKEN)
    assert token is not None
    return token


def eos_id() -> int:
    """Return the id of the end token."""
    token = tiny_tokenizer().token_to_id(EOS_TOKEN)
    assert token is not None
    return token


def tiny_network(name: str = "gqa", seed: int = 0, live: Sequence[int] = ()) -> OcrModel:
    """Return a network with random weights, norms and biases included, and logits of the order of one.

    Where `live` names tokens, an even number of them, only these ever win: few enough for drafts to agree with the
    autoregressive path now and then.
    """
    generator = torch.Generator().manual_seed(seed)
    model = OcrModel(CONFIGS[name]).eval().requires_grad_(False)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 2:
            parameter.copy_(noise * parameter.shape[1] ** -0.5)
        else:
            parameter.copy_(noise * 0.2)
    for key, parameter in model.named_parameters():
        if "norm" in key and key.endswith("weight"):
            parameter.add_(1.0)  # no norm is another one's double
    model.language_model.embed_tokens.weight.mul_(CONFIGS[name].text.hidden_size ** 0.5)
    if live:
        head = model.lm_head.weight
        head.mul_(0.01)
        for i, (one, other) in enumerate(zip(live[::2], live[1::2], strict=True)):
            direction = torch.randn(head.shape[1], generator=generator) * head.shape[1] ** -0.5
            # Opposite rows: one of the two always has a positive logit.
            head[one], head[other] = direction * (1 + i / 8), -direction * (1 + i / 8)
    return model


def random_image(width: int, height: int, seed: int = 0) -> Image.Image:
    """Return coloured noise over a slope, so that no patch is like another."""
    draw = np.random.default_rng(seed)
    noise = draw.integers(0, 160, (height, width, 3))
    slope = np.linspace(0, 95, width)[None, :, None] * np.linspace(0.3, 1, height)[:, None, None]
    return Image.fromarray((noise + slope).astype(np.uint8))


def prompt_builder(name: str = "gqa") -> PromptBuilder:
    """Return the prompt builder of a tiny network."""
    return PromptBuilder(tiny_tokenizer(), image_spec(name))


def make_prompts(name: str, cells: Sequence[tuple[int, int]], seed: int = 0) -> list[Prompt]:
    """Return one prompt per (rows, columns) of merged cells, the tasks taking turns."""
    builder, side = prompt_builder(name), 2 * CONFIGS[name].vision.patch_size
    tasks = ("text", "table", "formula")
    return [
        builder.build(random_image(columns * side, rows * side, seed + i), tasks[i % 3])  # type: ignore[arg-type]
        for i, (rows, columns) in enumerate(cells)
    ]


def write_checkpoint(path: Path, model: OcrModel, name: str = "gqa", **diffusion: Any) -> Path:
    """Write a folder by the product's own export, fp32."""
    block = BlockDiffusion(**{"bd_size": 8, "mask_id": mask_id(), **diffusion})
    export_checkpoint(path, model, tiny_tokenizer(), image_spec(name), block, eos_id(), torch.float32)
    return path


def edit_json(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the object in a JSON file."""
    raw = json.loads(file.read_text(encoding="utf-8"))
    change(raw)
    file.write_text(json.dumps(raw), encoding="utf-8")


class CausalAttention:
    """Attend causally without any cache and remember the keys and values: what every surviving K/V must equal."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        assert layer == len(self.keys), "a layer was left out or run twice"
        self.keys.append(k)
        self.values.append(v)
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@torch.inference_mode()
def causal_forward(model: OcrModel, prompt: Prompt, ids: Sequence[int]) -> tuple[Tensor, CausalAttention]:
    """Run one causal forward over a prompt and a response.

    *Shapes*: logits [prompt + response, vocab]; keys and values per layer [1, kv_heads, prompt + response, head_dim].
    """
    response = torch.tensor(list(ids), dtype=torch.long)
    tokens = torch.cat([prompt.ids, response])[None]
    is_image = torch.cat([prompt.is_image, torch.zeros_like(response, dtype=torch.bool)])[None]
    later = (prompt.next_position + torch.arange(response.numel())).expand(3, -1)
    positions = torch.cat([prompt.positions, later], 1)[:, None]
    _, features = model.encode_images([prompt])
    attention = CausalAttention()
    hidden = model.hidden(model.embed(tokens, is_image, features), positions, attention)
    return model.logits(hidden)[0], attention
