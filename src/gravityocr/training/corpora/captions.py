"""Targets as captions on a sheet: every character shows, by a glyph of some font or by its code.

Fonts are looked for by name: those of matplotlib and of the system, where there are any, then Pillow's own. What none
of them has is written as its code, `‹U+4E2D›`; a line break is a sign of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

SIZE_PX = 12
LINE_PX = 17
_FONTS = (
    "DejaVuSans.ttf", "NotoSansCJK-Regular.ttc", "NotoSansCJKsc-Regular.otf", "NotoSansSC-Regular.otf",
    "SourceHanSansSC-Regular.otf", "wqy-microhei.ttc", "wqy-zenhei.ttc", "DroidSansFallbackFull.ttf",
    "Hiragino Sans GB.ttc", "PingFang.ttc", "Arial Unicode.ttf", "msyh.ttc", "simsun.ttc", "arial.ttf",
)  # fmt: skip
_NO_CHARACTER = "\U0010fffe"  # what a font draws for it, it draws for all that it lacks
_BREAKS = "⏎↵"


@dataclass(frozen=True)
class Run:
    """Characters that one font draws. *Units*: pixels."""

    text: str
    font: ImageFont.FreeTypeFont
    width_px: float


def caption_lines(text: str, width_px: int, most: int) -> list[tuple[Run, ...]]:
    """Return a text in lines that fit a width, `most` of them at most; the last one then ends in an ellipsis."""
    lines: list[list[tuple[str, ImageFont.FreeTypeFont]]] = [[]]
    used = 0.0
    for shown, font in _glyphs(text):
        needed = font.getlength(shown)
        if used + needed > width_px:
            if len(lines) == most:
                _end(lines[-1], width_px)
                break
            lines.append([])
            used = 0.0
        lines[-1].append((shown, font))
        used += needed
    return [_runs(line) for line in lines]


def draw_caption(picture: Image.Image, place: tuple[int, int], line: tuple[Run, ...], color: str) -> None:
    """Draw a line of a caption; `place` is its upper left corner. *Units*: pixels."""
    draw = ImageDraw.Draw(picture)
    x = float(place[0])
    for run in line:
        draw.text((x, place[1] + SIZE_PX), run.text, fill=color, font=run.font, anchor="ls")
        x += run.width_px


def _glyphs(text: str) -> Iterator[tuple[str, ImageFont.FreeTypeFont]]:
    for character in text:
        if character == "\n":
            shown = next((one for one in _BREAKS if _font_of(one) is not None), "\\n")
            yield shown, _font_of(shown[0]) or _fonts()[-1]
            continue
        font = _font_of(character) if character.isprintable() else None
        if font is not None:
            yield character, font
        else:
            yield f"‹U+{ord(character):04X}›", _font_of("‹") or _fonts()[-1]


def _end(line: list[tuple[str, ImageFont.FreeTypeFont]], width_px: int) -> None:
    font = _font_of("…") or _fonts()[-1]
    while line and sum(one.getlength(shown) for shown, one in line) + font.getlength("…") > width_px:
        line.pop()
    line.append(("…", font))


def _runs(line: list[tuple[str, ImageFont.FreeTypeFont]]) -> tuple[Run, ...]:
    runs: list[Run] = []
    for shown, font in line:
        text = runs.pop().text + shown if runs and runs[-1].font is font else shown
        runs.append(Run(text, font, font.getlength(text)))
    return tuple(runs)


@lru_cache(maxsize=65_536)
def _font_of(character: str) -> ImageFont.FreeTypeFont | None:
    """Return the first font that has a character."""
    return next((font for font in _fonts() if character.isspace() or _has(font, character)), None)


def _has(font: ImageFont.FreeTypeFont, character: str) -> bool:
    glyph, none = font.getmask(character), font.getmask(_NO_CHARACTER)
    return (glyph.size, bytes(glyph)) != (none.size, bytes(none))


@lru_cache(maxsize=1)
def _fonts() -> tuple[ImageFont.FreeTypeFont, ...]:
    """Return the fonts that are there, Pillow's own last."""
    found: list[ImageFont.FreeTypeFont] = []
    for name in _FONTS:
        for place in (name, _beside_matplotlib(name)):
            try:
                found.append(ImageFont.truetype(str(place), SIZE_PX))
                break
            except OSError:  # not on this machine
                continue
    own = ImageFont.load_default(SIZE_PX)
    return (*found, own) if isinstance(own, ImageFont.FreeTypeFont) else tuple(found)


def _beside_matplotlib(name: str) -> Path:
    spec = find_spec("matplotlib")
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else Path()
    return folder / "mpl-data" / "fonts" / "ttf" / name
