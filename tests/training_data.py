"""Tiny networks, samples and data folders for the training tests."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageFont
from torch import Generator, Tensor

from gravityocr.config import dump_config, load_config
from gravityocr.document import Task
from gravityocr.model.checkpoint import BlockDiffusion
from gravityocr.model.ocr_model import OcrConfig, OcrModel
from gravityocr.model.prompt import Prompt, PromptBuilder
from gravityocr.model.text import TextConfig
from gravityocr.model.vision import VisionConfig
from gravityocr.training.corpora.region_shards import SUFFIX, LabelledRegion, encode_picture, write_regions
from gravityocr.training.export import export_checkpoint
from gravityocr.training.nano import EOS_TOKEN, IMAGE_SPEC, MARKUP_TOKENS, VOCAB_SIZE, build_tokenizer, new_network
from gravityocr.training.noise import Corruption, NoiseConfig, corrupt
from gravityocr.training.packing import Sample, fill_response
from gravityocr.training.run_config import TrainConfig
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
    response, n_supervised = fill_response([LETTER_IDS[i] for i in picks], EOS_ID, noise.n_eos)
    corruption = corrupt(response.numel(), noise, generator)
    return Sample(make_prompt(seed + 1000, grid), response, n_supervised, corruption, f"sample {seed}")


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


def features_of(model: OcrModel, samples: Sequence[Sample]) -> Tensor:
    """Give the image features of a row of these samples."""
    return model.encode_images([sample.prompt for sample in samples])[1]


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


def make_region(number: int, n_characters: int | None = None, **changes: Any) -> LabelledRegion:
    """Give a region of noise with a target of random characters, of the three tasks in turn."""
    draw = np.random.default_rng(number)
    width_px, height_px = (int(side) for side in draw.integers([20, 12], [70, 40]))
    picture = encode_picture(Image.fromarray(draw.integers(0, 256, (height_px, width_px), dtype=np.uint8)))
    length = int(draw.integers(1, 9)) if n_characters is None else n_characters
    task: Task = ("text", "formula", "table")[number % 3]  # type: ignore[assignment]
    values: dict[str, Any] = {
        "region_id": f"made/{number}", "image": picture, "width_px": width_px, "height_px": height_px, "task": task,
        "target": "".join(draw.choice([*ASCII.strip()], length)), "source": "made", "doc_id": f"doc-{number}",
    }  # fmt: skip
    return LabelledRegion(**{**values, **changes})


def write_pool(folder: Path, train: Iterable[LabelledRegion], files: int = 2) -> Path:
    """Write a pool of these regions, spread over some files, and of three regions of each task to validate on."""
    regions = [*train]
    for number in range(files):
        write_regions(folder / "train" / f"pool-{number:05}{SUFFIX}", regions[number::files])
    write_regions(folder / "validation" / f"pool-00000{SUFFIX}", [make_region(9000 + number, 3) for number in range(9)])
    return folder


def write_base(folder: Path, seed: int = 3) -> Path:
    """Write a checkpoint to adapt: a tiny network with the embedded checkpoint's tokenizer and image settings."""
    folder.mkdir(parents=True, exist_ok=True)
    diffusion = BlockDiffusion(8, MASK_ID, tasks=("text", "formula", "table"))
    export_checkpoint(folder, tiny_network(seed), TOKENIZER, IMAGE_SPEC, diffusion, EOS_ID, torch.float32)
    return folder


def tiny_run(folder: Path, *overrides: str) -> TrainConfig:
    """Give a short run in fp32 that logs and saves every step."""
    settings = [
        f"train.folder={folder}", "train.steps=4", "train.n_samples=2", "train.bf16=false", "train.log_every=1",
        "train.save_every_s=0.0", "noise.block_size=4", "optimizer.lr_decoder=3e-3", "optimizer.lr_vision=1e-3",
        "optimizer.warmup=0.3", "optimizer.decay_from=0.5", "glyphs.guide_layers=[1]", "validation.n_crops=3",
        "validation.max_tokens=7", "validation.block_size=4",
    ]  # fmt: skip
    return load_config(TrainConfig, None, [*NETWORK_SETTINGS, *settings, *overrides])


def read_log(folder: Path, file: str = "log.jsonl") -> list[dict[str, Any]]:
    """Read the lines of a run's log."""
    return [json.loads(line) for line in (folder / file).read_text(encoding="utf-8").splitlines()]


def read_state(folder: Path) -> dict[str, Any]:
    """Read the saved state of a run."""
    return torch.load(folder / "state.pt", weights_only=True)


def assert_equal_to_the_bit(one: Any, other: Any, where: str = "state") -> None:
    """Compare nested states."""
    assert type(one) is type(other), where
    if isinstance(one, Tensor):
        assert torch.equal(one, other), where
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_equal_to_the_bit(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_equal_to_the_bit(a, b, f"{where}[{i}]")
    else:
        assert one == other, where


def _flat(prefix: str, config: object) -> list[str]:
    return [f"{prefix}.{line}" for line in dump_config(config).splitlines() if line]


NETWORK_SETTINGS = _flat("network.vision", TINY_NETWORK.vision) + _flat("network.text", TINY_NETWORK.text)
