"""`gravityocr score` on pairs: one metric, one figure a pair, means with intervals, and the report."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from gravityocr.commands.score_options import Run, console, echo, progress, tell_failures, tell_notes
from gravityocr.metrics.runs.confidence import BootstrapConfig, Interval, mean_interval
from gravityocr.metrics.runs.datasets import Pair, PairSet, read_folders, read_pairs
from gravityocr.metrics.runs.score_report import (
    BreakdownRow,
    Draw,
    Kind,
    Report,
    ReportAxis,
    ReportSample,
    find_image,
    write_report,
)
from gravityocr.metrics.runs.score_run import RunConfig, Sample, SampleResult, run_samples

Advance = Callable[[SampleResult], None]


@dataclass(frozen=True)
class PairMetric:
    """A metric of pairs.

    `columns` are the figures of a score, the first being the metric's own; `options` go to the scorer with every pair
    and name the run's settings. `score_all` replaces `scorer` where samples are not scored one by one; `draw` makes
    pictures of formulas for the report.
    """

    name: str
    kind: Kind
    columns: tuple[str, ...]
    higher_is_better: bool
    scorer: Callable[[Any], dict[str, Any]] | None = None
    score_all: Callable[[list[Sample], RunConfig, Advance], list[SampleResult]] | None = None
    draw: Draw | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def goodness(self, score: Mapping[str, Any]) -> float:
        """Return 1 for a perfect score, 0 for the worst."""
        value = float(score[self.columns[0]])
        return value if self.higher_is_better else 1.0 - value


@dataclass(frozen=True)
class ScoredPairs:
    """A metric's results on the pairs of a set, in their order."""

    metric: PairMetric
    pairs: PairSet
    results: list[SampleResult]
    seed: int = 0

    def figures(self, column: str, chosen: Sequence[int] | None = None) -> list[float]:
        """Return one figure of all pairs (or of the chosen ones) that were scored."""
        rows = self.results if chosen is None else [self.results[index] for index in chosen]
        return [float(row.score[column]) for row in rows if row.score is not None and row.score[column] is not None]

    def interval(self, column: str, chosen: Sequence[int] | None = None) -> Interval | None:
        """Return the mean of one figure with its interval."""
        return mean_interval(self.figures(column, chosen), config=BootstrapConfig(seed=self.seed))

    def groups(self) -> dict[tuple[str, str], list[int]]:
        """Map (attribute, value) to the pairs that have it, sorted."""
        found: dict[tuple[str, str], list[int]] = {}
        for index, pair in enumerate(self.pairs.pairs):
            for key, value in pair.attributes.items():
                found.setdefault((key, value), []).append(index)
        return dict(sorted(found.items()))

    def summary(self) -> dict[str, Any]:
        """Return `{n_pairs, mean, ci95, COLUMN..., n_scored, statuses, by_attribute}`."""
        whole = self.interval(self.metric.columns[0])
        by_attribute: dict[str, dict[str, Any]] = {}
        for (key, value), chosen in self.groups().items():
            by_attribute.setdefault(key, {})[value] = {"n_pairs": len(chosen), **self._means(chosen)}
        counts = Counter(str(row.score.get("status", "ok")) if row.score else row.status for row in self.results)
        return {
            "n_pairs": len(self.results),
            "mean": whole.value if whole else None,
            "ci95": list(whole.bounds) if whole else None,
            **self._means(None),
            "n_scored": whole.n if whole else 0,
            "statuses": dict(sorted(counts.items())),
            "by_attribute": by_attribute,
        }

    def _means(self, chosen: Sequence[int] | None) -> dict[str, float | None]:
        columns = {column: self.figures(column, chosen) for column in self.metric.columns}
        return {column: statistics.fmean(values) if values else None for column, values in columns.items()}


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
    with progress(metric.name, len(samples)) as advance:
        if metric.score_all is not None:
            results = metric.score_all(samples, config, advance)
        else:
            assert metric.scorer is not None
            results = run_samples(samples, metric.scorer, config, advance)
    return ScoredPairs(metric, pairs, results, run.seed)


def finish(scored: Sequence[ScoredPairs], head: Mapping[str, Any], title: str, source: str, run: Run) -> None:
    """Print the summary, write the report, and exit 1 where a prediction was missing or a sample failed.

    All of `scored` hold the same pairs; the first one's figures rank the samples of the report.
    """
    pairs = scored[0].pairs
    tell_notes(pairs.notes, pairs.extra)
    failed = [{"metric": one.metric.name, **row} for one in scored for row in tell_failures(one.results)]
    echo(
        {
            **head,
            "missing": list(pairs.missing),
            "extra": list(pairs.extra),
            "notes": [{"id": note.id, "status": note.status, "message": note.message} for note in pairs.notes],
            "failed": failed,
        },
        run.as_json,
    )
    if run.report is not None:
        write_report(run.report, pair_report(scored, title, source, run), run.n_worst, scored[0].metric.draw)
        console.print(f"report: {run.report}", markup=False)
    if failed or any(note.status != "empty_prediction" for note in pairs.notes):
        raise typer.Exit(1)


def pair_report(scored: Sequence[ScoredPairs], title: str, source: str, run: Run) -> Report:
    """Return the report of metrics on the same pairs."""
    columns = [(one, column) for one in scored for column in one.metric.columns]
    axes = [
        ReportAxis(column, one.interval(column), one.metric.higher_is_better, main=index == 0)
        for index, (one, column) in enumerate(columns)
    ]
    breakdown = []
    for (key, value), chosen in scored[0].groups().items():
        scores = {}
        for one, column in columns:
            found = one.figures(column, chosen)
            scores[column] = statistics.fmean(found) if found else None
        breakdown.append(BreakdownRow(key, value, len(chosen), scores))
    samples = [_report_sample(scored, index, pair, run.images) for index, pair in enumerate(scored[0].pairs.pairs)]
    facts = {"pairs": len(samples), **{key: value for one in scored for key, value in one.metric.options.items()}}
    return Report(title, source, axes, samples, breakdown, scored[0].pairs.notes, (), facts)


def _report_sample(scored: Sequence[ScoredPairs], index: int, pair: Pair, images: Path | None) -> ReportSample:
    values: dict[str, float | None] = {}
    status, error = "ok", None
    for one in scored:
        row = one.results[index]
        for column in one.metric.columns:
            values[column] = row.score[column] if row.score else None
        found = (str(row.score.get("status", "ok")), row.score.get("error")) if row.score else (row.status, row.error)
        if status == "ok":
            status, error = found
    first = scored[0].results[index].score
    goodness = scored[0].metric.goodness(first) if first and first[scored[0].metric.columns[0]] is not None else None
    image = find_image(images, pair.image or pair.id) if images is not None else None
    kind = scored[0].metric.kind
    return ReportSample(pair.id, kind, pair.pred, pair.ref, goodness, values, status, error, pair.attributes, image)
