"""What a text layer says of one piece, in the characters that a small network writes."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

from gravityocr.document import Box, PlacedText

Corners = tuple[float, float, float, float]

_KEPT = frozenset("…™")
"""Networks write these as they look, though Unicode takes them apart."""
_FOLDS = {
    ord(char): to
    for chars, to in (
        ("\u2010\u2011", "-"), ("\u2012", "–"), ("\u2015", "—"), ("\u201a", ","), ("\u201e\u201f", "“"),
        ("\u201b", "‘"), ("\u2032\u02b9", "'"), ("\u2033", '"'), ("\u2219\u22c5", "·"), ("\u2043\u25cf\u2023", "•"),
        ("\u2044\u2215", "/"), ("\u2217", "*"), ("ϕ", "φ"), ("ϵ", "ε"),
    )
    for char in chars
}  # fmt: skip


def turned(words: Sequence[PlacedText], middle: tuple[float, float], angle_deg: float) -> Sequence[PlacedText]:
    """Return words whose middles are turned about that of their crop, as `Image.rotate` turns its pixels."""
    if not angle_deg:
        return words
    cosine, sine = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    found = []
    for word in words:
        box = word.box
        x, y = (box.x0 + box.x1) / 2 - middle[0], (box.y0 + box.y1) / 2 - middle[1]
        right, down = (cosine - 1) * x + sine * y, (cosine - 1) * y - sine * x
        found.append(PlacedText(word.text, Box(box.x0 + right, box.y0 + down, box.x1 + right, box.y1 + down)))
    return found


def text_within(words: Sequence[PlacedText], corners: Corners) -> str:
    """Return the text of one line's stretch (left, top, right, bottom), its words from left to right.

    Of a word that reaches over an end the characters are taken whose middles lie in the stretch, all characters of a
    word taken to be equally wide.
    """
    left, top, right, bottom = corners
    inside = [word for word in words if _is_placed(word) and top <= (word.box.y0 + word.box.y1) / 2 < bottom]
    parts = [
        part
        for word in sorted(inside, key=lambda word: word.box.x0)
        if word.box.x0 < right and word.box.x1 > left and (part := _part(word, left, right))
    ]
    return folded(" ".join(parts))


def _is_placed(word: PlacedText) -> bool:
    """Tell whether a word says something at a place: text layers come from anywhere."""
    return bool(word.text) and math.isfinite(word.box.x0 + word.box.y0 + word.box.x1 + word.box.y1)


def _part(word: PlacedText, left: float, right: float) -> str:
    """Return the characters of a word between two columns."""
    n = len(word.text)
    width = word.box.width / n
    if width <= 0:
        return word.text
    first = max(0, math.ceil((left - word.box.x0) / width - 0.5))
    end = min(n, math.ceil((right - word.box.x0) / width - 0.5))
    return word.text[first:end]


def folded(text: str) -> str:
    """Return a text with ligatures, wide letters and rare marks as a small network writes them."""
    if text.isascii():
        return text
    text = text.encode("utf-8", "ignore").decode("utf-8")  # a lone surrogate is no character
    text = text.translate(_FOLDS)
    return "".join(char if char in _KEPT else unicodedata.normalize("NFKC", char) for char in text)
