"""Matching of the token boxes of two formulas: an assignment, then the pairs that one scaling and shift explains.

*Source*: CDM (Wang et al., 2024) and its code in OmniDocBench v1.6: the cost weights, the list of tokens that look
alike, the scale-and-shift model. The sampling is seeded, and exhaustive where that is no more work.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from gravityocr.metrics.formulas.formula_render import TokenBoxes

POSITION_WEIGHT = 0.05
ORDER_WEIGHT = 0.15
LOOKALIKE_COST = 0.005

Floats = NDArray[np.float64]

_LOOKALIKES = {
    "\\dot": ".", "\\Dot": ".", "\\cdot": ".", "\\cdotp": ".", "\\ldotp": ".", "\\mid": "|", "\\rightarrow": "\\to",
    "\\top": "T", "\\Tilde": "\\tilde", "\\prime": "'", "\\ast": "*", "\\left<": "\\langle", "\\right>": "\\rangle",
    "\\lbrace": "\\{", "\\rbrace": "\\}", "\\lbrack": "[", "\\rbrack": "]", "\\blackslash": "/", "\\slash": "/",
    "\\leq": "\\le", "\\geq": "\\ge", "\\neq": "\\not=", "\\Vert": "\\|", "\\lVert": "\\|", "\\rVert": "\\|",
    "\\vert": "|", "\\lvert": "|", "\\rvert": "|", "\\colon": ":", "\\Ddot": "\\ddot", "\\Bar": "\\bar",
    "\\Vec": "\\vec", "\\parallel": "\\|", "\\dag": "\\dagger", "\\ddag": "\\ddagger", "\\textlangle": "<",
    "\\textrangle": ">", "\\textgreater": ">", "\\textless": "<", "\\textbackslash": "n", "\\textunderscore": "_",
    "\\=": "_", "\\neg": "\\lnot",
}  # fmt: skip


@dataclass(frozen=True)
class MatchRules:
    """The constants that differ between versions of the metric: RANSAC rounds, sample size, threshold and trials.

    *Units*: threshold in pixels at 200 dpi.
    """

    rounds: int
    n_samples: int
    threshold: float
    n_trials: int


def fold_token(token: str) -> str:
    """Map tokens that look alike to one spelling.

    >>> fold_token("\\\\varepsilon"), fold_token("\\\\left("), fold_token("\\\\bigl|")
    ('\\\\epsilon', '(', '|')
    """
    is_side = token.startswith(("\\left", "\\right"))
    if is_side and not any(word in token for word in ("arrow", "<", ">", "harpoon")):
        token = token.replace("\\left", "").replace("\\right", "")
    if token.startswith(("\\big", "\\Big")):
        token = "\\" + token[4:].split("\\")[-1] if "\\" in token[4:] else token[-1]
    token = _LOOKALIKES.get(token, token)
    for prefix, dropped in (("\\wide", "wide"), ("\\var", "var"), ("\\string", "\\string")):
        if token.startswith(prefix):
            return token.replace(dropped, "")
    return token


def match_tokens(ref: TokenBoxes, pred: TokenBoxes, rules: MatchRules, seed: int = 0) -> NDArray[np.intp]:
    """Find the tokens of `pred` that stand where an equal or alike-looking token of `ref` stands.

    *Shapes*: [M, 2], a row for each match: the position in `ref`, the position in `pred`.
    """
    token_cost = _token_cost(ref.tokens, pred.tokens)
    rows, columns = linear_sum_assignment(token_cost + _place_cost(ref, pred))
    src, dst = _centers(ref.boxes)[rows], _centers(pred.boxes)[columns]
    kept = _consistent(src, dst, rules, np.random.default_rng(seed))
    return np.stack((rows, columns), axis=1)[kept & (token_cost[rows, columns] != 1)]


def count_same_roles(ref: TokenBoxes, pred: TokenBoxes, matches: NDArray[np.intp]) -> int:
    """Count the matches of `match_tokens` whose tokens stand in the same scripts and are equally bold."""
    return sum(ref.roles[i] == pred.roles[j] for i, j in matches)


def _ids(*sides: Sequence[str]) -> list[NDArray[np.intp]]:
    numbers: dict[str, int] = {}
    return [np.array([numbers.setdefault(token, len(numbers)) for token in side], np.intp) for side in sides]


def _token_cost(ref: Sequence[str], pred: Sequence[str]) -> Floats:
    ref_ids, pred_ids = _ids(ref, pred)
    ref_folded, pred_folded = _ids([fold_token(t) for t in ref], [fold_token(t) for t in pred])
    alike = ref_folded[:, None] == pred_folded[None]
    cost = np.where(alike, LOOKALIKE_COST, 1.0)
    cost[ref_ids[:, None] == pred_ids[None]] = 0.0
    return cost


def _place_cost(ref: TokenBoxes, pred: TokenBoxes) -> Floats:
    ref_box, pred_box = (side.boxes / np.tile(np.array(side.size, np.float64), 2) for side in (ref, pred))
    longest = max(len(ref.tokens), len(pred.tokens))
    cost = np.abs(np.arange(len(ref.tokens))[:, None] - np.arange(len(pred.tokens))[None]) * (ORDER_WEIGHT / longest)
    for side in range(4):
        cost += np.abs(ref_box[:, side, None] - pred_box[None, :, side]) * (POSITION_WEIGHT / 4)
    return cost


def _centers(boxes: NDArray[np.int32]) -> Floats:
    return (boxes[:, :2] + boxes[:, 2:]) / 2.0


def _consistent(src: Floats, dst: Floats, rules: MatchRules, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mark the pairs that some scale-and-shift explains, one model a round, each over what the earlier ones left."""
    n_pairs = len(src)
    if n_pairs <= rules.n_samples:
        return np.ones(n_pairs, np.bool_)
    kept = np.zeros(n_pairs, np.bool_)
    for _ in range(rules.rounds):
        left = np.flatnonzero(~kept)
        if len(left) <= rules.n_samples:
            break
        found = _best_model(src[left], dst[left], rules, rng)
        if not found.any():
            break
        kept[left[found]] = True
    return kept


def _best_model(src: Floats, dst: Floats, rules: MatchRules, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return the pairs within the threshold under the sampled model that has most of them."""
    samples = _samples(len(src), rules, rng)
    src_part, dst_part = src[samples], dst[samples]
    src_mid, dst_mid = src_part.mean(axis=1), dst_part.mean(axis=1)
    spread = np.linalg.norm(src_part - src_mid[:, None], axis=2).mean(axis=1)
    scale = np.linalg.norm(dst_part - dst_mid[:, None], axis=2).mean(axis=1) / (spread + 1e-10)
    # The official model scales around the centre of all remaining points, not of the sample.
    center = src.mean(axis=0)
    shift = center + dst_mid - src_mid
    moved = scale[:, None, None] * (src - center)[None] + shift[:, None]
    residuals = np.linalg.norm(moved - dst[None], axis=2)
    inside = residuals < rules.threshold
    counts = inside.sum(axis=1)
    best = np.flatnonzero(counts == counts.max())
    chosen: NDArray[np.bool_] = inside[best[np.argmin((residuals[best] ** 2).sum(axis=1))]]
    return chosen


def _samples(n_pairs: int, rules: MatchRules, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw index sets without repeats: all of them where there are no more than trials."""
    if math.comb(n_pairs, rules.n_samples) <= rules.n_trials:
        return np.array(list(itertools.combinations(range(n_pairs), rules.n_samples)), np.intp)
    keys = rng.random((rules.n_trials, n_pairs))
    return np.argpartition(keys, rules.n_samples, axis=1)[:, : rules.n_samples]
