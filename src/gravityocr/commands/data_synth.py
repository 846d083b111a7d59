"""`gravityocr data synth`: rendered training samples with exact places of all tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from gravityocr.commands.options import console
from gravityocr.training.synthetic.fonts import Split
from gravityocr.training.synthetic.synth import SYNTH_KINDS, SynthConfig, SynthKind, synthesize


def synth(
    kind: Annotated[str, typer.Option(help=f"{', '.join(SYNTH_KINDS)}.")],
    data: Annotated[Path, typer.Option(help="Folder that scripts/prepare_data.py filled.")],
    out: Annotated[Path, typer.Option(help="Folder for the shards; those that are there already are kept.")],
    n: Annotated[int, typer.Option(help="Samples; of tables: whole tables, which give several pieces each.")],
    seed: Annotated[int, typer.Option(help="The same seed makes the same samples.")] = 0,
    split: Annotated[str, typer.Option(help="train or heldout.")] = "train",
    processes: Annotated[int, typer.Option(help="Shards made at a time.")] = 1,
    shard_size: Annotated[int, typer.Option(help="Samples a shard.")] = 1500,
) -> None:
    """Render training samples with exact places of all tokens into shards."""
    config = SynthConfig(cast(SynthKind, kind), n, seed, cast(Split, split), shard_size)
    n_made = n_kept = n_samples = 0
    for file, size in synthesize(config, data, out, processes):
        n_kept += size is None
        n_made += size is not None
        n_samples += size or 0
        console.print(f"{file}: {'there already' if size is None else f'{size} samples'}", markup=False)
    typer.echo(f"{n_made} shards made with {n_samples} samples, {n_kept} were there already")
