"""`gravityocr data stats`: what region files, pools and rendered shards hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer
from PIL import Image

from gravityocr.commands.options import Json, console
from gravityocr.config import load_config
from gravityocr.errors import ConfigError, InputError
from gravityocr.model.checkpoint import read_image_spec, read_tokenizer, resolve_checkpoint
from gravityocr.model.prompt import PromptBuilder
from gravityocr.training.corpora.region_plots import draw_plots, draw_regions, stacked
from gravityocr.training.corpora.region_shards import SUFFIX, region_files
from gravityocr.training.corpora.region_stats import StatsConfig, measure_regions, region_stats, stats_text
from gravityocr.training.synthetic.shards import SUFFIX as SHARD_SUFFIX
from gravityocr.training.synthetic.stats import draw_sheet, shard_stats

MOST_ON_SHEET = 1000
_ANY_ID = 2**31


@dataclass(frozen=True)
class _Choice:
    """What is counted, and with which checkpoint and limits."""

    folders: tuple[Path, ...]
    checkpoint: str
    config: StatsConfig


def stats(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders with region files or shards; default: the samples that come with the package."),
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option("--config", help="Training recipe: its base, blocks, limits, and pool where no folder is given."),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="'nano' (embedded) or a checkpoint folder; default: the recipe's base, or nano.")
    ] = None,
    block_size: Annotated[int | None, typer.Option(help="EOS tokens behind every response; default: 32.")] = None,
    row_tokens: Annotated[int | None, typer.Option(help="Forward tokens of a packed row; default: 10240.")] = None,
    response_cap: Annotated[
        int | None, typer.Option(help="Longest response that is trained on, its EOS tokens with it; default: 3072.")
    ] = None,
    plots: Annotated[Path | None, typer.Option(help="Folder for plots as PNG files.")] = None,
    sheet: Annotated[Path | None, typer.Option(help="PNG file for a sheet of samples with their targets.")] = None,
    sheet_samples: Annotated[int, typer.Option(help="Samples on the sheet.", min=1, max=MOST_ON_SHEET)] = 40,
    seed: Annotated[int, typer.Option(help="Which samples the sheet shows.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Count what region files and shards hold and what training on them costs; draw plots and a sheet of samples."""
    typed = {"n_eos": block_size, "row_tokens": row_tokens, "response_cap_tokens": response_cap}
    choice = _choice(recipe, folders or [], checkpoint, {name: n for name, n in typed.items() if n is not None})
    shards, regions = _sorted_out(choice.folders or [_samples()])
    if plots is not None and not regions:
        raise ConfigError("--plots draws region files; these folders hold only shards")
    if sheet is not None:
        _write_sheet(sheet, shards, regions, sheet_samples, seed)
    report: dict[str, Any] = shard_stats(shards) if shards else {}
    texts = [_as_text(report)] if shards else []
    if regions:
        config = choice.config
        figures = measure_regions(regions, _prompts(choice.checkpoint), config)
        report["regions"] = region_stats(figures, config) | {"checkpoint": choice.checkpoint}
        texts.append(stats_text(report["regions"]))
        for file in draw_plots(figures, config, plots) if plots is not None else []:
            console.print(file, markup=False)
    typer.echo(json.dumps(report, indent=1, ensure_ascii=False) if as_json else "\n".join(texts))


def _choice(recipe: Path | None, folders: Sequence[Path], checkpoint: str | None, typed: dict[str, int]) -> _Choice:
    """Return what was typed; what was not comes from the recipe, where there is one."""
    if recipe is None:
        return _Choice(tuple(folders), checkpoint or "nano", StatsConfig(**typed))
    # Statistics without a recipe do not wait for all of training.
    from gravityocr.training.pool_tokens import pool_folder
    from gravityocr.training.run_config import TrainConfig

    config = load_config(TrainConfig, recipe)
    noise, packing = config.noise, config.packing
    limits = {"row_tokens": packing.row_tokens, "response_cap_tokens": packing.response_cap_tokens}
    told = {"n_eos": noise.n_eos, "n_corrupt": noise.n_corrupt, **limits, **typed}
    pool = [pool_folder(config.data.pool)] if config.data.pool is not None and not folders else []
    return _Choice((*folders, *pool), checkpoint or config.train.base or "nano", StatsConfig(**told))


def _samples() -> Path:
    folder = Path(str(resources.files("gravityocr") / "samples" / "regions"))
    console.print(f"no folder is given: these are the samples that come with the package, {folder}", markup=False)
    return folder


def _sorted_out(folders: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return the folders with shards and the region files; a folder may hold both.

    *Raises*: InputError for one that holds neither.
    """
    shards, regions = [], []
    for folder in folders:
        has_shards = folder.name.endswith(SHARD_SUFFIX) or any(folder.rglob(f"*{SHARD_SUFFIX}"))
        has_regions = folder.is_file() and not has_shards
        if has_shards:
            shards.append(folder)
        if has_regions or any(folder.rglob(f"*{SUFFIX}")):
            regions += region_files(folder)
        elif not has_shards:
            kinds = f"no region file (*{SUFFIX}) and no shard (*{SHARD_SUFFIX})"
            raise InputError(f"{kinds} below {folder}; make some with gravityocr data convert or data synth")
    return shards, regions


def _prompts(checkpoint: str) -> PromptBuilder:
    folder = resolve_checkpoint(checkpoint)
    return PromptBuilder(read_tokenizer(folder, _ANY_ID), read_image_spec(folder))


def _write_sheet(file: Path, shards: Sequence[Path], regions: Sequence[Path], n: int, seed: int) -> None:
    pictures: list[Image.Image] = []
    if shards:
        pictures.append(draw_sheet(shards, n, seed))
    if regions:
        pictures.append(draw_regions(regions, n, seed))
    try:
        (pictures[0] if len(pictures) == 1 else stacked(pictures)).save(file, format="PNG")
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error}); choose another --sheet") from error


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
    lines.append("p0 p5 p25 p50 p75 p95 p100: percentiles; a cell is 16 x 16 px; placed tokens know where they stand")
    return "\n".join(lines)
