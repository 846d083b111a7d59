"""Parts of formulas, as they are cut where a formula is too wide for one piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gravityocr.training.synthetic.shards import RenderedSample

_INK_LEVEL = 70
_LEAST_GAP_PX = 4
_LEAST_TOKENS = 4
_MARGIN_PX = 2
_OPENING = frozenset(["{", "\\begin{array}"])
_CLOSING = frozenset(["}", "\\end{array}"])
# What belongs to the token before it, or to the one behind it.
_CLINGS = frozenset(["^", "_", "}", "\\end{array}", "\\prime ", "'"])
_TAKES = frozenset(["^", "_"])


def formula_part(sample: RenderedSample, rng: np.random.Generator) -> RenderedSample:
    """Return the formula left or right of a random blank that runs through its whole height, or as it is.

    A cut goes between tokens outside of all groups; delimiters may be parted from their partners.
    """
    cuts = list(_cuts(sample))
    if not cuts:
        return sample
    at, column = cuts[int(rng.integers(len(cuts)))]
    if rng.random() < 0.5:
        tokens, centers, image, offset = sample.tokens[:at], sample.centers_px[:at], sample.image[:, :column], 0
    else:
        tokens, centers, image, offset = sample.tokens[at:], sample.centers_px[at:], sample.image[:, column:], column
    rows, columns = np.nonzero(image < 255 - _INK_LEVEL)
    if rows.size == 0:
        return sample
    top, left = max(int(rows.min()) - _MARGIN_PX, 0), max(int(columns.min()) - _MARGIN_PX, 0)
    image = image[top : rows.max() + 1 + _MARGIN_PX, left : columns.max() + 1 + _MARGIN_PX]
    moved = centers - np.array([offset + left, top], dtype=np.float32)
    return replace(sample, image=image, tokens=tokens, centers_px=moved)


def _cuts(sample: RenderedSample) -> list[tuple[int, int]]:
    """Return (token, column) of every place where a formula may be cut."""
    x = sample.centers_px[:, 0]
    blank = np.asarray((sample.image >= 255 - _INK_LEVEL).all(axis=0))
    before = np.maximum.accumulate(np.where(np.isnan(x), -np.inf, x))
    behind = np.minimum.accumulate(np.where(np.isnan(x), np.inf, x)[::-1])[::-1]
    cuts = []
    for at in _boundaries(sample.tokens):
        low, high = before[at - 1], behind[at]
        if not (np.isfinite(low) and np.isfinite(high)) or high - low < _LEAST_GAP_PX:
            continue
        column = _widest_blank(blank, int(low), int(high))
        if column is not None:
            cuts.append((at, column))
    return cuts


def _boundaries(tokens: Sequence[str]) -> list[int]:
    """Return the token numbers before which a formula may be cut."""
    depth, found = 0, []
    for at, token in enumerate(tokens):
        depth -= token in _CLOSING
        alone = token not in _CLINGS and token not in _OPENING and (at == 0 or tokens[at - 1] not in _TAKES)
        if depth == 0 and alone and _LEAST_TOKENS <= at <= len(tokens) - _LEAST_TOKENS:
            found.append(at)
        depth += token in _OPENING
    return found


def _widest_blank(blank: np.ndarray, low: int, high: int) -> int | None:
    """Return the middle of the widest blank run between two columns, None where none is wide enough."""
    best, start, middle = _LEAST_GAP_PX - 1, None, None
    for column in range(low, min(high, len(blank) - 1) + 1):
        if blank[column]:
            start = column if start is None else start
        elif start is not None:
            if column - start > best:
                best, middle = column - start, (start + column) // 2
            start = None
    return middle
