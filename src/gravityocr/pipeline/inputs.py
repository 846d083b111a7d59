"""Handed paths to input files: folders and globs expanded, each file known by its content, not its name."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gravityocr.errors import InputError

Kind = Literal["pdf", "png", "jpeg", "tiff", "gif", "bmp", "webp"]

_SUFFIXES = frozenset({".pdf", ".png", ".jpg", ".jpeg", ".jfif", ".tif", ".tiff", ".gif", ".bmp", ".dib", ".webp"})
_HEAD_BYTES = 1024  # readers accept a PDF header anywhere in the first kilobyte
_TAIL_BYTES = 2048
_BMP_HEADERS = frozenset({12, 16, 40, 52, 56, 64, 108, 124})  # sizes of the known bitmap info headers
_BEFORE_PDF = b" \t\r\n\f\0\xef\xbb\xbf"
_WHAT_IS_READ = "PDF, PNG, JPEG, TIFF, GIF, BMP and WebP are read"
_SIGNATURES: tuple[tuple[bytes, Kind], ...] = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"MM\x00+", "tiff"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
)


@dataclass(frozen=True)
class InputFile:
    """One thing to parse, or the reason why a handed path gave nothing."""

    path: str
    error: str | None = None


def sniff(path: str | Path) -> Kind:
    """Tell a file's kind by its content.

    *Raises*: InputError for what is missing, unreadable, empty, unknown or no regular file.
    """
    obstacle = _obstacle(path)
    if obstacle:
        raise InputError(f"{path}: {obstacle}")
    try:
        with open(path, "rb") as stream:
            head = stream.read(_HEAD_BYTES)
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
            tail = stream.read(_TAIL_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}); check its permissions") from error
    if not head:
        raise InputError(f"{path}: is empty (0 bytes); hand a complete file")
    kind = _kind_of(head, tail)
    if kind is None:
        raise InputError(f"{path}: is neither a PDF nor an image, whatever its name says; {_WHAT_IS_READ}")
    return kind


def _obstacle(path: str | Path) -> str | None:
    """Say why a path is no file to read, with the remedy: opening a pipe, for one, would wait for ever."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if os.path.islink(path):
            return f"is a link to {os.readlink(path)}, which is missing; hand the file itself"
        return "no such file or folder; check the path"
    except OSError as error:
        return f"cannot be read ({error.strerror}); check the path and its permissions"
    except ValueError as error:  # a zero byte, or text that no file name can hold
        return f"is no path ({error}); check it"
    if stat.S_ISDIR(mode):
        return "is a folder; hand its files"
    if not stat.S_ISREG(mode):
        return "is a pipe, socket or device; hand a file"
    return None


def _kind_of(head: bytes, tail: bytes) -> Kind | None:
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    # two letters are no proof: the size of the header that follows is one of a few
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BMP_HEADERS:
        return "bmp"
    before, mark, _ = head.partition(b"%PDF-")
    # text may well speak of the header; behind other bytes it takes the end of a PDF as well
    return "pdf" if mark and (not before.strip(_BEFORE_PDF) or b"startxref" in tail) else None


def collect_inputs(paths: Sequence[str | Path]) -> list[InputFile]:
    """Expand files, folders and globs, in the order handed, each file once.

    A path that gives nothing becomes an `InputFile` with an error, so that the others still run.
    """
    found: list[InputFile] = []
    seen: set[str] = set()
    for path in paths:
        try:
            files = expand_input(path)
        except InputError as error:
            found.append(InputFile(str(path), str(error)))
            continue
        for file in files:
            real = os.path.realpath(file.path)
            if real not in seen:
                seen.add(real)
                found.append(file)
    return found


def expand_input(path: str | Path) -> list[InputFile]:
    """Return the files that one handed path stands for: itself, a folder's documents (sorted), or a glob's.

    What a folder holds under a document's name but cannot be read, and what of it cannot be listed, is in the
    list with its error. Links to folders inside it are not followed.

    *Raises*: InputError for no path, a missing one, a folder without documents, a glob without a match or a URL.
    """
    text = str(path)
    if not text:
        raise InputError("'': is no path; hand a file, a folder ('.' for this one) or a glob")
    if text.startswith(("http://", "https://")):
        raise InputError(f"{text}: is a URL; download it and hand the file")
    obstacle = _obstacle(path)
    if obstacle is None:
        return [InputFile(text)]
    if os.path.isdir(text):
        return _documents_of(Path(path))
    if not os.path.lexists(text) and glob.has_magic(text):
        matches = sorted(Path(match) for match in glob.glob(text, recursive=True))
        files = [_input_file(match) for match in matches if not os.path.isdir(match)]
        if files:
            return files
        raise InputError(f"{text}: no file matches this pattern; check it")
    raise InputError(f"{text}: {obstacle}")


def _input_file(path: Path) -> InputFile:
    obstacle = _obstacle(path)
    return InputFile(str(path), f"{path}: {obstacle}" if obstacle else None)


def _documents_of(folder: Path) -> list[InputFile]:
    """A file counts by its content or by its name, so that a broken .pdf is reported, not passed over."""
    unlisted: list[OSError] = []
    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=unlisted.append):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [Path(parent, name) for name in names if not name.startswith(".")]
        found += [path for path in paths if _counts_as_document(path)]
    files = {path: _input_file(path) for path in found}
    for error in unlisted:
        what = f"{error.filename}: cannot be listed ({error.strerror}); check its permissions"
        files[Path(error.filename)] = InputFile(str(error.filename), what)
    if not files:
        raise InputError(f"{folder}: holds no document; {_WHAT_IS_READ}")
    return [files[path] for path in sorted(files)]


def _counts_as_document(path: Path) -> bool:
    if path.suffix.lower() in _SUFFIXES:
        return True
    try:
        sniff(path)
    except InputError:
        return False
    return True
