"""What it is worth that the stages of a run overlap: the same pages one step after another, and pipelined.

    python -m benchmarks.pipeline_overlap --pages 20 --json

The pages are set from public-domain text (`benchmarks.born_digital`). Both ways do the same work through the same code:
rendering, layout, cutting, recognition, assembly and writing Markdown and JSON, with one thread a stage and a process.
One after another is `run.n_ahead=0` and one process; pipelined is what `gravityocr parse` does by itself, with
`--workers` processes. The two take turns, and medians count; the outputs must be the same. `--memory-pages 300` also
runs the command over so many pages and reports the largest memory that its processes had resident (Linux).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.born_digital import make_pages
from benchmarks.crop_tables import format_table
from gravityocr.api import EngineFactory, build_detector, with_text_format
from gravityocr.benchmark.protocol import machine
from gravityocr.engine.engine import EngineConfig
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError, InputError
from gravityocr.pipeline.convert import PipelineConfig, convert
from gravityocr.pipeline.exports import DocumentWriter
from gravityocr.pipeline.layout import LayoutDetector
from gravityocr.pipeline.recognizer import Recognizer
from gravityocr.pipeline.source import SourceConfig
from gravityocr.pipeline.stages import RunConfig
from gravityocr.pipeline.worker_pool import WorkerPool

BOUNDARY = {
    "work": "from the PDF's path to its written Markdown and JSON; checkpoint and layout model loaded, worker processes"
    " started and ready before",
    "command": "the whole of `gravityocr parse`: start of the interpreter, imports, loading, start of the worker"
    " processes, the work, the end of all processes",
}
_SAMPLE_S = 0.2


def time_work(
    path: Path, folder: Path, recognizer: Recognizer, detector: LayoutDetector, config: PipelineConfig, n_parallel: int
) -> tuple[float, str]:
    """Return the seconds of one run and the Markdown that it wrote.

    *Raises*: InputError where a page failed.
    """
    writer = DocumentWriter(folder)
    started = time.perf_counter()
    document = convert(path, recognizer, detector, config, save_image=writer.save_image, n_parallel=n_parallel)
    writer.finish(document)
    seconds = time.perf_counter() - started
    if document.status == "failed" or any(page.status == "failed" for page in document.pages):
        raise InputError(f"{path}: {document.error}")
    return seconds, document.markdown


def measure_work(path: Path, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure both ways with everything loaded, taking turns."""
    drafts = args.draft in ("auto", "text-layer")
    factory = EngineFactory(args.checkpoint, EngineConfig(max_tokens=512, draft=args.draft), n_threads=1)
    engine, detector = factory(), build_detector(args.layout, n_threads=1)
    config = with_text_format(PipelineConfig(source=SourceConfig(text_layer=drafts)), engine.text_format)
    one_by_one = PipelineConfig(
        source=config.source, assembly=config.assembly, run=RunConfig(n_ahead=0)
    )  # fmt: skip
    seconds: dict[str, list[float]] = {"one_after_another": [], "pipelined": []}
    texts: list[str] = []
    with WorkerPool(factory, args.workers) as pool:
        for number in range(args.repeats + 1):
            runs = (
                ("one_after_another", engine, one_by_one, 1),
                ("pipelined", pool, config, args.workers),
            )
            for name, recognizer, settings, n_parallel in runs:
                spent, text = time_work(path, folder / name, recognizer, detector, settings, n_parallel)
                texts.append(text)
                if number:  # the first of each warms up
                    seconds[name].append(spent)
    return summary(seconds) | {"same_output": len(set(texts)) == 1}


def measure_command(path: Path, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure both ways as a user's commands, taking turns."""
    ways = {
        "one_after_another": ("--workers", "1", "--set", "run.n_ahead=0"),
        "pipelined": ("--workers", str(args.workers)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    texts = []
    for _ in range(args.repeats):
        for name, options in ways.items():
            started = time.perf_counter()
            out = folder / f"command-{name}"
            subprocess.run(command(path, out, args, *options), check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - started)
            texts.append((out / path.stem / f"{path.stem}.md").read_text(encoding="utf-8"))
    return summary(seconds) | {"same_output": len(set(texts)) == 1}


def command(path: Path, out: Path, args: argparse.Namespace, *options: str) -> list[str]:
    """Return the command line of a run."""
    chosen = ["--checkpoint", args.checkpoint, "--layout", args.layout, "--draft", args.draft, "--threads", "1"]
    return [sys.executable, "-m", "gravityocr", "parse", str(path), "-o", str(out), *chosen, *options]


def summary(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Return medians, their ratio, and all that was measured."""
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratios = [b / a for a, b in zip(seconds["one_after_another"], seconds["pipelined"], strict=True)]
    return {
        **{f"{name}_s": median for name, median in medians.items()},
        "ratio": medians["pipelined"] / medians["one_after_another"],
        "ratios": ratios,
        "seconds": seconds,
    }


def measure_memory(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run the command over many pages and watch the memory of its processes.

    *Raises*: InputError where the run fails.
    """
    path = folder / "long.pdf"
    path.write_bytes(make_pages(args.memory_pages))
    peaks: dict[int, float] = {}
    together = 0.0
    options = ("--workers", str(args.workers), "--json")
    with subprocess.Popen(
        command(path, folder / "long", args, *options), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as run:
        while run.poll() is None:
            now = {pid: memory for pid in family(run.pid) if (memory := resident_mib(pid)) is not None}
            together = max(together, sum(current for current, _ in now.values()))
            for pid, (_, peak) in now.items():
                peaks[pid] = max(peaks.get(pid, 0.0), peak)
            time.sleep(_SAMPLE_S)
        out = run.stdout.read() if run.stdout is not None else b""
    if run.returncode != 0:
        raise InputError(f"{path}: the run ended with {run.returncode}")
    return {
        "n_pages": json.loads(out)["files"][0]["n_pages"],
        "main_mib": peaks.pop(run.pid),
        "workers_mib": sorted(peaks.values(), reverse=True)[: args.workers],
        "together_mib": together,
    }


def family(pid: int) -> list[int]:
    """Return a process and its children."""
    with suppress(OSError):
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    return [pid]


def resident_mib(pid: int) -> tuple[float, float] | None:
    """Return the resident memory of a process, now and at most; None where it is gone."""
    with suppress(OSError):
        found = dict(re.findall(r"Vm(RSS|HWM):\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()))
        if len(found) == 2:
            return int(found["RSS"]) / 1024, int(found["HWM"]) / 1024
    return None


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; wrong usage ends the program with 2."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=20, help="pages of the document")
    parser.add_argument("--workers", type=int, default=2, help="processes that read, pipelined")
    parser.add_argument("--repeats", type=int, default=3, help="measured runs of each way; the median counts")
    parser.add_argument("--memory-pages", type=int, default=0, help="also watch the memory over so many pages")
    parser.add_argument("--checkpoint", default="nano", help="nano or a checkpoint folder")
    parser.add_argument("--layout", default="auto", help="the layout detector")
    parser.add_argument("--draft", default="auto", help="what drafts; diffusion reads the pages as if they were scans")
    parser.add_argument("--without-command", action="store_true", help="leave out the start of processes")
    parser.add_argument("--json", action="store_true", help="everything on stdout")
    args = parser.parse_args(arguments)
    for name in ("pages", "workers", "repeats"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if args.memory_pages < 0:
        parser.error("--memory-pages must be at least 0")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark: 0 = all well, 1 = a page failed or the outputs differ, 2 = wrong settings."""
    args = parse_arguments(arguments)
    report: dict[str, Any] = {"n_pages": args.pages, "workers": args.workers, "repeats": args.repeats}
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            path = folder / "born_digital.pdf"
            path.write_bytes(make_pages(args.pages))
            report["work"] = measure_work(path, args, folder)
            if not args.without_command:
                report["command"] = measure_command(path, args, folder)
            if args.memory_pages:
                report["memory"] = measure_memory(args, folder)
    except GravityOCRError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, (ConfigError, CheckpointError)) else 1
    except subprocess.CalledProcessError as error:
        print(f"error: {error}\n{error.stderr.decode(errors='replace')}", file=sys.stderr)
        return 1
    report |= {"boundary": BOUNDARY, "checkpoint": args.checkpoint, "draft": args.draft, "machine": machine()}
    report["load_average"] = os.getloadavg()
    print(json.dumps(report) if args.json else readable(report))
    return 0 if all(report[part]["same_output"] for part in ("work", "command") if part in report) else 1


def readable(report: dict[str, Any]) -> str:
    """Return the report as a table, a row for either boundary."""
    rows = [
        [part, *(f"{report[part][f'{way}_s']:.2f}" for way in ("one_after_another", "pipelined")),
         f"{report[part]['ratio']:.2f}", "yes" if report[part]["same_output"] else "NO"]
        for part in ("work", "command") if part in report
    ]  # fmt: skip
    heads = ["boundary", "one after another s", "pipelined s", "ratio", "same output"]
    lines = [f"{report['n_pages']} pages, {report['workers']} worker processes, medians of {report['repeats']}", ""]
    lines += [format_table(heads, rows), "", *(f"{name}: {text}" for name, text in report["boundary"].items())]
    memory = report.get("memory")
    if memory is not None:
        each = ", ".join(f"{value:.0f}" for value in memory["workers_mib"])
        lines.append(
            f"memory over {memory['n_pages']} pages, MiB resident at most: main process {memory['main_mib']:.0f}, "
            f"workers {each}; all at a time {memory['together_mib']:.0f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
