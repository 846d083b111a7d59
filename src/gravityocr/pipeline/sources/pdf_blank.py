"""Why a PDF page renders blank: an empty sheet, text that is not drawn, or content that is destroyed."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Sequence
from contextlib import closing
from ctypes import byref, c_uint
from itertools import takewhile

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from PIL import Image

from gravityocr.errors import InputError

Color = tuple[int, int, int]

_NOT_DRAWN = (pdfium_c.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium_c.FPDF_TEXTRENDERMODE_CLIP)
_OUTLINED = (pdfium_c.FPDF_TEXTRENDERMODE_STROKE, pdfium_c.FPDF_TEXTRENDERMODE_STROKE_CLIP)
_MIN_CONTRAST = 8  # of 255: ink that differs less from the ground may well round to it
_ROWS_APART = 50
_CHUNK = 1 << 20
_HEAD = 10_000
_MAX_UNPRINTABLE = 0.3  # of the bytes that describe a page; noise has 0.6
_SEGMENT_TYPES = frozenset((0, 4, 6, 7, 16, 20, 22, 23, 36, 38, 39, 40, 42, 43, *range(48, 55), 62))
_PAGE_SEGMENT = 48
_MIN_SEGMENT = 11  # bytes of the shortest header
_SHOWS = re.compile(rb"/[^\s/\[\]<>()]+\s+Do\b")
_TABLE_ROW = re.compile(rb"(\d{10}) \d{5} n")
_STREAM = re.compile(rb"(\d+) 0 obj\s+(<<.*?/Length (\d+).*?>>)stream\r\n", re.DOTALL)
_CONTENTS = re.compile(rb"/Contents\s*(\[[^\]]*\]|\d+ 0 R)")
_REFERENCE = re.compile(rb"(\d+) 0 R")
_PAGE = re.compile(rb"/Type\s*/Page\b")
_FORM = re.compile(rb"/Subtype\s*/Form\b")
_FLATE = re.compile(rb"/Filter\s*\[?\s*/FlateDecode")


def one_color(image: Image.Image) -> Color | None:
    """Return the colour of an RGB image that has no other; None for any other image."""
    few_rows = image.resize((image.width, -(-image.height // _ROWS_APART)), Image.Resampling.NEAREST)
    for sample in (few_rows, image):  # a few rows tell most pages apart in a hundredth of the time
        bands = [sample.getchannel(band).getextrema() for band in range(3)]
        if any(low != high for low, high in bands):
            return None
    red, green, blue = image.getpixel((0, 0))  # type: ignore[misc]
    return int(red), int(green), int(blue)


def blank_page_note(document: pdfium.PdfDocument, index: int, page: pdfium.PdfPage, color: Color) -> str | None:
    """Say what text a page that rendered in one `color` holds without showing it; None for an empty page.

    White pictures, empty forms, and text that is clipped, covered, off the page or white on white are no damage.

    *Raises*: InputError where what should show is destroyed: a picture, visible text, or the page's description.
    """
    with closing(page.get_textpage()) as layer:
        objects = list(page.get_objects(textpage=layer))
        if all(found.type == pdfium_c.FPDF_PAGEOBJ_FORM for found in objects):
            _check_description(document, index, bool(objects))
        on_page = [found for found in objects if _is_on(page, found)]
        pictures = [found for found in on_page if isinstance(found, pdfium.PdfImage)]
        n_broken = sum(_is_broken(picture) for picture in pictures)
        if n_broken:
            raise InputError(f"it comes out blank: {n_broken} of its {len(pictures)} pictures cannot be decoded")
        texts = [found for found in on_page if isinstance(found, pdfium.PdfTextObj)]
        n_chars = sum(_n_letters(text) for text in texts)
        # a picture that decodes is what the page shows: the text beside it is there to be searched
        if not pictures and any(_should_show(text, color) for text in _uncovered(objects) if _is_on(page, text)):
            raise InputError(f"it comes out blank although it holds {n_chars} characters of visible text")
    return f"page {index + 1} comes out blank although it holds {n_chars} characters of text" if n_chars else None


def _is_on(page: pdfium.PdfPage, found: pdfium.PdfObject) -> bool:
    """Tell whether an object touches the page; the bounds of what is in a form are the form's, not the page's."""
    if found.level > 0:
        return True
    left, bottom, right, top = found.get_bounds()
    x0, y0, x1, y1 = page.get_bbox()
    return left < x1 and x0 < right and bottom < y1 and y0 <= top


def _is_broken(picture: pdfium.PdfImage) -> bool:
    bitmap = pdfium_c.FPDFImageObj_GetBitmap(picture)
    if not bitmap:
        return True
    pdfium_c.FPDFBitmap_Destroy(bitmap)
    filters = picture.get_filters()
    if not filters:
        return False
    # PDFium makes a white bitmap of Flate data that it cannot decompress, of zeroed fax data, of unknown segments
    data = bytes(picture.get_data())
    if filters[0] == "JBIG2Decode":
        return not _has_sound_segments(data)
    return not data.strip(b"\0") or (filters[0] == "FlateDecode" and _inflated(data) is None)


def _has_sound_segments(data: bytes) -> bool:
    """Tell whether JBIG2 data is a row of known segments that are all there, one of a page among them.

    *Source*: ITU-T T.88, 7.2 and 7.3.
    """
    at, has_page = 0, False
    while len(data) - at >= _MIN_SEGMENT:
        number, flags, n_referred = int.from_bytes(data[at : at + 4], "big"), data[at + 4], data[at + 5] >> 5
        at += 6
        if n_referred == 7:
            n_referred = int.from_bytes(data[at - 1 : at + 3], "big") & 0x1FFFFFFF
            at += 3 + n_referred // 8 + 1
        at += n_referred * (1 if number <= 256 else 2 if number <= 65536 else 4) + (4 if flags & 0x40 else 1)
        n_bytes = int.from_bytes(data[at : at + 4], "big")
        if flags & 0x3F not in _SEGMENT_TYPES:
            return False
        has_page |= flags & 0x3F == _PAGE_SEGMENT
        if n_bytes == 0xFFFFFFFF:  # an open end, which only a picture's last rows may have
            return has_page
        at += 4 + n_bytes
    return has_page and at <= len(data)


def _n_letters(text: pdfium.PdfTextObj) -> int:
    return sum(char.isprintable() and not char.isspace() for char in text.extract())


def _uncovered(objects: Sequence[pdfium.PdfObject]) -> list[pdfium.PdfTextObj]:
    """Return the text that is drawn last, with nothing after it that might cover it."""
    return list(takewhile(lambda one: one.type == pdfium_c.FPDF_PAGEOBJ_TEXT and one.level == 0, reversed(objects)))


def _should_show(text: pdfium.PdfTextObj, color: Color) -> bool:
    """Tell whether text would surely be seen: not clipped, not of a layer that may be off, in another colour."""
    mode = pdfium_c.FPDFTextObj_GetTextRenderMode(text)
    is_clipped = pdfium_c.FPDFClipPath_CountPaths(pdfium_c.FPDFPageObj_GetClipPath(text)) > 0
    if mode in _NOT_DRAWN or is_clipped or pdfium_c.FPDFPageObj_CountMarks(text) > 0 or not _n_letters(text):
        return False
    get_color = pdfium_c.FPDFPageObj_GetStrokeColor if mode in _OUTLINED else pdfium_c.FPDFPageObj_GetFillColor
    ink = [c_uint() for _ in range(4)]
    if not get_color(text, *(byref(value) for value in ink)) or ink[3].value == 0:
        return False
    return any(abs(have.value - ground) > _MIN_CONTRAST for have, ground in zip(ink[:3], color, strict=True))


def _check_description(document: pdfium.PdfDocument, index: int, has_forms: bool) -> None:
    """Look at the streams that describe a page on which PDFium finds nothing to draw.

    *Raises*: InputError where one cannot be decompressed, is noise, or shows what is not in the file.
    """
    for entries, data in _descriptions(document, index, has_forms):
        told: bytes | None = data
        if _FLATE.search(entries):
            told = _inflated(data)
        elif b"/Filter" in entries:
            continue
        if told is None:
            raise InputError("it comes out blank: its description cannot be decompressed")
        if sum(not (32 <= byte < 127 or byte in b"\t\n\f\r") for byte in told) > _MAX_UNPRINTABLE * len(told):
            raise InputError("it comes out blank: its description is noise")
        if not has_forms and _SHOWS.search(told):
            raise InputError("it comes out blank: what its description shows is missing")


def _descriptions(document: pdfium.PdfDocument, index: int, has_forms: bool) -> list[tuple[bytes, bytes]]:
    """Return the entries and raw data of the streams that describe a page, and of its forms where it has some.

    PDFium hands out no such streams, so they are taken from a copy of the page alone, in the plain syntax of its
    writer.
    """
    buffer = io.BytesIO()
    with closing(pdfium.PdfDocument.new()) as copy:
        copy.import_pages(document, [index])
        copy.save(buffer)
    data = buffer.getvalue()
    rows = _TABLE_ROW.findall(data, data.rindex(b"xref", 0, data.rindex(b"startxref")))
    starts = sorted(int(row) for row in rows)
    streams: dict[bytes, tuple[bytes, bytes]] = {}
    others: dict[bytes, bytes] = {}
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        found = _STREAM.match(data, start, end)
        if found:
            streams[found[1]] = (found[2], data[found.end() : found.end() + int(found[3])])
        else:
            number, _, body = data[start:end].partition(b" 0 obj")
            others[number] = body
    told = b"".join(told for body in others.values() if _PAGE.search(body) for told in _CONTENTS.findall(body))
    numbers = _REFERENCE.findall(told)
    numbers += [one for number in numbers for one in _REFERENCE.findall(others.get(number, b""))]  # a list on its own
    numbers += [number for number, (entries, _) in streams.items() if has_forms and _FORM.search(entries)]
    return [streams[number] for number in numbers if number in streams]


def _inflated(data: bytes) -> bytes | None:
    """Return the head of Flate data, all of which is checked; None where it is damaged. A wrong checksum is none."""
    inflate = zlib.decompressobj()
    head = b""
    try:
        while data and not inflate.eof:
            part = inflate.decompress(data, _CHUNK)
            head += part[: _HEAD - len(head)]
            data = inflate.unconsumed_tail
    except zlib.error as error:
        return head if "incorrect data check" in str(error) else None
    return head
