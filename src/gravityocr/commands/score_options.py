"""What the commands of `gravityocr score` share: options, progress, and how a result is printed."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from gravityocr.errors import ConfigError
from gravityocr.metrics.runs.datasets import Note
from gravityocr.metrics.runs.score_run import RunConfig, SampleResult

# Its own, and not that of the other commands, whose module imports torch.
console = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else 1000)

Golden = Annotated[Path | None, typer.Option(help="Compare with a file of official values.")]
Pairs = Annotated[Path | None, typer.Option(help="JSONL of id, pred, ref.")]
Pred = Annotated[Path | None, typer.Option(help="A folder of predictions, paired with --ref by stem.")]
Ref = Annotated[Path | None, typer.Option(help="A folder of references.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout.")]
Processes = Annotated[int | None, typer.Option(help="Processes to score in; default: one a core.")]
Timeout = Annotated[float, typer.Option(help="Seconds that one sample may take.")]
Results = Annotated[Path | None, typer.Option(help="JSONL of per-sample results; a rerun takes them up.")]
ReportFile = Annotated[Path | None, typer.Option("--report", help="Write an HTML report.")]
Images = Annotated[Path | None, typer.Option(help="A folder of pictures for the report, by stem.")]
Worst = Annotated[int, typer.Option(min=0, help="Samples that the report shows, the worst first.")]
Compat = Annotated[str, typer.Option(help="ours, or official: with the official scorer's faults.")]
CdmVersion = Annotated[str, typer.Option(help="omnidocbench-1.6, omnidocbench-1.5 or unimernet.")]
Cache = Annotated[Path | None, typer.Option(help="A folder that keeps rendered formulas for later runs.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the bootstrap intervals.")]

_N_LISTED = 5


@dataclass(frozen=True)
class Run:
    """The options that say how to score, and where results go."""

    as_json: bool = False
    n_processes: int | None = None
    timeout_s: float = 600.0
    results: Path | None = None
    report: Path | None = None
    images: Path | None = None
    n_worst: int = 20
    seed: int = 0

    def config(self, settings: Mapping[str, Any]) -> RunConfig:
        """Return the configuration of a run whose scores depend on `settings`.

        *Raises*: ConfigError for values out of range, and for places that cannot be used.
        """
        for name, path in (("--results", self.results), ("--report", self.report)):
            if path is not None and path.is_dir():
                raise ConfigError(f"{name} {path}: is a folder; name a file")
        if self.images is not None and not self.images.is_dir():
            raise ConfigError(f"--images {self.images}: is no folder; name the folder of the pictures")
        return RunConfig(self.n_processes, self.timeout_s, self.results, settings)


def check_source(golden: Path | None, pairs: Path | None, pred: Path | None, ref: Path | None) -> None:
    """Check that there is one input.

    *Raises*: ConfigError where there is none, where there are several, and for half of --pred and --ref.
    """
    if (pred is None) != (ref is None):
        raise ConfigError("--pred and --ref belong together: a folder of predictions and one of references")
    n_given = sum(option is not None for option in (golden, pairs, pred))
    if n_given != 1:
        raise ConfigError(f"give one of --golden FILE, --pairs FILE and --pred DIR --ref DIR; {n_given} are given")


def choice(option: str, value: str, choices: Sequence[str]) -> str:
    """Return an option's value.

    *Raises*: ConfigError for one that is not among the choices.
    """
    if value not in choices:
        raise ConfigError(f"{option} {value!r} is unknown; choose one of {', '.join(choices)}")
    return value


@contextmanager
def progress(title: str, n_samples: int) -> Iterator[Callable[[SampleResult], None]]:
    """Show how far a scoring run is, and when it will end, on stderr."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("eta"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=n_samples)
        yield lambda _result: bar.advance(task)


def tell_notes(notes: Sequence[Note], extra: Sequence[str]) -> None:
    """Sum up on stderr what was wrong with the input."""
    by_status: dict[str, list[Note]] = {}
    for note in notes:
        by_status.setdefault(note.status, []).append(note)
    for status, found in by_status.items():
        for note in found[:_N_LISTED]:
            console.print(f"{status}: {note.id}: {note.message}", style="yellow", markup=False)
        if len(found) > _N_LISTED:
            console.print(f"{status}: and {len(found) - _N_LISTED} more", style="yellow", markup=False)
    if extra:
        listed = ", ".join(extra[:_N_LISTED]) + (", ..." if len(extra) > _N_LISTED else "")
        console.print(f"not scored, for want of a reference: {listed} ({len(extra)})", style="yellow", markup=False)


def tell_failures(results: Sequence[SampleResult]) -> list[dict[str, Any]]:
    """Name on stderr the samples that were not scored, and return them as rows."""
    failed = [result for result in results if result.status != "ok"]
    for result in failed[:_N_LISTED]:
        console.print(f"{result.status}: {result.id}: {result.error}", style="red", markup=False)
    if len(failed) > _N_LISTED:
        counts = Counter(result.status for result in failed)
        console.print(f"not scored: {dict(counts)}", style="red", markup=False)
    return [{"id": result.id, "status": result.status, "error": result.error} for result in failed]


def echo(report: Mapping[str, Any], as_json: bool) -> None:
    """Print a result: all of it as JSON, or its figures as a table."""
    if as_json:
        typer.echo(json.dumps(report))
        return
    table = Table(show_header=False, box=None)
    for name, value in report.items():
        text = _cell(value)
        if text is not None:
            table.add_row(name, text)
    Console(highlight=False, markup=False).print(table)


def _cell(value: object) -> str | None:
    """Write a figure, a short list or the length of a long one; None where there is nothing to see."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and value and all(isinstance(item, float) for item in value):
        return " to ".join(f"{item:.6g}" for item in value)
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)[:400] if value else None
    return None if value is None else str(value)
