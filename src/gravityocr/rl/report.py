"""The report of a run of GRPO: before and after with intervals, the course of it, and what changed most.

RUN/report.json    all of it
RUN/report.md      the same to be read
RUN/curves.png     the curves, where they are asked for
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gravityocr.errors import InputError
from gravityocr.metrics.runs.confidence import BootstrapConfig
from gravityocr.rl.comparison import changed_most, compare
from gravityocr.rl.evaluation_records import (
    ALL,
    RegionRecord,
    Summary,
    best_step,
    read_records,
    record_file,
    record_steps,
    summarize,
    tpf_fall,
)
from gravityocr.rl.report_plots import CURVES_FILE, draw_curves
from gravityocr.rl.report_text import comparison_lines, report_text
from gravityocr.training.corpora.shard_outputs import write_json
from gravityocr.training.run_log import read_records as read_log

REPORT_JSON, REPORT_TEXT = "report.json", "report.md"
CONFIG_FILE, PROMPTS_FOLDER, PROMPTS_FILE = "config.toml", "prompts", "prompts.json"
N_SAMPLES = 3
SHARE_OF_ENDS = 0.1


def write_report(
    folder: Path,
    chosen_step: int | None = None,
    *,
    plots: bool = False,
    bootstrap: BootstrapConfig | None = None,
    draft_head_left: bool = False,
) -> dict[str, Any]:
    """Write the report of a run's folder and return it.

    `chosen_step` is the step whose weights were kept as the best; None takes the one of the highest held-out quality.
    `plots` also draws the curves. `draft_head_left` says that the start has a draft head that is not trained along.

    *Raises*: InputError where the folder lacks its evaluations or they are broken; ConfigError where plots are asked
    for and matplotlib is not installed.
    """
    report = build_report(folder, chosen_step, bootstrap, draft_head_left=draft_head_left)
    if plots:
        summaries = {row["step"]: row["summary"] for row in report["evaluations"]}
        draw_curves(read_log(folder), summaries, folder / CURVES_FILE)
    write_json(folder / REPORT_JSON, report)
    text = report_text(report, CURVES_FILE if (folder / CURVES_FILE).is_file() else None)
    part = folder / f"{REPORT_TEXT}.part"
    part.write_text(text, encoding="utf-8")
    part.replace(folder / REPORT_TEXT)
    return report


def build_report(
    folder: Path,
    chosen_step: int | None = None,
    bootstrap: BootstrapConfig | None = None,
    *,
    draft_head_left: bool = False,
) -> dict[str, Any]:
    """Return the report of a run's folder: plain values, as JSON holds them.

    *Raises*: InputError where its evaluations are missing or broken, or none is of the start or of the chosen step.
    """
    steps = record_steps(folder)
    if steps[0] != 0:
        remedy = "put it back, or run gravityocr rl anew in another rl.folder"
        raise InputError(f"{record_file(folder, 0)} is missing: the start is what a run is compared with; {remedy}")
    if chosen_step is not None and chosen_step not in steps:
        known = ", ".join(map(str, steps))
        raise InputError(f"{folder}: step {chosen_step} was not evaluated; choose one of {known}")
    records = {step: read_records(record_file(folder, step)) for step in steps}
    summaries = {step: summarize(found) for step, found in records.items()}
    best = chosen_step if chosen_step is not None else best_step({s: one["quality"] for s, one in summaries.items()})
    first, last = steps[0], steps[-1]
    shown = best if best != first else last
    text, config = _config(folder)
    return {
        "run": _facts(config, read_log(folder)),
        "prompts": _prompts(folder, config),
        "draft_head_left": draft_head_left,
        "steps": {"first": first, "best": best, "last": last, "shown": shown},
        "best_is_named": chosen_step is not None,
        "evaluations": [_row(step, summaries[step], summaries[first]) for step in steps],
        "changes": {
            name: _changes(records[first], records[step], bootstrap)
            for name, step in (("best", best), ("last", last))
            if step != first
        },
        "samples": changed_most(records[first], records[shown], N_SAMPLES),
        "config": config,
        "config_text": text,
    }


def compare_files(before: Path, after: Path, bootstrap: BootstrapConfig | None = None) -> tuple[dict[str, Any], str]:
    """Compare two files of records, whichever run wrote them; return the changes as JSON holds them, and as Markdown.

    *Raises*: InputError where a file is missing or broken, or they are not of the same regions.
    """
    changes = _changes(read_records(before), read_records(after), bootstrap)
    return changes, "\n".join(comparison_lines(changes)) + "\n"


def _changes(
    before: Sequence[RegionRecord], after: Sequence[RegionRecord], bootstrap: BootstrapConfig | None
) -> dict[str, Any]:
    return asdict(compare(before, after, bootstrap))


def _row(step: int, summary: Summary, first: Summary) -> dict[str, Any]:
    return {"step": step, "quality": summary["quality"], "tpf_fall": tpf_fall(first, summary), "summary": summary}


def _facts(config: Mapping[str, Any], log: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the log says of a run; what it does not hold is left out."""
    training = [row for row in log if _is_number(row.get("reward")) and _is_number(row.get("step"))]
    training = [row for row in training if "eval" not in row]
    facts: dict[str, Any] = {"n_steps": max((row["step"] for row in training), default=0)}
    per_step = 1
    for name in ("prompts_per_step", "n_rollouts"):
        value = _setting(config, "grpo", name)
        per_step *= value if _is_number(value) else 0
    if per_step:
        facts |= {"rollouts_per_step": per_step, "n_rollouts": per_step * facts["n_steps"]}
    seconds = [row["seconds"] for row in training if _is_number(row.get("seconds"))]
    if seconds:
        facts["seconds"] = sum(seconds)
    n_end = max(1, int(SHARE_OF_ENDS * len(training)))
    for name in ("reward", "reward_std", "kl", "entropy", "completion_tokens"):
        values = [float(row[name]) for row in training if _is_number(row.get(name))]
        if values:
            ends = values[:n_end], values[-n_end:]
            first, last = (sum(end) / len(end) for end in ends)
            facts[name] = {"first": first, "last": last, "n": len(ends[0])}
    return facts


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _setting(config: Mapping[str, Any], section: str, name: str) -> Any:
    """Return a resolved setting; None where there is no such."""
    found = config.get(section)
    return found.get(name) if isinstance(found, dict) else None


def _config(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the resolved settings of a run, as text and as values; nothing where the folder holds none.

    *Raises*: InputError where the file is broken.
    """
    file = folder / CONFIG_FILE
    if not file.is_file():
        return "", {}
    try:
        text = file.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(f"{file} is broken ({error}); it is the resolved settings that the run wrote") from error


def _prompts(folder: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a report says of the prompts: how many came through each stage; None without a mined pool.

    *Raises*: InputError where the file is broken.
    """
    elsewhere = _setting(config, "prompts", "folder")
    file = (Path(elsewhere) if isinstance(elsewhere, str) and elsewhere else folder / PROMPTS_FOLDER) / PROMPTS_FILE
    if not file.is_file():
        return None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        told = {name: found[name] for name in ("n_prompts", "stages", "fates")}
        counts = [told["n_prompts"], *told["stages"]["chosen"].values()]
        counts += [told["stages"][stage][ALL] for stage in ("tried", "varied")]
        if not all(type(count) is int for count in counts):
            raise TypeError("a count is none")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{file} is broken ({error!r}); mine the prompts again") from error
    return told
