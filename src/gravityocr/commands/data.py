"""`gravityocr data`: make training samples and look at them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from gravityocr.commands.options import Json, console
from gravityocr.errors import InputError
from gravityocr.training.synthetic.fonts import Split
from gravityocr.training.synthetic.stats import draw_sheet, shard_stats
from gravityocr.training.synthetic.synth import SYNTH_KINDS, SynthConfig, SynthKind, synthesize

MOST_ON_SHEET = 1000

app = typer.Typer(no_args_is_help=True, help="Make training samples and look at them.")


@app.callback()
def root() -> None:
    """Make training samples and look at them."""


@app.command("synth")
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


@app.command("stats")
def stats(
    folders: Annotated[list[Path], typer.Argument(help="Folders with shards.")],
    sheet: Annotated[Path | None, typer.Option(help="PNG file for a sheet of samples with their targets.")] = None,
    sheet_samples: Annotated[int, typer.Option(help="Samples on the sheet.", min=1, max=MOST_ON_SHEET)] = 40,
    seed: Annotated[int, typer.Option(help="Which samples the sheet shows.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Count what shards hold, and draw a sheet of samples."""
    if sheet is not None:
        try:
            draw_sheet(folders, sheet_samples, seed).save(sheet, format="PNG")
        except OSError as error:
            raise InputError(f"{sheet} cannot be written ({error}); choose another --sheet") from error
    report = shard_stats(folders)
    typer.echo(json.dumps(report, indent=1, ensure_ascii=False) if as_json else _as_text(report))


def _as_text(report: dict[str, Any]) -> str:
    lines = [f"{report['n_shards']} shards, {report['n_bytes'] / 1e6:.1f} MB"]
    for task, tally in report["tasks"].items():
        placed = f"{100 * tally['share_of_tokens_with_place']:.1f} % of them with a place"
        lines.append(f"{task}: {tally['n_samples']} samples, {tally['n_tokens']} tokens, {placed}")
        for name in ("tokens", "width_px", "height_px", "tokens_per_cell"):
            figures = "  ".join(f"{key} {value:g}" for key, value in tally[name].items())
            lines.append(f"  {name:16} {figures}")
        lines += [f"  {count:7} {source}" for source, count in tally["sources"].items()]
    unknown = report["unknown_tokens"]
    lines.append(f"unknown tokens: {', '.join(f'{token!r} {count}' for token, count in unknown.items()) or 'none'}")
    lines.append(f"unused commands: {' '.join(report['unused_commands']) or 'none'}")
    return "\n".join(lines)
