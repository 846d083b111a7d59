"""Page images to regions, cut by the detector and the crop function that inference uses.

A region that has the task and the place of an annotated block takes its text; any other is `pending`, for a teacher to
transcribe. Figures, blank pages and pages that cannot be read are told as skipped samples.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PIL import Image, ImageOps, UnidentifiedImageError

from gravityocr.document import Box, Task
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.crops import CropConfig, cut
from gravityocr.pipeline.layout import TASKS, LayoutBox, LayoutConfig, LayoutDetector, WholePage, find_regions
from gravityocr.pipeline.layout_cdla import CdlaConfig, CdlaDetector
from gravityocr.training.corpora.conversion import LAYOUTS, Skipped
from gravityocr.training.corpora.region_shards import LabelledRegion, encode_picture

MAX_PAGE_PX = 16_000_000
"""Inference scales larger pages down; here they are skipped, so that every crop is cut from the published pixels."""

_PLAIN = frozenset({"1", "L", "P", "RGB"})
_TRANSPARENT = frozenset({"LA", "PA", "RGBA"})
_EDGE = 0.015  # of the page's longer side: how far the edges of a region and of its annotated block may lie apart
_BROKEN = (
    OSError, ValueError, SyntaxError, TypeError, LookupError, EOFError, RuntimeError, MemoryError, struct.error,
    zlib.error, Image.DecompressionBombError,
)  # fmt: skip


@dataclass(frozen=True)
class PageName:
    """Where a page comes from: `label` names it within its document where its number does not."""

    source: str
    doc_id: str
    page: int = 0
    label: str = ""

    def __str__(self) -> str:
        return f"{self.source}/{self.doc_id}/{self.label or self.page}"


@dataclass(frozen=True)
class KnownText:
    """A block that the data set annotates: its text, in the form of a target, and where it stands.

    *Units*: pixels of the page image.
    """

    box: Box
    task: Task
    text: str


class PageCutter:
    """Cuts pages into regions."""

    def __init__(self, layout: str) -> None:
        """Load the detector.

        *Raises*: ConfigError for an unknown layout, or where its network is missing.
        """
        self._detector = _detector(layout)

    def regions(
        self, image: Image.Image, name: PageName, known: Sequence[KnownText] = ()
    ) -> Iterator[LabelledRegion | Skipped]:
        """Yield the regions of an RGB page, numbered as the detector gave them, and what of it holds no text."""
        boxes = find_regions(image, self._detector, LayoutConfig())
        if not boxes:
            yield Skipped(str(name), "blank page")
            return
        unused = list(known)
        n_figures = 0
        for number, item in enumerate(boxes):
            task = TASKS[item.label]
            if task is None:
                n_figures += 1
                continue
            block = _block_of(item, task, unused, image.size)
            if block is not None:
                unused.remove(block)
            try:
                yield _region(image, item, task, block, name, number)
            except InputError as error:
                yield Skipped(f"{name}/{number}", f"no crop: {error}")
        if n_figures:
            yield Skipped(str(name), f"figures: {n_figures}")

    def read(self, data: bytes, name: PageName, known: Sequence[KnownText] = ()) -> Iterator[LabelledRegion | Skipped]:
        """Decode a page image and yield its regions; a page that cannot be decoded is skipped."""
        try:
            image = open_page(data)
        except InputError as error:
            yield Skipped(str(name), f"unreadable page: {error}")
            return
        yield from self.regions(image, name, known)


def open_page(data: bytes) -> Image.Image:
    """Decode the bytes of a page image to upright RGB, as inference does.

    *Raises*: InputError for what is no image, broken, of an unusual kind or too large.
    """
    try:
        image = Image.open(io.BytesIO(data))
        n_px = image.width * image.height
        if not 0 < n_px <= MAX_PAGE_PX:
            most = f"1 px to {MAX_PAGE_PX / 1e6:g} megapixels"
            raise InputError(f"{image.width} x {image.height} px where {most} are read; scale it")
        if image.mode not in _PLAIN | _TRANSPARENT:
            raise InputError(f"its colours are {image.mode}; convert it to RGB")
        image.load()
        upright = ImageOps.exif_transpose(image)
        if image.mode in _PLAIN and "transparency" not in image.info:
            return upright.convert("RGB")
        rgba = upright.convert("RGBA")
        page = Image.new("RGB", rgba.size, "white")
        page.paste(rgba, mask=rgba.getchannel("A"))
        return page
    except UnidentifiedImageError as error:  # it would name the address of the bytes
        raise InputError("it is broken (no image); download it again") from error
    except _BROKEN as error:
        raise InputError(f"it is broken ({error}); download it again") from error


def _detector(layout: str) -> LayoutDetector:
    if layout == "cdla":
        # one thread: the conversion runs one process a core
        return CdlaDetector(CdlaConfig(n_threads=1))
    if layout == "none":
        return WholePage()
    raise ConfigError(f"--layout {layout!r} is unknown; choose one of {', '.join(LAYOUTS)}")


def _block_of(item: LayoutBox, task: Task, known: Sequence[KnownText], size_px: tuple[int, int]) -> KnownText | None:
    """Return the block that is the same region: all four edges agree, so that nothing beside it is in the crop."""
    most = _EDGE * max(size_px)
    best: tuple[float, KnownText] | None = None
    for block in known:
        apart = max(
            abs(item.box.x0 - block.box.x0), abs(item.box.y0 - block.box.y0),
            abs(item.box.x1 - block.box.x1), abs(item.box.y1 - block.box.y1),
        )  # fmt: skip
        if block.task == task and apart <= most and (best is None or apart < best[0]):
            best = (apart, block)
    return best[1] if best else None


def _region(
    image: Image.Image, item: LayoutBox, task: Task, block: KnownText | None, name: PageName, number: int
) -> LabelledRegion:
    crop = cut(image, item.box, CropConfig())
    box = item.box
    return LabelledRegion(
        region_id=f"{name}/{number}",
        image=encode_picture(crop),
        width_px=crop.width,
        height_px=crop.height,
        task=task,
        target=block.text if block else "",
        source=name.source,
        doc_id=name.doc_id,
        page=name.page,
        bbox=(box.x0, box.y0, box.x1, box.y1),
        target_origin="annotation" if block else "pending",
    )
