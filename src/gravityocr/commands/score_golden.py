"""`gravityocr score ... --golden FILE`: our figures beside official ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from gravityocr.commands.score_options import Run, echo, progress, tell_failures
from gravityocr.errors import InputError
from gravityocr.metrics.runs.benchmark_sets import read_golden
from gravityocr.metrics.runs.score_run import Sample, SampleResult, run_samples

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
    """Score a file of official values, print the comparison, and exit 1 where a sample could not be scored.

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
        with progress(check.name, len(samples)) as advance:
            results = run_samples(samples, scorer, config, advance)
    report = compare(check, rows, results)
    failed = tell_failures(results)
    echo(report, run.as_json)
    if failed:
        raise typer.Exit(1)
