"""Speed under load: a filled queue at several sizes of the running batch, and many regions of a page at once."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gravityocr.benchmark.cases import Case
from gravityocr.benchmark.pages import Parts, measure_pages, page_table
from gravityocr.benchmark.protocol import BATCH, PAGE, REFERENCE, Measured, Reading, mode_table, take_turns
from gravityocr.document import Crop, Recognition
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.recognizer import Recognizer

_GOLDEN = (5**0.5 - 1) / 2
FILL = 4
"""Sequences of the queue for each running one: the end, when the batch is no longer full, stays a small part."""


def bench_batch(
    sizes: Mapping[int, Mapping[str, Recognizer]],
    cases: Sequence[Case],
    repeats: int,
    on_size: Callable[[int], None] | None = None,
    *,
    fill: int = FILL,
    simulated: bool = False,
) -> dict[str, Any]:
    """Decode one queue with at most N sequences running, for each N, and compare the modes with AR.

    `sizes` maps N to the modes at that size. The queue is the pieces of crops from all over the cases, as many as give
    `fill` sequences for each running one of the largest size; where all crops are too few, they are repeated.

    *Raises*: ConfigError where a size lacks `ar` or another mode; InputError where no crop can be read.
    *Units*: tokens per second. Returns the JSON of `bench batch`.
    """
    for modes in sizes.values():
        if REFERENCE not in modes or len(modes) < 2:
            raise ConfigError(f"--modes {','.join(modes)}: a batch compares {REFERENCE} with at least one other mode")
    queue, failed, n_sequences = _queue(sizes[max(sizes)][REFERENCE], cases, fill * max(sizes))
    boundary = f"{BATCH.text}; the queue holds {fill} sequences for each running one of the largest size"
    report: dict[str, Any] = {"bench": BATCH.name, "boundary": boundary, "repeats": repeats, "simulated": simulated}
    report |= {"n_crops": len(queue), "n_sequences": n_sequences, "sizes": {}, "failed": failed}
    for number, (size, modes) in enumerate(sizes.items()):
        measured = take_turns(modes, repeats, partial(_decode, queue), partial(_decode, queue[:size]))
        report["sizes"][str(size)] = _size_row(measured, simulated)
        if on_size:
            on_size(number)
    return report


def _queue(reader: Recognizer, cases: Sequence[Case], wanted: int) -> tuple[list[Crop], list[dict[str, str]], int]:
    """Return the crops to decode, those that cannot be read, and how many sequences the crops are."""
    crops: list[Crop] = []
    failed: list[dict[str, str]] = []
    n_sequences = 0
    for case in _from_all_over(cases):
        if n_sequences >= wanted:
            break
        try:
            crop = case.crop()
            (answer,) = reader.recognize([crop])
            if answer.status in ("failed", "skipped"):
                raise InputError(f"{case.file}: {answer.status}: {answer.error}")
        except InputError as error:
            failed.append({"file": str(case.file), "error": str(error)})
            continue
        crops.append(crop)
        n_sequences += len(answer.ids)
    if not n_sequences:
        why = failed[0]["error"] if failed else "they are empty"
        raise InputError(f"none of {len(cases)} crops gave a sequence to decode: {why}")
    n_times = -(-wanted // n_sequences)
    return crops * max(1, n_times), failed, n_sequences * max(1, n_times)


def _from_all_over(cases: Sequence[Case]) -> list[Case]:
    """Return the cases in an order any beginning of which is spread evenly over them, and so over their kinds."""
    return [case for _, case in sorted(enumerate(cases), key=lambda pair: pair[0] * _GOLDEN % 1.0)]


def _decode(queue: Sequence[Crop], reader: Recognizer) -> Reading:
    answers = tuple(reader.recognize(queue))
    return Reading(answers, sum(answer.seconds.get("decode", 0.0) for answer in answers), {})


def _size_row(measured: Mapping[str, Measured], simulated: bool) -> dict[str, Any]:
    """Return the figures of one size; the contract's names hold AR and the first of the other modes."""
    table = mode_table({name: [one] for name, one in measured.items()}, BATCH.counts_first, simulated)
    mode = next(name for name in table if name != REFERENCE)
    return {
        "ar_tok_per_s": table[REFERENCE]["tok_per_s"],
        "self_spec_tok_per_s": table[mode]["tok_per_s"],
        "ratio": table[mode]["x_ar"],
        "mode": mode,
        "modes": table,
    }


class OneRegionAtATime:
    """Hand regions to a recognizer one by one, as a pipeline without any concurrency would."""

    def __init__(self, reader: Recognizer) -> None:
        self._reader = reader

    @property
    def tasks(self) -> frozenset[str]:
        """Return the claimed tasks."""
        return self._reader.tasks

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        """Read the crops one after another."""
        return [answer for crop in crops for answer in self._reader.recognize([crop])]


def bench_concurrency(
    modes: Mapping[str, Recognizer],
    files: Sequence[Path],
    repeats: int,
    parts: Parts,
    on_page: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Parse pages with their regions one by one and together, in every mode.

    *Units*: pages per second, of the whole page and of its recognition alone. Returns the JSON of `bench concurrency`.
    """
    ways: dict[str, Recognizer] = {}
    for name, reader in modes.items():
        ways[f"{name} one by one"] = OneRegionAtATime(reader)
        ways[f"{name} together"] = reader
    run = measure_pages(ways, files, repeats, parts, on_page)
    report: dict[str, Any] = {"bench": "concurrency", "boundary": PAGE.text, "repeats": repeats, "simulated": False}
    report |= {"n_pages": len(run.files), "failed": run.failed, "regions": {}, "ratios": {}}
    if not run.files:
        return report
    rows = page_table(run, reference=f"{REFERENCE} one by one")
    for way in ("one by one", "together"):
        report["regions"][way] = {name: rows[f"{name} {way}"] for name in modes}
        report["ratios"][way] = {
            name: _ratio(run.measured[f"{name} {way}"], run.measured.get(f"{REFERENCE} {way}")) for name in modes
        }
    report["ratios"]["together / one by one"] = {
        name: _ratio(run.measured[f"{name} together"], run.measured[f"{name} one by one"]) for name in modes
    }
    return report


def _ratio(ours: Sequence[Measured], theirs: Sequence[Measured] | None) -> float | None:
    """Return how many times as fast ours is, the median over the passes."""
    if theirs is None:
        return None
    passes = [[sum(times) for times in zip(*(one.seconds for one in side), strict=True)] for side in (ours, theirs)]
    return statistics.median(their / our for our, their in zip(*passes, strict=True))
