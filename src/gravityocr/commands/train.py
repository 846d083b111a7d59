"""`gravityocr train`: joint training from a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gravityocr.commands.options import console
from gravityocr.config import dump_config, load_config
from gravityocr.model.draft_head import DRAFT_HEAD_FILE
from gravityocr.training.draft_head import train_draft_head
from gravityocr.training.launch import changed_settings, run_training
from gravityocr.training.run_config import TrainConfig


def train(
    config: Annotated[Path, typer.Argument(help="TOML file; see configs/nano.toml.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value, repeatable.")] = None,
    draft_head: Annotated[
        Path | None, typer.Option(help="Train only the sequential draft head of this checkpoint folder.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the resolved config and stop.")] = False,
) -> None:
    """Train, or go on where the run's folder stopped; the log is log.jsonl in that folder."""
    resolved = load_config(TrainConfig, config, set_ or [])
    if dry_run:
        typer.echo(dump_config(resolved), nl=False)
        return
    if draft_head is not None:
        console.print(f"training the draft head of {draft_head}, whose network stays as it is", markup=False)
        train_draft_head(resolved, draft_head)
        typer.echo(draft_head / DRAFT_HEAD_FILE)
        return
    console.print(f"training into {resolved.run.folder}, log.jsonl there has all figures", markup=False)
    changes = changed_settings(resolved)
    if changes:
        console.print("this run goes on with other settings than before:", style="yellow")
        for change in changes:
            console.print(f"  {change}", markup=False)
    typer.echo(run_training(resolved))
