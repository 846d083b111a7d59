"""What a file is, told by its content: documents that are read, and what is handed by mistake."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal

from gravityocr.errors import InputError

Kind = Literal["pdf", "png", "jpeg", "tiff", "gif", "bmp", "webp", "jp2", "avif", "heic"]

WHAT_IS_READ = "PDF, PNG, JPEG, TIFF, GIF, BMP, WebP, JPEG 2000, AVIF and HEIC are read"

_SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "pdf": (".pdf",),
    "png": (".png", ".apng"),
    "jpeg": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "tiff": (".tif", ".tiff"),
    "gif": (".gif",),
    "bmp": (".bmp", ".dib"),
    "webp": (".webp",),
    "jp2": (".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx"),
    "avif": (".avif", ".avifs"),
    "heic": (".heic", ".heics", ".heif", ".heifs", ".hif"),
}
ALL_SUFFIXES = frozenset(suffix for suffixes in _SUFFIXES.values() for suffix in suffixes)
_HEAD_BYTES = 1024  # readers accept a PDF header anywhere in the first kilobyte
_TAIL_BYTES = 2048
_BMP_HEADERS = frozenset({12, 16, 40, 52, 56, 64, 108, 124})  # sizes of the known bitmap info headers
_BEFORE_PDF = b" \t\r\n\f\0\xef\xbb\xbf"
_SIGNATURES: tuple[tuple[bytes, Kind], ...] = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"MM\x00+", "tiff"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "jp2"),  # the boxed file
    (b"\xff\x4f\xff\x51", "jp2"),  # the bare codestream
)
# Brands of ISO base media files (ISO/IEC 23008-12, AV1 Image File Format). AVIF comes first: it names mif1 too.
_BRANDS: tuple[tuple[frozenset[bytes], Kind], ...] = (
    (frozenset({b"avif", b"avis"}), "avif"),
    (frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}), "heic"),
)
# What people hand by mistake most often; matched in the lower-cased head without leading space.
_MISTAKEN: tuple[tuple[bytes, str], ...] = (
    (b"<!doctype html", "a web page"),
    (b"<html", "a web page"),
    (b"<svg", "an SVG drawing"),
    (b"<?xml", "an XML file"),
    (b"pk\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"{\\rtf", "an RTF document"),
    (b"%!ps", "a PostScript document"),
    (b"at&tform", "a DjVu document"),
    (b"\x00\x00\x00\x0cjxl ", "a JPEG XL image"),
    (b"\xff\x0a", "a JPEG XL image"),
    (b"8bps", "a Photoshop image"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself"),
)


def sniff(path: str | Path, name: str | None = None) -> Kind:
    """Tell a file's kind by its content; errors call it `name` where it has one other than its path.

    *Raises*: InputError for what is missing, unreadable, empty, unknown or no regular file.
    """
    name = str(path) if name is None else name
    obstacle = obstacle_of(path)
    if obstacle:
        raise InputError(f"{name}: {obstacle}")
    try:
        with open(path, "rb") as stream:
            head = stream.read(_HEAD_BYTES)
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
            tail = stream.read(_TAIL_BYTES)
    except OSError as error:
        raise InputError(f"{name}: cannot be opened ({error.strerror}); check its permissions") from error
    if not head:
        raise InputError(f"{name}: is empty (0 bytes); hand a complete file")
    kind = _kind_of(head, tail)
    if kind is None:
        raise InputError(
            f"{name}: is neither a PDF nor an image, whatever its name says{_looks_like(head)}; {WHAT_IS_READ}"
        )
    return kind


def obstacle_of(path: str | Path) -> str | None:
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
    if head[4:8] == b"ftyp":
        return _media_kind(head)
    # two letters are no proof: the size of the header that follows is one of a few
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BMP_HEADERS:
        return "bmp"
    before, mark, _ = head.partition(b"%PDF-")
    # text may well speak of the header; behind other bytes it takes the end of a PDF as well
    return "pdf" if mark and (not before.strip(_BEFORE_PDF) or b"startxref" in tail) else None


def _media_kind(head: bytes) -> Kind | None:
    """The major brand and, behind a version number, the compatible ones, as far as the box goes."""
    end = min(int.from_bytes(head[:4], "big"), len(head))
    brands = {head[8:12], *(head[at : at + 4] for at in range(16, end - 3, 4))}
    return next((kind for known, kind in _BRANDS if brands & known), None)


def _looks_like(head: bytes) -> str:
    text = head.lstrip(b" \t\r\n\xef\xbb\xbf").lower()
    what = next((name for mark, name in _MISTAKEN if text.startswith(mark)), None)
    if what is None and head[4:8] == b"ftyp":
        what = "a video"
    return f" (it looks like {what})" if what else ""
