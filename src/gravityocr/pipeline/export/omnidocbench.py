"""Predictions as OmniDocBench scores them: one Markdown file a page, all documents' in one flat folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from gravityocr.errors import InputError
from gravityocr.pipeline.export.document import Export
from gravityocr.pipeline.export.files import make_folder, read_regular, remove_file, whole_file, write_text
from gravityocr.pipeline.export.folders import SHARED_FOLDER

_RECORD = ".omnidocbench"  # in the document's own folder: the names of the files that it has in the flat one
_PICTURE = re.compile(r"(?<=\]\()images/(?=page\d+_region\d+\.png\))")


def write_predictions(export: Export) -> list[Path]:
    """Write each page's own Markdown into `omnidocbench/` beside the document's folder; nothing is merged across pages.

    A document of one page gives `<stem>.md`, which is what the benchmark looks for, another `<stem>_<page>.md`
    with pages from 1. Marks of figures stay, and lead to the document's pictures.

    *Raises*: InputError where a file of that name is there that the document did not write, or cannot be written.
    """
    folder = export.folder.parent / SHARED_FOLDER
    texts = {_name(export, page.index): _linked(page.markdown, export) for page in export.document.pages}
    record = export.folder / _RECORD
    before = _recorded(record)
    for name in texts:
        if name not in before and (folder / name).exists():
            raise InputError(f"{folder / name}: is there already, of another document; remove it or rename the input")
    make_folder(folder)
    _record(record, before | texts.keys())
    for name, text in texts.items():
        write_text(folder / name, text, by_way_of=export.folder)
    for name in before - texts.keys():
        remove_file(folder / name)
    _record(record, texts)
    return [folder / name for name in texts]


def drop_predictions(document_folder: Path) -> None:
    """Remove the files that an earlier run wrote of a document into the flat folder.

    *Raises*: InputError where one cannot be removed.
    """
    shared, record = document_folder.parent / SHARED_FOLDER, document_folder / _RECORD
    if not shared.is_symlink():
        for name in _recorded(record):
            remove_file(shared / name)
    remove_file(record)


def _name(export: Export, index: int) -> str:
    alone = len(export.document.pages) == 1 and index == 0
    return f"{export.stem}.md" if alone else f"{export.stem}_{index + 1}.md"


def _linked(markdown: str, export: Export) -> str:
    return _PICTURE.sub(lambda _: f"../{quote(os.fsencode(export.stem))}/images/", markdown)


def _record(record: Path, names: Iterable[str]) -> None:
    with whole_file(record) as stream:
        stream.write(b"\0".join(os.fsencode(name) for name in sorted(names)))


def _recorded(record: Path) -> set[str]:
    """Return the names of an earlier run; a name that would lead elsewhere is not ours."""
    try:
        names = read_regular(record).split(b"\0")
    except OSError:
        return set()
    return {name for name in map(os.fsdecode, names) if name and Path(name).name == name}
