"""Decode speed: modes side by side in one run, on the same crops, medians over repeats."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gravityocr.benchmark.cases import Case
from gravityocr.document import Recognition
from gravityocr.errors import InputError
from gravityocr.pipeline.recognizer import Recognizer

DECODE_BOUNDARY = (
    "decode only: from the first token of the prefill to the last token, all decode forwards, masks, argmax, "
    "acceptance and bookkeeping; image opening, splitting, vision, prefill and text joining are outside; crops one "
    "after another, the pieces of a crop together"
)
LENGTHS = ((0, 64), (64, 128), (128, 512), (512, None))


@dataclass(frozen=True)
class _Measured:
    """All repeats of one mode on one case."""

    answer: Recognition
    decode_s: tuple[float, ...]


def bench_decode(
    modes: Mapping[str, Recognizer], cases: Sequence[Case], repeats: int, on_case: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Measure every mode on every case, the modes taking turns, and compare each with `ar`.

    A crop that cannot be read is listed in `failed` and leaves the others alone.

    *Units*: seconds per token after each piece's first, which is the prefill's. Returns the JSON of `bench decode`.
    """
    measured: dict[str, list[_Measured]] = {name: [] for name in modes}
    read: list[Case] = []
    failed: list[dict[str, str]] = []
    for number, case in enumerate(cases):
        try:
            results = _measure(modes, case, repeats)
        except InputError as error:
            failed.append({"file": str(case.file), "error": str(error)})
        else:
            read.append(case)
            for name, result in results.items():
                measured[name].append(result)
        if on_case:
            on_case(number)
    everything = list(range(len(read)))
    kinds = sorted({case.kind for case in read})
    return {
        "modes": _table(measured, everything),
        "by_kind": {kind: _table(measured, [i for i in everything if read[i].kind == kind]) for kind in kinds},
        "by_length": _by_length(measured, everything),
        "boundary": DECODE_BOUNDARY,
        "repeats": repeats,
        "n_crops": len(read),
        "failed": failed,
        "machine": machine(),
    }


def _measure(modes: Mapping[str, Recognizer], case: Case, repeats: int) -> dict[str, _Measured]:
    """Return all repeats of every mode on one case.

    *Raises*: InputError where the crop cannot be opened, or a mode does not read it.
    """
    crop = case.crop()
    for recognizer in modes.values():
        for answer in recognizer.recognize([crop]):  # warm-up
            if answer.status in ("failed", "skipped"):
                raise InputError(f"{case.file}: {answer.status}: {answer.error}")
    runs: dict[str, list[Recognition]] = {name: [] for name in modes}
    for _ in range(repeats):
        for name, recognizer in modes.items():
            runs[name].extend(recognizer.recognize([crop]))
    return {
        name: _Measured(answers[0], tuple(answer.seconds["decode"] for answer in answers))
        for name, answers in runs.items()
    }


def _by_length(measured: Mapping[str, list[_Measured]], rows: list[int]) -> dict[str, Any]:
    reference = next(iter(measured.values()))
    tables = {}
    for low, high in LENGTHS:
        chosen = [i for i in rows if low <= reference[i].answer.n_tokens < (high or 10**9)]
        if chosen:
            tables[f"{low}-{high - 1}" if high else f">={low}"] = _table(measured, chosen)
    return tables


def _table(measured: Mapping[str, list[_Measured]], rows: list[int]) -> dict[str, Any]:
    return {name: _summary(results, measured.get("ar"), rows) for name, results in measured.items()} if rows else {}


def _summary(results: list[_Measured], reference: list[_Measured] | None, rows: list[int]) -> dict[str, Any]:
    chosen = [results[i] for i in rows]
    n_tokens = sum(one.answer.n_decoded for one in chosen)
    n_forwards = sum(one.answer.n_forwards for one in chosen)
    n_rounds = sum(one.answer.n_rounds for one in chosen)
    # One total per repeat, so that the spread is that of whole passes over the crops.
    totals = [sum(times) for times in zip(*(one.decode_s for one in chosen), strict=True)]
    seconds = statistics.median(totals)
    same = None
    if reference:
        same = sum(one.answer.ids == reference[i].answer.ids for i, one in zip(rows, chosen, strict=True))
    return {
        "s_per_token": seconds / max(1, n_tokens),
        "tok_per_s": n_tokens / seconds if seconds else 0.0,
        "spread": (max(totals) - min(totals)) / seconds if seconds else 0.0,
        "tpf": n_tokens / n_forwards if n_forwards else 0.0,
        "n_accepted": sum(one.answer.n_accepted for one in chosen) / n_rounds if n_rounds else 0.0,
        "n_tokens": n_tokens,
        "n_forwards": n_forwards,
        "n_crops": len(chosen),
        "identical_to_ar": None if same is None else same / max(1, len(chosen)),
    }


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "n_cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
