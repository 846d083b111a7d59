"""`gravityocr data decontaminate`: remove the regions that also occur in a benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from gravityocr.commands.options import Json, console
from gravityocr.config import load_config
from gravityocr.errors import InputError
from gravityocr.training.corpora import decontamination
from gravityocr.training.corpora.benchmark_index import BenchmarkIndex, Coverage, DecontaminationConfig
from gravityocr.training.corpora.benchmark_items import read_benchmark
from gravityocr.training.corpora.decontamination import REPORT_NAME, ShardReport

_MOST_PRINTED = 5


def decontaminate(
    folder: Annotated[Path, typer.Argument(metavar="IN", help="Folder with region files, or one such file.")],
    benchmark: Annotated[
        list[Path], typer.Option(help="OmniDocBench.json, or JSONL of id, task, text, doc_id; repeatable.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for what stays; shards that are there already are kept.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="text_share=0.4, shingles.words=10 and the like; repeatable.")
    ] = None,
    processes: Annotated[int, typer.Option(help="Shards examined at a time.", min=1)] = 1,
    as_json: Json = False,
) -> None:
    """Remove regions that also occur in a benchmark, and tell which and why."""
    config = load_config(DecontaminationConfig, overrides=overrides or ())
    benchmarks = [read_benchmark(file) for file in benchmark]
    index = BenchmarkIndex(benchmarks, config)
    console.print(f"{index.n_items} texts, tables and formulas of the benchmark are indexed", markup=False)
    for task, coverage in index.coverage.items():
        for line in _told_coverage(task, coverage):
            console.print(line, markup=False, soft_wrap=True)
    if not index.is_useful:
        told = "its items are all too short or unreadable, and it names no document"
        raise InputError(f"{', '.join(map(str, benchmark))}: nothing can be compared: {told}")
    shards = _told(decontamination.decontaminate(folder, out, index, processes))
    report = decontamination.summary(shards, benchmarks, index)
    decontamination.write_reports(folder, out, report)
    typer.echo(json.dumps(report, indent=1) if as_json else _as_text(report, out))
    if report["n_shards_failed"]:
        raise typer.Exit(1)


def _told_coverage(task: str, coverage: Coverage) -> Iterator[str]:
    """Say what of the items of a task is not compared, or only as a whole."""
    if coverage.n_short:
        of = f"{coverage.n_short} of {coverage.n_items} {task}s"
        trivial = f" ({coverage.n_trivial} are too short even for that)" if coverage.n_trivial else ""
        yield f"{of} are shorter than the {coverage.least} compared: only identical ones are removed{trivial}"
    if coverage.n_unusable:
        yield f"{coverage.n_unusable} of {coverage.n_items} {task}s are not usable: nothing in them can be read"


def _told(reports: Iterable[ShardReport]) -> Iterator[ShardReport]:
    for report in reports:
        told = report.reason or f"{len(report.removed)} of {report.n_regions} regions removed"
        console.print(f"{report.file}: {report.status}: {told}", markup=False)
        yield report


def _as_text(report: dict[str, Any], out: Path) -> str:
    criteria = ", ".join(f"{count} by {criterion}" for criterion, count in report["by_criterion"].items())
    lines = [f"{report['n_removed']} of {report['n_regions']} regions removed: {criteria}"]
    lines += [
        f"  {source}: {count['n_removed']} of {count['n_regions']}" for source, count in report["by_source"].items()
    ]
    for title, rows in (("removed", report["removed"]), ("nearly removed", report["near_misses"])):
        lines += [
            f"{title}: {row['region_id']} ({row['criterion']}, {row['share']:.2f} of {row['benchmark_item']}): "
            f"{row['example']!r}"
            for row in rows[:_MOST_PRINTED]
        ]
    if report["n_unread"]:
        lines.append(f"{report['n_unread']} regions have no target yet: only their documents were compared")
    return "\n".join([*lines, f"all of it: {out / REPORT_NAME} and the reports beside the shards"])
