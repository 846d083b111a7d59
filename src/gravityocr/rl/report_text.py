"""The report of a run of GRPO as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from gravityocr.metrics.runs.confidence import FEW
from gravityocr.rl.evaluation_records import ALL

NAMES = {
    "reward": "reward", "sampled_reward": "reward of samples", "teds": "TEDS", "teds_struct": "TEDS-S", "cdm": "CDM",
    "ned": "NED", "ned_plain": "NED, plain", "tpf": "TPF", "accepted": "accepted drafts a round",
}  # fmt: skip
OF_ALL = ("reward", "sampled_reward", "tpf", "accepted")
DIGITS = {"tpf": 3, "accepted": 2}
MOST_CHARS, LEAD_CHARS = 240, 80
MOST_EVALUATIONS = 30
DRAFT_HEAD_LEFT = (
    "The draft head of the start was left behind; train it anew with gravityocr train CONFIG --draft-head DIR; "
    "TPF here is without it on both sides."
)


def report_text(report: Mapping[str, Any], curves: str | None) -> str:
    """Return a report as Markdown; `curves` names the picture of the curves beside it."""
    steps = report["steps"]
    lines = ["# GRPO: before and after", "", *_fact_lines(report), ""]
    if not report["changes"]:
        lines += ["There is one evaluation alone: nothing to compare.", ""]
    for name, changes in report["changes"].items():
        if name == "last" and steps["last"] == steps["best"]:
            continue
        best = "the one that was kept" if report["best_is_named"] else "the best by held-out quality"
        which = best if name == "best" else "the last"
        lines += [f"## Step {steps['first']} against step {steps[name]}, {which}", "", *comparison_lines(changes), ""]
    lines += ["## Course", "", *_course_lines(report["evaluations"]), ""]
    if curves is not None:
        lines += [f"![Curves of the training and of the held-out regions]({curves})", ""]
    lines += ["## What changed most", "", *_sample_lines(report["samples"], steps)]
    if report["config_text"]:
        lines += ["## Settings", "", *_fenced(report["config_text"].rstrip("\n").split("\n"), "toml"), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def comparison_lines(changes: Mapping[str, Any]) -> list[str]:
    """Return a comparison (see `comparison.compare`, as plain values) as lines of Markdown."""
    lines = [
        "| kind | figure | n | before | after | difference | 95 % interval | excludes 0 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    unchanged: dict[str, list[str]] = {}
    for kind, change in changes["kinds"].items():
        for name, one in change["figures"].items():
            if kind == ALL and name not in OF_ALL:
                continue
            if _is_unchanged(one):
                unchanged.setdefault(kind, []).append(f"{NAMES[name]} {one['before']:.{DIGITS.get(name, 4)}f}")
                continue
            digits = DIGITS.get(name, 4)
            few = " (few)" if one["n"] < FEW else ""
            share = f" ({one['relative']:+.1%})" if one["relative"] is not None else ""
            lines.append(
                f"| {kind} | {NAMES[name]} | {one['n']}{few} | {one['before']:.{digits}f} | {one['after']:.{digits}f} "
                f"| {one['difference']:+.{digits}f}{share} | {_bounds(one, digits)} "
                f"| {'yes' if one['excludes_0'] else 'no'} |"
            )
    if len(lines) == 2:
        lines = ["No figure changed."]
    notes = [f"Unchanged, {kind}: {', '.join(names)}." for kind, names in unchanged.items()]
    notes += [*_tpf_lines(changes), *_count_lines(changes)]
    notes.append(
        "Intervals: paired bootstrap over regions. NED is better the lower it is; plain, it sees blanks folded only."
    )
    return [*lines, "", *(f"- {note}" for note in notes)]


def _is_unchanged(one: Mapping[str, Any]) -> bool:
    """Tell whether a figure is the same and no draw of regions makes a difference."""
    return all(one[name] in (0, None) for name in ("difference", "low", "high"))


def _bounds(one: Mapping[str, Any], digits: int) -> str:
    return "-" if one["low"] is None else f"{one['low']:+.{digits}f} to {one['high']:+.{digits}f}"


def _tpf_lines(changes: Mapping[str, Any]) -> list[str]:
    """Say how TPF changed over all kinds, or over the only one."""
    kinds = changes["kinds"]
    tpf = kinds.get(ALL, next(iter(kinds.values())))["figures"].get("tpf")
    if tpf is None or tpf["relative"] is None:
        return []
    bounds = ""
    if tpf["relative_low"] is not None:
        bounds = f", 95 % interval {tpf['relative_low']:+.2%} to {tpf['relative_high']:+.2%}"
    values = f"{tpf['before']:.3f} to {tpf['after']:.3f}"
    return [f"TPF over all regions, sums over sums: {values} ({tpf['relative']:+.2%}{bounds})."]


def _count_lines(changes: Mapping[str, Any]) -> list[str]:
    lines = []
    for what, name in (("cut by a limit", "n_truncated"), ("not read", "n_failed")):
        counts = {kind: one[name] for kind, one in changes["kinds"].items() if kind != ALL}
        shown = ", ".join(f"{kind} {before} -> {after}" for kind, (before, after) in counts.items() if before or after)
        lines.append(f"Regions {what}: {shown or 'none'}.")
    if changes["n_unpaired"]:
        lines.append(f"{changes['n_unpaired']} records are of regions that one of the evaluations lacks.")
    return lines


def _fact_lines(report: Mapping[str, Any]) -> list[str]:
    run, steps = report["run"], report["steps"]
    lines = [f"- {run['n_steps']} steps in the log; evaluated first at step {steps['first']}, last at {steps['last']}"]
    if "n_rollouts" in run:
        lines.append(f"- {run['n_rollouts']} rollouts, {run['rollouts_per_step']} a step")
    if "seconds" in run:
        lines.append(f"- {run['seconds'] / 60:.1f} minutes of training steps")
    for name in ("reward", "kl", "entropy", "completion_tokens"):
        if name in run:
            first, last, n = (run[name][part] for part in ("first", "last", "n"))
            ends = f"the first and of the last tenth ({n} step{'s' if n > 1 else ''} in the log each)"
            lines.append(f"- {name.replace('_', ' ')} in training, mean of {ends}: {first:.4g} and {last:.4g}")
    prompts = report["prompts"]
    if prompts is not None:
        tasks = ", ".join(f"{n} {task}" for task, n in prompts["stages"]["chosen"].items() if task != ALL)
        tried, varied = (prompts["stages"][stage][ALL] for stage in ("tried", "varied"))
        lines.append(f"- {prompts['n_prompts']} prompts ({tasks}) out of {tried} tried, of which {varied} varied")
    if report["draft_head_left"]:
        lines.append(f"- {DRAFT_HEAD_LEFT}")
    return lines


def _course_lines(evaluations: Sequence[Mapping[str, Any]]) -> list[str]:
    shown = [*evaluations]
    if len(shown) > MOST_EVALUATIONS:
        gap = -(-len(shown) // MOST_EVALUATIONS)
        shown = [*shown[:-1:gap], shown[-1]]
    kinds = list(dict.fromkeys(kind for row in shown for kind in row["summary"]["kinds"]))
    rewards = " | ".join(f"reward, {kind}" for kind in kinds)
    lines = [
        f"| step | quality | {rewards} | TPF | TPF since step {shown[0]['step']} |",
        "|" + "---|" * (len(kinds) + 4),
    ]
    for row in shown:
        found = row["summary"]["kinds"]
        rewards = " | ".join(_number(found.get(kind, {}).get("reward"), 4) for kind in kinds)
        tpf = _number(row["summary"][ALL].get("tpf"), 3)
        lines.append(f"| {row['step']} | {row['quality']:.4f} | {rewards} | {tpf} | {0.0 - row['tpf_fall']:+.2%} |")
    return lines


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _sample_lines(samples: Mapping[str, Any], steps: Mapping[str, int]) -> list[str]:
    lines = [f"By reward, step {steps['first']} against step {steps['shown']}.", ""]
    for kind, found in samples.items():
        counts = f"{found['n_better']} better, {found['n_worse']} worse, {found['n_equal']} equal"
        lines += [f"### {kind}: {counts}", ""]
        for side in ("better", "worse"):
            for sample in found[side]:
                lines += [*_sample(sample, side), ""]
    return lines


def _sample(sample: Mapping[str, Any], side: str) -> list[str]:
    scores = ", ".join(
        f"{NAMES[name]} {sample[name][0]:.3f} -> {sample[name][1]:.3f}" for name in NAMES if name in sample
    )
    name = printable(sample["region_id"]).replace("`", "'")
    start = max(0, _first_difference(sample["before"], sample["after"]) - LEAD_CHARS)
    texts = [f"{part:<6} {_excerpt(sample[part], start)}" for part in ("ref", "before", "after")]
    return [f"{side.capitalize()}: `{name}`: {scores}", "", *_fenced(texts, "text")]


def _first_difference(one: str, other: str) -> int:
    return next((at for at, pair in enumerate(zip_longest(one, other)) if pair[0] != pair[1]), 0)


def _excerpt(text: str, start: int) -> str:
    """Return a part of a text, marked where something is left out."""
    # The reference may end where the others go on: its end is then shown.
    start = min(start, max(0, len(text) - LEAD_CHARS))
    end = start + MOST_CHARS
    return ("…" if start else "") + printable(text[start:end]) + ("…" if end < len(text) else "")


def printable(text: str) -> str:
    r"""Write line breaks as arrows, and whatever else cannot be printed as its number.

    >>> printable("a\nb\x07")
    'a⏎b\\x7'
    """
    return "".join(one if one.isprintable() else "⏎" if one == "\n" else f"\\x{ord(one):x}" for one in text)


def _fenced(lines: Sequence[str], language: str) -> list[str]:
    """Put lines into a fence that none of them can end."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *lines, fence]
