"""Inputs to upright RGB page images: files are known by their content, pages are made one at a time."""

from __future__ import annotations

import glob
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pypdfium2 as pdfium
from PIL import Image, ImageOps, UnidentifiedImageError

from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.pixels import to_rgb

Kind = Literal["pdf", "png", "jpeg", "tiff", "gif", "bmp", "webp"]

_SUFFIXES = frozenset({".pdf", ".png", ".jpg", ".jpeg", ".jfif", ".tif", ".tiff", ".gif", ".bmp", ".dib", ".webp"})
_SNIFF_BYTES = 1024
_PDF_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD of PDFium's public header
_WHAT_IS_READ = "PDF, PNG, JPEG, TIFF, GIF, BMP and WebP are read"


@dataclass(frozen=True)
class SourceConfig:
    """How inputs become page images.

    *Units*: a page image has at most `max_page_px` pixels (larger ones are scaled down); an image file that
    would decode to more than `max_image_px` is refused.
    """

    dpi: float = 200.0
    max_page_px: int = 16_000_000
    max_image_px: int = 150_000_000
    password: str | None = None

    def __post_init__(self) -> None:
        if not 18 <= self.dpi <= 1200:
            raise ConfigError(f"source.dpi is {self.dpi:g}: choose 18 to 1200")
        if self.max_page_px < 10_000:
            raise ConfigError(f"source.max_page_px is {self.max_page_px}: choose at least 10000")


@dataclass(frozen=True)
class PageRanges:
    """Chosen pages of a document, as typed: 1-based, ends included."""

    spans: tuple[tuple[int, int | None], ...]

    @classmethod
    def parse(cls, text: str) -> PageRanges:
        """Read `1-5,8,12-` (1-based; an open end goes to the last page).

        *Raises*: ConfigError naming the part that is no page or range.
        """
        spans: list[tuple[int, int | None]] = []
        for part in text.split(","):
            first, dash, last = (piece.strip() for piece in part.partition("-"))
            if not all(_is_number(piece) for piece in (first, last or "0")):
                raise ConfigError(f"pages '{text}': '{part.strip()}' is no page; write 1-5,8 or 3- (1-based)")
            start, end = int(first), int(last) if last else (None if dash else int(first))
            if start < 1 or (end is not None and end < start):
                raise ConfigError(f"pages '{text}': '{part.strip()}' is empty; pages count from 1, rising")
            spans.append((start, end))
        return cls(tuple(spans))

    def select(self, n_pages: int) -> list[int]:
        """Return the chosen 0-based indices that a document of `n_pages` has, rising, each once."""
        chosen: set[int] = set()
        for start, end in self.spans:
            chosen.update(range(start - 1, n_pages if end is None else min(end, n_pages)))
        return sorted(chosen)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


@dataclass(frozen=True)
class SourcePage:
    """One page of an input: its image, or the error that cost it.

    *Units*: `index` from 0; `seconds` for rendering or decoding.
    """

    index: int
    image: Image.Image | None
    error: str | None
    seconds: float


@dataclass(frozen=True)
class InputFile:
    """One thing to parse, or the reason why a handed path gave nothing."""

    path: str
    error: str | None = None


def sniff(path: str | Path) -> Kind:
    """Tell a file's kind by its first bytes.

    *Raises*: InputError for a missing, unreadable, empty or unknown file.
    """
    try:
        with open(path, "rb") as stream:
            head = stream.read(_SNIFF_BYTES)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; check the path") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a folder; hand its files") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}); check its permissions") from error
    if not head:
        raise InputError(f"{path}: is empty (0 bytes); hand a complete file")
    kind = _kind_of(head)
    if kind is None:
        raise InputError(f"{path}: is neither a PDF nor an image, whatever its name says; {_WHAT_IS_READ}")
    return kind


def _kind_of(head: bytes) -> Kind | None:
    signatures: tuple[tuple[bytes, Kind], ...] = (
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"\xff\xd8\xff", "jpeg"),
        (b"II*\x00", "tiff"),
        (b"MM\x00*", "tiff"),
        (b"II+\x00", "tiff"),
        (b"MM\x00+", "tiff"),
        (b"GIF87a", "gif"),
        (b"GIF89a", "gif"),
        (b"BM", "bmp"),
    )
    for signature, kind in signatures:
        if head.startswith(signature):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    # readers accept a PDF header anywhere in the first kilobyte
    return "pdf" if b"%PDF-" in head else None


def collect_inputs(paths: Sequence[str | Path]) -> list[InputFile]:
    """Expand files, folders and globs, in the order handed, each file once.

    A path that gives nothing becomes an `InputFile` with an error, so that the others still run.
    """
    found: list[InputFile] = []
    seen: set[Path] = set()
    for path in paths:
        try:
            files = expand_input(path)
        except InputError as error:
            found.append(InputFile(str(path), str(error)))
            continue
        for file in files:
            if file.resolve() not in seen:
                seen.add(file.resolve())
                found.append(InputFile(str(file)))
    return found


def expand_input(path: str | Path) -> list[Path]:
    """Return the files that one handed path stands for: itself, a folder's documents (sorted), or a glob's.

    *Raises*: InputError for a missing path, a folder without documents, a glob without a match or a URL.
    """
    text, file = str(path), Path(path)
    if text.startswith(("http://", "https://")):
        raise InputError(f"{text}: is a URL; download it and hand the file")
    if file.is_dir():
        return _documents_of(file)
    if file.exists():
        return [file]
    if glob.has_magic(text):
        matches = sorted(Path(match) for match in glob.glob(text, recursive=True))
        files = [item for item in matches if item.is_file()]
        if files:
            return files
        raise InputError(f"{text}: no file matches this pattern; check it")
    raise InputError(f"{text}: no such file or folder; check the path")


def _documents_of(folder: Path) -> list[Path]:
    """A file counts by its content or by its name, so that a broken .pdf is reported, not passed over."""
    files: list[Path] = []
    for file in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if hidden or not file.is_file():
            continue
        if file.suffix.lower() in _SUFFIXES:
            files.append(file)
            continue
        try:
            sniff(file)
        except InputError:
            continue
        files.append(file)
    if not files:
        raise InputError(f"{folder}: holds no document; {_WHAT_IS_READ}")
    return files


def count_pages(path: str | Path, config: SourceConfig | None = None) -> int:
    """Return how many pages a file has, without rendering one.

    *Raises*: InputError for a file that cannot be opened at all.
    """
    config = config or SourceConfig()
    kind = sniff(path)
    if kind == "pdf":
        with closing(_open_pdf(path, config)) as document:
            return len(document)
    with _open_image(path, config) as image:
        return _n_frames(image, kind, path)


def iter_pages(
    path: str | Path, pages: PageRanges | None = None, config: SourceConfig | None = None
) -> Iterator[SourcePage]:
    """Yield a file's pages one at a time; a bad page is yielded with its error and the next one follows.

    *Raises*: InputError for a file that cannot be opened at all, or that has none of the chosen pages.
    """
    config = config or SourceConfig()
    kind = sniff(path)
    if kind == "pdf":
        yield from _iter_pdf(path, pages, config)
    else:
        yield from _iter_image(path, kind, pages, config)


def _chosen(path: str | Path, pages: PageRanges | None, n_pages: int) -> list[int]:
    indices = list(range(n_pages)) if pages is None else pages.select(n_pages)
    if not indices:
        what = "has no pages" if n_pages == 0 else f"has {n_pages} page(s), none of them chosen by --pages"
        raise InputError(f"{path}: {what}")
    return indices


def _open_pdf(path: str | Path, config: SourceConfig) -> pdfium.PdfDocument:
    try:
        return pdfium.PdfDocument(str(path), password=config.password)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == _PDF_PASSWORD_ERROR:
            what = "password required" if config.password is None else "the password is wrong"
            raise InputError(f"{path}: {what}; hand the document's password") from error
        raise InputError(f"{path}: is a broken PDF ({error}); repair or download it again") from error


def _iter_pdf(path: str | Path, pages: PageRanges | None, config: SourceConfig) -> Iterator[SourcePage]:
    with closing(_open_pdf(path, config)) as document:
        for index in _chosen(path, pages, len(document)):
            started = time.perf_counter()
            image, error = None, None
            try:
                image = _render(document, index, config)
            except (pdfium.PdfiumError, InputError, MemoryError, ValueError) as failure:
                error = f"page {index + 1} cannot be rendered ({failure})"
            yield SourcePage(index, image, error, time.perf_counter() - started)


def _render(document: pdfium.PdfDocument, index: int, config: SourceConfig) -> Image.Image:
    with closing(document[index]) as page:
        width_pt, height_pt = page.get_size()
        if not (width_pt > 0 and height_pt > 0):
            raise InputError("the page has no area")
        scale = config.dpi / 72.0
        n_px = width_pt * height_pt * scale * scale
        if n_px > config.max_page_px:
            scale *= (config.max_page_px / n_px) ** 0.5
        with closing(page.render(scale=scale)) as bitmap:
            # the bitmap owns the pixels of its view, so they are copied before it goes
            image: Image.Image = bitmap.to_pil()
            return image.convert("RGB").copy()


def _open_image(path: str | Path, config: SourceConfig) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(path)
    except Image.DecompressionBombError as error:
        raise InputError(f"{path}: would decode to too many pixels; scale it down") from error
    except UnidentifiedImageError as error:
        raise InputError(f"{path}: is a broken image; save it again") from error
    except (OSError, ValueError, SyntaxError) as error:
        raise InputError(f"{path}: is a broken image ({error}); save it again") from error
    n_px = image.width * image.height
    if n_px == 0 or n_px > config.max_image_px:
        image.close()
        limit = f"the limit is {config.max_image_px / 1e6:.0f} megapixels"
        raise InputError(f"{path}: {image.width} x {image.height} px, {limit}; scale it down")
    return image


def _n_frames(image: Image.Image, kind: Kind, path: str | Path) -> int:
    """Only a TIFF's frames are pages; of an animation the first frame is the page."""
    if kind != "tiff":
        return 1
    try:
        return int(getattr(image, "n_frames", 1))
    except (OSError, ValueError, SyntaxError) as error:
        raise InputError(f"{path}: is a broken TIFF ({error}); save it again") from error


def _iter_image(path: str | Path, kind: Kind, pages: PageRanges | None, config: SourceConfig) -> Iterator[SourcePage]:
    with _open_image(path, config) as image:
        for index in _chosen(path, pages, _n_frames(image, kind, path)):
            started = time.perf_counter()
            page, error = None, None
            try:
                if kind == "tiff":
                    image.seek(index)
                page = _decode(image, config)
            except (OSError, ValueError, SyntaxError, EOFError, InputError) as failure:
                error = f"page {index + 1} cannot be decoded ({failure})"
            yield SourcePage(index, page, error, time.perf_counter() - started)


def _decode(image: Image.Image, config: SourceConfig) -> Image.Image:
    n_px = image.width * image.height
    if n_px > config.max_image_px:  # a later TIFF frame may be larger than the first
        raise InputError(f"{image.width} x {image.height} px are too many; scale it down")
    image.load()
    return ImageOps.exif_transpose(to_rgb(image, config.max_page_px))
