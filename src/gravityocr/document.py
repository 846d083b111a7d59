"""The words of the product as data: boxes, crops, recognitions, regions, pages and documents."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from PIL.Image import Image

Task = Literal["text", "table", "formula"]
RegionStatus = Literal["ok", "truncated", "loop_cut", "failed", "skipped"]
DocumentStatus = Literal["ok", "partial", "failed"]
Label = Literal[
    "doc_title", "title", "text", "list", "reference", "caption", "footnote", "aside", "code",
    "table", "formula", "formula_number", "figure", "header", "footer", "page_number", "logo",
]  # fmt: skip
PageStatus = Literal["ok", "partial", "failed"]
PassageKind = Literal["title", "text", "list", "code", "table", "formula", "figure", "mark"]
Polygon = tuple[tuple[float, float], ...]

TASK_PROMPTS: Mapping[Task, str] = {
    "text": "Text Recognition:",
    "table": "Table Recognition:",
    "formula": "Formula Recognition:",
}
"""What the user asks of a crop for each task. *Source*: section 1, byte for byte."""


@dataclass(frozen=True)
class Recognition:
    """What a recognizer returns for one crop.

    `ids` holds the token ids of each piece that the crop was split into. `n_forwards` counts the decode
    forwards that the crop took part in, summed over its pieces, as are rounds, accepted drafts, `n_hits` (rounds whose
    drafts came with the forward before) and `n_guarded` (tokens that fp32 decided). *Units*: `seconds` maps `vision`,
    `prefill` and `decode` to seconds.
    """

    text: str
    status: RegionStatus = "ok"
    error: str | None = None
    n_tokens: int = 0
    n_forwards: int = 0
    n_rounds: int = 0
    n_accepted: int = 0
    n_hits: int = 0
    n_guarded: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    ids: tuple[tuple[int, ...], ...] = ()

    @property
    def n_decoded(self) -> int:
        """Return how many tokens the decode forwards committed: all but the first of each piece."""
        return self.n_tokens - len(self.ids)

    @property
    def tpf(self) -> float:
        """Return committed tokens per forward, nan where no forward was needed. *Source*: eq (5)."""
        return self.n_decoded / self.n_forwards if self.n_forwards else math.nan


@dataclass(frozen=True)
class Box:
    """A rectangle on the upright page image.

    *Units*: pixels, `x1` and `y1` exclusive.
    """

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        """Return the width, never negative."""
        return max(0.0, self.x1 - self.x0)

    @property
    def height(self) -> float:
        """Return the height, never negative."""
        return max(0.0, self.y1 - self.y0)

    @property
    def area(self) -> float:
        """Return the area, 0 for an inverted box."""
        return self.width * self.height

    def intersection(self, other: Box) -> float:
        """Return the area that both boxes cover."""
        width = min(self.x1, other.x1) - max(self.x0, other.x0)
        height = min(self.y1, other.y1) - max(self.y0, other.y0)
        return max(0.0, width) * max(0.0, height)

    def iou(self, other: Box) -> float:
        """Return intersection over union, 0 where both are empty."""
        both = self.intersection(other)
        union = self.area + other.area - both
        return both / union if union > 0 else 0.0

    def inside(self, other: Box) -> float:
        """Return the share of this box that the other one covers."""
        return self.intersection(other) / self.area if self.area > 0 else 0.0

    def union(self, other: Box) -> Box:
        """Return the smallest box around both."""
        x0, y0 = min(self.x0, other.x0), min(self.y0, other.y0)
        return Box(x0, y0, max(self.x1, other.x1), max(self.y1, other.y1))

    def clamp(self, size_px: tuple[int, int]) -> Box | None:
        """Return the part on a page of `size_px` (width, height); None for no area, NaN or off the page."""
        values = (self.x0, self.y0, self.x1, self.y1)
        if any(value != value for value in values):
            return None
        x1, y1 = min(float(size_px[0]), self.x1), min(float(size_px[1]), self.y1)
        box = Box(max(0.0, self.x0), max(0.0, self.y0), x1, y1)
        return box if box.area > 0 else None

    def pixels(self, size_px: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return whole pixels on the page that contain the box."""
        width, height = size_px
        return (
            max(0, math.floor(self.x0)),
            max(0, math.floor(self.y0)),
            min(width, math.ceil(self.x1)),
            min(height, math.ceil(self.y1)),
        )

    def per_mille(self, size_px: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return GLM-OCR's `bbox_2d`: integers 0-1000 of the page's width and height."""
        width, height = size_px

        def scaled(value: float, side: int) -> int:
            return min(1000, max(0, round(1000 * value / max(side, 1))))

        x0, y0 = scaled(self.x0, width), scaled(self.y0, height)
        return x0, y0, scaled(self.x1, width), scaled(self.y1, height)


@dataclass(frozen=True)
class PlacedText:
    """A word, or a run of words, that is already known, and where it stands.

    *Units*: pixels of the image that it goes with, the page's or the crop's. `text` has no blanks at its ends.
    """

    text: str
    box: Box


@dataclass(frozen=True)
class Crop:
    """The pixels of one region, the task to read them with, and what a text layer says of it.

    `text_layer` is in the reading order of its source, its boxes in pixels of `image`. It only ever helps drafting:
    what is read does not depend on it.
    """

    image: Image
    task: Task = "text"
    text_layer: tuple[PlacedText, ...] = ()


@dataclass(frozen=True)
class Region:
    """A detected part of a page and what was read from it.

    `index` is the place in reading order, from 0. `label` is ours, `native_label` the detector's. `task`
    is None where there is nothing to read (a figure). `image` names the file of its crop, where one was kept.
    `polygon` is its outline in page pixels, where the detector gives one beside the box. `text_layer` is what the
    PDF's own text layer says there, None where it says nothing or was not asked: it never replaces `content`.
    """

    index: int
    label: Label
    native_label: str
    task: Task | None
    box: Box
    content: str = ""
    status: RegionStatus = "ok"
    error: str | None = None
    n_tokens: int = 0
    n_forwards: int = 0
    score: float = 1.0
    image: str | None = None
    polygon: Polygon = ()
    text_layer: str | None = None


@dataclass(frozen=True)
class RegionRef:
    """Where a region is: `page` and `region` are `Page.index` and `Region.index`, both from 0."""

    page: int
    region: int


@dataclass(frozen=True)
class Passage:
    """One block of a document's Markdown and the regions that it came from: several, where it goes on across pages.

    `kind` says what it is, `mark` being the comment that a failure leaves; `label` is its first region's. `content` is
    the same without Markdown around it: plain text, HTML of a table, LaTeX of a formula without delimiters. `level`
    is a title's (1 the document's), else 0. `image` names the picture that it shows. `furniture` are headers, footers
    and page numbers, which are there only where they were asked for.
    """

    kind: PassageKind
    markdown: str
    sources: tuple[RegionRef, ...]
    label: Label = "text"
    content: str = ""
    level: int = 0
    image: str | None = None
    furniture: bool = False


@dataclass(frozen=True)
class Page:
    """One document page: its regions in reading order, or the error that cost it.

    *Units*: `index` from 0; `size_px` is width, height of the upright page image, (0, 0) where it could not
    be rendered; `seconds` maps `render`, `layout` and `recognize` to seconds; `text_layer_ned` is the normalised edit
    distance between what was read and the page's text layer, None where they were not compared.
    """

    index: int
    size_px: tuple[int, int]
    regions: tuple[Region, ...] = ()
    status: PageStatus = "ok"
    error: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    markdown: str = ""
    text_layer_ned: float | None = None


@dataclass(frozen=True)
class Document:
    """What one input file became.

    `status` is `failed` where nothing could be read, `partial` where a page or region failed or was cut, else `ok`;
    regions that the checkpoint does not claim count as `skipped`, not as failed. `notes` tell what is no failure but
    should be known: chosen pages that it does not have, frames of an animation that were left out. `passages` are the
    Markdown of all pages, put together.
    """

    source: str
    status: DocumentStatus
    pages: tuple[Page, ...] = ()
    error: str | None = None
    notes: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()

    @property
    def n_regions(self) -> int:
        """Return how many regions all pages hold."""
        return sum(len(page.regions) for page in self.pages)

    @property
    def markdown(self) -> str:
        """Return the passages parted by blank lines; without passages, the pages' own Markdown."""
        parts = [passage.markdown for passage in self.passages] or [page.markdown for page in self.pages]
        parts = [part.strip("\n") for part in parts]
        text = "\n\n".join(part for part in parts if part)
        return text + "\n" if text else ""

    def status_counts(self) -> dict[str, int]:
        """Return how many regions ended with each status that occurs."""
        return dict(Counter(region.status for page in self.pages for region in page.regions))
