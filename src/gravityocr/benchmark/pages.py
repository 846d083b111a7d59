"""Speed of whole pages: every stage from a file to its Markdown, mode by mode."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gravityocr.benchmark.protocol import PAGE, REFERENCE, Measured, Reading, summarize, take_turns
from gravityocr.document import Crop, Document, Recognition
from gravityocr.errors import InputError
from gravityocr.pipeline.convert import PipelineConfig, convert
from gravityocr.pipeline.inputs import expand_input
from gravityocr.pipeline.layout import LayoutDetector
from gravityocr.pipeline.recognizer import Recognizer


@dataclass(frozen=True)
class Parts:
    """What a page passes beside the recognizer."""

    detector: LayoutDetector
    config: PipelineConfig = field(default_factory=PipelineConfig)


@dataclass
class PageRun:
    """All modes over all files that could be read: `measured[mode][i]` belongs to `files[i]`."""

    files: list[Path]
    n_pages: list[int]
    measured: dict[str, list[Measured]]
    failed: list[dict[str, str]]


def find_pages(folder: Path, limit: int | None = None) -> list[Path]:
    """Return the images and PDFs of a folder, or the one file that is handed.

    *Raises*: InputError where there is none.
    """
    return [Path(item.path) for item in expand_input(folder)][:limit]


class _Recorder:
    """Keep what a recognizer answered: a page holds only part of it."""

    def __init__(self, reader: Recognizer) -> None:
        self._reader = reader
        self.answers: list[Recognition] = []

    @property
    def tasks(self) -> frozenset[str]:
        return self._reader.tasks

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        found = self._reader.recognize(crops)
        self.answers += found
        return found


def read_page(reader: Recognizer, file: Path, parts: Parts) -> tuple[Document, Reading]:
    """Parse one file and time it; what no stage accounts for, crops and assembly for the most part, is `other`.

    *Raises*: InputError where nothing of it can be read.
    """
    recorder = _Recorder(reader)
    config = replace(parts.config, run=replace(parts.config.run, n_ahead=0))  # stages that overlap do not add up
    started = time.perf_counter()
    document = convert(file, recorder, parts.detector, config)
    seconds = time.perf_counter() - started
    if document.status == "failed":
        raise InputError(f"{document.error}")
    names = dict.fromkeys(name for page in document.pages for name in page.seconds)
    stages = {name: sum(page.seconds.get(name, 0.0) for page in document.pages) for name in names}
    stages["other"] = seconds - sum(stages.values())
    return document, Reading(tuple(recorder.answers), seconds, stages)


def measure_pages(
    modes: Mapping[str, Recognizer],
    files: Sequence[Path],
    repeats: int,
    parts: Parts,
    on_page: Callable[[int], None] | None = None,
) -> PageRun:
    """Measure every mode on every file; one that cannot be read is listed in `failed` and leaves the others alone."""
    run = PageRun([], [], {name: [] for name in modes}, [])
    for number, file in enumerate(files):
        counts: list[int] = []

        def read(mode: Recognizer, file: Path = file, counts: list[int] = counts) -> Reading:
            document, reading = read_page(mode, file, parts)
            counts.append(len(document.pages))
            return reading

        try:
            results = take_turns(modes, repeats, read, read)
        except InputError as error:
            run.failed.append({"file": str(file), "error": str(error)})
        else:
            run.files.append(file)
            run.n_pages.append(counts[-1])
            for name, result in results.items():
                run.measured[name].append(result)
        if on_page:
            on_page(number)
    return run


def page_table(run: PageRun, reference: str = REFERENCE) -> dict[str, dict[str, Any]]:
    """Return the summary of every mode, with pages per second of the whole and of recognition alone."""
    n_pages = sum(run.n_pages)
    table = {}
    for name, results in run.measured.items():
        row = summarize(results, run.measured.get(reference), PAGE.counts_first)
        seconds = statistics.median(row["seconds"])
        recognition = row["stages"].get("recognize", 0.0)
        row["pages_per_s"] = n_pages / seconds if seconds else 0.0
        row["s_per_page"] = seconds / n_pages
        row["recognize_pages_per_s"] = n_pages / recognition if recognition else 0.0
        table[name] = row
    return table


def bench_page(
    modes: Mapping[str, Recognizer],
    files: Sequence[Path],
    repeats: int,
    parts: Parts,
    on_page: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Measure whole pages, mode by mode. Returns the JSON of `bench page`."""
    run = measure_pages(modes, files, repeats, parts, on_page)
    report = {"bench": PAGE.name, "boundary": PAGE.text, "repeats": repeats, "simulated": False}
    report |= {"modes": page_table(run) if run.files else {}, "n_pages": sum(run.n_pages), "failed": run.failed}
    report["pages"] = [_page_row(run, place) for place in range(len(run.files))]
    return report


def _page_row(run: PageRun, place: int) -> dict[str, Any]:
    n_pages = run.n_pages[place]
    seconds = {mode: statistics.median(found[place].seconds) / n_pages for mode, found in run.measured.items()}
    return {"file": str(run.files[place]), "n_pages": n_pages, "s_per_page": seconds}
