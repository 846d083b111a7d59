"""Files to documents: pages are rendered, their regions found, read and put together, all at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from gravityocr.document import Document, DocumentStatus, Page, Passage
from gravityocr.errors import GravityOCRError, InputError
from gravityocr.pipeline.assembly import assemble
from gravityocr.pipeline.flow import ahead, in_order
from gravityocr.pipeline.inputs import InputFile, origin_of
from gravityocr.pipeline.layout import LayoutDetector
from gravityocr.pipeline.memory import give_back
from gravityocr.pipeline.recognizer import Recognizer
from gravityocr.pipeline.source import PageRanges, SourcePage, count_pages, iter_pages
from gravityocr.pipeline.sources.remote import opened
from gravityocr.pipeline.stages import ImageSink, PageSink, PageWork, finish, plan, read
from gravityocr.pipeline.stages import PipelineConfig as PipelineConfig

PageCallback = Callable[[Page], None]

_RENDERING = threading.Lock()  # PDFium serves one thread at a time, whoever asks, and however many runs there are


@dataclass(frozen=True)
class DocumentJob:
    """One input to parse, and who is told of it: all are called in the thread of who takes the documents, but one.

    `on_open` is called when the first page is rendered, in the thread that renders, with the number of pages to come;
    `on_page` with each page, in order, and the number of tokens that decode forwards committed for it; `save_image`
    with each picture that the Markdown shows; `save_page` with each page's image.
    """

    item: InputFile
    pages: PageRanges | None = None
    on_open: Callable[[int], None] | None = None
    on_page: Callable[[Page, int], None] | None = None
    save_image: ImageSink | None = None
    save_page: PageSink | None = None


@dataclass(frozen=True)
class _End:
    """The end of an input: what cost the rest of it, and what should be known."""

    error: str | None = None
    notes: tuple[str, ...] = ()


@dataclass
class _Parts:
    """What became of an input so far."""

    pages: list[Page] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def convert(
    path: str | Path,
    recognizer: Recognizer,
    detector: LayoutDetector,
    config: PipelineConfig | None = None,
    *,
    pages: PageRanges | None = None,
    on_page: PageCallback | None = None,
    save_image: ImageSink | None = None,
    save_page: PageSink | None = None,
    n_parallel: int = 1,
) -> Document:
    """Parse one input. What fails is recorded in the document, never raised (but for what a callback raises).

    Where the document has only some of the chosen `pages`, those are read, and its `notes` name the others; where it
    has none of them, it is `failed`.

    `on_page` is called after each page, `save_image` with each picture that the Markdown shows, as soon as it
    is known, `save_page` with each page's image; no page image outlives its page. `n_parallel` pages are read at once,
    for recognizers that several threads may call.
    """

    def told(page: Page, _n_decoded: int) -> None:
        if on_page is not None:
            on_page(page)

    item = InputFile(str(path), origin=origin_of(path))
    job = DocumentJob(item, pages, on_page=told, save_image=save_image, save_page=save_page)
    with closing(convert_all([job], recognizer, detector, config, n_parallel)) as documents:
        return next(documents)


def convert_pages(
    path: str | Path,
    recognizer: Recognizer,
    detector: LayoutDetector,
    config: PipelineConfig | None = None,
    *,
    pages: PageRanges | None = None,
    save_image: ImageSink | None = None,
    n_parallel: int = 1,
) -> Iterator[Page]:
    """Yield an input's pages as they are read; a page that fails is yielded with its error.

    *Raises*: InputError for a file that cannot be opened at all, or that has none of the chosen pages.
    """
    job = DocumentJob(InputFile(str(path), origin=origin_of(path)), pages, save_image=save_image)
    with closing(_steps([job], recognizer, detector, config or PipelineConfig(), n_parallel)) as steps:
        for _, step in steps:
            if isinstance(step, _End):
                if step.error is not None:
                    raise InputError(step.error)
            else:
                yield _finished(job, step, config or PipelineConfig(), _Parts())


def convert_all(
    jobs: Iterable[DocumentJob],
    recognizer: Recognizer,
    detector: LayoutDetector,
    config: PipelineConfig | None = None,
    n_parallel: int = 1,
) -> Generator[Document, None, None]:
    """Yield the document of each input, in order, each as soon as it is complete.

    The first pages of the next input are rendered while the last ones of this one are read. What is alive at once is
    bounded by `config.run.n_ahead` and `n_parallel`, however many pages there are. `jobs` is gone through in the thread
    that renders.
    """
    config = config or PipelineConfig()
    with closing(_steps(jobs, recognizer, detector, config, n_parallel)) as steps:
        parts = _Parts()
        for job, step in steps:
            if isinstance(step, _End):
                yield _document(job, parts, step, config)
                parts = _Parts()
                continue
            page = _finished(job, step, config, parts)
            n_decoded = step.n_decoded
            del step  # the image goes before the next one comes
            give_back()
            parts.pages.append(page)
            if job.on_page is not None:
                job.on_page(page, n_decoded)


_Step = tuple[DocumentJob, PageWork | _End]


def _steps(
    jobs: Iterable[DocumentJob],
    recognizer: Recognizer,
    detector: LayoutDetector,
    config: PipelineConfig,
    n_parallel: int,
) -> Generator[_Step, None, None]:
    """Yield the pages of all inputs, read but not yet put together, and the end of each input behind its pages."""

    def plan_pages(steps: Generator[_Step, None, None]) -> Generator[_Step, None, None]:
        with closing(steps):
            for job, step in steps:
                if isinstance(step, PageWork):
                    _guarded(step, lambda work: plan(work, detector, recognizer.tasks, config))
                yield job, step
                del step

    def read_page(pair: _Step) -> _Step:
        if isinstance(pair[1], PageWork):
            _guarded(pair[1], lambda work: read(work, recognizer))
        return pair

    n_ahead = config.run.n_ahead
    rendered = ahead(_render(jobs, config), n_ahead, "render")
    planned = ahead(plan_pages(rendered), n_ahead, "layout")
    return in_order(read_page, planned, n_parallel)


def _guarded(work: PageWork, step: Callable[[PageWork], None]) -> None:
    """Do one step of a page; this is the boundary at which whatever goes wrong becomes the page's error."""
    if work.error is not None:
        return
    try:
        step(work)
    except Exception as failure:  # one page never takes the document down
        named = "" if isinstance(failure, GravityOCRError) else f"{type(failure).__name__}: "
        work.error = f"page {work.source.index + 1}: {named}{failure}"


def _finished(job: DocumentJob, work: PageWork, config: PipelineConfig, parts: _Parts) -> Page:
    """Put a page together, and its picture where that is asked for."""
    made: list[Page] = []
    _guarded(work, lambda work: made.append(finish(work, config, job.save_image)))
    image = work.source.image
    if job.save_page is not None and image is not None:
        try:
            job.save_page(work.source.index, image)
        except InputError as error:  # the formats that show it say so, too
            parts.notes.append(f"page {work.source.index + 1}: its picture is missing ({error})")
    return made[0] if made else finish(work, config, None)


def _render(jobs: Iterable[DocumentJob], config: PipelineConfig) -> Generator[_Step, None, None]:
    """Yield the pages of one input after another; whatever opening one raises becomes its error."""
    for job in jobs:
        name, error = job.item.name, job.item.error
        notes: list[str] = []
        pages = _pages_of(job, config)
        first = True
        with closing(pages):
            while error is None:
                try:
                    source = next(pages, None)
                except Exception as failure:  # one file never takes the others down
                    error = _file_error(name, failure)
                    break
                if source is None:
                    break
                if first:
                    notes += _selection_notes(source.n_pages, job.pages, config.run.max_pages)
                    if job.on_open is not None:
                        job.on_open(_n_chosen(source.n_pages, job.pages, config.run.max_pages))
                    first = False
                notes += [source.note] if source.note else []
                yield job, PageWork(source)
                del source
        yield job, _End(error, tuple(notes))


def _pages_of(job: DocumentJob, config: PipelineConfig) -> Generator[SourcePage, None, None]:
    """Yield the page images of one input; a URL or stdin becomes a file for as long."""
    with opened(job.item, config.remote) as path:
        pages = iter_pages(path, job.pages, config.source, name=job.item.name)
        n_left = config.run.max_pages
        try:
            while n_left is None or n_left > 0:
                with _RENDERING:
                    source = next(pages, None)
                if source is None:
                    return
                n_left = None if n_left is None else n_left - 1
                yield source
                del source
        finally:
            if isinstance(pages, Generator):
                with _RENDERING:
                    pages.close()


def _n_chosen(n_pages: int, pages: PageRanges | None, limit: int | None) -> int:
    n_chosen = n_pages if pages is None else len(pages.select(n_pages))
    return n_chosen if limit is None else min(limit, n_chosen)


def n_pages_of(item: InputFile, config: PipelineConfig, pages: PageRanges | None = None) -> int:
    """Return how many pages will be read of an input; 1 for a URL or stdin, 0 for what cannot be opened."""
    if item.error is not None or item.origin != "file":
        return 0 if item.error is not None else 1
    try:
        with _RENDERING:
            n_pages = count_pages(item.path, config.source)
    except InputError:
        return 0
    return _n_chosen(n_pages, pages, config.run.max_pages)


def _selection_notes(n_pages: int, pages: PageRanges | None, limit: int | None) -> list[str]:
    notes = []
    beyond = pages.beyond(n_pages) if pages else None
    if beyond:
        notes.append(f"has {_pages_text(n_pages)}, so --pages {beyond} gave nothing")
    n_left_out = _n_chosen(n_pages, pages, None) - _n_chosen(n_pages, pages, limit)
    if n_left_out:
        left_out = "the last chosen one was" if n_left_out == 1 else f"the last {n_left_out} chosen ones were"
        notes.append(f"has {_pages_text(n_pages)}: {left_out} left out (--max-pages {limit})")
    return notes


def _pages_text(n_pages: int) -> str:
    return "1 page" if n_pages == 1 else f"{n_pages} pages"


def _file_error(name: str, failure: Exception) -> str:
    if isinstance(failure, InputError):
        return str(failure)
    return f"{name}: cannot be read ({type(failure).__name__}: {failure}); hand an intact copy"


def _document(job: DocumentJob, parts: _Parts, end: _End, config: PipelineConfig) -> Document:
    name, pages, error = job.item.name, tuple(parts.pages), end.error
    passages: tuple[Passage, ...] = ()
    try:
        passages = assemble(pages, config.assembly)
    except Exception as failure:  # the pages stay, each with its own Markdown
        error = error or f"{name}: its pages cannot be put together ({type(failure).__name__}: {failure}); report it"
    status = _document_status(pages, error)
    return Document(name, status, pages, error or _first_error(name, pages), (*end.notes, *parts.notes), passages)


def _document_status(pages: Sequence[Page], error: str | None) -> DocumentStatus:
    if not pages or all(page.status == "failed" for page in pages):
        return "failed"
    return "ok" if error is None and all(page.status == "ok" for page in pages) else "partial"


def _first_error(name: str, pages: Sequence[Page]) -> str | None:
    return next((f"{name}: {page.error}" for page in pages if page.error), None)
