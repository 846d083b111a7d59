"""The report of a pool: how many regions every stage took away, by source, task, origin and reason."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np

from gravityocr.training.corpora.filters import REASONS
from gravityocr.training.corpora.mixture import FATES, ORIGINS, Numbers, PoolPlan, RegionIndex
from gravityocr.training.corpora.pool_index import IndexNotes
from gravityocr.training.corpora.region_shards import TASKS


def pool_report(index: RegionIndex, plan: PoolPlan, notes: IndexNotes, n_examples: int) -> dict[str, Any]:
    """Return the counts of a pool; every region that was read is in exactly one of its stages."""
    n_read, n_removed = sum(notes.read.values()), sum(notes.removed.values())
    n_fates = np.bincount(plan.fate, minlength=len(FATES))
    removed_by_reason: Counter[str] = Counter()
    for (_, _, _, reason), n in notes.removed.items():
        removed_by_reason[reason] += n
    train_tasks = {task: int((index.task[plan.train] == number).sum()) for number, task in enumerate(TASKS)}
    return {
        "stages": {"read": n_read, "removed": n_removed}
        | {fate: int(n_fates[number]) for number, fate in enumerate(FATES)},
        "removed_by_reason": {reason: removed_by_reason[reason] for reason in REASONS if removed_by_reason[reason]},
        "splits": {name: _split(index, getattr(plan, name)) for name in ("train", "validation")},
        "mixture": {
            task: {"available": n, "taken": train_tasks[task], "share": round(train_tasks[task] / len(plan.train), 6)}
            for task, n in plan.available.items()
        },
        "groups": _groups(index, plan, notes),
        "removed": [
            {"source": source, "task": task, "origin": origin, "reason": reason, "n": n}
            for (source, task, origin, reason), n in sorted(notes.removed.items())
        ],
        "examples": _some(notes.examples, n_examples),
    }


def _split(index: RegionIndex, order: Numbers) -> dict[str, Any]:
    """Count a split; `order` stands for which regions it holds in which order."""
    return {
        "n_regions": len(order),
        "n_documents": len(np.unique(index.document[order])),
        "n_pages": len(np.unique(index.page[order])),
        "n_bytes": int(index.n_bytes[order].astype(np.int64).sum()),
        "order": hashlib.blake2b(index.digest[order].astype("<u8").tobytes(), digest_size=16).hexdigest(),
    }


def _groups(index: RegionIndex, plan: PoolPlan, notes: IndexNotes) -> list[dict[str, Any]]:
    removed: Counter[tuple[str, str, str]] = Counter()
    for (source, task, origin, _), n in notes.removed.items():
        removed[source, task, origin] += n
    wide = np.stack(
        [index.source, index.task.astype(np.int32), index.origin.astype(np.int32), plan.fate.astype(np.int32)]
    )
    rows, counts = np.unique(wide, axis=1, return_counts=True)
    fates: Counter[tuple[str, str, str, str]] = Counter()
    for (source, task, origin, fate), n in zip(rows.T.tolist(), counts.tolist(), strict=True):
        fates[notes.sources[source], TASKS[task], ORIGINS[origin], FATES[fate]] = n
    return [
        {"source": group[0], "task": group[1], "origin": group[2], "read": n, "removed": removed[group]}
        | {fate: fates[(*group, fate)] for fate in FATES}
        for group, n in sorted(notes.read.items())
    ]


def _some(examples: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    kept: Counter[tuple[str, str]] = Counter()
    chosen = []
    for example in examples:
        kept[example["source"], example["reason"]] += 1
        if kept[example["source"], example["reason"]] <= most:
            chosen.append(example)
    return chosen
