"""Files to upright RGB page images, made one at a time; what a decoder raises stays with its file or page."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from gravityocr.document import PlacedText
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.inputs import sniff
from gravityocr.pipeline.pixels import INTACT, failure_text
from gravityocr.pipeline.sources.image import ImageFile
from gravityocr.pipeline.sources.pdf import PDF_ERRORS
from gravityocr.pipeline.sources.pdf_process import LostFileError, PageLimitError, PdfProcess
from gravityocr.pipeline.text_files import KnownPage, read_known_pages

_LONGEST_CHOICE = 10_000  # characters of --pages
_MOST_DIGITS = 18  # of a page's number
_MAX_FAILED_RUN = 1000  # a page count is a number in the file, and it may be a lie
_MAX_TIMEOUT_S = 86_400
_MIN_PDF_MEMORY_MB = 256  # a page of 16 megapixels takes 180


@dataclass(frozen=True)
class SourceConfig:
    """How inputs become page images.

    *Units*: a page image has at most `max_page_px` pixels (larger ones are scaled down); an image file that
    would decode to more than `max_image_px` is refused (a quarter of it for WebP, a third for AVIF and HEIC), so
    that its decoding and scaling stay within about 1 GB of memory. `text_layer` reads the words that a PDF page holds
    beside its picture; `reference` takes them from an hOCR or ALTO file of the same pages instead.

    PDFs are rendered by a second process. A page that takes more than `page_timeout_s` there, or more than
    `pdf_memory_mb` (megabytes of 2^20 bytes, enforced on Linux), fails by name, and so does a file whose opening does;
    a file that has three such pages ends behind them.
    """

    dpi: float = 200.0
    max_page_px: int = 16_000_000
    max_image_px: int = 220_000_000
    password: str | None = None
    text_layer: bool = False
    reference: str | None = None
    page_timeout_s: float = 120.0
    pdf_memory_mb: int = 2048

    def __post_init__(self) -> None:
        if not 18 <= self.dpi <= 1200:
            raise ConfigError(f"source.dpi is {self.dpi:g}: choose 18 to 1200")
        if self.max_page_px < 10_000:
            raise ConfigError(f"source.max_page_px is {self.max_page_px}: choose at least 10000")
        if self.max_image_px < 10_000:
            raise ConfigError(f"source.max_image_px is {self.max_image_px}: choose at least 10000")
        if not 0 < self.page_timeout_s <= _MAX_TIMEOUT_S:
            raise ConfigError(
                f"source.page_timeout_s is {self.page_timeout_s:g}: choose up to {_MAX_TIMEOUT_S} seconds"
            )
        if self.pdf_memory_mb < _MIN_PDF_MEMORY_MB:
            least = f"choose at least {_MIN_PDF_MEMORY_MB} megabytes"
            raise ConfigError(f"source.pdf_memory_mb is {self.pdf_memory_mb}: {least}")


@dataclass(frozen=True)
class PageRanges:
    """Chosen pages of a document, as typed: 1-based, ends included."""

    spans: tuple[tuple[int, int | None], ...]

    @classmethod
    def parse(cls, text: str) -> PageRanges:
        """Read `1-5,8,12-` (1-based; an open end goes to the last page).

        *Raises*: ConfigError naming the part that is no page or range.
        """
        shown = text if len(text) <= 80 else f"{text[:80]}..."
        if len(text) > _LONGEST_CHOICE:
            raise ConfigError(f"pages '{shown}': {len(text)} characters are too many; write ranges such as 1-5,8")
        spans: list[tuple[int, int | None]] = []
        for part in text.split(","):
            first, dash, last = (piece.strip() for piece in part.partition("-"))
            if not all(_is_number(piece) for piece in (first, last or "0")):
                raise ConfigError(f"pages '{shown}': '{part.strip()[:20]}' is no page; write 1-5,8 or 3- (1-based)")
            start, end = int(first), int(last) if last else (None if dash else int(first))
            if start < 1 or end == 0:
                raise ConfigError(f"pages '{shown}': there is no page 0; pages count from 1")
            if end is not None and end < start:
                raise ConfigError(f"pages '{shown}': '{part.strip()}' falls; write {end}-{start}")
            spans.append((start, end))
        return cls(tuple(spans))

    def select(self, n_pages: int) -> list[int]:
        """Return the chosen 0-based indices that a document of `n_pages` has, rising, each once."""
        chosen: set[int] = set()
        for start, end in self.spans:
            chosen.update(range(start - 1, n_pages if end is None else min(end, n_pages)))
        return sorted(chosen)

    def beyond(self, n_pages: int) -> str | None:
        """Name the chosen pages that a document of `n_pages` does not have, as `7, 9-12`; None for none."""
        parts: list[str] = []
        for start, end in self.spans:
            first = max(start, n_pages + 1)
            if end is None and start > n_pages:
                parts.append(f"{start}-")
            elif end is not None and end >= first:
                parts.append(str(end) if end == first else f"{first}-{end}")
        return ", ".join(parts) or None

    @staticmethod
    def none_of(n_pages: int) -> str:
        """Say that none of the chosen pages is there, with the remedy."""
        if n_pages == 1:
            return "has page 1 only, and --pages chose others; choose 1"
        return f"has {n_pages} pages, none of them chosen by --pages; choose from 1-{n_pages}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


@dataclass(frozen=True)
class SourcePage:
    """One page of an input: its image, or the error that cost it, and the words that are known of it.

    `note` says what is not read although nothing failed: of the input, on the first page yielded, and of a blank
    page that holds text.
    *Units*: `index` from 0; `seconds` for rendering or decoding; `n_pages` of the whole input; `words` in pixels of
    the image.
    """

    index: int
    image: Image.Image | None
    error: str | None
    seconds: float
    n_pages: int = 1
    words: tuple[PlacedText, ...] = ()
    note: str | None = None


def count_pages(path: str | Path, config: SourceConfig | None = None, *, name: str | None = None) -> int:
    """Return how many pages a file has, without rendering one.

    *Raises*: InputError for a file that cannot be opened at all.
    """
    with closing(_open(path, name or str(path), config or SourceConfig())) as file:
        return file.n_pages


def iter_pages(
    path: str | Path,
    pages: PageRanges | None = None,
    config: SourceConfig | None = None,
    *,
    name: str | None = None,
) -> Iterator[SourcePage]:
    """Yield a file's pages one at a time; a bad page is yielded with its error and the next one follows.

    Errors call the file `name` where it has one other than its path, as what came from a URL has.

    *Raises*: InputError for a file that cannot be opened at all, that has none of the chosen pages, whose pages
    fail a thousand times in a row, or three of whose pages take too much time or memory.
    """
    config = config or SourceConfig()
    name = name or str(path)
    known = () if config.reference is None else read_known_pages(config.reference)
    with closing(_open(path, name, config)) as file:
        note, n_failed = file.note(), 0
        for index in _chosen(name, pages, file.n_pages):
            made = [_read(file, index, known, note)]
            n_failed = 0 if made[0].error is None else n_failed + 1
            yield made.pop()  # its image is the receiver's alone, to drop when it likes
            if n_failed == _MAX_FAILED_RUN < file.n_pages:
                failed = f"pages {index + 2 - n_failed} to {index + 1} of {file.n_pages} all failed"
                raise InputError(f"{name}: {failed}, and the rest is left out; {INTACT}")
            note = None


def _open(path: str | Path, name: str, config: SourceConfig) -> PdfProcess | ImageFile:
    kind = sniff(path, name)
    if kind == "pdf":
        words = config.text_layer and config.reference is None
        limits = (config.page_timeout_s, config.pdf_memory_mb)
        return PdfProcess(path, name, config.password, config.dpi, config.max_page_px, words, *limits)
    return ImageFile(path, name, kind, config.max_image_px, config.max_page_px)


def _read(file: PdfProcess | ImageFile, index: int, known: Sequence[KnownPage], note: str | None) -> SourcePage:
    started = time.perf_counter()
    image, error = None, None
    words: tuple[PlacedText, ...] = ()
    try:
        image, words, hidden = file.read(index)
        note = "; ".join(told for told in (note, hidden) if told) or None
    except LostFileError:
        raise
    except PageLimitError as failure:
        error = f"page {index + 1} {failure}"
    except (InputError, *PDF_ERRORS) as failure:
        error = f"page {index + 1} cannot be {file.failed} ({failure_text(failure)}); {INTACT}"
    if image is not None and index < len(known):
        words = known[index].words_on(image.size)
    return SourcePage(index, image, error, time.perf_counter() - started, file.n_pages, words, note)


def _chosen(name: str, pages: PageRanges | None, n_pages: int) -> list[int]:
    if n_pages == 0:
        raise InputError(f"{name}: has no pages; {INTACT}")
    indices = list(range(n_pages)) if pages is None else pages.select(n_pages)
    if not indices:
        raise InputError(f"{name}: {PageRanges.none_of(n_pages)}")
    return indices
