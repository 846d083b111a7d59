"""What an evaluation found: a record a region, the figures of each kind, and what they are judged by."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from gravityocr.document import RegionStatus, Task
from gravityocr.errors import InputError
from gravityocr.training.corpora.region_shards import TASKS

ALL = "all"
WHOLE = "whole_"  # what the kinds of whole crops begin with
FOLDER = "evaluations"


@dataclass(frozen=True)
class RegionRecord:
    """How one held-out region was read; of a `failed` one nothing is known but its `error`.

    `kind` is the task, or `whole_` and the task for a whole crop. `reward` is that of the greedy reading,
    `sampled_reward` the mean of those of samples at temperature 1, which is what GRPO raises. `ned` is of the scorer's
    normal forms, `ned_plain` of the strings with folded blanks: it sees punctuation and case. `teds` and `teds_struct`
    are of tables, `cdm` of formulas where it was asked for and the reference can be rendered. `n_tokens` counts all
    tokens, `n_decoded` those after the first of each sequence. `identical` tells whether the plain AR path gives the
    same tokens, where it was asked for.
    """

    region_id: str
    kind: str
    task: Task
    ref: str
    pred: str = ""
    status: RegionStatus = "ok"
    error: str | None = None
    reward: float | None = None
    sampled_reward: float | None = None
    teds: float | None = None
    teds_struct: float | None = None
    ned: float | None = None
    ned_plain: float | None = None
    cdm: float | None = None
    n_tokens: int = 0
    n_decoded: int = 0
    n_forwards: int = 0
    n_rounds: int = 0
    n_accepted: int = 0
    identical: bool | None = None

    @property
    def is_read(self) -> bool:
        """Tell whether the region was read at all."""
        return self.status not in ("failed", "skipped")

    @property
    def is_cut(self) -> bool:
        """Tell whether the reading was cut by a limit."""
        return self.status in ("truncated", "loop_cut")


Summary = dict[str, Any]
"""`kinds` holds the figures of each kind, `all` those of all of them, `quality` what a checkpoint is chosen by."""


def summarize(records: Sequence[RegionRecord]) -> Summary:
    """Return the figures of each kind and of all records.

    `tpf` is the sum of the decoded tokens over the sum of the forwards, `accepted` drafts are those of a round; the
    others are means over the regions that were read and have such a score. A figure without any base is left out.

    *Source*: eq (5).
    """
    kinds = {kind: _figures([one for one in records if one.kind == kind]) for kind in kinds_of(records)}
    summary: Summary = {"kinds": kinds, ALL: _figures(records)}
    return {**summary, "quality": quality(summary)}


def kinds_of(records: Sequence[RegionRecord]) -> list[str]:
    """Return the kinds that occur: the tasks in their order, then those of whole crops, then others."""
    known = [*TASKS, *(WHOLE + task for task in TASKS)]
    kinds = dict.fromkeys(one.kind for one in records)
    return sorted(kinds, key=lambda kind: known.index(kind) if kind in known else len(known))


def _figures(records: Sequence[RegionRecord]) -> dict[str, Any]:
    read = [one for one in records if one.is_read]
    figures: dict[str, Any] = {
        "n": len(records),
        "n_failed": len(records) - len(read),
        "n_truncated": sum(one.is_cut for one in read),
    }
    for name in ("reward", "sampled_reward", "teds", "teds_struct", "cdm", "ned", "ned_plain", "identical"):
        values = [value for one in read if (value := getattr(one, name)) is not None]
        if values:
            figures[name] = math.fsum(values) / len(values)
    n_decoded, n_forwards = sum(one.n_decoded for one in read), sum(one.n_forwards for one in read)
    n_accepted, n_rounds = sum(one.n_accepted for one in read), sum(one.n_rounds for one in read)
    figures |= {"n_decoded": n_decoded, "n_forwards": n_forwards}
    if n_forwards:
        figures["tpf"] = n_decoded / n_forwards
    if n_rounds:
        figures["accepted"] = n_accepted / n_rounds
    return figures


def quality(summary: Mapping[str, Any]) -> float:
    """Return from 0 to 1 what a checkpoint is chosen by: the mean over the kinds of the quality of each.

    That is TEDS for tables, CDM for formulas where it was measured, else 1 - NED of the normal forms, and for text
    1 - NED of the strings as they are: it sees the punctuation and case that the reward does not. Kinds of which
    nothing was read are left out.
    """
    scores = []
    for kind, figures in summary["kinds"].items():
        task = kind.removeprefix(WHOLE)
        if task == "table" and "teds" in figures:
            scores.append(figures["teds"])
        elif task == "formula" and "cdm" in figures:
            scores.append(figures["cdm"])
        elif task == "formula" and "ned" in figures:
            scores.append(1.0 - figures["ned"])
        elif task == "text" and "ned_plain" in figures:
            scores.append(1.0 - figures["ned_plain"])
    return math.fsum(scores) / len(scores) if scores else 0.0


def tpf_fall(before: Mapping[str, Any], now: Mapping[str, Any]) -> float:
    """Return by what share the TPF over all kinds fell between two summaries; it is negative where TPF rose.

    Tokens and forwards are summed over all regions, so that a kind of few tokens cannot raise an alarm alone. Without
    forwards on either side nothing fell.
    """
    first, last = (summary[ALL].get("tpf", 0.0) for summary in (before, now))
    return 1.0 - last / first if first and last else 0.0


def best_step(qualities: Mapping[int, float]) -> int:
    """Return the step of the highest quality, of equal ones the earliest."""
    return min(qualities, key=lambda step: (-qualities[step], step))


def record_file(folder: Path, step: int) -> Path:
    """Return where the records of a step lie in a run's folder."""
    return folder / FOLDER / f"step-{step:05d}.jsonl"


def record_steps(folder: Path) -> list[int]:
    """Return the steps whose records a run's folder holds, in order.

    *Raises*: InputError where there is none, or a file has another name.
    """
    steps = []
    for file in (folder / FOLDER).glob("step-*.jsonl"):
        number = file.stem.removeprefix("step-")
        if not number.isdecimal():
            raise InputError(f"{file}: is no step of an evaluation; take it away")
        steps.append(int(number))
    if not steps:
        raise InputError(f"{folder / FOLDER} holds no step-*.jsonl; run gravityocr rl with evaluation first")
    return sorted(steps)


def write_records(file: Path, records: Sequence[RegionRecord]) -> None:
    """Write records as JSON lines, atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_text("".join(json.dumps(asdict(one), ensure_ascii=True) + "\n" for one in records), encoding="utf-8")
    part.replace(file)


def read_records(file: Path) -> list[RegionRecord]:
    """Read the records of a file.

    *Raises*: InputError naming the file, and the line that is no record.
    """
    remedy = "evaluate again, or take the file away"
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read ({error}); {remedy}") from error
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(_record(json.loads(line)))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(f"{file}: line {number} is no record of an evaluation ({error}); {remedy}") from error
    if not records:
        raise InputError(f"{file}: holds no record; {remedy}")
    return records


_TEXTS = ("region_id", "kind", "task", "ref", "pred", "status")
_COUNTS = ("n_tokens", "n_decoded", "n_forwards", "n_rounds", "n_accepted")
_SCORES = ("reward", "sampled_reward", "teds", "teds_struct", "ned", "ned_plain", "cdm")


def _record(row: Any) -> RegionRecord:
    """Return a line's record; what later versions write beside it is left out."""
    if not isinstance(row, dict):
        raise TypeError("no object")
    known = {field.name for field in fields(RegionRecord)}
    record = RegionRecord(**{name: value for name, value in row.items() if name in known})
    checks: tuple[tuple[tuple[str, ...], str, Callable[[Any], bool]], ...] = (
        (_TEXTS, "a text", lambda value: isinstance(value, str)),
        (_COUNTS, "a count", lambda value: type(value) is int and value >= 0),
        (_SCORES, "a score", lambda value: value is None or (type(value) in (int, float) and math.isfinite(value))),
    )
    for names, what, is_right in checks:
        for name in names:
            if not is_right(getattr(record, name)):
                raise TypeError(f"its {name} is not {what}")
    return record
