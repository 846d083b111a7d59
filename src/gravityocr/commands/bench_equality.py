"""`gravityocr bench equality`: are the outputs those of AR, and where not, who is right?"""

from __future__ import annotations

from gravityocr.benchmark.equality import Judges, bench_equality
from gravityocr.commands import bench_options, options
from gravityocr.commands.bench_modes import engines_of, parse_modes
from gravityocr.commands.bench_network import judge
from gravityocr.commands.bench_print import show_equality
from gravityocr.decoding.prompts import Networks
from gravityocr.engine.engine import Engine


def equality(
    cases: bench_options.Cases,
    modes: bench_options.Modes = "ar,self-spec,fused",
    checkpoint: options.Checkpoint = "nano",
    tasks: bench_options.Tasks = None,
    language: bench_options.Language = None,
    limit: bench_options.Limit = None,
    repeats: bench_options.Repeats = 1,
    one_by_one: bench_options.OneByOne = False,
    threads: options.Threads = None,
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Compare ids and strings of every mode with AR, and ask fp32 where they part."""
    chosen = parse_modes(modes)
    engine = bench_options.load_engine(checkpoint, max_tokens, dtype, device, threads, one_by_one)
    found = bench_options.find_cases(engine, cases, tasks, language, limit)
    unguarded = engine.with_config(guard_margin=0.0) if engine.precision.guarded else None
    with bench_options.progress("crops", len(found)) as tick:
        report = bench_equality(
            engines_of(engine, chosen), found, _judges(engine), repeats, tick,
            unguarded=engines_of(unguarded, chosen) if unguarded else None,
        )  # fmt: skip
    report["guard_margin"] = engine.config.guard_margin if unguarded else None
    bench_options.finish(report, engine, as_json, show_equality, one_by_one)


def _judges(engine: Engine) -> Judges:
    """Return a judge in the engine's own type and one in fp32, over the same weights."""
    checkpoint, most = engine.checkpoint, engine.config.max_tokens
    exact = Networks.all_of(engine.networks.exact)
    return Judges(judge(checkpoint, engine.networks, most), judge(checkpoint, exact, most))
