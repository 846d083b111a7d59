"""Tell predictions that have something to do with a page's ground truth from those that have nothing.

A hallucinated paragraph must not raise any score: not by filling the gap behind a paragraph that breaks off, not by
standing in for a missing formula, not by keeping apart what would be joined badly. So what nothing on the page accounts
for takes no part in the matching; the matching is the one that there would be without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from gravityocr.metrics.page_matching.block_matching import (
    EMBEDDED,
    FAR,
    IGNORED,
    Lines,
    distances,
    normalized,
    split_block,
)
from gravityocr.metrics.page_matching.markdown_blocks import Block
from gravityocr.metrics.page_matching.prediction_runs import has_window


def set_strangers_apart(blocks: Sequence[Block], gt: Lines) -> tuple[list[Block], list[Block]]:
    """Return the blocks that some line of the ground truth may account for, and the others.

    A block is accounted for if it, or one of its rows, lies within `FAR` of a line, or is a piece of one, or consists
    of several to a fair part.
    """
    forms = [_normal_forms(block) for block in blocks]
    texts = list(dict.fromkeys(text for of_block in forms for text in of_block))
    near = [bool((row <= FAR).any()) for row in distances(texts, gt.norm)]
    # Ignored blocks are neither joined nor found in longer ones.
    lines = [line for line, category in zip(gt.norm, gt.categories, strict=True) if category not in IGNORED]
    kin = {
        text
        for text, is_near in zip(texts, near, strict=True)
        if is_near or _is_piece(text, lines) or _holds(text, lines)
    }
    # What normalises to nothing is matched with nothing anyway.
    known = [not of_block or not kin.isdisjoint(of_block) for of_block in forms]
    return (
        [block for block, stays in zip(blocks, known, strict=True) if stays],
        [block for block, stays in zip(blocks, known, strict=True) if not stays],
    )


def _normal_forms(block: Block) -> list[str]:
    is_formula = block.kind == "formula"
    forms = [normalized(part.content, is_formula) for part in (block, *split_block(block))]
    return [form for form in forms if form]


def _is_piece(text: str, lines: Sequence[str]) -> bool:
    return any(has_window(line, text, EMBEDDED, strict=True) for line in lines)


def _holds(text: str, lines: Sequence[str]) -> bool:
    # Lines that make up less than this are rejected for the joint distance.
    needed = (1 - FAR) * len(text)
    shorter = [line for line in lines if len(line) <= len(text)]
    if sum(map(len, shorter)) < needed:
        return False
    return sum(len(line) for line in shorter if has_window(text, line, EMBEDDED, strict=True)) >= needed
