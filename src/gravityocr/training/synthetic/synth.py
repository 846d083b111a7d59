"""Fill a folder with shards: which samples each of them holds depends on its number and the seed alone."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError, InputError
from gravityocr.training.synthetic.fonts import Split
from gravityocr.training.synthetic.formula_crops import make_formula_samples
from gravityocr.training.synthetic.math_text_crops import make_math_text_samples
from gravityocr.training.synthetic.shards import SUFFIX, RenderedSample, Shard, write_shard
from gravityocr.training.synthetic.table_crops import make_table_samples
from gravityocr.training.synthetic.text_crops import TextCropRenderer

SynthKind = Literal["formulas", "math-text", "tables", "text"]
SYNTH_KINDS: tuple[SynthKind, ...] = get_args(SynthKind)
MAX_PROCESSES = 256
SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True)
class SynthConfig:
    """Say what to render: `n` samples (of tables: whole tables, several pieces each), `shard_size` of them a shard."""

    kind: SynthKind
    n: int
    seed: int = 0
    split: Split = "train"
    shard_size: int = 1500

    def __post_init__(self) -> None:
        check_numbers(self, "synth ", n=(1, 100_000_000), seed=(0, 2**32), shard_size=(1, 100_000))
        if self.kind not in SYNTH_KINDS:
            raise ConfigError(f"--kind {self.kind!r} is unknown; choose one of {', '.join(SYNTH_KINDS)}")
        if self.split not in SPLITS:
            raise ConfigError(f"--split {self.split!r} is unknown; choose one of {', '.join(SPLITS)}")

    @property
    def name(self) -> str:
        """Return what the names of the shards begin with."""
        return f"{self.kind}-{self.split}-{self.seed}"

    @property
    def n_shards(self) -> int:
        """Return how many shards hold the samples."""
        return -(-self.n // self.shard_size)


def synthesize(config: SynthConfig, data_dir: Path, out: Path, processes: int) -> Iterator[tuple[Path, int | None]]:
    """Write the shards that are not there yet; yield each with its number of samples, None for one that was there.

    *Raises*: InputError where the data is missing or `out` holds shards of the same name but other settings, or
    broken ones; ConfigError for a wrong number of processes, or where nothing can be written to `out`.
    """
    if not 1 <= processes <= MAX_PROCESSES:
        raise ConfigError(f"--processes {processes}: choose 1 to {MAX_PROCESSES}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        _claim(config, out)
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be written ({error.strerror}); choose another folder") from error
    missing: list[int] = []
    for number in range(config.n_shards):
        file = _shard_file(config, out, number)
        if file.is_file():
            _check_shard(file)
            yield file, None
        else:
            missing.append(number)
    if processes == 1 or len(missing) < 2:
        for number in missing:
            yield _write(config, data_dir, out, number)
        return
    # Forked children would inherit PDFium's state and the locks of its threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(missing)), mp_context=context) as pool:
        for job in as_completed([pool.submit(_write, config, data_dir, out, number) for number in missing]):
            yield job.result()


def make_samples(config: SynthConfig, data_dir: Path, number: int) -> Iterator[RenderedSample]:
    """Yield the samples of shard `number`.

    *Raises*: InputError where the data is missing; ConfigError where a program is.
    """
    n = min(config.shard_size, config.n - number * config.shard_size)
    seed = int(np.random.SeedSequence((config.seed, number)).generate_state(1)[0])
    if config.kind == "formulas":
        yield from make_formula_samples(data_dir, config.split, seed, n)
    elif config.kind == "math-text":
        yield from make_math_text_samples(data_dir, config.split, seed, n)
    elif config.kind == "tables":
        yield from make_table_samples(data_dir, config.split, seed, n)
    else:
        renderer, rng = TextCropRenderer(data_dir, config.split), np.random.default_rng(seed)
        for _ in range(n):
            sample = renderer.sample(rng, 0.0)
            yield RenderedSample("text", sample.image, tuple(sample.text), sample.centers_px, "corpus")


def _shard_file(config: SynthConfig, out: Path, number: int) -> Path:
    return out / f"{config.name}-{number:04d}{SUFFIX}"


def _check_shard(file: Path) -> None:
    """Refuse a broken shard: it must not count as made."""
    try:
        Shard(file)
    except InputError as error:
        raise InputError(f"{error}: delete that file, and run this again") from error


def _write(config: SynthConfig, data_dir: Path, out: Path, number: int) -> tuple[Path, int]:
    samples = list(make_samples(config, data_dir, number))
    file = _shard_file(config, out, number)
    write_shard(file, samples)
    return file, len(samples)


def _claim(config: SynthConfig, out: Path) -> None:
    """Note the settings of a series of shards, or compare them with the note of an earlier run.

    More samples of the same series are fine as long as its last shard was full, or none was made.
    """
    note = out / f"{config.name}.json"
    settings = asdict(config)
    if note.is_file():
        try:
            before = SynthConfig(**json.loads(note.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                f"{note} cannot be read ({error}); delete the shards named like it and the file"
            ) from error
        grows = config.n >= before.n and (before.n % before.shard_size == 0 or config.n == before.n)
        if (before.shard_size != config.shard_size or not grows) and any(out.glob(f"{config.name}-*{SUFFIX}")):
            raise InputError(
                f"{out} holds {config.name} with n {before.n} and shard size {before.shard_size}; "
                "choose another --out or --seed, or the same numbers to go on"
            )
    note.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
