"""One input file to one document, page by page: render, layout, one recognizer call, Markdown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from PIL import Image

from gravityocr.document import Crop, Document, DocumentStatus, Page, PageStatus, PlacedText, Recognition, Region
from gravityocr.errors import GravityOCRError, InputError
from gravityocr.pipeline.crops import CropConfig, cut_out
from gravityocr.pipeline.layout import TASKS, LayoutBox, LayoutConfig, LayoutDetector, find_regions
from gravityocr.pipeline.markdown import failed_page_markdown, page_markdown
from gravityocr.pipeline.reading_order import reading_order
from gravityocr.pipeline.recognizer import Recognizer
from gravityocr.pipeline.source import PageRanges, SourceConfig, SourcePage, iter_pages
from gravityocr.pipeline.text_layer import words_in

PageCallback = Callable[[Page], None]
ImageSink = Callable[[str, Image.Image], None]


@dataclass(frozen=True)
class PipelineConfig:
    """The settings of every step from a file to its Markdown."""

    source: SourceConfig = field(default_factory=SourceConfig)
    layout: LayoutConfig = field(default_factory=LayoutConfig)
    crop: CropConfig = field(default_factory=CropConfig)


def convert(
    path: str | Path,
    recognizer: Recognizer,
    detector: LayoutDetector,
    config: PipelineConfig | None = None,
    *,
    pages: PageRanges | None = None,
    on_page: PageCallback | None = None,
    save_image: ImageSink | None = None,
) -> Document:
    """Parse one file. What fails is recorded in the document, never raised (but for what a callback raises).

    Where the document has only some of the chosen `pages`, those are read, and a document that is `ok` names
    the others in its `error`; where it has none of them, it is `failed`.

    `on_page` is called after each page, `save_image` with each picture that the Markdown shows, as soon as it
    is known; no page image outlives its page.
    """
    config = config or PipelineConfig()
    done: list[Page] = []
    error: str | None = None
    note: str | None = None
    sources = iter_pages(path, pages, config.source)
    while True:
        try:
            source = next(sources, None)
        except Exception as failure:  # one file never takes the others down
            error = _file_error(path, failure)
            break
        if source is None:
            break
        beyond = pages.beyond(source.n_pages) if pages else None
        note = f"{path}: has {source.n_pages} page(s), so --pages {beyond} gave nothing" if beyond else None
        done.append(_convert_page(source, _PageReader(recognizer, detector, config, save_image)))
        del source  # the image goes before the next one comes
        if on_page is not None:
            on_page(done[-1])
    status = _document_status(done, error)
    return Document(str(path), status, tuple(done), error or _first_error(path, done) or note)


def convert_pages(
    path: str | Path,
    recognizer: Recognizer,
    detector: LayoutDetector,
    config: PipelineConfig | None = None,
    *,
    pages: PageRanges | None = None,
    save_image: ImageSink | None = None,
) -> Iterator[Page]:
    """Yield a file's pages as they are read; a page that fails is yielded with its error.

    *Raises*: InputError for a file that cannot be opened at all, or that has none of the chosen pages.
    """
    config = config or PipelineConfig()
    for source in iter_pages(path, pages, config.source):
        yield _convert_page(source, _PageReader(recognizer, detector, config, save_image))


def _file_error(path: str | Path, failure: Exception) -> str:
    if isinstance(failure, InputError):
        return str(failure)
    return f"{path}: cannot be read ({type(failure).__name__}: {failure}); hand an intact copy"


def _document_status(pages: list[Page], error: str | None) -> DocumentStatus:
    if not pages or all(page.status == "failed" for page in pages):
        return "failed"
    return "ok" if error is None and all(page.status == "ok" for page in pages) else "partial"


def _first_error(path: str | Path, pages: list[Page]) -> str | None:
    return next((f"{path}: {page.error}" for page in pages if page.error), None)


def _convert_page(source: SourcePage, reader: _PageReader) -> Page:
    """Read one page; this is the boundary at which whatever goes wrong becomes the page's error."""
    seconds = reader.seconds
    seconds["render"] = source.seconds
    if source.image is None:
        return _failed_page(source, reader, source.error or f"page {source.index + 1} gave no image")
    try:
        reader.read(source.image, source)
    except Exception as failure:  # one page never takes the document down
        named = "" if isinstance(failure, GravityOCRError) else f"{type(failure).__name__}: "
        return _failed_page(source, reader, f"page {source.index + 1}: {named}{failure}")
    regions = tuple(reader.regions)
    n_failed = sum(region.status == "failed" for region in regions)
    n_cut = sum(region.status in ("truncated", "loop_cut") for region in regions)
    status: PageStatus = "failed" if regions and n_failed == len(regions) else "partial" if n_failed + n_cut else "ok"
    told = [f"{n_failed} of {len(regions)} regions failed"] if n_failed else []
    told += [f"{n_cut} of {len(regions)} regions were cut"] if n_cut else []
    error = f"page {source.index + 1}: {', '.join(told)}" if told else None
    text = page_markdown(regions, first_page=source.index == 0)
    return Page(source.index, source.image.size, regions, status, error, seconds, text)


def _failed_page(source: SourcePage, reader: _PageReader, error: str) -> Page:
    """Regions that were found stay, as failed ones, so that the JSON shows where the text is."""
    size_px = source.image.size if source.image is not None else (0, 0)
    lost = tuple(replace(region, status="failed", error=error) for region in reader.regions)
    text = failed_page_markdown(source.index, error)
    return Page(source.index, size_px, lost, "failed", error, reader.seconds, text)


class _PageReader:
    """The steps of one page, with what is known so far kept where the page boundary can see it."""

    def __init__(
        self, recognizer: Recognizer, detector: LayoutDetector, config: PipelineConfig, save: ImageSink | None
    ) -> None:
        self._recognizer = recognizer
        self._detector = detector
        self._config = config
        self._save = save
        self.regions: list[Region] = []
        self.seconds: dict[str, float] = {"render": 0.0, "layout": 0.0, "recognize": 0.0}

    def read(self, image: Image.Image, source: SourcePage) -> None:
        """Find the regions, read all of them in one call and keep pictures of those that stay unread."""
        started = time.perf_counter()
        boxes = reading_order(find_regions(image, self._detector, self._config.layout), image.size)
        self.seconds["layout"] = time.perf_counter() - started
        self.regions = [self._plan(index, item) for index, item in enumerate(boxes)]
        self._recognize(image, source.words)
        for place, region in enumerate(self.regions):
            if region.status in ("failed", "skipped") or region.task is None:
                self.regions[place] = self._keep_picture(image, region, source.index)

    def _plan(self, index: int, item: LayoutBox) -> Region:
        task = TASKS[item.label]
        region = Region(index, item.label, item.native_label, task, item.box, score=item.score)
        if task is None or task in self._recognizer.tasks:
            return region
        claimed = ", ".join(sorted(self._recognizer.tasks))
        return replace(region, status="skipped", error=f"the checkpoint does not read {task}s (tasks: {claimed})")

    def _recognize(self, image: Image.Image, words: Sequence[PlacedText]) -> None:
        crops: list[Crop] = []
        places: list[int] = []
        for place, region in enumerate(self.regions):
            if region.task is None or region.status == "skipped":
                continue
            try:
                crop = cut_out(image, region.box, self._config.crop)
            except InputError as error:
                self.regions[place] = replace(region, status="skipped", error=str(error))
                continue
            crops.append(Crop(crop.image, region.task, words_in(words, crop.shown, crop.padding)))
            places.append(place)
        if not crops:
            return
        started = time.perf_counter()
        results = self._recognizer.recognize(crops)
        self.seconds["recognize"] = time.perf_counter() - started
        if len(results) != len(crops):
            raise GravityOCRError(f"the recognizer answered {len(results)} of {len(crops)} crops: report it")
        for place, result in zip(places, results, strict=True):
            self.regions[place] = _with_result(self.regions[place], result)

    def _keep_picture(self, image: Image.Image, region: Region, page_index: int) -> Region:
        if self._save is None or region.box.clamp(image.size) is None:
            return region
        name = f"page{page_index + 1:04d}_region{region.index:03d}.png"
        try:
            self._save(name, image.crop(region.box.pixels(image.size)))
        except InputError as error:  # a picture that cannot be written does not cost the page its text
            return replace(region, status="failed", error=str(error))
        return replace(region, image=name)


def _with_result(region: Region, result: Recognition) -> Region:
    return replace(
        region,
        content=result.text,
        status=result.status,
        error=result.error,
        n_tokens=result.n_tokens,
        n_forwards=result.n_forwards,
    )
