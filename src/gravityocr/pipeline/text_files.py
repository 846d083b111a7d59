"""What another reader wrote of the same pages: hOCR and ALTO files as words with places."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lxml import etree

from gravityocr.document import Box, PlacedText
from gravityocr.errors import InputError

_MAX_BYTES = 200_000_000
_BBOX = re.compile(r"\bbbox((?:\s+-?\d+(?:\.\d+)?){4})")
_INTACT = "hand an intact hOCR or ALTO file"


@dataclass(frozen=True)
class KnownPage:
    """What a file says of one page. *Units*: `size` is the page's width and height in the unit of its boxes."""

    size: tuple[float, float]
    words: tuple[PlacedText, ...]

    def words_on(self, size_px: tuple[int, int]) -> tuple[PlacedText, ...]:
        """Return the words in pixels of a page image of `size_px`, whatever resolution the file's reader saw.

        A word without area on the page is left out.
        """
        x, y = size_px[0] / self.size[0], size_px[1] / self.size[1]
        placed = (
            (word.text, Box(word.box.x0 * x, word.box.y0 * y, word.box.x1 * x, word.box.y1 * y).clamp(size_px))
            for word in self.words
        )
        return tuple(PlacedText(text, box) for text, box in placed if box is not None)


def read_known_pages(path: str | Path) -> tuple[KnownPage, ...]:
    """Return the pages of an hOCR or ALTO file, told apart by what is in it.

    *Raises*: InputError for a file that cannot be read or is neither.
    """
    start = _read(path)[:4096].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return read_hocr(path) if b"<html" in start or b"<!doctype html" in start else read_alto(path)


def read_hocr(path: str | Path) -> tuple[KnownPage, ...]:
    """Return the pages of an hOCR file: its `ocrx_word`s or, where a page has none, its lines.

    *Raises*: InputError for a file that is no hOCR, or whose pages have no size.
    """
    data = _read(path)
    parser = etree.HTMLParser(no_network=True, huge_tree=False, encoding="utf-8" if _is_utf8(data) else None)
    root = _parsed(path, data, parser)
    sheets = _of_class(root, "ocr_page")
    if not sheets:
        raise InputError(f"{path}: holds no ocr_page; {_INTACT}")
    pages = []
    for number, sheet in enumerate(sheets, start=1):
        edges = _bbox(sheet)
        if edges is None or edges.area <= 0:
            raise InputError(f"{path}: page {number} has no bbox, so its size is unknown; {_INTACT}")
        written = _of_class(sheet, "ocrx_word") or _of_class(sheet, "ocr_line")
        placed = ((" ".join("".join(element.itertext()).split()), _bbox(element)) for element in written)
        words = (PlacedText(text, _shifted(box, edges)) for text, box in placed if text and box)
        pages.append(KnownPage((edges.width, edges.height), tuple(words)))
    return tuple(pages)


def read_alto(path: str | Path) -> tuple[KnownPage, ...]:
    """Return the pages of an ALTO file of any version and measurement unit: its strings, hyphens added to theirs.

    *Raises*: InputError for a file that is no ALTO, or whose pages have no size.
    """
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    root = _parsed(path, _read(path), parser)
    sheets = [element for element in root.iter() if _name(element) == "Page"]
    if _name(root).lower() != "alto" or not sheets:
        raise InputError(f"{path}: holds no ALTO pages; {_INTACT}")
    pages = []
    for number, sheet in enumerate(sheets, start=1):
        # the page's own or, where it has none, the print space's
        size = next((found for element in sheet.iter() if (found := _size(element))), None)
        if size is None:
            raise InputError(f"{path}: page {number} has no WIDTH and HEIGHT, so its size is unknown; {_INTACT}")
        pages.append(KnownPage(size, tuple(_strings(sheet))))
    return tuple(pages)


def _read(path: str | Path) -> bytes:
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise InputError(f"{path}: is no regular file; {_INTACT}")
        with open(path, "rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); {_INTACT}") from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"{path}: is larger than {_MAX_BYTES // 1_000_000} MB; split it into files of fewer pages")
    return data


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _parsed(path: str | Path, data: bytes, parser: etree.XMLParser | etree.HTMLParser) -> etree._Element:
    try:
        root = etree.fromstring(data, parser)
    except (etree.LxmlError, ValueError) as error:
        raise InputError(f"{path}: cannot be parsed ({error}); {_INTACT}") from error
    if root is None:
        raise InputError(f"{path}: is empty; {_INTACT}")
    return root


def _of_class(root: etree._Element, name: str) -> list[etree._Element]:
    return [element for element in root.iter("*") if name in (element.get("class") or "").split()]


def _bbox(element: etree._Element) -> Box | None:
    """Return the place that an hOCR element's title tells."""
    match = _BBOX.search(element.get("title") or "")
    return Box(*(float(value) for value in match.group(1).split())) if match else None


def _shifted(box: Box, page: Box) -> Box:
    return Box(box.x0 - page.x0, box.y0 - page.y0, box.x1 - page.x0, box.y1 - page.y0)


def _name(element: etree._Element) -> str:
    """Return an element's name without its namespace, "" for what is no element."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _numbers(element: etree._Element, *names: str) -> list[float] | None:
    """Return finite attributes of an element, None where one is missing or no number."""
    try:
        values = [float(element.get(name) or "nan") for name in names]
    except ValueError:
        return None
    return values if all(map(math.isfinite, values)) else None


def _size(element: etree._Element) -> tuple[float, float] | None:
    if _name(element) not in ("Page", "PrintSpace"):
        return None
    values = _numbers(element, "WIDTH", "HEIGHT")
    return (values[0], values[1]) if values and min(values) > 0 else None


def _strings(sheet: etree._Element) -> Iterator[PlacedText]:
    """Yield the strings of an ALTO page, a hyphen at a line's end with the string before it."""
    last: PlacedText | None = None
    for element in sheet.iter("*"):
        name = _name(element)
        if name == "HYP" and last is not None:
            last = PlacedText(last.text + "-", last.box)
            continue
        if name != "String":
            continue
        if last is not None:
            yield last
        place = _numbers(element, "HPOS", "VPOS", "WIDTH", "HEIGHT")
        text = " ".join((element.get("CONTENT") or "").split())
        last = None
        if place and text:
            left, top, width, height = place
            last = PlacedText(text, Box(left, top, left + width, top + height))
    if last is not None:
        yield last
