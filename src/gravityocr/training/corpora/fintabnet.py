"""FinTabNet 1.0.0: tables of the annual reports of S&P 500 companies, as pages in PDF, with their HTML.

The archive `fintabnet.tar.gz` is to be unpacked, since its lists name the pages in no order of theirs:

    fintabnet/
      FinTabNet_1.0.0_cell_train.jsonl, _val, _test    a JSON object a line: filename, split, table_id,
                 bbox of the table, html: {structure: {tokens}, cells: [{tokens, bbox where not empty}]}
      pdf/A/2003/page_26.pdf ...     company, year, page; a file holds one page

Tokens are those of PubTabNet, without `<thead>`. Boxes are in PDF points, y upwards, in the page's media box.
A table is cut out of its page drawn at the `dpi` of the conversion, with a margin. The lists `_table_` hold the same
tables for detection and are not read. FinTabNet.c, its revision by the authors of PubTables-1M, has their layout.

*Source*: github.com/microsoft/table-transformer (scripts/process_fintabnet.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
from PIL import Image

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, Found, Unit
from gravityocr.training.corpora.page_crops import MAX_PAGE_PX
from gravityocr.training.corpora.published_files import convert_rows, json_lines, line_slices
from gravityocr.training.corpora.region_shards import LabelledRegion, encode_picture
from gravityocr.training.corpora.table_markup import annotated_table

MARGIN_PT = 3.0
_MOST_PT = 1e6
_LIST = "FinTabNet_1.0.0_cell_{}.jsonl"
_NAME = re.compile(r"(?:.*/)?(?P<company>[^/]+)/(?P<year>\d{4})/page_(?P<page>\d{1,9})\.pdf")


class FinTabNet:
    """Converts FinTabNet; a unit is a slice of one of its lists."""

    name = "fintabnet"

    def __init__(self, config: ConversionConfig) -> None:
        self.config = config

    def units(self, root: Path) -> list[Unit]:
        """List the slices.

        *Raises*: InputError where the list of a split that is asked for is missing.
        """
        folder = root / "fintabnet" if (root / "fintabnet").is_dir() else root
        splits = ("train",) if self.config.split == "train" else ("train", "val", "test")
        units = []
        for split in splits:
            file = folder / _LIST.format(split)
            if not file.is_file() or not (folder / "pdf").is_dir():
                wanted = f"{file.name} and pdf/COMPANY/YEAR/page_N.pdf"
                raise InputError(f"{root} is not FinTabNet: it must hold {wanted} (unpack fintabnet.tar.gz)")
            slices = line_slices(file.stat().st_size)
            units += [Unit(f"{split}-{number:04d}", (file,), part) for number, part in enumerate(slices)]
        return units

    def regions(self, unit: Unit) -> Iterator[Found]:
        """Yield the tables of a slice."""
        (file,) = unit.files
        # Tables of one page follow one another.
        draw = lru_cache(maxsize=1)(partial(_draw, dpi=self.config.dpi))

        def convert(name: str, row: dict[str, object]) -> Found:
            found = _NAME.fullmatch(name)
            if found is None or ".." in name:
                raise InputError("unreadable name: it must be such as A/2003/page_26.pdf")
            return self._region(found, draw(file.parent / "pdf" / name), row)

        with file.open("rb") as stream:
            yield from convert_rows(json_lines(stream, file.name, unit.part), convert)

    def _region(self, found: re.Match[str], page: _Page, row: dict[str, object]) -> LabelledRegion:
        table = annotated_table(row.get("html"))
        table_id = row.get("table_id")
        if not isinstance(table_id, int | str):
            raise InputError(f"unreadable table_id: a {type(table_id).__name__}")
        box = page.box_px(row.get("bbox"))
        crop = page.image.crop(box)
        document, number = f"{found['company']}_{found['year']}", int(found["page"])
        x0, y0, x1, y1 = (float(edge) for edge in box)
        return LabelledRegion(
            f"{self.name}/{document}/{number}/{table_id}", encode_picture(crop), crop.width, crop.height,
            "table", table.html(self.config.table_head), self.name, document, number, (x0, y0, x1, y1),
        )  # fmt: skip


@dataclass(frozen=True)
class _Page:
    """A drawn page: `origin_pt` is its left and upper edge in PDF coordinates, `scale` pixels per point."""

    image: Image.Image
    origin_pt: tuple[float, float]
    scale: float

    def box_px(self, bbox: object) -> tuple[int, int, int, int]:
        """Return a box of the annotation in pixels, with its margin, inside the page."""
        # type() and not isinstance: true is no number here; no limit holds a NaN
        edges: list[Any] = bbox if isinstance(bbox, list) and len(bbox) == 4 else [None]
        if not all(type(edge) in (int, float) and abs(edge) < _MOST_PT for edge in edges):
            raise InputError(f"unreadable box: it is not four numbers of points below {_MOST_PT:g}")
        left, bottom, right, top = edges
        x_pt, y_pt = self.origin_pt
        x0, x1 = (left - MARGIN_PT - x_pt) * self.scale, (right + MARGIN_PT - x_pt) * self.scale
        y0, y1 = (y_pt - top - MARGIN_PT) * self.scale, (y_pt - bottom + MARGIN_PT) * self.scale
        box = (
            round(max(x0, 0)), round(max(y0, 0)),
            round(min(x1, self.image.width)), round(min(y1, self.image.height)),
        )  # fmt: skip
        if left >= right or bottom >= top or box[0] >= box[2] or box[1] >= box[3]:
            raise InputError(f"a box outside the page: {str(edges)[:60]}")
        return box


def _draw(file: Path, dpi: int) -> _Page:
    """Draw a page with all of its media box.

    *Raises*: InputError where the file is missing, broken, too large or rotated.
    """
    try:
        is_there = file.is_file()
    except OSError:  # a name that is too long for a file
        is_there = False
    if not is_there:
        raise InputError(f"missing file: {file.name[:200]!r}")
    try:
        document = pdfium.PdfDocument(file)
    except pdfium.PdfiumError as error:
        raise InputError(f"unreadable page: {error}") from error
    try:
        page = document[0]
        if page.get_rotation():
            # How its boxes lie is nowhere said.
            raise InputError("a rotated page")
        left, bottom, right, top = page.get_mediabox()
        page.set_cropbox(left, bottom, right, top)
        scale = dpi / 72
        if (right - left) * (top - bottom) * scale**2 > MAX_PAGE_PX:
            raise InputError(f"too large a page: {right - left:.0f} x {top - bottom:.0f} pt")
        image = page.render(scale=scale).to_pil().convert("RGB")
        return _Page(image, (left, top), scale)
    except (pdfium.PdfiumError, IndexError, ValueError) as error:
        raise InputError(f"unreadable page: {error}") from error
    finally:
        document.close()
