"""Read held-out crops during training: error rate, identity with AR, draft acceptance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from gravityocr.config import check_numbers
from gravityocr.decoding.prompts import DecodeMode, DecodeOptions, decode_prompts
from gravityocr.metrics.edit import ned
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.prompt import PromptBuilder
from gravityocr.training.sources import DataConfig
from gravityocr.training.synthetic.text_crops import TextCropRenderer, TextSample


@dataclass(frozen=True)
class ValidationConfig:
    """How many held-out crops are read, how hard they are, and the block sizes of the drafts."""

    n_crops: int = 64
    difficulty: float = 0.7
    block_size: int = 16
    max_tokens: int = 120
    seed: int = 12345

    def __post_init__(self) -> None:
        check_numbers(
            self, "validation.", n_crops=(1, 10**6), difficulty=(0.0, 1.0), block_size=(1, 256),
            max_tokens=(1, 65536), seed=(0, 2**63 - 1),
        )  # fmt: skip


def held_out_crops(data: DataConfig, config: ValidationConfig) -> list[TextSample]:
    """Render the validation crops: held-out fonts and held-out documents."""
    renderer = TextCropRenderer(Path(data.folder), split="heldout", config=data.crops)
    return [
        renderer.sample(np.random.default_rng([config.seed, i]), config.difficulty) for i in range(config.n_crops)
    ]


@torch.inference_mode()
def validate(model: OcrModel, prompts: PromptBuilder, data: DataConfig, config: ValidationConfig, eos_id: int,
             mask_id: int) -> dict[str, Any]:  # fmt: skip
    """Return mean NED, NED of single lines, TPF, accepted drafts per round, and identity with AR."""
    crops = held_out_crops(data, config)
    built = [prompts.build(Image.fromarray(crop.image), "text") for crop in crops]
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
    errors = [ned(text, crop.text) for text, crop in zip(texts, crops, strict=True)]
    single = [error for error, crop in zip(errors, crops, strict=True) if "\n" not in crop.text]
    drafted = results["self-spec"]
    n_forwards = sum(s.n_forwards for s in drafted)
    pairs = zip(drafted, results["ar"], strict=True)
    return {
        "val_ned": sum(errors) / len(errors),
        "val_ned_lines": sum(single) / max(1, len(single)),
        "val_tpf": sum(len(s.ids) - 1 for s in drafted) / max(1, n_forwards),
        "val_accepted": sum(s.n_accepted for s in drafted) / max(1, sum(s.n_rounds for s in drafted)),
        "val_identical": sum(a.ids == b.ids for a, b in pairs) / len(drafted),
        "val_example": f"{crops[0].text!r} -> {texts[0]!r}"[:200],
    }
