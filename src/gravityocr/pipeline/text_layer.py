"""Text that is already known of a page, word by word: a PDF's text layer, and what belongs to a crop of it."""

from __future__ import annotations

import ctypes
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

import numpy as np
import numpy.typing as npt
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from gravityocr.document import Box, PlacedText
from gravityocr.errors import InputError

MAX_CHARS = 100_000
"""A page with more characters has no usable text layer: no print holds so many."""

_HYPHEN_MARKS = (0x02, 0xFFFE)  # what PDFium makes of a hyphen at the end of a line
_SOFT_HYPHEN = "\u00ad"
_DEVICE = 1_000_000  # the page's sides in whole units of the corners' transform
_JUMP = 0.8  # in character sizes: what is farther apart is no word, though no blank parts it

_Array = npt.NDArray[np.float64]


def page_text(page: pdfium.PdfPage, size_px: tuple[int, int]) -> tuple[PlacedText, ...]:
    """Return the words of a PDF page's text layer in its own order, none for a scan.

    *Units*: `size_px` is the size of the rendered, upright page image, whose pixels the boxes are in.
    *Raises*: InputError for more than `MAX_CHARS` characters; PdfiumError where PDFium cannot read the layer.
    """
    to_pixels = _page_to_pixels(page, size_px)
    with closing(page.get_textpage()) as layer:
        n_chars = pdfium_c.FPDFText_CountChars(layer)
        if n_chars > MAX_CHARS:
            raise InputError(f"{n_chars} characters on one page, where {MAX_CHARS} are read: parse without text layer")
        if n_chars < 1:
            return ()
        codes = _codes(layer, n_chars)
        written = np.array([_is_written(code) for code in codes], dtype=np.bool_)
        corners = _corners(layer, np.flatnonzero(written))
    boxes = np.full((n_chars, 4), np.nan)
    boxes[written] = _upright(corners, to_pixels)
    written &= np.isfinite(boxes).all(axis=1) & _touches(boxes, size_px)
    return tuple(_words(codes, boxes, written))


def words_in(words: Iterable[PlacedText], shown: Box, padding: tuple[int, int] = (0, 0)) -> tuple[PlacedText, ...]:
    """Return the words of a page that a crop shows, or shows the beginning or end of, in pixels of that crop.

    *Units*: pixels; `shown` is the crop's part of the page, `padding` how far from the crop's corner that begins.
    """
    right, down = padding[0] - shown.x0, padding[1] - shown.y0
    return tuple(
        PlacedText(word.text, Box(word.box.x0 + right, word.box.y0 + down, word.box.x1 + right, word.box.y1 + down))
        for word in words
        # a region's side edge may go through a word: what is on this side of it is there to read
        if word.box.x0 < shown.x1 and word.box.x1 > shown.x0 and shown.y0 <= (word.box.y0 + word.box.y1) / 2 < shown.y1
    )


def _page_to_pixels(page: pdfium.PdfPage, size_px: tuple[int, int]) -> _Array:
    """Return the affine map from page space to pixels as PDFium itself places the page, its rotation and crop box in.

    *Shapes*: [2, 3].
    """
    x, y = ctypes.c_int(), ctypes.c_int()
    side = 1000.0
    points = []
    for px, py in ((0.0, 0.0), (side, 0.0), (0.0, side)):
        if not pdfium_c.FPDF_PageToDevice(page, 0, 0, _DEVICE, _DEVICE, 0, px, py, x, y):
            raise pdfium.PdfiumError("the page's place cannot be told")
        points.append((x.value * size_px[0] / _DEVICE, y.value * size_px[1] / _DEVICE))
    origin, right, up = np.array(points)
    return np.stack([(right - origin) / side, (up - origin) / side, origin], axis=1)


def _codes(layer: pdfium.PdfTextPage, n_chars: int) -> list[int]:
    """Return the code point of every character, all at once where PDFium's text has one for each."""
    buffer = (ctypes.c_ushort * (2 * n_chars + 2))()
    n_units = pdfium_c.FPDFText_GetText(layer, 0, n_chars, buffer) - 1
    text = bytes(buffer)[: 2 * max(n_units, 0)].decode("utf-16-le", "surrogatepass")
    if len(text) == n_chars:
        return [ord(char) for char in text]
    return [pdfium_c.FPDFText_GetUnicode(layer, index) for index in range(n_chars)]


def _is_blank(code: int) -> bool:
    return code > 0x10FFFF or chr(code).isspace()


def _is_written(code: int) -> bool:
    """Tell whether a code says what is to see: a character that its font has no Unicode for says nothing."""
    if code in _HYPHEN_MARKS or code == ord(_SOFT_HYPHEN):
        return True
    return not _is_blank(code) and code != 0xFFFD and unicodedata.category(chr(code))[0] not in "CZ"


def _corners(layer: pdfium.PdfTextPage, indices: npt.NDArray[np.int64]) -> _Array:
    """Return left, bottom, right, top of characters in page space, NaN where PDFium does not know."""
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    pointers = [ctypes.byref(value) for value in (left, right, bottom, top)]
    call = pdfium_c.FPDFText_GetCharBox
    nowhere = (float("nan"),) * 4
    found = [
        (left.value, bottom.value, right.value, top.value) if call(layer, index, *pointers) else nowhere
        for index in indices.tolist()
    ]
    return np.array(found, dtype=np.float64).reshape(-1, 4)


def _upright(corners: _Array, to_pixels: _Array) -> _Array:
    """Return left, top, right, bottom in pixels of boxes in page space."""
    one, other = (corners[:, at : at + 2] @ to_pixels[:, :2].T + to_pixels[:, 2] for at in (0, 2))
    return np.concatenate([np.minimum(one, other), np.maximum(one, other)], axis=1)


def _touches(boxes: _Array, size_px: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Tell of each box whether its middle is on the page and it is smaller than the page."""
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    size = boxes[:, 2:] - boxes[:, :2]
    page = np.array(size_px)
    fits: npt.NDArray[np.bool_] = (middle >= 0) & (middle < page) & (size < page)
    return np.logical_and(fits[:, 0], fits[:, 1])


def _words(codes: Sequence[int], boxes: _Array, written: npt.NDArray[np.bool_]) -> Iterator[PlacedText]:
    """Yield the words: characters in a row that neither a blank nor a gap as wide parts, a line's end among them."""
    jumps = _jumps(boxes, written)
    run: list[int] = []
    for index, code in enumerate(codes):
        if run and (_is_blank(code) or jumps[index]):
            yield from _word(codes, boxes, run)
            run = []
        if written[index]:
            run.append(index)
    yield from _word(codes, boxes, run)


def _jumps(boxes: _Array, written: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Tell of each character whether it is far from the written one before it."""
    jumps = np.zeros(len(boxes), dtype=np.bool_)
    shown = np.flatnonzero(written)
    if shown.size < 2:
        return jumps
    here = boxes[shown]
    sides = (here[:, 2:] - here[:, :2]).max(axis=1)
    size = np.maximum(np.maximum(sides[:-1], sides[1:]), float(np.median(sides)))
    gap = np.maximum(here[1:, :2] - here[:-1, 2:], here[:-1, :2] - here[1:, 2:]).max(axis=1)
    jumps[shown[1:]] = gap > _JUMP * size
    return jumps


def _word(codes: Sequence[int], boxes: _Array, run: Sequence[int]) -> Iterator[PlacedText]:
    """Yield the word of some characters, if anything of it can be seen."""
    chars = ["-" if codes[index] in _HYPHEN_MARKS else chr(codes[index]) for index in run]
    if chars and chars[-1] == _SOFT_HYPHEN:
        chars[-1] = "-"  # only at a line's end is it drawn
    text = unicodedata.normalize("NFC", "".join(chars).replace(_SOFT_HYPHEN, ""))
    if text:
        own = boxes[list(run)]
        (x0, y0), (x1, y1) = own[:, :2].min(axis=0).tolist(), own[:, 2:].max(axis=0).tolist()
        yield PlacedText(text, Box(x0, y0, x1, y1))
