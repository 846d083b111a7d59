"""What `gravityocr score` tells: progress and what went wrong on stderr, figures as JSON or as tables on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from gravityocr.metrics.runs.axes import axis_name
from gravityocr.metrics.runs.datasets import Note
from gravityocr.metrics.runs.report_model import counted, number, shortened
from gravityocr.metrics.runs.score_run import SampleResult

# Its own, and not that of the other commands, whose module imports torch.
console = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else 1000)

MOST_LISTED = 100  # samples that JSON names one by one
_N_SHOWN = 5
_N_ROWS = 20
StatusRow = dict[str, Any]
"""`id`, `status` and `error` of a sample that is not ok."""


# stderr --------------------------------------------------------------------------------------------


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


def warn(text: str, style: str = "yellow") -> None:
    """Print a line on stderr, as it is."""
    console.print(text, style=style, markup=False, soft_wrap=True)


def tell_notes(notes: Sequence[Note], extra: Sequence[str]) -> None:
    """Sum up on stderr what was wrong with the input."""
    by_status: dict[str, list[Note]] = {}
    for note in notes:
        by_status.setdefault(note.status, []).append(note)
    for status, found in by_status.items():
        for note in found[:_N_SHOWN]:
            warn(f"{status}: {note.id}: {note.message}")
        if len(found) > _N_SHOWN:
            warn(f"{status}: … {len(found) - _N_SHOWN} more")
    if extra:
        warn(f"not used, for want of a reference: {shortened(extra)} ({len(extra)})")


def status_of(result: SampleResult) -> StatusRow:
    """Return id, status and error of a sample: the scorer's, or the run's where it was not scored."""
    if result.score is None:
        return {"id": result.id, "status": result.status, "error": result.error}
    return {"id": result.id, "status": result.score.get("status", "ok"), "error": result.score.get("error")}


def not_ok(rows: Sequence[StatusRow], n_samples: int) -> dict[str, Any]:
    """Tell on stderr, a line a status, which samples are not ok, and return them as JSON has them."""
    bad = [row for row in rows if row["status"] != "ok"]
    by_status: dict[str, list[StatusRow]] = {}
    for row in bad:
        by_status.setdefault(row["status"], []).append(row)
    for status, found in by_status.items():
        ids = shortened([row["id"] for row in found])
        why = f": {found[0]['error']}" if found[0]["error"] else ""
        warn(f"{status}: {len(found)} of {counted(n_samples, 'sample')} ({ids}){why}")
    return {"n_not_ok": len(bad), "not_ok": bad[:MOST_LISTED]}


def nothing_is_ok(n_bad: int, n_samples: int, what: str = "sample") -> list[str]:
    """Warn on stderr where every sample has a status, and return that as a report says it."""
    if not n_samples or n_bad < n_samples:
        return []
    text = (
        f"not one of {counted(n_samples, what)} is ok, so the figures say little; are these the right files, and the "
        "right way round?"
    )
    warn(text, "bold red")
    return [text]


def not_scored(n_lost: int, n_samples: int, what: str = "") -> list[str]:
    """Tell on stderr how many samples no mean contains, and return that as a report says it; nothing for none."""
    if not n_lost:
        return []
    text = f"{n_lost} of {n_samples}{what and ' '}{what} not scored: the mean is over the rest"
    warn(text, "red")
    return [text]


# stdout --------------------------------------------------------------------------------------------


def echo_json(value: Mapping[str, Any]) -> None:
    """Print one JSON value."""
    typer.echo(json.dumps(value))


def print_facts(facts: Mapping[str, object]) -> None:
    """Print names and values, a line each, those without a value left out."""
    rows = [(name, _plain(value)) for name, value in facts.items() if value not in (None, [], {}, "")]
    print_table(None, [[name, value] for name, value in rows], right=())


def print_table(head: Sequence[str] | None, rows: Sequence[Sequence[str]], right: Sequence[int] | None = None) -> None:
    """Print a table as wide as it needs; columns but the first are set to the right unless `right` names them."""
    lines = [*([head] if head else []), *rows]
    if not lines:
        return
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(lines[0]))]
    is_right = [column in right if right is not None else column > 0 for column in range(len(widths))]
    for line in lines:
        cells = []
        for text, width, to_the_right in zip(line, widths, is_right, strict=True):
            space = " " * (width - cell_len(text))
            cells.append(space + text if to_the_right else text + space)
        typer.echo("  ".join(cells).rstrip())


def print_groups(groups: Mapping[str, Mapping[str, Mapping[str, Any]]], columns: Sequence[str]) -> None:
    """Print means by attribute: `{attribute: {value: {n_pairs, COLUMN...}}}`."""
    rows = []
    for attribute, values in groups.items():
        for value, row in values.items():
            rows.append([f"{attribute}: {value}", str(row["n_pairs"]), *(number(row.get(name)) for name in columns)])
    if rows:
        typer.echo()
        print_table(["by attribute", "n", *columns], rows[:_N_ROWS])
        if len(rows) > _N_ROWS:
            typer.echo(f"… {len(rows) - _N_ROWS} more; all are in --json and --report")


def span(bounds: Sequence[float] | None, axis: str) -> str:
    """Write an interval for a reader."""
    top = axis_name(axis).top
    return f"{number(bounds[0], top)} to {number(bounds[1], top)}" if bounds else "–"


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e-3 and value else f"{value:.4f}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(one)}" for name, one in value.items())
    return shortened([str(one) for one in value]) if isinstance(value, (list, tuple)) else str(value)
