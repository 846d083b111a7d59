"""What the commands of `gravityocr bench` share: options, the engine, the cases and how a report leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from gravityocr.benchmark.cases import Case, load_cases
from gravityocr.benchmark.protocol import PROTOCOLS, machine
from gravityocr.commands.bench_modes import MODES_HELP
from gravityocr.commands.options import console
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.errors import ConfigError

Cases = Annotated[Path, typer.Option(help="A folder with manifest.json and crops.")]
Pages = Annotated[Path, typer.Option("--cases", help="A folder of page images and PDFs, or one file.")]
Modes = Annotated[str, typer.Option(help=MODES_HELP)]
Tasks = Annotated[str | None, typer.Option(help="text,table,formula; default: what it claims.")]
Language = Annotated[str | None, typer.Option(help="Only crops in this language, such as english.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first crops, or the first files.")]
Repeats = Annotated[int, typer.Option(min=1, help="Measured passes, the modes taking turns; a warm-up comes first.")]
OneByOne = Annotated[
    bool,
    typer.Option(
        "--one-by-one/--together", help="One sequence at a time, as the paper's batch 1, or a crop's pieces together."
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--acceptance-profile", help="SIMULATED: drafts accepted as the paper's ('paper') or a file's histogram says."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the acceptance profile.")]
Layout = Annotated[str, typer.Option(help="auto, cdla or none.")]


def load_engine(
    checkpoint: str, max_tokens: int, dtype: str, device: str, threads: int | None, one_by_one: bool = False
) -> Engine:
    """Load the engine that all modes share."""
    engine = Engine.from_pretrained(checkpoint, EngineConfig(max_tokens=max_tokens), dtype, device, threads)
    return engine.with_config(max_running=1) if one_by_one else engine


def find_cases(engine: Engine, folder: Path, tasks: str | None, language: str | None, limit: int | None) -> list[Case]:
    """Read the cases that the checkpoint claims, or the chosen ones.

    *Raises*: ConfigError for a chosen task that it does not claim.
    """
    chosen = tuple(name.strip() for name in tasks.split(",")) if tasks else tuple(sorted(engine.tasks))
    unclaimed = sorted(set(chosen) - engine.tasks)
    if unclaimed:
        claimed = ", ".join(sorted(engine.tasks))
        raise ConfigError(f"--tasks {', '.join(unclaimed)}: {engine.checkpoint.path.name} reads {claimed}")
    return load_cases(folder, chosen, limit, language)


def numbers(option: str, text: str, least: int, most: int) -> list[int]:
    """Read a comma-separated list of rising numbers.

    *Raises*: ConfigError for anything else.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise ConfigError(f"{option} {text!r}: write numbers, such as 1,4,16")
    found = [int(part) for part in parts]
    if found != sorted(set(found)) or not least <= found[0] <= found[-1] <= most:
        raise ConfigError(f"{option} {text!r}: the numbers must rise within {least} to {most}, each once")
    return found


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr and give what moves it on."""
    with Progress(console=console) as bars:
        bar = bars.add_task(what, total=total)
        yield lambda _number: bars.advance(bar)


def finish(
    report: dict[str, Any],
    engine: Engine,
    as_json: bool,
    show: Callable[[dict[str, Any]], None],
    one_by_one: bool | None = None,
) -> None:
    """Add what the figures depend on, print the report and end with 1 where an input failed.

    `one_by_one` is None where a measurement has a protocol of its own.
    """
    if one_by_one is not None:
        report["protocol"] = "one-by-one" if one_by_one else "together"
        report["boundary"] += f"; {PROTOCOLS[report['protocol']]}"
    report["checkpoint"] = engine.checkpoint.path.name
    report["machine"] = machine(dtype_of(engine), str(engine.checkpoint.model.device))
    if as_json:
        typer.echo(json.dumps(report))
    else:
        show(report)
    for failure in report["failed"]:
        console.print(f"failed: {failure['error']}", style="red", markup=False)
    if report["failed"]:
        raise typer.Exit(1)


def dtype_of(engine: Engine) -> str:
    """Return the type that an engine computes in, `auto` resolved."""
    if engine.precision.guarded:
        return "bfloat16"
    return "float32" if engine.networks.read is engine.networks.exact else "mixed"
