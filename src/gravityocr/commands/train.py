"""`gravityocr train`: joint training from a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gravityocr.config import dump_config, load_config
from gravityocr.training.launch import run_training
from gravityocr.training.trainer import TrainConfig

console = Console(stderr=True, highlight=False)


def train(
    config: Annotated[Path, typer.Argument(help="TOML file; see configs/nano.toml.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value, repeatable.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the resolved config and stop.")] = False,
) -> None:
    """Train, or go on where the run's folder stopped; the log is log.jsonl in that folder."""
    resolved = load_config(TrainConfig, config, set_ or [])
    if dry_run:
        typer.echo(dump_config(resolved), nl=False)
        return
    console.print(f"training into {resolved.run.folder}; follow it in log.jsonl there", markup=False)
    typer.echo(run_training(resolved))
