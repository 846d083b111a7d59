"""A pool for training out of region files: filtered, split, mixed and shuffled, in three stages on disk.

1. *Index*: every input file is read once, filtered, and what stays is written down as keys (`.unfinished/index`).
2. *Scatter*: the plan (`mixture.plan_pool`) gives every region its place; the input files are read again, and each
   region goes to the bucket of its place (`.unfinished/scatter`).
3. *Gather*: a bucket is read whole, put in order, and written as shards.

No stage holds more pictures than a bucket. All results of a stage are written atomically, one file a unit of work, so
that a run that was killed goes on with the unit that it was at.
"""

from __future__ import annotations

import shutil
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gravityocr.config import check_numbers, dump_config
from gravityocr.errors import ConfigError, InputError
from gravityocr.training.corpora.filters import FilterConfig
from gravityocr.training.corpora.mixture import (
    MissingTasksError,
    MixtureConfig,
    Numbers,
    PoolPlan,
    RegionIndex,
    SplitConfig,
    check_tasks,
    plan_pool,
)
from gravityocr.training.corpora.pool_folder import (
    REPORT,
    SPLITS,
    PoolStamp,
    finished_report,
    prepare_folder,
)
from gravityocr.training.corpora.pool_index import IndexedFile, IndexNotes, index_file, read_index
from gravityocr.training.corpora.pool_report import pool_report
from gravityocr.training.corpora.region_shards import (
    SUFFIX,
    TASKS,
    LabelledRegion,
    RegionFile,
    region_files,
    write_regions,
)
from gravityocr.training.corpora.shard_outputs import write_json

MEGABYTE = 10**6
_SCATTERED = ".scattered"
T = TypeVar("T")


@dataclass(frozen=True)
class PoolConfig:
    """What decides a pool.

    *Units*: `bucket_mb` megabytes of pictures are shuffled in memory at a time, `buffer_mb` gathered before they are
    written to buckets, both per process. `n_examples` removed regions a source and reason are kept in the report.
    With `checkpoint`, regions go whose target its tokenizer cannot write.
    """

    seed: int = 0
    shard_regions: int = 2048
    bucket_mb: int = 256
    buffer_mb: int = 256
    n_examples: int = 5
    checkpoint: str | None = None
    filters: FilterConfig = field(default_factory=FilterConfig)
    mixture: MixtureConfig = field(default_factory=MixtureConfig)
    validation: SplitConfig = field(default_factory=SplitConfig)

    def __post_init__(self) -> None:
        check_numbers(
            self, "", seed=(0, 2**63 - 1), shard_regions=(1, 10**6), bucket_mb=(1, 10**6), buffer_mb=(1, 10**6),
            n_examples=(0, 1000),
        )  # fmt: skip


@dataclass(frozen=True)
class _Bucket:
    """A stretch of the final order of a split; it begins with a shard."""

    split: str
    number: int
    start: int
    size: int

    @property
    def name(self) -> str:
        return f"{self.split}-{self.number:05d}"


@dataclass(frozen=True)
class _ScatterJob:
    """The rows of an input file that the pool takes, ascending, and the bucket of each."""

    file: Path
    folder: Path
    rows: Numbers
    buckets: Numbers
    names: tuple[str, ...]
    buffer_bytes: int


@dataclass(frozen=True)
class _GatherJob:
    """A bucket: the folders that hold its regions, and the places of each folder's regions within it."""

    bucket: _Bucket
    out: Path
    folders: tuple[Path, ...]
    places: tuple[Numbers, ...]
    shard_regions: int


def build_pool(
    inputs: Sequence[Path],
    out: Path,
    config: PoolConfig,
    *,
    processes: int = 1,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Write a pool and return its report, which is `pool.json` in it; a run that was killed goes on.

    The same call once more returns the report of the pool that is there.

    *Raises*: InputError where inputs cannot be read or too little is left (MissingTasksError: of some tasks nothing),
    ConfigError where `out` holds another pool, or an unfinished one of other settings, and `overwrite` is off.
    """
    files = _input_files(inputs, out)
    stamp = PoolStamp.of(files, _settings(config), config.checkpoint)
    finished = None if overwrite else finished_report(out, stamp)
    if finished is not None:
        say(f"{out} is there already, made of the same inputs with the same settings")
        return finished
    say(f"{len(files)} region files")
    _check_columns(files, config.mixture)
    work = prepare_folder(out, stamp, overwrite=overwrite)
    rules = config.filters, config.n_examples, config.checkpoint
    jobs = [IndexedFile(file, work / "index" / f"{number:06d}.npz", *rules) for number, file in enumerate(files)]
    for number, _ in enumerate(_spread(index_file, jobs, processes)):
        say(f"filtered {number + 1} of {len(files)}: {files[number]}")
    index, notes = read_index([job.out for job in jobs])
    plan = _planned(index, notes, config)
    say(f"{len(plan.train)} regions to train on, {len(plan.validation)} for validation")
    if not len(plan.validation):
        say("warning: no document is held out, so train cannot validate on this pool; raise validation.share")
    buckets = _buckets(index, plan, config)
    scatter = [*_scatter_jobs(files, work, index, plan, buckets, config)]
    for number, _ in enumerate(_spread(_scatter, scatter, processes)):
        say(f"scattered {number + 1} of {len(scatter)}")
    gather = [*_gather_jobs(out, scatter, index, plan, buckets, config)]
    for number, _ in enumerate(_spread(_gather, gather, processes)):
        say(f"shuffled {number + 1} of {len(gather)} buckets")
    report = pool_report(index, plan, notes, config.n_examples)
    weights = config.mixture.weights()
    for task, tally in report["mixture"].items():
        tally["wanted"] = round(weights[task] / sum(weights.values()), 6)
    report |= {"seed": config.seed, "settings": stamp.settings, "inputs": [str(file) for file in files]}
    report["made_of"] = stamp.mark
    write_json(out / REPORT, report)
    shutil.rmtree(work)
    return report


def _input_files(inputs: Sequence[Path], out: Path) -> list[Path]:
    files = list(dict.fromkeys(file.resolve() for folder in inputs for file in region_files(folder)))
    inside = [file for file in files if out.resolve() in file.parents]
    if inside:
        raise ConfigError(f"--out {out} holds the input {inside[0]}; choose another folder for the pool")
    around = [folder for folder in inputs if folder.is_dir() and folder.resolve() in out.resolve().parents]
    if around:
        raise ConfigError(f"--out {out} lies in the input {around[0]} and would be read as one; choose another folder")
    return files


def _check_columns(files: Sequence[Path], mixture: MixtureConfig) -> None:
    """Check that the mixture can be had at all, by columns alone, before anything is filtered."""
    ready: Counter[str] = Counter()
    pending: Counter[str] = Counter()
    for file in files:
        columns = RegionFile(file).columns("task", "target_origin")
        for (task, origin), n in Counter(zip(columns["task"], columns["target_origin"], strict=True)).items():
            (pending if origin == "pending" else ready)[task] += n
    try:
        check_tasks({task: ready[task] for task in TASKS}, mixture)
    except MissingTasksError as error:
        lost = [f"{pending[task]} {task}" for task in error.tasks if pending[task]]
        why = f"pending are {', '.join(lost)}: gravityocr data transcribe writes their targets"
        raise error.because(why if lost else "the inputs hold none") from error


def _planned(index: RegionIndex, notes: IndexNotes, config: PoolConfig) -> PoolPlan:
    try:
        return plan_pool(index, config.seed, config.mixture, config.validation)
    except MissingTasksError as error:
        removed: Counter[str] = Counter()
        for (_, task, _, reason), n in notes.removed.items():
            if task in error.tasks:
                removed[reason] += n
        why = [f"removed were {', '.join(f'{n} {reason}' for reason, n in removed.most_common())}"] if removed else []
        raise error.because("; ".join([*([error.why] if error.why else []), *why])) from error


def _settings(config: PoolConfig) -> dict[str, Any]:
    return tomllib.loads(dump_config(config))


def _spread(work: Callable[[T], None], jobs: Sequence[T], processes: int) -> Iterator[None]:
    """Do jobs one after the other, or in processes of their own; yield once a job, in their order."""
    if processes <= 1 or len(jobs) < 2:
        yield from map(work, jobs)
        return
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=get_context("spawn")) as pool:
        try:
            yield from pool.map(work, jobs)
        finally:
            pool.shutdown(cancel_futures=True)


def _buckets(index: RegionIndex, plan: PoolPlan, config: PoolConfig) -> list[_Bucket]:
    buckets = []
    for split, order in zip(SPLITS, (plan.train, plan.validation), strict=True):
        if not len(order):
            continue
        mean_bytes = max(1.0, float(index.n_bytes[order].mean()))
        n_shards = max(1, int(config.bucket_mb * MEGABYTE / mean_bytes) // config.shard_regions)
        size = n_shards * config.shard_regions
        buckets += [
            _Bucket(split, number, start, min(size, len(order) - start))
            for number, start in enumerate(range(0, len(order), size))
        ]
    return buckets


def _placed(order: Numbers, bucket: _Bucket, index: RegionIndex) -> tuple[Numbers, Numbers]:
    """Return the entries of a bucket as they lie in the input files, and the place of each in the bucket."""
    entries = order[bucket.start : bucket.start + bucket.size]
    places = np.lexsort((index.row[entries], index.unit[entries]))
    return entries[places], places


def _scatter_jobs(
    files: Sequence[Path],
    work: Path,
    index: RegionIndex,
    plan: PoolPlan,
    buckets: Sequence[_Bucket],
    config: PoolConfig,
) -> Iterator[_ScatterJob]:
    bucket_of = np.full(len(index), -1, dtype=np.int64)
    for number, bucket in enumerate(buckets):
        order = plan.train if bucket.split == "train" else plan.validation
        bucket_of[order[bucket.start : bucket.start + bucket.size]] = number
    # Entries of the index lie in the order of the files and their rows.
    chosen = np.flatnonzero(bucket_of >= 0)
    edges = np.searchsorted(index.unit[chosen], np.arange(len(files) + 1))
    names = tuple(bucket.name for bucket in buckets)
    for unit, file in enumerate(files):
        mine = chosen[edges[unit] : edges[unit + 1]]
        folder = work / "scatter" / f"{unit:06d}"
        rows = index.row[mine].astype(np.int64)
        yield _ScatterJob(file, folder, rows, bucket_of[mine], names, config.buffer_mb * MEGABYTE)


def _scatter(job: _ScatterJob) -> None:
    if job.folder.exists() or not len(job.rows):
        return
    part = job.folder.with_name(job.folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    held: dict[int, list[LabelledRegion]] = {}
    n_bytes = n_flushed = 0
    wanted = dict(zip(job.rows.tolist(), job.buckets.tolist(), strict=True))
    for row, region in enumerate(RegionFile(job.file)):
        if row not in wanted:
            continue
        held.setdefault(wanted[row], []).append(region)
        n_bytes += len(region.image)
        if n_bytes >= job.buffer_bytes:
            _flush(part, held, job.names, n_flushed)
            n_bytes, n_flushed = 0, n_flushed + 1
    _flush(part, held, job.names, n_flushed)
    part.replace(job.folder)


def _flush(folder: Path, held: dict[int, list[LabelledRegion]], names: Sequence[str], turn: int) -> None:
    for bucket, regions in held.items():
        write_regions(folder / names[bucket] / f"{turn:06d}{_SCATTERED}", regions)
    held.clear()


def _gather_jobs(
    out: Path,
    scatter: Sequence[_ScatterJob],
    index: RegionIndex,
    plan: PoolPlan,
    buckets: Sequence[_Bucket],
    config: PoolConfig,
) -> Iterator[_GatherJob]:
    for bucket in buckets:
        entries, places = _placed(plan.train if bucket.split == "train" else plan.validation, bucket, index)
        edges = np.searchsorted(index.unit[entries], np.arange(len(scatter) + 1))
        units = [unit for unit in range(len(scatter)) if edges[unit] < edges[unit + 1]]
        folders = tuple(scatter[unit].folder for unit in units)
        yield _GatherJob(
            bucket, out, folders, tuple(places[edges[u] : edges[u + 1]] for u in units), config.shard_regions
        )


def _gather(job: _GatherJob) -> None:
    bucket, size = job.bucket, job.shard_regions
    starts = range(0, bucket.size, size)
    shards = [job.out / bucket.split / f"pool-{(bucket.start + start) // size:05d}{SUFFIX}" for start in starts]
    scattered = [sorted((folder / bucket.name).glob(f"*{_SCATTERED}")) for folder in job.folders]
    if not all(shard.exists() for shard in shards):
        regions: list[LabelledRegion | None] = [None] * bucket.size
        for files, places in zip(scattered, job.places, strict=True):
            found = [region for file in files for region in RegionFile(file)]
            if len(found) != len(places):
                raise InputError(f"{job.out} lacks regions of the unfinished pool; begin anew with --overwrite")
            for place, region in zip(places.tolist(), found, strict=True):
                regions[place] = region
        for start, shard in zip(starts, shards, strict=True):
            write_regions(shard, [region for region in regions[start : start + size] if region is not None])
    for file in (file for files in scattered for file in files):
        file.unlink()
