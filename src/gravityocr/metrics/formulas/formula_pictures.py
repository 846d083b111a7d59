"""Pictures of formulas for a reader: as TeX sets them, black on white."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pypdfium2 as pdfium
from PIL import Image, ImageChops

from gravityocr.metrics.formulas.safe_commands import is_contained
from gravityocr.metrics.formulas.tex_runner import Kind, document, read_fates, run_tex

_KINDS: tuple[Kind, ...] = ("math", "chinese", "tabular")
_SCALE = 150 / 72
_MARGIN_PX = 8
_PAPER = 5
_LARGE_PAPER = 2
_MOST_CHARS = 5000
_CHINESE = re.compile("[\u3400-\u9fff]")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def draw_formulas(formulas: Sequence[str], timeout_s: float = 10.0) -> list[bytes | None]:
    """Return a PNG of each formula, None for one that TeX cannot set.

    *Raises*: ToolMissingError where pdflatex is missing.
    """
    drawn: dict[str, bytes | None] = {}
    for kind in _KINDS:
        chosen = [latex for latex in dict.fromkeys(formulas) if _kind(latex) == kind]
        together = [latex for latex in chosen if kind != "tabular" and is_contained(latex)]
        drawn |= _draw(together, kind, _PAPER, timeout_s)
        for latex in chosen:
            if drawn.get(latex) is None:
                drawn |= _draw([latex], kind, _LARGE_PAPER, timeout_s)
    return [drawn[latex] for latex in formulas]


def _kind(latex: str) -> Kind:
    if "tabular" in latex:
        return "tabular"
    return "chinese" if _CHINESE.search(latex) else "math"


def _draw(formulas: Sequence[str], kind: Kind, paper: int, timeout_s: float) -> dict[str, bytes | None]:
    """Draw formulas of one kind in one run of TeX; those that it does not take are None.

    A formula that is alone is shown with its errors, as far as TeX has set it.
    """
    found: dict[str, bytes | None] = dict.fromkeys(formulas)
    usable = [latex for latex in formulas if latex.strip() and len(latex) <= _MOST_CHARS]
    if not usable:
        return found
    bodies = [_UNPRINTABLE.sub(" ", latex).replace("\n\n", "\n") for latex in usable]
    run = run_tex(document(bodies, kind, paper, marked=True), timeout_s)
    fates = read_fates(run.output, len(bodies), run.pdf is not None)
    if run.pdf is None:
        return found
    try:
        pdf = pdfium.PdfDocument(run.pdf)
    except pdfium.PdfiumError:
        return found
    try:
        for latex, fate in zip(usable, fates, strict=True):
            page = 0 if len(usable) == 1 else fate.page
            if 0 <= page < len(pdf):
                found[latex] = _png(pdf[page].render(scale=_SCALE).to_pil())
    finally:
        pdf.close()
    return found


def _png(page: Image.Image) -> bytes | None:
    """Cut a page to its ink and a margin; None where there is none."""
    gray = page.convert("L")
    box = ImageChops.invert(gray).getbbox()
    if box is None:
        return None
    paper = Image.new("L", (box[2] - box[0] + 2 * _MARGIN_PX, box[3] - box[1] + 2 * _MARGIN_PX), 255)
    paper.paste(gray.crop(box), (_MARGIN_PX, _MARGIN_PX))
    stream = io.BytesIO()
    paper.save(stream, "PNG")
    return stream.getvalue()
