"""Plots of what region files hold, and a sheet of regions with their targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from gravityocr.errors import ConfigError, InputError
from gravityocr.training.corpora.captions import LINE_PX, caption_lines, draw_caption
from gravityocr.training.corpora.region_shards import TASKS, LabelledRegion, RegionFile
from gravityocr.training.corpora.region_stats import RegionFigures, StatsConfig

COLORS = {"text": "#2f5d8a", "table": "#c8553d", "formula": "#4f8a4b"}
_BINS = 48
_SHEET_PX = 1600
_TILE_PX = 700
_CAPTION_LINES = 8


def draw_plots(figures: RegionFigures, config: StatsConfig, folder: Path) -> list[Path]:
    """Write PNGs of lengths, costs, sizes and counts into a folder; return them.

    *Raises*: ConfigError where matplotlib is not installed or the folder cannot be written.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        remedy = "install the extra: pip install 'gravityocr[report]'"
        raise ConfigError(f"data stats --plots needs matplotlib; {remedy}") from error
    plots: dict[str, Callable[[Any, RegionFigures, StatsConfig], None]] = {
        "response_tokens": _response,
        "cost_tokens": _cost,
        "picture_sizes": _sizes,
        "streams": _streams,
        "sources": _sources,
    }
    files = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context({"font.size": 9, "font.family": "sans-serif"}):
            for name, plot in plots.items():
                figure = Figure(figsize=(7.0, 4.2), layout="constrained")
                plot(figure.subplots(), figures, config)
                files.append(folder / f"{name}.png")
                figure.savefig(files[-1], dpi=120, metadata={"Software": None})
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written ({error}); choose another --plots") from error
    return files


def _response(axes: Any, figures: RegionFigures, config: StatsConfig) -> None:
    _histogram(axes, figures, "response_tokens", config.response_cap_tokens, "cap")
    axes.set(title="Response lengths", xlabel="response tokens", ylabel="regions")


def _cost(axes: Any, figures: RegionFigures, config: StatsConfig) -> None:
    _histogram(axes, figures, "cost_tokens", config.row_tokens, "row")
    axes.set(title=f"Cost of a sample: P + {1 + config.n_corrupt} (N + B)", xlabel="forward tokens", ylabel="regions")


def _histogram(axes: Any, figures: RegionFigures, name: str, limit: int, what: str) -> None:
    values = np.maximum(figures.of(name), 1)
    edges = np.geomspace(values.min(initial=limit), max(values.max(initial=1), limit) + 1, _BINS)
    for task in TASKS:
        mine = figures.of(name, task)
        if len(mine):
            axes.hist(np.maximum(mine, 1), edges, histtype="step", color=COLORS[task], label=task, linewidth=1.6)
    axes.axvline(limit, color="#777777", linestyle="--", linewidth=1, label=f"{what} {limit}")
    axes.set_xscale("log")
    axes.legend()


def _sizes(axes: Any, figures: RegionFigures, config: StatsConfig) -> None:
    rng = np.random.default_rng(0)
    for task in TASKS:
        widths, heights = figures.of("width_px", task), figures.of("height_px", task)
        shown = rng.permutation(len(widths))[:4000]
        if len(shown):
            axes.scatter(widths[shown], heights[shown], s=5, alpha=0.4, color=COLORS[task], label=task)
    axes.set(title="Picture sizes", xlabel="width in px", ylabel="height in px", xscale="log", yscale="log")
    axes.legend()


def _streams(axes: Any, figures: RegionFigures, config: StatsConfig) -> None:
    tasks = [task for task in TASKS if len(figures.of("task", task))]
    prefix = np.array([figures.of("prefix_tokens", task).sum() for task in tasks])
    clean = np.array([(figures.of("response_tokens", task) + config.n_eos).sum() for task in tasks])
    below = np.zeros(len(tasks))
    for name, values, color in (
        ("prefix", prefix, "#bdbdbd"),
        ("clean", clean, "#3d9aa1"),
        ("corrupt", config.n_corrupt * clean, "#8a6bb1"),
    ):
        axes.bar(tasks, values, bottom=below, color=color, label=name)
        below = below + values
    axes.set(title=f"Forward tokens of an epoch by stream (B = {config.n_eos})", ylabel="tokens")
    axes.legend()


def _sources(axes: Any, figures: RegionFigures, config: StatsConfig) -> None:
    names, counts = zip(*figures.sources.most_common()[::-1], strict=True) if figures.sources else ((), ())
    axes.barh(names, counts, color="#2f5d8a")
    axes.set(title="Regions by source", xlabel="regions")


def draw_regions(files: Sequence[Path], n: int, seed: int) -> Image.Image:
    """Draw `n` regions of some files, their origins and targets below them.

    *Raises*: InputError where the files hold no region, or one is broken.
    """
    opened = [RegionFile(file) for file in files]
    ends = np.cumsum([len(file) for file in opened], dtype=np.int64)
    if not len(ends) or not ends[-1]:
        raise InputError("the region files are empty; make some with gravityocr data convert")
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(int(ends[-1]))[:n] if n < ends[-1] else np.arange(ends[-1])
    tiles = []
    for number in sorted(chosen.tolist()):
        at = int(np.searchsorted(ends, number, side="right"))
        tiles.append(_tile(opened[at][number - (int(ends[at - 1]) if at else 0)]))
    return stacked(tiles)


def stacked(pictures: Sequence[Image.Image]) -> Image.Image:
    """Return pictures one below the other on white."""
    sheet = Image.new("RGB", (_SHEET_PX, sum(picture.height for picture in pictures) + 8), "white")
    top = 4
    for picture in pictures:
        sheet.paste(picture, (4 if picture.width < _SHEET_PX else 0, top))
        top += picture.height
    return sheet


def _tile(region: LabelledRegion) -> Image.Image:
    picture = region.picture().convert("RGB")
    scale = min(1.0, (_SHEET_PX - 8) / picture.width, _TILE_PX / picture.height)
    picture = picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))))
    origin = region.target_origin + (f" {region.teacher}" if region.teacher else "")
    head = f"{region.region_id}  {region.task}  {origin}  {region.width_px} x {region.height_px} px"
    width = _SHEET_PX - 8
    lines = [*caption_lines(head, width, 1), *caption_lines(region.target or "(no target)", width, _CAPTION_LINES)]
    tile = Image.new("RGB", (width, picture.height + LINE_PX * len(lines) + 10), "white")
    tile.paste(picture, (0, 0))
    ImageDraw.Draw(tile).rectangle((0, 0, picture.width - 1, picture.height - 1), outline="#cccccc")
    for number, line in enumerate(lines):
        draw_caption(tile, (0, picture.height + 2 + LINE_PX * number), line, "#777777" if number == 0 else "blue")
    return tile
