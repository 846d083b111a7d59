"""Tiny networks, samples and data folders for the training tests."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import ImageFont
from torch import Generator, Tensor

from gravityocr.model.ocr_model import OcrConfig, OcrModel
from gravityocr.model.prompt import Prompt, PromptBuilder
from gravityocr.model.text import TextConfig
from gravityocr.model.vision import VisionConfig
from gravityocr.training.nano import EOS_TOKEN, IMAGE_SPEC, MARKUP_TOKENS, VOCAB_SIZE, build_tokenizer, new_network
from gravityocr.training.noise import Corruption, NoiseConfig, corrupt
from gravityocr.training.packing import PackedBatch, Sample, fill_response
from gravityocr.training.synthetic.charset import ASCII, CHARSET

TOKENIZER = build_tokenizer(CHARSET, MARKUP_TOKENS)
EOS_ID: int = TOKENIZER.token_to_id(EOS_TOKEN)
MASK_ID: int = TOKENIZER.token_to_id("<|mask|>")
PROMPTS = PromptBuilder(TOKENIZER, IMAGE_SPEC)
LETTER_IDS = [TOKENIZER.token_to_id(character) for character in ASCII]

TINY_NETWORK = OcrConfig(
    VisionConfig(
        depth=1, hidden_size=16, intermediate_size=16, num_heads=2, patch_size=8, out_hidden_size=24,
        rope_theta=100.0,
    ),
    TextConfig(
        vocab_size=VOCAB_SIZE, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, rope_theta=100.0, mrope_section=(2, 2, 4),
    ),
)  # fmt: skip
"""Grouped-query attention, two layers (so that leaks through a middle row would show), the real vocabulary."""


def tiny_network(seed: int = 0) -> OcrModel:
    """Give a tiny network with random weights."""
    return new_network(seed, TINY_NETWORK)


def make_prompt(seed: int, grid: tuple[int, int] = (2, 4)) -> Prompt:
    """Give a prompt over random pixels; `grid` counts patches."""
    pixels = torch.randn(grid[0] * grid[1], TINY_NETWORK.vision.patch_dim, generator=Generator().manual_seed(seed))
    return PROMPTS.from_patches(pixels, grid)


def make_sample(n_characters: int, noise: NoiseConfig, seed: int = 0, grid: tuple[int, int] = (2, 4)) -> Sample:
    """Give a sample of random characters with its EOS fill."""
    generator = Generator().manual_seed(seed)
    picks = torch.randint(len(LETTER_IDS), (n_characters,), generator=generator)
    response, n_supervised = fill_response([LETTER_IDS[i] for i in picks], EOS_ID, noise.block_size)
    corruption = corrupt(response.numel(), noise, generator)
    return Sample(make_prompt(seed + 1000, grid), response, n_supervised, corruption)


def hand_sample(
    response: Sequence[int], n_supervised: int, block: Sequence[int], masked: Sequence[Sequence[int]]
) -> Sample:
    """Give a sample with a prefix of two text tokens and everything else as told; `masked` holds 0 and 1."""
    prompt = Prompt(
        torch.zeros(0, TINY_NETWORK.vision.patch_dim),
        (0, 0),
        torch.tensor([3, 4]),
        torch.zeros(2, dtype=torch.bool),
        torch.tensor([[0, 1]] * 3),
        2,
    )
    masks = tuple(torch.tensor(mask, dtype=torch.bool) for mask in masked)
    return Sample(prompt, torch.tensor(response), n_supervised, Corruption(torch.tensor(block), masks))


def features_of(model: OcrModel, samples: Sequence[Sample], batch: PackedBatch) -> Tensor:
    """Give the image features in the order in which the batch scatters them."""
    return model.encode_images([samples[i].prompt for i in batch.order])[1]


def write_data_dir(folder: Path) -> Path:
    """Write a data folder of Pillow's own font: a train and a held-out family, a document for each split."""
    source = ImageFont.load_default(20).path
    assert isinstance(source, io.BytesIO)
    rows = []
    for name, family, split in (("plain", "Plain", "train"), ("carlito", "Carlito", "heldout")):
        (folder / f"{name}.ttf").write_bytes(source.getvalue())
        rows.append({"path": f"{name}.ttf", "family": family, "style": "regular", "split": split, "chars": ""})
    (folder / "fonts.json").write_text(json.dumps(rows), encoding="utf-8")
    documents = (
        {"split": "train", "text": "The quick brown fox jumps over the lazy dog while a jackdaw loves my sphinx."},
        {"split": "heldout", "text": "Other sentences, which training never reads at all, are kept for evaluation."},
    )
    lines = "".join(json.dumps(document) + "\n" for document in documents)
    (folder / "corpus.jsonl").write_text(lines, encoding="utf-8")
    return folder
