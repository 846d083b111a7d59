"""Match the display formulas of a page anew, at several granularities, and keep the cheapest matching.

Candidates: the matching together with the text, one of the formulas alone, a Hungarian assignment, an alignment in
order that may join predictions; each with multi-line predictions whole, split into rows, and split in every other way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rapidfuzz.distance import Levenshtein
from scipy.optimize import linear_sum_assignment

from gravityocr.metrics.edit import ned
from gravityocr.metrics.normalization import strip_formula_delimiters
from gravityocr.metrics.page_matching.block_matching import (
    FORMULA,
    Lines,
    Match,
    Target,
    block_lines,
    distances,
    match_blocks,
    rows_of,
    split_block,
    split_blocks,
    target_lines,
)
from gravityocr.metrics.page_matching.formula_alignment import align
from gravityocr.metrics.page_matching.formula_lines import braces_as_arrays
from gravityocr.metrics.page_matching.markdown_blocks import FORMULA_LABELS, INLINE, Block
from gravityocr.metrics.page_matching.rules import Rules

RESCUE_LABELS = ("text_formula", "image_formula", "formula_rescue", "table_formula_rescue")
MAX_PARTITIONS = 128
MAX_PARTITION_ROWS = 8


@dataclass(frozen=True)
class _Candidate:
    """Hold one matching: a row for every formula of the ground truth, and the predictions that it chose from."""

    rows: list[Match]
    pool: list[Block]
    n_sources: int
    n_rewritten: int = 0

    @property
    def key(self) -> tuple[float, float, int, float, int, int]:
        """What is compared: less is better, the first difference decides."""
        total = sum(row.edit for row in self.rows)
        paired = [row for row in self.rows if row.pred]
        n_edits = sum(Levenshtein.distance(row.norm_gt, row.norm_pred) for row in paired)
        n_chars = sum(max(len(row.norm_gt), len(row.norm_pred)) for row in paired)
        used = {source_of(self.pool[j]) for row in paired for j in row.pred if j < len(self.pool)}
        n_unused = max(0, self.n_sources - len(used))
        n_alone = len(self.rows) - len(paired)
        weighted = n_edits / n_chars if n_chars else 0.0
        return total, weighted, n_unused, total / len(self.rows), -self.n_rewritten, n_alone


def source_of(block: Block) -> tuple[int, int]:
    """Return what a formula's rows have in common: the span of the formula that they were split from."""
    return block.source if block.source else (block.start, block.end)


def formula_pool(blocks: Sequence[Block]) -> list[Block]:
    """Return what may be matched with a display formula: formulas, inline ones too, and text that looks like one."""
    pool = [b for b in blocks if b.kind == "formula"] + [b for b in blocks if b.kind == "rescue"]
    return _in_order([replace(b, kind="formula", source=(b.start, b.end)) for b in dict.fromkeys(pool)])


def _in_order(blocks: list[Block]) -> list[Block]:
    return sorted(blocks, key=lambda b: (b.start, _label(b) == INLINE, b.end))


def _label(block: Block) -> str:
    return FORMULA if block.label in RESCUE_LABELS else block.label


def match_formulas(
    targets: Sequence[Target], pool: Sequence[Block], present: Sequence[Match], rules: Rules
) -> list[Match]:
    """Return the cheapest matching of a page's display formulas.

    `present` are the pairs of the matching together with the text. *Source*: OmniDocBench v1.6, formula re-matching.
    """
    gt = target_lines(targets, rules)
    if not gt.norm:
        return []
    best: _Candidate | None = None
    for candidate in _candidates(gt, list(pool), [_relabelled(row) for row in present], rules):
        if best is None or _is_less(candidate.key, best.key):
            best = candidate
    return list(best.rows) if best else []


def _is_less(left: Sequence[float], right: Sequence[float]) -> bool:
    for a, b in zip(left, right, strict=True):
        if abs(a - b) > 1e-12:
            return a < b
    return False


def _relabelled(row: Match) -> Match:
    return replace(row, pred_label=FORMULA) if row.pred_label in RESCUE_LABELS else row


def _candidates(gt: Lines, pool: list[Block], present: list[Match], rules: Rules) -> Iterator[_Candidate]:
    n_gt = len(gt.norm)
    if _is_complete(present, n_gt):
        yield _Candidate(present, pool, len(pool))
    yield from _of_pool(gt, pool, rules, 0)
    rewritten = [replace(block, content=braces_as_arrays(block.content)) for block in pool]
    n_rewritten = sum(new.content != old.content for new, old in zip(rewritten, pool, strict=True))
    if n_rewritten:
        yield from _of_pool(gt, rewritten, rules, n_rewritten)


def _of_pool(gt: Lines, pool: list[Block], rules: Rules, n_rewritten: int) -> Iterator[_Candidate]:
    n_gt, n_sources = len(gt.norm), len(pool)
    whole = block_lines(pool, rules, split=False)
    quick = match_blocks(gt, block_lines(_inline_last(pool), rules, split=False), rules)
    aligned = (_aligned(gt, whole, allow_gaps) for allow_gaps in (False, True))
    for rows in ([_relabelled(row) for row in quick], _assigned(gt, whole), *aligned):
        if _is_complete(rows, n_gt):
            yield _Candidate(rows, pool, n_sources, n_rewritten)
    for part in _partitions(pool):
        lines = block_lines(part, rules, split=False)
        rows = _assigned(gt, lines)
        if rows:
            yield _Candidate(rows, part, n_sources, n_rewritten)
    split = split_blocks(pool)
    if len(split) > len(pool):
        lines = block_lines(split, rules, split=False)
        for allow_gaps in (False, True):
            if rows := _aligned(gt, lines, allow_gaps):
                yield _Candidate(rows, split, n_sources, n_rewritten)


def _inline_last(pool: list[Block]) -> list[Block]:
    return sorted(pool, key=lambda block: (block.is_inline, block.start))


def _is_complete(rows: Sequence[Match], n_gt: int) -> bool:
    """Whether every formula has a row of its own, and every prediction is a formula."""
    lone = all(len(row.gt) == 1 and row.pred_label in ("", *FORMULA_LABELS) for row in rows)
    return lone and len(rows) == n_gt and len({row.gt for row in rows}) == n_gt


def _row(gt: Lines, i: int, pred: Lines, columns: Sequence[int]) -> Match:
    target: Target = gt.items[i]
    blocks: list[Block] = [pred.items[j] for j in columns]
    parts = [pred.raw[j] for j in columns]
    norm = " ".join(pred.norm[j] for j in columns).strip()
    label = "" if not blocks else FORMULA if len(blocks) > 1 else _label(blocks[0])
    return Match(
        gt=(i,),
        pred=tuple(columns),
        gt_text=gt.raw[i],
        pred_text=merged(parts) if len(parts) > 1 else "".join(parts),
        norm_gt=gt.norm[i],
        norm_pred=norm,
        category=gt.categories[i],
        pred_label=label,
        orders=(target.order,),
        pred_start=blocks[0].start if blocks else None,
        edit=ned(norm, gt.norm[i]) if columns else 1.0,
        attributes=(target.attributes,),
    )


def merged(parts: Sequence[str]) -> str:
    """Set the formulas that are not empty below one another."""
    kept = [part for part in parts if strip_formula_delimiters(part.strip())]
    return strip_formula_delimiters(kept[0].strip()) if len(kept) == 1 else rows_of(kept) if kept else ""


def _assigned(gt: Lines, pred: Lines) -> list[Match]:
    """Pair one to one at the least cost, where staying alone costs 1 on either side."""
    n_gt, n_pred = len(gt.norm), len(pred.norm)
    cost = np.ones((n_gt + n_pred, n_gt + n_pred))
    cost[n_gt:, n_pred:] = 0.0
    cost[:n_gt, :n_pred] = distances(gt.norm, pred.norm)
    _, columns = linear_sum_assignment(cost)
    return [_row(gt, i, pred, [int(columns[i])] if columns[i] < n_pred else []) for i in range(n_gt)]


def _aligned(gt: Lines, pred: Lines, allow_gaps: bool) -> list[Match]:
    sources = [source_of(block) for block in pred.items]
    whole = [_label(block) == FORMULA for block in pred.items]
    alone = [_label(block) == INLINE for block in pred.items]
    runs = align(gt.norm, pred.norm, sources, whole, alone, allow_gaps)
    return [_row(gt, i, pred, run) for i, run in enumerate(runs)]


def _partitions(pool: list[Block]) -> Iterator[list[Block]]:
    """Yield the pool with multi-line predictions cut between their rows in every way, if there are not too many."""
    options: list[list[list[Block]]] = []
    n_ways, splits = 1, False
    for block in pool:
        rows = split_block(block)
        if not 1 < len(rows) <= MAX_PARTITION_ROWS:
            options.append([[block]])
            continue
        splits = True
        n_ways *= 1 << (len(rows) - 1)
        if n_ways > MAX_PARTITIONS:
            return
        options.append([[_joined(part) for part in _cut(rows, mask)] for mask in range(1 << (len(rows) - 1))])
    if splits:
        yield from _products(options)


def _cut(rows: list[Block], mask: int) -> list[list[Block]]:
    parts = [[rows[0]]]
    for i, row in enumerate(rows[1:]):
        if mask & (1 << i):
            parts.append([row])
        else:
            parts[-1].append(row)
    return parts


def _joined(rows: list[Block]) -> Block:
    if len(rows) == 1:
        return rows[0]
    content = merged([row.content for row in rows])
    if not re.match(r"\$\$.*\$\$$|\\\[.*\\\]$|\\\(.*\\\)$", content, re.DOTALL):
        content = f"\\[{content}\\]"
    return replace(rows[0], content=content, end=rows[-1].end, label=FORMULA)


def _products(options: list[list[list[Block]]]) -> Iterator[list[Block]]:
    if not options:
        yield []
        return
    for head in options[0]:
        for tail in _products(options[1:]):
            yield [*head, *tail]
