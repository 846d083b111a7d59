"""Crops of single formulas: set by TeX in the usual mathematical fonts, the place of every token known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gravityocr.errors import ConfigError, InputError
from gravityocr.training.synthetic.fonts import Split
from gravityocr.training.synthetic.formula_items import WrittenToken, write_items
from gravityocr.training.synthetic.formula_source import MAX_TOKENS, FormulaSource
from gravityocr.training.synthetic.shards import RenderedSample
from gravityocr.training.synthetic.tex_fonts import FONT_PACKAGES, MATH_FONTS, TexFont, font_preamble, pick_font
from gravityocr.training.synthetic.tex_pages import DPI, LIST_END, LIST_START, ColoredPage, color_node, render_pages

MARGIN_PX = 2
BATCH = 64
TIMEOUT_S = 300.0
MAX_VAIN_BATCHES = 20
MAX_VAIN_DRAWS = 2000
_POINTS = 72.27
_MIN_SEEN = 0.8  # of the marks; where fewer are seen, something covers them


@dataclass(frozen=True)
class Painted:
    """A formula whose marks have colours: its TeX, its tokens, and the number of each token's mark, -1 for none."""

    latex: str
    tokens: tuple[WrittenToken, ...]
    marks: tuple[int, ...]

    @property
    def n_marks(self) -> int:
        """Return how many marks it draws."""
        return max(self.marks, default=-1) + 1


def paint(tokens: Sequence[WrittenToken], first_mark: int = 0) -> Painted:
    """Colour each token that draws a mark."""
    parts: list[str] = []
    marks: list[int] = []
    number = first_mark - 1
    for written in tokens:
        if written.role == "ink":
            number += 1
            parts.append(color_node(number))
        parts.append(LIST_END if written.role == "close" else "")
        parts.append(written.token)
        parts.append(LIST_START if written.role == "open" else "")
        marks.append(number if written.role in ("ink", "body") else -1)
    return Painted("".join(parts), tuple(tokens), tuple(marks))


def token_centers(painted: Painted, boxes: np.ndarray) -> np.ndarray:
    """Return the centre of each token.

    An accent and the letter that it leans on share a box: one gets its upper part, the other its middle. A root is
    found at its sign.

    *Shapes*: boxes [n_marks, 4]; returns float32 [n_tokens, 2], NaN without ink.
    """
    centers = np.full((len(painted.tokens), 2), np.nan, dtype=np.float32)
    for i, (written, mark) in enumerate(zip(painted.tokens, painted.marks, strict=True)):
        if mark < 0:
            continue
        left, top, right, bottom = boxes[mark]
        x, y = (left + right) / 2, (top + bottom) / 2
        shared = written.role == "body" or any(
            other.role == "body" and painted.marks[j] == mark
            for j, other in enumerate(painted.tokens[i + 1 : i + 5], start=i + 1)
        )
        sized = written.token.startswith(("\\big", "\\Big")) or (
            written.role == "body" and painted.tokens[i - 1].token.startswith(("\\big", "\\Big"))
        )
        if written.token == "\\sqrt ":
            x = left + min((right - left) / 2, 0.3 * (bottom - top) + 3)
        elif shared and not sized:
            y = top + (0.62 if written.role == "body" else 0.15) * (bottom - top)
        centers[i] = x, y
    return centers


def without_small_fences(
    tokens: Sequence[str], centers: np.ndarray, heights: np.ndarray, usual_px: float
) -> tuple[tuple[str, ...], np.ndarray]:
    r"""Write `(` for a `\left(` that came out no higher than an ordinary bracket, together with its partner.

    *Shapes*: heights [n_tokens], NaN without ink.
    """
    out: list[str | None] = list(tokens)
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.startswith("\\left") and not token[5:6].isalpha():
            opened.append(i)
        elif token.startswith("\\right") and not token[6:7].isalpha() and opened:
            start = opened.pop()
            if np.nanmax([heights[start], heights[i], 0.0]) <= usual_px:
                for at, prefix in ((start, "\\left"), (i, "\\right")):
                    mark = tokens[at].removeprefix(prefix)
                    out[at] = None if mark == "." else mark
    kept = [i for i, token in enumerate(out) if token is not None]
    return tuple(token for token in out if token is not None), centers[kept]


def make_formula_samples(data_dir: Path, split: Split, seed: int, n: int) -> Iterator[RenderedSample]:
    """Yield formula crops.

    *Units*: 200 dpi, type of 10 to 12 points; the ink has a margin of 2 pixels.
    *Raises*: InputError where the formulas are missing, ToolMissingError without pdflatex.
    """
    source = FormulaSource(data_dir, split)
    rng = np.random.default_rng((seed, 0xF0))
    done = n_vain = 0
    while done < n:
        samples = list(_batch(source, rng, min(BATCH, n - done)))
        done += len(samples)
        n_vain = 0 if samples else n_vain + 1
        if n_vain == MAX_VAIN_BATCHES:
            raise ConfigError(f"TeX set none of {n_vain * BATCH} formulas; apt-get install {' '.join(FONT_PACKAGES)}")
        yield from samples


def _batch(source: FormulaSource, rng: np.random.Generator, n: int) -> Iterator[RenderedSample]:
    font = pick_font(MATH_FONTS, rng)
    size_pt = int(rng.choice([10, 11, 12], p=[0.4, 0.2, 0.4]))
    bodies: list[str] = []
    painted: list[Painted] = []
    sources: list[str] = []
    n_vain = 0
    while len(bodies) < n:
        n_vain += 1
        if n_vain == MAX_VAIN_DRAWS:
            what = f"none of {n_vain} formulas of {source.file} can be set"
            raise InputError(f"{what}; run scripts/prepare_data.py again")
        try:
            formula = source.draw_varied(rng)
            tokens = write_items(formula.items)
        except InputError:  # renaming may ask for a letter that a font lacks
            continue
        if len(tokens) > MAX_TOKENS or not font.can_set(written.token for written in tokens):
            continue
        n_vain = 0
        painted.append(paint(tokens))
        bodies.append(f"${_style(tokens, rng)}{painted[-1].latex}$")
        sources.append(formula.source)
    pages = render_pages(font_preamble(font, size_pt), bodies, [p.n_marks for p in painted], timeout_s=TIMEOUT_S)
    for formula_painted, page, origin in zip(painted, pages, sources, strict=True):
        sample = _sample(formula_painted, page, font, size_pt, origin) if page is not None else None
        if sample is not None:
            yield sample


def _style(tokens: Sequence[WrittenToken], rng: np.random.Generator) -> str:
    """Return what sets the style of a formula; an alignment looks like that of amsmath in most cases."""
    names = [written.token for written in tokens]
    if "\\begin{array}" in names and names[names.index("\\begin{array}") + 2] == "r" and rng.random() < 0.8:
        return "\\everymath{\\displaystyle}\\arraycolsep1pt\\def\\arraystretch{1.3}\\displaystyle "
    return "\\displaystyle " if rng.random() < 0.85 else "\\textstyle "


def _sample(painted: Painted, page: ColoredPage, font: TexFont, size_pt: int, source: str) -> RenderedSample | None:
    if np.isfinite(page.boxes[:, 0]).mean() < _MIN_SEEN:
        return None
    centers = token_centers(painted, page.boxes)
    heights = np.array([page.boxes[m, 3] - page.boxes[m, 1] if m >= 0 else np.nan for m in painted.marks])
    usual_px = 1.12 * size_pt * DPI / _POINTS
    tokens, centers = without_small_fences([t.token for t in painted.tokens], centers, heights, usual_px)
    image = np.pad(page.image, MARGIN_PX, constant_values=255)
    return RenderedSample("formula", image, tokens, (centers + MARGIN_PX).astype(np.float32), f"{source} {font.name}")
