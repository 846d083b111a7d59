"""Captions: nothing of a target is lost for want of a glyph, and lines fit."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageFont

from gravityocr.training.corpora import captions
from gravityocr.training.corpora.captions import LINE_PX, SIZE_PX, caption_lines, draw_caption


def text_of(text: str, width_px: int = 2000, most: int = 5) -> list[str]:
    return ["".join(run.text for run in line) for line in caption_lines(text, width_px, most)]


def drawn(text: str) -> np.ndarray:
    picture = Image.new("RGB", (200, LINE_PX), "white")
    (line,) = caption_lines(text, 200, 1)
    draw_caption(picture, (0, 0), line, "black")
    return np.asarray(picture.convert("L"))


def test_what_no_font_has_is_written_as_its_code() -> None:
    assert text_of("a\U000ffff0b\u0001") == ["a‹U+FFFF0›b‹U+0001›"]


def test_line_breaks_are_visible() -> None:
    (line,) = text_of("one\ntwo")
    assert line in ("one⏎two", "one↵two", r"one\ntwo")


@pytest.fixture
def own_font(monkeypatch: pytest.MonkeyPatch):
    """Only Pillow's own font, as on a machine without others."""
    own = ImageFont.load_default(SIZE_PX)
    captions._font_of.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(captions, "_fonts", lambda: (own,))
        yield
    captions._font_of.cache_clear()


@pytest.mark.usefixtures("own_font")
def test_with_one_font_codes_stand_for_the_rest() -> None:
    (line,) = text_of("x\n中")
    assert line.startswith("x") and line.endswith("U+4E2D›") and "\n" not in line
    for one in "–—×":
        shown = text_of(one)[0]
        assert shown == one or shown == f"‹U+{ord(one):04X}›"


def test_dashes_differ_from_each_other_and_from_nothing() -> None:
    pictures = [drawn(one) for one in ("-", "–", "—", "×", "中", " ")]
    assert all((one < 128).any() for one in pictures[:-1]) and (pictures[-1] > 128).all()
    assert all((one != other).any() for i, one in enumerate(pictures) for other in pictures[:i])


def test_lines_fit_and_the_last_says_that_more_follows() -> None:
    lines = caption_lines("word " * 100, 120, 3)
    assert len(lines) == 3 and all(sum(run.width_px for run in line) <= 124 for line in lines)
    whole = "".join(run.text for line in lines for run in line)
    assert whole.endswith("…") and ("word " * 100).startswith(whole[:-1]) and len(whole) > 30
    assert text_of("word " * 100, 120, 200)[-1] != "…" and "".join(text_of("word " * 100, 120, 200)) == "word " * 100
    assert text_of("") == [""]
