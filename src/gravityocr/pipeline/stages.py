"""What happens to one page on its way: its regions are found and cut, read, and put together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from PIL import Image

from gravityocr.config import check_numbers
from gravityocr.document import Crop, Page, PageStatus, Recognition, Region
from gravityocr.errors import InputError
from gravityocr.pipeline.answers import usable_answers
from gravityocr.pipeline.assembly import AssemblyConfig, page_markdown
from gravityocr.pipeline.crops import CropConfig, cut_out
from gravityocr.pipeline.layout import TASKS, LayoutBox, LayoutConfig, LayoutDetector, find_regions
from gravityocr.pipeline.passages.loops import cut_length, cut_loops
from gravityocr.pipeline.reading_order import reading_order
from gravityocr.pipeline.recognizer import Recognizer
from gravityocr.pipeline.source import SourceConfig, SourcePage
from gravityocr.pipeline.sources.remote import RemoteConfig
from gravityocr.pipeline.text_check import TextCheckConfig, page_distance, with_text_layer
from gravityocr.pipeline.text_layer import words_in

ImageSink = Callable[[str, Image.Image], None]
PageSink = Callable[[int, Image.Image], None]


@dataclass(frozen=True)
class RunConfig:
    """How pages go through the pipeline.

    Up to `n_ahead` pages wait rendered, and as many with their regions found, while earlier ones are read; 0 does one
    step after another. `max_pages` are read of each file. `verify_text_layer` compares what was read with the text
    layer of the page.
    """

    n_ahead: int = 2
    max_pages: int | None = None
    verify_text_layer: bool = False

    def __post_init__(self) -> None:
        check_numbers(self, "run.", optional=("max_pages",), n_ahead=(0, 64), max_pages=(1, 10**9))


@dataclass(frozen=True)
class PipelineConfig:
    """The settings of every step from a file to its Markdown."""

    source: SourceConfig = field(default_factory=SourceConfig)
    remote: RemoteConfig = field(default_factory=RemoteConfig)
    layout: LayoutConfig = field(default_factory=LayoutConfig)
    crop: CropConfig = field(default_factory=CropConfig)
    assembly: AssemblyConfig = field(default_factory=AssemblyConfig)
    text_check: TextCheckConfig = field(default_factory=TextCheckConfig)
    run: RunConfig = field(default_factory=RunConfig)


@dataclass
class PageWork:
    """One page on its way, with what is known of it so far: what is known stays when a later step fails.

    `crops` are what is to be read, `places` the regions that they belong to; `n_decoded` counts the tokens that decode
    forwards committed.
    """

    source: SourcePage
    error: str | None = None
    regions: list[Region] = field(default_factory=list)
    crops: list[Crop] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    n_decoded: int = 0

    def __post_init__(self) -> None:
        self.seconds = {"render": self.source.seconds, "layout": 0.0, "recognize": 0.0}
        if self.source.image is None:
            self.error = self.source.error or f"page {self.source.index + 1} gave no image"


def plan(work: PageWork, detector: LayoutDetector, tasks: frozenset[str], config: PipelineConfig) -> None:
    """Find the regions of a page, in reading order, and cut what of them is to be read."""
    source = work.source
    if source.image is None:
        return
    started = time.perf_counter()
    boxes = reading_order(find_regions(source.image, detector, config.layout), source.image.size)
    work.seconds["layout"] = time.perf_counter() - started
    work.regions = [_planned(index, item, tasks) for index, item in enumerate(boxes)]
    if source.words:
        work.regions = list(with_text_layer(work.regions, source.words))
    for place, region in enumerate(work.regions):
        if region.task is None or region.status == "skipped":
            continue
        try:
            crop = cut_out(source.image, region.box, config.crop, region.polygon)
        except InputError as error:
            work.regions[place] = replace(region, status="skipped", error=str(error))
            continue
        words = crop.scaled(words_in(source.words, crop.shown, crop.padding))
        work.crops.append(Crop(crop.image, region.task, words))
        work.places.append(place)


def _planned(index: int, item: LayoutBox, tasks: frozenset[str]) -> Region:
    task = TASKS[item.label]
    region = Region(
        index, item.label, item.native_label, task, item.box, score=item.score, polygon=item.polygon
    )  # fmt: skip
    if task is None or task in tasks:
        return region
    claimed = ", ".join(sorted(tasks))
    return replace(region, status="skipped", error=f"the checkpoint does not read {task}s (tasks: {claimed})")


def read(work: PageWork, recognizer: Recognizer) -> None:
    """Read all crops of a page in one call."""
    crops, work.crops = work.crops, []  # their pixels go with this call
    if not crops:
        return
    started = time.perf_counter()
    results = recognizer.recognize(crops)
    work.seconds["recognize"] = time.perf_counter() - started
    for place, result in zip(work.places, usable_answers(results, len(crops)), strict=True):
        work.regions[place] = _with_result(work.regions[place], result)
        work.n_decoded += max(0, result.n_decoded)


def _with_result(region: Region, result: Recognition) -> Region:
    """What is too long is cut here, and a loop that nobody has cut yet, a server's for one."""
    status, error = result.status, result.error
    text, told = cut_length(result.text)
    if told is not None:
        error = told if error is None else f"{error}; {told}"
        status = "truncated" if status == "ok" else status
    if status in ("ok", "truncated"):
        text, was_cut = cut_loops(text)
        if was_cut:
            status, error = "loop_cut", "what was read repeats itself: the repeats were cut"
    return replace(
        region,
        content=text,
        status=status,
        error=error,
        n_tokens=result.n_tokens,
        n_forwards=result.n_forwards,
    )


def finish(work: PageWork, config: PipelineConfig, save_image: ImageSink | None) -> Page:
    """Keep pictures of what stays unread, compare with the text layer where asked, and put the page together.

    *Raises*: what `save_image` raises, but for an InputError, which costs one picture only.
    """
    source = work.source
    if work.error is not None or source.image is None:
        return _with_markdown(_failed(work, work.error or ""), config)
    for place, region in enumerate(work.regions):
        if region.status in ("failed", "skipped") or region.task is None:
            work.regions[place] = _keep_picture(source.image, region, source.index, save_image)
    regions = tuple(work.regions)
    status, error = _page_status(regions, source.index)
    compared = page_distance(regions, source.words) if config.run.verify_text_layer and source.words else None
    page = Page(source.index, source.image.size, regions, status, error, work.seconds, text_layer_ned=compared)
    return _with_markdown(page, config)


def _with_markdown(page: Page, config: PipelineConfig) -> Page:
    return replace(page, markdown=page_markdown(page, config.assembly))


def _page_status(regions: Sequence[Region], page_index: int) -> tuple[PageStatus, str | None]:
    n_failed = sum(region.status == "failed" for region in regions)
    n_cut = sum(region.status in ("truncated", "loop_cut") for region in regions)
    status: PageStatus = "failed" if regions and n_failed == len(regions) else "partial" if n_failed + n_cut else "ok"
    told = [f"{n_failed} of {len(regions)} regions failed"] if n_failed else []
    told += [f"{n_cut} of {len(regions)} regions were cut"] if n_cut else []
    return status, f"page {page_index + 1}: {', '.join(told)}" if told else None


def _failed(work: PageWork, error: str) -> Page:
    """Regions that were found stay, as failed ones, so that the JSON shows where the text is."""
    source = work.source
    size_px = source.image.size if source.image is not None else (0, 0)
    lost = tuple(replace(region, status="failed", error=error) for region in work.regions)
    return Page(source.index, size_px, lost, "failed", error, work.seconds)


def _keep_picture(image: Image.Image, region: Region, page_index: int, save: ImageSink | None) -> Region:
    if save is None or region.box.clamp(image.size) is None:
        return region
    name = f"page{page_index + 1:04d}_region{region.index:03d}.png"
    try:
        save(name, image.crop(region.box.pixels(image.size)))
    except InputError as error:  # a picture that cannot be written does not cost the page its text
        return replace(region, status="failed", error=str(error))
    return replace(region, image=name)
