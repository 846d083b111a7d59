"""A page whose paragraphs are known to the pixel."""

from __future__ import annotations

import pytest
from PIL import Image
from tests.unit.pipeline.scripted import draw_lines


@pytest.fixture
def two_paragraphs() -> Image.Image:
    """A page of 800 x 1000 px with paragraphs at (100, 100)-(700, 300) and (100, 600)-(700, 800)."""
    image = Image.new("RGB", (800, 1000), "white")
    draw_lines(image, (100, 100, 700, 300))
    draw_lines(image, (100, 600, 700, 800))
    return image
