"""How large a crop is when the network looks at it, and how many tokens that costs: one rule for all who ask."""

from __future__ import annotations

import math
from dataclasses import dataclass

MAX_ASPECT = 200
"""Longer crops are padded before they are fitted: GLM-OCR's processor refuses them."""


@dataclass(frozen=True)
class SizeRule:
    """Sizes in multiples of a merged cell within pixel limits; the defaults are GLM-OCR's (28 px cells).

    *Units*: `min_pixels` and `max_pixels` count pixels times `temporal_patch_size`.
    """

    patch_size: int = 14
    temporal_patch_size: int = 2
    merge_size: int = 2
    min_pixels: int = 112 * 112
    max_pixels: int = 28 * 28 * 15000

    @property
    def cell_px(self) -> int:
        """Return the side of a merged cell, which is one image token."""
        return self.patch_size * self.merge_size
