"""The mean sample of a run, counted in its pool where that is here, and what of the pool the run leaves out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from gravityocr.document import Task
from gravityocr.errors import GravityOCRError
from gravityocr.model.checkpoint import (
    BlockDiffusion,
    parse_config,
    read_block_diffusion,
    read_image_spec,
    read_tokenizer,
    resolve_checkpoint,
)
from gravityocr.model.prompt import PromptBuilder
from gravityocr.training.corpora.region_shards import RegionFile
from gravityocr.training.cost import BatchStats, SampleShape, sample_stats
from gravityocr.training.piece_sizes import PieceFit, oversized_regions
from gravityocr.training.pool_tokens import PoolTokens, count_pool_tokens, pool_files
from gravityocr.training.row_plan import plan_rows, waste
from gravityocr.training.run_config import TrainConfig
from gravityocr.training.run_record import reason_kind

SYNTHETIC_SAMPLE = SampleShape(n_prompt=8, n_cells=40, n_response=72)


@dataclass(frozen=True)
class Samples:
    """The mean sample of a run and where its figures are from; where its pool was counted, what was found there.

    `n_regions` are all of the pool's; `n_counted` those of its first file, where `left_out` counts by reason what
    cannot be trained on and `fits` by task what is larger than the base's pieces. `problem` says why nothing of that
    file can be trained on.
    """

    stats: BatchStats
    source: str
    n_regions: int | None = None
    waste: float | None = None
    n_counted: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    fits: Mapping[Task, PieceFit] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True)
class _Pool:
    """A pool and the base that reads it."""

    files: Sequence[RegionFile]
    prompts: PromptBuilder
    diffusion: BlockDiffusion


def mean_sample(config: TrainConfig) -> Samples:
    """Return the mean sample: counted in the pool where it and the tokenizer are here, else assumed."""
    shape = _assumed(config)
    stats = sample_stats(shape, config.noise.block_size)
    if config.data.pool is None:
        return Samples(stats, f"assumed for synthetic crops: {_told(shape)}")
    assumed = Samples(stats, f"assumed: {_told(shape)}")
    if config.train.base is None:
        return assumed  # there is no tokenizer to count with
    try:
        pool = _opened(config.data.pool, config.train.base)
    except (GravityOCRError, ImportError, OSError, ValueError):
        return assumed  # the checks tell what is missing
    first, fits = pool.files[0], dict[Task, PieceFit]()
    try:
        fits = oversized_regions([first], pool.diffusion)
        index = count_pool_tokens([first], pool.prompts, config.noise, config.packing)
    except GravityOCRError as error:
        return replace(assumed, n_counted=len(first), fits=fits, problem=str(error))
    return _counted(config, pool, index, fits)


def _assumed(config: TrainConfig) -> SampleShape:
    shape, noise = SampleShape() if config.data.pool is not None else SYNTHETIC_SAMPLE, config.noise
    n_response = shape.n_response - shape.n_eos + noise.n_eos
    return replace(shape, n_response=n_response, n_eos=noise.n_eos, n_corrupt=noise.n_corrupt)


def _told(shape: SampleShape) -> str:
    prefix, n_copies = f"{shape.n_prompt + shape.n_cells:g} of prompt and image", 1 + shape.n_corrupt
    return f"{prefix}, and {n_copies} times {shape.n_response - shape.n_eos:g} of response + {shape.n_eos} EOS"


def _opened(pool: str, base: str) -> _Pool:
    """Open a pool and its base.

    *Raises*: GravityOCRError, ImportError, OSError or ValueError where something of them is not here.
    """
    files = [RegionFile(file) for file in pool_files(pool, "train")]
    folder = resolve_checkpoint(base)
    vocab_size = parse_config(json.loads((folder / "config.json").read_text(encoding="utf-8"))).text.vocab_size
    tokenizer = read_tokenizer(folder, vocab_size)
    prompts = PromptBuilder(tokenizer, read_image_spec(folder))
    return _Pool(files, prompts, read_block_diffusion(folder, tokenizer, vocab_size))


def _counted(config: TrainConfig, pool: _Pool, index: PoolTokens, fits: Mapping[Task, PieceFit]) -> Samples:
    """Take the mean over the regions of the pool's first file that can be trained on."""
    noise, first = config.noise, pool.files[0]
    n_prompt = pool.prompts.from_patches(torch.zeros(0, 1), (0, 0)).ids.numel()
    used = [number for number, n_response in enumerate(index.n_response.tolist()) if n_response >= 0]
    total = BatchStats()
    for number in used:
        n_prefix, n_response = int(index.n_prefix[number]), int(index.n_response[number])
        shape = SampleShape(n_prompt, n_prefix - n_prompt, n_response + noise.n_eos, noise.n_eos, noise.n_corrupt)
        total = total + sample_stats(shape, noise.block_size)
    rows = plan_rows(((number, index.cost(number, noise)) for number in used), config.packing)
    reasons = Counter(reason_kind(one.reason) for one in index.skipped)
    source = f"counted in {first.file.name}"
    if index.skipped:
        source += f", {len(index.skipped):,} of whose {len(first):,} regions cannot be trained on"
    return Samples(
        total.times(1 / len(used)), source, sum(map(len, pool.files)), waste(rows, config.packing.row_tokens),
        len(first), dict(reasons.most_common()), fits,
    )  # fmt: skip
