"""`gravityocr recognize`: crops to text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from PIL import Image
from rich.console import Console
from rich.table import Table

from gravityocr.commands import options
from gravityocr.decoding import Decoded, trace_html
from gravityocr.document import Crop, Recognition, Task
from gravityocr.engine.engine import CropRun, Engine, EngineConfig
from gravityocr.errors import ConfigError, InputError
from gravityocr.model.prompt import TASK_PROMPTS
from gravityocr.pipeline.source import iter_pages

console = Console(stderr=True, highlight=False)


def recognize(
    files: Annotated[list[Path], typer.Argument(help="Crop images.")],
    task: Annotated[str, typer.Option(help="text, table or formula.")] = "text",
    decode: options.Decode = "self-spec",
    checkpoint: options.Checkpoint = "nano",
    block_size: options.BlockSize = None,
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "float32",
    device: options.Device = "cpu",
    threads: options.Threads = None,
    trace: Annotated[Path | None, typer.Option(help="Write the rounds of the first file as HTML.")] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print tokens, forwards and seconds on stderr.")] = False,
    as_json: options.Json = False,
) -> None:
    """Read crops of regions (not whole pages) and print their text."""
    if task not in TASK_PROMPTS:
        raise ConfigError(f"--task {task!r} is unknown; choose one of {', '.join(TASK_PROMPTS)}")
    config = EngineConfig(options.decode_mode(decode), block_size, max_tokens, trace=trace is not None)
    if trace and config.decode != "self-spec":
        raise ConfigError("--trace shows the rounds of self-speculation; use it with --decode self-spec")
    engine = Engine.from_pretrained(checkpoint, config, dtype, device, threads)
    results, runs = _read(engine, files, cast(Task, task))
    if trace:
        _write_trace(engine, runs[0], trace)
    if stats:
        _print_stats(files, results)
    if as_json:
        rows = [_row(file, result) for file, result in zip(files, results, strict=True)]
        typer.echo(json.dumps(rows, ensure_ascii=False))
    else:
        for result in results:
            typer.echo(result.text)
    for file, result in zip(files, results, strict=True):
        if result.status != "ok":
            console.print(f"{file}: {result.status}: {result.error}", style="red", markup=False)
    if any(result.status in ("failed", "skipped") for result in results):
        raise typer.Exit(1)


def open_crop(file: Path) -> Image.Image:
    """Open one crop image upright in RGB.

    *Raises*: InputError where the file is no image.
    """
    page = next(iter_pages(file))
    if page.image is None:
        raise InputError(f"{file}: {page.error}")
    return page.image


def _read(engine: Engine, files: list[Path], task: Task) -> tuple[list[Recognition], list[CropRun | Recognition]]:
    """Read all readable files in one call; an unreadable one becomes a failed recognition in its place."""
    runs: list[CropRun | Recognition] = []
    crops: list[Crop] = []
    for file in files:
        try:
            crops.append(Crop(open_crop(file), task))
            runs.append(CropRun())
        except InputError as error:
            runs.append(Recognition("", "failed", str(error)))
    answers = iter(engine.run(crops))
    runs = [next(answers) if isinstance(run, CropRun) else run for run in runs]
    return [engine.summarize(run) if isinstance(run, CropRun) else run for run in runs], runs


def _row(file: Path, result: Recognition) -> dict[str, Any]:
    return {
        "file": str(file),
        "text": result.text,
        "status": result.status,
        "error": result.error,
        "n_tokens": result.n_tokens,
        "n_forwards": result.n_forwards,
        "n_rounds": result.n_rounds,
        "n_accepted": result.n_accepted,
        "seconds": {stage: round(value, 5) for stage, value in result.seconds.items()},
    }


def _print_stats(files: list[Path], results: list[Recognition]) -> None:
    table = Table("file", "tokens", "forwards", "TPF", "accepted / round", "vision s", "prefill s", "decode s")
    for file, result in zip(files, results, strict=True):
        tpf = f"{result.tpf:.2f}" if result.n_forwards else "-"
        accepted = f"{result.n_accepted / result.n_rounds:.2f}" if result.n_rounds else "-"
        seconds = [f"{result.seconds.get(stage, 0.0):.3f}" for stage in ("vision", "prefill", "decode")]
        table.add_row(file.name, str(result.n_tokens), str(result.n_forwards), tpf, accepted, *seconds)
    console.print(table)


def _write_trace(engine: Engine, run: CropRun | Recognition, path: Path) -> None:
    if not isinstance(run, CropRun):
        raise InputError(f"--trace {path}: the first file was not read: {run.error}")
    ids = [token for sequence in run.sequences for token in sequence.ids]
    whole = Decoded(ids, "stop", sum(s.n_forwards for s in run.sequences), trace=run.trace)
    tokenizer = engine.checkpoint.tokenizer
    try:
        path.write_text(
            trace_html(whole, lambda token: tokenizer.decode([token], skip_special_tokens=False)), encoding="utf-8"
        )
    except OSError as error:
        raise InputError(f"--trace {path}: cannot be written ({error.strerror}); choose another place") from error
