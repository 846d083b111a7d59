"""Tiny table data sets in exactly the layouts in which the real ones are published."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from PIL import Image, ImageDraw

Row = Sequence[tuple[str, int, int]]
"""Cells that start in a row: text, rows, columns. `<b>` and other marks in a text become tokens of their own."""

SPANS: tuple[Row, ...] = (
    (("<b>Group</b>", 2, 1), ("R&D < 5", 1, 2), ("", 2, 1)),
    (("10<sup>3</sup>", 1, 1), ("<i>b</i>", 1, 1)),
    (("x", 1, 1), ("", 1, 1), ("1 > 0", 1, 2)),
)
SPANS_HTML = (
    '<table><tr><td rowspan="2">Group</td><td colspan="2">R&amp;D &lt; 5</td><td rowspan="2"></td></tr>'
    "<tr><td>10<sup>3</sup></td><td>b</td></tr>"
    '<tr><td>x</td><td></td><td colspan="2">1 &gt; 0</td></tr></table>'
)
RAGGED: tuple[Row, ...] = ((("a", 1, 1), ("b", 1, 1)), (("c", 1, 1),))
OVERLAPPING: tuple[Row, ...] = ((("a", 1, 1), ("b", 2, 1)), (("c", 1, 2),))


def picture(width: int = 40, height: int = 24, form: str = "PNG", mode: str = "RGB") -> bytes:
    """Return an encoded picture."""
    image = Image.new(mode, (width, height), "white" if mode != "RGBA" else (0, 0, 0, 0))
    ImageDraw.Draw(image).rectangle((4, 4, 12, 9), fill="black")
    buffer = io.BytesIO()
    image.save(buffer, format=form)
    return buffer.getvalue()


def tokens(text: str) -> list[str]:
    """Split a cell's text into characters and tags, as PubTabNet does."""
    found, at = [], 0
    while at < len(text):
        end = text.find(">", at)
        is_tag = text[at] == "<" and end > 0 and text[at + 1 : end].strip("/").isalpha()
        found.append(text[at : end + 1] if is_tag else text[at])
        at += len(found[-1])
    return found


def annotation(rows: Sequence[Row], n_head: int = 0, parts: bool = True) -> dict[str, Any]:
    """Return the `html` of a table: structure tokens and cells; `parts` says whether it has thead and tbody."""
    structure: list[str] = []
    cells = []
    for y, row in enumerate(rows):
        if parts and y in (0, n_head):
            structure += [*(["</thead>"] if y else []), "<thead>" if y < n_head else "<tbody>"]
        structure.append("<tr>")
        for text, n_rows, n_columns in row:
            spans = [f' {name}="{n}"' for name, n in (("colspan", n_columns), ("rowspan", n_rows)) if n > 1]
            structure += ["<td", *spans, ">", "</td>"] if spans else ["<td>", "</td>"]
            cells.append({"tokens": tokens(text), **({"bbox": [1, 2, 3, 4]} if text else {})})
        structure.append("</tr>")
    structure += [] if not parts else ["</tbody>"]
    return {"structure": {"tokens": structure}, "cells": cells}


def sample(filename: str, rows: Sequence[Row] = SPANS, split: str = "train", n_head: int = 1, **more) -> dict[str, Any]:
    """Return a line of a list."""
    return {"filename": filename, "split": split, "imgid": 0, "html": annotation(rows, n_head), **more}


def write_lines(file: Path, lines: Sequence[dict[str, Any] | str]) -> None:
    """Write a list of JSON lines; strings stay as they are."""
    file.parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def put(file: Path, data: bytes) -> None:
    """Write a file and its folders."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def write_pubtabnet(root: Path, lines: Sequence[dict[str, Any] | str]) -> None:
    """Write the list of PubTabNet with an image for each of its samples."""
    write_lines(root / "PubTabNet_2.0.0.jsonl", lines)
    for line in lines:
        if isinstance(line, dict):
            put(root / line["split"] / line["filename"], picture())


def write_synthtabnet(root: Path, part: str, lines: Sequence[dict[str, Any] | str], *, packed: bool = False) -> None:
    """Write a part of SynthTabNet, as a folder or as its zip."""
    folder = root / part
    write_lines(folder / "synthetic_data.jsonl", lines)
    for line in lines:
        if isinstance(line, dict):
            put(folder / "images" / line["split"] / line["filename"], picture())
    if packed:
        files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
        with zipfile.ZipFile(root / f"{part}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                archive.write(file, file.relative_to(root).as_posix())
                file.unlink()
        for empty in sorted(folder.rglob("*"), reverse=True):
            empty.rmdir()
        folder.rmdir()


# PubTables-1M --------------------------------------------------------------------------------------

ROW_PX, COLUMN_PX, EDGE_PX = 20, 80, 10


@dataclass(frozen=True)
class Boxes:
    """A table as PubTables-1M annotates it."""

    objects: list[tuple[str, tuple[float, float, float, float]]]
    words: list[dict[str, Any]]
    size: tuple[int, int]

    def xml(self) -> bytes:
        """Return the PASCAL VOC annotation."""
        root = ElementTree.Element("annotation")
        ElementTree.SubElement(root, "filename").text = "table.jpg"
        for name, bbox in self.objects:
            item = ElementTree.SubElement(root, "object")
            ElementTree.SubElement(item, "name").text = name
            box = ElementTree.SubElement(item, "bndbox")
            for key, edge in zip(("xmin", "ymin", "xmax", "ymax"), bbox, strict=True):
                ElementTree.SubElement(box, key).text = str(edge)
        return ElementTree.tostring(root)


def boxes_of(rows: Sequence[Row], n_head: int = 1) -> Boxes:
    """Draw up the annotation of a table of plain texts: rows, columns, spans with text, the head, words in cells."""
    taken: set[tuple[int, int]] = set()
    n_columns = sum(n for _, _, n in rows[0])
    width, height = EDGE_PX * 2 + COLUMN_PX * n_columns, EDGE_PX * 2 + ROW_PX * len(rows)
    right, bottom = width - EDGE_PX, height - EDGE_PX
    objects = [("table", (EDGE_PX, EDGE_PX, right, bottom))]
    objects += [
        ("table row", (EDGE_PX, EDGE_PX + y * ROW_PX, right, EDGE_PX + (y + 1) * ROW_PX)) for y in range(len(rows))
    ]
    objects += [
        ("table column", (EDGE_PX + x * COLUMN_PX, EDGE_PX, EDGE_PX + (x + 1) * COLUMN_PX, bottom))
        for x in range(n_columns)
    ]
    if n_head:
        objects.append(("table column header", (EDGE_PX, EDGE_PX, right, EDGE_PX + n_head * ROW_PX)))
    words: list[dict[str, Any]] = []
    for y, row in enumerate(rows):
        x = 0
        for text, n_down, n_across in row:
            while (y, x) in taken:
                x += 1
            taken |= {(y + i, x + j) for i in range(n_down) for j in range(n_across)}
            left, top = EDGE_PX + x * COLUMN_PX, EDGE_PX + y * ROW_PX
            if n_down * n_across > 1 and text:
                kind = "table projected row header" if n_across == n_columns else "table spanning cell"
                objects.append((kind, (left, top, left + n_across * COLUMN_PX, top + n_down * ROW_PX)))
            for number, word in enumerate(text.split()):
                at = left + 3 + number * 30
                box = [at, top + 4, at + 7 * len(word), top + 15]
                words.append(
                    {"text": word, "bbox": box, "span_num": len(words), "line_num": 0, "block_num": 0, "flags": 0}
                )
            x += n_across
    return Boxes(objects, words, (width, height))


def write_pubtables(
    root: Path, tables: dict[str, Boxes], split: str = "Train", *, packed: bool = False, plain: bool = False
) -> None:
    """Write tables of a split: as folders of the hub's names, as its archives, or as `train/`, `images/`, `words/`."""
    hub = "PubTables-1M-Structure_"
    folders = (
        (split.lower(), "images", "words")
        if plain
        else (f"{hub}Annotations_{split}", f"{hub}Images_{split}", f"{hub}Table_Words")
    )
    kinds: dict[str, dict[str, bytes]] = {folder: {} for folder in folders}
    for name, boxes in tables.items():
        kinds[folders[0]][f"{name}.xml"] = boxes.xml()
        kinds[folders[1]][f"{name}.jpg"] = picture(*boxes.size, form="JPEG")
        kinds[folders[2]][f"{name}_words.json"] = json.dumps(boxes.words).encode()
    for folder, files in kinds.items():
        if packed:
            with tarfile.open(root / f"{folder}.tar.gz", "w:gz") as archive:
                for name, data in files.items():
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
        else:
            for name, data in files.items():
                put(root / folder / name, data)
