"""What every measurement shares: boundaries, modes that take turns, medians and spread over whole passes, summaries."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from gravityocr.benchmark.cases import Case
from gravityocr.document import Crop, Recognition
from gravityocr.errors import InputError
from gravityocr.pipeline.recognizer import Recognizer

T = TypeVar("T")
REFERENCE = "ar"
"""The mode that the others are compared with."""

PROTOCOLS: Mapping[str, str] = {
    "together": "the pieces of a crop are decoded together, as the product does",
    "one-by-one": "one sequence at a time (batch 1), as in the paper's crop tables",
}
PAPER_LENGTHS: tuple[tuple[int, int | None], ...] = ((0, 128), (128, 512), (512, 1024), (1024, None))
SHORT_LENGTHS: tuple[tuple[int, int | None], ...] = ((0, 32), (32, 64), (64, 128))
"""Ours: the paper's first bucket holds most crops."""


@dataclass(frozen=True)
class Boundary:
    """What a measurement's seconds hold, and what lies outside.

    `counts_first` says whether the first token of each sequence counts: it comes from the prefill.
    """

    name: str
    text: str
    counts_first: bool


DECODE = Boundary(
    "decode",
    "decode only: from the first token of the prefill to the last token, all decode forwards, masks, argmax, "
    "acceptance and bookkeeping; image opening, splitting, vision, prefill and text joining are outside; crops one "
    "after another",
    counts_first=False,
)
REGION = Boundary(
    "region",
    "region: from a crop's pixels in memory to its ids and text: splitting into pieces, prompts, vision, prefill, "
    "decode, detokenising and joining; image opening and layout are outside; crops one after another",
    counts_first=True,
)
PAGE = Boundary(
    "page",
    "page: from a file on disk to its Markdown: opening or rendering, layout, crops, recognition of all regions of the "
    "page in one call, assembly; loading the models and writing files are outside; pages one after another",
    counts_first=True,
)
BATCH = Boundary(
    "batch",
    "decode only, over a filled queue, its emptying at the end included: all decode forwards, acceptance and "
    "bookkeeping; vision, prefill and admission are outside",
    counts_first=False,
)


@dataclass(frozen=True)
class Measured:
    """What one mode read of one thing (a crop, a page, a queue), and the seconds of every pass over it.

    `stages` has the seconds by stage of every pass, where they are known.
    """

    answers: tuple[Recognition, ...]
    seconds: tuple[float, ...]
    stages: tuple[Mapping[str, float], ...] = ()

    @property
    def n_tokens(self) -> int:
        """Return how many tokens were read."""
        return sum(answer.n_tokens for answer in self.answers)

    @property
    def ids(self) -> list[tuple[tuple[int, ...], ...]]:
        """Return the token ids of every piece of every crop."""
        return [answer.ids for answer in self.answers]


@dataclass(frozen=True)
class Reading:
    """One pass over one thing."""

    answers: tuple[Recognition, ...]
    seconds: float
    stages: Mapping[str, float]


def take_turns(
    modes: Mapping[str, T], repeats: int, read: Callable[[T], Reading], warm_up: Callable[[T], object] | None = None
) -> dict[str, Measured]:
    """Measure every mode `repeats` times after its `warm_up`, each turn begun by another mode, lest the order tell."""
    if warm_up is not None:
        for mode in modes.values():
            warm_up(mode)
    passes: dict[str, list[Reading]] = {name: [] for name in modes}
    names = list(modes)
    for turn in range(repeats):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            passes[name].append(read(modes[name]))
    return {
        name: Measured(
            found[-1].answers, tuple(one.seconds for one in found), tuple(one.stages for one in found)
        )
        for name, found in passes.items()
    }  # fmt: skip


@dataclass
class CropRun:
    """All modes over all crops that could be read: `measured[mode][i]` belongs to `cases[i]`."""

    cases: list[Case]
    measured: dict[str, list[Measured]]
    failed: list[dict[str, str]]


def measure_crops(
    modes: Mapping[str, Recognizer],
    cases: Sequence[Case],
    repeats: int,
    read: Callable[[Recognizer, Crop], Reading],
    on_case: Callable[[int], None] | None = None,
    *,
    warm_up: bool = True,
) -> CropRun:
    """Measure every mode on every crop; one that cannot be read is listed in `failed` and leaves the others alone.

    `warm_up` has every mode read a crop once before its passes are measured.
    """
    run = CropRun([], {name: [] for name in modes}, [])
    for number, case in enumerate(cases):
        try:
            checked = _checked(read, case.crop(), case)
            results = take_turns(modes, repeats, checked, checked if warm_up else None)
        except InputError as error:
            run.failed.append({"file": str(case.file), "error": str(error)})
        else:
            run.cases.append(case)
            for name, result in results.items():
                run.measured[name].append(result)
        if on_case:
            on_case(number)
    return run


def _checked(read: Callable[[Recognizer, Crop], Reading], crop: Crop, case: Case) -> Callable[[Recognizer], Reading]:
    """Return what reads one crop. It raises InputError for a mode that does not."""

    def checked(mode: Recognizer) -> Reading:
        reading = read(mode, crop)
        for answer in reading.answers:
            if answer.status in ("failed", "skipped"):
                raise InputError(f"{case.file}: {answer.status}: {answer.error}")
        return reading

    return checked


def crop_tables(run: CropRun, counts_first: bool, simulated: bool = False) -> dict[str, Any]:
    """Return the summaries of a run: all crops, by kind, by the paper's output lengths and by ours below 128."""
    everything = list(range(len(run.cases)))

    def table(rows: list[int]) -> dict[str, Any]:
        chosen = {name: [results[i] for i in rows] for name, results in run.measured.items()}
        return mode_table(chosen, counts_first, simulated) if rows else {}

    def by_length(lengths: Iterable[tuple[int, int | None]]) -> dict[str, Any]:
        tables = {}
        for low, high in lengths:
            chosen = [i for i in everything if low <= n_tokens[i] < (high or 10**9)]
            if chosen:
                tables[length_name(low, high)] = table(chosen)
        return tables

    reference = run.measured.get(REFERENCE) or next(iter(run.measured.values()))
    n_tokens = [one.n_tokens for one in reference]
    kinds = sorted({case.kind for case in run.cases})
    return {
        "modes": table(everything),
        "by_kind": {kind: table([i for i in everything if run.cases[i].kind == kind]) for kind in kinds},
        "by_length": by_length(PAPER_LENGTHS),
        "by_length_below_128": by_length(SHORT_LENGTHS),
        "n_crops": len(run.cases),
        "failed": run.failed,
    }


def length_name(low: int, high: int | None) -> str:
    """Return a bucket of output lengths as the paper writes it."""
    if high is None:
        return f">={low}"
    return f"{low}-{high - 1}" if low else f"<{high}"


def mode_table(
    measured: Mapping[str, Sequence[Measured]], counts_first: bool, simulated: bool = False
) -> dict[str, dict[str, Any]]:
    """Return one summary a mode; a simulated one says so itself, for AR as well, since it stands in that table."""
    reference = measured.get(REFERENCE)
    rows = {name: summarize(results, reference, counts_first) for name, results in measured.items()}
    return {name: {**row, "simulated": True} for name, row in rows.items()} if simulated else rows


def summarize(results: Sequence[Measured], reference: Sequence[Measured] | None, counts_first: bool) -> dict[str, Any]:
    """Return the figures of one mode.

    Seconds are medians of whole passes, and `spread` is (longest - shortest) / median; `x_ar` compares the passes of
    the same turn. `best_*` add up the shortest pass of each crop or page, which a busy machine disturbs least. TPF
    counts every decode forward and leaves out the first token of each sequence.
    """
    answers = [answer for one in results for answer in one.answers]
    totals = _totals(results)
    seconds = statistics.median(totals)
    n_decoded, n_forwards = sum(a.n_decoded for a in answers), sum(a.n_forwards for a in answers)
    n_tokens, n_rounds = sum(a.n_tokens for a in answers), sum(a.n_rounds for a in answers)
    n_guarded = sum(a.n_guarded for a in answers)
    counted = n_tokens if counts_first else n_decoded
    row = {
        "s_per_token": seconds / max(1, counted),
        "tok_per_s": counted / seconds if seconds else 0.0,
        "best_s_per_token": _best(results) / max(1, counted),
        "spread": (max(totals) - min(totals)) / seconds if seconds else 0.0,
        "tpf": n_decoded / n_forwards if n_forwards else 0.0,
        "n_accepted": sum(a.n_accepted for a in answers) / n_rounds if n_rounds else 0.0,
        "hit_rate": sum(a.n_hits for a in answers) / n_rounds if n_rounds else 0.0,
        "x_ar": None,
        "best_x_ar": None,
        "identical_to_ar": None,
        "identical_strings": None,
        "n_tokens": counted,
        "n_forwards": n_forwards,
        "n_rounds": n_rounds,
        "n_crops": len(answers),
        "n_sequences": sum(len(a.ids) for a in answers),
        "guarded": n_guarded / n_tokens if n_tokens else 0.0,
        "seconds": totals,
        "stages": _stages(results),
    }
    if reference is not None:
        row |= _compared(results, reference, totals)
    return row


def _compared(results: Sequence[Measured], reference: Sequence[Measured], totals: list[float]) -> dict[str, Any]:
    ratios = [theirs / ours for ours, theirs in zip(totals, _totals(reference), strict=True) if ours]
    pairs = [
        (ours, theirs)
        for one, other in zip(results, reference, strict=True)
        for ours, theirs in zip(one.answers, other.answers, strict=True)
    ]
    return {
        "x_ar": statistics.median(ratios) if ratios else None,
        "best_x_ar": _best(reference) / _best(results) if _best(results) else None,
        "x_ar_range": [min(ratios), max(ratios)] if ratios else None,
        "identical_to_ar": sum(a.ids == b.ids for a, b in pairs) / max(1, len(pairs)),
        "identical_strings": sum(a.text == b.text for a, b in pairs) / max(1, len(pairs)),
    }


def _totals(results: Sequence[Measured]) -> list[float]:
    """Return one total per pass, so that the spread is that of whole passes."""
    return [sum(times) for times in zip(*(one.seconds for one in results), strict=True)]


def _best(results: Sequence[Measured]) -> float:
    """Return the seconds of a pass made of the shortest one over each thing."""
    return sum(min(one.seconds) for one in results)


def _stages(results: Sequence[Measured]) -> dict[str, float]:
    """Return the median seconds of each stage over whole passes."""
    names = dict.fromkeys(name for one in results for stages in one.stages for name in stages)
    passes = list(zip(*(one.stages for one in results), strict=True))
    return {name: statistics.median(sum(s.get(name, 0.0) for s in one) for one in passes) for name in names}


def machine(dtype: str | None = None, device: str = "cpu") -> dict[str, Any]:
    """Return what the figures depend on; `dtype` is None where nothing computes in one type."""
    return {
        "processor": _processor(),
        "accelerator": torch.cuda.get_device_name(device) if device.startswith("cuda") else None,
        "n_cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dtype": dtype,
        "device": device,
    }


def _processor() -> str:
    """Return the processor's name; Python knows only its family on Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
