"""Files of published data sets: archives in one pass, slices of lists, pictures as they were published."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from PIL import Image

from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import Found, Skipped
from gravityocr.training.corpora.page_crops import open_page
from gravityocr.training.corpora.region_shards import encode_picture

SLICE_BYTES = 64 << 20
"""How much of a list of JSON lines makes a unit."""

_PLAIN = frozenset({"L", "RGB"})
_FORMATS = frozenset({"PNG", "JPEG"})
_GZIP = b"\x1f\x8b"
_UPRIGHT = 1
_ORIENTATION = 0x0112


def convert_rows(
    lines: Iterable[Skipped | tuple[str, dict[str, Any]]], convert: Callable[[str, dict[str, Any]], Found]
) -> Iterator[Found]:
    """Convert the rows of a list, whose `filename` names each; a row that cannot be converted is a Skipped."""
    for line in lines:
        if isinstance(line, Skipped):
            yield line
            continue
        where, row = line
        try:
            name = text_field(row, "filename")
            where = f"{where}, {name[:200]}"
            yield convert(name, row)
        except InputError as error:
            yield Skipped(where, str(error))


def tar_files(archive: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield name (without folders) and bytes of the wanted files of a tar archive, gzipped or not, in one pass.

    *Raises*: EOFError or tarfile.TarError where it is broken or cut off.
    """
    # Not `r|gz`: tarfile takes the end of a cut-off stream for the end of the archive where a head is cut.
    with _unzipped(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # it would remember the heads of a million files
            name = PurePosixPath(member.name).name
            if member.isfile() and wanted(name):
                content = tar.extractfile(member)
                if content is not None:
                    yield name, content.read()


def _unzipped(archive: Path) -> gzip.GzipFile | io.BufferedReader:
    with archive.open("rb") as file:
        is_zipped = file.read(2) == _GZIP
    return gzip.open(archive) if is_zipped else archive.open("rb")


def line_slices(size_bytes: int) -> list[str]:
    """Return the slices of a list of lines, written `first-end` in bytes; a line belongs where it starts."""
    starts = range(0, max(size_bytes, 1), SLICE_BYTES)
    return [f"{start}-{min(start + SLICE_BYTES, size_bytes)}" for start in starts]


def json_lines(
    stream: BinaryIO, name: str, part: str, repair: Callable[[str], str] = str
) -> Iterator[tuple[str, dict[str, Any]] | Skipped]:
    """Yield where it is and the object of each line of a slice; `repair` is tried on lines that are no JSON."""
    start, end = (int(number) for number in part.split("-"))
    at = start
    stream.seek(max(start - 1, 0))
    if start:
        at += len(stream.readline()) - 1
    while at < end and (line := stream.readline()):
        where = f"{name}, byte {at}"
        at += len(line)
        if not line.strip():
            continue
        value = _json_object(line, repair)
        yield Skipped(where, "no JSON object") if value is None else (where, value)


def _json_object(line: bytes, repair: Callable[[str], str]) -> dict[str, Any] | None:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return None
    for attempt in (text, repair(text)):
        try:
            value = json.loads(attempt)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


def text_field(row: dict[str, Any], name: str) -> str:
    """Return a field of a row that must be a text.

    *Raises*: InputError where it is missing or something else.
    """
    value = row.get(name)
    if not isinstance(value, str):
        raise InputError(f"unreadable {name}: {'none' if value is None else f'a {type(value).__name__}'}")
    return value


def published_picture(data: bytes) -> tuple[bytes, int, int]:
    """Return the bytes of a picture, its width and height; plain PNG and JPEG stay as they are, others become PNG.

    *Units*: pixels. *Raises*: InputError where the bytes are no picture.
    """
    try:
        picture = open_page(data)
    except InputError as error:
        raise InputError(f"unreadable image: {error}") from error
    with Image.open(io.BytesIO(data)) as published:
        is_plain = published.format in _FORMATS and published.mode in _PLAIN and "transparency" not in published.info
        if is_plain and published.getexif().get(_ORIENTATION, _UPRIGHT) == _UPRIGHT:
            return data, picture.width, picture.height
    return encode_picture(picture), picture.width, picture.height


def read_published(file: Path) -> bytes:
    """Read a file that a list names.

    *Raises*: InputError where it is missing, or its name is none that a file can have.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"missing file: {file.name[:200]} ({error.strerror})") from error
    except ValueError as error:  # a zero byte or half a surrogate pair
        raise InputError(f"missing file: {file.name[:200]!r} ({error})") from error
