"""`gravityocr score`: predictions beside references, by the metrics that benchmarks publish."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from gravityocr.commands import score_options as options
from gravityocr.commands.score_golden import GoldenCheck, run_golden
from gravityocr.commands.score_options import (
    Compat,
    FormulaVersion,
    PageVersion,
    Run,
    TableMode,
    TextKind,
    check_source,
    refuse_for_golden,
    refuse_unused,
)
from gravityocr.commands.score_pairs import PairMetric, finish, load_pairs, score_pairs
from gravityocr.errors import ConfigError
from gravityocr.metrics.runs.benchmark_sets import read_pubtabnet, read_unimer
from gravityocr.metrics.runs.datasets import TEXT_SUFFIXES, PairSet
from gravityocr.metrics.runs.input_files import STDIN
from gravityocr.metrics.runs.output_places import InputPlace
from gravityocr.metrics.runs.score_tasks import edit_task, golden_edit_task, golden_teds_task, teds_task

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Gt = Annotated[Path, typer.Option(help="The benchmark's ground truth.")]
Predictions = Annotated[Path, typer.Option("--pred", help="The predictions for it.")]

_TEDS_CHECK = GoldenCheck(
    "table", ("pred_html", "gt_html"), ("teds", "teds_struct", "teds_raw", "teds_struct_raw")
)  # fmt: skip
_EDIT_CHECK = GoldenCheck(
    "text", ("pred", "gt", "type"), ("edit_dist", "edit_raw", "edit_num", "upper_len", "norm_pred", "norm_gt")
)


@app.callback()
def root() -> None:
    """Score predictions as the official scorers do, and faster.

    \b
    You have                                        use
      Markdown of whole pages, and OmniDocBench       omnidocbench
      pairs of tables, of texts, of formulas          teds, edit, cdm
      predictions for PubTabNet, for UniMER-Test      pubtabnet, unimer
      doubts about CDM's TeX on this machine          cdm --check
      doubts about these scorers                      teds|edit|cdm|order --golden FILE

    Figures are ours, the official scorers' faults mended, or with `--compat official` those that are published.
    Exit status: 0 all well, 1 some input failed or was missing (the rest is scored), 2 wrong usage.
    """


def _score(metric: PairMetric, pairs: PairSet, title: str, source: str, run: Run) -> None:
    finish([score_pairs(metric, pairs, run)], metric.columns[0], title, source, run)


def _inputs(golden: Path | None, pairs: Path | None, pred: Path | None, ref: Path | None) -> list[InputPlace]:
    check_source(golden, pairs, pred, ref)
    files = [InputPlace(name, path) for name, path in (("--golden", golden), ("--pairs", pairs)) if path is not None]
    folders = [(name, path) for name, path in (("--pred", pred), ("--ref", ref)) if path is not None]
    return files + [InputPlace(name, path, TEXT_SUFFIXES) for name, path in folders]


def _named(pairs: Path | None, pred: Path | None, ref: Path | None) -> str:
    if pairs is not None:
        return "pairs of stdin" if pairs == STDIN else str(pairs)
    return f"{pred} against {ref}"


def _teds_metric(mode: TableMode, compat: Compat) -> PairMetric:
    settings = {"mode": mode.value, "compat": compat is Compat.official}
    return PairMetric("teds", "table", ("teds", "teds_struct"), teds_task, options=settings, mode=compat.value)


def _edit_metric(kind: TextKind) -> PairMetric:
    return PairMetric("edit", kind.value, ("ned",), edit_task, options={"kind": kind.value})


@app.command("teds", short_help="Pairs of tables: TEDS and TEDS-S, tree edit distances.")
def teds(
    ctx: typer.Context,
    golden: options.Golden = None,
    pairs: options.Pairs = None,
    pred: options.Pred = None,
    ref: options.Ref = None,
    mode: Annotated[TableMode, typer.Option(help="Compare normal forms, or raw HTML.")] = TableMode.omnidocbench,
    compat: options.CompatOption = Compat.ours,
    as_json: options.Json = False,
    processes: options.Processes = None,
    timeout: options.Timeout = 600.0,
    results: options.Results = None,
    report: options.ReportFile = None,
    images: options.Images = None,
    worst: options.Worst = 20,
    seed: options.Seed = 0,
) -> None:
    """Score tables by tree edit distance: TEDS and, by structure alone, TEDS-S.

    Tables are HTML; unless `--compat official` is given, those of pipes and of LaTeX are read as HTML first.
    """
    run = Run(as_json, processes, timeout, results, report, images, worst, seed)
    inputs = _inputs(golden, pairs, pred, ref)
    refuse_for_golden(ctx, golden, report, "mode", "compat")
    run.check(inputs)
    if golden is not None:
        run_golden(_TEDS_CHECK, golden, run, golden_teds_task)
        return
    _score(_teds_metric(mode, compat), load_pairs(pairs, pred, ref), "Tables: TEDS", _named(pairs, pred, ref), run)


@app.command("edit", short_help="Pairs of texts: normalised edit distance.")
def edit(
    ctx: typer.Context,
    golden: options.Golden = None,
    pairs: options.Pairs = None,
    pred: options.Pred = None,
    ref: options.Ref = None,
    kind: Annotated[TextKind, typer.Option(help="What both sides are normalised as.")] = TextKind.text,
    as_json: options.Json = False,
    processes: options.Processes = None,
    timeout: options.Timeout = 600.0,
    results: options.Results = None,
    report: options.ReportFile = None,
    images: options.Images = None,
    worst: options.Worst = 20,
    seed: options.Seed = 0,
) -> None:
    """Score texts by normalised edit distance: 0 is equality. Ours and the official value are the same."""
    run = Run(as_json, processes, timeout, results, report, images, worst, seed)
    inputs = _inputs(golden, pairs, pred, ref)
    refuse_for_golden(ctx, golden, report, "kind")
    run.check(inputs)
    if golden is not None:
        run_golden(_EDIT_CHECK, golden, run, golden_edit_task)
        return
    _score(_edit_metric(kind), load_pairs(pairs, pred, ref), "Text: edit distance", _named(pairs, pred, ref), run)


@app.command("cdm", short_help="Pairs of formulas: CDM, what TeX draws of them.")
def cdm(
    ctx: typer.Context,
    golden: options.Golden = None,
    pairs: options.Pairs = None,
    pred: options.Pred = None,
    ref: options.Ref = None,
    check: Annotated[bool, typer.Option("--check", help="Only prove the tool chain on a known pair.")] = False,
    version: options.CdmVersion = FormulaVersion.v16,
    compat: options.CompatOption = Compat.ours,
    cache: options.Cache = None,
    as_json: options.Json = False,
    processes: options.Processes = None,
    timeout: options.TexTimeout = 10.0,
    results: options.Results = None,
    report: options.ReportFile = None,
    images: options.Images = None,
    worst: options.Worst = 20,
    seed: options.Seed = 0,
) -> None:
    """Score formulas by the characters that TeX draws of them: CDM."""
    from gravityocr.commands import score_cdm

    config = score_cdm.cdm_config(version.value, cache, processes, timeout)
    if check:
        if golden or pairs or pred or ref:
            raise ConfigError("--check scores its own pair; give no other input with it")
        unused = ("compat", "cache", "processes", "results", *options.OF_A_SUMMARY)
        refuse_unused(ctx, unused, "with --check")
        score_cdm.check_cdm(config, as_json)
        return
    run = Run(as_json, processes, 600.0, results, report, images, worst, seed)
    inputs = _inputs(golden, pairs, pred, ref)
    refuse_for_golden(ctx, golden, report, "compat")
    if golden is not None:
        score_cdm.check_golden_version(version)
    run.check(inputs, cache)
    if golden is not None:
        score_cdm.require_tex(config, can_do_without=False)
        score_cdm.golden_cdm(golden, config, run)
        return
    found = load_pairs(pairs, pred, ref)
    score_cdm.require_tex(config, can_do_without=False)
    _score(score_cdm.cdm_metric(config, compat.value), found, "Formulas: CDM", _named(pairs, pred, ref), run)


@app.command("pubtabnet", short_help="PubTabNet: TEDS of simple and of complex tables.")
def pubtabnet(
    ctx: typer.Context,
    gt: Gt,
    pred: Predictions,
    split: Annotated[str, typer.Option(help="The split to score, or all.")] = "val",
    compat: options.CompatOption = Compat.ours,
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
    run = Run(as_json, processes, timeout, results, report, images, worst, seed)
    if report is None:
        refuse_unused(ctx, options.OF_A_REPORT, "without --report")
    if gt.suffix.lower() == ".json":
        refuse_unused(ctx, ("split",), "with a ground truth of the final evaluation")
    run.check([InputPlace("--gt", gt), InputPlace("--pred", pred)])
    metric = _teds_metric(TableMode.pubtabnet, compat)
    pairs = read_pubtabnet(gt, pred, None if split == "all" else split)
    _score(metric, pairs, "PubTabNet", f"{pred} against {gt}", run)


@app.command("unimer", short_help="UniMER-Test: CDM and edit distance by subset.")
def unimer(
    ctx: typer.Context,
    gt: Gt,
    pred: Predictions,
    with_cdm: options.WithCdm = True,
    version: options.CdmVersion = FormulaVersion.unimernet,
    compat: options.CompatOption = Compat.ours,
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
    """Score formulas of UniMER-Test by subset: CDM and edit distance.

    Predictions are a folder of `spe.txt` or `spe.jsonl` (cpe, sce, hwe), or one JSONL file of id and pred.
    """
    from gravityocr.commands import score_cdm

    run = Run(as_json, processes, timeout, results, report, images, worst, seed)
    if report is None:
        refuse_unused(ctx, options.OF_A_REPORT, "without --report")
    if not with_cdm:
        refuse_unused(ctx, ("compat", *options.OF_CDM), "with --no-cdm")
    lines = (".txt", ".jsonl")
    run.check([InputPlace("--gt", gt, lines), InputPlace("--pred", pred, lines if os.path.isdir(pred) else ())], cache)
    pairs = read_unimer(gt, pred)
    metrics = [_edit_metric(TextKind.formula)]
    if with_cdm:
        config = score_cdm.cdm_config(version.value, cache, processes)
        score_cdm.require_tex(config, can_do_without=True)
        metrics.insert(0, score_cdm.cdm_metric(config, compat.value))
    scored = [score_pairs(metric, pairs, run) for metric in metrics]
    finish(scored, "cdm", "UniMER-Test", f"{pred} against {gt}", run)


@app.command("order", short_help="Self-test: reading orders against official values.")
def order(
    golden: Annotated[Path, typer.Option(help="Official orders; annotations of pages in e2e/gt.json beside it.")],
    as_json: options.Json = False,
    processes: options.Processes = None,
    timeout: options.Timeout = 600.0,
    results: options.Results = None,
) -> None:
    """Test the scorer of reading orders against official values; `omnidocbench` scores predicted pages."""
    from gravityocr.commands import score_pages

    run = Run(as_json, processes, timeout, results)
    run.check([InputPlace("--golden", golden)])
    score_pages.golden_order(golden, run)


@app.command("omnidocbench", short_help="Pages end to end: text, formulas, tables, order, Overall.")
def omnidocbench(
    ctx: typer.Context,
    gt: Gt,
    pred: Predictions,
    compat: options.CompatOption = Compat.ours,
    version: Annotated[PageVersion, typer.Option(help="They differ in CDM.")] = PageVersion.v16,
    with_cdm: options.WithCdm = True,
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
    """Score pages end to end: text, formulas, tables, reading order and Overall.

    Predictions are a folder of `<image stem>.md`. Both versions are computed; `--compat` says of which the figures,
    intervals and breakdowns are.
    """
    from gravityocr.commands import score_cdm, score_pages

    run = Run(as_json, processes, timeout, results, report, images, worst, seed)
    if report is None:
        refuse_unused(ctx, options.OF_A_REPORT, "without --report")
    if not with_cdm:
        refuse_unused(ctx, options.OF_CDM, "with --no-cdm")
    run.check([InputPlace("--gt", gt), InputPlace("--pred", pred, (".md", ".mmd"))], cache)
    config = score_cdm.cdm_config(version.value, cache, processes) if with_cdm else None
    score_pages.score_benchmark(gt, pred, compat.value, config, run)
