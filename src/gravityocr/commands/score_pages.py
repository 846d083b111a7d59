"""`gravityocr score omnidocbench` and `order`: whole pages, end to end."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from gravityocr.commands.score_cdm import score_formulas
from gravityocr.commands.score_golden import GoldenCheck, compare
from gravityocr.commands.score_options import Run, console, echo, progress, tell_failures, tell_notes
from gravityocr.errors import InputError
from gravityocr.metrics.cdm import CdmConfig
from gravityocr.metrics.formulas.formula_pictures import draw_formulas
from gravityocr.metrics.omnidocbench_summary import AXES, MODES, add_cdm, differences, formula_pairs, summarize
from gravityocr.metrics.runs.benchmark_sets import PageSet, read_annotations, read_golden, read_omnidocbench
from gravityocr.metrics.runs.confidence import Interval
from gravityocr.metrics.runs.page_tasks import golden_order_task, page_task
from gravityocr.metrics.runs.score_file import digest
from gravityocr.metrics.runs.score_report import (
    BreakdownRow,
    Report,
    ReportAxis,
    ReportSample,
    find_image,
    write_report,
)
from gravityocr.metrics.runs.score_run import Sample, run_samples

Record = dict[str, Any]
_UNITS = ("edit", "gt", "pred")
_PAGES = ("order_edit", "text_edit_page", "formula_edit_page")
_HIGHER = {"overall", "cdm", "teds", "teds_struct"}


# Official orders -----------------------------------------------------------------------------------


def golden_order(path: Path, run: Run) -> None:
    """Compare with official orders, of bare matches and of pages whose annotations lie in `e2e/gt.json` beside `path`.

    *Raises*: InputError where the file is none of these, or names a page that the annotations lack.
    """
    rows = read_golden(path, ("type",))
    annotations: dict[str, Record] = {}
    if any(row["type"] == "page" for row in rows):
        annotations = read_annotations(path.parent / "e2e" / "gt.json")
    samples = [Sample(str(row["id"]), _order_payload(path, row, annotations)) for row in rows]
    config = run.config({"golden": "order"})
    with progress("order", len(samples)) as advance:
        results = run_samples(samples, golden_order_task, config, advance)
    check = GoldenCheck("order", (), (*_UNITS, *_PAGES))
    report = compare(check, rows, results)
    missed = {miss["id"] for miss in report["misses"]}
    by_type = {
        kind: {
            "n_pairs": sum(row["type"] == kind for row in rows),
            "n_misses": sum(row["type"] == kind and str(row["id"]) in missed for row in rows),
        }
        for kind in dict.fromkeys(row["type"] for row in rows)
    }
    failed = tell_failures(results)
    echo({**report, "by_type": by_type}, run.as_json)
    if failed:
        raise typer.Exit(1)


def _order_payload(path: Path, row: Mapping[str, Any], annotations: Mapping[str, Record]) -> Record:
    try:
        if row["type"] == "unit":
            return {"matches": row["matches"]}
        return {"annotation": annotations[row["page"]], "pred_md": row["pred_md"]}
    except KeyError as error:
        where = path.parent / "e2e" / "gt.json"
        raise InputError(
            f"{path}, {row['id']}: {error} is missing in it or in {where}; hand the files together"
        ) from error


# OmniDocBench --------------------------------------------------------------------------------------


def score_benchmark(gt: Path, pred: Path, mode: str, cdm: CdmConfig | None, run: Run) -> None:
    """Score predictions end to end, print the axes and Overall, and write the report.

    `mode` is `default` or `official`; both are computed, and the differences reported. Without `cdm` that axis and
    Overall are null.

    *Raises*: InputError where ground truth or predictions cannot be read.
    """
    pages = read_omnidocbench(gt, pred)
    tell_notes(pages.notes, pages.extra)
    samples = [Sample(page.name, {"page": page.page, "markdown": page.markdown or ""}) for page in pages.pages]
    with progress("pages", len(samples)) as advance:
        results = run_samples(samples, page_task, run.config({"metric": "omnidocbench"}), advance)
    failed = tell_failures(results)
    records = [result.score for result in results if result.score is not None]
    if cdm is not None:
        add_cdm(records, _score_formulas(records, cdm, run))
    found = [*_skip_missing(records, set(pages.missing)), *differences(records)]
    summaries = {name: summarize(records, name) for name in MODES}
    summary = summaries[mode]
    echo(
        {
            **summary,
            "mode": mode,
            "modes": {name: {axis: one[axis] for axis in ("overall", *AXES)} for name, one in summaries.items()},
            "differences": found,
            "missing": list(pages.missing),
            "extra": list(pages.extra),
            "notes": [asdict(note) for note in pages.notes],
            "failed": failed,
        },
        run.as_json,
    )
    if run.report is not None:
        report = _report(pages, records, summary, found, mode, f"{pred} against {gt}", run)
        write_report(run.report, report, run.n_worst, draw_formulas if cdm is not None else None)
        console.print(f"report: {run.report}", markup=False)
    if failed or any(note.status != "empty_prediction" for note in pages.notes):
        raise typer.Exit(1)


def _skip_missing(records: Sequence[Record], missing: set[str]) -> list[Record]:
    """Leave pages without a prediction out of the official mode as far as the official scorer does; say what it costs.

    Their text and order count for nothing there; their tables and formulas score 0.
    """
    skipped = [record for record in records if record["image_name"] in missing]
    if not skipped:
        return []
    axes = ("text_edit", "order_edit")
    before = {axis: _page_mean(records, axis) for axis in axes}
    for record in skipped:
        page = record["modes"]["official"]
        page |= dict.fromkeys(axes)
        page |= {"texts": [], "tables": [], "formulas": [], "order": None}
        page |= dict.fromkeys(("teds", "teds_struct"), 0.0 if page["has_tables"] else None)
        if "cdm" in page:
            page["cdm"] = 0.0 if page["has_formulas"] else None
        record["faults"] = {}
    after = {axis: _page_mean(records, axis) for axis in axes}
    return [
        {
            "fault": "count_missing_pages",
            "official": "a page without a prediction is left out of text and order",
            "n_pages": len(skipped),
            "pages": [record["image_name"] for record in skipped[:20]],
            "effect": {axis: before[axis] - after[axis] for axis in axes},
        }
    ]


def _page_mean(records: Sequence[Record], axis: str) -> float:
    values = [record["modes"]["official"][axis] for record in records]
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else 0.0


def _score_formulas(records: Sequence[Record], config: CdmConfig, run: Run) -> dict[tuple[str, str], Record]:
    """Score every different pair of formulas once."""
    pairs = formula_pairs(records)
    samples = [Sample(f"formula {digest(pair)}", {"pred": pair[0], "ref": pair[1]}) for pair in pairs]
    with progress("formulas", len(samples)) as advance:
        settings = run.config({"metric": "cdm", "version": config.version})
        results = score_formulas(samples, config, settings, advance)
    return {pair: result.score for pair, result in zip(pairs, results, strict=True) if result.score is not None}


# The report ----------------------------------------------------------------------------------------


def _report(
    pages: PageSet,
    records: Sequence[Record],
    summary: Record,
    found: Sequence[Record],
    mode: str,
    source: str,
    run: Run,
) -> Report:
    axes = [_axis(name, summary) for name in ("overall", *AXES)]
    breakdown = [
        BreakdownRow(title, label, int(row.get("n_pages", row.get("n_samples", 0))), {a: row.get(a) for a in AXES})
        for title, key in (("page", "by_page_attribute"), ("block", "by_block_attribute"))
        for label, row in summary[key].items()
    ]
    samples = [sample for record in records for sample in _samples(record, mode, run.images)]
    texts = [f"{one['official']} ({one['n_pages']} pages; mending it: {_effects(one['effect'])})" for one in found]
    facts = {"pages": len(pages.pages), "mode": mode, "missing": len(pages.missing)}
    return Report("OmniDocBench", source, axes, samples, breakdown, pages.notes, texts, facts)


def _axis(name: str, summary: Record) -> ReportAxis:
    interval = None
    if summary[name] is not None and name in summary["ci95"]:
        n = summary["n_pages"] if name == "overall" else summary["n_pages_by_axis"][name]
        low, high = summary["ci95"][name]
        interval = Interval(summary[name], low, high, n)
    whole = name == "overall"
    return ReportAxis(name, interval, name in _HIGHER, top=100.0 if whole else 1.0, main=whole)


def _effects(effect: Mapping[str, float]) -> str:
    return ", ".join(f"{axis} {change:+.4f}" for axis, change in effect.items()) or "no axis changes"


def _samples(record: Record, mode: str, images: Path | None) -> list[ReportSample]:
    """Return what a reader may look at: the page's text, and each of its tables and formulas."""
    name, page = record["image_name"], record["modes"][mode]
    image = find_image(images, name) or find_image(images, Path(name).stem) if images is not None else None
    found = []
    if page["text_edit"] is not None:
        pred, ref = ("\n\n".join(text[key] for text in page["texts"] if text[key]) for key in ("text", "ref"))
        values = {axis: page.get(axis) for axis in AXES if page.get(axis) is not None}
        found.append(ReportSample(name, "page", pred, ref, 1.0 - page["text_edit"], values, image=image))
    for number, table in enumerate(page["tables"], start=1):
        score = table["teds"]
        values = {"teds": score["teds"], "teds_struct": score["teds_struct"]}
        found.append(
            ReportSample(
                f"{name}, table {number}", "table", table["pred"], table["ref"], score["teds"], values, score["status"],
                score["error"], image=image,
            )
        )  # fmt: skip
    for number, formula in enumerate(page["formulas"], start=1):
        cdm = formula.get("cdm")
        pred = formula["preds"][0] if formula["preds"] else ""
        goodness = cdm if "cdm" in formula else 1.0 - formula["edit"]["ned"]
        found.append(
            ReportSample(
                f"{name}, formula {number}", "formula", pred, formula["ref"], goodness,
                {"cdm": cdm, "edit": formula["edit"]["ned"]}, formula.get("cdm_status", "ok"), formula.get("cdm_error"),
            )
        )  # fmt: skip
    return found
