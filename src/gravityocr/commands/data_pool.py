"""`gravityocr data pool`: region files into a pool to train on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gravityocr.commands.options import Json, console
from gravityocr.config import load_config
from gravityocr.errors import InputError
from gravityocr.training.corpora.mixture import MissingTasksError
from gravityocr.training.corpora.pool import PoolConfig, build_pool
from gravityocr.training.corpora.pool_folder import REPORT


def pool(
    inputs: Annotated[list[Path], typer.Argument(help="Region files, or folders of them.")],
    out: Annotated[Path, typer.Option(help="Folder of the pool; a run that was killed goes on.")],
    config: Annotated[Path | None, typer.Option(help="TOML file; default: the paper's 60/20/20 mixture.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value, repeatable.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="'nano' or a folder: leave out what its tokenizer cannot write; default: none.")
    ] = None,
    processes: Annotated[int, typer.Option(help="Files and buckets worked on at a time.", min=1, max=256)] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Make a pool that is there anew.")] = False,
    as_json: Json = False,
) -> None:
    """Filter regions, hold documents out, subsample to the mixture, shuffle, and write the pool and its pool.json."""
    settings = load_config(PoolConfig, config, set_ or [])
    if checkpoint is not None:
        settings = replace(settings, checkpoint=checkpoint)

    def say(line: str) -> None:
        console.print(line, markup=False)

    try:
        report = build_pool(inputs, out, settings, processes=processes, overwrite=overwrite, say=say)
    except MissingTasksError as error:
        options = {"--config": config, "--checkpoint": checkpoint, "--processes": None if processes == 1 else processes}
        typed = [word for name, value in options.items() if value is not None for word in (name, str(value))]
        typed += ["--overwrite"] if overwrite else []
        line = _command(inputs, out, typed, [*(set_ or []), *error.settings])
        raise InputError(f"{error}, which is: {line}" if error.settings else str(error)) from error
    typer.echo(json.dumps(report, indent=1, ensure_ascii=False) if as_json else _as_text(report, out / REPORT))


def _command(inputs: Sequence[Path], out: Path, options: Sequence[str], settings: Sequence[str]) -> str:
    """Return the command line as it was typed, with some settings."""
    words = ["gravityocr", "data", "pool", *map(str, inputs), "--out", str(out), *options]
    return shlex.join([*words, *(word for setting in settings for word in ("--set", setting))])


def _as_text(report: dict[str, Any], file: Path) -> str:
    lines = [f"{stage:14} {n}" for stage, n in report["stages"].items()]
    lines += [f"  {reason:18} {n}" for reason, n in report["removed_by_reason"].items()]
    for task, tally in report["mixture"].items():
        shares = f"{100 * tally['share']:.1f} % (wanted {100 * tally['wanted']:.1f} %)"
        lines.append(f"{task:14} {tally['taken']} of {tally['available']}, {shares}")
    for name, split in report["splits"].items():
        figures = f"{split['n_regions']} regions, {split['n_documents']} documents, {split['n_pages']} pages"
        lines.append(f"{name:14} {figures}, {split['n_bytes'] / 1e6:.1f} MB, order {split['order']}")
    return "\n".join([*lines, f"report: {file}"])
