"""Break text into lines, place the words, draw them and say where every character is."""

import math
from dataclasses import dataclass

import numpy as np
from PIL import ImageDraw

from gravityocr.training.synthetic.charset import LIGATURES
from gravityocr.training.synthetic.fonts import FontFace, FontLibrary

_SPACE_EM = 0.25


@dataclass(frozen=True)
class Style:
    """Hold how a crop is set.

    Units: `tracking` (extra advance of each character) and `space` (width of a word space) in em.
    """

    ligatures: bool
    tracking: float
    space: float
    justified: bool
    hyphenated: bool


@dataclass(frozen=True)
class Placed:
    """Hold a crop's words with their places.

    Units: final pixels; `rows` holds for each line its baseline and its (left edge, word, is last) triples;
    `top` and `bottom` bound the ink.
    """

    face: FontFace
    size: float
    style: Style
    rows: tuple[tuple[float, tuple[tuple[float, str], ...]], ...]
    text: str
    top: float
    bottom: float


def choose_style(rng: np.random.Generator, face: FontFace, difficulty: float) -> Style:
    """Choose ligatures, letter spacing and word spacing."""
    ligatures = rng.random() < {"serif": 0.5, "sans": 0.2}.get(face.kind, 0.0)
    tracking = float(rng.uniform(-0.03, 0.10)) if rng.random() < 0.08 * difficulty else 0.0
    space = face.advance(" ") or _SPACE_EM
    if rng.random() < 0.4 * difficulty:
        space = float(rng.uniform(0.2, 0.6)) if face.kind != "mono" else float(rng.uniform(0.45, 0.8))
    return Style(ligatures, tracking, space + tracking, bool(rng.random() < 0.4), bool(rng.random() < 0.2 * difficulty))


def _width(word: str, face: FontFace, size: float, style: Style) -> float:
    return size * (sum(map(face.advance, word)) + style.tracking * len(word))


def break_lines(
    words: list[str], face: FontFace, size: float, style: Style, room: float, lines: int, limit: int | None
) -> list[list[str]]:
    """Fill up to `lines` lines with at most `limit` words; a word wider than the room is cut or ends the text."""
    rows: list[list[str]] = []
    row: list[str] = []
    used = 0.0
    first = next((i for i, word in enumerate(words[:6]) if _width(word, face, size, style) <= room), 0)
    for word in words[first:][:limit]:
        width = _width(word, face, size, style)
        step = width if not row else width + style.space * size
        if used + step <= room:
            row.append(word)
            used += step
            continue
        if not row:
            keep = int(len(word) * room / width) - 1
            if keep < 1:
                return rows
            word, width = word[:keep], room
        else:
            spare = room - used - style.space * size
            cut = _hyphen_cut(word, face, size, style, spare) if style.hyphenated else 0
            if cut:
                row.append(word[:cut] + "-")
                word = word[cut:]
                width = _width(word, face, size, style)
            rows.append(row)
            row = []
        if len(rows) == lines:
            return rows
        if width > room:
            return rows
        row, used = [word], width
    if row:
        rows.append(row)
    return rows[:lines]


def _hyphen_cut(word: str, face: FontFace, size: float, style: Style, room: float) -> int:
    """Return how many letters of a word, with a hyphen, fit at the end of a line; 0 when none should."""
    if len(word) < 6 or not word.isalpha():
        return 0
    for cut in range(len(word) - 2, 1, -1):
        if _width(word[:cut] + "-", face, size, style) <= room:
            return cut
    return 0


class Typesetter:
    """Place and draw words with the faces of one library."""

    def __init__(self, fonts: FontLibrary) -> None:
        self._fonts = fonts

    def place(
        self,
        rng: np.random.Generator,
        face: FontFace,
        size: float,
        style: Style,
        rows: list[list[str]],
        left: float,
        room: float,
        line_height: int,
    ) -> Placed | None:
        """Choose baselines and left edges; None when a line is taller than its room."""
        up, down = face.ink()
        height = line_height * len(rows)
        font = self._fonts.instance(face, round(size, 2))
        _, above, _, below = font.getbbox(_glyphs(" ".join(map(" ".join, rows)), face, False), anchor="ls")
        above, below = max(-above, up * size), max(below, down * size)
        if above + below > line_height - 1:
            shrink = (line_height - 1.5) / (above + below)
            if shrink < 0.75:
                return None
            size = math.floor(2 * size * shrink) / 2
            above, below = above * shrink, below * shrink
        pitch = 0.0
        if len(rows) > 1:
            most = (height - 1 - above - below) / (len(rows) - 1)
            pitch = float(rng.uniform(min(line_height * 0.85, most), most))
        first = above + 0.5
        last = height - 0.5 - below - pitch * (len(rows) - 1)
        baseline = float(rng.uniform(first, max(last, first)))
        edges = []
        for index, row in enumerate(rows):
            edges.append((baseline + index * pitch, self._edges(rng, face, size, style, row, left, room, index, rows)))
        text = "\n".join(" ".join(row) for row in rows)
        bottom = baseline + pitch * (len(rows) - 1) + below
        return Placed(face, size, style, tuple(edges), text, baseline - above, bottom)

    def _edges(
        self,
        rng: np.random.Generator,
        face: FontFace,
        size: float,
        style: Style,
        row: list[str],
        left: float,
        room: float,
        index: int,
        rows: list[list[str]],
    ) -> tuple[tuple[float, str], ...]:
        """Return the left edge of every word; lines of a justified block but the last fill the room."""
        font = self._fonts.instance(face, round(size, 2))
        ratio = size / font.size
        features = face.layout_features(style.ligatures)
        widths = [font.getlength(w, features=features) * ratio + style.tracking * size * len(w) for w in row]
        gap = style.space * size
        if style.justified and index < len(rows) - 1 and len(row) > 1:
            gap = min(max((room - sum(widths)) / (len(row) - 1), 0.18 * size), 0.8 * size)
        spare = room - sum(widths) - gap * (len(row) - 1)
        if spare < 0 and len(row) > 1:
            gap = max(gap + spare / (len(row) - 1), 0.15 * size)
        x = left
        if len(rows) == 1 and spare > 4 and rng.random() < 0.15:
            x += float(rng.uniform(0, spare))
        edges = []
        for word, width in zip(row, widths, strict=True):
            edges.append((x, word))
            x += width + gap
        return tuple(edges)

    def draw(self, rng: np.random.Generator, draw: ImageDraw.ImageDraw, placed: Placed, scale: float) -> np.ndarray:
        """Draw every word; return the centre of every character in final pixels, [len(text), 2] float32."""
        face, style = placed.face, placed.style
        native = placed.size * scale
        font = self._fonts.instance(face, round(native, 2))
        features = face.layout_features(style.ligatures)
        up, down = face.ink()
        centers = np.empty((len(placed.text), 2), dtype=np.float32)
        position = 0
        for number, (baseline, words) in enumerate(placed.rows):
            middle = baseline - (up - down) / 2 * placed.size
            first = position
            end = words[0][0]
            for index, (x, word) in enumerate(words):
                if index:
                    centers[position, 0] = (end + x) / 2
                    position += 1
                advances = np.array([face.advance(c) for c in word]) * native / scale
                drawn = _glyphs(word, face, style.ligatures)
                if style.tracking:
                    advances += style.tracking * placed.size
                    edges = x + np.concatenate(([0.0], np.cumsum(advances)))
                    for char, edge in zip(_glyphs(word, face, False), edges, strict=False):
                        draw.text((edge * scale, baseline * scale), char, fill=255, font=font, anchor="ls")
                else:
                    draw.text(
                        (x * scale, baseline * scale),
                        drawn,
                        fill=255,
                        font=font,
                        anchor="ls",
                        features=features,
                    )
                    width = font.getlength(drawn, features=features) / scale
                    edges = x + np.concatenate(([0.0], np.cumsum(advances))) * (
                        width / max(float(advances.sum()), 1e-6)
                    )
                centers[position : position + len(word), 0] = (edges[:-1] + edges[1:]) / 2
                position += len(word)
                end = float(edges[-1])
            if number < len(placed.rows) - 1:
                centers[position, 0] = end
                position += 1
            centers[first:position, 1] = middle
        return centers

    def draw_neighbours(
        self,
        rng: np.random.Generator,
        draw: ImageDraw.ImageDraw,
        placed: Placed,
        scale: float,
        size: tuple[int, int],
        text: str,
    ) -> None:
        """Let a few pixels of the lines above and below reach into the crop."""
        width, height = size
        up, down = placed.face.ink()
        font = self._fonts.instance(placed.face, round(placed.size * scale, 2))
        features = placed.face.layout_features(placed.style.ligatures)
        which = int(rng.integers(3))
        text = _glyphs(text, placed.face, placed.style.ligatures)
        half = len(text) // 2
        x = -float(rng.uniform(0, 20)) * scale
        if which != 1:
            seen = float(rng.uniform(0.5, max(0.8, min(placed.top - 0.5, 5.0))))
            y = (seen - down * placed.size) * scale
            draw.text((x, y), text[:half], fill=255, font=font, anchor="ls", features=features)
        if which != 0:
            seen = float(rng.uniform(0.5, max(0.8, min(height - placed.bottom - 0.5, 5.0))))
            y = (height - seen + up * placed.size) * scale
            draw.text((x, y), text[half:], fill=255, font=font, anchor="ls", features=features)

    def underline(self, draw: ImageDraw.ImageDraw, placed: Placed, scale: float) -> None:
        """Underline the first line from its first to its last word."""
        baseline, words = placed.rows[0]
        x, word = words[-1]
        right = x + _width(word, placed.face, placed.size, placed.style)
        y = (baseline + 0.1 * placed.size) * scale
        draw.line(
            [(words[0][0] * scale, y), (right * scale, y)],
            fill=255,
            width=max(1, round(placed.size * scale / 18)),
        )


def _glyphs(word: str, face: FontFace, ligatures: bool) -> str:
    """Return the characters to draw for a word: presentation forms of ligatures, the micro sign for mu."""
    if face.micro_for_mu and "μ" in word:
        word = word.replace("μ", "µ")
    if ligatures and "f" in word:
        for letters, form in LIGATURES.items():
            if form in face.covered and letters in word:
                word = word.replace(letters, form)
    return word
