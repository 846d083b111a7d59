"""What every export starts from: a document, where its files go, and the pictures that were kept of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gravityocr.document import Box, Document, Page, Passage, Region, RegionRef
from gravityocr.pipeline.assembly import AssemblyConfig

_CUT = re.compile(r"\n\n<!-- region \d+ was cut: [^>\n]*-->\Z")
_FAILED_PAGE = re.compile(r"<!-- page (\d+) failed:")


@dataclass(frozen=True)
class Export:
    """A finished document on its way to files.

    `pictures` maps the names of the files in `images/` that this run wrote to their width and height, `page_images`
    maps `Page.index` to the file of the page's picture, where one was kept; `assembly` is what its passages were put
    together with. *Units*: pixels.
    """

    document: Document
    folder: Path
    pictures: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    page_images: Mapping[int, Path] = field(default_factory=dict)
    assembly: AssemblyConfig = field(default_factory=AssemblyConfig)

    @property
    def stem(self) -> str:
        """Return the name that all files of the document begin with."""
        return self.folder.name

    def picture(self, name: str) -> Path:
        """Return where a region's picture is."""
        return self.folder / "images" / name


@dataclass(frozen=True)
class Place:
    """A region with the page that it is on."""

    page: Page
    region: Region

    @property
    def box(self) -> Box:
        """Return the region's box, in pixels of its page."""
        return self.region.box


class Places:
    """Finds the regions that passages came from."""

    def __init__(self, document: Document) -> None:
        self._places = {
            RegionRef(page.index, region.index): Place(page, region)
            for page in document.pages
            for region in page.regions
        }
        self._cited = {source for passage in document.passages for source in passage.sources}

    def of(self, passage: Passage) -> list[Place]:
        """Return the regions of a passage, in its order; those that the document does not have are left out."""
        return [self._places[source] for source in passage.sources if source in self._places]

    def uncited(self, page: Page) -> list[Region]:
        """Return a page's regions that no passage came from: furniture, mostly, and what had nothing to read."""
        return [region for region in page.regions if RegionRef(page.index, region.index) not in self._cited]


def passages_by_page(document: Document) -> list[tuple[int, Passage]]:
    """Return each passage with the `Page.index` that it begins on; one without sources goes with the one before.

    A document that was never put together has one text passage for each page with Markdown.
    """
    if not document.passages:
        return [(page.index, _whole_page(page)) for page in document.pages if page.markdown.strip()]
    current = document.pages[0].index if document.pages else 0
    found: list[tuple[int, Passage]] = []
    for passage in document.passages:
        failed = _FAILED_PAGE.match(passage.markdown) if passage.kind == "mark" else None
        if passage.sources:
            current = passage.sources[0].page
        elif failed:  # a page that could not be rendered has no regions
            current = int(failed[1]) - 1
        found.append((current, passage))
    return found


def _whole_page(page: Page) -> Passage:
    text = page.markdown.strip("\n")
    return Passage("text", text, (), content=text)


def picture_of(passage: Passage) -> str | None:
    """Return the name of the picture that a passage shows in place of text."""
    return passage.image if passage.kind in ("figure", "mark") else None


def shown_markdown(passage: Passage) -> str:
    """Return a passage's Markdown without the comment that says where it was cut: statuses are told in other ways."""
    return _CUT.sub("", passage.markdown)


def mark_text(passage: Passage) -> str:
    """Return what the comment of a `mark` says."""
    return passage.markdown.partition("-->")[0].strip().removeprefix("<!--").strip()
