"""`gravityocr score cdm`: formulas by what they look like; and the check that the tool chain can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, cast

import typer

from gravityocr.commands.score_golden import GoldenCheck, run_golden
from gravityocr.commands.score_options import Run, choice, console, echo, progress
from gravityocr.commands.score_pairs import Advance, PairMetric
from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.metrics.cdm import CdmConfig, CdmScore, CdmScorer, check_toolchain
from gravityocr.metrics.formulas.formula_pictures import draw_formulas
from gravityocr.metrics.runs.score_run import RunConfig, Sample, SampleResult, n_cores, run_batches

Version = Literal["omnidocbench-1.6", "omnidocbench-1.5", "unimernet"]
VERSIONS = ("omnidocbench-1.6", "omnidocbench-1.5", "unimernet")
# The field of the official values that each version has computed.
_GOLDEN_FIELDS = {"omnidocbench-1.6": "cdm_f1", "unimernet": "unimernet_cdm_f1"}
_LEFT_OUT = ("empty_ref", "ref_unrenderable")  # by UniMERNet's own scorer; OmniDocBench counts such a pair as 0
_BATCH = 128  # a process each: enough to pay for it, and few enough for progress to be seen
_TOLERANCE = 0.005  # rendering is not the same to the last pixel on every machine


def cdm_config(version: str, cache: Path | None, n_processes: int | None) -> CdmConfig:
    """Return the scorer's configuration.

    *Raises*: ConfigError for an unknown version.
    """
    named = cast(Version, choice("--version", version, VERSIONS))
    return CdmConfig(
        version=named, cache_folder=str(cache) if cache is not None else None, n_processes=n_processes or n_cores()
    )


def cdm_metric(config: CdmConfig) -> PairMetric:
    """Return CDM as a metric of pairs: many formulas at a time, in processes of its own."""

    def score_all(samples: list[Sample], run: RunConfig, advance: Advance) -> list[SampleResult]:
        return score_formulas(samples, config, run, advance)

    columns = ("cdm", "cdm_strict", "recall", "precision")
    options = {"version": config.version}
    return PairMetric("cdm", "formula", columns, True, score_all=score_all, draw=draw_formulas, options=options)


def score_formulas(samples: list[Sample], config: CdmConfig, run: RunConfig, advance: Advance) -> list[SampleResult]:
    """Score samples of `pred` and `ref`; `cdm` and `cdm_strict` are None where the version leaves such a pair out."""
    left_out = _LEFT_OUT if config.version == "unimernet" else ()

    with CdmScorer(config) as scorer:

        def score(payloads: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
            found = scorer.score([(payload["pred"], payload["ref"]) for payload in payloads])
            return [_figures(one, one.status not in left_out) for one in found]

        return run_batches(samples, score, run, _BATCH * config.n_processes, advance)


def _figures(score: CdmScore, counts: bool) -> dict[str, Any]:
    figures = {"cdm": score.f1, "cdm_strict": score.f1_strict} if counts else {"cdm": None, "cdm_strict": None}
    return {**figures, **asdict(score)}


def golden_cdm(path: Path, config: CdmConfig, run: Run) -> None:
    """Compare with official values and print the comparison.

    *Raises*: ConfigError for a version that the files hold no values of.
    """
    if config.version not in _GOLDEN_FIELDS:
        raise ConfigError(f"--golden holds values of {', '.join(_GOLDEN_FIELDS)}, none of {config.version}")
    name = _GOLDEN_FIELDS[config.version]
    check = GoldenCheck("cdm", ("stripped_pred", "stripped_gt"), (name,), _TOLERANCE)

    def score_all(rows: list[dict[str, Any]]) -> list[SampleResult]:
        samples = [Sample(str(row["id"]), {"pred": row["stripped_pred"], "ref": row["stripped_gt"]}) for row in rows]
        settings = run.config({"metric": "cdm", "version": config.version})
        with progress("cdm", len(samples)) as advance:
            results = score_formulas(samples, config, settings, advance)
        return [
            SampleResult(one.id, one.status, {name: one.score["f1"]} if one.score else None, one.error, one.seconds)
            for one in results
        ]

    run_golden(check, path, run, score_all=score_all)


def check_cdm(config: CdmConfig, as_json: bool) -> None:
    """Render and score a known pair, say whether CDM can be trusted here, and exit 1 where it cannot."""
    try:
        found = check_toolchain(config)
    except GravityOCRError as error:
        if as_json:
            echo({"ok": False, "error": str(error)}, True)
        console.print(f"CDM cannot be trusted here: {error}", style="red", markup=False)
        raise typer.Exit(1) from error
    echo({"ok": True, **found}, as_json)
    console.print("CDM works here: the known pair renders and scores as it must", style="green", markup=False)
