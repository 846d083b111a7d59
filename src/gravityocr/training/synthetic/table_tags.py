"""Tags of table rows as the network writes them: one token for each rule that can be seen between two cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gravityocr.training.synthetic.merged_tokens import merge_tokens
from gravityocr.training.synthetic.shards import RenderedSample

MERGED_TAGS = ("<tr><td>", "<tr><td", "</td><td>", "</td><td", "</td></tr>")
_MERGED = frozenset(MERGED_TAGS)
_RULE_LEVEL = 110
_RULE_SHARE = 0.93


def with_merged_tags(sample: RenderedSample) -> RenderedSample:
    """Return a table sample whose neighbouring tags are one token, placed on its rule where the rules can be told.

    A draft holds where every token has a place of its own: three tags between two cells share one.
    """
    sample = merge_tokens(sample, _MERGED)
    centers = sample.centers_px
    tags = [i for i, token in enumerate(sample.tokens) if token.startswith(("<tr>", "</td>"))]
    rules = rule_columns(sample.image)
    if len(rules) == len(tags):
        middle = sample.image.shape[0] / 2
        centers[tags] = [(x, middle) for x in rules]
    return replace(sample, centers_px=centers)


def rule_columns(image: np.ndarray) -> list[float]:
    """Return the middles of the vertical rules that run through a whole piece. *Units*: pixels."""
    dark = (image[1:-1] < _RULE_LEVEL).mean(axis=0) >= _RULE_SHARE
    edges = np.flatnonzero(np.diff(np.concatenate([[False], dark, [False]]).astype(np.int8)))
    return [float(a + b - 1) / 2 for a, b in zip(edges[0::2], edges[1::2], strict=True)]
