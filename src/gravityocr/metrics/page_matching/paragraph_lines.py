"""Split paragraphs at single line breaks where the ground truth does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gravityocr.metrics.page_matching.block_matching import MAX_LINES, distances, normalized
from gravityocr.metrics.page_matching.markdown_blocks import Block


def split_where_lines_fit(blocks: Sequence[Block], targets: Sequence[str]) -> list[Block]:
    """Split every text whose lines lie nearer to the ground truth than the whole does.

    The choice depends on the text itself only, so that a paragraph more or less changes nothing for the others.
    Distances are those to the nearest of the normalised `targets`, the lines' weighted by their lengths.
    """
    out: list[Block] = []
    for block in blocks:
        lines = _lines(block) if block.kind == "text" and block.label == "text_block" else []
        out += lines if len(lines) > 1 and targets and _fit_better(block, lines, targets) else [block]
    return out


def _lines(block: Block) -> list[Block]:
    lines = block.content.split("\n")
    if len(lines) != len(block.line_starts) or len(lines) > MAX_LINES:
        return []
    return [
        replace(block, content=line, start=start, end=start + len(line), line_starts=())
        for line, start in zip(lines, block.line_starts, strict=True)
    ]


def _fit_better(block: Block, lines: Sequence[Block], targets: Sequence[str]) -> bool:
    whole = normalized(block.content, False)
    parts = [part for part in (normalized(line.content, False) for line in lines) if part]
    if not whole or len(parts) < 2:
        return False
    nearest = distances([whole, *parts], list(targets)).min(axis=1)
    weights = [len(part) for part in parts]
    return bool(sum(w * d for w, d in zip(weights, nearest[1:], strict=True)) / sum(weights) < nearest[0])
