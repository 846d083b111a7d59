"""`gravityocr score cdm`: formulas by what they look like; and the check that the tool chain can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from gravityocr.commands import score_tell as tell
from gravityocr.commands.score_golden import GoldenCheck, run_golden
from gravityocr.commands.score_options import FormulaVersion, Run
from gravityocr.commands.score_pairs import Advance, PairMetric, View
from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.metrics.cdm import CdmConfig, CdmScorer, Version, check_toolchain
from gravityocr.metrics.formulas.formula_pictures import draw_formulas
from gravityocr.metrics.formulas.tex_runner import ToolMissingError
from gravityocr.metrics.normalization import formula_to_render
from gravityocr.metrics.runs.score_run import RunConfig, Sample, SampleResult, n_cores, run_batches

TEX_TIMEOUT_S = 10.0
_VERSIONS: dict[str, Version] = {
    "v1.6": "omnidocbench-1.6", "v1.5": "omnidocbench-1.5", "unimernet": "unimernet",
    "omnidocbench-1.6": "omnidocbench-1.6", "omnidocbench-1.5": "omnidocbench-1.5",
}  # fmt: skip
# The field of the official values that each version has computed.
_GOLDEN_FIELDS = {"omnidocbench-1.6": "cdm_f1", "unimernet": "unimernet_cdm_f1"}
_BROKEN = ("empty_ref", "ref_unrenderable")
_BATCH = 128  # a process each: enough to pay for it, and few enough for progress to be seen
_TOLERANCE = 0.005  # rendering is not the same to the last pixel on every machine


def cdm_config(
    version: str, cache: Path | None, n_processes: int | None, timeout_s: float = TEX_TIMEOUT_S
) -> CdmConfig:
    """Return the scorer's configuration for a version as the command line names it.

    *Raises*: ConfigError for values out of range.
    """
    folder = str(cache) if cache is not None else None
    return CdmConfig(_VERSIONS[version], folder, n_processes or n_cores(), timeout_s=timeout_s)


def require_tex(config: CdmConfig, *, can_do_without: bool) -> None:
    """Prove the tool chain before anything is scored with it.

    *Raises*: ConfigError naming what is missing or wrong and, where the command has it, `--no-cdm`.
    """
    try:
        check_toolchain(config)
    except ToolMissingError as error:
        way_out = "; or leave CDM out with --no-cdm" if can_do_without else ""
        raise ToolMissingError(f"{error}{way_out}") from error
    except ConfigError as error:
        way_out = "; or leave CDM out with --no-cdm" if can_do_without else ""
        raise ConfigError(f"{error}{way_out}") from error


def cdm_metric(config: CdmConfig, mode: str) -> PairMetric:
    """Return CDM as a metric of pairs: many formulas at a time, in processes of its own."""

    def score_all(samples: list[Sample], run: RunConfig, advance: Advance) -> list[SampleResult]:
        return score_formulas(samples, config, run, advance)

    return PairMetric(
        "cdm", "formula", ("cdm", "recall", "precision"), score_all=score_all, draw=draw,
        options=cdm_settings(config), mode=mode, views=_views(config.version),
    )  # fmt: skip


def cdm_settings(config: CdmConfig) -> dict[str, Any]:
    """Return what scores depend on: kept results of other settings are not taken up."""
    return {"version": config.version, "tex_timeout_s": config.timeout_s}


def draw(formulas: Sequence[str]) -> list[bytes | None]:
    """Make pictures of formulas for a report, of what CDM renders of them."""
    return draw_formulas([formula_to_render(latex) for latex in formulas])


def _views(version: str) -> dict[str, View]:
    """Return how each mode reads a score: UniMERNet's own scorer leaves broken references out as well."""
    official_leaves_out = _BROKEN if version == "unimernet" else ()

    def official(score: dict[str, Any]) -> dict[str, Any]:
        return _figures(score, "f1", official_leaves_out)

    def ours(score: dict[str, Any]) -> dict[str, Any]:
        return _figures(score, "f1_strict", _BROKEN)

    return {"official": official, "ours": ours}


def _figures(score: dict[str, Any], key: str, left_out: tuple[str, ...]) -> dict[str, Any]:
    if score["status"] in left_out:
        error = score["error"].replace("the pair scores 0", "the pair is left out of the mean")
        return {**score, "cdm": None, "recall": None, "precision": None, "error": error}
    return {**score, "cdm": score[key]}


def score_formulas(samples: list[Sample], config: CdmConfig, run: RunConfig, advance: Advance) -> list[SampleResult]:
    """Score samples of `pred` and `ref`; a score holds the fields of `CdmScore`."""
    with CdmScorer(config) as scorer:

        def score(payloads: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
            found = scorer.score([(payload["pred"], payload["ref"]) for payload in payloads])
            return [asdict(one) for one in found]

        return run_batches(samples, score, run, _BATCH * config.n_processes, advance)


def check_golden_version(version: FormulaVersion) -> None:
    """Check that there are official values of a version.

    *Raises*: ConfigError where there are none.
    """
    if _VERSIONS[version.value] not in _GOLDEN_FIELDS:
        raise ConfigError(f"--version {version.value}: --golden holds values of {', '.join(_GOLDEN_FIELDS)} alone")


def golden_cdm(path: Path, config: CdmConfig, run: Run) -> None:
    """Compare with official values and print the comparison."""
    name = _GOLDEN_FIELDS[config.version]
    check = GoldenCheck("cdm", ("stripped_pred", "stripped_gt"), (name,), _TOLERANCE)

    def score_all(rows: list[dict[str, Any]]) -> list[SampleResult]:
        samples = [Sample(str(row["id"]), {"pred": row["stripped_pred"], "ref": row["stripped_gt"]}) for row in rows]
        settings = run.config({"metric": "cdm", **cdm_settings(config)})
        with tell.progress("cdm", len(samples)) as advance:
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
            tell.echo_json({"ok": False, "error": str(error)})
        tell.warn(f"CDM cannot be trusted here: {error}", "red")
        raise typer.Exit(1) from error
    if as_json:
        tell.echo_json({"ok": True, **found})
    else:
        tell.print_facts(found)
    tell.warn("CDM works here: the known pair renders and scores as it must", "green")
