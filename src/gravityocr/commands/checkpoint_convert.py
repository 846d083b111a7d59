"""`gravityocr checkpoint convert`: a GLM-OCR checkpoint becomes one that drafts."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast

import typer

from gravityocr.commands.options import Json, console
from gravityocr.model.checkpoint import MASK_TOKEN
from gravityocr.model.conversion import ConversionConfig, ConversionReport, convert_checkpoint
from gravityocr.model.hub import HUB_ID, checkpoint_source
from gravityocr.model.mask_row import Statistics


def convert(
    source: Annotated[str, typer.Argument(help="A GLM-OCR folder, or a hub id such as zai-org/GLM-OCR.")],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    block_size: Annotated[int, typer.Option(help="Tokens drafted at once, unless a request says otherwise.")] = 32,
    seed: Annotated[int, typer.Option(help="Of the mask token's embedding.")] = 0,
    statistics: Annotated[
        str, typer.Option(help="Of the existing embeddings, to draw from: covariance or std (each dimension apart).")
    ] = "covariance",
    mask_token: Annotated[str, typer.Option(help="The mask token's text.")] = MASK_TOKEN,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Draw the rows of a mask token that the tokenizer has already, too.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Take the place of an earlier checkpoint.")] = False,
    json_: Json = False,
) -> None:
    """Add the mask token to a GLM-OCR checkpoint and write block_diffusion.json; nothing else of it changes."""
    folder = checkpoint_source(source)
    base = source if HUB_ID.fullmatch(source) and not Path(source).is_dir() else None
    config = ConversionConfig(block_size, seed, cast(Statistics, statistics), mask_token, redraw, base)
    report = convert_checkpoint(folder, out, config, overwrite)
    tell(report)
    typer.echo(json.dumps(asdict(report), indent=2) if json_ else report.path)


def tell(report: ConversionReport) -> None:
    """Say on stderr what a conversion did."""
    where = {
        "existing token": "the tokenizer has it already",
        "spare row": f"a spare row of the {report.vocab_size}",
        "new row": f"one row more, {report.vocab_size} in all",
    }[report.origin]
    rows = "its rows stay as they are" if report.rows == "kept" else f"its embedding is drawn ({report.statistics})"
    console.print(f"mask token {report.mask_token} = {report.mask_id}: {where}; {rows}", markup=False)
    if report.dropped_layers:
        layers = ", ".join(map(str, report.dropped_layers))
        size = report.n_dropped_bytes / 1e6
        what = f"{report.n_dropped_tensors} tensors, {size:.1f} MB, of the multi-token-prediction layer {layers}"
        console.print(f"left behind: {what}; drafts do not use it", markup=False)
    console.print(f"wrote {report.n_bytes / 1e6:.1f} MB of weights in {len(report.weight_files)} file(s)", markup=False)
