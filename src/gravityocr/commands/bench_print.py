"""Reports of `gravityocr bench` for readers: tables on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

Report = Mapping[str, Any]
SIMULATED = "SIMULATED"
_WIDTH = 140  # in a file or a pipe


def show_crops(report: Report) -> None:
    """Print `bench decode` and `bench region`."""
    _head(report)
    heading = f"{SIMULATED}, " if report["simulated"] else ""
    _show(mode_table(f"{heading}all crops", report["modes"]))
    for kind, rows in report["by_kind"].items():
        _show(mode_table(f"{heading}kind: {kind}", rows))
    for length, rows in {**report["by_length"], **report["by_length_below_128"]}.items():
        _show(mode_table(f"{heading}output of {length} tokens", rows))
    if "costs" in report:
        show_costs(report["costs"])


def show_costs(costs: Report) -> None:
    """Print the cost of a forward by rows and the speed-up that follows from it."""
    for size, batch in costs["batch"].items():
        table = Table("rows", "ms", "x one row", title=f"one forward, batch {size}")
        for rows, ms in batch["ms"].items():
            table.add_row(rows, f"{ms:.3f}", f"{batch['window_over_one_row'][rows]:.2f}")
        _show(table)
    if costs["modes"]:
        columns = ("rows to verify", "forward / one row", "expected x AR", "measured x AR", "hit rate", "break-even")
        table = Table("mode", *columns)
        table.title = f"what the costs promise, {costs['n_together']} sequences together"
        for name, row in costs["modes"].items():
            ratio, expected = f"{row['window_over_one_row']:.2f}", f"{row['expected_speedup']:.2f}"
            hits, needed = _percent(row["hit_rate"]), _percent(row["break_even_hit_rate"])
            table.add_row(name, str(row["rows"]), ratio, expected, _number(row["measured_speedup"]), hits, needed)
        _show(table)


def show_pages(report: Report) -> None:
    """Print `bench page`."""
    _head(report)
    _show(_page_table(f"{report['n_pages']} pages", report["modes"]))


def show_concurrency(report: Report) -> None:
    """Print `bench concurrency`."""
    _head(report)
    for way, rows in report["regions"].items():
        _show(_page_table(f"{report['n_pages']} pages, regions {way}", rows))
    table = Table("mode", *report["ratios"], title="ratios of pages per second")
    for name in next(iter(report["ratios"].values()), {}):
        table.add_row(name, *(_number(ratios[name]) for ratios in report["ratios"].values()))
    _show(table)


def show_batch(report: Report) -> None:
    """Print `bench batch`."""
    _head(report)
    for size, found in report["sizes"].items():
        heading = f"{SIMULATED}, " if report["simulated"] else ""
        _show(mode_table(f"{heading}at most {size} running, {report['n_sequences']} sequences", found["modes"]))


def show_settings(report: Report) -> None:
    """Print `bench draft-steps` and `bench blocks`."""
    _head(report)
    name = report["setting"].replace("_", " ")
    _show(mode_table(f"by {name}", {"ar": report["ar"], **report["values"]}))


def show_equality(report: Report) -> None:
    """Print `bench equality`."""
    _head(report)
    tables = {"all crops": report["modes"], **report["by_kind"]}
    if "unguarded" in report:
        tables["all crops, without the tie guard"] = report["unguarded"]["modes"]
    columns = ("crops", "ids", "sequences", "strings", "parted", "median margin", "fp32: AR/mode/none", "guarded")
    for title, rows in tables.items():
        table = Table("mode", *columns, title=title)
        for name, row in rows.items():
            sides = row["fp32_sides_with"]
            table.add_row(
                name, str(row["n_crops"]), _percent(row["identical_to_ar"]), _percent(row["identical_sequences"]),
                _percent(row["identical_strings"]), str(row["n_divergent"]), _number(row["median_margin"], 3),
                f"{sides['ar']}/{sides['mode']}/{sides['neither']}", _percent(row["guarded"]),
            )  # fmt: skip
        _show(table)
    if "guard_cost" in report:
        title = f"what the guard costs, margin {report['guard_margin']:g} nats"
        table = Table("mode", "time / unguarded time", "identical unguarded", title=title)
        for name, row in report["guard_cost"].items():
            table.add_row(name, _number(row["x_time"]), _percent(row["identical_unguarded"]))
        _show(table)


def mode_table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return one row a mode."""
    columns = ("ms / token", "tokens / s", "x AR", "best x AR", "TPF", "accepted / round", "identical", "spread")
    table = Table("mode", *columns, title=title)
    for name, row in rows.items():
        table.add_row(
            name, f"{1000 * row['s_per_token']:.3f}", f"{row['tok_per_s']:.0f}", _number(row["x_ar"]),
            _number(row["best_x_ar"]), f"{row['tpf']:.2f}", f"{row['n_accepted']:.2f}",
            _percent(row["identical_to_ar"]), _percent(row["spread"]),
        )  # fmt: skip
    return table


def _page_table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> Table:
    stages = list(dict.fromkeys(name for row in rows.values() for name in row["stages"]))
    table = Table("mode", "pages / s", "tokens / s", "x AR", "TPF", *(f"{name} s" for name in stages), "identical")
    table.title = title
    for name, row in rows.items():
        seconds = [f"{row['stages'].get(stage, 0.0):.2f}" for stage in stages]
        table.add_row(
            name, f"{row['pages_per_s']:.3f}", f"{row['tok_per_s']:.0f}", _number(row["x_ar"]), f"{row['tpf']:.2f}",
            *seconds, _percent(row["identical_to_ar"]),
        )  # fmt: skip
    return table


def _head(report: Report) -> None:
    if report["simulated"]:
        _lines([f"{SIMULATED}: drafts come from the AR output, spoiled; nothing here is a result of the checkpoint."])
        _lines([f"acceptance profile: {report['profile']['name']}, seed {report['profile']['seed']}"])
    machine = report["machine"]
    where = machine["accelerator"] or machine["processor"]
    threads = f"{machine['threads']} threads, torch {machine['torch']}"
    _lines([report["boundary"], f"{report['checkpoint']}, {machine['dtype']}, {where}, {threads}"])


def _lines(lines: Iterable[str]) -> None:
    for line in lines:
        _stdout().print(line, markup=False)


def _show(table: Table) -> None:
    _stdout().print(table)


def _stdout() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
