"""Formulas rendered with TeX, many a run, and read back as one box per token.

The official scorer starts pdflatex and ImageMagick once per formula. Here a run holds a batch, PDFium rasterises its
pages in this process on a clear background (so that each pixel keeps the exact colour of its token), and one pass over
the inked pixels yields all boxes.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw
from numpy.typing import NDArray

from gravityocr.metrics.formulas.latex_coloring import PALETTE_SIDE, PALETTE_STEP, ColoredFormula, color_formula
from gravityocr.metrics.formulas.latex_tokens import FormulaSyntaxError, tokenize_formula, tokenize_tabular
from gravityocr.metrics.formulas.safe_commands import is_contained
from gravityocr.metrics.formulas.tex_runner import (
    DEBIAN_PACKAGES,
    FINAL_PAPER,
    Fate,
    Kind,
    ToolMissingError,
    document,
    read_fates,
    run_tex,
)

DPI = 200
CROP_MARGIN = 8
# Below it an edge pixel is no ink; the value at which the boxes agree best with those of Ghostscript.
MIN_OPACITY = 20
MAX_CHARS = 50_000
MAX_PAGES_ALONE = 16
MAX_TOKENS = 3_000
MAX_PAGE_PIXELS = 64_000_000
PERCENT_MARK = "<PERCENTAGETOKEN>"
_SPACED_PERCENT_MARK = " ".join(PERCENT_MARK)
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_CHINESE_RUN = re.compile(r"[\u4e00-\u9fff\u3400-\u4dbf]+")
_CHINESE_MATHRM = re.compile(r"\\mathrm\s*\{([^{}]*[\u4e00-\u9fff\u3400-\u4dbf][^{}]*)\}")
_CHINESE_TEXT = re.compile(r"\\text\s*\{([^{}]*[\u4e00-\u9fff\u3400-\u4dbf][^{}]*)\}")
# PDFium keeps state of its own per process.
_pdfium_lock = threading.Lock()

RenderStatus = Literal["ok", "empty", "unrenderable", "timeout"]


@dataclass(frozen=True)
class TokenBoxes:
    """The tokens of a formula that left ink, their boxes and the size of the cropped picture.

    *Shapes*: `boxes` int32 [T, 4] as x0, y0, x1, y1; `roles` [T], as `token_roles` reads them from the LaTeX.
    *Units*: pixels at 200 dpi. `error` explains a status that is not ok.
    """

    tokens: tuple[str, ...] = ()
    boxes: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 4), np.int32))
    size: tuple[int, int] = (1, 1)
    status: RenderStatus = "ok"
    error: str | None = None
    roles: tuple[str, ...] = ()


@dataclass
class _Job:
    index: int
    formula: ColoredFormula
    kind: Kind
    paper: int
    alone: bool
    left_s: float  # for all runs that are still to come; of a shared run each formula bears its part


def prepare_formula(latex: str) -> tuple[ColoredFormula, Kind]:
    """Tokenise and colour a formula as the official scorer does, its raw text where it does not parse.

    *Raises*: `FormulaSyntaxError` where even the raw text cannot be coloured, or it is too long.
    """
    if len(latex) > MAX_CHARS:
        raise FormulaSyntaxError(f"formula of {len(latex)} characters: at most {MAX_CHARS} are rendered; shorten it")
    kind: Kind = "math"
    if "tabular" in latex:
        kind = "tabular"
    elif _CHINESE.search(latex):
        kind = "chinese"
        latex = _wrap_chinese(latex.replace("，", ", ").replace("：", ": ").replace("；", "; "))
    latex = latex.replace("\n", " ").replace("\\%", PERCENT_MARK)
    try:
        tokens = tokenize_tabular(latex) if kind == "tabular" else tokenize_formula(latex)
    except FormulaSyntaxError:
        tokens = []
    text = " ".join(tokens) if tokens else latex
    if _CHINESE.search(text):
        text = _CHINESE_MATHRM.sub(r"\\text{\1}", text)
        text = _CHINESE_TEXT.sub(lambda match: f"\\text {{ {match.group(1).strip()} }}", text)
    return color_formula(_without_controls(text.replace(_SPACED_PERCENT_MARK, "\\%"))), kind


def _wrap_chinese(latex: str) -> str:
    """Put every run of Chinese characters into `\\text{...}` unless it already is its whole content."""
    latex = re.sub(r"\\text\s*\{", r"\\text{", latex)

    def wrap(match: re.Match[str]) -> str:
        whole = latex[: match.start()].endswith("\\text{") and re.match(r"\s*}", latex[match.end() :])
        return match.group() if whole else f"\\text{{{match.group()}}}"

    return _CHINESE_RUN.sub(wrap, latex)


def _without_controls(text: str) -> str:
    """Drop what no TeX file can hold: control characters and lone surrogates."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", "", text)


def render_formulas(formulas: Sequence[str], *, batch_size: int, timeout_s: float) -> list[TokenBoxes]:
    """Render formulas and return the boxes of their tokens, in order; a bad formula only fails itself.

    `timeout_s` is for all that is tried on one formula, paper sizes and runs of its own together.

    *Raises*: `ToolMissingError` where pdflatex or one of its packages is missing.
    """
    results: list[TokenBoxes] = [TokenBoxes(status="empty", error="no LaTeX")] * len(formulas)
    waiting: list[_Job] = []
    for i, latex in enumerate(formulas):
        if not latex.strip():
            continue
        try:
            formula, kind = prepare_formula(latex)
        except FormulaSyntaxError as problem:
            results[i] = TokenBoxes(status="unrenderable", error=str(problem))
            continue
        if len(formula.tokens) > MAX_TOKENS:
            error = f"formula of {len(formula.tokens)} tokens: at most {MAX_TOKENS} are scored; shorten it"
            results[i] = TokenBoxes(status="unrenderable", error=error)
            continue
        paper = 5 - (len(formula.tokens) > 600) - (len(formula.tokens) > 1300)
        alone = kind == "tabular" or not is_contained(formula.latex)
        waiting.append(_Job(i, formula, kind, paper, alone, timeout_s))
    while waiting:
        batch, waiting = _next_batch(waiting, batch_size)
        run = _run_alone if batch[0].alone else _run_shared
        waiting += run(batch, timeout_s, results)
    return results


def _next_batch(waiting: list[_Job], batch_size: int) -> tuple[list[_Job], list[_Job]]:
    first = waiting[0]
    if first.alone:
        return [first], waiting[1:]
    fits = [job for job in waiting if not job.alone and (job.kind, job.paper) == (first.kind, first.paper)][:batch_size]
    taken = {job.index for job in fits}
    return fits, [job for job in waiting if job.index not in taken]


def _run_shared(jobs: list[_Job], timeout_s: float, results: list[TokenBoxes]) -> list[_Job]:
    """Render a batch in one run; return the jobs that need another one."""
    began = time.monotonic()
    source = document([job.formula.latex for job in jobs], jobs[0].kind, jobs[0].paper, marked=True)
    run = run_tex(source, max(job.left_s for job in jobs))
    _refuse_missing_package(run.output)
    fates = read_fates(run.output, len(jobs), run.pdf is not None)
    pages = _read_pdf(run.pdf) if run.pdf is not None else None
    spent_s = (time.monotonic() - began) / len(jobs)
    again: list[_Job] = []
    for job, fate in zip(jobs, fates, strict=True):
        if fate.outcome == "done" and pages is not None and fate.page < len(pages):
            results[job.index] = _boxes_of(job.formula, [pages[fate.page]])
        elif job.left_s <= spent_s:
            results[job.index] = _late(timeout_s)
        elif fate.outcome == "overfull" and job.paper > FINAL_PAPER:
            again.append(replace(job, paper=job.paper - 1, left_s=job.left_s - spent_s))
        else:
            again.append(replace(job, alone=fate.outcome != "again", left_s=job.left_s - spent_s))
    if again and all(fate == Fate("again") for fate in fates):
        again[0].alone = True
    return again


def _run_alone(jobs: list[_Job], timeout_s: float, results: list[TokenBoxes]) -> list[_Job]:
    """Render one formula the official way: whatever PDF comes out counts; a page that is too small is tried larger."""
    (job,) = jobs
    began = time.monotonic()
    run = run_tex(document([job.formula.latex], job.kind, job.paper, marked=False), job.left_s)
    if run.timed_out:
        results[job.index] = _late(timeout_s)
        return []
    _refuse_missing_package(run.output)
    n_pages = _count_pages(run.pdf) if run.pdf is not None else 0
    if run.pdf is None or not 0 < n_pages <= MAX_PAGES_ALONE:
        errors = [line for line in run.output.splitlines() if line.startswith("!")]
        results[job.index] = TokenBoxes(status="unrenderable", error=f"TeX gave no usable PDF: {'; '.join(errors[:2])}")
    elif job.paper > FINAL_PAPER and ("Overfull \\" in run.output or n_pages > 1):
        left_s = job.left_s - (time.monotonic() - began)
        if left_s > 0:
            return [replace(job, paper=job.paper - 1, left_s=left_s)]
        results[job.index] = _late(timeout_s)
    else:
        results[job.index] = _boxes_of(job.formula, _read_pdf(run.pdf) or [])
    return []


def _late(timeout_s: float) -> TokenBoxes:
    return TokenBoxes(status="timeout", error=f"TeX did not finish in {timeout_s:g} s")


def _refuse_missing_package(output: str) -> None:
    missing = re.search(r"^! LaTeX Error: File `([\w.-]+\.(?:sty|cls|fd))' not found", output, re.M)
    if missing and "@b 0" not in output and "\n! " not in output[: missing.start()]:
        raise ToolMissingError(
            f"TeX lacks {missing.group(1)}, which CDM needs: apt-get install {' '.join(DEBIAN_PACKAGES)}"
        )


@dataclass(frozen=True)
class _Page:
    """The inked part of a page: palette code per pixel (0: none), its place on the page, the size of the page."""

    codes: NDArray[np.int32]
    left: int
    top: int
    width: int
    height: int


def _read_pdf(data: bytes) -> list[_Page] | None:
    """Rasterise all pages; None where PDFium cannot read the file or a page is out of proportion."""
    with _opened(data) as pdf:
        return [_read_page(pdf[i]) for i in range(len(pdf))] if pdf is not None else None


def _count_pages(data: bytes) -> int:
    """Count the pages; 0 where PDFium cannot read the file or a page is out of proportion."""
    with _opened(data) as pdf:
        return len(pdf) if pdf is not None else 0


@contextmanager
def _opened(data: bytes) -> Iterator[pdfium.PdfDocument | None]:
    with _pdfium_lock:
        try:
            pdf = pdfium.PdfDocument(data)
        except pdfium.PdfiumError:
            yield None
            return
        try:
            yield pdf if _fits(pdf) else None
        finally:
            pdf.close()


def _fits(pdf: pdfium.PdfDocument) -> bool:
    most = MAX_PAGE_PIXELS * (72 / DPI) ** 2
    sizes = [pdf.get_page_size(i) for i in range(len(pdf))]
    return bool(sizes) and all(width * height <= most for width, height in sizes)


def _read_page(page: pdfium.PdfPage) -> _Page:
    # On a clear background a smoothed edge keeps its colour and only its opacity falls.
    bitmap = page.render(
        scale=DPI / 72, fill_color=(0, 0, 0, 0), force_bitmap_format=pypdfium2.raw.FPDFBitmap_BGRA, rev_byteorder=True
    )
    pixels = bitmap.to_numpy()
    height, width = pixels.shape[:2]
    rows = np.flatnonzero(pixels.view(np.uint32).reshape(height, width).any(axis=1))
    if not rows.size:
        return _Page(np.zeros((0, 0), np.int32), 0, 0, width, height)
    inked = pixels[rows[0] : rows[-1] + 1]
    visible = inked[..., 3] >= MIN_OPACITY
    columns = np.flatnonzero(visible.any(axis=0))
    rows_in = np.flatnonzero(visible.any(axis=1))
    if not columns.size:
        return _Page(np.zeros((0, 0), np.int32), 0, 0, width, height)
    window = (slice(rows_in[0], rows_in[-1] + 1), slice(columns[0], columns[-1] + 1))
    colors = inked[window][..., :3].astype(np.int32)
    level = colors // PALETTE_STEP
    codes = (level[..., 0] * PALETTE_SIDE + level[..., 1]) * PALETTE_SIDE + level[..., 2]
    exact = (colors % PALETTE_STEP == 0).all(axis=-1) & visible[window]
    top = int(rows[0] + rows_in[0])
    return _Page(np.where(exact, codes, 0).astype(np.int32), int(columns[0]), top, width, height)


def _boxes_of(formula: ColoredFormula, pages: Iterable[_Page]) -> TokenBoxes:
    """Measure the box of every token on pages that hang below each other, cropped to the ink and a margin."""
    n_tokens = len(formula.tokens)
    low = np.full((n_tokens, 2), np.iinfo(np.int32).max, np.int32)
    high = np.full((n_tokens, 2), -1, np.int32)
    extents: list[tuple[int, int, int, int]] = []
    width = height = 0
    for page in pages:
        if page.codes.size:
            rows, columns = np.nonzero((page.codes > 0) & (page.codes <= n_tokens))
            places = np.stack((columns + page.left, rows + page.top + height), axis=1).astype(np.int32)
            index = page.codes[rows, columns] - 1
            np.minimum.at(low, index, places)
            np.maximum.at(high, index, places)
            bottom, right = page.top + page.codes.shape[0] - 1, page.left + page.codes.shape[1] - 1
            extents.append((page.left, page.top + height, right, bottom + height))
        width, height = max(width, page.width), height + page.height
    seen = np.flatnonzero(high[:, 0] >= 0)
    if not seen.size:
        return TokenBoxes(status="empty", error="the render shows no token")
    ink = np.asarray(extents)
    x0, y0 = (max(0, int(v) - CROP_MARGIN) for v in ink[:, :2].min(axis=0))
    x1, y1 = (int(v) + CROP_MARGIN for v in ink[:, 2:].max(axis=0))
    origin = np.array([x0, y0], np.int32)
    boxes = np.concatenate((low[seen] - 1 - origin, high[seen] + 1 - origin), axis=1)
    size = (min(width, x1) - x0, min(height, y1) - y0)
    tokens, roles = (tuple(names[i] for i in seen) for names in (formula.tokens, formula.roles))
    return TokenBoxes(tokens, boxes, size, roles=roles)
