"""`gravityocr bench decode`, `region`, `draft-steps` and `blocks`: speed of crops."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gravityocr.benchmark.cases import Case
from gravityocr.benchmark.costs import ForwardTimer
from gravityocr.benchmark.speed import bench_decode, bench_region, bench_settings
from gravityocr.commands import bench_options, options
from gravityocr.commands.bench_baseline import BASELINE_BOUNDARY, BASELINES, StockTransformers
from gravityocr.commands.bench_modes import Mode, apart, engines_of, parse_mode, parse_modes, simulated_engines
from gravityocr.commands.bench_network import forward_timer
from gravityocr.commands.bench_print import show_crops, show_settings
from gravityocr.engine.engine import Engine
from gravityocr.errors import ConfigError, InputError
from gravityocr.model.checkpoint import MAX_BLOCK_SIZE
from gravityocr.pipeline.recognizer import Recognizer

MAX_DRAFT_STEPS = 64
Baseline = Annotated[str | None, typer.Option(help="transformers: its own generate on the same checkpoint.")]


def decode(
    cases: bench_options.Cases,
    modes: bench_options.Modes = "ar,self-spec",
    checkpoint: options.Checkpoint = "nano",
    tasks: bench_options.Tasks = None,
    language: bench_options.Language = None,
    limit: bench_options.Limit = None,
    repeats: bench_options.Repeats = 3,
    one_by_one: bench_options.OneByOne = False,
    baseline: Baseline = None,
    acceptance_profile: bench_options.Profile = None,
    seed: bench_options.Seed = 0,
    exact_tokens: Annotated[
        int | None,
        typer.Option(min=2, help="With --acceptance-profile: decode so many tokens a piece, past stop tokens."),
    ] = None,
    costs: Annotated[bool, typer.Option(help="Measure what a forward costs by its rows.")] = True,
    threads: options.Threads = None,
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Compare decode modes on crops: seconds per token, TPF, identity with AR."""
    chosen = parse_modes(modes)
    engine = bench_options.load_engine(checkpoint, max_tokens, dtype, device, threads, one_by_one)
    found = bench_options.find_cases(engine, cases, tasks, language, limit)
    simulated = acceptance_profile is not None
    if exact_tokens is not None and not simulated:
        raise ConfigError("--exact-tokens goes with --acceptance-profile: what lies behind a stop token is no text")
    if simulated:
        engine = engine.with_config(exact_tokens=exact_tokens)
        used = sorted({case.task for case in found})
        readers = simulated_engines(engine, chosen, str(acceptance_profile), seed, used)
    else:
        readers = engines_of(engine, chosen)
    readers |= _baseline(baseline, engine, parts_decode=True)
    shapes = {mode.name: shape for mode in chosen if (shape := mode.shape(engine)) is not None}
    timer = _timer(engine, found) if costs else None
    with bench_options.progress("crops", len(found)) as tick:
        report = bench_decode(
            readers, found, repeats, tick, timer=timer, shapes=shapes, one_by_one=one_by_one, simulated=simulated
        )
    if simulated:
        report["profile"] = {"name": acceptance_profile, "seed": seed, "exact_tokens": exact_tokens}
    _finish(report, engine, as_json, one_by_one, baseline)


def region(
    cases: bench_options.Cases,
    modes: bench_options.Modes = "ar,self-spec",
    checkpoint: options.Checkpoint = "nano",
    tasks: bench_options.Tasks = None,
    language: bench_options.Language = None,
    limit: bench_options.Limit = None,
    repeats: bench_options.Repeats = 3,
    one_by_one: bench_options.OneByOne = False,
    baseline: Baseline = None,
    threads: options.Threads = None,
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Compare decode modes from a crop's pixels to its text: splitting, vision, prefill, decode, joining."""
    chosen = parse_modes(modes)
    engine = bench_options.load_engine(checkpoint, max_tokens, dtype, device, threads, one_by_one)
    found = bench_options.find_cases(engine, cases, tasks, language, limit)
    readers = engines_of(engine, chosen) | _baseline(baseline, engine, parts_decode=False)
    with bench_options.progress("crops", len(found)) as tick:
        report = bench_region(readers, found, repeats, tick)
    _finish(report, engine, as_json, one_by_one, baseline)


def draft_steps(
    cases: bench_options.Cases,
    steps: Annotated[str, typer.Option(help="Denoising steps of a draft, rising.")] = "1,2,3,4",
    mode: Annotated[str, typer.Option(help="The speculative mode that is varied.")] = "self-spec",
    checkpoint: options.Checkpoint = "nano",
    tasks: bench_options.Tasks = None,
    language: bench_options.Language = None,
    limit: bench_options.Limit = None,
    repeats: bench_options.Repeats = 3,
    one_by_one: bench_options.OneByOne = False,
    threads: options.Threads = None,
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Draft in more denoising steps: more drafts accepted a round, fewer tokens a forward."""
    values = bench_options.numbers("--steps", steps, 1, MAX_DRAFT_STEPS)
    varied = _varied(mode)
    engine = bench_options.load_engine(checkpoint, max_tokens, dtype, device, threads, one_by_one)
    found = bench_options.find_cases(engine, cases, tasks, language, limit)
    report = _vary("draft_steps", values, varied, engine, found, repeats)
    bench_options.finish(report, engine, as_json, show_settings, one_by_one)


def blocks(
    cases: bench_options.Cases,
    sizes: Annotated[str, typer.Option(help="Block sizes, rising.")] = "4,8,12,16,24,32",
    mode: Annotated[str, typer.Option(help="The speculative mode that is varied.")] = "self-spec",
    checkpoint: options.Checkpoint = "nano",
    tasks: bench_options.Tasks = None,
    language: bench_options.Language = None,
    limit: bench_options.Limit = None,
    repeats: bench_options.Repeats = 3,
    one_by_one: bench_options.OneByOne = False,
    threads: options.Threads = None,
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Compare block sizes: tokens per forward and milliseconds per token."""
    values = bench_options.numbers("--sizes", sizes, 1, MAX_BLOCK_SIZE)
    varied = _varied(mode)
    engine = bench_options.load_engine(checkpoint, max_tokens, dtype, device, threads, one_by_one)
    found = bench_options.find_cases(engine, cases, tasks, language, limit)
    report = _vary("block_size", values, varied, engine, found, repeats)
    bench_options.finish(report, engine, as_json, show_settings, one_by_one)


def _varied(name: str) -> Mode:
    """Read the mode whose setting is varied. *Raises*: ConfigError for one without drafts or with a block size."""
    mode = parse_mode(name)
    if not mode.is_speculative or mode.overrides.get("block_size"):
        raise ConfigError(f"--mode {name!r}: choose one that drafts, without a block size, such as self-spec or fused")
    return mode


def _vary(
    setting: str, values: list[int], mode: Mode, engine: Engine, found: list[Case], repeats: int
) -> dict[str, Any]:
    readers: dict[int, Recognizer] = {
        value: apart(engine, **{**mode.overrides, setting: value}) for value in values
    }  # fmt: skip
    with bench_options.progress("crops", len(found)) as tick:
        report = bench_settings(setting, engine.with_config(decode="ar"), readers, found, repeats, tick)
    report["mode"] = mode.name
    return report


def _baseline(name: str | None, engine: Engine, parts_decode: bool) -> dict[str, Recognizer]:
    if name is None:
        return {}
    if name not in BASELINES:
        raise ConfigError(f"--baseline {name!r} is unknown; choose {', '.join(BASELINES)}")
    return {name: StockTransformers(engine, parts_decode)}


def _timer(engine: Engine, found: list[Case]) -> ForwardTimer | None:
    """Return the timer over the first crop that can be opened; None where none can."""
    for case in found:
        try:
            return forward_timer(engine, case.crop())
        except InputError:  # the measurement itself lists it
            continue
    return None


def _finish(report: dict[str, Any], engine: Engine, as_json: bool, one_by_one: bool, baseline: str | None) -> None:
    if baseline is not None:
        report["baseline"] = BASELINE_BOUNDARY
    bench_options.finish(report, engine, as_json, show_crops, one_by_one)
