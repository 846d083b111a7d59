"""`gravityocr bench`: measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from gravityocr.benchmark.cases import load_cases
from gravityocr.benchmark.speed import bench_decode
from gravityocr.commands import options
from gravityocr.commands.options import console
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="Measure speed and identity.")


@app.callback()
def root() -> None:
    """Measure speed and identity."""


@app.command("decode")
def decode(
    cases: Annotated[Path, typer.Option(help="A folder with manifest.json and crops.")],
    modes: Annotated[
        str, typer.Option(help="Modes, comma-separated; self-spec+head:8 sets the draft head and a block size.")
    ] = "ar,self-spec",
    checkpoint: options.Checkpoint = "nano",
    tasks: Annotated[str | None, typer.Option(help="text,table,formula; default: what it claims.")] = None,
    language: Annotated[str | None, typer.Option(help="Only crops in this language, such as english.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first crops.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Passes over every crop.")] = 3,
    threads: options.Threads = None,
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Compare decode modes on crops: seconds per token, TPF, identity with AR."""
    engine = Engine.from_pretrained(checkpoint, EngineConfig(max_tokens=max_tokens), dtype, device, threads)
    chosen = tuple(tasks.split(",")) if tasks else tuple(sorted(engine.tasks))
    unclaimed = sorted(set(chosen) - engine.tasks)
    if unclaimed:
        claimed = ", ".join(sorted(engine.tasks))
        raise ConfigError(f"--tasks {', '.join(unclaimed)}: {checkpoint} reads {claimed}")
    found = load_cases(cases, chosen, limit, language)
    recognizers = {name: _engine_of(engine, name) for name in modes.split(",")}
    with Progress(console=console) as progress:
        bar = progress.add_task("crops", total=len(found))
        report = bench_decode(recognizers, found, repeats, lambda _number: progress.advance(bar))
    report["machine"] |= {"threads": torch.get_num_threads(), "torch": torch.__version__}
    report["machine"] |= {"dtype": dtype, "device": device}
    if as_json:
        typer.echo(json.dumps(report))
    else:
        _print(report)
    for failure in report["failed"]:
        console.print(f"failed: {failure['error']}", style="red", markup=False)
    if report["failed"]:
        raise typer.Exit(1)


def _print(report: dict[str, Any]) -> None:
    console.print(report["boundary"])
    kinds = [(f"kind: {kind}", part) for kind, part in report["by_kind"].items()]
    lengths = [(f"{length} tokens", part) for length, part in report["by_length"].items()]
    for title, part in [("all crops", report["modes"]), *kinds, *lengths]:
        Console(highlight=False).print(_table(title, part))


def _engine_of(engine: Engine, name: str) -> Engine:
    """Return the engine of one mode; without `+head` drafts are the paper's own, whatever the checkpoint prefers."""
    mode, _, size = name.partition(":")
    mode, plus, head = mode.partition("+")
    if plus and (head != "head" or mode != "self-spec"):
        raise ConfigError(f"--modes {name!r}: only self-spec+head has something behind a plus sign")
    if size and mode == "ar":
        raise ConfigError(f"--modes {name!r}: AR has no block size")
    if size and not (size.isdecimal() and len(size) < 10):
        raise ConfigError(f"--modes {name!r}: the block size behind the colon must be a number")
    return engine.with_decode(options.decode_mode(mode), int(size) if size else None, draft_head=bool(plus))


def _table(title: str, part: dict[str, Any]) -> Table:
    table = Table("mode", "ms / token", "tokens / s", "x AR", "TPF", "accepted / round", "identical", title=title)
    ar = part.get("ar", {}).get("s_per_token")
    for name, row in part.items():
        ratio = f"{ar / row['s_per_token']:.2f}" if ar and row["s_per_token"] else "-"
        same = "-" if row["identical_to_ar"] is None else f"{100 * row['identical_to_ar']:.1f} %"
        table.add_row(
            name, f"{1000 * row['s_per_token']:.3f}", f"{row['tok_per_s']:.0f}", ratio, f"{row['tpf']:.2f}",
            f"{row['n_accepted']:.2f}", same,
        )  # fmt: skip
    return table
