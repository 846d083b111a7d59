r"""Data of one's own: lines of JSON that name an image, a task and its text.

    ROOT/**/<name>.jsonl     an object a line: {"image": "scans/1.png", "task": "text", "text": "What it says."}

`image` is relative to the folder of the list and lies below ROOT. `task` is text, table or formula. `text` is the
target; null, or no `text` at all, is one that a teacher has yet to write. Optional: `doc_id` (else the image's path
below ROOT without its ending: regions of a document stay on one side of the validation split), `page` (from 0), and
`bbox` [x0, y0, x1, y1] in pixels, which cuts the region out of the image as inference cuts it. Delimiters around a
formula go. Other fields are ignored where `text` is there. A unit is a slice of a list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from PIL import Image

from gravityocr.document import Box
from gravityocr.errors import InputError
from gravityocr.metrics.normalization import strip_formula_delimiters
from gravityocr.pipeline.crops import CropConfig, cut
from gravityocr.training.corpora.conversion import ConversionConfig, Skipped, Unit, unit_name
from gravityocr.training.corpora.page_crops import open_page
from gravityocr.training.corpora.published_files import published_picture, read_published
from gravityocr.training.corpora.region_shards import TASKS, LabelledRegion, encode_picture

UNIT_LINES = 20_000
FIELDS = ("image", "task", "text", "doc_id", "page", "bbox")

_SUFFIX = ".jsonl"
_MOST = 2**31 - 1
_BOM = b"\xef\xbb\xbf"


class JsonLines:
    """Converts lists of one's own, one unit a slice of a list; the config's layout and split do not matter."""

    name = "jsonl"

    def __init__(self, config: ConversionConfig) -> None:
        self._config = config

    def units(self, root: Path) -> list[Unit]:
        """List the slices of the lists below a folder; a list that was edited gives other units.

        *Raises*: InputError where there is none.
        """
        files = sorted(file for file in root.rglob(f"*{_SUFFIX}") if file.is_file())
        if not files:
            example = '{"image": "scans/1.png", "task": "text", "text": "What it says."}'
            raise InputError(f"{root} holds no list (*{_SUFFIX}); write one with lines such as {example}")
        units = []
        for file in files:
            stem = unit_name(file.relative_to(root).as_posix().removesuffix(_SUFFIX))
            with file.open("rb") as stream:
                parts = [*_slices(stream)]
            units += [Unit(f"{stem}-{number:05d}", (file, root), part) for number, part in enumerate(parts)]
        return units

    def regions(self, unit: Unit) -> Iterator[LabelledRegion | Skipped]:
        """Yield the regions of a slice.

        *Raises*: OSError where the list cannot be read.
        """
        file, root = unit.files
        label = unit.name.rpartition("-")[0]
        number, start = (int(value) for value in unit.part.split()[:2])
        pictures = lru_cache(maxsize=2)(_page)  # regions of a page are often neighbours
        with file.open("rb") as stream:
            stream.seek(start)
            for line in islice(stream, UNIT_LINES):
                number += 1
                where = f"{file.relative_to(root).as_posix()}, line {number}"
                content = line.removeprefix(_BOM).strip() if number == 1 else line.strip()
                if not content:
                    continue
                try:
                    yield _region(_record(content), file, root.resolve(), f"{label}-{number}", pictures)
                except InputError as error:
                    yield Skipped(where, str(error))


def _slices(stream: BinaryIO) -> Iterator[str]:
    """Yield the slices of a list as number of lines before it, byte where it begins, and a digest of it."""
    first = start = 0
    while True:
        digest = hashlib.blake2b(digest_size=8)
        n_lines = n_bytes = 0
        for line in islice(stream, UNIT_LINES):
            digest.update(line)
            n_lines, n_bytes = n_lines + 1, n_bytes + len(line)
        if n_lines or not first:
            yield f"{first} {start} {digest.hexdigest()}"
        if n_lines < UNIT_LINES:
            return
        first, start = first + n_lines, start + n_bytes


def _record(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"no JSON object: it is a {type(value).__name__}")
    return value


def _region(
    record: dict[str, Any], file: Path, root: Path, name: str, pictures: Callable[[Path], Image.Image]
) -> LabelledRegion:
    task = record.get("task")
    if task not in TASKS:
        raise InputError(f"unknown task: {task!r}; choose text, table or formula")
    target = _target(record, task)
    image = _image(record.get("image"), file, root)
    doc_id, page = _document(record, image, root)
    box = _box(record.get("bbox"))
    data, width_px, height_px = _whole(image) if box is None else _cut(pictures, image, box)
    return LabelledRegion(
        region_id=f"{JsonLines.name}/{doc_id}/{page}/{name}",
        image=data,
        width_px=width_px,
        height_px=height_px,
        task=task,
        target=target or "",
        source=JsonLines.name,
        doc_id=doc_id,
        page=page,
        bbox=box,
        target_origin="pending" if target is None else "annotation",
    )


def _target(record: dict[str, Any], task: str) -> str | None:
    if "text" not in record:
        others = [name for name in record if name not in FIELDS]
        if others:
            what = f"the unknown field {others[0]!r} is there; call it text, or give 'text': null"
            raise InputError(f"no text: {what}")
        return None
    text = record["text"]
    if text is None:
        return None
    if not isinstance(text, str):
        raise InputError(f"bad text: {text!r:.60} is no string and not null")
    written = strip_formula_delimiters(text) if task == "formula" else text.strip()
    if not written:
        raise InputError("empty text: write null where there is no target yet")
    return _storable(written, "text")


def _storable(text: str, name: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"bad {name}: half a surrogate pair at character {error.start}") from error
    return text


def _image(name: object, file: Path, root: Path) -> Path:
    """Return the path of an image, which must not lead out of the folder that is converted."""
    if not isinstance(name, str) or not name:
        raise InputError(f"no image: {name!r:.60} names none")
    try:
        image = (file.parent / name).resolve()
    except (OSError, ValueError) as error:
        raise InputError(f"bad image: {name!r:.60} is no path ({error})") from error
    if not image.is_relative_to(root):
        raise InputError(f"image outside of ROOT: {name!r:.200} leads to another folder; give a ROOT that holds both")
    return image


def _document(record: dict[str, Any], image: Path, root: Path) -> tuple[str, int]:
    doc_id, page = record.get("doc_id"), record.get("page")
    if doc_id is None:
        doc_id = image.relative_to(root).with_suffix("").as_posix()
    elif type(doc_id) is int:
        doc_id = str(doc_id)
    if not isinstance(doc_id, str) or not doc_id:
        raise InputError(f"bad doc_id: {doc_id!r:.60} is no name")
    if page is not None and (type(page) is not int or not 0 <= page <= _MOST):
        raise InputError(f"bad page: {page!r:.60} is no number from 0")
    return _storable(doc_id, "doc_id"), page or 0


def _box(value: object) -> tuple[float, float, float, float] | None:
    if value is None:
        return None
    # type() and not isinstance: true is no number here; no limit holds a NaN
    edges = [float(v) for v in value if type(v) in (int, float) and abs(v) < _MOST] if isinstance(value, list) else []
    if not isinstance(value, list) or not len(value) == len(edges) == 4:
        raise InputError(f"bad bbox: {value!r:.60} is not [x0, y0, x1, y1] in pixels")
    return edges[0], edges[1], edges[2], edges[3]


def _whole(image: Path) -> tuple[bytes, int, int]:
    return published_picture(read_published(image))


def _page(image: Path) -> Image.Image:
    try:
        return open_page(read_published(image))
    except InputError as error:
        what = str(error)
        raise InputError(what if what.startswith("missing file") else f"unreadable image: {what}") from error


def _cut(
    pictures: Callable[[Path], Image.Image], image: Path, box: tuple[float, float, float, float]
) -> tuple[bytes, int, int]:
    page = pictures(image)
    try:
        crop = cut(page, Box(*box), CropConfig())
    except InputError as error:
        raise InputError(f"no crop: {error}") from error
    return encode_picture(crop), crop.width, crop.height
