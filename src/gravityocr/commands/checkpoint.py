"""`gravityocr checkpoint`: what a checkpoint is."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from gravityocr.model.checkpoint import dump_block_diffusion, load_checkpoint

app = typer.Typer(no_args_is_help=True, help="Look at checkpoints.")


@app.callback()
def root() -> None:
    """Look at checkpoints."""


@app.command("info")
def info(name: Annotated[str, typer.Argument(help="'nano' or a checkpoint folder.")] = "nano") -> None:
    """Load a checkpoint, check it, and print what it holds as JSON."""
    loaded = load_checkpoint(name)
    head = loaded.draft_head
    report = {
        "path": str(loaded.path),
        "n_parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
        "n_draft_head_parameters": sum(p.numel() for p in head.parameters()) if head is not None else None,
        "stop_ids": sorted(loaded.stop_ids),
        "block_diffusion": dump_block_diffusion(loaded.diffusion),
        "network": asdict(loaded.model.config),
        "image": asdict(loaded.prompts.spec),
    }
    typer.echo(json.dumps(report, indent=2))
