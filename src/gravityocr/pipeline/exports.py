"""Documents to files: one folder an input, every file whole or absent, in the formats that were asked for."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from PIL import Image

from gravityocr.document import Document
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.assembly import AssemblyConfig
from gravityocr.pipeline.export.docling import docling_json
from gravityocr.pipeline.export.document import Export
from gravityocr.pipeline.export.document_json import document_json, page_json, region_json
from gravityocr.pipeline.export.files import make_folder, printable, remove_file, whole_file, write_json, write_pieces
from gravityocr.pipeline.export.files import write_text as write_text
from gravityocr.pipeline.export.folders import RECORD, SUFFIXES, OutputFolders
from gravityocr.pipeline.export.glm_ocr import glm_ocr_json
from gravityocr.pipeline.export.html import html_pieces
from gravityocr.pipeline.export.layout import write_layout
from gravityocr.pipeline.export.mineru import content_list
from gravityocr.pipeline.export.omnidocbench import write_predictions
from gravityocr.pipeline.export.pictures import bounded
from gravityocr.pipeline.inputs import source_identity

__all__ = [
    "DEFAULT_FORMATS", "FORMATS", "DocumentWriter", "OutputFolders", "document_json", "page_json", "printable",
    "region_json", "write_text",
]  # fmt: skip

FORMATS = ("md", "json", "html", "glm-ocr", "content-list", "docling", "omnidocbench", "layout")
"""Every format that a document can be written in."""
DEFAULT_FORMATS = ("md", "json")
_WITH_PAGES = frozenset({"html", "layout"})
_IMAGE_NAME = re.compile(r"page\d+_region\d+\.png")
_PAGES = ".pages"  # pictures of pages, until the document is written
_PAGE_QUALITY = 70

Writer = Callable[[Export], list[Path]]


class DocumentWriter:
    """Writes one document: pictures while its pages come, text at the end.

    *Raises*: ConfigError for an unknown format, InputError where the folder cannot be written.
    """

    def __init__(self, folder: Path, formats: Sequence[str] = DEFAULT_FORMATS) -> None:
        unknown = [name for name in formats if name not in FORMATS]
        if unknown or not formats:
            raise ConfigError(f"format {', '.join(unknown) or '(none)'}: choose from {', '.join(FORMATS)}")
        self.folder = folder
        self.formats = tuple(dict.fromkeys(formats))
        self._pictures: dict[str, tuple[int, int]] = {}
        self._page_images: dict[int, Path] = {}

    @property
    def wants_pages(self) -> bool:
        """Tell whether a chosen format shows the pages, so that `save_page` is worth calling."""
        return not _WITH_PAGES.isdisjoint(self.formats)

    def save_image(self, name: str, image: Image.Image) -> None:
        """Write one picture into `images/` at once, so that no page has to keep it."""
        path = self.folder / "images" / name
        make_folder(path.parent)
        with whole_file(path) as stream:
            image.save(stream, "PNG")
        self._pictures[name] = image.size

    def save_page(self, page_index: int, image: Image.Image) -> None:
        """Put one page's picture by, small enough to show, until `finish`; nothing where no format shows pages.

        `page_index` is `Page.index`, from 0.
        """
        if not self.wants_pages:
            return
        path = self.folder / _PAGES / f"page{page_index + 1:04d}.jpg"
        make_folder(path.parent)
        with whole_file(path) as stream:
            bounded(image).save(stream, "JPEG", quality=_PAGE_QUALITY)
        self._page_images[page_index] = path

    def finish(self, document: Document, assembly: AssemblyConfig | None = None) -> list[Path]:
        """Write the document in each format and return the files' paths; an earlier run's leftover pictures go.

        `assembly` is what the document's passages were put together with.
        *Raises*: InputError that names each format which could not be written; the others are.
        """
        make_folder(self.folder)
        export = Export(document, self.folder, self._pictures, self._page_images, assembly or AssemblyConfig())
        written: dict[str, list[Path]] = {}
        failures: list[str] = []
        try:
            if "json" not in self.formats:
                with whole_file(self.folder / RECORD) as stream:
                    stream.write(os.fsencode(source_identity(document.source)))
            # the JSON first: it tells whose folder this is
            for name in sorted(self.formats, key=lambda name: name != "json"):
                try:
                    written[name] = _WRITERS[name](export)
                except InputError as error:
                    failures.append(f"format {name}: {error}")
        finally:
            self.discard()
        self._drop_old_pictures()
        if failures:
            raise InputError("; ".join(failures))
        return [path for name in self.formats for path in written[name]]

    def discard(self) -> None:
        """Remove the pages' pictures that were put by: at the end, and where a document is given up."""
        self._page_images = {}
        with suppress(OSError):
            shutil.rmtree(self.folder / _PAGES)

    def _drop_old_pictures(self) -> None:
        for old in (self.folder / "images").glob("page*_region*.png"):
            if _IMAGE_NAME.fullmatch(old.name) and old.name not in self._pictures:
                remove_file(old)


def _file(name: str, write: Callable[[Path, Export], None]) -> Writer:
    """Return the writer of a format that is one file in the document's folder."""

    def written(export: Export) -> list[Path]:
        path = export.folder / f"{export.stem}{SUFFIXES[name]}"
        write(path, export)
        return [path]

    return written


_WRITERS: dict[str, Writer] = {
    "md": _file("md", lambda path, export: write_text(path, export.document.markdown)),
    "json": _file("json", lambda path, export: write_json(path, document_json(export.document))),
    "html": _file("html", lambda path, export: write_pieces(path, html_pieces(export))),
    "glm-ocr": _file("glm-ocr", lambda path, export: write_json(path, glm_ocr_json(export))),
    "content-list": _file("content-list", lambda path, export: write_json(path, content_list(export))),
    "docling": _file("docling", lambda path, export: write_json(path, docling_json(export))),
    "omnidocbench": write_predictions,
    "layout": write_layout,
}
