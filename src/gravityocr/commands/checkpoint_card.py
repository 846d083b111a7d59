"""`gravityocr checkpoint card` and `push`: what a checkpoint says of itself, and its way to a hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gravityocr.commands.checkpoint_verify import failed, lines
from gravityocr.commands.options import Json, console
from gravityocr.errors import CheckpointError
from gravityocr.model.checkpoint_files import settings_files
from gravityocr.model.draft_head import DRAFT_HEAD_FILE
from gravityocr.model.hub import check_hub_id, upload_checkpoint
from gravityocr.model.weights import weight_files
from gravityocr.training.card import CARD_FILE, write_card
from gravityocr.training.card_figures import card_has_figures
from gravityocr.training.run_log import LOG_FILE
from gravityocr.training.run_record import CONFIG_FILE
from gravityocr.training.verification import verify_checkpoint

Folder = Annotated[Path, typer.Argument(help="The checkpoint's folder.")]


def card(
    checkpoint: Folder,
    run: Annotated[
        Path | None, typer.Option(help="The training run's folder; default: the checkpoint's parent, if it is one.")
    ] = None,
    figures: Annotated[Path | None, typer.Option(help="JSON object of further figures that were measured.")] = None,
    license_: Annotated[
        str | None,
        typer.Option("--license", help="The hub's name of the weights' licence; default: the base's, if it is nano."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Default: the folder's name.")] = None,
) -> None:
    """Write README.md: what the checkpoint was trained on, its recipe, and the figures that its run measured."""
    parent = checkpoint.resolve().parent
    if run is None and all((parent / name).is_file() for name in (CONFIG_FILE, LOG_FILE)):
        run = parent
        console.print(f"reading the run in {parent}", markup=False)
    file = write_card(checkpoint, run, figures, license_, title)
    if not card_has_figures(file.read_text(encoding="utf-8")):
        console.print(
            "the card states no figures: name the run's folder (--run), or a file (--figures)", style="yellow"
        )
    typer.echo(file)


def push(
    checkpoint: Folder,
    repo_id: Annotated[str, typer.Argument(help="owner/name on the hub.")],
    private: Annotated[bool, typer.Option("--private", help="Make the repository private.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be uploaded, and stop.")] = False,
    json_: Json = False,
) -> None:
    """Verify a checkpoint and upload it with its card; the token is that of `hf auth login`, or of HF_TOKEN."""
    check_hub_id(repo_id)
    sizes = {file.name: file.stat().st_size for file in upload_files(checkpoint)}
    check_publishable(checkpoint)
    url = None if dry_run else upload_checkpoint(checkpoint, repo_id, list(sizes), private)
    if json_:
        typer.echo(json.dumps({"repo_id": repo_id, "files": sizes, "url": url}, indent=2))
        return
    for name, size in sizes.items():
        typer.echo(f"{size:14,}  {name}")
    if url is not None:
        typer.echo(url)


def upload_files(checkpoint: Path) -> list[Path]:
    """List the files that belong to a checkpoint: settings, weights, card; nothing else that lies there."""
    if not checkpoint.is_dir():
        raise CheckpointError(f"no checkpoint folder at {str(checkpoint)!r}")
    names = (CARD_FILE, "block_diffusion.json", "model.safetensors.index.json", DRAFT_HEAD_FILE)
    named = [checkpoint / name for name in names if (checkpoint / name).is_file()]
    return sorted({*settings_files(checkpoint), *weight_files(checkpoint), *named})


def check_publishable(checkpoint: Path) -> None:
    """Refuse a checkpoint that does not hold together, or whose card says nothing of how it fares.

    *Raises*: CheckpointError naming the checks that failed, or the missing card.
    """
    card_file = checkpoint / CARD_FILE
    if not card_file.is_file() or not card_has_figures(card_file.read_text(encoding="utf-8", errors="replace")):
        what = "states no figures" if card_file.is_file() else "is missing"
        raise CheckpointError(f"{card_file} {what}; write it with gravityocr checkpoint card, from a run or --figures")
    checks = verify_checkpoint(checkpoint)
    wrong = failed(checks)
    if wrong:
        for line in lines(checks):
            console.print(line, markup=False)
        names = ", ".join(check.name for check in wrong)
        raise CheckpointError(f"{checkpoint} is not uploaded: {names} failed; see gravityocr checkpoint verify")
