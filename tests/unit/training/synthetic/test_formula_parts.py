"""Formulas cut in two."""

from __future__ import annotations

import numpy as np

from gravityocr.training.synthetic.formula_parts import formula_part
from gravityocr.training.synthetic.shards import RenderedSample

GLYPHS = "ab=cde"


def written(tokens: list[str], gap: int = 12, bar: bool = False) -> RenderedSample:
    """Draw each one-letter token as a block of 8 px; anything else has no ink."""
    image = np.full((40, 20 + (8 + gap) * len(tokens)), 255, dtype=np.uint8)
    centers = np.full((len(tokens), 2), np.nan, dtype=np.float32)
    for i, token in enumerate(tokens):
        if token in GLYPHS:
            left = 10 + (8 + gap) * i
            image[12:28, left : left + 8] = 0
            centers[i] = (left + 3.5, 19.5)
    if bar:
        image[34:36, 5:-5] = 0
    return RenderedSample("formula", image, tuple(tokens), centers, "test")


def test_both_halves_come_with_their_places() -> None:
    sample = written(list("ab=cde") * 2)
    halves = {formula_part(sample, np.random.default_rng(seed)).target for seed in range(40)}
    assert {"ab=c", "deab=cde", "ab=cde"} <= halves
    for seed in range(20):
        part = formula_part(sample, np.random.default_rng(seed))
        assert sample.target.startswith(part.target) or sample.target.endswith(part.target)
        for x, y in part.centers_px:
            assert part.image[int(y), int(x)] == 0
        columns = np.flatnonzero((part.image == 0).any(axis=0))
        assert columns[0] <= 2 and columns[-1] >= part.image.shape[1] - 3


def test_groups_and_scripts_stay_whole() -> None:
    sample = written(["a", "b", "=", "\\frac ", "{", "a", "b", "}", "{", "c", "d", "}", "^", "{", "e", "}", "a"])
    for seed in range(40):
        part = formula_part(sample, np.random.default_rng(seed)).target
        assert part.count("{") == part.count("}") and part[:1] not in ("^", "{", "}")


def test_no_cut_without_a_blank_through_the_whole_height() -> None:
    touching, barred = written(list("ab=cdeab"), gap=2), written(list("ab=cdeab"), bar=True)
    for sample in (touching, barred, written(list("ab"))):
        assert all(formula_part(sample, np.random.default_rng(seed)) is sample for seed in range(10))


def test_an_array_stays_whole() -> None:
    sample = written([*"ab=c", "\\begin{array}", "{", "c", "}", *"abcd", "\\end{array}", *"ab=c"])
    parts = [formula_part(sample, np.random.default_rng(seed)).target for seed in range(40)]
    assert len(set(parts)) > 1
    assert all(part.count("\\begin{array}") == part.count("\\end{array}") for part in parts)
