r"""Pages set by TeX on which every mark has a colour of its own, read back as a picture and one box a mark.

A document holds one box a page, as wide and high as what stands in it. Colours are set by bare `\pdfcolorstack` nodes,
which move nothing: no group, no atom, no change of spacing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw

from gravityocr.metrics.formulas.latex_coloring import PALETTE_SIDE, PALETTE_STEP, palette_color
from gravityocr.metrics.formulas.tex_runner import run_tex

DPI = 200
MIN_OPACITY = 20  # below it an edge pixel does not count as ink
_PAGE = re.compile(r"^@b (\d+)$(.*?)^@e \1 (\d+) (\d+) (\d+)$", re.M | re.S)
_SCALED_POINTS = 65536 * 72.27  # an inch
_HEAD = r"""
\makeatletter
\def\GC#1{\pdfcolorstack0 set{#1}}
\def\GU{\pdfcolorstack0 push{0 g 0 G}}
\def\GV{\pdfcolorstack0 pop\relax}
\newbox\GB \newcount\GN
\def\GP#1#2{\message{^^J@b #1^^J}\setbox\GB\hbox{#2}%
\pdfpagewidth\dimexpr\wd\GB+20bp\relax\pdfpageheight\dimexpr\ht\GB+\dp\GB+20bp\relax
\pdfhorigin10bp\pdfvorigin10bp\edef\GH{\number\ht\GB\space\number\wd\GB}\shipout\box\GB\advance\GN1 %
\message{^^J@e #1 \the\GN\space\GH^^J}}
\makeatother
\begin{document}
\maxdeadcycles10000
"""


@dataclass(frozen=True)
class ColoredPage:
    """A page trimmed to its ink.

    *Shapes*: image uint8 [H, W], dark on white; boxes float32 [n_marks, 4] (left, top, right, bottom), NaN for a mark
    without ink.
    *Units*: pixels of the trimmed picture; `baseline` is counted from its top, `advance` is the width that TeX gives
    the box.
    """

    image: np.ndarray
    boxes: np.ndarray
    baseline: float
    advance: float


def color_node(mark: int) -> str:
    """Return the TeX that colours all that follows in the list as mark number `mark`."""
    red, green, blue = (f"{level / 255:.5f}" for level in palette_color(mark))
    return f"\\GC{{{red} {green} {blue} rg {red} {green} {blue} RG}}"


LIST_START, LIST_END = "\\GU ", "\\GV "
"""What frames a list that is set by itself, so that what is drawn behind it has the colour before it."""


def render_pages(
    preamble: str, bodies: Sequence[str], n_marks: Sequence[int], *, timeout_s: float, dpi: float = DPI
) -> list[ColoredPage | None]:
    """Set each body in a horizontal box on a page of its own; None for one that TeX complains about or that is blank.

    *Raises*: ToolMissingError where pdflatex is missing.
    """
    pages = "".join(f"\\GP{{{number}}}{{{body}}}\n" for number, body in enumerate(bodies))
    run = run_tex(f"{preamble}{_HEAD}{pages}\\csname @@end\\endcsname\n", timeout_s)
    results: list[ColoredPage | None] = [None] * len(bodies)
    if run.pdf is None:
        return results
    pdf = pdfium.PdfDocument(run.pdf)
    try:
        for number, text, page, *size in _PAGE.findall(run.output):
            if "\n!" not in text and int(page) <= len(pdf):
                size_px = [int(length) / _SCALED_POINTS * dpi for length in size]
                results[int(number)] = _read_page(pdf[int(page) - 1], n_marks[int(number)], dpi, size_px)
    finally:
        pdf.close()
    return results


def _read_page(page: pdfium.PdfPage, n_marks: int, dpi: float, size_px: list[float]) -> ColoredPage | None:
    """Return the picture and the boxes of a page: on a clear background a smoothed edge keeps its colour."""
    bitmap = page.render(
        scale=dpi / 72, fill_color=(0, 0, 0, 0), force_bitmap_format=pypdfium2.raw.FPDFBitmap_BGRA, rev_byteorder=True
    )
    pixels = bitmap.to_numpy()
    opacity = pixels[..., 3]
    rows, columns = np.flatnonzero(opacity.any(axis=1)), np.flatnonzero(opacity.any(axis=0))
    if not rows.size:
        return None
    window = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    opacity, colors = opacity[window], pixels[window][..., :3].astype(np.int32)
    level = colors // PALETTE_STEP
    codes = (level[..., 0] * PALETTE_SIDE + level[..., 1]) * PALETTE_SIDE + level[..., 2]
    exact = (colors % PALETTE_STEP == 0).all(axis=-1) & (opacity >= MIN_OPACITY) & (codes > 0) & (codes <= n_marks)
    y, x = np.nonzero(exact)
    places, index = np.stack([x, y], axis=1), codes[y, x] - 1
    low, high = np.full((n_marks, 2), np.iinfo(np.int64).max), np.full((n_marks, 2), -1)
    np.minimum.at(low, index, places)
    np.maximum.at(high, index, places + 1)
    boxes = np.concatenate([low, high], axis=1).astype(np.float32)
    boxes[high[:, 0] < 0] = np.nan
    origin = 10 * dpi / 72
    return ColoredPage(255 - opacity, boxes, origin + size_px[0] - float(rows[0]), size_px[1])
