"""`gravityocr score` on pairs: one metric, one figure a pair, means with intervals, and the report."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from gravityocr.commands import score_tell as tell
from gravityocr.commands.score_options import Run
from gravityocr.metrics.runs.axes import axis_name
from gravityocr.metrics.runs.confidence import BootstrapConfig, Interval, mean_interval
from gravityocr.metrics.runs.datasets import Pair, PairSet, read_folders, read_pairs
from gravityocr.metrics.runs.report_model import (
    BreakdownRow,
    Kind,
    Report,
    ReportAxis,
    ReportSample,
    counted,
    number,
    shortened,
)
from gravityocr.metrics.runs.report_samples import Draw
from gravityocr.metrics.runs.score_file import run_facts
from gravityocr.metrics.runs.score_report import find_image, write_report
from gravityocr.metrics.runs.score_run import RunConfig, Sample, SampleResult, run_samples

Advance = Callable[[SampleResult], None]
View = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class PairMetric:
    """A metric of pairs.

    `columns` are the figures of a score, the first being the metric's own and None where the score is left out of the
    means; `options` go to the scorer with every pair and name the run's settings. `score_all` replaces `scorer` where
    samples are not scored one by one. `views` turn what was scored into the figures of each version, of which `mode` is
    the one asked for. `draw` makes pictures of formulas for the report.
    """

    name: str
    kind: Kind
    columns: tuple[str, ...]
    scorer: Callable[[Any], dict[str, Any]] | None = None
    score_all: Callable[[list[Sample], RunConfig, Advance], list[SampleResult]] | None = None
    draw: Draw | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    mode: str | None = None
    views: Mapping[str, View] = field(default_factory=dict)

    def goodness(self, score: Mapping[str, Any]) -> float | None:
        """Return 1 for a perfect score, 0 for the worst, None for one that is left out."""
        value = score[self.columns[0]]
        if value is None:
            return None
        return float(value) if axis_name(self.columns[0]).higher_is_better else 1.0 - float(value)

    @property
    def measure(self) -> str:
        """Name what `goodness` is."""
        own = self.columns[0]
        return own.upper() if axis_name(own).higher_is_better else f"1 - {own}"

    @property
    def settings(self) -> dict[str, Any]:
        """Return what was set, under the names that a reader knows."""
        names = {"mode": "table_mode", "version": "cdm_version"}
        return {names.get(name, name): value for name, value in self.options.items() if name != "compat"}

    def viewed(self, results: Sequence[SampleResult], mode: str | None) -> list[SampleResult]:
        """Return the results with the figures of one version."""
        view = self.views.get(mode or "")
        if view is None:
            return list(results)
        return [replace(row, score=view(row.score)) if row.score is not None else row for row in results]


@dataclass(frozen=True)
class ScoredPairs:
    """A metric's results on the pairs of a set, in their order, and its mean in each of its versions."""

    metric: PairMetric
    pairs: PairSet
    results: list[SampleResult]
    seed: int = 0
    modes: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)

    def figures(self, column: str, chosen: Sequence[int] | None = None) -> list[float]:
        """Return one figure of all pairs (or of the chosen ones) that were scored."""
        rows = self.results if chosen is None else [self.results[index] for index in chosen]
        return [float(row.score[column]) for row in rows if row.score is not None and row.score[column] is not None]

    def interval(self, column: str) -> Interval | None:
        """Return the mean of one figure with its interval."""
        return mean_interval(self.figures(column), config=BootstrapConfig(seed=self.seed))

    def groups(self) -> dict[tuple[str, str], list[int]]:
        """Map (attribute, value) to the pairs that have it, sorted."""
        found: dict[tuple[str, str], list[int]] = {}
        for index, pair in enumerate(self.pairs.pairs):
            for key, value in pair.attributes.items():
                found.setdefault((key, value), []).append(index)
        return dict(sorted(found.items()))

    def axes(self) -> dict[str, dict[str, Any]]:
        """Return `{COLUMN: {mean, ci95, n, caution, higher_is_better}}`."""
        found = {}
        for column in self.metric.columns:
            one = self.interval(column)
            found[column] = {
                "mean": one.value if one else None,
                "ci95": list(one.bounds) if one and one.bounds else None,
                "n": one.n if one else 0,
                "caution": one.caution if one else None,
                "higher_is_better": axis_name(column).higher_is_better,
            }
        return found

    def by_attribute(self) -> dict[str, dict[str, Any]]:
        """Return `{ATTRIBUTE: {VALUE: {n_pairs, COLUMN...}}}`."""
        found: dict[str, dict[str, Any]] = {}
        for (key, value), chosen in self.groups().items():
            found.setdefault(key, {})[value] = {"n_pairs": len(chosen), **self.means(chosen)}
        return found

    def means(self, chosen: Sequence[int] | None = None) -> dict[str, float | None]:
        """Return the mean of every column."""
        columns = {column: self.figures(column, chosen) for column in self.metric.columns}
        return {column: statistics.fmean(values) if values else None for column, values in columns.items()}

    def skipped(self) -> list[tell.StatusRow]:
        """Return the scored pairs that the means leave out."""
        own = self.metric.columns[0]
        return [tell.status_of(row) for row in self.results if row.score is not None and row.score[own] is None]

    def failed(self) -> list[tell.StatusRow]:
        """Return the pairs that were not scored."""
        return [{"metric": self.metric.name, **tell.status_of(row)} for row in self.results if row.score is None]


def load_pairs(pairs: Path | None, pred: Path | None, ref: Path | None) -> PairSet:
    """Read pairs from a JSONL file or from two folders.

    *Raises*: InputError where they cannot be read.
    """
    if pairs is not None:
        return read_pairs(pairs)
    assert pred is not None and ref is not None
    return read_folders(pred, ref)


def score_pairs(metric: PairMetric, pairs: PairSet, run: Run) -> ScoredPairs:
    """Score all pairs of a set, with progress on stderr."""
    config = run.config({"metric": metric.name, **metric.options})
    samples = [Sample(pair.id, {"pred": pair.pred, "ref": pair.ref, **metric.options}) for pair in pairs.pairs]
    with tell.progress(metric.name, len(samples)) as advance:
        if metric.score_all is not None:
            results = metric.score_all(samples, config, advance)
        else:
            assert metric.scorer is not None
            results = run_samples(samples, metric.scorer, config, advance)
    own, modes = metric.columns[0], {}
    for mode in metric.views:
        modes[mode] = {own: ScoredPairs(metric, pairs, metric.viewed(results, mode)).means()[own]}
    return ScoredPairs(metric, pairs, metric.viewed(results, metric.mode), run.seed, modes)


# What is told ---------------------------------------------------------------------------------------


def summary(scored: Sequence[ScoredPairs], mean_axis: str) -> dict[str, Any]:
    """Return what JSON holds of metrics on the same pairs; `mean` is that of `mean_axis`, None without that axis."""
    head = scored[0]
    axes = {column: axis for one in scored for column, axis in one.axes().items()}
    by_attribute = head.by_attribute()
    for other in scored[1:]:
        for key, values in other.by_attribute().items():
            for value, row in values.items():
                by_attribute[key][value] |= row
    own = axes.get(mean_axis, {"mean": None, "ci95": None, "n": axes[head.metric.columns[0]]["n"]})
    counts = Counter(tell.status_of(row)["status"] for row in head.results)
    return {
        "n_pairs": len(head.results),
        "mode": head.metric.mode,
        "settings": {key: value for one in scored for key, value in one.metric.settings.items()},
        "mean": own["mean"],
        "mean_axis": mean_axis,
        "ci95": own["ci95"],
        **{column: axis["mean"] for column, axis in axes.items()},
        "axes": axes,
        "modes": {mode: dict(figures) for one in scored for mode, figures in one.modes.items()},
        "n_scored": own["n"],
        "statuses": dict(sorted(counts.items())),
        "by_attribute": by_attribute,
    }


def finish(scored: Sequence[ScoredPairs], mean_axis: str, title: str, source: str, run: Run) -> None:
    """Print the summary, write the report, and exit 1 where a prediction was missing or a sample failed.

    All of `scored` hold the same pairs; the first one's figures rank the samples of the report.
    """
    pairs, head = scored[0].pairs, summary(scored, mean_axis)
    tell.tell_notes(pairs.notes, pairs.extra)
    rows = [row for one in scored for row in map(tell.status_of, one.results) if row["status"] != "ok"]
    unique = list({row["id"]: row for row in reversed(rows)}.values())[::-1]
    listed = tell.not_ok(unique, head["n_pairs"])
    failed = [row for one in scored for row in one.failed()]
    warnings = tell.not_scored(len({row["id"] for row in failed}), head["n_pairs"])
    warnings += tell.nothing_is_ok(len(unique), head["n_pairs"])
    skipped = [row for one in scored for row in one.skipped()]
    whole = {
        **head,
        **listed,
        "n_skipped": len(skipped),
        "skipped": skipped[: tell.MOST_LISTED],
        "missing": list(pairs.missing),
        "extra": list(pairs.extra),
        "notes": [{"id": note.id, "status": note.status, "message": note.message} for note in pairs.notes],
        "n_failed": len(failed),
        "failed": failed[: tell.MOST_LISTED],
    }
    if run.as_json:
        tell.echo_json(whole)
    else:
        _print_summary(whole)
    if run.report is not None:
        report = pair_report(scored, title, source, run, warnings)
        write_report(run.report, report, run.n_worst, scored[0].metric.draw)
        tell.console.print(f"report: {run.report}", markup=False)
    if failed or any(note.status != "empty_prediction" for note in pairs.notes):
        raise typer.Exit(1)


def _print_summary(whole: Mapping[str, Any]) -> None:
    rows = []
    for column, axis in whole["axes"].items():
        name = axis_name(column)
        rows.append([column, number(axis["mean"]), tell.span(axis["ci95"], column), str(axis["n"]), name.arrow])
    tell.print_table(["axis", whole["mode"] or "mean", "95 % CI", "n", ""], rows, right=(1, 2, 3))
    tell.print_groups(whole["by_attribute"], list(whole["axes"]))
    typer.echo()
    facts: dict[str, object] = {
        "pairs": whole["n_pairs"],
        "statuses": whole["statuses"],
        "left out of the mean": shortened([row["id"] for row in whole["skipped"]])
        + (f" ({whole['n_skipped']})" if whole["skipped"] else ""),
    }
    for mode, figures in whole["modes"].items():
        if mode != whole["mode"]:
            facts |= {f"{mode} {column}": number(value) for column, value in figures.items()}
    facts |= {name: len(whole[name]) or None for name in ("missing", "extra", "notes")}
    fewest = min(whole["axes"].values(), key=lambda axis: axis["n"])
    tell.print_facts({**facts, "not scored": whole["n_failed"] or None, "caution": fewest["caution"]})


# The report ----------------------------------------------------------------------------------------


def pair_report(
    scored: Sequence[ScoredPairs], title: str, source: str, run: Run, warnings: Sequence[str] = ()
) -> Report:
    """Return the report of metrics on the same pairs."""
    columns = [(one, column) for one in scored for column in one.metric.columns]
    axes = [ReportAxis(column, one.interval(column), main=index == 0) for index, (one, column) in enumerate(columns)]
    breakdown = []
    for (key, value), chosen in scored[0].groups().items():
        scores = {column: mean for one in scored for column, mean in one.means(chosen).items()}
        breakdown.append(BreakdownRow(key, value, len(chosen), scores))
    badges = {note.id: note.status.replace("_", " ") for note in scored[0].pairs.notes if "prediction" in note.status}
    samples = [
        _report_sample(scored, index, pair, run.images, badges.get(pair.id))
        for index, pair in enumerate(scored[0].pairs.pairs)
    ]
    settings = {key: value for one in scored for key, value in one.metric.settings.items()}
    mode = scored[0].metric.mode
    facts = [counted(len(samples), "pair"), *([mode] if mode else [])]
    facts += [f"{key.replace('_', ' ')}: {value}" for key, value in settings.items()]
    skipped = [row["id"] for one in scored for row in one.skipped()]
    told = [*warnings, *([f"left out of the mean: {shortened(skipped)} ({len(skipped)})"] if skipped else [])]
    footer = run_facts({**settings, "mode": mode, "seed": run.seed})
    return Report(title, source, axes, samples, breakdown, scored[0].pairs.notes, (), told, facts, footer)


def _report_sample(
    scored: Sequence[ScoredPairs], index: int, pair: Pair, images: Path | None, badge: str | None
) -> ReportSample:
    values: dict[str, float | None] = {}
    status, error = "ok", None
    for one in scored:
        row = one.results[index]
        for column in one.metric.columns:
            values[column] = row.score[column] if row.score else None
        if status == "ok":
            found = tell.status_of(row)
            status, error = str(found["status"]), found["error"]
    metric, first = scored[0].metric, scored[0].results[index].score
    goodness = metric.goodness(first) if first else None
    image = find_image(images, pair.image or pair.id) if images is not None else None
    return ReportSample(
        pair.id, metric.kind, pair.pred, pair.ref, goodness, metric.measure, values, status, error, badge,
        pair.attributes, image,
    )  # fmt: skip
