"""Remove the regions of a pool that also occur in a benchmark, and tell which, why and how much of them.

The benchmark is indexed once, as hashes; the pool streams past the index, of its pictures only those that are kept. A
shard that an earlier run wrote is kept where neither the benchmark, the settings nor its source changed.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, get_args

from gravityocr.errors import InputError
from gravityocr.training.corpora.benchmark_index import BenchmarkIndex, Criterion, Match
from gravityocr.training.corpora.benchmark_items import Benchmark
from gravityocr.training.corpora.region_shards import RegionFile, write_regions
from gravityocr.training.corpora.shard_outputs import make_out, mirrored_files, read_side_json, side_file, write_json

SHARD_REPORT_SUFFIX = ".decontamination.json"
REPORT_NAME = "decontamination.json"
POOL_REPORT_NAME = "pool.json"
MOST_NAMED = 1000  # removed regions that the report names; those of the shards name all
MOST_NEAR = 100  # near misses that a report names: those of the largest shares


@dataclass(frozen=True)
class ShardReport:
    """What became of a shard; `removed` and `near_misses` are rows of the report.

    `n_unread` counts the regions without a target, of which only the document is known; `reason` tells why a shard
    failed.
    """

    file: str
    status: Literal["written", "kept", "failed"]
    n_regions: int = 0
    n_unread: int = 0
    n_near_misses: int = 0
    by_source: dict[str, int] = field(default_factory=dict)
    removed: tuple[dict[str, Any], ...] = ()
    near_misses: tuple[dict[str, Any], ...] = ()
    reason: str = ""


def decontaminate(folder: Path, out: Path, index: BenchmarkIndex, processes: int = 1) -> Iterator[ShardReport]:
    """Write the region files below a folder without what the benchmarks hold; yield a report for each, in order.

    A shard that cannot be read is reported, and the others go on.

    *Raises*: InputError where there is no region file, and where a process is killed; ConfigError where `out` and the
    folder lie within one another, or nothing can be written to `out`.
    """
    files = mirrored_files(folder, out)
    make_out(out, out)
    work = partial(_shard_report, index=index)
    if processes <= 1 or len(files) < 2:
        yield from map(work, files, files.values())
        return
    with ProcessPoolExecutor(min(processes, len(files)), mp_context=get_context("spawn")) as pool:
        try:
            yield from pool.map(work, files, files.values())
        except BrokenProcessPool as error:
            what = "a process was killed (out of memory?); run this again with fewer --processes"
            raise InputError(f"{folder}: {what}, shards that are done are kept") from error
        finally:
            pool.shutdown(cancel_futures=True)


def _shard_report(file: Path, out: Path, index: BenchmarkIndex) -> ShardReport:
    try:
        return _decontaminate_shard(file, out, index)
    except InputError as error:
        return ShardReport(str(file), "failed", reason=str(error))


def _decontaminate_shard(file: Path, out: Path, index: BenchmarkIndex) -> ShardReport:
    report_file = side_file(out, SHARD_REPORT_SUFFIX)
    source = RegionFile(file)
    state = file.stat()
    stamp = {"fingerprint": index.fingerprint, "n_bytes": state.st_size, "mtime_ns": state.st_mtime_ns}
    earlier = read_side_json(report_file)
    if earlier is not None and out.exists() and all(earlier.get(key) == value for key, value in stamp.items()):
        return _report_of(file, earlier)
    report_file.unlink(missing_ok=True)
    report, gone = _examine(file, source, index)
    if gone:
        write_regions(out, (region for number, region in enumerate(source) if number not in gone))
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        part = out.with_name(out.name + ".part")
        shutil.copyfile(file, part)
        part.replace(out)
    write_json(report_file, stamp | asdict(report))
    return report


def _report_of(file: Path, row: dict[str, Any]) -> ShardReport:
    counts = {key: row[key] for key in ("n_regions", "n_unread", "n_near_misses", "by_source")}
    return ShardReport(
        str(file), "kept", removed=tuple(row["removed"]), near_misses=tuple(row["near_misses"]), **counts
    )


def _examine(file: Path, source: RegionFile, index: BenchmarkIndex) -> tuple[ShardReport, frozenset[int]]:
    """Return the report on a shard and the numbers of the regions that go; no picture is read."""
    columns = source.columns("region_id", "task", "target", "source", "doc_id")
    removed: dict[int, dict[str, Any]] = {}
    near: list[dict[str, Any]] = []
    n_unread = 0
    for number, (name, task, target, origin, doc_id) in enumerate(zip(*columns.values(), strict=True)):
        n_unread += not target
        matches = list(index.matches(doc_id, task, target))
        if matches:
            row = {"region_id": name, "source": origin, "task": task, **_row(matches)}
            if row["criteria"]:
                removed[number] = row
            else:
                near.append(row)
    by_source = dict(Counter(columns["source"]))
    rows, nearest = tuple(removed.values()), tuple(_nearest(near))
    report = ShardReport(str(file), "written", len(source), n_unread, len(near), by_source, rows, nearest)
    return report, frozenset(removed)


def _row(matches: Sequence[Match]) -> dict[str, Any]:
    """Return the row of a region: all criteria that remove it, and the match that tells most."""
    match = max(matches, key=lambda one: (one.is_removal, one.criterion != "document", one.share))
    return {
        "criteria": [one.criterion for one in matches if one.is_removal], "criterion": match.criterion,
        "benchmark_item": match.item, "share": round(match.share, 4), "n_common": match.n_common,
        "example": match.example[:200],
    }  # fmt: skip


def _nearest(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (-row["share"], row["region_id"]))[:MOST_NEAR]


def summary(reports: Iterable[ShardReport], benchmarks: Sequence[Benchmark], index: BenchmarkIndex) -> dict[str, Any]:
    """Return the report on all shards: what was removed, by criterion and source, and what nearly was."""
    criteria = dict.fromkeys(get_args(Criterion), 0)
    sources: dict[str, dict[str, int]] = {}
    named: list[dict[str, Any]] = []
    near: list[dict[str, Any]] = []
    shards: list[dict[str, Any]] = []
    n_regions = n_unread = n_near = n_removed = 0
    for report in reports:
        n_regions += report.n_regions
        n_removed += len(report.removed)
        n_unread += report.n_unread
        for source, count in report.by_source.items():
            sources.setdefault(source, {"n_regions": 0, "n_removed": 0})["n_regions"] += count
        for row in report.removed:
            for criterion in row["criteria"]:
                criteria[criterion] += 1
            sources[row["source"]]["n_removed"] += 1
        named += report.removed[: MOST_NAMED - len(named)]
        n_near += report.n_near_misses
        near = _nearest([*near, *report.near_misses])
        told = {"n_regions": report.n_regions, "n_removed": len(report.removed)}
        shards.append({"file": report.file, "status": report.status, **told, "reason": report.reason or None})
    return {
        "benchmarks": [
            {
                "file": str(one.file), "sha256": one.sha256, "n_documents": len(one.doc_ids),
                "n_items": dict(Counter(item.task for item in one.items)),
            }
            for one in benchmarks
        ],
        "coverage": {task: asdict(coverage) for task, coverage in index.coverage.items()},
        "config": asdict(index.config), "n_regions": n_regions, "n_removed": n_removed,
        "n_unread": n_unread, "n_near_misses": n_near, "by_criterion": criteria,
        "by_source": dict(sorted(sources.items())), "removed": named, "near_misses": near,
        "n_shards": len(shards), "n_shards_failed": sum(shard["status"] == "failed" for shard in shards),
        "shards": shards,
    }  # fmt: skip


def write_reports(folder: Path, out: Path, report: dict[str, Any]) -> None:
    """Write the report; where the folder is a pool, its own report goes along with what was removed from it."""
    write_json(out / REPORT_NAME, report)
    pool = read_side_json(folder / POOL_REPORT_NAME) if folder.is_dir() else None
    if pool is not None:
        told = ("benchmarks", "config", "n_regions", "n_removed", "by_criterion", "by_source")
        write_json(out / POOL_REPORT_NAME, pool | {"decontamination": {key: report[key] for key in told}})
