"""What shards hold: counts, sizes, tokens that the small model does not know; and a sheet to look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from gravityocr.errors import InputError
from gravityocr.training.corpora.captions import LINE_PX, caption_lines, draw_caption
from gravityocr.training.nano import MARKUP_TOKENS
from gravityocr.training.synthetic.charset import CHARSET
from gravityocr.training.synthetic.latex_vocabulary import MERGED_LATEX_TOKENS
from gravityocr.training.synthetic.shards import RenderedSample, Shard, shard_files
from gravityocr.training.synthetic.table_tags import MERGED_TAGS

CELL_PX = 16
_PERCENTILES = (0, 5, 25, 50, 75, 95, 100)
_KNOWN = frozenset(CHARSET) | frozenset(MARKUP_TOKENS)
# Shards hold single tokens; they are merged when they are drawn.
_SINGLE_MARKUP = frozenset(MARKUP_TOKENS).difference(MERGED_TAGS, MERGED_LATEX_TOKENS)
_SHEET_PX = 1600
_CAPTION_LINES = 20


@dataclass
class _Tally:
    n_tokens: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    heights: list[int] = field(default_factory=list)
    density: list[float] = field(default_factory=list)
    n_placed: int = 0
    sources: Counter[str] = field(default_factory=Counter)

    def add(self, sample: RenderedSample) -> None:
        height, width = sample.image.shape
        n_cells = -(-width // CELL_PX) * -(-height // CELL_PX)
        self.n_tokens.append(len(sample.tokens))
        self.widths.append(width)
        self.heights.append(height)
        self.density.append(len(sample.tokens) / n_cells)
        self.n_placed += int(np.isfinite(sample.centers_px[:, 0]).sum())
        self.sources[sample.source] += 1

    def report(self) -> dict[str, Any]:
        return {
            "n_samples": len(self.n_tokens),
            "n_tokens": sum(self.n_tokens),
            "share_of_tokens_with_place": round(self.n_placed / max(1, sum(self.n_tokens)), 4),
            "tokens": _percentiles(self.n_tokens),
            "width_px": _percentiles(self.widths),
            "height_px": _percentiles(self.heights),
            "tokens_per_cell": _percentiles(self.density),
            "sources": dict(self.sources.most_common()),
        }


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    found = np.percentile(np.asarray(values, dtype=np.float64), _PERCENTILES)
    return {f"p{q}": round(float(value), 3) for q, value in zip(_PERCENTILES, found, strict=True)}


def shard_stats(folders: Sequence[Path]) -> dict[str, Any]:
    """Count what the shards below some folders hold, by task.

    *Units*: a vision cell is 16 x 16 pixels.
    *Raises*: InputError where there is no shard or one is broken.
    """
    tallies: dict[str, _Tally] = {}
    unknown: Counter[str] = Counter()
    known: Counter[str] = Counter()
    files = [file for folder in folders for file in shard_files(folder)]
    for file in files:
        shard = Shard(file)
        for number in range(len(shard)):
            sample = shard[number]
            tallies.setdefault(sample.task, _Tally()).add(sample)
            for token in sample.tokens:
                (known if token in _KNOWN else unknown)[token] += 1
    return {
        "n_shards": len(files),
        "n_bytes": sum(file.stat().st_size for file in files),
        "tasks": {task: tally.report() for task, tally in sorted(tallies.items())},
        "unknown_tokens": dict(unknown.most_common()),
        "unused_commands": sorted(token for token in _SINGLE_MARKUP if not known[token]),
    }


def draw_sheet(folders: Sequence[Path], n: int, seed: int) -> Image.Image:
    """Draw `n` samples of the shards below some folders, their targets below them.

    *Raises*: InputError where there is no shard, none holds a sample, or one is broken.
    """
    rng = np.random.default_rng(seed)
    files = [file for folder in folders for file in shard_files(folder)]
    sizes = [len(Shard(file)) for file in files]
    if not any(sizes):
        names = ", ".join(map(str, folders))
        raise InputError(f"the shards below {names} are empty; make some with gravityocr data synth")
    filled = [file for file, size in zip(files, sizes, strict=True) if size]
    tiles = []
    for _ in range(n):
        shard = Shard(filled[int(rng.integers(len(filled)))])
        tiles.append(_tile(shard[int(rng.integers(len(shard)))]))
    sheet = Image.new("RGB", (_SHEET_PX, sum(tile.height for tile in tiles) + 8), "white")
    top = 4
    for tile in tiles:
        sheet.paste(tile, (4, top))
        top += tile.height
    return sheet


def _tile(sample: RenderedSample) -> Image.Image:
    """Draw a sample with a dot at the place of each token, and its target."""
    picture = Image.fromarray(sample.image).convert("RGB")
    scale = min(2.0 if sample.image.shape[0] <= 64 else 1.0, (_SHEET_PX - 8) / picture.width)
    picture = picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))))
    draw = ImageDraw.Draw(picture)
    for x, y in sample.centers_px[np.isfinite(sample.centers_px).all(axis=1)] * scale:
        draw.ellipse((x - 1, y - 1, x + 1, y + 1), fill="red")
    lines = caption_lines(sample.target, _SHEET_PX - 8, _CAPTION_LINES)
    tile = Image.new("RGB", (_SHEET_PX - 8, picture.height + LINE_PX * len(lines) + 8), "white")
    tile.paste(picture, (0, 0))
    ImageDraw.Draw(tile).rectangle((0, 0, picture.width - 1, picture.height - 1), outline="#cccccc")
    for number, line in enumerate(lines):
        draw_caption(tile, (0, picture.height + 2 + LINE_PX * number), line, "blue")
    return tile
