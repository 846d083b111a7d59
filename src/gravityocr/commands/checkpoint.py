"""`gravityocr checkpoint`: what a checkpoint is, whether it holds together, where it comes from and goes to."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer

from gravityocr.commands.checkpoint_card import card, push
from gravityocr.commands.checkpoint_convert import convert
from gravityocr.commands.checkpoint_verify import verify
from gravityocr.model.checkpoint import Checkpoint, dump_block_diffusion, load_checkpoint
from gravityocr.model.weights import weight_files, weight_header
from gravityocr.training.optimizer import part_of

app = typer.Typer(no_args_is_help=True, help="Convert, check, describe and publish checkpoints.")
app.command("convert")(convert)
app.command("verify")(verify)
app.command("card")(card)
app.command("push")(push)


@app.callback()
def root() -> None:
    """Convert, check, describe and publish checkpoints."""


@app.command("info")
def info(name: Annotated[str, typer.Argument(help="'nano' or a checkpoint folder.")] = "nano") -> None:
    """Load a checkpoint, check it, and print what it holds as JSON."""
    loaded = load_checkpoint(name)
    head = loaded.draft_head
    mask_id = loaded.diffusion.mask_id
    report = {
        "path": str(loaded.path),
        "n_parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
        "n_parameters_by_part": n_parameters_by_part(loaded),
        "n_draft_head_parameters": sum(p.numel() for p in head.parameters()) if head is not None else None,
        "stored": stored_weights(loaded),
        "stop_ids": sorted(loaded.stop_ids),
        "mask_token": {"id": mask_id, "text": loaded.tokenizer.id_to_token(mask_id)},
        "n_tokens": loaded.tokenizer.get_vocab_size(),
        "block_diffusion": dump_block_diffusion(loaded.diffusion),
        "network": asdict(loaded.model.config),
        "image": asdict(loaded.prompts.spec),
    }
    typer.echo(json.dumps(report, indent=2))


def n_parameters_by_part(loaded: Checkpoint) -> dict[str, int]:
    """Count the parameters of the parts that training tells apart."""
    counts: Counter[str] = Counter()
    for name, parameter in loaded.model.named_parameters():
        counts[part_of(name)] += parameter.numel()
    return dict(counts)


def stored_weights(loaded: Checkpoint) -> dict[str, object]:
    """Return the types of the stored weights and the size of each file in bytes."""
    files = weight_files(loaded.path)
    types = {dtype for file in files for _, dtype in weight_header(file).values()}
    return {"dtypes": sorted(types), "n_bytes": {file.name: file.stat().st_size for file in files}}
