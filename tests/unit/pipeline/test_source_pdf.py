"""PDF pages: sizes, turns, crop boxes, form fields, page counts that lie, and files that are damaged."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from gravityocr.errors import InputError
from gravityocr.pipeline.source import PageRanges, SourceConfig, SourcePage, count_pages, iter_pages

DOTS = SourceConfig(dpi=72)
CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"
FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (entries, len(content), content)


def pdf(objects: Sequence[bytes]) -> bytes:
    """Number the objects from 1, the catalog first, and add what makes a file of them."""
    data, offsets = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    table += b"".join(b"%010d 00000 n \n" % at for at in offsets)
    trailer = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(data))
    return data + table + trailer


def document(*pages: bytes, content: bytes = b"0 g 50 170 10 10 re f", n_told: int | None = None) -> bytes:
    """Pages given by their entries; all show the same content."""
    kids = b" ".join(b"%d 0 R" % (4 + k) for k in range(len(pages)))
    tree = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages) if n_told is None else n_told)
    return pdf(
        [CATALOG, tree, stream(content), *(b"<< /Type /Page /Parent 2 0 R /Contents 3 0 R %s >>" % p for p in pages)]
    )


def read(path: Path, data: bytes, config: SourceConfig | None = None) -> list[SourcePage]:
    path.write_bytes(data)
    return list(iter_pages(path, config=config or DOTS))


def ink(page: SourcePage) -> tuple[int, int, int, int] | None:
    """The dark part of a page: left, top, right, bottom."""
    assert page.error is None and page.image is not None
    rows, columns = np.nonzero(np.asarray(page.image.convert("L")) < 100)
    return (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) if len(rows) else None


BOX = b"/MediaBox [0 0 200 300]"


@pytest.mark.parametrize(
    ("turn", "size", "dark"),
    [
        (0, (200, 300), (50, 120, 60, 130)),
        (90, (300, 200), (170, 50, 180, 60)),
        (180, (200, 300), (140, 170, 150, 180)),
        (270, (300, 200), (120, 140, 130, 150)),
        (-90, (300, 200), (120, 140, 130, 150)),
        (450, (300, 200), (170, 50, 180, 60)),
    ],
)
def test_turned_pages_come_upright(
    tmp_path: Path, turn: int, size: tuple[int, int], dark: tuple[int, int, int, int]
) -> None:
    (page,) = read(tmp_path / "a.pdf", document(BOX + b" /Rotate %d" % turn))
    assert page.image is not None and page.image.size == size and ink(page) == dark


def test_the_crop_box_is_the_page(tmp_path: Path) -> None:
    crop = BOX + b" /CropBox [40 100 140 190]"
    plain, turned, outside = read(
        tmp_path / "a.pdf", document(crop, crop + b" /Rotate 90", BOX + b" /CropBox [-50 -50 900 900]")
    )
    assert [page.image.size for page in (plain, turned, outside) if page.image] == [(100, 90), (90, 100), (200, 300)]
    assert ink(plain) == (10, 10, 20, 20) and ink(turned) == (70, 10, 80, 20)


def test_words_lie_on_the_ink_whatever_the_box_and_the_turn(tmp_path: Path) -> None:
    content = b"BT /F 20 Tf 60 150 Td (Hx) Tj ET"
    fonts = b" /Resources << /Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    boxes = [BOX + fonts, BOX + b" /CropBox [40 100 140 190]" + fonts]
    pages = [box + b" /Rotate %d" % turn for box in boxes for turn in (0, 90, 180, 270)]
    config = SourceConfig(dpi=72, text_layer=True)
    for page in read(tmp_path / "a.pdf", document(*pages, content=content), config):
        dark, (word,) = ink(page), page.words
        assert dark is not None and word.text == "Hx"
        assert word.box.x0 - 2 <= dark[0] and word.box.y0 - 2 <= dark[1]
        assert dark[2] <= word.box.x1 + 2 and dark[3] <= word.box.y1 + 2


@pytest.mark.parametrize(
    ("media", "size"),
    [
        (b"[0 0 120000 170000]", (3360, 4760)),  # in 1/72 inch: 59 m high
        (b"[0 0 0.5 0.5]", (2, 2)),
        (b"[200 300 0 0]", (556, 834)),
        (b"[0 0 100000 1]", (65500, 1)),
        (b"[0 0 1e30 1e30]", None),
        (b"[0 0 0 0]", None),
        (b"[nan (x) null 1]", None),
    ],
)
def test_page_sizes_are_bounded_before_rendering(tmp_path: Path, media: bytes, size: tuple[int, int] | None) -> None:
    (page,) = read(tmp_path / "a.pdf", document(b"/MediaBox " + media), SourceConfig())
    assert page.image is not None and page.image.width * page.image.height <= 16_000_000
    # what is no size is shown as a sheet of letter paper
    assert page.image.size == (size or (1700, 2200))


@pytest.mark.parametrize("media", [b"12000 17000", b"333.3 777.7", b"1000 1000", b"99999 1", b"1 77777", b"612 792"])
@pytest.mark.parametrize("max_page_px", [10_000, 160_000, 1_000_003])
def test_sides_that_are_rounded_up_stay_within_the_bound(tmp_path: Path, media: bytes, max_page_px: int) -> None:
    config = SourceConfig(dpi=1200, max_page_px=max_page_px)
    (page,) = read(tmp_path / "a.pdf", document(b"/MediaBox [0 0 %s]" % media), config)
    assert page.image is not None and page.image.width * page.image.height <= max_page_px
    if min(page.image.size) > 90:
        assert page.image.width * page.image.height > 0.96 * max_page_px


def form(extra: bytes = b"", field: bytes = b"") -> bytes:
    acro = b"/AcroForm << /Fields [4 0 R] %s /DA (/Helv 12 Tf 0 g) /DR << /Font << /Helv 5 0 R >> >> >>" % extra
    widget = b"/Subtype /Widget /FT /Tx /T (name) /V (Hello) /Rect [10 40 190 60] /DA (/Helv 12 Tf 0 g) /F 4 /P 3 0 R"
    look = stream(
        b"/Tx BMC BT /Helv 12 Tf 0 g 2 5 Td (Hello) Tj ET EMC",
        b"/Type /XObject /Subtype /Form /BBox [0 0 180 20] /Resources << /Font << /Helv 5 0 R >> >>",
    )
    return pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R %s >>" % acro,
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Annots [4 0 R] >>",
            b"<< /Type /Annot %s %s >>" % (widget, field),
            FONT,
            look,
        ]
    )


@pytest.mark.parametrize(
    ("extra", "field"), [(b"/NeedAppearances true", b""), (b"", b"/AP << /N 6 0 R >>")], ids=["value", "look"]
)
def test_what_form_fields_hold_is_on_the_page(tmp_path: Path, extra: bytes, field: bytes) -> None:
    (page,) = read(tmp_path / "a.pdf", form(extra, field))
    dark = ink(page)
    assert dark is not None and 10 <= dark[0] < 16 and 40 <= dark[1] < dark[3] <= 60
    assert page.note is None


def test_xfa_forms_are_said_to_be_such_and_nothing_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        (page,) = read(tmp_path / "a.pdf", form(b"/XFA [(template) 6 0 R]", b"/AP << /N 6 0 R >>"))
    assert "an XFA form" in str(page.note) and ink(page) is not None
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_only_the_first_page_read_carries_the_note(tmp_path: Path) -> None:
    data = form(b"/XFA [(template) 6 0 R]").replace(b"[3 0 R] /Count 1", b"[3 0 R 3 0 R] /Count 2")
    pages = read(tmp_path / "a.pdf", data)
    assert [page.note is None for page in pages] == [False, True]
    (second,) = iter_pages(tmp_path / "a.pdf", PageRanges.parse("2"), DOTS)
    assert second.note is not None


def test_damage_around_the_pages_costs_nothing(tmp_path: Path) -> None:
    whole = document(BOX, BOX)
    at = whole.index(b"xref")
    damaged = {
        "trailing garbage": whole + b"\0garbage" * 3000,
        "header not at 0": b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n" + whole,
        "no cross references": whole[:at] + b"trailer << /Size 9 /Root 1 0 R >>\n",
        "wrong offsets": whole[:at] + whole[at:].replace(b"0000000", b"0000999"),
        "no end": whole[: whole.index(b"startxref")],
        "appended twice": whole + whole,
    }
    for what, data in damaged.items():
        pages = read(tmp_path / "a.pdf", data)
        assert [ink(page) for page in pages] == [(50, 120, 60, 130)] * 2, what


def test_one_damaged_page_leaves_the_others(tmp_path: Path) -> None:
    for wrong in (b"null", b"<< /Type /Nothing >>", b"(text)"):
        whole = document(BOX, b"/MediaBox [0 0 77 77]", BOX)
        start = whole.index(b"5 0 obj\n") + 8
        end = whole.index(b"\nendobj", start)
        pages = read(tmp_path / "a.pdf", whole[:start] + wrong.ljust(end - start) + whole[end:])
        assert [page.error is None for page in pages] == [True, False, True]
        assert str(pages[1].error).startswith("page 2 cannot be rendered") and "intact copy" in str(pages[1].error)


def test_content_that_is_damaged_or_missing_is_an_empty_page(tmp_path: Path) -> None:
    (page,) = read(tmp_path / "a.pdf", document(BOX, content=b"q 1 0 0 ] >> BT (((( re f Q Q Q Q"))
    assert ink(page) is None
    (page,) = read(tmp_path / "a.pdf", document(BOX).replace(b"3 0 R", b"9 0 R"))
    assert ink(page) is None


def test_a_page_count_that_lies_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(document(BOX, BOX, n_told=900_000))
    pages: list[SourcePage] = []
    started = time.monotonic()
    with pytest.raises(InputError, match=r"a\.pdf: pages 3 to 1002 of 900000 all failed, and the rest is left out"):
        pages.extend(iter_pages(path, config=DOTS))
        pages += iter_pages(path, config=DOTS)
    for page in iter_pages(path, PageRanges.parse("1-20"), DOTS):
        pages.append(page)
    assert [page.error is None for page in pages[-20:]] == [True] * 2 + [False] * 18
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("tree", [b"<< /Type /Pages /Kids [2 0 R] /Count 3 >>", b"<< /Type /Pages /Count -4 >>", b"7"])
def test_page_trees_that_are_none_end(tmp_path: Path, tree: bytes) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf([CATALOG, tree]))
    try:
        assert all(page.error for page in iter_pages(path, config=DOTS))
    except InputError as error:
        assert "a.pdf: " in str(error) and "intact copy" in str(error)


def test_errors_call_the_file_by_its_given_name(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for data in (b"", b"text", b"%PDF-1.7", b"\x89PNG\r\n\x1a\n", b"\x00\x00\x00\x14ftypavif\0\0\0\0"):
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"^https://h\.org/a: "):
            list(iter_pages(path, name="https://h.org/a"))
        with pytest.raises(InputError, match=r"^https://h\.org/a: "):
            count_pages(path, name="https://h.org/a")
    path.write_bytes(document(BOX))
    with pytest.raises(InputError, match=r"^https://h\.org/a: has page 1 only"):
        list(iter_pages(path, PageRanges.parse("3"), name="https://h.org/a"))
