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
from gravityocr.pipeline.export.files import (
    make_folder,
    printable,
    refuse_link,
    remove_file,
    whole_file,
    write_image,
    write_json,
    write_pieces,
)  # fmt: skip
from gravityocr.pipeline.export.files import write_text as write_text
from gravityocr.pipeline.export.folders import RECORD, SHARED_FOLDER, SUFFIXES, OutputFolders, owner_of
from gravityocr.pipeline.export.glm_ocr import glm_ocr_json
from gravityocr.pipeline.export.html import html_pieces
from gravityocr.pipeline.export.layout import layout_files, write_layout
from gravityocr.pipeline.export.mineru import content_list
from gravityocr.pipeline.export.omnidocbench import drop_predictions, write_predictions
from gravityocr.pipeline.export.pictures import bounded
from gravityocr.pipeline.sources.names import source_identity

__all__ = [
    "DEFAULT_FORMATS", "FORMATS", "DocumentWriter", "OutputFolders", "document_json", "page_json", "printable",
    "region_json", "write_text",
]  # fmt: skip

FORMATS = ("md", "json", "html", "glm-ocr", "content-list", "docling", "omnidocbench", "layout")
"""Every format that a document can be written in."""
DEFAULT_FORMATS = ("md", "json")
_WITH_PAGES = frozenset({"html", "layout"})
_IMAGE_NAME = re.compile(r"page\d+_region\d+\.png")
_IMAGES = "images"
_PAGES = ".pages"  # pictures of pages, until the document is written
_PAGE_QUALITY = 70

Writer = Callable[[Export], list[Path]]


class DocumentWriter:
    """Writes one document: pictures while its pages come, text at the end.

    With `source`, the folder says from the first picture on whose it is.

    *Raises*: ConfigError for an unknown format, InputError where the folder cannot be written.
    """

    def __init__(
        self, folder: Path, formats: Sequence[str] = DEFAULT_FORMATS, source: str | Path | None = None
    ) -> None:
        unknown = [name for name in formats if name not in FORMATS]
        if unknown or not formats:
            raise ConfigError(f"format {', '.join(unknown) or '(none)'}: choose from {', '.join(FORMATS)}")
        self.folder = folder
        self.formats = tuple(dict.fromkeys(formats))
        self._source = source
        self._begun = False
        self._pictures: dict[str, tuple[int, int]] = {}
        self._page_images: dict[int, Path] = {}

    @property
    def wants_pages(self) -> bool:
        """Tell whether a chosen format shows the pages, so that `save_page` is worth calling."""
        return not _WITH_PAGES.isdisjoint(self.formats)

    @property
    def pictures(self) -> list[Path]:
        """Return the files in `images/` that were written."""
        return [self.folder / _IMAGES / name for name in self._pictures]

    def check(self) -> None:
        """Look whether a link lies where folders are written to.

        *Raises*: InputError where one does.
        """
        shared = [self.folder.parent / SHARED_FOLDER] if "omnidocbench" in self.formats else []
        for place in (self.folder, self.folder / _IMAGES, self.folder / _PAGES, self.folder / "layout", *shared):
            refuse_link(place)

    def save_image(self, name: str, image: Image.Image) -> None:
        """Write one picture into `images/` at once, so that no page has to keep it."""
        path = self.folder / _IMAGES / name
        self._begin(path.parent)
        write_image(path, image, "PNG")
        self._pictures[name] = image.size

    def save_page(self, page_index: int, image: Image.Image) -> None:
        """Put one page's picture by, small enough to show, until `finish`; nothing where no format shows pages.

        `page_index` is `Page.index`, from 0.
        """
        if not self.wants_pages:
            return
        path = self.folder / _PAGES / f"page{page_index + 1:04d}.jpg"
        self._begin(path.parent)
        write_image(path, bounded(image), "JPEG", quality=_PAGE_QUALITY)
        self._page_images[page_index] = path

    def finish(self, document: Document, assembly: AssemblyConfig | None = None) -> list[Path]:
        """Write the document in each format and return the files' paths; what else an earlier run wrote of it goes.

        `assembly` is what the document's passages were put together with.
        *Raises*: InputError that names each format which could not be written; the others are.
        """
        self.check()
        make_folder(self.folder)
        written_before = owner_of(self.folder) == source_identity(document.source)
        export = Export(document, self.folder, self._pictures, self._page_images, assembly or AssemblyConfig())
        written: dict[str, list[Path]] = {}
        failures: list[str] = []
        try:
            if "json" not in self.formats:
                self._claim(document.source)
            # the JSON first: it tells whose folder this is
            for name in sorted(self.formats, key=lambda name: name != "json"):
                try:
                    written[name] = _WRITERS[name](export)
                except InputError as error:
                    older = written_before and (export.folder / f"{export.stem}{SUFFIXES.get(name)}").is_file()
                    failures.append(f"format {name}: {error}{'; the one there is of an earlier run' if older else ''}")
            if "json" in written:
                remove_file(self.folder / RECORD)
        finally:
            self.discard()
        self._drop_old_pictures()
        if written_before:
            self._drop_old_formats(export)
        if failures:
            raise InputError("; ".join(failures))
        return [path for name in self.formats for path in written[name]]

    def discard(self) -> None:
        """Remove the pages' pictures that were put by: at the end, and where a document is given up."""
        self._page_images = {}
        if not self.folder.is_symlink():
            with suppress(OSError):
                shutil.rmtree(self.folder / _PAGES)

    def _begin(self, place: Path) -> None:
        """Make a folder for pictures; the first one looks at the places and says whose the document's folder is."""
        if not self._begun:
            self.check()
            make_folder(self.folder)
            if self._source is not None and owner_of(self.folder) is None:
                self._claim(self._source)
            self._begun = True
        make_folder(place)

    def _claim(self, source: str | Path) -> None:
        with whole_file(self.folder / RECORD) as stream:
            stream.write(os.fsencode(source_identity(source)))

    def _drop_old_formats(self, export: Export) -> None:
        """Remove what earlier runs wrote in formats that are not asked for now: it is of an older reading."""
        for name, suffix in SUFFIXES.items():
            path = export.folder / f"{export.stem}{suffix}"
            if name not in self.formats and not path.is_dir():
                remove_file(path)
        if "layout" not in self.formats:
            for path in layout_files(export.folder):
                remove_file(path)
        if "omnidocbench" not in self.formats:
            drop_predictions(export.folder)
        for folder in ("layout", _IMAGES):
            with suppress(OSError):  # something is in it
                (export.folder / folder).rmdir()

    def _drop_old_pictures(self) -> None:
        for old in (self.folder / _IMAGES).glob("page*_region*.png"):
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
