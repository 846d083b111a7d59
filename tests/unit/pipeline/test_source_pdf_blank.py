"""Blank PDF pages: empty sheets are read in silence, hidden text is noted, destroyed content fails the page."""

from __future__ import annotations

import io
import random
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image
from tests.unit.pipeline.test_source_pdf import CATALOG, FONT, pdf, stream

from gravityocr.pipeline.source import SourceConfig, SourcePage, iter_pages
from gravityocr.pipeline.sources.pdf_blank import one_color

NOISE = random.Random(1).randbytes(600)
FLATE = b"/Filter /FlateDecode"
SHOW = b"q 100 0 0 100 0 0 cm /I Do Q"
TEXT = b"BT /F 20 Tf 10 50 Td (Hello) Tj ET"
FONTS = b"/Font << /F 6 0 R >>"
NOTE = "page 1 comes out blank although it holds 5 characters of text"


def page_of(
    tmp_path: Path,
    content: bytes,
    shown: bytes = b"null",
    resources: bytes = b"/XObject << /I 5 0 R >> " + FONTS,
    entries: bytes = b"",
) -> SourcePage:
    data = pdf(
        [
            CATALOG,
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 100 100] /Contents 4 0 R /Resources << %s >> >>" % resources,
            stream(content, entries),
            shown,
            FONT,
        ]
    )
    (tmp_path / "a.pdf").write_bytes(data)
    (page,) = iter_pages(tmp_path / "a.pdf", config=SourceConfig(dpi=72))
    return page


def picture(data: bytes, kind: bytes = b"", n_bits: int = 8) -> bytes:
    told = b"/Type /XObject /Subtype /Image /Width 64 /Height 64 /ColorSpace /DeviceGray /BitsPerComponent %d " % n_bits
    return stream(data, told + (b"/Filter /%s" % kind if kind else b""))


def encoded(format_name: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (64, 64), 255).save(buffer, format_name)
    return buffer.getvalue()


# a page of 64 x 64 px, white, and a generic region in it that is fax-coded: one white row's code after the other
JBIG2 = (
    b"\0\0\0\0\x30\0\1\0\0\0\x13" + struct.pack(">IIIIBH", 64, 64, 0, 0, 0, 0)
    + b"\0\0\0\1\x26\0\1\0\0\0\x1d" + struct.pack(">IIIIBB", 64, 64, 0, 0, 0, 1) + b"\xff" * 8 + b"\0\x10\x01"
)  # fmt: skip

WHITE = {
    "plain": picture(b"\xff" * 4096),
    "flate": picture(zlib.compress(b"\xff" * 4096), b"FlateDecode"),
    "flate, wrong checksum": picture(zlib.compress(b"\xff" * 4096)[:-1] + b"?", b"FlateDecode"),
    "jpeg": picture(encoded("JPEG"), b"DCTDecode"),
    "jpeg 2000": picture(encoded("JPEG2000"), b"JPXDecode"),
    "jbig2": picture(JBIG2, b"JBIG2Decode", 1),
    "mask": stream(b"\xff" * 512, b"/Type /XObject /Subtype /Image /Width 64 /Height 64 /ImageMask true"),
    "empty form": stream(b"", b"/Type /XObject /Subtype /Form /BBox [0 0 1 1]"),
    "empty flate form": stream(zlib.compress(b"q Q"), b"/Type /XObject /Subtype /Form /BBox [0 0 1 1] " + FLATE),
}


@pytest.mark.parametrize("kind", WHITE)
def test_pages_that_show_something_white_are_blank_in_silence(tmp_path: Path, kind: str) -> None:
    page = page_of(tmp_path, SHOW, WHITE[kind])
    assert (page.error, page.note) == (None, None) and page.image is not None
    assert one_color(page.image) == (255, 255, 255)


EMPTY = {
    "nothing": (b"", b""),
    "nothing drawn": (zlib.compress(b"q 1 0 0 1 0 0 cm\n" * 2000 + b"Q " * 2000), FLATE),
    "white ground": (b"1 g 0 0 100 100 re f", b""),
    "a space": (b"BT /F 20 Tf 10 50 Td (  ) Tj ET", b""),
    "no clip left": (b"0 0 0 0 re W n 0 g 0 0 100 100 re f", b""),
    "beside the page": (b"BT /F 20 Tf 900 50 Td (Hello) Tj ET", b""),
    "broken picture beside the page": (b"q 100 0 0 100 500 0 cm /I Do Q", b""),
    "one colour": (b"0.2 g 0 0 100 100 re f", b""),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_empty_pages_are_blank_in_silence(tmp_path: Path, kind: str) -> None:
    content, entries = EMPTY[kind]
    page = page_of(tmp_path, content, picture(NOISE, b"DCTDecode"), entries=entries)
    assert (page.error, page.note) == (None, None) and page.image is not None


@pytest.mark.parametrize(
    "content",
    [
        b"3 Tr " + TEXT,
        b"1 g " + TEXT,
        b"0 0 0 0 re W n " + TEXT,
        TEXT + b" 1 g 0 0 100 100 re f",
        TEXT + SHOW,
        SHOW + b" 3 Tr " + TEXT,
    ],
    ids=["invisible", "white", "clipped", "covered", "under a picture", "over a picture"],
)
def test_text_that_does_not_show_is_noted(tmp_path: Path, content: bytes) -> None:
    page = page_of(tmp_path, content, WHITE["jpeg"])
    assert (page.error, page.note) == (None, NOTE) and page.image is not None


def test_a_page_with_ink_is_not_looked_into(tmp_path: Path) -> None:
    page = page_of(tmp_path, b"3 Tr " + TEXT + b" 0 g 5 5 9 9 re f " + SHOW, picture(NOISE, b"DCTDecode"))
    assert (page.error, page.note) == (None, None)


FORM = b"/Type /XObject /Subtype /Form /BBox [0 0 1 1] " + FLATE
DESTROYED = {
    "jpeg": picture(NOISE, b"DCTDecode"),
    "jpeg, zeroed": picture(bytes(600), b"DCTDecode"),
    "jpeg, its head alone": picture(encoded("JPEG")[:150] + NOISE, b"DCTDecode"),
    "jpeg 2000": picture(NOISE, b"JPXDecode"),
    "jbig2": picture(NOISE, b"JBIG2Decode", 1),
    "jbig2, its page alone": picture(JBIG2[:30] + NOISE, b"JBIG2Decode", 1),
    "jbig2, truncated": picture(JBIG2[:-9], b"JBIG2Decode", 1),
    "fax, zeroed": picture(bytes(200), b"CCITTFaxDecode /DecodeParms << /K -1 /Columns 64 /Rows 64 >>", 1),
    "flate": picture(NOISE, b"FlateDecode"),
    "flate, all but its head": picture(zlib.compress(bytes(range(64)) * 64)[:10] + NOISE, b"FlateDecode"),
    "flate, zeroed": picture(bytes(600), b"FlateDecode"),
}


@pytest.mark.parametrize("kind", DESTROYED)
def test_a_destroyed_picture_fails_its_page(tmp_path: Path, kind: str) -> None:
    page = page_of(tmp_path, SHOW, DESTROYED[kind])
    why = "it comes out blank: 1 of its 1 pictures cannot be decoded"
    assert page.error == f"page 1 cannot be rendered ({why}); hand an intact copy" and page.image is None


@pytest.mark.parametrize(
    ("content", "entries", "shown", "why"),
    [
        (NOISE, FLATE, b"null", "its description cannot be decompressed"),
        (zlib.compress(TEXT * 20)[:4] + NOISE, FLATE, b"null", "its description cannot be decompressed"),
        (bytes(200), FLATE, b"null", "its description cannot be decompressed"),
        (NOISE, b"", b"null", "its description is noise"),
        (bytes(200), b"", b"null", "its description is noise"),
        (SHOW, b"", stream(NOISE, FORM), "its description cannot be decompressed"),
        (SHOW, b"", b"null", "what its description shows is missing"),
    ],
    ids=["flate", "flate, all but its head", "flate, zeroed", "plain", "plain, zeroed", "form", "no picture"],
)
def test_a_destroyed_description_fails_its_page(
    tmp_path: Path, content: bytes, entries: bytes, shown: bytes, why: str
) -> None:
    page = page_of(tmp_path, content, shown, entries=entries)
    assert page.error == f"page 1 cannot be rendered (it comes out blank: {why}); hand an intact copy"


def test_visible_text_whose_font_is_destroyed_fails_its_page(tmp_path: Path) -> None:
    font = (
        b"/Type /Font /Subtype /Type3 /FontBBox [0 0 1 1] /FontMatrix [1 0 0 1 0 0] /FirstChar 97 /LastChar 97"
        b" /Widths [1] /CharProcs << /a 5 0 R >> /Encoding << /Type /Encoding /Differences [97 /a] >>"
    )
    page = page_of(
        tmp_path, b"BT /F 20 Tf 10 50 Td (aa) Tj ET", stream(NOISE, FLATE), b"/Font << /F << %s >> >>" % font
    )
    assert "it comes out blank although it holds 2 characters of visible text" in str(page.error)


def test_contents_in_a_list_are_all_looked_at_and_other_pages_are_read(tmp_path: Path) -> None:
    contents = [b"/Contents [3 0 R 4 0 R]", b"/Contents 5 0 R", b"/Contents [3 0 R 6 0 R]", b"/Contents [3 0 R]"]
    kids = b" ".join(b"%d 0 R" % (7 + k) for k in range(len(contents)))
    data = pdf(
        [
            CATALOG,
            b"<< /Type /Pages /Kids [%s] /Count %d /MediaBox [0 0 50 50] >>" % (kids, len(contents)),
            stream(b"q Q"),
            stream(NOISE, FLATE),
            b"[3 0 R 4 0 R]",
            stream(b"0 g 5 5 9 9 re f"),
            *(b"<< /Type /Page /Parent 2 0 R %s >>" % told for told in contents),
        ]
    )
    (tmp_path / "a.pdf").write_bytes(data)
    pages = list(iter_pages(tmp_path / "a.pdf", config=SourceConfig(dpi=72)))
    assert [page.error is None for page in pages] == [False, False, True, True]
    assert str(pages[1].error).startswith("page 2 cannot be rendered (it comes out blank")


def test_one_dark_pixel_is_no_single_colour() -> None:
    image = Image.new("RGB", (120, 130), (9, 8, 7))
    assert one_color(image) == (9, 8, 7)
    image.putpixel((77, 111), (9, 8, 6))
    assert one_color(image) is None
