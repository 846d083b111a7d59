"""`gravityocr recognize`: crops to text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from PIL import Image
from rich.table import Table

from gravityocr.commands import options
from gravityocr.commands.options import console
from gravityocr.decoding import Sampling, trace_html
from gravityocr.document import Crop, Recognition, Task
from gravityocr.engine.engine import CropRun, Engine, EngineConfig, Windows
from gravityocr.errors import ConfigError, InputError
from gravityocr.model.prompt import TASK_PROMPTS
from gravityocr.pipeline.source import count_pages, iter_pages


def recognize(
    files: Annotated[list[Path], typer.Argument(help="Crop images.")],
    task: Annotated[str, typer.Option(help="text, table or formula.")] = "text",
    decode: options.Decode = "self-spec",
    checkpoint: options.Checkpoint = "nano",
    block_size: options.BlockSize = None,
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    threads: options.Threads = None,
    draft_head: options.DraftHead = None,
    windows: options.Windows = "adaptive",
    candidates: options.Candidates = None,
    temperature: options.Temperature = 0.0,
    top_p: options.TopP = 1.0,
    repetition_penalty: options.RepetitionPenalty = 1.0,
    seed: options.Seed = 0,
    stop: options.Stop = None,
    trace: Annotated[Path | None, typer.Option(help="Write the rounds of the first read file as HTML.")] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print tokens, forwards and seconds on stderr.")] = False,
    as_json: options.Json = False,
) -> None:
    """Read crops of regions (not whole pages) and print their text."""
    if task not in TASK_PROMPTS:
        raise ConfigError(f"--task {task!r} is unknown; choose one of {', '.join(TASK_PROMPTS)}")
    head = options.draft_head(draft_head)
    mode = options.decode_mode(decode)
    sampling = Sampling(temperature, top_p, repetition_penalty, seed)
    if mode == "diffusion" and (not sampling.is_plain or stop):
        raise ConfigError("--decode diffusion knows neither sampling nor --stop; use --decode self-spec or ar")
    if mode != "self-spec" and candidates is not None:
        raise ConfigError(f"--candidates {candidates} goes with --decode self-spec only; leave one of them out")
    config = EngineConfig(
        mode, block_size, max_tokens, trace=trace is not None, draft_head=head, windows=cast(Windows, windows),
        n_candidates=candidates, sampling=sampling, stop_strings=tuple(stop or ()),
    )  # fmt: skip
    if trace and config.decode != "self-spec":
        raise ConfigError("--trace shows the rounds of self-speculation; use it with --decode self-spec")
    if trace:
        _check_trace(trace)
    engine = Engine.from_pretrained(checkpoint, config, dtype, device, threads)
    results, runs = _read(engine, files, cast(Task, task))
    if stats:
        _print_stats(files, results)
    if as_json:
        rows = [_row(file, result) for file, result in zip(files, results, strict=True)]
        typer.echo(json.dumps(rows, ensure_ascii=False))
    else:
        for file, result in zip(files, results, strict=True):
            if len(files) > 1:
                typer.echo(f"==> {file} <==")
            typer.echo(result.text)
    for file, result in zip(files, results, strict=True):
        if result.status != "ok":
            named = str(result.error).startswith(str(file))
            where = "" if named else f"{file}: "
            console.print(f"{where}{result.status}: {result.error}", style="red", markup=False)
    if trace:  # after the texts, which a full disk must not cost
        _write_trace(engine, files, runs, trace)
    if any(result.status != "ok" for result in results):
        raise typer.Exit(1)


def open_crop(file: Path) -> Image.Image:
    """Open one crop image upright in RGB.

    *Raises*: InputError where the file is no image.
    """
    n_pages = count_pages(file)
    if n_pages > 1:
        raise InputError(f"{file}: has {n_pages} pages, so it is no crop; use gravityocr parse")
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
        "n_hits": result.n_hits,
        "n_guarded": result.n_guarded,
        "n_pieces": len(result.ids),
        "tpf": round(result.tpf, 4) if result.n_forwards else None,
        "seconds": {stage: round(value, 5) for stage, value in result.seconds.items()},
    }


def _print_stats(files: list[Path], results: list[Recognition]) -> None:
    counts = ("pieces", "tokens", "decoded", "forwards", "TPF", "accepted / round")
    table = Table("file", *counts, "vision s", "prefill s", "decode s")
    for file, result in zip(files, results, strict=True):
        tpf = f"{result.tpf:.2f}" if result.n_forwards else "-"
        accepted = f"{result.n_accepted / result.n_rounds:.2f}" if result.n_rounds else "-"
        seconds = [f"{result.seconds.get(stage, 0.0):.3f}" for stage in ("vision", "prefill", "decode")]
        numbers = (len(result.ids), result.n_tokens, result.n_decoded, result.n_forwards)
        table.add_row(file.name, *map(str, numbers), tpf, accepted, *seconds)
    console.print(table)
    console.print("decoded = tokens without each piece's first, which the prefill yields; TPF = decoded / forwards")


def _check_trace(path: Path) -> None:
    try:
        fits = path.parent.is_dir() and not path.is_dir()
    except OSError as error:
        raise ConfigError(f"--trace {path}: {error.strerror}; choose another name") from error
    if not fits:
        raise ConfigError(f"--trace {path}: name a file in a folder that exists")


def _write_trace(engine: Engine, files: list[Path], runs: list[CropRun | Recognition], path: Path) -> None:
    """Write the trace of the first file that was read."""
    read = [(file, run) for file, run in zip(files, runs, strict=True) if isinstance(run, CropRun)]
    if not read:
        console.print(f"--trace {path}: not written, since no file was read", style="red", markup=False)
        return
    file, run = read[0]
    if file != files[0]:
        console.print(f"--trace {path}: shows {file}, the first file that was read", markup=False)
    tokenizer = engine.checkpoint.tokenizer
    page = trace_html(run.sequences, lambda token: tokenizer.decode([token], skip_special_tokens=False))
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--trace {path}: cannot be written ({error.strerror}); choose another place") from error
