"""`gravityocr score`: predictions beside references, by the metrics that benchmarks publish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gravityocr.commands import score_options as options
from gravityocr.commands.score_golden import GoldenCheck, run_golden
from gravityocr.commands.score_options import Run, check_source, choice
from gravityocr.commands.score_pairs import PairMetric, finish, load_pairs, score_pairs
from gravityocr.errors import ConfigError
from gravityocr.metrics.runs.benchmark_sets import read_pubtabnet, read_unimer
from gravityocr.metrics.runs.datasets import PairSet
from gravityocr.metrics.runs.score_tasks import edit_task, golden_edit_task, golden_teds_task, teds_task

app = typer.Typer(no_args_is_help=True, help="Score predictions as the official scorers do, and faster.")

Gt = Annotated[Path, typer.Option(help="The benchmark's ground truth.")]
Predictions = Annotated[Path, typer.Option("--pred", help="The predictions for it.")]

_COMPAT = ("ours", "official")
_TABLE_MODES = ("omnidocbench", "pubtabnet")
_TEXT_KINDS = ("text", "formula", "table")
_TEDS_CHECK = GoldenCheck(
    "table", ("pred_html", "gt_html"), ("teds", "teds_struct", "teds_raw", "teds_struct_raw")
)  # fmt: skip
_EDIT_CHECK = GoldenCheck(
    "text", ("pred", "gt", "type"), ("edit_dist", "edit_raw", "edit_num", "upper_len", "norm_pred", "norm_gt")
)


@app.callback()
def root() -> None:
    """Score predictions as the official scorers do, and faster."""


def _run(
    as_json: bool,
    processes: int | None,
    timeout: float,
    results: Path | None,
    report: Path | None,
    images: Path | None,
    worst: int,
    seed: int,
) -> Run:
    run = Run(as_json, processes, timeout, results, report, images, worst, seed)
    run.config({})
    return run


def _score(metric: PairMetric, pairs: PairSet, title: str, source: str, run: Run) -> None:
    scored = score_pairs(metric, pairs, run)
    finish([scored], scored.summary(), title, source, run)


def _named(pairs: Path | None, pred: Path | None, ref: Path | None) -> str:
    return str(pairs) if pairs is not None else f"{pred} against {ref}"


def _teds_metric(mode: str, compat: str) -> PairMetric:
    choice("--compat", compat, _COMPAT)
    settings = {"mode": choice("--mode", mode, _TABLE_MODES), "compat": compat == "official"}
    return PairMetric("teds", "table", ("teds", "teds_struct"), True, teds_task, options=settings)


def _edit_metric(kind: str) -> PairMetric:
    settings = {"kind": choice("--kind", kind, _TEXT_KINDS)}
    shape: Any = kind
    return PairMetric("edit", shape, ("ned",), False, edit_task, options=settings)


@app.command("teds")
def teds(
    golden: options.Golden = None,
    pairs: options.Pairs = None,
    pred: options.Pred = None,
    ref: options.Ref = None,
    mode: Annotated[str, typer.Option(help="omnidocbench (normalised) or pubtabnet (raw).")] = "omnidocbench",
    compat: options.Compat = "ours",
    as_json: options.Json = False,
    processes: options.Processes = None,
    timeout: options.Timeout = 600.0,
    results: options.Results = None,
    report: options.ReportFile = None,
    images: options.Images = None,
    worst: options.Worst = 20,
    seed: options.Seed = 0,
) -> None:
    """Score HTML tables by tree edit distance: TEDS and, by structure alone, TEDS-S."""
    check_source(golden, pairs, pred, ref)
    run = _run(as_json, processes, timeout, results, report, images, worst, seed)
    if golden is not None:
        run_golden(_TEDS_CHECK, golden, run, golden_teds_task)
        return
    _score(_teds_metric(mode, compat), load_pairs(pairs, pred, ref), "Tables: TEDS", _named(pairs, pred, ref), run)


@app.command("edit")
def edit(
    golden: options.Golden = None,
    pairs: options.Pairs = None,
    pred: options.Pred = None,
    ref: options.Ref = None,
    kind: Annotated[str, typer.Option(help="How to normalise: as text, formula or table.")] = "text",
    as_json: options.Json = False,
    processes: options.Processes = None,
    timeout: options.Timeout = 600.0,
    results: options.Results = None,
    report: options.ReportFile = None,
    images: options.Images = None,
    worst: options.Worst = 20,
    seed: options.Seed = 0,
) -> None:
    """Score text by normalised edit distance: 0 is equality."""
    check_source(golden, pairs, pred, ref)
    run = _run(as_json, processes, timeout, results, report, images, worst, seed)
    if golden is not None:
        run_golden(_EDIT_CHECK, golden, run, golden_edit_task)
        return
    _score(_edit_metric(kind), load_pairs(pairs, pred, ref), "Text: edit distance", _named(pairs, pred, ref), run)


@app.command("cdm")
def cdm(
    golden: options.Golden = None,
    pairs: options.Pairs = None,
    pred: options.Pred = None,
    ref: options.Ref = None,
    check: Annotated[bool, typer.Option("--check", help="Only prove the tool chain on a known pair.")] = False,
    version: options.CdmVersion = "omnidocbench-1.6",
    cache: options.Cache = None,
    as_json: options.Json = False,
    processes: options.Processes = None,
    results: options.Results = None,
    report: options.ReportFile = None,
    images: options.Images = None,
    worst: options.Worst = 20,
    seed: options.Seed = 0,
) -> None:
    """Score formulas by the characters that TeX draws of them: CDM."""
    from gravityocr.commands import score_cdm

    config = score_cdm.cdm_config(version, cache, processes)
    if check:
        if golden or pairs or pred or ref:
            raise ConfigError("--check scores its own pair; give no other input with it")
        score_cdm.check_cdm(config, as_json)
        return
    check_source(golden, pairs, pred, ref)
    run = _run(as_json, processes, 600.0, results, report, images, worst, seed)
    if golden is not None:
        score_cdm.golden_cdm(golden, config, run)
        return
    metric = score_cdm.cdm_metric(config)
    _score(metric, load_pairs(pairs, pred, ref), "Formulas: CDM", _named(pairs, pred, ref), run)


@app.command("pubtabnet")
def pubtabnet(
    gt: Gt,
    pred: Predictions,
    split: Annotated[str, typer.Option(help="The split to score, or all.")] = "val",
    compat: options.Compat = "ours",
    as_json: options.Json = False,
    processes: options.Processes = None,
    timeout: options.Timeout = 600.0,
    results: options.Results = None,
    report: options.ReportFile = None,
    images: options.Images = None,
    worst: options.Worst = 20,
    seed: options.Seed = 0,
) -> None:
    """Score tables of PubTabNet: simple ones, and complex ones with spans."""
    run = _run(as_json, processes, timeout, results, report, images, worst, seed)
    metric = _teds_metric("pubtabnet", compat)
    pairs = read_pubtabnet(gt, pred, None if split == "all" else split)
    _score(metric, pairs, "PubTabNet", f"{pred} against {gt}", run)


@app.command("unimer")
def unimer(
    gt: Gt,
    pred: Predictions,
    with_cdm: Annotated[bool, typer.Option("--cdm/--no-cdm", help="Without CDM, no TeX is needed.")] = True,
    version: options.CdmVersion = "unimernet",
    cache: options.Cache = None,
    as_json: options.Json = False,
    processes: options.Processes = None,
    timeout: options.Timeout = 600.0,
    results: options.Results = None,
    report: options.ReportFile = None,
    images: options.Images = None,
    worst: options.Worst = 20,
    seed: options.Seed = 0,
) -> None:
    """Score formulas of UniMER-Test by subset: edit distance and CDM."""
    run = _run(as_json, processes, timeout, results, report, images, worst, seed)
    metrics = [_edit_metric("formula")]
    if with_cdm:
        from gravityocr.commands import score_cdm

        metrics.insert(0, score_cdm.cdm_metric(score_cdm.cdm_config(version, cache, processes)))
    pairs = read_unimer(gt, pred)
    scored = [score_pairs(metric, pairs, run) for metric in metrics]
    head = scored[0].summary()
    for other in scored[1:]:
        more = other.summary()
        head |= {column: more[column] for column in other.metric.columns}
        for subset, row in more["by_attribute"]["subset"].items():
            head["by_attribute"]["subset"][subset] |= {column: row[column] for column in other.metric.columns}
    finish(scored, head, "UniMER-Test", f"{pred} against {gt}", run)


@app.command("order")
def order(
    golden: Annotated[Path, typer.Option(help="Official orders; annotations of pages in e2e/gt.json beside it.")],
    as_json: options.Json = False,
    processes: options.Processes = None,
    timeout: options.Timeout = 600.0,
    results: options.Results = None,
) -> None:
    """Compare reading orders with official ones; `omnidocbench` scores the order of predicted pages."""
    from gravityocr.commands import score_pages

    score_pages.golden_order(golden, _run(as_json, processes, timeout, results, None, None, 0, 0))


@app.command("omnidocbench")
def omnidocbench(
    gt: Gt,
    pred: Predictions,
    compat: options.Compat = "ours",
    version: Annotated[str, typer.Option(help="v1.6 or v1.5, which differ in CDM.")] = "v1.6",
    with_cdm: Annotated[bool, typer.Option("--cdm/--no-cdm", help="Without CDM, no TeX is needed.")] = True,
    cache: options.Cache = None,
    as_json: options.Json = False,
    processes: options.Processes = None,
    timeout: options.Timeout = 600.0,
    results: options.Results = None,
    report: options.ReportFile = None,
    images: options.Images = None,
    worst: options.Worst = 20,
) -> None:
    """Score pages end to end: text, formulas, tables, reading order and Overall.

    Predictions are a folder of `<image stem>.md`.
    """
    from gravityocr.commands import score_cdm, score_pages

    run = _run(as_json, processes, timeout, results, report, images, worst, 0)
    mode = {"ours": "default", "official": "official"}[choice("--compat", compat, _COMPAT)]
    number = choice("--version", version, ("v1.6", "v1.5")).removeprefix("v")
    config = score_cdm.cdm_config(f"omnidocbench-{number}", cache, processes) if with_cdm else None
    score_pages.score_benchmark(gt, pred, mode, config, run)
