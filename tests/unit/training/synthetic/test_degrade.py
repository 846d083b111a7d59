"""Worn crops: still readable, a function of their generator, more worn the more difficult."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from gravityocr.training.synthetic.degrade import _bleed_through, degrade


def coverage() -> Image.Image:
    ink = np.zeros((32, 200), dtype=np.uint8)
    for x in range(10, 190, 12):
        ink[6:26, x : x + 4] = 255
    return Image.fromarray(ink)


@pytest.mark.parametrize("difficulty", [0.0, 0.5, 1.0])
def test_ink_stays_apart_from_paper(difficulty: float) -> None:
    ink = np.asarray(coverage()) > 0
    core = ink & np.roll(ink, 1, 1) & np.roll(ink, -1, 1)
    clear = ~ink & ~np.roll(ink, 3, 1) & ~np.roll(ink, -3, 1)
    for seed in range(150):
        grey = degrade(coverage(), np.random.default_rng(seed), difficulty).astype(float)
        assert grey.shape == (32, 200)
        assert abs(grey[core].mean() - grey[clear].mean()) > 25, seed


def test_a_crop_is_a_function_of_its_generator_and_wear_grows() -> None:
    one, same = (degrade(coverage(), np.random.default_rng(7), 1.0) for _ in range(2))
    assert np.array_equal(one, same)
    clean = 255.0 - np.asarray(coverage())
    changes = [
        np.mean([np.abs(degrade(coverage(), np.random.default_rng(s), d) - clean).mean() for s in range(60)])
        for d in (0.0, 0.5, 1.0)
    ]
    assert changes[0] < changes[1] < changes[2]


def test_bleed_through_is_paler_than_the_text() -> None:
    ink = np.asarray(coverage(), dtype=np.float32)
    for seed in range(20):
        shown = _bleed_through(ink, np.random.default_rng(seed))
        assert (shown >= ink).all() and (shown[ink == 0] <= 0.22 * 255).all() and (shown > ink).any()
