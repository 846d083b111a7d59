"""`gravityocr train`: joint training from a TOML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gravityocr.commands.options import Json, console
from gravityocr.config import load_config
from gravityocr.model.draft_head import DRAFT_HEAD_FILE
from gravityocr.training.draft_head import train_draft_head
from gravityocr.training.launch import run_training
from gravityocr.training.run_config import TrainConfig


def train(
    config: Annotated[Path, typer.Argument(help="TOML file; see recipes/.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value, repeatable.")] = None,
    draft_head: Annotated[
        Path | None, typer.Option(help="Train only the sequential draft head of this checkpoint folder.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print settings, tokens, memory and what is missing; train nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train, or go on where the run's folder stopped; the log is log.jsonl in that folder."""
    resolved = load_config(TrainConfig, config, set_ or [])
    if dry_run:
        from gravityocr.commands.dry_run import plan_of
        from gravityocr.commands.dry_run_text import plan_text

        plan = plan_of(resolved, config)
        typer.echo(json.dumps(plan, indent=1) if as_json else plan_text(plan))
        return
    if draft_head is not None:
        console.print(f"training the draft head of {draft_head}, whose network stays as it is", markup=False)
        record = {**train_draft_head(resolved, draft_head), "checkpoint": str(draft_head)}
        typer.echo(json.dumps(record) if as_json else draft_head / DRAFT_HEAD_FILE)
        return
    console.print(f"training into {resolved.train.folder}, log.jsonl there has all figures", markup=False)
    figures = run_training(resolved)
    if figures is None:
        return
    typer.echo(json.dumps(figures) if as_json else figures["checkpoint"])
