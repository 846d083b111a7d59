"""Where training rows come from: the protocol, and the endless, seeded stream of synthetic crops."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError, InputError
from gravityocr.model.formula_pieces import FormulaPieceSpec
from gravityocr.model.prompt import Prompt, PromptBuilder, token_id
from gravityocr.training.glyphs import GlyphTruth, glyph_truth, neighbouring_cells
from gravityocr.training.joint import RowData
from gravityocr.training.noise import NoiseConfig, corrupt
from gravityocr.training.packing import Sample, fill_response
from gravityocr.training.synthetic.shards import RenderedSample, Shard, shard_files
from gravityocr.training.synthetic.text_crops import CropConfig, TextCropRenderer
from gravityocr.training.synthetic.variation import VariationConfig, vary

MAX_REDRAWS = 50


@dataclass(frozen=True)
class ShardShare:
    """A folder of shards, below the data's folder, and the share of the samples that are drawn from it."""

    folder: str
    share: float

    def __post_init__(self) -> None:
        check_numbers(self, "data.shards.", share=(0.0, 1.0))


@dataclass(frozen=True)
class DataConfig:
    """Where the samples come from: a pool of regions, or synthetic crops.

    `pool` is a folder that `gravityocr data pool` wrote (`sample` is the shipped one). Without it crops are drawn:
    `folder` holds the fonts, the corpus and the shards; what the shares of `shards` leave are text crops, drawn on the
    fly. Difficulty rises from 0 to 1 over `n_ramp_samples`, beginning when the glyph accuracy passes `ramp_from`.
    Samples with a longer target than `max_target_tokens` are left out.
    """

    pool: str | None = None
    folder: str = "data"
    ramp_from: float = 0.65
    n_ramp_samples: int = 12000
    max_target_tokens: int = 256
    crops: CropConfig = field(default_factory=CropConfig)
    shards: tuple[ShardShare, ...] = ()
    variation: VariationConfig = field(default_factory=VariationConfig)

    def __post_init__(self) -> None:
        check_numbers(
            self, "data.", ramp_from=(-1e6, 1e6), n_ramp_samples=(0, 10**12), max_target_tokens=(1, 65536)
        )
        shares = [one.share for one in self.shards]
        if sum(shares) > 1.0 + 1e-9:
            raise ConfigError(f"data.shards: the shares {shares} must not exceed 1 together")


@dataclass(frozen=True)
class Done:
    """What of a run is done: its steps, and the rows of all processes that they took."""

    steps: int = 0
    rows: int = 0


class RowSource(Protocol):
    """What a trainer draws rows from. A ticket names the rows of one step in one process; it is small and picklable."""

    def tickets(self, done: Done, rank: int, world: int, accumulation: int) -> Iterator[Any]:
        """Return the tickets of a process, without end, behind what is done already."""
        ...

    def rows(self, ticket: Any) -> tuple[RowData, ...]:
        """Return the rows of a ticket, a function of the ticket and the source's difficulty alone."""
        ...

    def set_difficulty(self, difficulty: float) -> None:
        """Make the next samples that difficult, where samples are drawn."""
        ...


SyntheticTicket = tuple[tuple[int, int], ...]
"""The step and the number within the step of each row."""


class SyntheticSource:
    """Draw, tokenize and corrupt synthetic crops."""

    def __init__(
        self, config: DataConfig, prompts: PromptBuilder, noise: NoiseConfig, eos_id: int, seed: int = 0,
        n_samples: int = 16,
    ) -> None:  # fmt: skip
        """Load the fonts, the corpus and the shards.

        *Raises*: InputError where they are missing, broken or empty; ConfigError where a shard holds tokens that the
        tokenizer lacks.
        """
        self.config = config
        self.renderer = TextCropRenderer(Path(config.folder), split="train", config=config.crops)
        self.shards = [
            _read_shards(Path(config.folder) / one.folder, prompts.tokenizer, config.max_target_tokens)
            for one in config.shards
        ]
        self.prompts = prompts
        self.noise = noise
        self.eos_id = eos_id
        self.seed, self.n_samples = seed, n_samples
        # Shared, so that loader workers see it rise.
        self.difficulty = torch.zeros(()).share_memory_()

    def tickets(self, done: Done, rank: int, world: int, accumulation: int) -> Iterator[SyntheticTicket]:
        """Return the step and the number of each row of a process."""
        for step in count(done.steps):
            yield tuple((step, rank + world * micro) for micro in range(accumulation))

    def rows(self, ticket: SyntheticTicket) -> tuple[RowData, ...]:
        """Draw the rows of a ticket."""
        return tuple(self.row([self.seed, *place], self.n_samples, float(self.difficulty)) for place in ticket)

    def set_difficulty(self, difficulty: float) -> None:
        """Make the next crops that difficult."""
        self.difficulty.fill_(difficulty)

    def draw(self, seed: Sequence[int], difficulty: float) -> RenderedSample:
        """Return one crop.

        *Raises*: ConfigError where the shards hold nothing that fits a piece.
        """
        rng = np.random.default_rng(list(seed))
        roll = rng.random()
        for one, shards in zip(self.config.shards, self.shards, strict=True):
            if roll < one.share:
                return self._cached(shards, one.folder, rng, difficulty)
            roll -= one.share
        crop = self.renderer.sample(rng, difficulty)
        centers = crop.centers_px.copy()
        centers[[character == "\n" for character in crop.text]] = np.nan
        return RenderedSample("text", crop.image, tuple(crop.text), centers, "text crops")

    def _cached(self, shards: list[Shard], folder: str, rng: np.random.Generator, difficulty: float) -> RenderedSample:
        for _ in range(MAX_REDRAWS):
            shard = shards[int(rng.integers(len(shards)))]
            sample = shard[int(rng.integers(len(shard)))]
            if len(sample.tokens) > self.config.max_target_tokens:
                continue
            varied = vary(sample, rng, difficulty, self.config.variation, FormulaPieceSpec())
            if varied is not None:
                return varied
        what = f"{folder} holds hardly any crop that fits a piece"
        raise ConfigError(f"data.shards: {what}; raise data.max_target_tokens; gravityocr data stats tells more")

    def row(self, seed: Sequence[int], n_samples: int, difficulty: float) -> RowData:
        """Return `n_samples` samples, a function of `seed` and `difficulty` alone."""
        generator = torch.Generator().manual_seed(int(np.random.SeedSequence(list(seed)).generate_state(1)[0]))
        samples, truths = [], []
        for i in range(n_samples):
            crop = self.draw([*seed, i], difficulty)
            prompt = self.prompts.build(Image.fromarray(crop.image), crop.task)
            ids = encode_tokens(self.prompts.tokenizer, crop.tokens)
            response, n_supervised = fill_response(ids, self.eos_id, self.noise.n_eos)
            corruption = corrupt(response.numel(), self.noise, generator)
            name = f"{crop.source}, {' '.join(map(str, [*seed, i]))}"
            samples.append(Sample(prompt, response, n_supervised, corruption, name))
            truths.append(self._truth(crop, ids, prompt))
        return RowData(tuple(samples), tuple(truths))

    def _truth(self, crop: RenderedSample, ids: list[int], prompt: Prompt) -> GlyphTruth:
        spec = self.prompts.spec
        rows, columns = (side // spec.merge_size for side in prompt.grid)
        inkless = torch.tensor([math.isnan(x) for x in crop.centers_px[:, 0].tolist()], dtype=torch.bool)
        centers = torch.from_numpy(np.nan_to_num(crop.centers_px))
        cell_px = spec.patch_size * spec.merge_size
        truth = glyph_truth(ids, centers, inkless, columns, rows, cell_px, self.eos_id)
        return replace(truth, cell=neighbouring_cells(crop.tokens, truth.cell))


def _read_shards(folder: Path, tokenizer: Tokenizer, most_tokens: int) -> list[Shard]:
    """Return the shards of a folder that hold samples."""
    shards = [shard for shard in map(Shard, shard_files(folder)) if len(shard)]
    if not shards:
        raise InputError(f"the shards below {folder} are empty; make some with gravityocr data synth")
    for shard in shards:
        unknown = sorted(token for token in shard.tokens_up_to(most_tokens) if tokenizer.token_to_id(token) is None)
        if unknown:
            some = ", ".join(map(repr, unknown[:5])) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
            what = f"{shard.file} holds tokens outside of the vocabulary: {some}"
            raise ConfigError(f"{what}; take it out of data.shards, or make it again with gravityocr data synth")
    return shards


def encode_tokens(tokenizer: Tokenizer, tokens: Sequence[str]) -> list[int]:
    """Return the ids of target tokens.

    *Raises*: CheckpointError where one is unknown: labels must be exact.
    """
    return [token_id(tokenizer, token) for token in tokens]
