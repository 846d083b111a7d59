"""Match the blocks of a prediction with those of the ground truth, text and formulas together.

The stages are OmniDocBench v1.6's: ignored categories take the predictions that are theirs; runs of predictions that
together make one block are joined; a Hungarian assignment, with rejection; blocks that are embedded in a longer
prediction are rescued; leftovers are paired (officially) or stay alone (mended).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from scipy.optimize import linear_sum_assignment

from gravityocr.metrics.edit import edit_distance, ned
from gravityocr.metrics.normalization import normalize_formula, normalize_text, strip_formula_delimiters
from gravityocr.metrics.page_matching.formula_lines import split_formula
from gravityocr.metrics.page_matching.markdown_blocks import Block
from gravityocr.metrics.page_matching.prediction_runs import has_window, join_runs
from gravityocr.metrics.page_matching.rules import Rules

IGNORED = frozenset(
    (
        "figure_caption", "figure_footnote", "table_caption", "table_footnote", "code_algorithm",
        "code_algorithm_caption", "header", "footer", "page_footnote", "page_number", "equation_caption",
    )
)  # fmt: skip
FORMULA = "equation_isolated"
NEAR = 0.25
"""Below this distance a prediction belongs to an ignored block, and is left out of joining."""
FAR = 0.7
"""Above this distance a pair is rejected."""
EMBEDDED = 0.4
"""Below this distance of its best window, a block is embedded in a longer prediction."""


MAX_LINES = 600
"""More rows of formulas, or lines of a paragraph, than that are not matched one by one."""


@dataclass(frozen=True)
class Target:
    """Hold one block of the ground truth. `order` is its place in the reading order, None without one."""

    category: str
    content: str
    order: float | None
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def is_formula(self) -> bool:
        """Whether this is a display formula."""
        return self.category == FORMULA


@dataclass(frozen=True)
class Match:
    """Hold blocks of the ground truth with the predictions that they were matched with; either side may be empty.

    `gt`, `pred` are indices of the lines that were matched; `edit` is the distance by which they were.
    """

    gt: tuple[int, ...]
    pred: tuple[int, ...]
    gt_text: str
    pred_text: str
    norm_gt: str
    norm_pred: str
    category: str
    pred_label: str
    orders: tuple[float | None, ...]
    pred_start: int | None
    edit: float
    attributes: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Lines:
    """Hold one side of a page as it is matched: what normalises to nothing is left out.

    Officially the positions are those of the list before that, so that they are shifted behind such a block; mended,
    they are the blocks' own.
    """

    raw: list[str]
    norm: list[str]
    categories: list[str]
    items: list[Any]


@lru_cache(maxsize=8192)
def normalized(content: str, is_formula: bool) -> str:
    """Return the form in which a block is matched."""
    return normalize_formula(content) if is_formula else normalize_text(content)


def target_lines(targets: Sequence[Target], rules: Rules) -> Lines:
    """Return the ground truth's side, multi-line formulas split into rows."""
    items: list[Target] = []
    for target in targets:
        rows = split_formula(target.content) if target.is_formula else ()
        base = target.order or 0
        items += [
            replace(target, content=f"\\[{row.content}\\]", order=float(base) + i / 1000)
            for i, row in enumerate(rows, 1)
        ] or [target]
    return _lines(items, [t.content for t in items], [t.is_formula for t in items], [t.category for t in items], rules)


def block_lines(blocks: Sequence[Block], rules: Rules, split: bool = True) -> Lines:
    """Return the prediction's side in the order of `blocks`, multi-line formulas split into rows."""
    items = split_blocks(blocks) if split else list(blocks)
    return _lines(
        items, [b.content for b in items], [b.kind == "formula" for b in items], [b.label for b in items], rules
    )


def split_blocks(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks, multi-line formulas split into rows unless there are too many of them."""
    rows = [row for block in blocks for row in split_block(block)]
    return rows if len(rows) <= MAX_LINES else list(blocks)


def split_block(block: Block) -> list[Block]:
    """Return the rows of a multi-line formula as blocks of their own."""
    rows = split_formula(block.content) if block.kind == "formula" else ()
    return [
        replace(block, content=f"\\[{row.content}\\]", start=block.start + row.start, end=block.start + row.end)
        for row in rows
    ] or [block]


def _lines(items: list[Any], raw: list[str], formulas: list[bool], categories: list[str], rules: Rules) -> Lines:
    norm = [normalized(text, is_formula) for text, is_formula in zip(raw, formulas, strict=True)]
    kept = [i for i, text in enumerate(norm) if text and raw[i]]
    return Lines(
        [raw[i] for i in kept],
        [norm[i] for i in kept],
        [categories[i] for i in kept],
        [items[i] for i in kept] if rules.exact_positions else items,
    )


def distances(left: Sequence[str], right: Sequence[str]) -> NDArray[np.float64]:
    """Return the normalised edit distances of all pairs. *Shapes*: float64 [len(left), len(right)]."""
    if not left or not right:
        return np.zeros((len(left), len(right)))
    counts = cdist(list(left), list(right), scorer=Levenshtein.distance, dtype=np.int64)
    longer = np.maximum.outer([len(s) for s in left], [len(s) for s in right])
    return np.asarray(counts / np.maximum(longer, 1))


def match_blocks(gt: Lines, pred: Lines, rules: Rules) -> list[Match]:
    """Match all lines of a page; every line of the ground truth is in exactly one match.

    *Source*: OmniDocBench v1.6, "quick match" of text and formulas together.
    """
    if not gt.norm:
        return []
    if not pred.norm:
        return [_match(gt, pred, (i,), (), 1.0) for i in range(len(gt.norm))]
    if len(gt.norm) == len(pred.norm) == 1 and not rules.count_unmatched_text:
        return [_match(gt, pred, (0,), (0,), ned(pred.norm[0], gt.norm[0]))]
    ignored = [i for i, category in enumerate(gt.categories) if category in IGNORED]
    scored = [i for i, category in enumerate(gt.categories) if category not in IGNORED]
    taken, consumed = _take_ignored(gt, pred, ignored)
    left = [j for j in range(len(pred.norm)) if j not in consumed]
    groups = _groups(
        [gt.norm[i] for i in scored], [pred.norm[j] for j in left], [gt.categories[i] for i in scored], rules
    )
    matches = [
        _match(gt, pred, tuple(scored[i] for i in rows), tuple(left[j] for j in columns), edit)
        for rows, columns, edit in groups
    ]
    return matches + taken


def _take_ignored(gt: Lines, pred: Lines, ignored: list[int]) -> tuple[list[Match], set[int]]:
    """Match ignored blocks with all predictions that are near to them."""
    cost = distances([gt.norm[i] for i in ignored], pred.norm)
    near = np.argwhere(cost < NEAR)
    last = {int(i): (k, int(j)) for k, (i, j) in enumerate(near)}
    pairs = [(i, j) for i, (_, j) in last.items()]
    free_gt = [i for i in range(len(ignored)) if i not in last]
    free_pred = [int(near[k][1]) for k in range(len(near)) if k not in {k for k, _ in last.values()}]
    if free_gt and free_pred:
        rows, columns = linear_sum_assignment(cost[np.ix_(free_gt, free_pred)])
        pairs += [(free_gt[r], free_pred[c]) for r, c in zip(rows, columns, strict=True)]
    paired = dict(pairs)
    matches = []
    for i, line in enumerate(ignored):
        columns_of = (paired[i],) if i in paired else ()
        matches.append(_match(gt, pred, (line,), columns_of, float(cost[i, paired[i]]) if i in paired else 1.0))
    return matches, {int(j) for _, j in near}


Group = tuple[tuple[int, ...], tuple[int, ...], float]


def _groups(gt: list[str], pred: list[str], categories: list[str], rules: Rules) -> list[Group]:
    """Return (ground-truth indices, prediction indices, distance) so that every index of the ground truth is in one."""
    pairs = _assign(gt, pred, rules)
    free = [i for i in range(len(gt)) if i not in pairs]
    final: dict[tuple[int, ...], list[int]] = {}
    for i in range(len(gt)):
        if i in pairs:
            final.setdefault(pairs[i], []).append(i)
    done = set(pairs)
    run_of = {j: columns for columns in final for j in columns} if rules.count_unmatched_text else {}
    for j, rows in _embedded(gt, pred, [i for i in free if categories[i] != FORMULA]).items():
        new = [i for i in rows if i not in done]
        columns = run_of.get(j, (j,))
        if rules.count_unmatched_text:
            new = _accounted_for(gt, " ".join(pred[k] for k in columns), final.get(columns, []), new)
        final.setdefault(columns, []).extend(new)
        done.update(new)
    groups: list[Group] = []
    for columns, rows in final.items():
        rows = sorted(set(rows))
        if rows:
            groups.append((tuple(rows), columns, _joint_distance(gt, pred, columns, rows)))
    groups += [((i,), (j,), 1.0) for i, j in _pair_leftovers(gt, pred, final, rules)]
    # Officially two groups may name the same predictions only if they are one: leftovers are disjoint from the rest.
    matched = {i for rows, _, _ in groups for i in rows}
    return groups + [((i,), (), 1.0) for i in range(len(gt)) if i not in matched]


def _assign(gt: list[str], pred: list[str], rules: Rules) -> dict[int, tuple[int, ...]]:
    """Return ground-truth index -> prediction indices: runs joined, then a Hungarian assignment with rejection."""
    if not pred or not gt:
        return {}
    cost = distances(gt, pred)
    columns: list[tuple[int, ...]] = [(j,) for j in range(len(pred))]
    runs = join_runs(cost, gt, pred, NEAR)
    if runs:
        columns = runs
        cost = distances(gt, [" ".join(pred[j] for j in run) for run in columns])
    # Mended, a pair that will be rejected weighs as much as any other such pair: it must not move the good ones.
    weight = np.where(cost > FAR, 1.0, cost) if rules.count_unmatched_text else cost
    rows, chosen = linear_sum_assignment(weight)
    return {int(i): columns[c] for i, c in zip(rows, chosen, strict=True) if cost[i, c] <= FAR}


def _embedded(gt: list[str], pred: list[str], free: list[int]) -> dict[int, list[int]]:
    found = {j: [i for i in free if has_window(text, gt[i], EMBEDDED, strict=True)] for j, text in enumerate(pred)}
    return {j: rows for j, rows in found.items() if rows}


def _accounted_for(gt: list[str], text: str, present: Sequence[int], new: Sequence[int]) -> list[int]:
    """Return the new blocks that a prediction holds beside those that it has: a stretch of it counts for one block."""
    rows = list(present)
    n_edits = edit_distance(text, "".join(gt[i] for i in sorted(rows)))
    for i in new:
        n_edits_with = edit_distance(text, "".join(gt[k] for k in sorted([*rows, i])))
        if n_edits_with < n_edits + len(gt[i]):
            rows.append(i)
            n_edits = n_edits_with
    found = rows[len(present) :]
    return found if ned(text, "".join(gt[i] for i in sorted(rows))) <= FAR else []


def _joint_distance(gt: list[str], pred: list[str], columns: tuple[int, ...], rows: Sequence[int]) -> float:
    return ned(" ".join(pred[j] for j in columns), "".join(gt[i] for i in sorted(set(rows)))) if rows else 1.0


def _pair_leftovers(
    gt: list[str], pred: list[str], final: dict[tuple[int, ...], list[int]], rules: Rules
) -> list[tuple[int, int]]:
    if rules.count_unmatched_text:
        return []
    free_gt = list(set(range(len(gt))) - {i for rows in final.values() for i in rows})
    free_pred = list(set(range(len(pred))) - {j for columns in final for j in columns})
    if not free_gt or not free_pred:
        return []
    rows, columns = linear_sum_assignment(distances([gt[i] for i in free_gt], [pred[j] for j in free_pred]))
    return [(free_gt[r], free_pred[c]) for r, c in zip(rows, columns, strict=True)]


def _match(gt: Lines, pred: Lines, rows: tuple[int, ...], columns: tuple[int, ...], edit: float) -> Match:
    categories = [gt.categories[i] for i in rows]
    scored = [category for category in categories if category not in IGNORED]
    category = Counter(scored or categories).most_common(1)[0][0]
    targets = [gt.items[i] for i in rows]
    blocks = [pred.items[j] for j in columns]
    label = blocks[0].label if blocks else ""
    gt_raw, pred_raw = [gt.raw[i] for i in rows], [pred.raw[j] for j in columns]
    return Match(
        gt=rows,
        pred=columns,
        gt_text=rows_of(gt_raw) if category == FORMULA and len(rows) > 1 else "".join(gt_raw),
        pred_text=rows_of(pred_raw) if "equation" in label and len(columns) > 1 else "".join(pred_raw),
        norm_gt="".join(gt.norm[i] for i in rows),
        norm_pred="".join(pred.norm[j] for j in columns),
        category=category,
        pred_label=label,
        orders=tuple(target.order for target in targets),
        pred_start=blocks[0].start if blocks else None,
        edit=edit,
        attributes=tuple(target.attributes for target in targets),
    )


def rows_of(formulas: Sequence[str]) -> str:
    """Set formulas below one another as one formula."""
    rows = " \\\\ ".join("{" + strip_formula_delimiters(formula) + "}" for formula in formulas)
    return "\\begin{array}{l} " + rows + " \\end{array}"
