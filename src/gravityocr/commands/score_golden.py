"""`gravityocr score ... --golden FILE`: our figures beside official ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from gravityocr.commands import score_tell as tell
from gravityocr.commands.score_options import Run
from gravityocr.errors import InputError
from gravityocr.metrics.runs.benchmark_sets import read_golden
from gravityocr.metrics.runs.score_run import Sample, SampleResult, run_samples

_N_MISSES = 20
_LONGEST = 40  # characters of a value that is printed
_ROUNDING = 1e-12  # 0.957 and 0.952 differ by 0.005 and no more, whatever floats make of it


@dataclass(frozen=True)
class GoldenCheck:
    """Which fields of a row a scorer reads and which it answers for, and by how much its answer may differ.

    A text or count that differs counts as a difference of 1, like a figure that only one side has.
    """

    name: str
    inputs: tuple[str, ...]
    fields: tuple[str, ...]
    tolerance: float = 1e-6


def compare(check: GoldenCheck, rows: Sequence[Mapping[str, Any]], results: Sequence[SampleResult]) -> dict[str, Any]:
    """Return `{n_pairs, n_misses, max_abs_diff, misses}`.

    `n_misses` counts rows, `misses` lists every field that differs by more than the tolerance; a sample that could not
    be scored misses all its fields. `max_abs_diff` is the largest difference of all fields, None where none was
    compared.
    """
    largest: float | None = None
    misses: list[dict[str, Any]] = []
    missed: set[int] = set()
    for number, (row, result) in enumerate(zip(rows, results, strict=True)):
        ours = result.score or {}
        for name in check.fields:
            if name not in row:
                continue
            value = ours.get(name)
            miss = {"id": str(row["id"]), "field": name, "golden": row[name], "ours": value}
            if result.status != "ok":
                missed.add(number)
                misses.append({**miss, "status": result.status, "error": result.error})
                continue
            distance = difference(row[name], value)
            largest = distance if largest is None else max(largest, distance)
            if distance > check.tolerance + _ROUNDING:
                missed.add(number)
                misses.append({**miss, "diff": distance})
    return {"n_pairs": len(rows), "n_misses": len(missed), "max_abs_diff": largest, "misses": misses}


def difference(golden: object, ours: object) -> float:
    """Return how far two values are apart: figures by their difference, anything else by 0 or 1."""
    if isinstance(golden, (int, float)) and isinstance(ours, (int, float)) and float in (type(golden), type(ours)):
        return abs(golden - ours)
    return 0.0 if golden == ours and type(golden) is type(ours) else 1.0


def run_golden(
    check: GoldenCheck,
    path: Path,
    run: Run,
    scorer: Callable[[Any], dict[str, Any]] | None = None,
    score_all: Callable[[list[dict[str, Any]]], list[SampleResult]] | None = None,
) -> None:
    """Score a file of official values, print the comparison, and exit 1 where a value is missed.

    `scorer` scores one row in a process of its own; `score_all` scores all rows.

    *Raises*: InputError where the file is none of these.
    """
    rows = read_golden(path, check.inputs)
    if not any(name in row for row in rows for name in check.fields):
        raise InputError(f"{path}: no row has {', '.join(check.fields)}; name a file of official {check.name} values")
    if score_all is not None:
        results = score_all(rows)
    else:
        assert scorer is not None
        samples = [Sample(str(row["id"]), {name: row[name] for name in check.inputs}) for row in rows]
        config = run.config({"golden": check.name})
        with tell.progress(check.name, len(samples)) as advance:
            results = run_samples(samples, scorer, config, advance)
    finish_golden(compare(check, rows, results), results, run)


def finish_golden(report: Mapping[str, Any], results: Sequence[SampleResult], run: Run) -> None:
    """Print a comparison, and exit 1 where a value is missed or a sample was not scored."""
    tell.not_ok([tell.status_of(result) for result in results], len(results))
    if run.as_json:
        tell.echo_json(report)
    else:
        tell.print_facts({name: value for name, value in report.items() if name != "misses"})
        print_misses(report["misses"])
    if report["n_misses"]:
        raise typer.Exit(1)


def print_misses(misses: Sequence[Mapping[str, Any]]) -> None:
    """Print the first misses, a line each."""
    rows = []
    for miss in misses[:_N_MISSES]:
        why = miss.get("status") or f"{miss['diff']:.2g}"
        rows.append([miss["id"], miss["field"], _short(miss["golden"]), _short(miss["ours"]), why])
    if rows:
        typer.echo()
        tell.print_table(["missed", "field", "official", "ours", "difference"], rows, right=())
    if len(misses) > _N_MISSES:
        typer.echo(f"… {len(misses) - _N_MISSES} more; all are in --json")


def _short(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value).replace("\n", "\\n")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … {len(text) - _LONGEST} more"
