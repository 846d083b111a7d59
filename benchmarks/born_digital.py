"""Born-digital PDFs made from nothing but their text: standard fonts, justified lines, columns, headings, tables.

The font programs are those that PDFium puts in the place of the 14 standard fonts, so that pages look the same wherever
they are made.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from benchmarks.public_domain import PASSAGES, PLANETS

FONTS = ("Times-Roman", "Times-Bold", "Helvetica", "Helvetica-Bold", "Courier")
A4_PT = (595, 842)
BOOK_PT = (432, 648)
"""Six by nine inches, a common size of books."""
_LEADING = 1.25


@dataclass(frozen=True)
class Line:
    """A line of text. *Units*: points from the lower left corner to the start of its baseline."""

    text: str
    x: float
    y: float
    font: str = "Times-Roman"
    size: float = 11.0
    word_space: float = 0.0


@dataclass(frozen=True)
class Sheet:
    """One page: its lines and rules (x0, y0, x1, y1), how it is turned, and the part that is shown. *Units*: points."""

    lines: tuple[Line, ...] = ()
    rules: tuple[tuple[float, float, float, float], ...] = ()
    rotate: int = 0
    crop_box: tuple[float, float, float, float] | None = None
    media_box: tuple[float, float, float, float] = (0, 0, *A4_PT)


def write_pdf(sheets: Sequence[Sheet]) -> bytes:
    """Return a PDF whose text layer holds the lines in their order."""
    n_fonts = len(FONTS)
    fonts = " ".join(f"/F{number} {3 + number} 0 R" for number in range(n_fonts))
    kids = " ".join(f"{3 + n_fonts + 2 * number} 0 R" for number in range(len(sheets)))
    bodies = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(sheets)} >>"]
    bodies += [f"<< /Type /Font /Subtype /Type1 /BaseFont /{font} /Encoding /WinAnsiEncoding >>" for font in FONTS]
    for number, sheet in enumerate(sheets):
        content = _content(sheet)
        crop = "" if sheet.crop_box is None else f" /CropBox [{_numbers(sheet.crop_box)}]"
        bodies.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [{_numbers(sheet.media_box)}]{crop} /Rotate {sheet.rotate} "
            f"/Contents {4 + n_fonts + 2 * number} 0 R /Resources << /Font << {fonts} >> >> >>"
        )
        bodies.append(f"<< /Length {len(content.encode('cp1252'))} >>\nstream\n{content}\nendstream")
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, start=1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode("cp1252")
    entries = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(bodies) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + f"xref\n0 {size}\n0000000000 65535 f \n{entries}{trailer}".encode("cp1252")


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:.2f}" for value in values)


def _content(sheet: Sheet) -> str:
    parts = []
    for line in sheet.lines:
        text = "".join(f"\\{char}" if char in "()\\" else char for char in line.text)
        parts.append(
            f"BT /F{FONTS.index(line.font)} {line.size:.2f} Tf {line.word_space:.3f} Tw "
            f"{line.x:.2f} {line.y:.2f} Td ({text}) Tj ET"
        )
    parts += [f"{_numbers(rule[:2])} m {_numbers(rule[2:])} l 0.7 w S" for rule in sheet.rules]
    return "\n".join(parts)


_MARKS = "—–“”‘’"
_MARK_WIDTHS = {
    "Times-Roman": (1000, 500, 444, 444, 333, 333),
    "Times-Bold": (1000, 500, 500, 500, 333, 333),
    "Helvetica": (1000, 556, 333, 333, 222, 222),
    "Helvetica-Bold": (1000, 556, 500, 500, 278, 278),
    "Courier": (600,) * 6,
}
"""Widths of the standard fonts' marks in thousandths of an em, as their metrics have them."""


@functools.cache
def _widths(font: str) -> dict[str, float]:
    """Return the widths of a standard font's characters in em; those of ASCII as PDFium draws them."""
    widths = {char: width / 1000 for char, width in zip(_MARKS, _MARK_WIDTHS[font], strict=True)}
    with closing(pdfium.PdfDocument.new()) as document:
        handle = pdfium_c.FPDFText_LoadStandardFont(document, font.encode())
        width = ctypes.c_float()
        for code in range(32, 127):
            if not pdfium_c.FPDFFont_GetGlyphWidth(handle, code, 1000.0, width):
                raise RuntimeError(f"{font} has no width for {chr(code)!r}")
            widths[chr(code)] = width.value / 1000
        pdfium_c.FPDFFont_Close(handle)
    return widths


def text_width(text: str, font: str, size: float) -> float:
    """Return how wide a text is drawn. *Units*: points."""
    widths = _widths(font)
    return size * sum(widths[char] for char in text)


@dataclass
class Column:
    """Fill a column with type from the top down. *Units*: points."""

    left: float
    top: float
    width: float
    bottom: float
    lines: list[Line] = field(default_factory=list)
    rules: list[tuple[float, float, float, float]] = field(default_factory=list)

    @property
    def room(self) -> float:
        """Return how much of the column is left."""
        return self.top - self.bottom

    def paragraph(self, text: str, font: str, size: float, *, justified: bool = True) -> None:
        """Set a paragraph as far as there is room; a word that does not fit goes to the next line."""
        words, row = text.split(" "), ""
        while words and self.room >= _LEADING * size:
            longer = f"{row} {words[0]}".strip()
            if not row or text_width(longer, font, size) <= self.width:
                row = longer
                words.pop(0)
                if words:
                    continue
            spare = self.width - text_width(row, font, size)
            n_blanks = row.count(" ")
            stretch = spare / n_blanks if justified and words and n_blanks else 0.0
            self.top -= _LEADING * size
            self.lines.append(Line(row, self.left, self.top, font, size, stretch))
            row = ""
        self.top -= 0.6 * size

    def table(self, rows: Sequence[Sequence[str]], font: str, size: float) -> None:
        """Set a ruled table of equally wide columns, if there is room for it."""
        height = 1.7 * size
        if self.room < height * len(rows) + size:
            return
        step = self.width / len(rows[0])
        self.top -= 0.4 * size
        first = self.top
        for row in rows:
            for number, text in enumerate(row):
                self.lines.append(Line(text, self.left + number * step + 5, self.top - 1.15 * size, font, size))
            self.rules.append((self.left, self.top, self.left + self.width, self.top))
            self.top -= height
        self.rules.append((self.left, self.top, self.left + self.width, self.top))
        for number in range(len(rows[0]) + 1):
            x = self.left + number * step
            self.rules.append((x, first, x, self.top))
        self.top -= 1.2 * size


def make_sheet(number: int) -> Sheet:
    """Set one of the pages of the benchmark: passages in turn, in one or two columns, every fourth with a table."""
    plain, bold = (("Times-Roman", "Times-Bold"), ("Helvetica", "Helvetica-Bold"))[number % 2]
    size = (10.0, 11.0, 12.0)[number % 3]
    width, height = BOOK_PT
    n_columns = 1 + number // 2 % 2
    gap, side = 18.0, 45.0
    column_width = (width - 2 * side - gap * (n_columns - 1)) / n_columns
    head = Column(side, height - 45.0, width - 2 * side, height / 2)
    head.paragraph(f"Reader, Page {number + 1}", bold, 18.0, justified=False)
    columns = [Column(side + n * (column_width + gap), head.top - 8, column_width, 50.0) for n in range(n_columns)]
    for n, column in enumerate(columns):
        if n == 0 and number % 4 == 1:
            column.table(PLANETS, plain, size)
        place = number + 3 * n
        while column.room > 8 * size:
            title, author, paragraphs = PASSAGES[place % len(PASSAGES)]
            column.paragraph(title, bold, size + 2, justified=False)
            column.paragraph(author, plain, size, justified=False)
            for text in paragraphs:
                column.paragraph(text, plain, size)
            place += 1
    every = [head, *columns]
    lines = tuple(line for column in every for line in column.lines)
    rules = tuple(rule for column in every for rule in column.rules)
    return Sheet(lines, rules, media_box=(0, 0, *BOOK_PT))


def make_pages(n_pages: int) -> bytes:
    """Return a PDF of so many pages of public-domain text, no two alike."""
    return write_pdf([make_sheet(number) for number in range(n_pages)])
