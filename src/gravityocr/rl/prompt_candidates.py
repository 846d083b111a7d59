"""The candidates of a prompt pool: the regions of a pool's train split that have a target and are in no benchmark."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gravityocr.document import Task
from gravityocr.errors import InputError
from gravityocr.rl.prompt_choice import Candidate, Fate, PromptConfig, within_limit
from gravityocr.training.corpora.benchmark_index import BenchmarkIndex, DecontaminationConfig
from gravityocr.training.corpora.benchmark_items import read_benchmark
from gravityocr.training.corpora.region_shards import LabelledRegion, RegionFile
from gravityocr.training.pool_tokens import pool_files

MOST_NAMED = 1000  # regions of a fate that the report names
_COLUMNS = ("region_id", "task", "target", "target_origin", "doc_id")


@dataclass(frozen=True)
class Source:
    """The files that the candidates come from, and what they must not hold; `mark` stands for what is in the files."""

    files: tuple[RegionFile, ...]
    index: BenchmarkIndex | None
    mark: str

    @classmethod
    def of(cls, config: PromptConfig) -> Source:
        """Open the train split of the pool and index the benchmark.

        *Raises*: InputError where one of them is missing, broken, or of no use.
        """
        files = tuple(RegionFile(file) for file in pool_files(config.pool, "train", "prompts.pool"))
        index = None
        if config.benchmark is not None:
            index = BenchmarkIndex([read_benchmark(Path(config.benchmark))], DecontaminationConfig())
            if not index.is_useful:
                told = "its items are all too short or unreadable, and it names no document"
                raise InputError(f"prompts.benchmark {config.benchmark}: nothing can be compared: {told}")
        state = hashlib.blake2b(digest_size=16)
        for file in files:
            columns = file.columns("region_id", "task", "target")
            state.update(repr((file.file.stat().st_size, len(file))).encode("ascii"))
            for values in zip(*columns.values(), strict=True):
                state.update(repr(values).encode("utf-8", errors="backslashreplace"))
        return cls(files, index, state.hexdigest())

    def rows(self) -> Iterator[tuple[Candidate, str, str]]:
        """Yield all regions as candidates, with document and target; one that has none has 0 characters."""
        for number, file in enumerate(self.files):
            columns = file.columns(*_COLUMNS)
            for row, (name, task, target, origin, doc_id) in enumerate(zip(*columns.values(), strict=True)):
                n_chars = len(target) if has_target(target, origin) else 0
                yield Candidate(name, task, n_chars, number, row), doc_id, target


def has_target(target: str, origin: str) -> bool:
    """Tell whether there is something that a reading of a region can be compared with."""
    return bool(target.strip()) and origin != "pending"


class RegionReader:
    """Reads candidates out of their files, of which it keeps one open: best in the order in which they lie there."""

    def __init__(self, source: Source) -> None:
        self._files = source.files
        self._number = -1

    def __call__(self, candidate: Candidate) -> LabelledRegion:
        """Return the region of a candidate.

        *Raises*: InputError where it cannot be read.
        """
        if candidate.file != self._number:
            # Opened anew, so that the row groups that the other one has read are let go.
            self._number, self._file = candidate.file, RegionFile(self._files[candidate.file].file)
        return self._file[candidate.row]


@dataclass(frozen=True)
class Candidates:
    """The regions of a pool before any trial: those to try, and the fates of the others.

    `counts` counts the latter by fate and task, `n_by_task` all regions. `skipped` and `contaminated` are rows of the
    report, the first `MOST_NAMED` of them.
    """

    todo: tuple[Candidate, ...]
    n_by_task: Counter[Task]
    counts: Counter[tuple[Fate, Task]]
    skipped: tuple[dict[str, Any], ...]
    contaminated: tuple[dict[str, Any], ...]
    by_criterion: Counter[str]


def read_candidates(source: Source, config: PromptConfig) -> Candidates:
    """Look at every region of the source, without its picture; each gets one fate, or is to be tried."""
    n_by_task: Counter[Task] = Counter()
    counts: Counter[tuple[Fate, Task]] = Counter()
    skipped: list[dict[str, Any]] = []
    contaminated: list[dict[str, Any]] = []
    by_criterion: Counter[str] = Counter()
    open_ones: list[Candidate] = []
    seen: set[str] = set()
    for candidate, doc_id, target in source.rows():
        task = candidate.task
        n_by_task[task] += 1
        told = {"region_id": candidate.region_id, "task": task}
        reason = _fault(candidate, seen)
        seen.add(candidate.region_id)
        criteria = _criteria(source.index, doc_id, task, target)
        if reason is not None:
            counts["skipped", task] += 1
            skipped.append(told | {"reason": reason})
        elif criteria:
            counts["decontaminated", task] += 1
            by_criterion.update(criteria)
            contaminated.append(told | {"criteria": criteria})
        else:
            open_ones.append(candidate)
    tried = within_limit(open_ones, config)
    counts.update(("not_tried", one.task) for one in open_ones if one.region_id not in tried)
    todo = tuple(one for one in open_ones if one.region_id in tried)
    return Candidates(
        todo, n_by_task, counts, tuple(skipped[:MOST_NAMED]), tuple(contaminated[:MOST_NAMED]), by_criterion
    )


def _fault(candidate: Candidate, seen: set[str]) -> str | None:
    if candidate.region_id in seen:
        return "its region_id stands in the pool twice; the first one counts"
    return None if candidate.n_chars else "it has no target yet; transcribe it with gravityocr data transcribe"


def _criteria(index: BenchmarkIndex | None, doc_id: str, task: Task, target: str) -> list[str]:
    """Return the criteria by which a region is in the benchmark, each once."""
    if index is None:
        return []
    return list(dict.fromkeys(match.criterion for match in index.matches(doc_id, task, target) if match.is_removal))
