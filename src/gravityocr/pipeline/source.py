"""Files to upright RGB page images, made one at a time; what a decoder raises stays with its file or page."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pypdfium2 as pdfium
from PIL import Image, ImageOps, UnidentifiedImageError

from gravityocr.document import PlacedText
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.inputs import Kind, sniff
from gravityocr.pipeline.pixels import DECODER_ERRORS, to_rgb
from gravityocr.pipeline.text_files import KnownPage, read_known_pages
from gravityocr.pipeline.text_layer import page_text

_PDF_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD of PDFium's public header
_INTACT = "hand an intact copy"
# WebP decodes into whole canvases beside the image: 16 bytes a pixel where the others take 4 to 10
_COSTLY: dict[Kind, int] = {"webp": 2}


@dataclass(frozen=True)
class SourceConfig:
    """How inputs become page images.

    *Units*: a page image has at most `max_page_px` pixels (larger ones are scaled down); an image file that
    would decode to more than `max_image_px` is refused (half of it for WebP), so that its decoding and
    scaling stay within about 1 GB of memory. `text_layer` reads the words that a PDF page holds beside its picture;
    `reference` takes them from an hOCR or ALTO file of the same pages instead.
    """

    dpi: float = 200.0
    max_page_px: int = 16_000_000
    max_image_px: int = 100_000_000
    password: str | None = None
    text_layer: bool = False
    reference: str | None = None

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


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


@dataclass(frozen=True)
class SourcePage:
    """One page of an input: its image, or the error that cost it, and the words that are known of it.

    *Units*: `index` from 0; `seconds` for rendering or decoding; `n_pages` of the whole input; `words` in pixels of
    the image.
    """

    index: int
    image: Image.Image | None
    error: str | None
    seconds: float
    n_pages: int = 1
    words: tuple[PlacedText, ...] = ()


def count_pages(path: str | Path, config: SourceConfig | None = None) -> int:
    """Return how many pages a file has, without rendering one.

    *Raises*: InputError for a file that cannot be opened at all.
    """
    config = config or SourceConfig()
    kind = sniff(path)
    if kind == "pdf":
        with closing(_open_pdf(path, config)) as document:
            return len(document)
    with _open_image(path, kind, config) as image:
        return _n_frames(image, kind)


def iter_pages(
    path: str | Path, pages: PageRanges | None = None, config: SourceConfig | None = None
) -> Iterator[SourcePage]:
    """Yield a file's pages one at a time; a bad page is yielded with its error and the next one follows.

    *Raises*: InputError for a file that cannot be opened at all, or that has none of the chosen pages.
    """
    config = config or SourceConfig()
    kind = sniff(path)
    known = () if config.reference is None else read_known_pages(config.reference)
    if kind == "pdf":
        yield from _iter_pdf(path, pages, config, known)
    else:
        yield from _iter_image(path, kind, pages, config, known)


def _chosen(path: str | Path, pages: PageRanges | None, n_pages: int) -> list[int]:
    if n_pages == 0:
        raise InputError(f"{path}: has no pages; {_INTACT}")
    indices = list(range(n_pages)) if pages is None else pages.select(n_pages)
    if not indices:
        raise InputError(f"{path}: has {n_pages} page(s), none of them chosen by --pages; choose from 1-{n_pages}")
    return indices


def _reason(failure: BaseException) -> str:
    """An OSError speaks for itself, a KeyError's bare key does not."""
    text = str(failure)
    if isinstance(failure, (OSError, InputError, pdfium.PdfiumError)) and text:
        return text
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def _open_pdf(path: str | Path, config: SourceConfig) -> pdfium.PdfDocument:
    # PDFium keeps its last error, and a document without pages would be told with the one before's (or with
    # "Success"): so the last error is first made that of a broken document
    with suppress(pdfium.PdfiumError):
        pdfium.PdfDocument(b"%PDF-").close()
    try:
        return pdfium.PdfDocument(str(path), password=config.password)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == _PDF_PASSWORD_ERROR:
            what = "password required; give" if config.password is None else "the password is wrong; give the right"
            raise InputError(f"{path}: {what} --password") from error
        raise InputError(f"{path}: is a broken PDF or has no pages ({error}); {_INTACT}") from error
    except DECODER_ERRORS as error:
        raise InputError(f"{path}: cannot be opened as a PDF ({_reason(error)}); {_INTACT}") from error


def _iter_pdf(
    path: str | Path, pages: PageRanges | None, config: SourceConfig, known: Sequence[KnownPage]
) -> Iterator[SourcePage]:
    with closing(_open_pdf(path, config)) as document:
        n_pages = len(document)
        for index in _chosen(path, pages, n_pages):
            started = time.perf_counter()
            image, error = None, None
            words: tuple[PlacedText, ...] = ()
            try:
                image, words = _render(document, index, config)
            except (InputError, *DECODER_ERRORS) as failure:
                error = f"page {index + 1} cannot be rendered ({_reason(failure)}); {_INTACT}"
            words = _known_words(known, index, image) if known else words
            yield SourcePage(index, image, error, time.perf_counter() - started, n_pages, words)


def _render(
    document: pdfium.PdfDocument, index: int, config: SourceConfig
) -> tuple[Image.Image, tuple[PlacedText, ...]]:
    """Return the image of a page, and the words of its text layer where they are asked for."""
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
            view: Image.Image = bitmap.to_pil()
            image = view.convert("RGB").copy()
        asked = config.text_layer and config.reference is None
        return image, _layer_words(page, image.size) if asked else ()


def _known_words(known: Sequence[KnownPage], index: int, image: Image.Image | None) -> tuple[PlacedText, ...]:
    return known[index].words_on(image.size) if image is not None and index < len(known) else ()


def _layer_words(page: pdfium.PdfPage, size_px: tuple[int, int]) -> tuple[PlacedText, ...]:
    """Return the words of a page's text layer, none where it is broken: the picture is what is read."""
    try:
        return page_text(page, size_px)
    except (InputError, *DECODER_ERRORS):
        return ()


def _open_image(path: str | Path, kind: Kind, config: SourceConfig) -> Image.Image:
    limit = config.max_image_px // _COSTLY.get(kind, 1)
    told = f"the limit is {limit / 1e6:g} megapixels; scale it down"
    try:
        with _quiet():
            image = Image.open(path)
    except Image.DecompressionBombError as error:
        raise InputError(f"{path}: would decode to too many pixels, {told}") from error
    except UnidentifiedImageError as error:
        raise InputError(f"{path}: is a broken image; {_INTACT}") from error
    except DECODER_ERRORS as error:
        raise InputError(f"{path}: is a broken image ({_reason(error)}); {_INTACT}") from error
    n_px = image.width * image.height
    if n_px == 0:
        image.close()
        raise InputError(f"{path}: is an image without pixels; {_INTACT}")
    if n_px > limit:
        image.close()
        raise InputError(f"{path}: {image.width} x {image.height} px, {told}")
    return image


@contextmanager
def _quiet() -> Iterator[None]:
    """Pillow warns of much that it mends, in the middle of our output; what it cannot mend it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _n_frames(image: Image.Image, kind: Kind) -> int:
    """Only a TIFF's frames are pages; of an animation the first frame is the page.

    A frame whose header is damaged counts, as the last one: it hides where the next one is.
    """
    if kind != "tiff":
        return 1
    n_frames = 1
    with _quiet():
        while True:
            try:
                image.seek(n_frames)
            except EOFError:
                return n_frames
            except DECODER_ERRORS:
                return n_frames + 1
            n_frames += 1


def _iter_image(
    path: str | Path, kind: Kind, pages: PageRanges | None, config: SourceConfig, known: Sequence[KnownPage]
) -> Iterator[SourcePage]:
    with _open_image(path, kind, config) as image:
        n_pages = _n_frames(image, kind)
        for index in _chosen(path, pages, n_pages):
            started = time.perf_counter()
            page, error = None, None
            try:
                with _quiet():
                    if kind == "tiff":
                        image.seek(index)
                    page = _decode(image, config)
            except (InputError, *DECODER_ERRORS) as failure:
                error = f"page {index + 1} cannot be decoded ({_reason(failure)}); {_INTACT}"
            words = _known_words(known, index, page)
            yield SourcePage(index, page, error, time.perf_counter() - started, n_pages, words)


def _decode(image: Image.Image, config: SourceConfig) -> Image.Image:
    n_px = image.width * image.height
    if not 0 < n_px <= config.max_image_px:  # a later TIFF frame may be larger than the first
        limit = f"{config.max_image_px / 1e6:g} megapixels"
        raise InputError(f"{image.width} x {image.height} px where 1 px to {limit} are read")
    image.load()
    return ImageOps.exif_transpose(to_rgb(image, config.max_page_px))
