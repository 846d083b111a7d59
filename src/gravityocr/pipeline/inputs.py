"""Handed paths to inputs: folders and globs expanded, each file known by its content, not its name."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit

from gravityocr.errors import InputError

Kind = Literal["pdf", "png", "jpeg", "tiff", "gif", "bmp", "webp", "jp2", "avif", "heic"]
Origin = Literal["file", "url", "stdin"]

STDIN = "-"
STDIN_NAME = "<stdin>"
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
_ALL_SUFFIXES = frozenset(suffix for suffixes in _SUFFIXES.values() for suffix in suffixes)
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
_URL = re.compile(r"https?://", re.IGNORECASE)
_OTHER_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_DIGEST_QUERY = re.compile(r"query=[0-9a-f]{8}")


@dataclass(frozen=True)
class InputFile:
    """One thing to parse, or the reason why a handed path gave nothing.

    `path` is what was handed: a file's path, a URL (with whatever secrets it holds) or `-`. What is printed or
    written is `name`. A URL and stdin become files with `remote.opened`, when their turn comes.
    """

    path: str
    error: str | None = None
    origin: Origin = "file"

    @property
    def name(self) -> str:
        """Return what to call the input wherever it is printed or written."""
        return source_name(self.path)


def origin_of(source: str | Path) -> Origin:
    """Tell what a handed text means: a file, a URL or stdin."""
    text = str(source)
    if text in (STDIN, STDIN_NAME):
        return "stdin"
    return "url" if _URL.match(text) else "file"


def source_name(source: str | Path) -> str:
    """Return the name of an input that may be printed and kept: a path as it is, a URL without its secrets.

    User name, password, query and fragment of a URL go; eight digits of a digest stand for the query, so that
    two documents of one path stay two. A name is its own name.
    """
    text = str(source)
    origin = origin_of(text)
    if origin == "stdin":
        return STDIN_NAME
    if origin == "file":
        return text
    parts = _split(text)
    if parts is None:
        return text.split("://", 1)[0].lower() + "://(not readable)"
    query = parts.query
    if query and not _DIGEST_QUERY.fullmatch(query):
        query = f"query={hashlib.sha256(_encoded(query)).hexdigest()[:8]}"
    path = parts.path or "/"
    return f"{parts.scheme}://{_host_and_port(parts)}{path}" + (f"?{query}" if query else "")


def source_stem(source: str | Path) -> str:
    """Return the name of an input's outputs: a path's stem, a URL's last part or host, `stdin`.

    Of a URL only the suffix of a kind that is read is dropped: `.12345` of an arXiv address is none. The text
    holds no separator, but it may be long, or all dots.
    """
    origin = origin_of(source)
    if origin == "stdin":
        return "stdin"
    if origin == "file":
        return Path(source).stem
    parts = _split(str(source))
    if parts is None:
        return "url"
    last = re.split(r"[/\\]", unquote(parts.path.rstrip("/")))[-1]
    stem, suffix = os.path.splitext(last)
    kept = stem if suffix.lower() in _ALL_SUFFIXES else last
    return re.sub(r"[\x00-\x1f\x7f<>:\"|?*]", "_", kept).strip() or str(parts.hostname)


def source_identity(source: str | Path) -> str:
    """Return what makes an input the same one as before: a file's real path, a URL's name, or stdin's.

    It holds no secret and may be written into outputs: `source_identity(source_name(x)) == source_identity(x)`.
    """
    return os.path.realpath(source) if origin_of(source) == "file" else source_name(source)


def _split(url: str) -> SplitResult | None:
    """Split a URL; None for one without a host or with a port that is none."""
    try:
        parts = urlsplit(url)
        return parts if parts.hostname and (parts.port or 0) >= 0 else None
    except ValueError:
        return None


def _host_and_port(parts: SplitResult) -> str:
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else str(parts.hostname)
    usual = {"http": 80, "https": 443}[parts.scheme]
    return host if parts.port in (None, usual) else f"{host}:{parts.port}"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def sniff(path: str | Path, name: str | None = None) -> Kind:
    """Tell a file's kind by its content; errors call it `name` where it has one other than its path.

    *Raises*: InputError for what is missing, unreadable, empty, unknown or no regular file.
    """
    name = str(path) if name is None else name
    obstacle = _obstacle(path)
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


def stdin_obstacle() -> str | None:
    """Say why stdin gives no document, with the remedy; None where it may."""
    if sys.stdin is None or sys.stdin.closed:
        return f"{STDIN_NAME}: is closed; pipe a document into it"
    if sys.stdin.isatty():
        return f"{STDIN_NAME}: is a terminal; pipe a document into it, as in 'cat scan.pdf | gravityocr parse - -o out'"
    return None


def collect_inputs(paths: Sequence[str | Path]) -> list[InputFile]:
    """Expand files, folders, globs, URLs and `-`, in the order handed, each input once; nothing is fetched yet.

    A path that gives nothing becomes an `InputFile` with an error, so that the others still run.
    """
    found: list[InputFile] = []
    seen: set[str] = set()
    for path in paths:
        try:
            files = expand_input(path)
        except InputError as error:
            found.append(InputFile(str(path), str(error), origin_of(path)))
            continue
        for file in files:
            identity = source_identity(file.path)
            if identity not in seen:
                seen.add(identity)
                found.append(file)
            elif file.origin == "stdin":
                what = f"{STDIN_NAME}: holds one document and was handed twice; hand '-' once"
                found.append(InputFile(file.path, what, "stdin"))
    return found


def expand_input(path: str | Path) -> list[InputFile]:
    """Return the inputs that one handed path stands for: itself, a folder's documents (sorted), or a glob's.

    What a folder holds under a document's name but cannot be read, and what of it cannot be listed, is in the
    list with its error. Links to folders inside it are not followed.

    *Raises*: InputError for no path, a missing one, a folder without documents, a glob without a match, a URL
    that is none, a terminal as stdin.
    """
    text = str(path)
    if not text:
        raise InputError("'': is no path; hand a file, a folder ('.' for this one) or a glob")
    origin = origin_of(text)
    if origin == "url":
        if _split(text) is None:
            raise InputError(f"{source_name(text)}: is no URL of a document; write https://HOST/PATH")
        return [InputFile(text, origin="url")]
    if text == STDIN:
        wrong = stdin_obstacle()
        if wrong:
            raise InputError(wrong)
        return [InputFile(text, origin="stdin")]
    obstacle = _obstacle(path)
    if obstacle is None:
        return [InputFile(text)]
    if os.path.isdir(text):
        return _documents_of(Path(path))
    scheme = _OTHER_SCHEME.match(text)
    if scheme:
        raise InputError(f"{scheme[1]}://...: only http:// and https:// are fetched; hand such a URL, or a file")
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
        raise InputError(f"{folder}: holds no document; {WHAT_IS_READ}")
    return [files[path] for path in sorted(files)]


def _counts_as_document(path: Path) -> bool:
    if path.suffix.lower() in _ALL_SUFFIXES:
        return True
    try:
        sniff(path)
    except InputError:
        return False
    return True
