"""`gravityocr data convert`: a published data set as it was downloaded, or data of one's own, into region files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from gravityocr.commands.options import Json, console
from gravityocr.errors import ConfigError
from gravityocr.training.corpora.conversion import (
    ConversionConfig,
    ConversionSplit,
    Converter,
    UnitReport,
    convert_source,
)
from gravityocr.training.corpora.table_markup import TableHead

_CORPORA = "gravityocr.training.corpora"
# A converter is imported when it is asked for: some of them need packages that others do not.
SOURCES: dict[str, tuple[str, str]] = {
    "pubtables1m": (f"{_CORPORA}.pubtables1m", "PubTables1M"),
    "fintabnet": (f"{_CORPORA}.fintabnet", "FinTabNet"),
    "synthtabnet": (f"{_CORPORA}.synthtabnet", "SynthTabNet"),
    "pubtabnet": (f"{_CORPORA}.pubtabnet", "PubTabNet"),
    "docgenome": (f"{_CORPORA}.docgenome", "DocGenome"),
    "docmatix": (f"{_CORPORA}.docmatix", "Docmatix"),
    "rvlcdip": (f"{_CORPORA}.rvlcdip", "RvlCdip"),
    "doclaynet": (f"{_CORPORA}.doclaynet", "DocLayNet"),
    "unimer": (f"{_CORPORA}.unimer", "UniMer"),
    "synth": (f"{_CORPORA}.synth", "SynthShards"),
    "jsonl": (f"{_CORPORA}.jsonl", "JsonLines"),
}


def make_converter(source: str, config: ConversionConfig) -> Converter:
    """Return the converter of a source.

    *Raises*: ConfigError for an unknown one.
    """
    if source not in SOURCES:
        raise ConfigError(f"source {source!r} is unknown; choose one of {', '.join(SOURCES)}")
    module, name = SOURCES[source]
    return cast("Converter", getattr(import_module(module), name)(config))


def convert(
    source: Annotated[str, typer.Argument(help=f"{', '.join(SOURCES)}.")],
    root: Annotated[Path, typer.Argument(help="Folder with the data set as published; jsonl: your own lists.")],
    out: Annotated[Path, typer.Option(help="Folder for the region files; units that are there already are kept.")],
    split: Annotated[str, typer.Option(help="train, or all that the source publishes.")] = "train",
    limit: Annotated[int | None, typer.Option(help="Most regions a unit; default: all.")] = None,
    processes: Annotated[int, typer.Option(help="Units converted at a time.")] = 1,
    layout: Annotated[str, typer.Option(help="Detector that cuts pages into regions.")] = "cdla",
    dpi: Annotated[int, typer.Option(help="Resolution of tables that are published as PDF.")] = 200,
    table_head: Annotated[str, typer.Option(help="Header rows of annotated tables: td, th or thead.")] = "td",
    wear: Annotated[float, typer.Option(help="synth: 0 leaves crops as drawn, 1 wears them as training does.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Convert a published data set, or your own (jsonl), into region files, a shard a unit."""
    head = cast("TableHead", table_head)
    config = ConversionConfig(cast("ConversionSplit", split), limit, processes, layout, dpi, head, wear)
    reports: list[UnitReport] = []
    for report in convert_source(make_converter(source, config), root, out, config):
        reports.append(report)
        console.print(_line(report), markup=False, soft_wrap=True)
    summary = _summary(source, out, reports)
    typer.echo(json.dumps(summary, ensure_ascii=False, indent=1) if as_json else _as_text(summary))
    if not summary["n_regions"]:
        console.print(_why_nothing(summary), style="red", markup=False, soft_wrap=True)
    if summary["n_failed"] or not summary["n_regions"]:
        raise typer.Exit(1)


def _why_nothing(summary: dict[str, Any]) -> str:
    if summary["n_failed"] or summary["n_skipped"]:
        return "nothing could be converted; the reasons above say why"
    if summary["n_other_splits"]:
        return f"no region: all {summary['n_other_splits']} samples are of other splits; take them with --split all"
    return f"no region: {summary['source']} lists no sample; look whether it was downloaded whole"


def _line(report: UnitReport) -> str:
    if report.status == "failed":
        return f"{report.unit}: failed: {report.error}"
    worst = ", ".join(f"{count} {reason}" for reason, count in Counter(report.reasons).most_common(3))
    others = f", {report.n_other_splits} of other splits" if report.n_other_splits else ""
    counts = f"{report.n_regions} regions, {report.n_skipped} skipped{f' ({worst})' if worst else ''}{others}"
    return f"{report.unit}: {report.status}, {counts}"


def _summary(source: str, out: Path, reports: Sequence[UnitReport]) -> dict[str, Any]:
    status = Counter(report.status for report in reports)
    totals: dict[str, Counter[str]] = {name: Counter() for name in ("tasks", "origins", "reasons")}
    for report in reports:
        for name, total in totals.items():
            total.update(getattr(report, name))
    return {
        "source": source,
        "folder": str(out / source),
        "n_units": len(reports),
        **{f"n_{name}": status[name] for name in ("made", "kept", "failed")},
        "n_regions": sum(report.n_regions for report in reports),
        "n_skipped": sum(report.n_skipped for report in reports),
        "n_other_splits": sum(report.n_other_splits for report in reports),
        **{name: dict(total.most_common()) for name, total in totals.items()},
        "failed": [{"unit": report.unit, "error": report.error} for report in reports if report.status == "failed"],
    }


def _as_text(summary: dict[str, Any]) -> str:
    made = ", ".join(f"{summary[f'n_{name}']} {name}" for name in ("made", "kept", "failed"))
    lines = [f"{summary['folder']}: {summary['n_units']} units ({made})"]
    others = f", {summary['n_other_splits']} of other splits" if summary["n_other_splits"] else ""
    lines.append(f"{summary['n_regions']} regions, {summary['n_skipped']} samples skipped{others}")
    for name in ("tasks", "origins", "reasons"):
        lines += [f"  {name[:-1]} {key}: {count}" for key, count in summary[name].items()]
    return "\n".join(lines)
