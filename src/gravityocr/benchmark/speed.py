"""Speed of crops: modes side by side in one run, decode only or from pixels to text."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gravityocr.benchmark.cases import Case
from gravityocr.benchmark.costs import CostTable, ForwardTimer, RoundShape, cost_section, n_together
from gravityocr.benchmark.protocol import (
    DECODE,
    REFERENCE,
    REGION,
    CropRun,
    Reading,
    crop_tables,
    measure_crops,
)
from gravityocr.document import Crop
from gravityocr.pipeline.recognizer import Recognizer

OnCase = Callable[[int], None]
SETTINGS = {"draft_steps": "draft-steps", "block_size": "blocks"}
"""A setting that is varied -> the name of its measurement."""


def decode_seconds(recognizer: Recognizer, crop: Crop) -> Reading:
    """Read one crop; the seconds are those that the recognizer gives its decoding."""
    answers = tuple(recognizer.recognize([crop]))
    return Reading(answers, sum(answer.seconds.get("decode", 0.0) for answer in answers), {})


def region_seconds(recognizer: Recognizer, crop: Crop) -> Reading:
    """Read one crop; the seconds are those of the whole call, and what no stage accounts for is `other`."""
    started = time.perf_counter()
    answers = tuple(recognizer.recognize([crop]))
    seconds = time.perf_counter() - started
    names = dict.fromkeys(name for answer in answers for name in answer.seconds)
    stages = {name: sum(answer.seconds.get(name, 0.0) for answer in answers) for name in names}
    return Reading(answers, seconds, {**stages, "other": seconds - sum(stages.values())})


def bench_decode(
    modes: Mapping[str, Recognizer],
    cases: Sequence[Case],
    repeats: int,
    on_case: OnCase | None = None,
    *,
    timer: ForwardTimer | None = None,
    shapes: Mapping[str, RoundShape] | None = None,
    one_by_one: bool = False,
    simulated: bool = False,
) -> dict[str, Any]:
    """Measure decoding alone, mode by mode, and compare each with `ar`.

    `timer` adds the cost of a forward by rows, and with it the speed-up to expect of each mode whose forwards have the
    same `shapes` in every round; `one_by_one` says that no two sequences ran together.

    *Units*: seconds per token after each piece's first, which is the prefill's. Returns the JSON of `bench decode`.
    """
    run = measure_crops(modes, cases, repeats, decode_seconds, on_case)
    tables = crop_tables(run, DECODE.counts_first, simulated)
    report = {**tables, "bench": DECODE.name, "boundary": DECODE.text, "repeats": repeats, "simulated": simulated}
    if timer is not None and run.cases:
        running = 1 if one_by_one else _running(run)
        report["costs"] = _costs(timer, running, tables["modes"], shapes or {})
    return report


def _running(run: CropRun) -> int:
    """Return how many sequences of a crop ran together on average."""
    reference = run.measured.get(REFERENCE) or next(iter(run.measured.values()))
    return n_together([answer.ids for one in reference for answer in one.answers])


def _costs(
    timer: ForwardTimer, running: int, modes: Mapping[str, Any], shapes: Mapping[str, RoundShape]
) -> dict[str, Any]:
    """Measure forwards at batch 1 and at the number of sequences that ran together."""
    rows = {n for shape in shapes.values() for n in (shape.draft_rows, shape.verify_rows)}
    costs = CostTable.measure(timer, sorted({1, running}), rows)
    return cost_section(costs, running, modes, shapes)


def bench_region(
    modes: Mapping[str, Recognizer], cases: Sequence[Case], repeats: int, on_case: OnCase | None = None
) -> dict[str, Any]:
    """Measure from a crop's pixels to its text, mode by mode. Returns the JSON of `bench region`."""
    run = measure_crops(modes, cases, repeats, region_seconds, on_case)
    tables = crop_tables(run, REGION.counts_first)
    return {**tables, "bench": REGION.name, "boundary": REGION.text, "repeats": repeats, "simulated": False}


def bench_settings(
    setting: str,
    reference: Recognizer,
    values: Mapping[int, Recognizer],
    cases: Sequence[Case],
    repeats: int,
    on_case: OnCase | None = None,
) -> dict[str, Any]:
    """Measure decoding at several values of one setting beside AR, all in one run.

    Returns the JSON of `bench draft-steps` and `bench blocks`.
    """
    modes = {REFERENCE: reference, **{str(value): reader for value, reader in values.items()}}
    found = bench_decode(modes, cases, repeats, on_case)

    def without_ar(table: Mapping[str, Any]) -> dict[str, Any]:
        return {name: row for name, row in table.items() if name != REFERENCE}

    return {
        **{name: found[name] for name in ("boundary", "repeats", "simulated", "n_crops", "failed")},
        "bench": SETTINGS[setting],
        "setting": setting,
        "ar": found["modes"].get(REFERENCE),
        "values": without_ar(found["modes"]),
        "by_kind": {kind: without_ar(table) for kind, table in found["by_kind"].items()},
    }
