"""The report of a prompt pool: what every stage took away, how hard and how long the prompts are, what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gravityocr.document import Task
from gravityocr.rl.prompt_candidates import MOST_NAMED, Candidates, Source
from gravityocr.rl.prompt_choice import FATES, NO_SIGNAL, Candidate, Fate, PromptConfig
from gravityocr.rl.trials import Trial
from gravityocr.training.corpora.region_shards import TASKS

N_BINS = 10
PAPER_MEDIAN_CHARS = 1900
"""The median reference of the paper's prompts. *Source*: section 5."""


def prompt_report(
    config: PromptConfig,
    source: Source,
    found: Candidates,
    fates: Mapping[str, Fate],
    trials: Mapping[str, Trial],
    wanted: Mapping[Task, int],
) -> dict[str, Any]:
    """Return the counts and figures of a prompt pool; `fates` are those of the candidates that were to be tried."""
    tried = [one for one in found.todo if fates[one.region_id] != "skipped"]
    varied = [one for one in tried if fates[one.region_id] not in NO_SIGNAL]
    chosen = [one for one in varied if fates[one.region_id] == "chosen"]
    counts = Counter(found.counts)
    counts.update((fates[one.region_id], one.task) for one in found.todo)
    failed = [one for one in found.todo if fates[one.region_id] == "skipped"]
    skipped = [*found.skipped, *({"region_id": one.region_id, "task": one.task,
                                  "reason": trials[one.region_id].reason} for one in failed)]  # fmt: skip
    return {
        "n_prompts": len(chosen),
        "stages": {
            "candidates": _by_task(found.n_by_task),
            "tried": _by_task(Counter(one.task for one in tried)),
            "varied": _by_task(Counter(one.task for one in varied)),
            "chosen": _by_task(Counter(one.task for one in chosen)),
        },
        "fates": {fate: _by_task({task: counts[fate, task] for task in TASKS}) for fate in FATES},
        "mixture": _mixture(config, varied, chosen, wanted),
        "mean_reward": {
            name: _each(some, lambda group: _histogram([trials[one.region_id].mean for one in group]))
            for name, some in (("tried", tried), ("varied", varied), ("chosen", chosen))
        },
        "reference_chars": {
            name: _each(some, lambda group: _lengths([one.n_chars for one in group]))
            for name, some in (("tried", tried), ("varied", varied), ("chosen", chosen))
        },
        "paper_median_chars": PAPER_MEDIAN_CHARS,
        "trials": _trials([trials[one.region_id] for one in tried]),
        "decontamination": _decontamination(config, source, found),
        "skipped": skipped[:MOST_NAMED],
    }


def _by_task(counts: Mapping[Task, int]) -> dict[str, int]:
    rows: dict[str, int] = {task: counts.get(task, 0) for task in TASKS}
    return {"all": sum(rows.values())} | rows


def _each(
    candidates: Sequence[Candidate], figures: Callable[[Sequence[Candidate]], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the figures of all candidates and of those of each task."""
    groups: dict[str, list[Candidate]] = {"all": [*candidates]}
    for task in TASKS:
        groups[task] = [one for one in candidates if one.task == task]
    return {name: figures(group) for name, group in groups.items() if group}


def _histogram(means: Sequence[float]) -> dict[str, Any]:
    counts, edges = np.histogram(means, bins=N_BINS, range=(0.0, 1.0))
    return {
        "mean": round(float(np.mean(means)), 6), "median": round(float(np.median(means)), 6),
        "edges": [round(float(edge), 6) for edge in edges], "counts": counts.tolist(),
    }  # fmt: skip


def _lengths(chars: Sequence[int]) -> dict[str, Any]:
    deciles = np.quantile(chars, np.arange(1, 10) / 10)
    return {
        "median": float(np.median(chars)), "mean": round(float(np.mean(chars)), 2), "max": max(chars),
        "deciles": [round(float(value), 1) for value in deciles],
    }  # fmt: skip


def _mixture(
    config: PromptConfig, varied: Iterable[Candidate], chosen: Sequence[Candidate], wanted: Mapping[Task, int]
) -> dict[str, Any]:
    shares = config.shares()
    available, taken = Counter(one.task for one in varied), Counter(one.task for one in chosen)
    return {
        task: {
            "share_wanted": round(shares[task] / sum(shares.values()), 6), "available": available[task],
            "wanted": wanted[task], "taken": taken[task], "share": round(taken[task] / max(1, len(chosen)), 6),
        }
        for task in TASKS
    }  # fmt: skip


def _trials(trials: Sequence[Trial]) -> dict[str, Any]:
    n_rollouts = sum(len(trial.rewards) for trial in trials)
    n_tokens = sum(sum(trial.n_tokens) for trial in trials)
    return {
        "n_candidates": len(trials), "n_rollouts": n_rollouts, "n_tokens": n_tokens,
        "mean_tokens": round(n_tokens / max(1, n_rollouts), 2),
        "n_truncated": sum(trial.n_truncated for trial in trials),
        "n_candidates_truncated": sum(trial.n_truncated > 0 for trial in trials),
        "mean_std": round(float(np.mean([trial.std for trial in trials])), 6) if trials else 0.0,
    }  # fmt: skip


def _decontamination(config: PromptConfig, source: Source, found: Candidates) -> dict[str, Any] | None:
    if source.index is None:
        return None
    return {
        "benchmark": config.benchmark, "fingerprint": source.index.fingerprint, "n_items": source.index.n_items,
        "n_removed": sum(n for (fate, _), n in found.counts.items() if fate == "decontaminated"),
        "by_criterion": dict(sorted(found.by_criterion.items())), "removed": list(found.contaminated),
    }  # fmt: skip
