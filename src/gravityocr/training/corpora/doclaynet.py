"""DocLayNet: pages of reports, papers, laws, tenders, manuals and patents; all targets pending.

    ROOT/COCO/train.json, val.json, test.json     COCO: `images` with `file_name`, `doc_name`, `page_no`, `precedence`
    ROOT/PNG/<hash>.png                           the pages, squeezed to a square of 1025 px
    ROOT/PDF/<hash>.pdf                           the extra files: the same pages as they were printed, one a file
    ROOT/JSON/<hash>.json                         the extra files: cells of digital text, not read

Pages are drawn from PDF/ at the resolution of the config where that folder is there, and else taken from PNG/, whose
letters are small and narrow. Only pages of train.json are taken; `--split all` adds val.json, never test.json. The
boxes of its annotators stay unread: pages are cut by the detector of inference. The cells of text know neither formulas
nor tables, so a teacher writes the targets. Pages that were annotated again (`precedence` above 0) come once. A unit is
a slice of a list.

*Source*: the README of DS4SD/DocLayNet ("Dataset structure", "COCO annotations", "Extra: JSON files").
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pypdfium2 as pdfium
from PIL import Image

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, Skipped, Unit
from gravityocr.training.corpora.page_crops import MAX_PAGE_PX, PageCutter, PageName, open_page
from gravityocr.training.corpora.published_files import read_published
from gravityocr.training.corpora.region_shards import LabelledRegion

UNIT_PAGES = 2000
_PDF, _PNG = "PDF", "PNG"
_CHUNK_CHARS = 1 << 20
_BETWEEN = (",", " ", "\n", "\r", "\t")
_IMAGES = re.compile(r'"images"\s*:\s*\[')
_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_LONGEST_KEY = 100
_LONGEST_RECORD = 4 * _CHUNK_CHARS


class DocLayNet:
    """Converts DocLayNet, one unit a slice of a COCO file."""

    name = "doclaynet"

    def __init__(self, config: ConversionConfig) -> None:
        self._config = config

    def units(self, root: Path) -> list[Unit]:
        """List the slices of the COCO files.

        *Raises*: InputError where they or the pages are missing.
        """
        splits = ("train",) if self._config.split == "train" else ("train", "val")
        files = [root / "COCO" / f"{split}.json" for split in splits]
        if not any((root / kind).is_dir() for kind in (_PDF, _PNG)) or not all(file.is_file() for file in files):
            what = f"PDF/ or PNG/, and {', '.join(f'COCO/{file.name}' for file in files)}"
            raise InputError(f"{root} is no DocLayNet: it should hold {what}")
        pages = _PDF if (root / _PDF).is_dir() else _PNG
        found: list[Unit] = []
        for file in files:
            for number, start in enumerate(range(0, _n_images(file), UNIT_PAGES)):
                found.append(Unit(f"{file.stem}-{number:05d}", (file,), f"{pages} {start}"))
        return found

    def regions(self, unit: Unit) -> Iterator[LabelledRegion | Skipped]:
        """Yield the regions of the pages of a slice.

        *Raises*: InputError where the COCO file is broken.
        """
        file, (kind, first) = unit.files[0], unit.part.split()
        cutter, start = PageCutter(self._config.layout), int(first)
        for number, record in enumerate(islice(coco_images(file), start, start + UNIT_PAGES), start):
            where = f"{file.name}, image {number}"
            if not isinstance(record, dict):
                told = "none, or nested too deep" if record is None else f"a {type(record).__name__}"
                yield Skipped(where, f"no record of an image: {told}")
                continue
            png = record.get("file_name")
            if not isinstance(png, str) or Path(png).name != png:
                told = repr(png[:80]) if isinstance(png, str) else f"a {type(png).__name__}"
                yield Skipped(where, f"no name of a page: {told}")
                continue
            if record.get("precedence"):
                yield Skipped(where, f"annotated again: {png[:200]}")
                continue
            try:
                data = read_published((file.parent.parent / kind / png).with_suffix(f".{kind.lower()}"))
                image = _drawn(data, self._config.dpi) if kind == _PDF else open_page(data)
            except InputError as error:
                yield Skipped(where, str(error) if "missing" in str(error) else f"unreadable page: {error}")
                continue
            yield from cutter.regions(image, _page_name(self.name, record, Path(png).stem))


def _drawn(data: bytes, dpi: int) -> Image.Image:
    """Draw the page of a PDF file, as inference does.

    *Raises*: InputError where it is broken or too large.
    """
    try:
        with closing(pdfium.PdfDocument(data)) as document, closing(document[0]) as page:
            width_pt, height_pt = page.get_size()
            if width_pt * height_pt * (dpi / 72) ** 2 > MAX_PAGE_PX:
                raise InputError(f"too large: {width_pt:.0f} x {height_pt:.0f} pt at {dpi} dpi; choose a lower --dpi")
            with closing(page.render(scale=dpi / 72)) as bitmap:
                return bitmap.to_pil().convert("RGB").copy()
    except (pdfium.PdfiumError, IndexError) as error:
        raise InputError(f"it is broken ({error}); download it again") from error


def _n_images(file: Path) -> int:
    """Count the images of a COCO file; one that is broken has one more, where reading it ends in the error."""
    n_images = 0
    try:
        for _ in coco_images(file):
            n_images += 1
    except InputError:
        n_images += 1
    return n_images


def coco_images(file: Path) -> Iterator[Any]:
    """Yield the records of `images` of a COCO file, without holding its many annotations.

    What is nested too deep to be read comes as None.

    *Raises*: InputError where the file has no such list, or it is broken.
    """
    decoder = json.JSONDecoder(parse_int=_number)
    # what is no UTF-8 becomes halves of surrogate pairs, which no name that is looked up has
    with file.open(encoding="utf-8", errors="surrogateescape") as stream:
        text, at = _text_behind(stream, file), 0
        while True:
            while text[at : at + 1] in _BETWEEN:
                at += 1
            if text.startswith("]", at):
                return
            try:
                record, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                end = _end_of_value(text, at) if isinstance(error, RecursionError) else -1
                if end >= 0:
                    yield None
                    at = end
                    continue
                # a record that is read in part looks broken until the rest of it is there
                more = stream.read(_CHUNK_CHARS) if len(text) - at < _LONGEST_RECORD else ""
                if not more:
                    raise InputError(f"{file} breaks off in its images ({error}); download it again") from error
                text, at = text[at:] + more, 0
                continue
            yield record


def _end_of_value(text: str, at: int) -> int:
    """Return where a list or record ends by its brackets alone, -1 where its end is not there."""
    depth = 0
    for part in _PART.finditer(text, at):
        if part[0] in ("[", "{"):
            depth += 1
        elif part[0] in ("]", "}"):
            depth -= 1
            if not depth:
                return part.end()
    return -1


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) < 20 else float(digits)


def _text_behind(stream: TextIO, file: Path) -> str:
    """Read up to the start of the list of images; return what of it was read along."""
    text = ""
    while True:
        more = stream.read(_CHUNK_CHARS)
        text += more
        found = _IMAGES.search(text)
        if found:
            return text[found.end() :]
        if not more:
            raise InputError(f"{file} has no list 'images'; it should be a COCO file of DocLayNet")
        text = text[-_LONGEST_KEY:]


def _page_name(source: str, record: dict[str, Any], stem: str) -> PageName:
    """Name a page by its document and its number as DocLayNet counts, and by its hash in the ids of its regions."""
    document, page = record.get("doc_name"), record.get("page_no")
    is_named = isinstance(document, str) and document
    return PageName(source, str(document) if is_named else stem, page if isinstance(page, int) else 0, stem)
