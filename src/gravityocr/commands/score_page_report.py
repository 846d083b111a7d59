"""`gravityocr score omnidocbench` for its readers: the tables on stdout, and the HTML report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from gravityocr.commands import score_tell as tell
from gravityocr.commands.score_options import Run
from gravityocr.metrics.omnidocbench_summary import AXES
from gravityocr.metrics.runs.axes import axis_name
from gravityocr.metrics.runs.benchmark_sets import PageSet
from gravityocr.metrics.runs.confidence import FEW, Interval
from gravityocr.metrics.runs.mode_changes import mode_rows
from gravityocr.metrics.runs.report_model import (
    BreakdownRow,
    Report,
    ReportAxis,
    ReportSample,
    counted,
    number,
)
from gravityocr.metrics.runs.score_file import run_facts
from gravityocr.metrics.runs.score_report import find_image

Record = dict[str, Any]
_ALL = ("overall", *AXES)
_WHAT = {
    "text_edit": "text", "cdm": "formulas", "teds": "tables", "teds_struct": "tables", "order_edit": "a reading order",
}  # fmt: skip


def absences(summary: Record, with_cdm: bool) -> dict[str, str]:
    """Say for every axis that is null why it is."""
    found = {}
    for axis in AXES:
        if summary[axis] is None:
            off = axis == "cdm" and not with_cdm
            found[axis] = "CDM switched off (--no-cdm)" if off else f"no page with {_WHAT[axis]}"
    if summary["overall"] is None:
        needed = [found[axis] for axis in ("text_edit", "cdm", "teds") if axis in found]
        found["overall"] = "; ".join(needed)
    return found


# stdout --------------------------------------------------------------------------------------------


def print_pages(whole: Record) -> None:
    """Print both modes side by side, what lies between them, and counts."""
    rows = []
    for axis in _ALL:
        top, ours, official = axis_name(axis).top, *(whole["modes"][mode][axis] for mode in ("ours", "official"))
        n = str(_n_pages(whole, axis))
        why = f"  {whole['absent'][axis]}" if axis in whole["absent"] else ""
        bounds = whole["ci95"].get(axis)
        rows.append([axis, number(ours, top), number(official, top), tell.span(bounds, axis), n, why])
    head = ["axis", "ours", "official", f"95 % CI ({whole['mode']})", "pages", ""]
    tell.print_table(head, rows, right=(1, 2, 3, 4))
    if whole["n_pages"] < FEW:
        typer.echo(f"\nonly {counted(whole['n_pages'], 'page')}: the intervals are a rough guide at best")
    _print_differences(whole)
    typer.echo()
    samples = {name: n for name, n in whole["n_samples"].items() if n}
    tell.print_facts(
        {
            "pages": whole["n_pages"],
            "samples": samples,
            "extra tables": whole["n_extra_tables"] or None,
            "not ok": whole["n_not_ok"] or None,
            **{name: len(whole[name]) or None for name in ("missing", "extra", "notes")},
            "not scored": whole["n_failed"] or None,
        }
    )
    typer.echo("breakdowns and samples: --json or --report FILE.html")


def _n_pages(whole: Record, axis: str) -> int:
    return int(whole["n_pages"] if axis == "overall" else whole["n_pages_by_axis"][axis])


def _print_differences(whole: Record) -> None:
    if not whole["differences"]:
        typer.echo("\nno fault of the official scorer changes this run")
        return
    rows = [[one["fault"], str(one["n_pages"]), _effects(one["effect"])] for one in whole["differences"]]
    rest = {axis: change for axis, change in whole["interaction"].items() if change and axis != "overall"}
    rows.append(["interaction of faults", "", _effects(rest)])
    typer.echo()
    tell.print_table(["fault of the official scorer", "pages", "what mending it alone changes"], rows, right=(1,))


def _effects(effect: Mapping[str, float]) -> str:
    return ", ".join(f"{axis} {change:+.4f}" for axis, change in effect.items()) or "nothing"


# The report ----------------------------------------------------------------------------------------


def page_report(
    pages: PageSet,
    records: Sequence[Record],
    whole: Record,
    source: str,
    warnings: Sequence[str],
    cdm_version: str | None,
    run: Run,
) -> Report:
    """Return the report of a run; without CDM `cdm_version` is None."""
    mode = whole["mode"]
    badges = {note.id: note.status.replace("_", " ") for note in pages.notes if "prediction" in note.status}
    samples = [
        sample for record in records for sample in _samples(record, mode, run.images, badges.get(record["image_name"]))
    ]
    facts = [counted(len(pages.pages), "page"), mode]
    facts += ["CDM switched off"] if cdm_version is None else [f"CDM: {cdm_version}"]
    facts += [f"{len(pages.missing)} without a prediction"] if pages.missing else []
    told = list(warnings)
    if whole["n_pages"] < FEW:
        told.append(f"only {counted(whole['n_pages'], 'page')}: the intervals are a rough guide at best")
    return Report(
        "OmniDocBench",
        source,
        [_axis(name, whole) for name in _ALL],
        samples,
        _breakdown(whole),
        pages.notes,
        mode_rows(whole["modes"]["official"], whole["modes"]["ours"], whole["differences"]),
        told,
        facts,
        run_facts({"mode": mode, "CDM": cdm_version or "switched off", "seed": run.seed}),
    )


def _axis(name: str, whole: Record) -> ReportAxis:
    interval = None
    if whole[name] is not None:
        low, high = whole["ci95"].get(name) or (None, None)
        interval = Interval(whole[name], low, high, _n_pages(whole, name))
    return ReportAxis(name, interval, whole["absent"].get(name, "nothing was scored"), main=name == "overall")


def _breakdown(whole: Record) -> list[BreakdownRow]:
    rows = []
    for title, key, count in (
        ("page", "by_page_attribute", "n_pages"),
        ("block", "by_block_attribute", "n_samples"),
    ):
        for label, row in whole[key].items():
            attribute, _, value = label.partition(": ")
            scores = {axis: row.get(axis) for axis in AXES}
            rows.append(BreakdownRow(f"{title}: {attribute}", value, int(row[count]), scores))
    return rows


def _samples(record: Record, mode: str, images: Path | None, badge: str | None) -> list[ReportSample]:
    """Return what a reader may look at: the page's text, and each of its tables and formulas."""
    name, page = record["image_name"], record["modes"][mode]
    image = find_image(images, name) or find_image(images, Path(name).stem) if images is not None else None
    found = []
    if page["text_edit"] is not None:
        pred, ref = ("\n\n".join(text[key] for text in page["texts"] if text[key]) for key in ("text", "ref"))
        values = {axis: page.get(axis) for axis in AXES if page.get(axis) is not None}
        found.append(
            ReportSample(
                name, "page", pred, ref, 1.0 - page["text_edit"], "1 - text_edit", values, badge=badge, image=image
            )
        )
    for n, table in enumerate(page["tables"], start=1):
        score = table["teds"]
        values = {"teds": score["teds"], "teds_struct": score["teds_struct"]}
        found.append(
            ReportSample(
                f"{name}, table {n}", "table", table["pred"], table["ref"], score["teds"], "TEDS", values,
                score["status"], score["error"], _table_badge(table, badge), image=image,
            )
        )  # fmt: skip
    return [*found, *_formulas(name, page["formulas"], badge)]


def _table_badge(table: Record, badge: str | None) -> str | None:
    return badge or (None if table["pred"].strip() else "no table was matched")


def _formulas(name: str, formulas: Sequence[Record], badge: str | None) -> list[ReportSample]:
    found = []
    for n, formula in enumerate(formulas, start=1):
        pred = formula["preds"][0] if formula["preds"] else ""
        edit = formula["edit"]["ned"]
        scored = "cdm" in formula
        goodness, measure = (formula["cdm"], "CDM") if scored else (1.0 - edit, "1 - ned")
        values = {"cdm": formula["cdm"], "ned": edit} if scored else {"ned": edit}
        own = badge or (None if pred.strip() else "no formula was matched")
        found.append(
            ReportSample(
                f"{name}, formula {n}", "formula", pred, formula["ref"], goodness, measure, values,
                formula.get("cdm_status", "ok"), formula.get("cdm_error"), own,
            )
        )  # fmt: skip
    return found
