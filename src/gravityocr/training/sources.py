"""Endless, seeded streams of training samples: sample i of step s is the same on every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer

from gravityocr.config import check_numbers
from gravityocr.model.prompt import Prompt, PromptBuilder, token_id
from gravityocr.training.glyphs import GlyphTruth, glyph_truth
from gravityocr.training.noise import NoiseConfig, corrupt
from gravityocr.training.packing import Sample, fill_response
from gravityocr.training.synthetic.text_crops import CropConfig, TextCropRenderer, TextSample


@dataclass(frozen=True)
class DataConfig:
    """Where the fonts and the corpus lie, and how fast crops become difficult.

    Difficulty rises from 0 to 1 over `n_ramp_samples`, beginning when the glyph accuracy passes `ramp_from`.
    """

    folder: str = "data"
    ramp_from: float = 0.65
    n_ramp_samples: int = 12000
    crops: CropConfig = field(default_factory=CropConfig)

    def __post_init__(self) -> None:
        check_numbers(self, "data.", ramp_from=(-1e6, 1e6), n_ramp_samples=(0, 10**12))


@dataclass(frozen=True)
class StepData:
    """The samples of one step of one process, and where their characters lie."""

    samples: tuple[Sample, ...]
    truths: tuple[GlyphTruth, ...]


class SyntheticSource:
    """Render, tokenize and corrupt synthetic crops."""

    def __init__(self, config: DataConfig, prompts: PromptBuilder, noise: NoiseConfig, eos_id: int) -> None:
        self.renderer = TextCropRenderer(Path(config.folder), split="train", config=config.crops)
        self.prompts = prompts
        self.noise = noise
        self.eos_id = eos_id

    def draw(self, seed: Sequence[int], difficulty: float) -> TextSample:
        """Render one crop."""
        return self.renderer.sample(np.random.default_rng(list(seed)), difficulty)

    def step(self, seed: Sequence[int], n_samples: int, difficulty: float) -> StepData:
        """Return `n_samples` samples, a function of `seed` and `difficulty` alone."""
        generator = torch.Generator().manual_seed(int(np.random.SeedSequence(list(seed)).generate_state(1)[0]))
        samples, truths = [], []
        for i in range(n_samples):
            crop = self.draw([*seed, i], difficulty)
            prompt = self.prompts.build(Image.fromarray(crop.image), "text")
            ids = encode_characters(self.prompts.tokenizer, crop.text)
            response, n_supervised = fill_response(ids, self.eos_id, self.noise.block_size)
            corruption = corrupt(response.numel(), self.noise, generator)
            samples.append(Sample(prompt, response, n_supervised, corruption))
            truths.append(self._truth(crop, ids, prompt))
        return StepData(tuple(samples), tuple(truths))

    def _truth(self, crop: TextSample, ids: list[int], prompt: Prompt) -> GlyphTruth:
        spec = self.prompts.spec
        rows, columns = (side // spec.merge_size for side in prompt.grid)
        breaks = torch.tensor([character == "\n" for character in crop.text], dtype=torch.bool)
        centers = torch.from_numpy(crop.centers_px)
        cell_px = spec.patch_size * spec.merge_size
        return glyph_truth(ids, centers, breaks, columns, rows, cell_px, self.eos_id)


def encode_characters(tokenizer: Tokenizer, text: str) -> list[int]:
    """Encode text character by character.

    *Raises*: CheckpointError where a character is unknown: labels must be exact.
    """
    return [token_id(tokenizer, character) for character in text]
