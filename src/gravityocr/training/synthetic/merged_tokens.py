"""Markup as the network writes it: tokens that show one glyph, or one rule, together are one token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gravityocr.training.synthetic.latex_vocabulary import MERGED_LATEX_TOKENS
from gravityocr.training.synthetic.shards import RenderedSample

_LATEX = frozenset(MERGED_LATEX_TOKENS)
_LONGEST = 4  # tokens of a script of one glyph


def merge_tokens(sample: RenderedSample, merged: frozenset[str]) -> RenderedSample:
    """Return a sample whose target is written in merged tokens, from left to right and the longest first.

    A merged token lies where its glyph does.
    """
    tokens: list[str] = []
    centers: list[np.ndarray] = []
    at = 0
    while at < len(sample.tokens):
        length = _merged_length(sample.tokens, at, merged)
        tokens.append("".join(sample.tokens[at : at + length]))
        part = sample.centers_px[at : at + length]
        seen = part[~np.isnan(part[:, 0])]
        centers.append(seen[0] if len(seen) else part[0])
        at += length
    places = np.array(centers, dtype=np.float32).reshape(-1, 2)
    return replace(sample, tokens=tuple(tokens), centers_px=places)


def with_merged_latex(sample: RenderedSample) -> RenderedSample:
    """Return a sample whose LaTeX is written in merged tokens."""
    return merge_tokens(sample, _LATEX)


def _merged_length(tokens: Sequence[str], at: int, merged: frozenset[str]) -> int:
    """Return how many tokens from `at` on are one."""
    for length in range(min(_LONGEST, len(tokens) - at), 1, -1):
        if "".join(tokens[at : at + length]) in merged:
            return length
    return 1
