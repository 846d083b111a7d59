"""PDF files as pages: opened with their password, rendered one at a time, bounded before rendering."""

from __future__ import annotations

import ctypes
import logging
import math
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from PIL import Image

from gravityocr.document import PlacedText
from gravityocr.errors import InputError
from gravityocr.pipeline.pixels import DECODER_ERRORS, INTACT, failure_text
from gravityocr.pipeline.sources.pdf_blank import blank_page_note, one_color
from gravityocr.pipeline.text_layer import page_text

PDF_ERRORS = (*DECODER_ERRORS, ctypes.ArgumentError)
"""What PDFium's binding raises on damaged files."""

_POINTS_PER_INCH = 72.0
_MAX_SIDE_PX = 65_500
_BELOW_ONE = 1 - 1e-9  # a side of exactly 4000 pixels must not be rounded up to 4001


class PdfFile:
    """An open PDF whose pages become images of at most `max_page_px` pixels at `dpi`, with form fields filled in.

    *Raises*: InputError for a broken PDF, one without pages, and a missing or wrong password.
    """

    failed = "rendered"

    def __init__(
        self, path: str | Path, name: str, password: str | None, dpi: float, max_page_px: int, text_layer: bool
    ) -> None:
        self._dpi, self._max_page_px, self._text_layer = dpi, max_page_px, text_layer
        self._document = _open(path, name, password)
        self._is_xfa = _show_forms(self._document)
        self.n_pages = len(self._document)

    def close(self) -> None:
        """Close the file."""
        self._document.close()

    def note(self) -> str | None:
        """Say what of the file is not read: forms in XFA, which only their maker's programs show."""
        return "an XFA form: what some fields hold may not show; print it to a PDF first" if self._is_xfa else None

    def read(self, index: int) -> tuple[Image.Image, tuple[PlacedText, ...], str | None]:
        """Return one page's image, the words of its text layer where they are asked for, and what it does not show.

        *Raises*: InputError, also for a page that is blank because its content is destroyed; or what PDFium's binding
        raises.
        """
        with closing(self._document[index]) as page:
            with closing(page.render(scale=self._scale(*page.get_size()))) as bitmap:
                # the bitmap owns the pixels of its view, so they are copied before it goes: converting does, always
                image: Image.Image = bitmap.to_pil().convert("RGB")
            note = _blank_note(self._document, index, page, image)
            return image, _layer_words(page, image.size) if self._text_layer else (), note

    def _scale(self, width_pt: float, height_pt: float) -> float:
        """Return pixels per point: the asked resolution, or less where the image would be too large."""
        area = width_pt * height_pt
        if not (width_pt > 0 and height_pt > 0 and math.isfinite(area)):
            raise InputError("the page has no area")
        scale = min(
            self._dpi / _POINTS_PER_INCH, math.sqrt(self._max_page_px / area), _MAX_SIDE_PX / max(width_pt, height_pt)
        )
        return _rounded_within(scale, min(width_pt, height_pt), max(width_pt, height_pt), self._max_page_px)


def _rounded_within(scale: float, short_pt: float, long_pt: float, max_px: int) -> float:
    """Return the scale, or a little less where sides rounded up, as PDFium's binding does, come to more pixels."""
    if math.ceil(short_pt * scale) * math.ceil(long_pt * scale) <= max_px:
        return scale
    short_px = max(1, int(short_pt * scale))
    long_px = min(int(long_pt * scale), max_px // short_px)
    return min(scale, min(short_px / short_pt, long_px / long_pt) * _BELOW_ONE)


def _open(path: str | Path, name: str, password: str | None) -> pdfium.PdfDocument:
    # PDFium keeps its last error, and a document without pages would be told with the one before's (or with
    # "Success"): so the last error is first made that of a broken document
    with suppress(pdfium.PdfiumError):
        pdfium.PdfDocument(b"%PDF-").close()
    try:
        return pdfium.PdfDocument(str(path), password=password)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == pdfium_c.FPDF_ERR_PASSWORD:
            what = "password required; give" if password is None else "the password is wrong; give the right"
            raise InputError(f"{name}: {what} --password") from error
        raise InputError(f"{name}: is a broken PDF or has no pages ({error}); {INTACT}") from error
    except PDF_ERRORS as error:
        raise InputError(f"{name}: cannot be opened as a PDF ({failure_text(error)}); {INTACT}") from error


def _show_forms(document: pdfium.PdfDocument) -> bool:
    """Have form fields drawn with what they hold; tell whether the form is one that PDFium cannot lay out.

    It must come before any page is loaded, or fields stay empty. A broken form costs its fields, not the pages.
    """
    is_xfa = False
    with suppress(*PDF_ERRORS), _no_word_of_xfa():
        is_xfa = document.get_formtype() in (pdfium_c.FORMTYPE_XFA_FULL, pdfium_c.FORMTYPE_XFA_FOREGROUND)
        document.init_forms()
    return is_xfa


@contextmanager
def _no_word_of_xfa() -> Iterator[None]:
    """The binding logs how to build it anew for XFA, in the middle of our output; the document's note says it."""
    logger = logging.getLogger(pdfium.PdfDocument.__module__)
    logger.addFilter(_drop)
    try:
        yield
    finally:
        logger.removeFilter(_drop)


def _drop(record: logging.LogRecord) -> bool:
    return False


def _blank_note(document: pdfium.PdfDocument, index: int, page: pdfium.PdfPage, image: Image.Image) -> str | None:
    color = one_color(image)
    try:
        return None if color is None else blank_page_note(document, index, page, color)
    except PDF_ERRORS:  # a page that cannot be looked into is what it looks like
        return None


def _layer_words(page: pdfium.PdfPage, size_px: tuple[int, int]) -> tuple[PlacedText, ...]:
    """Return the words of a page's text layer, none where it is broken: the picture is what is read."""
    try:
        return page_text(page, size_px)
    except (InputError, *PDF_ERRORS):
        return ()
