"""Read held-out crops during training: error rate, identity with AR, draft acceptance, by kind of crop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from gravityocr.config import check_numbers
from gravityocr.decoding.prompts import DecodeMode, DecodeOptions, decode_prompts
from gravityocr.errors import InputError
from gravityocr.metrics.edit import ned
from gravityocr.metrics.teds import score_teds
from gravityocr.model.formula_pieces import FormulaPieceSpec
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.prompt import PromptBuilder
from gravityocr.training.sources import DataConfig
from gravityocr.training.synthetic.shards import RenderedSample, Shard, shard_files
from gravityocr.training.synthetic.text_crops import TextCropRenderer
from gravityocr.training.synthetic.variation import vary


@dataclass(frozen=True)
class ValidationConfig:
    """How many held-out crops are read of each kind, how hard they are, and the block sizes of the drafts.

    `shards` is a folder of held-out shards below the data's, each of them a kind of its own, named by its file.
    """

    n_crops: int = 64
    difficulty: float = 0.7
    block_size: int = 16
    max_tokens: int = 280
    seed: int = 12345
    shards: str | None = None

    def __post_init__(self) -> None:
        check_numbers(
            self, "validation.", n_crops=(1, 10**6), difficulty=(0.0, 1.0), block_size=(1, 256),
            max_tokens=(1, 65536), seed=(0, 2**63 - 1),
        )  # fmt: skip


def held_out_crops(data: DataConfig, config: ValidationConfig) -> dict[str, list[RenderedSample]]:
    """Return the validation crops by kind: text of held-out fonts and documents, and what the held-out shards hold.

    *Raises*: InputError where a shard is missing or broken, holds nothing that fits, or has the name of another one.
    """
    renderer = TextCropRenderer(Path(data.folder), split="heldout", config=data.crops)
    lines = [renderer.sample(np.random.default_rng([config.seed, i]), config.difficulty) for i in range(config.n_crops)]
    kinds = {"text": [RenderedSample("text", crop.image, tuple(crop.text), crop.centers_px, "text") for crop in lines]}
    for file in shard_files(Path(data.folder) / config.shards) if config.shards is not None else []:
        name = file.name.split(".")[0]
        if name in kinds:
            raise InputError(f"validation.shards: {file} has the name of another kind of crop; rename it")
        kinds[name] = _varied(Shard(file), data, config)
        if not kinds[name]:
            raise InputError(f"validation.shards: {file} holds no crop that fits; make it again, or take it away")
    return kinds


def _varied(shard: Shard, data: DataConfig, config: ValidationConfig) -> list[RenderedSample]:
    crops: list[RenderedSample] = []
    for number in range(len(shard)):
        sample = shard[number]
        rng = np.random.default_rng([config.seed, number])
        fits = len(sample.tokens) <= data.max_target_tokens
        varied = vary(sample, rng, config.difficulty, data.variation, FormulaPieceSpec()) if fits else None
        if varied is not None:
            crops.append(varied)
        if len(crops) == config.n_crops:
            break
    return crops


@torch.inference_mode()
def validate(model: OcrModel, prompts: PromptBuilder, data: DataConfig, config: ValidationConfig, eos_id: int,
             mask_id: int) -> dict[str, Any]:  # fmt: skip
    """Return for each kind of crop mean NED (tables: and TEDS), TPF, accepted drafts a round, and identity with AR."""
    record: dict[str, Any] = {}
    for kind, crops in held_out_crops(data, config).items():
        suffix = "" if kind == "text" else f"_{kind}"
        for name, value in _read(model, prompts, crops, config, eos_id, mask_id).items():
            record[f"val_{name}{suffix}"] = value
    return record


def _read(model: OcrModel, prompts: PromptBuilder, crops: Sequence[RenderedSample], config: ValidationConfig,
          eos_id: int, mask_id: int) -> dict[str, Any]:  # fmt: skip
    built = [prompts.build(Image.fromarray(crop.image), crop.task) for crop in crops]
    results = {}
    modes: tuple[DecodeMode, ...] = ("ar", "self-spec")
    for mode in modes:
        options = DecodeOptions(mask_id, frozenset([eos_id]), config.block_size, mode, config.max_tokens)
        results[mode] = [
            sequence
            for i in range(0, len(built), 32)
            for sequence in decode_prompts(model, built[i : i + 32], options).sequences
        ]
    texts = [prompts.tokenizer.decode(s.ids, skip_special_tokens=True) for s in results["ar"]]
    errors = [ned(text, crop.target) for text, crop in zip(texts, crops, strict=True)]
    drafted = results["self-spec"]
    n_forwards = sum(s.n_forwards for s in drafted)
    pairs = zip(drafted, results["ar"], strict=True)
    record: dict[str, Any] = {
        "ned": sum(errors) / len(errors),
        "tpf": sum(len(s.ids) - 1 for s in drafted) / max(1, n_forwards),
        "accepted": sum(s.n_accepted for s in drafted) / max(1, sum(s.n_rounds for s in drafted)),
        "identical": sum(a.ids == b.ids for a, b in pairs) / len(drafted),
        "example": f"{crops[0].target!r} -> {texts[0]!r}"[:300],
    }
    tables = [(text, crop.target) for text, crop in zip(texts, crops, strict=True) if crop.task == "table"]
    if tables:
        scores = [score_teds(f"<table>{read}</table>", f"<table>{target}</table>").teds for read, target in tables]
        record["teds"] = sum(scores) / len(scores)
    return record
