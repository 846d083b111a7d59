"""Drawn pages, and what the tests of all page converters ask of a unit."""

from __future__ import annotations

import io

from PIL import Image, ImageDraw, ImageFont

from gravityocr.training.corpora.conversion import Converter, Skipped, Unit
from gravityocr.training.corpora.region_shards import LabelledRegion

TEXT = "the quick brown fox jumps over a lazy dog while many others look on and say nothing at all"
WORDS = TEXT.split()
SIZE = (850, 1100)


def draw_paragraph(page: Image.Image, left: int, top: int, n_lines: int, n_words: int = 11) -> None:
    """Draw lines of words, 24 px apart, black on what is there."""
    font = ImageFont.load_default(size=16)
    for row in range(n_lines):
        line = " ".join(WORDS[(row + k) % len(WORDS)] for k in range(n_words))
        ImageDraw.Draw(page).text((left, top + 24 * row), line, fill="black", font=font)


def text_page(n_paragraphs: int = 2) -> Image.Image:
    """Give a page of paragraphs, far apart."""
    page = Image.new("RGB", SIZE, "white")
    for number in range(n_paragraphs):
        draw_paragraph(page, 90, 120 + 320 * number, 8)
    return page


def blank_page() -> Image.Image:
    """Give a page without ink."""
    return Image.new("RGB", SIZE, "white")


def encoded(page: Image.Image, kind: str = "PNG") -> bytes:
    """Encode a page."""
    buffer = io.BytesIO()
    page.save(buffer, format=kind)
    return buffer.getvalue()


def taken(converter: Converter, unit: Unit) -> tuple[list[LabelledRegion], list[Skipped]]:
    """Give the regions of a unit, and what it skipped."""
    found = [*converter.regions(unit)]
    regions = [item for item in found if isinstance(item, LabelledRegion)]
    return regions, [item for item in found if isinstance(item, Skipped)]
