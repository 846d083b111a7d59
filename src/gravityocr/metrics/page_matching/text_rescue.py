"""Give a badly matched text block the neighbouring predictions that nobody else was matched with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gravityocr.metrics.edit import ned
from gravityocr.metrics.latex_text import inline_to_unicode
from gravityocr.metrics.normalization import normalize_inline_formulas, strip_formula_delimiters
from gravityocr.metrics.page_matching.block_matching import FORMULA, IGNORED, Match, normalized
from gravityocr.metrics.page_matching.markdown_blocks import FORMULA_LABELS, Block

_HINTS = ("\\frac", "\\sum", "\\int", "\\sqrt", "\\left", "\\right")
REACH = 8
"""How many predictions before and after the present ones are looked at."""


@dataclass(frozen=True)
class _Candidate:
    edit: float
    span: range
    away: int
    pred_text: str
    norm_pred: str

    @property
    def key(self) -> tuple[float, int, int]:
        return (round(self.edit, 12), len(self.span), self.away)


def as_text(content: str, is_formula: bool) -> str:
    """Return a block as it is compared with a block of the other kind."""
    return inline_to_unicode(strip_formula_delimiters(content) if is_formula else content)


def compare_as_text(match: Match) -> Match:
    """Compare a pair of a text and a formula as two texts; other pairs stay as they are."""
    gt_is_formula, pred_is_formula = match.category == FORMULA, match.pred_label in FORMULA_LABELS
    if not match.pred_label or gt_is_formula == pred_is_formula:
        return match
    gt_text, pred_text = as_text(match.gt_text, gt_is_formula), as_text(match.pred_text, pred_is_formula)
    norm_gt, norm_pred = normalized(gt_text, False), normalized(pred_text, False)
    edit = ned(norm_pred, norm_gt)
    return replace(match, gt_text=gt_text, pred_text=pred_text, norm_gt=norm_gt, norm_pred=norm_pred, edit=edit)


def rescue_texts(matches: Sequence[Match], pool: Sequence[Block]) -> list[Match]:
    """Rematch titles and paragraphs of a distance over 0.45 with free runs of predictions that are much nearer.

    *Source*: OmniDocBench v1.6, fallback to local spans of text.
    """
    owned = [_owned(match, pool) for match in matches]
    found: list[tuple[float, int, _Candidate]] = []
    for i, match in enumerate(matches):
        if _is_bad(match):
            blocked = {j for k, others in enumerate(owned) if k != i for j in others}
            candidate = _best_span(match, pool, owned[i], blocked)
            if candidate:
                found.append((match.edit - candidate.edit, i, candidate))
    out = list(matches)
    used: set[int] = set()
    for _, i, candidate in sorted(found, key=lambda item: -item[0]):
        if used.isdisjoint(candidate.span):
            used |= set(candidate.span)
            out[i] = replace(
                out[i],
                pred=tuple(candidate.span),
                pred_text=candidate.pred_text,
                norm_pred=candidate.norm_pred,
                pred_label="text_block",
                pred_start=pool[candidate.span.start].start,
                edit=candidate.edit,
            )
    return out


def _owned(match: Match, pool: Sequence[Block]) -> list[int]:
    inside = sorted({j for j in match.pred if j < len(pool)})
    if inside or match.pred_start is None:
        return inside
    return [j for j, block in enumerate(pool) if block.start <= match.pred_start <= block.end]


def _is_bad(match: Match) -> bool:
    if match.category not in ("title", "text_block") or match.edit <= 0.45:
        return False
    return match.category == "title" or _has_formula(match.gt_text) or len(match.norm_gt) >= 80


def _has_formula(text: str) -> bool:
    if re.search(r"\$[^$]+\$|\\\([^)]*\\\)", text) or any(hint in text for hint in _HINTS):
        return True
    return ("^" in text or "_" in text) and ("$" in text or "\\" in text)


def _best_span(match: Match, pool: Sequence[Block], owned: list[int], blocked: set[int]) -> _Candidate | None:
    with_formulas = _has_formula(match.gt_text)
    text = normalize_inline_formulas(match.gt_text) if with_formulas else inline_to_unicode(match.gt_text)
    target = normalized(text, False)
    if not target:
        return None
    low, high = (max(0, owned[0] - REACH), min(len(pool) - 1, owned[-1] + REACH)) if owned else (0, len(pool) - 1)
    usable = [
        j not in blocked and (pool[j].kind == "text" or (with_formulas and pool[j].kind == "formula"))
        for j in range(len(pool))
    ]
    best: _Candidate | None = None
    for start in range(low, high + 1):
        away = abs(start - owned[0]) if owned else 0
        for candidate in _spans_from(
            start, min(high + 1, start + (8 if with_formulas else 4)), pool, usable, target, away
        ):
            if best is None or candidate.key < best.key:
                best = candidate
    if best is None or best.edit >= match.edit - 0.2 or best.edit > (0.45 if with_formulas else 0.35):
        return None
    return best


def _spans_from(
    start: int, stop: int, pool: Sequence[Block], usable: list[bool], target: str, away: int
) -> list[_Candidate]:
    found = []
    raw = rendered = ""
    for end in range(start, stop):
        if not usable[end]:
            break
        raw += pool[end].content
        rendered += as_text(pool[end].content, pool[end].kind == "formula")
        norm = normalized(rendered, False)
        if norm:
            found.append(_Candidate(ned(norm, target), range(start, end + 1), away, raw, norm))
    return found


def is_scored_text(match: Match) -> bool:
    """Whether a match counts for the text score."""
    return match.category not in IGNORED and match.category != FORMULA
