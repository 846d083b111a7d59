"""LaTeX as the network writes it: tokens that show one glyph together are one token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gravityocr.training.synthetic.latex_vocabulary import MERGED_LATEX_TOKENS
from gravityocr.training.synthetic.shards import RenderedSample

_MERGED = frozenset(MERGED_LATEX_TOKENS)
_LONGEST = 4  # tokens of a script of one glyph


def with_merged_latex(sample: RenderedSample) -> RenderedSample:
    """Return a sample whose LaTeX is written in merged tokens, from left to right and the longest first.

    A merged token lies where its glyph does.
    """
    tokens: list[str] = []
    centers: list[np.ndarray] = []
    at = 0
    while at < len(sample.tokens):
        length = _merged_length(sample.tokens, at)
        tokens.append("".join(sample.tokens[at : at + length]))
        part = sample.centers_px[at : at + length]
        seen = part[~np.isnan(part[:, 0])]
        centers.append(seen[0] if len(seen) else part[0])
        at += length
    places = np.array(centers, dtype=np.float32).reshape(-1, 2)
    return replace(sample, tokens=tuple(tokens), centers_px=places)


def _merged_length(tokens: Sequence[str], at: int) -> int:
    """Return how many tokens from `at` on are one."""
    for length in range(min(_LONGEST, len(tokens) - at), 1, -1):
        if "".join(tokens[at : at + length]) in _MERGED:
            return length
    return 1
