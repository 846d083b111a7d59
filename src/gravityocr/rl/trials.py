"""Trial rollouts of prompt candidates: sampled in batches, rewarded, and written down as they come.

The journal is one JSON line a candidate behind a first line that says what the trials depend on. A killed run goes on
from it: a line that was left half written is cut off, and its candidate is tried again.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import fmean, pstdev
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from gravityocr.document import Task
from gravityocr.errors import CapacityError, ConfigError, InputError
from gravityocr.rl.rewards import NO_REWARD
from gravityocr.training.corpora.region_shards import TASKS, LabelledRegion

if TYPE_CHECKING:
    from gravityocr.rl.rollouts import Rollout, Sampler

TRIALS_FILE = "trials.jsonl"
EQUAL = 1e-9  # rewards that differ by no more are equal
Reward: TypeAlias = Callable[[Task, str, str], float]
"""The reward of a prediction for a reference."""


@dataclass(frozen=True)
class Trial:
    """What the trial rollouts of a candidate gave; with a `reason` there are none, and it says why.

    *Shapes*: rewards, n_chars, n_tokens [n_trials]. `n_truncated` of the rollouts were cut by the length limit.
    *Units*: `seconds` is the candidate's part of the time that its batch took.
    """

    region_id: str
    task: Task
    rewards: tuple[float, ...] = ()
    n_chars: tuple[int, ...] = ()
    n_tokens: tuple[int, ...] = ()
    n_truncated: int = 0
    seconds: float = 0.0
    reason: str = ""

    @property
    def mean(self) -> float:
        """Return the mean reward: the lower, the harder the prompt."""
        return fmean(self.rewards)

    @property
    def std(self) -> float:
        """Return the standard deviation of the rewards, over all of them."""
        return pstdev(self.rewards)

    @property
    def varies(self) -> bool:
        """Tell whether the rollouts differ in reward."""
        return max(self.rewards) - min(self.rewards) > EQUAL


@dataclass
class TrialProgress:
    """How far the trials have come: `n_kept` of the candidates were tried by earlier runs."""

    n_candidates: int
    n_kept: int = 0
    n_tried: int = 0
    n_varied: int = 0
    n_failed: int = 0
    n_truncated: int = 0
    rewards: float = field(default=0.0, repr=False)

    @property
    def mean_reward(self) -> float:
        """Return the mean reward of the rollouts of this run, 0 where there are none."""
        n_read = self.n_tried - self.n_failed
        return self.rewards / n_read if n_read else 0.0

    def count(self, trial: Trial) -> None:
        """Take a trial of this run into account."""
        self.n_tried += 1
        if trial.reason:
            self.n_failed += 1
            return
        self.n_varied += trial.varies
        self.n_truncated += trial.n_truncated
        self.rewards += trial.mean


class TrialJournal:
    """The trials of a prompt pool on disk, all of them held by region id."""

    def __init__(self, file: Path, header: Mapping[str, Any], *, overwrite: bool = False) -> None:
        """Open a journal, or begin it; `header` is what its trials depend on.

        *Raises*: ConfigError where it was written under another header, unless `overwrite` begins it anew.
        """
        self.file = file
        self._header = {"journal": "trials", **header}
        self.trials: dict[str, Trial] = {}
        file.parent.mkdir(parents=True, exist_ok=True)
        self._stream: BinaryIO = file.open("a+b")
        try:
            self._read(overwrite)
        except ConfigError:
            self._stream.close()
            raise

    def __enter__(self) -> TrialJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def append(self, trials: Sequence[Trial]) -> None:
        """Write trials down; they are with the system when this returns."""
        self._write([asdict(trial) for trial in trials])
        self.trials |= {trial.region_id: trial for trial in trials}

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._stream.seek(0, 2)
        self._stream.write(b"".join(json.dumps(row).encode("ascii") + b"\n" for row in rows))
        self._stream.flush()

    def _read(self, overwrite: bool) -> None:
        self._stream.seek(0)
        place = 0
        lines = iter(self._stream)
        first = next(lines, b"")
        if first.endswith(b"\n"):
            row = _object(first)
            if row == self._header:
                place = len(first)
            elif not overwrite:
                remedy = "set prompts.overwrite = true to try the candidates anew, or choose another prompts.folder"
                raise ConfigError(f"{self.file} {_difference(row, self._header)}; {remedy}")
        for line in lines if place else ():
            if not line.endswith(b"\n"):
                break
            trial = _trial_of(_object(line))
            if trial is not None:
                self.trials[trial.region_id] = trial
            place += len(line)
        self._stream.truncate(place)
        if not place:
            self._write([self._header])


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _difference(row: dict[str, Any] | None, header: Mapping[str, Any]) -> str:
    if row is None or row.get("journal") != header["journal"]:
        return "is no journal of trials"
    key = next((key for key in header if row.get(key) != header[key]), "setting")
    return f"holds the trials of another {key} ({row.get(key)!r}, now {header.get(key)!r})"


def _trial_of(row: dict[str, Any] | None) -> Trial | None:
    """Return the trial of a line; None where something else stands in it."""
    if row is None or not isinstance(row.get("region_id"), str) or row.get("task") not in TASKS:
        return None
    reason, rewards = row.get("reason"), row.get("rewards")
    if not isinstance(reason, str) or not isinstance(rewards, list) or bool(reason) == bool(rewards):
        return None
    if not all(isinstance(reward, (int, float)) and math.isfinite(reward) for reward in rewards):
        return None
    try:
        lists = {name: tuple(row[name]) for name in ("rewards", "n_chars", "n_tokens")}
        return Trial(
            row["region_id"], row["task"], **lists, n_truncated=int(row["n_truncated"]),
            seconds=float(row["seconds"]), reason=reason,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True)
class Trials:
    """How candidates are tried: `n` rollouts each, in batches of `batch_regions`, under one seed."""

    sampler: Sampler
    reward: Reward
    n: int
    batch_regions: int
    seed: int

    def run(
        self, todo: Sequence[tuple[str, Task]], region_of: Callable[[str], LabelledRegion], journal: TrialJournal
    ) -> Iterator[Trial]:
        """Try candidates, batch after batch; yield each trial once its batch is in the journal.

        One that cannot be read, sampled or rewarded (InputError, CapacityError, `NO_REWARD`) is written down with the
        reason.
        """
        rest = iter(todo)
        while batch := [*islice(rest, self.batch_regions)]:
            start = time.perf_counter()
            trials: list[Trial] = []
            regions: list[LabelledRegion] = []
            for region_id, task in batch:
                try:
                    region = region_of(region_id)
                    region.picture()
                except InputError as error:
                    trials.append(Trial(region_id, task, reason=str(error)))
                else:
                    regions.append(region)
            trials += self._sampled(regions)
            seconds = round((time.perf_counter() - start) / len(batch), 4)
            timed = [replace(trial, seconds=seconds) for trial in trials]
            journal.append(timed)
            yield from timed

    def _sampled(self, regions: Sequence[LabelledRegion]) -> list[Trial]:
        """Sample regions together, and each by itself where that fails: one alone may be at fault."""
        if not regions:
            return []
        try:
            groups = self.sampler.sample(regions, self.n, self.seed)
        except (InputError, CapacityError) as error:
            if len(regions) == 1:
                return [Trial(regions[0].region_id, regions[0].task, reason=str(error))]
            return [trial for region in regions for trial in self._sampled([region])]
        return [self._rewarded(region, group) for region, group in zip(regions, groups, strict=True)]

    def _rewarded(self, region: LabelledRegion, group: Sequence[Rollout]) -> Trial:
        texts = dict.fromkeys(rollout.text for rollout in group)  # rollouts are often the same, and rewards dear
        try:
            rewards = {text: float(self.reward(region.task, text, region.target)) for text in texts}
        except NO_REWARD as error:
            return Trial(region.region_id, region.task, reason=f"its reward cannot be computed: {error!r}")
        return Trial(
            region.region_id, region.task,
            rewards=tuple(rewards[rollout.text] for rollout in group),
            n_chars=tuple(len(rollout.text) for rollout in group),
            n_tokens=tuple(len(rollout.ids) for rollout in group),
            n_truncated=sum(not rollout.finished for rollout in group),
        )  # fmt: skip
