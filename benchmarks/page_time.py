"""How long a full page takes: GravityOCR in this process beside tesseract, on the same page images, with equal threads.

    python -m benchmarks.page_time --cases DIR --json

The pages are the cases of kind `page`: of a PDF its first page. Every page is written as a PNG, which both open. They
take turns, and the median over the repeats counts; processor seconds stand beside those of the clock, since a busy
machine changes them less. What a checkpoint does not claim it skips, so the report says of each page how many regions
were read, skipped and cut, and how many characters either reader wrote.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from benchmarks.crop_baselines import Tesseract
from benchmarks.crop_tables import format_table
from gravityocr.api import GravityOCR
from gravityocr.benchmark.cases import LANGUAGES
from gravityocr.benchmark.protocol import machine
from gravityocr.document import Document
from gravityocr.engine.engine import MAX_THREADS, Engine
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError, InputError
from gravityocr.pipeline.layout_cdla import CdlaConfig, CdlaDetector
from gravityocr.pipeline.source import PageRanges, iter_pages

BOUNDARY = {
    "gravityocr": "one call of GravityOCR.parse, checkpoint and layout model loaded, the page read once before: opening"
    " the PNG, layout, cutting, recognition, reading order, Markdown; writing files is outside",
    "tesseract": "one process a page: start, loading the language data, opening the PNG, reading, printing; start_s is"
    " what of it a blank image of 32 x 32 px takes",
}
TIMES = ("gravityocr_s", "tesseract_s", "gravityocr_cpu_s", "tesseract_cpu_s")
AUTOMATIC = 3  # tesseract's page segmentation mode for full pages, its own default


@dataclass(frozen=True)
class PageCase:
    """One page to time."""

    file: Path
    language: str


def load_pages(folder: Path, limit: int | None = None) -> list[PageCase]:
    """Read the cases of kind `page` from `manifest.json`: a list of `{file, kind, language}`.

    *Raises*: InputError where the manifest is missing or broken, or holds no page.
    """
    manifest = folder / "manifest.json"
    try:
        rows = json.loads(manifest.read_text(encoding="utf-8"))
        pages = [
            PageCase(folder / row["file"], LANGUAGES.get(row["language"], row["language"]))
            for row in rows
            if row["kind"] == "page"
        ]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"cannot be read ({type(error).__name__}: {error})"
        raise InputError(f"{manifest} {reason}; --cases wants a folder with a manifest.json") from error
    if not pages:
        raise InputError(f"{manifest} holds no page")
    return pages[:limit]


def write_page(page: PageCase, file: Path) -> tuple[int, int]:
    """Write the image of a page, as GravityOCR would read it, and return its size.

    *Raises*: InputError where the page cannot be opened.
    """
    source = next(iter_pages(page.file, PageRanges.parse("1")))
    if source.image is None:
        raise InputError(f"{page.file}: {source.error}")
    source.image.save(file, compress_level=1)
    return source.image.size


def cpu_seconds() -> float:
    """Return what this process and its ended children have taken of all processors."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure_page(ours: GravityOCR, tesseract: Tesseract, page: PageCase, repeats: int) -> dict[str, Any]:
    """Time both readers on one page, in turns.

    *Raises*: InputError where the page cannot be opened or a reader gives up on it.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.png"
        size = write_page(page, file)
        document = ours.parse(file)  # warm-up
        if document.status == "failed":
            raise InputError(f"{page.file}: {document.error}")
        text = tesseract.read_file(file, page.language)[0]  # warm-up of the file cache
        readers: dict[str, Callable[[], object]] = {
            "gravityocr": lambda: ours.parse(file),
            "tesseract": lambda: tesseract.read_file(file, page.language),
        }
        times: dict[str, list[float]] = {name: [] for name in readers}
        cpu_times: dict[str, list[float]] = {name: [] for name in readers}
        for _ in range(repeats):
            for name, read in readers.items():
                start, start_cpu = time.perf_counter(), cpu_seconds()
                read()
                times[name].append(time.perf_counter() - start)
                cpu_times[name].append(cpu_seconds() - start_cpu)
    medians = {f"{name}_s": statistics.median(values) for name, values in times.items()}
    medians |= {f"{name}_cpu_s": statistics.median(values) for name, values in cpu_times.items()}
    return {
        "file": page.file.name,
        "language": page.language,
        "size_px": size,
        **medians,
        "ratio": medians["gravityocr_s"] / medians["tesseract_s"],
        "cpu_ratio": medians["gravityocr_cpu_s"] / medians["tesseract_cpu_s"],
        "times_s": times,
        "cpu_times_s": cpu_times,
        **_content(document, text),
    }


def _content(document: Document, tesseract_text: str) -> dict[str, Any]:
    regions = [region for page in document.pages for region in page.regions]
    seconds: Counter[str] = Counter()
    for page in document.pages:
        seconds.update(page.seconds)
    return {
        "regions": dict(Counter(region.status if region.task else "picture" for region in regions)),
        "n_tokens": sum(region.n_tokens for region in regions),
        "gravityocr_characters": sum(len("".join(region.content.split())) for region in regions),
        "tesseract_characters": len("".join(tesseract_text.split())),
        "first_call_parts_s": dict(seconds),
    }


def start_seconds(tesseract: Tesseract, repeats: int) -> float:
    """Return the median seconds of a process that reads nothing."""
    blank = Image.new("RGB", (32, 32), "white")
    return statistics.median(tesseract.read(blank, "english")[1] for _ in range(repeats + 1))


def summarize(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return seconds a page, the ratio of the totals and the median ratio, over all pages and by language."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        for name in ("all", row["language"]):
            groups.setdefault(name, []).append(row)
    found = {}
    for name, members in groups.items():
        totals = {key: sum(row[key] for row in members) for key in TIMES}
        found[name] = {
            "n_pages": len(members),
            **{f"{key}_per_page": total / len(members) for key, total in totals.items()},
            "ratio_of_totals": totals["gravityocr_s"] / totals["tesseract_s"],
            "cpu_ratio_of_totals": totals["gravityocr_cpu_s"] / totals["tesseract_cpu_s"],
            "ratio_median": statistics.median(row["ratio"] for row in members),
            "n_no_slower": sum(row["ratio"] <= 1 for row in members),
        }
    return found


def measure(engine: Engine, pages: Sequence[PageCase], n_threads: int, repeats: int) -> dict[str, Any]:
    """Time all pages with so many threads for either reader; a page that cannot be read is listed in `failed`."""
    torch.set_num_threads(n_threads)
    ours = GravityOCR(engine, CdlaDetector(CdlaConfig(n_threads=n_threads)))
    tesseract = Tesseract(n_threads, AUTOMATIC)
    rows: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    for number, page in enumerate(pages, 1):
        try:
            rows.append(measure_page(ours, tesseract, page, repeats))
        except InputError as error:
            failed.append({"file": str(page.file), "error": str(error)})
        else:
            times = ", ".join(f"{key} {rows[-1][key]:.3f}" for key in TIMES)
            print(f"{n_threads} thread(s), {number} of {len(pages)}: {page.file.name}: {times}", file=sys.stderr)
    return {
        "threads": n_threads,
        "groups": summarize(rows),
        "tesseract_start_s": start_seconds(tesseract, repeats),
        "tesseract": tesseract.describe() | {"boundary": BOUNDARY["tesseract"]},
        "pages": rows,
        "failed": failed,
    }


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; wrong usage ends the program with 2."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True, help="a folder with manifest.json and pages")
    parser.add_argument("--checkpoint", default="nano", help="nano or a checkpoint folder")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads; default: 1 2")
    parser.add_argument("--repeats", type=int, default=3, help="times that every page is read; the median counts")
    parser.add_argument("--limit", type=int, help="only the first pages")
    parser.add_argument("--json", action="store_true", help="everything, page by page, on stdout")
    args = parser.parse_args(arguments)
    if args.repeats < 1:
        parser.error("--repeats must be at least 1")
    if args.limit is not None and args.limit < 1:
        parser.error("--limit must be at least 1")
    if not all(1 <= n_threads <= MAX_THREADS for n_threads in args.threads):
        parser.error(f"--threads must be 1 to {MAX_THREADS}")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark: 0 = all well, 1 = some page failed, 2 = wrong settings."""
    args = parse_arguments(arguments)
    try:
        pages = load_pages(args.cases, args.limit)
        engine = Engine.from_pretrained(args.checkpoint, n_threads=args.threads[0])
        runs = [measure(engine, pages, n_threads, args.repeats) for n_threads in args.threads]
    except GravityOCRError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, (ConfigError, CheckpointError)) else 1
    report = {
        "runs": runs,
        "checkpoint": args.checkpoint,
        "tasks": sorted(engine.tasks),
        "repeats": args.repeats,
        "boundary": BOUNDARY,
        "machine": {**machine(), "torch": torch.__version__},
    }
    print(json.dumps(report, ensure_ascii=False) if args.json else readable(report))
    failed = [failure for run in runs for failure in run["failed"]]
    for failure in failed:
        print(f"failed: {failure['error']}", file=sys.stderr)
    return 1 if failed else 0


def readable(report: dict[str, Any]) -> str:
    """Return the report as a table, a row for every number of threads and language."""
    heads = ["pages", "threads", "n", "ours s/page", "tesseract", "ours CPU s/page", "tesseract CPU"]
    heads += ["ratio of totals", "of CPU totals", "median ratio", "no slower"]
    rows = [
        [
            name,
            str(run["threads"]),
            str(one["n_pages"]),
            *(f"{one[f'{key}_per_page']:.3f}" for key in TIMES),
            *(f"{one[key]:.2f}" for key in ("ratio_of_totals", "cpu_ratio_of_totals", "ratio_median")),
            str(one["n_no_slower"]),
        ]
        for run in report["runs"]
        for name, one in run["groups"].items()
    ]
    starts = ", ".join(f"{run['tesseract_start_s']:.3f} s with {run['threads']}" for run in report["runs"])
    lines = [format_table(heads, rows), "", f"tesseract's start: {starts} thread(s)"]
    return "\n".join([*lines, *(f"{name}: {text}" for name, text in report["boundary"].items())])


if __name__ == "__main__":
    sys.exit(main())
