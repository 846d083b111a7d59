"""Outlines of masks: exact for shapes known to the cell, generous, and silent where the box says as much."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from gravityocr.document import Box, Polygon
from gravityocr.pipeline.layout_v3_outline import _boundary, mask_outline

PAGE = (400, 800)  # of masks of 40 x 40 cells: a cell is 10 px wide, 20 px high


def mask(*rectangles: tuple[int, int, int, int]) -> np.ndarray:
    cells = np.zeros((40, 40), dtype=bool)
    for x0, y0, x1, y1 in rectangles:
        cells[y0:y1, x0:x1] = True
    return cells


def area(polygon: Polygon) -> float:
    x, y = np.array(polygon).T
    return float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


def test_a_mask_that_fills_its_box_or_nearly_needs_no_outline() -> None:
    box = Box(100, 200, 300, 600)
    assert mask_outline(mask((10, 10, 30, 30)), box, PAGE) == ()
    assert mask_outline(mask((11, 11, 29, 29)), box, PAGE) == ()
    assert mask_outline(mask((0, 0, 40, 40)), box, PAGE) == ()


def test_a_mask_that_shows_nothing_or_pieces_gives_none() -> None:
    box = Box(100, 200, 300, 600)
    assert mask_outline(mask(), box, PAGE) == ()
    assert mask_outline(mask((0, 0, 5, 5)), box, PAGE) == ()
    assert mask_outline(mask((10, 10, 30, 18), (10, 22, 30, 30)), box, PAGE) == ()
    assert mask_outline(mask((10, 10, 30, 18)), Box(100, 200, 101, 201), PAGE) == ()


def test_a_smaller_part_has_the_outline_of_that_part() -> None:
    outline = mask_outline(mask((10, 10, 30, 20)), Box(100, 200, 300, 600), PAGE)
    assert set(outline) == {(100, 200), (300, 200), (300, 400), (100, 400)}
    assert area(outline) == 200 * 200  # positive: clockwise as one sees it


def test_specks_beside_the_part_do_not_count() -> None:
    outline = mask_outline(mask((10, 10, 30, 20), (15, 28, 17, 30)), Box(100, 200, 300, 600), PAGE)
    assert area(outline) == 200 * 200


def test_an_inner_corner_is_left_out() -> None:
    outline = mask_outline(mask((10, 10, 30, 20), (10, 20, 20, 30)), Box(100, 200, 300, 600), PAGE)
    assert set(outline) == {(100, 200), (300, 200), (300, 400), (200, 600), (100, 600)}


@pytest.mark.parametrize("angle", [3, 8, 20])
def test_a_slanted_strip_keeps_its_cells(angle: int) -> None:
    strip = Image.new("1", (200, 200))
    ImageDraw.Draw(strip).rectangle((30, 80, 170, 120), fill=1)
    cells = np.asarray(strip.rotate(angle))
    outline = mask_outline(cells, Box(0, 0, 1000, 1000), (1000, 1000))
    assert 4 <= len(outline) <= 16
    drawn = Image.new("1", (1000, 1000))
    ImageDraw.Draw(drawn).polygon(outline, fill=1)
    large = np.asarray(drawn)
    centres = np.argwhere(cells) * 5 + 2
    assert large[centres[:, 0], centres[:, 1]].mean() > 0.97
    assert large.sum() < 1.1 * 25 * cells.sum()


def test_the_boundary_goes_around_holes_and_corners() -> None:
    ring = mask((5, 5, 15, 15)) & ~mask((8, 8, 12, 12))
    assert {tuple(point) for point in _boundary(ring)} == {(5, 5), (15, 5), (15, 15), (5, 15)}
    diagonal = mask((5, 5, 10, 10), (10, 10, 12, 12))
    points = [tuple(point) for point in _boundary(diagonal)]
    assert area(tuple(points)) == 25 + 4 and points.count((10, 10)) == 2


@pytest.mark.parametrize("seed", range(6))
def test_the_boundary_encloses_every_cell_of_a_ragged_part(seed: int) -> None:
    from scipy import ndimage

    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=(40, 40)), 2) > -0.02
    labels, _ = ndimage.label(noise, structure=np.ones((3, 3)))
    part = labels == 1 + int(np.bincount(labels.ravel())[1:].argmax())
    filled = ~_reached_from_outside(~part)
    assert area(tuple(map(tuple, _boundary(part)))) == filled.sum()


def _reached_from_outside(free: np.ndarray) -> np.ndarray:
    """Flag the free cells that a walk from the border, by sides alone, comes to."""
    padded = np.pad(free, 1, constant_values=True)
    reached, front = np.zeros_like(padded), [(0, 0)]
    while front:
        y, x = front.pop()
        if 0 <= y < padded.shape[0] and 0 <= x < padded.shape[1] and padded[y, x] and not reached[y, x]:
            reached[y, x] = True
            front += [(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
    return reached[1:-1, 1:-1]
