"""Tables out of boxes: the grid of annotated rows and columns, filled with the words that lie in its cells."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from gravityocr.errors import InputError
from gravityocr.training.corpora.table_markup import MarkedCell, MarkedTable, text_markup

Bbox = tuple[float, float, float, float]

_COVERED = 0.5  # the share of a row or column that a header or spanning cell must cover to count it as its own
_INSIDE = 0.5  # the share of a word that must lie in the table
_LEAST_LETTERS = 3  # words of fewer letters may be taller than wide though they are upright
_ENDS = ("table spanning cell", "table projected row header")


@dataclass(frozen=True)
class MarkedObject:
    """A part of a table's structure: `kind` as PubTables-1M names it. *Units*: pixels of the table's image."""

    kind: str
    bbox: Bbox


@dataclass(frozen=True)
class PlacedWord:
    """A word and its place. *Units*: pixels of the table's image."""

    text: str
    bbox: Bbox


def read_objects(annotation: bytes) -> list[MarkedObject]:
    """Read the objects of a PASCAL VOC annotation.

    *Raises*: InputError for broken XML, and for an object without name or box.
    """
    if b"<!DOCTYPE" in annotation or b"<!ENTITY" in annotation:
        raise InputError("unreadable annotation: it declares entities")
    try:
        root = ElementTree.fromstring(annotation)
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # an encoding that is unknown or is none
        raise InputError(f"unreadable annotation: {error}") from error
    objects = []
    for item in root.iter("object"):
        edges = [item.findtext(f"bndbox/{name}", "") for name in ("xmin", "ymin", "xmax", "ymax")]
        try:
            box = _bbox(edges)
        except ValueError as error:
            raise InputError(f"unreadable box: {' '.join(edges)[:60]}") from error
        objects.append(MarkedObject(item.findtext("name", "").strip(), box))
    return objects


def read_words(words: bytes) -> list[PlacedWord]:
    """Read the words of a table, sorted as they are read.

    *Raises*: InputError where they are no such list.
    """
    try:
        entries = json.loads(words)
        keys = [tuple(int(entry.get(name, 0)) for name in ("block_num", "line_num", "span_num")) for entry in entries]
        placed = [PlacedWord(str(entry["text"]), _bbox(entry["bbox"])) for entry in entries]
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"unreadable words: {type(error).__name__} {error}") from error
    return [word for _, word in sorted(zip(keys, placed, strict=True), key=lambda pair: pair[0])]


def _bbox(edges: Sequence[float | str]) -> Bbox:
    x0, y0, x1, y1 = (float(edge) for edge in edges)
    if not all(map(math.isfinite, (x0, y0, x1, y1))):
        raise ValueError("a box without end")
    return x0, y0, x1, y1


def table_of_boxes(objects: Sequence[MarkedObject], words: Sequence[PlacedWord]) -> MarkedTable:
    """Return the table that rows, columns, spanning cells and words make.

    *Raises*: InputError whose message begins with the kind of fault.
    """
    rows = sorted((item.bbox[1], item.bbox[3]) for item in objects if item.kind == "table row")
    columns = sorted((item.bbox[0], item.bbox[2]) for item in objects if item.kind == "table column")
    if not rows or not columns:
        raise InputError(f"no grid: {len(rows)} rows and {len(columns)} columns")
    _check_upright(words)
    owners = _owners(objects, rows, columns)
    texts: dict[tuple[int, int], list[PlacedWord]] = {}
    whole = (columns[0][0], rows[0][0], max(end for _, end in columns), max(end for _, end in rows))
    for word in words:
        x0, y0, x1, y1 = word.bbox
        area = max(x1 - x0, 0.0) * max(y1 - y0, 0.0)
        inside = _shared((x0, x1), (whole[0], whole[2])) * _shared((y0, y1), (whole[1], whole[3]))
        if area and inside < _INSIDE * area:
            continue  # a caption or note in the margin of the image
        place = _nearest((y0, y1), rows), _nearest((x0, x1), columns)
        texts.setdefault(owners.get(place, place), []).append(word)
    table: list[tuple[MarkedCell, ...]] = []
    spans = _spans(owners)
    for y in range(len(rows)):
        own = []
        for x in range(len(columns)):
            if owners.get((y, x), (y, x)) == (y, x):
                n_rows, n_columns = spans.get((y, x), (1, 1))
                own.append(MarkedCell(text_markup(_joined(texts.get((y, x), ()))), n_rows, n_columns))
        table.append(tuple(own))
    return MarkedTable(tuple(table), _n_head(objects, rows))


def _check_upright(words: Sequence[PlacedWord]) -> None:
    """Refuse words that stand on their sides: those of a turned table whose image was turned back without them."""
    long = [word.bbox for word in words if len(word.text) >= _LEAST_LETTERS]
    if long and statistics.median((x1 - x0) - (y1 - y0) for x0, y0, x1, y1 in long) < 0:
        raise InputError("words across the rows")


def _owners(
    objects: Sequence[MarkedObject], rows: Sequence[tuple[float, float]], columns: Sequence[tuple[float, float]]
) -> dict[tuple[int, int], tuple[int, int]]:
    """Map the places of spanning cells to the first of each."""
    owners: dict[tuple[int, int], tuple[int, int]] = {}
    blocks = set()
    for item in objects:
        if item.kind in _ENDS:
            ys = _covered((item.bbox[1], item.bbox[3]), rows)
            xs = _covered((item.bbox[0], item.bbox[2]), columns)
            if len(ys) * len(xs) > 1:
                blocks.add((ys.start, ys.stop, xs.start, xs.stop))
    for top, bottom, left, right in sorted(blocks):
        for y in range(top, bottom):
            for x in range(left, right):
                if (y, x) in owners:
                    raise InputError(f"overlapping spanning cells: row {y + 1}, column {x + 1}")
                owners[y, x] = (top, left)
    return owners


def _spans(owners: dict[tuple[int, int], tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for (y, x), (top, left) in owners.items():
        n_rows, n_columns = spans.get((top, left), (1, 1))
        spans[top, left] = max(n_rows, y - top + 1), max(n_columns, x - left + 1)
    return spans


def _covered(part: tuple[float, float], bands: Sequence[tuple[float, float]]) -> range:
    """Return the bands that lie in a part, by half of their own extent or more."""
    found = [n for n, band in enumerate(bands) if _shared(part, band) >= _COVERED * (band[1] - band[0]) > 0]
    return range(found[0], found[-1] + 1) if found else range(0)


def _shared(first: tuple[float, float], second: tuple[float, float]) -> float:
    return max(0.0, min(first[1], second[1]) - max(first[0], second[0]))


def _nearest(part: tuple[float, float], bands: Sequence[tuple[float, float]]) -> int:
    """Return the band that shares most with a part; of those that share nothing, the closest."""
    low, high = part
    best, most = 0, -math.inf
    for number, (start, end) in enumerate(bands):
        # positive where they overlap, else minus the gap between them
        shared = min(high, end) - max(low, start)
        if shared > most:
            best, most = number, shared
    return best


def _n_head(objects: Sequence[MarkedObject], rows: Sequence[tuple[float, float]]) -> int:
    """Count the rows from the top that header boxes cover."""
    headers = [(item.bbox[1], item.bbox[3]) for item in objects if item.kind == "table column header"]
    covered = {row for header in headers for row in _covered(header, rows)}
    return next((row for row in range(len(rows)) if row not in covered), len(rows))


def _joined(words: Sequence[PlacedWord]) -> str:
    """Join the words of a cell: with spaces, but for a word that a hyphen at the end of a line cuts in two."""
    text = ""
    before: PlacedWord | None = None
    for word in words:
        goes_on = (
            before is not None
            and len(text) > 1
            and text[-1] == "-"
            and text[-2].isalpha()
            and word.text[:1].islower()
            and word.bbox[1] >= before.bbox[3] - (before.bbox[3] - before.bbox[1]) / 2
        )
        text += word.text if goes_on or before is None else f" {word.text}"
        before = word
    return text
