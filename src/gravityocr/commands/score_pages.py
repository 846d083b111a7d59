"""`gravityocr score omnidocbench` and `order`: whole pages, end to end."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from gravityocr.commands import score_tell as tell
from gravityocr.commands.score_cdm import cdm_settings, draw, require_tex, score_formulas
from gravityocr.commands.score_golden import GoldenCheck, compare, finish_golden
from gravityocr.commands.score_options import Run
from gravityocr.commands.score_page_report import absences, page_report, print_pages
from gravityocr.errors import InputError
from gravityocr.metrics.cdm import CdmConfig
from gravityocr.metrics.omnidocbench_summary import AXES, MODES, add_cdm, differences, formula_pairs, summarize
from gravityocr.metrics.runs.benchmark_sets import PageSet, read_annotations, read_golden, read_omnidocbench
from gravityocr.metrics.runs.mode_changes import interaction
from gravityocr.metrics.runs.page_tasks import golden_order_task, page_task
from gravityocr.metrics.runs.score_file import digest
from gravityocr.metrics.runs.score_report import write_report
from gravityocr.metrics.runs.score_run import Sample, run_samples

Record = dict[str, Any]
_UNITS = ("edit", "gt", "pred")
_PAGES = ("order_edit", "text_edit_page", "formula_edit_page")


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
    with tell.progress("order", len(samples)) as advance:
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
    finish_golden({**report, "by_type": by_type}, results, run)


def _order_payload(path: Path, row: Mapping[str, Any], annotations: Mapping[str, Record]) -> Record:
    try:
        if row["type"] == "unit":
            return {"matches": row["matches"]}
        return {"annotation": annotations[row["page"]], "pred_md": row["pred_md"]}
    except (KeyError, TypeError) as error:  # TypeError: a page's name that is a list
        where = path.parent / "e2e" / "gt.json"
        raise InputError(
            f"{path}, {row['id']}: {error} is missing in it or in {where}; hand the files together"
        ) from error


# OmniDocBench --------------------------------------------------------------------------------------


def score_benchmark(gt: Path, pred: Path, mode: str, cdm: CdmConfig | None, run: Run) -> None:
    """Score predictions end to end, print the axes and Overall, and write the report.

    `mode` is `ours` or `official`; both are computed, and the differences reported. Without `cdm` that axis and
    Overall are null.

    *Raises*: InputError where ground truth or predictions cannot be read.
    """
    pages = read_omnidocbench(gt, pred)
    if cdm is not None:
        require_tex(cdm, can_do_without=True)
    tell.tell_notes(pages.notes, pages.extra)
    samples = [Sample(page.name, {"page": page.page, "markdown": page.markdown or ""}) for page in pages.pages]
    with tell.progress("pages", len(samples)) as advance:
        results = run_samples(samples, page_task, run.config({"metric": "omnidocbench"}), advance)
    records = [result.score for result in results if result.score is not None]
    if cdm is not None:
        add_cdm(records, _score_formulas(records, cdm, run))
    found = [*_skip_missing(records, set(pages.missing)), *differences(records)]
    failed = [tell.status_of(result) for result in results if result.score is None]
    statuses = [*failed, *(row for record in records for row in _statuses(record, mode))]
    listed = tell.not_ok(statuses, len(statuses))
    warnings = tell.not_scored(len(failed), len(results), "pages")
    warnings += tell.nothing_is_ok(len(failed), len(results), "page")
    whole = {
        **_figures(records, mode, found, cdm is not None, run.seed),
        "statuses": dict(Counter(row["status"] for row in statuses)),
        **listed,
        "missing": list(pages.missing),
        "extra": list(pages.extra),
        "notes": [asdict(note) for note in pages.notes],
        "n_failed": len(failed),
        "failed": failed[: tell.MOST_LISTED],
    }
    if run.as_json:
        tell.echo_json(whole)
    else:
        print_pages(whole)
    if run.report is not None:
        _write(pages, records, whole, f"{pred} against {gt}", warnings, cdm, run)
    if failed or any(note.status != "empty_prediction" for note in pages.notes):
        raise typer.Exit(1)


def _figures(records: Sequence[Record], mode: str, found: list[Record], with_cdm: bool, seed: int) -> Record:
    """Return the summary of one mode, the axes of both, and what lies between them."""
    summaries = {name: summarize(records, name, seed) for name in MODES}
    modes = {name: {axis: one[axis] for axis in ("overall", *AXES)} for name, one in summaries.items()}
    return {
        **summaries[mode],
        "mode": mode,
        "modes": modes,
        "absent": absences(summaries[mode], with_cdm),
        "differences": found,
        "interaction": interaction(modes["official"], modes["ours"], found),
    }


def _statuses(record: Record, mode: str) -> list[tell.StatusRow]:
    """Return the status of every table and formula of a page."""
    page, name = record["modes"][mode], record["image_name"]
    rows = [
        {"id": f"{name}, table {n}", "status": table["teds"]["status"], "error": table["teds"]["error"]}
        for n, table in enumerate(page["tables"], start=1)
    ]
    rows += [
        {"id": f"{name}, formula {n}", "status": formula["cdm_status"], "error": formula["cdm_error"]}
        for n, formula in enumerate(page["formulas"], start=1)
        if "cdm_status" in formula
    ]
    return rows


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
    with tell.progress("formulas", len(samples)) as advance:
        settings = run.config({"metric": "cdm", **cdm_settings(config)})
        results = score_formulas(samples, config, settings, advance)
    return {pair: result.score for pair, result in zip(pairs, results, strict=True) if result.score is not None}


def _write(
    pages: PageSet,
    records: Sequence[Record],
    whole: Record,
    source: str,
    warnings: Sequence[str],
    cdm: CdmConfig | None,
    run: Run,
) -> None:
    assert run.report is not None
    version = cdm.version if cdm is not None else None
    report = page_report(pages, records, whole, source, warnings, version, run)
    write_report(run.report, report, run.n_worst, draw if cdm is not None else None)
    tell.console.print(f"report: {run.report}", markup=False)
