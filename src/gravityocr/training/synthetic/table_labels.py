"""The truth of table pieces: which character of the source stands where in the pieces that the splitter made."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from PIL import Image

from gravityocr.model.table_pieces import TablePiece, TablePieceSpec, piece_markup, split_table
from gravityocr.training.synthetic.charset import CHARSET, NEVER_DRAWN
from gravityocr.training.synthetic.shards import RenderedSample

_LOST_SHARE = 0.02
_OVERLAP = 0.35
_FIRST_SLOT = 0xE000  # private use: stands for the text of a cell while the markup is written
_KNOWN = frozenset(CHARSET) - NEVER_DRAWN
_TAGS = re.compile(r'</?tr>|</?td>|<td| colspan="| rowspan="|.', re.DOTALL)


@dataclass(frozen=True)
class TableCrop:
    """Hold a table as it was drawn, its true HTML and its characters in the order of the source, without spaces.

    *Shapes*: image uint8 [H, W]; boxes float [n, 4] (left, top, right, bottom); centers_px float [n, 2] (x, y); cells
    int [n]: the cell of each character, negative for text around the table; spaced bool [n]: the source has a space
    before it; lines int [n]: the line of its cell. *Units*: crop px.
    """

    image: np.ndarray
    html: str
    chars: str
    boxes: np.ndarray
    centers_px: np.ndarray
    cells: np.ndarray
    spaced: np.ndarray
    lines: np.ndarray
    source: str

    def select(self, kept: np.ndarray) -> TableCrop:
        """Return the crop with some of its characters."""
        return replace(
            self, chars="".join(char for char, keep in zip(self.chars, kept, strict=True) if keep),
            boxes=self.boxes[kept], centers_px=self.centers_px[kept], cells=self.cells[kept],
            spaced=self.spaced[kept], lines=self.lines[kept],
        )  # fmt: skip

    def turned(self, degrees: float) -> TableCrop:
        """Return the crop with its characters where `Image.rotate` puts them; the image stays."""
        middle = np.array(self.image.shape[::-1]) / 2
        sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
        centers = (self.centers_px - middle) @ np.array([[cosine, -sine], [sine, cosine]]) + middle
        return replace(self, centers_px=centers, boxes=self.boxes + np.tile(centers - self.centers_px, 2))


def label_pieces(crop: TableCrop, spec: TablePieceSpec) -> tuple[list[RenderedSample], Counter[str]]:
    """Split a crop and label its pieces; return the good ones, and how many were made and dropped by reason."""
    pieces = split_table(Image.fromarray(crop.image), spec)
    if pieces:
        crop = crop.turned(pieces[0].angle_deg)  # all pieces come from the same turned picture
    owners = _owners(crop, pieces)
    samples, counts = [], Counter({"pieces": len(pieces)})
    for number, piece in enumerate(pieces):
        try:
            samples.append(_label(crop, piece, number, owners))
        except _UnclearError as error:
            counts[str(error)] += 1
    return samples, counts


class _UnclearError(Exception):
    """Tell why a piece has no clear text."""


@dataclass(frozen=True)
class _Letters:
    """Hold the text of a cell with the place of each character, NaN where it has no ink."""

    text: str
    centers: list[tuple[float, float]]


def _owners(crop: TableCrop, pieces: list[TablePiece]) -> np.ndarray:
    """Return (piece, fragment) of every character, -1 where no fragment holds its centre; int [n, 2]."""
    owners = np.full((len(crop.chars), 2), -1, dtype=np.int64)
    nearest = np.full(len(crop.chars), np.inf)
    x, y = crop.centers_px.T
    for number, piece in enumerate(pieces):
        for place, fragment in enumerate(piece.fragments):
            left, top, right, bottom = fragment.source
            away = np.abs(y - (top + bottom) / 2)
            held = (x >= left) & (x < right) & (y >= top) & (y < bottom) & (away < nearest)
            owners[held] = number, place
            nearest[held] = away[held]
    return owners


def _label(crop: TableCrop, piece: TablePiece, number: int, owners: np.ndarray) -> RenderedSample:
    mine = np.flatnonzero(owners[:, 0] == number)
    if not mine.size:
        raise _UnclearError("no text")
    lost = _lost(crop, piece, owners)
    if lost > _LOST_SHARE * (lost + mine.size):
        raise _UnclearError("characters outside of all fragments")
    order = sorted(
        range(len(piece.fragments)),
        key=lambda i: (piece.fragments[i].cell, piece.fragments[i].line, piece.fragments[i].source[0]),
    )
    members: list[list[list[int]]] = [[] for _ in piece.cells]
    for place in order:
        inside = mine[owners[mine, 1] == place]
        members[piece.fragments[place].cell] += _groups(crop, inside)
    letters = [_letters(crop, piece, owners, groups) for groups in members]
    tokens, centers = _tokens(piece, letters)
    unknown = set("".join(cell.text for cell in letters)) - _KNOWN
    if unknown:
        raise _UnclearError("characters outside of the charset")
    image = np.array(piece.image)
    places = np.asarray(centers, dtype=np.float32).reshape(-1, 2)
    np.clip(places, 0.0, np.array(image.shape[::-1], dtype=np.float32) - 0.01, out=places)
    return RenderedSample("table", image, tuple(tokens), places, crop.source)


def _lost(crop: TableCrop, piece: TablePiece, owners: np.ndarray) -> int:
    """Count the characters among the piece's fragments that no fragment holds."""
    edges = np.array([fragment.source for fragment in piece.fragments])
    (left, top), (right, bottom) = edges[:, :2].min(axis=0), edges[:, 2:].max(axis=0)
    x, y = crop.centers_px.T
    return int(((owners[:, 0] < 0) & (x >= left) & (x < right) & (y >= top) & (y < bottom)).sum())


def _groups(crop: TableCrop, inside: np.ndarray) -> list[list[int]]:
    """Order the characters of a fragment from left to right by lines of source cells."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i in inside:
        groups.setdefault((int(crop.cells[i]), int(crop.lines[i])), []).append(int(i))
    ordered = sorted(groups.values(), key=lambda group: float(crop.boxes[group, 0].min()))
    for before, after in pairwise(ordered):
        reach = crop.boxes[before, 2].max() - crop.boxes[after, 0].min()
        if reach > _OVERLAP * float(np.diff(crop.boxes[after][:, [1, 3]]).max()):
            raise _UnclearError("two lines in one fragment")
    return ordered


def _letters(crop: TableCrop, piece: TablePiece, owners: np.ndarray, groups: list[list[int]]) -> _Letters:
    """Join the groups of a cell: a space between two of them, unless the source goes on without one."""
    text, centers, last = "", [], -2
    line, right = -1, math.nan
    for group in groups:
        for i in group:
            fragment = piece.fragments[owners[i, 1]]
            xs = np.array([crop.boxes[i, 0], crop.centers_px[i, 0], crop.boxes[i, 2]]) - fragment.source[0]
            left, x, end = (float(v) for v in xs * fragment.scale + fragment.place[0])
            y = float((crop.centers_px[i, 1] - fragment.source[1]) * fragment.scale + fragment.place[1])
            goes_on = i == last + 1 and crop.cells[i] == crop.cells[last]
            if text and (crop.spaced[i] or not (goes_on or i in group[1:])):
                text += " "
                centers.append(((left + right) / 2, y) if fragment.line == line else (math.nan, math.nan))
            text += crop.chars[i]
            centers.append((x, y))
            last, line, right = i, fragment.line, end
    return _Letters(text, centers)


def _tokens(piece: TablePiece, letters: list[_Letters]) -> tuple[list[str], list[tuple[float, float]]]:
    """Write the piece's markup with the cells' characters in their places."""
    tokens: list[str] = []
    centers: list[tuple[float, float]] = []
    slots = [chr(_FIRST_SLOT + i) for i in range(len(letters))]
    for token in _TAGS.findall(piece_markup(piece, slots)):
        cell = ord(token[0]) - _FIRST_SLOT
        if 0 <= cell < len(letters):
            tokens += letters[cell].text
            centers += letters[cell].centers
        else:
            tokens.append(token)
            centers.append((math.nan, math.nan))
    return tokens, centers
