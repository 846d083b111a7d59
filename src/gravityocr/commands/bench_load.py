"""`gravityocr bench page`, `batch` and `concurrency`: speed of whole pages and under load."""

from __future__ import annotations

from typing import Annotated

import typer

from gravityocr.api import build_detector
from gravityocr.benchmark.load import bench_batch, bench_concurrency
from gravityocr.benchmark.pages import Parts, bench_page, find_pages
from gravityocr.commands import bench_options, options
from gravityocr.commands.bench_modes import engines_of, parse_modes, simulated_engines
from gravityocr.commands.bench_print import show_batch, show_concurrency, show_pages
from gravityocr.pipeline.recognizer import Recognizer

MAX_RUNNING = 4096


def page(
    cases: bench_options.Pages,
    modes: bench_options.Modes = "ar,self-spec",
    checkpoint: options.Checkpoint = "nano",
    layout: bench_options.Layout = "auto",
    limit: bench_options.Limit = None,
    repeats: bench_options.Repeats = 3,
    one_by_one: bench_options.OneByOne = False,
    threads: options.Threads = None,
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Compare decode modes on whole pages: rendering, layout, crops, recognition, assembly."""
    chosen, files = parse_modes(modes), find_pages(cases, limit)
    parts = Parts(build_detector(layout))
    engine = bench_options.load_engine(checkpoint, max_tokens, dtype, device, threads, one_by_one)
    with bench_options.progress("files", len(files)) as tick:
        report = bench_page(engines_of(engine, chosen), files, repeats, parts, tick)
    report["layout"] = layout
    bench_options.finish(report, engine, as_json, show_pages, one_by_one)


def batch(
    cases: bench_options.Cases,
    sizes: Annotated[str, typer.Option(help="Most sequences that run together, rising.")] = "1,4,16,64",
    modes: bench_options.Modes = "ar,self-spec",
    checkpoint: options.Checkpoint = "nano",
    tasks: bench_options.Tasks = None,
    language: bench_options.Language = None,
    limit: bench_options.Limit = None,
    repeats: bench_options.Repeats = 3,
    acceptance_profile: bench_options.Profile = None,
    seed: bench_options.Seed = 0,
    threads: options.Threads = None,
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Decode a filled queue with at most N sequences running, for several N."""
    chosen, running = parse_modes(modes), bench_options.numbers("--sizes", sizes, 1, MAX_RUNNING)
    engine = bench_options.load_engine(checkpoint, max_tokens, dtype, device, threads)
    found = bench_options.find_cases(engine, cases, tasks, language, limit)
    simulated = acceptance_profile is not None
    used = sorted({case.task for case in found})

    def readers_of(size: int) -> dict[str, Recognizer]:
        if acceptance_profile is None:
            return engines_of(engine, chosen, max_running=size)
        return simulated_engines(engine, chosen, acceptance_profile, seed, used, max_running=size)

    readers = {size: readers_of(size) for size in running}
    with bench_options.progress("sizes", len(running)) as tick:
        report = bench_batch(readers, found, repeats, tick, simulated=simulated)
    if simulated:
        report["profile"] = {"name": acceptance_profile, "seed": seed}
    bench_options.finish(report, engine, as_json, show_batch)


def concurrency(
    cases: bench_options.Pages,
    modes: bench_options.Modes = "ar,self-spec",
    checkpoint: options.Checkpoint = "nano",
    layout: bench_options.Layout = "auto",
    limit: bench_options.Limit = None,
    repeats: bench_options.Repeats = 3,
    threads: options.Threads = None,
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Parse pages with their regions one by one and together."""
    chosen, files = parse_modes(modes), find_pages(cases, limit)
    parts = Parts(build_detector(layout))
    engine = bench_options.load_engine(checkpoint, max_tokens, dtype, device, threads)
    with bench_options.progress("files", len(files)) as tick:
        report = bench_concurrency(engines_of(engine, chosen), files, repeats, parts, tick)
    report["layout"] = layout
    bench_options.finish(report, engine, as_json, show_concurrency)
