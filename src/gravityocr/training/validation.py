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
from gravityocr.decoding.request import Decoded
from gravityocr.document import Task
from gravityocr.errors import ConfigError, InputError
from gravityocr.metrics.edit import ned
from gravityocr.metrics.teds import score_teds
from gravityocr.model.formula_pieces import FormulaPieceSpec
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.prompt import TASK_PROMPTS, PromptBuilder
from gravityocr.training.corpora.region_shards import RegionFile
from gravityocr.training.pool_tokens import pool_files
from gravityocr.training.sources import DataConfig
from gravityocr.training.synthetic.shards import RenderedSample, Shard, shard_files
from gravityocr.training.synthetic.text_crops import TextCropRenderer
from gravityocr.training.synthetic.variation import vary

BATCH = 32


@dataclass(frozen=True)
class ValidationConfig:
    """How many held-out crops are read of each kind, how hard they are, and the block size of the drafts.

    `shards` is a folder of held-out shards below the data's, each of them a kind of its own, named by its file.
    """

    n_crops: int = 64
    difficulty: float = 0.7
    block_size: int | None = None
    max_tokens: int = 280
    seed: int = 12345
    shards: str | None = None

    def __post_init__(self) -> None:
        check_numbers(
            self, "validation.", optional=("block_size",), n_crops=(1, 10**6), difficulty=(0.0, 1.0),
            block_size=(1, 256), max_tokens=(1, 65536), seed=(0, 2**63 - 1),
        )  # fmt: skip


@dataclass(frozen=True)
class HeldOutCrop:
    """A crop that training never sees, and its target."""

    image: Image.Image
    task: Task
    target: str


def held_out_crops(data: DataConfig, config: ValidationConfig) -> dict[str, list[HeldOutCrop]]:
    """Return the validation crops by kind.

    With a pool: those of its validation split, by task. Else text of held-out fonts and documents, and what the
    held-out shards hold.

    *Raises*: InputError where a shard or split is missing, broken or of no use, or has the name of another one.
    """
    if data.pool is not None:
        return _pool_crops(data.pool, config)
    return {
        kind: [HeldOutCrop(Image.fromarray(one.image), one.task, one.target) for one in samples]
        for kind, samples in _synthetic_crops(data, config).items()
    }


def _pool_crops(pool: str, config: ValidationConfig) -> dict[str, list[HeldOutCrop]]:
    kinds: dict[str, list[HeldOutCrop]] = {}
    for file in map(RegionFile, pool_files(pool, "validation")):
        for region in file:
            crops = kinds.setdefault(region.task, [])
            if len(crops) < config.n_crops and region.target:
                crops.append(HeldOutCrop(region.picture(), region.task, region.target))
    if not any(kinds.values()):
        raise InputError(f"data.pool {pool!r}: its validation split holds no region; make the pool again")
    return {task: kinds[task] for task in TASK_PROMPTS if kinds.get(task)}


def _synthetic_crops(data: DataConfig, config: ValidationConfig) -> dict[str, list[RenderedSample]]:
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
def validate(model: OcrModel, prompts: PromptBuilder, data: DataConfig, config: ValidationConfig,
             stop_ids: frozenset[int], mask_id: int) -> dict[str, Any]:  # fmt: skip
    """Return for each kind of crop mean NED (tables: and TEDS), TPF, accepted drafts a round, and identity with AR."""
    record: dict[str, Any] = {}
    for kind, crops in held_out_crops(data, config).items():
        suffix = "" if kind == "text" else f"_{kind}"
        for name, value in _read(model, prompts, crops, config, stop_ids, mask_id).items():
            record[f"val_{name}{suffix}"] = value
    return record


def read_crops(model: OcrModel, prompts: PromptBuilder, crops: Sequence[HeldOutCrop],
               options: DecodeOptions) -> list[Decoded]:  # fmt: skip
    """Read crops, some at a time."""
    built = [prompts.build(crop.image, crop.task) for crop in crops]
    parts = [decode_prompts(model, built[i : i + BATCH], options).sequences for i in range(0, len(built), BATCH)]
    return [sequence for part in parts for sequence in part]


def quality(text: str, crop: HeldOutCrop) -> float:
    """Return TEDS for a table, and 1 - NED for anything else."""
    if crop.task == "table":
        return score_teds(_whole_table(text), _whole_table(crop.target)).teds
    return 1.0 - ned(text, crop.target)


def _read(model: OcrModel, prompts: PromptBuilder, crops: Sequence[HeldOutCrop], config: ValidationConfig,
          stop_ids: frozenset[int], mask_id: int) -> dict[str, Any]:  # fmt: skip
    if config.block_size is None:
        raise ConfigError("validation.block_size is not resolved; take TrainConfig.reading")
    modes: tuple[DecodeMode, ...] = ("ar", "self-spec")
    ar, drafted = (
        read_crops(model, prompts, crops, DecodeOptions(mask_id, stop_ids, config.block_size, mode, config.max_tokens))
        for mode in modes
    )
    texts = [prompts.tokenizer.decode(s.ids, skip_special_tokens=True) for s in ar]
    n_forwards, n_decoded = sum(s.n_forwards for s in drafted), sum(len(s.ids) - 1 for s in drafted)
    record: dict[str, Any] = {
        "n_crops": len(crops),
        "ned": sum(ned(text, crop.target) for text, crop in zip(texts, crops, strict=True)) / len(crops),
        "tpf": n_decoded / max(1, n_forwards),
        "n_decoded": n_decoded,
        "n_forwards": n_forwards,
        "accepted": sum(s.n_accepted for s in drafted) / max(1, sum(s.n_rounds for s in drafted)),
        "identical": sum(a.ids == b.ids for a, b in zip(drafted, ar, strict=True)) / len(drafted),
        "example": f"{crops[0].target!r} -> {texts[0]!r}"[:300],
    }
    scores = [quality(text, crop) for text, crop in zip(texts, crops, strict=True) if crop.task == "table"]
    if scores:
        record["teds"] = sum(scores) / len(scores)
    return record


def _whole_table(markup: str) -> str:
    """Return a table; a small network writes the rows of a piece without the tag around them."""
    return markup if markup.lstrip().startswith("<table") else f"<table>{markup}</table>"
