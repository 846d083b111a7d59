"""Handed paths to inputs: folders and globs expanded, each file known by its content, not its name."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gravityocr.errors import InputError
from gravityocr.pipeline.export.folders import is_document_folder
from gravityocr.pipeline.manifest import MANIFEST_NAME
from gravityocr.pipeline.sources.kinds import ALL_SUFFIXES, WHAT_IS_READ, obstacle_of, sniff
from gravityocr.pipeline.sources.kinds import Kind as Kind
from gravityocr.pipeline.sources.names import (
    STDIN,
    STDIN_NAME,
    Origin,
    is_nearly_url,
    origin_of,
    source_identity,
    source_name,
    split_url,
)  # fmt: skip
from gravityocr.pipeline.sources.names import source_stem as source_stem

_OTHER_SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]+):/+", re.IGNORECASE)


@dataclass(frozen=True)
class InputFile:
    """One thing to parse, or the reason why a handed path gave nothing.

    `path` is what was handed: a file's path, a URL (with whatever secrets it holds) or `-`. What is printed or
    written is `name`. A URL and stdin become files with `remote.opened`, when their turn comes.
    """

    path: str
    error: str | None = None
    origin: Origin = "file"

    @property
    def name(self) -> str:
        """Return what to call the input wherever it is printed or written."""
        return source_name(self.path)


@dataclass
class FoundInputs:
    """The inputs that handed paths stand for, and what is to be told of the search: one line each."""

    items: list[InputFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def stdin_obstacle() -> str | None:
    """Say why stdin gives no document, with the remedy; None where it may."""
    if sys.stdin is None or sys.stdin.closed:
        return f"{STDIN_NAME}: is closed; pipe a document into it"
    if sys.stdin.isatty():
        return f"{STDIN_NAME}: is a terminal; pipe a document into it, as in 'cat scan.pdf | gravityocr parse - -o out'"
    return None


def find_inputs(paths: Sequence[str | Path], exclude: str | Path | None = None) -> FoundInputs:
    """Expand files, folders, globs, URLs and `-`, in the order handed, each input once; nothing is fetched yet.

    A path that gives nothing becomes an `InputFile` with an error, so that the others still run. Where folders are
    searched and globs expanded, what runs wrote is left out: the folder `exclude`, folders with the record of a run,
    and folders of documents. Files and folders that are handed by name are read wherever they are.
    """
    found = FoundInputs()
    seen: set[str] = set()
    for path in paths:
        try:
            files = _expanded(path, found.notes, exclude)
        except InputError as error:
            found.items.append(InputFile(str(path), str(error), origin_of(path)))
            continue
        for file in files:
            identity = source_identity(file.path)
            if identity not in seen:
                seen.add(identity)
                found.items.append(file)
            elif file.origin == "stdin":
                what = f"{STDIN_NAME}: holds one document and was handed twice; hand '-' once"
                found.items.append(InputFile(file.path, what, "stdin"))
    return found


def collect_inputs(paths: Sequence[str | Path], exclude: str | Path | None = None) -> list[InputFile]:
    """Return the inputs of `find_inputs` alone."""
    return find_inputs(paths, exclude).items


def expand_input(path: str | Path) -> list[InputFile]:
    """Return the inputs that one handed path stands for: itself, a folder's documents (sorted), or a glob's.

    What a folder holds under a document's name but cannot be read, and what of it cannot be listed, is in the
    list with its error. Links to folders inside it are not followed.

    *Raises*: InputError for no path, a missing one, a folder without documents, a glob without a match, a URL
    that is none, a terminal as stdin.
    """
    return _expanded(path, [], None)


def _expanded(path: str | Path, notes: list[str], exclude: str | Path | None) -> list[InputFile]:
    text = str(path)
    if not text:
        raise InputError("'': is no path; hand a file, a folder ('.' for this one) or a glob")
    origin = origin_of(text)
    if origin == "url":
        if split_url(text) is None:
            raise InputError(f"{source_name(text)}: is no URL of a document; write https://HOST/PATH")
        return [InputFile(text, origin="url")]
    if text == STDIN:
        wrong = stdin_obstacle()
        if wrong:
            raise InputError(wrong)
        return [InputFile(text, origin="stdin")]
    obstacle = obstacle_of(path)
    if obstacle is None:
        return [InputFile(text)]
    if os.path.isdir(text):
        return _Search(exclude).folder(Path(path), notes)
    scheme = _OTHER_SCHEME.match(text)
    if scheme and is_nearly_url(text) and not scheme[1].lower().startswith("http"):
        raise InputError(f"{scheme[1]}://...: only http:// and https:// are fetched; hand such a URL, or a file")
    if not os.path.lexists(text) and glob.has_magic(text):
        return _Search(exclude).pattern(text, notes)
    if is_nearly_url(text):
        raise InputError(f"{source_name(text)}: is no URL of a document; write https://HOST/PATH, without a blank")
    raise InputError(f"{text}: {obstacle}")


def _input_file(path: Path) -> InputFile:
    obstacle = obstacle_of(path)
    return InputFile(str(path), f"{path}: {obstacle}" if obstacle else None)


class _Search:
    """A search for documents that passes over what runs wrote."""

    def __init__(self, exclude: str | Path | None) -> None:
        self._exclude = os.path.realpath(exclude) if exclude is not None and str(exclude) else None
        self._known: dict[Path, bool] = {}
        self._left_out: list[Path] = []

    def folder(self, root: Path, notes: list[str]) -> list[InputFile]:
        """A file counts by its content or by its name, so that a broken .pdf is reported, not passed over."""
        unlisted: list[OSError] = []
        found: list[Path] = []
        links: list[str] = []
        n_others = 0
        for parent, folders, names in os.walk(root, onerror=unlisted.append):
            visible = sorted(name for name in folders if not name.startswith("."))
            links += [str(Path(parent, name)) for name in visible if os.path.islink(Path(parent, name))]
            folders[:] = [name for name in visible if not self._is_output(Path(parent, name))]
            paths = [Path(parent, name) for name in names if not name.startswith(".")]
            documents = [path for path in paths if _counts_as_document(path)]
            found += documents
            n_others += len(paths) - len(documents)
        files = {path: _input_file(path) for path in found}
        for error in unlisted:
            what = f"{error.filename}: cannot be listed ({error.strerror}); check its permissions"
            files[Path(error.filename)] = InputFile(str(error.filename), what)
        mine = list(self._told(root))
        if links:
            mine.append(f"{root}: {_counted(len(links), 'link')} to folders not followed: {_listed(links)}")
        if n_others:
            mine.append(f"{root}: {_counted(n_others, 'file')} passed over, being no PDF and no image")
        if not files:
            raise InputError("; ".join([f"{root}: holds no document", *mine, WHAT_IS_READ]))
        notes += mine
        return [files[path] for path in sorted(files)]

    def pattern(self, text: str, notes: list[str]) -> list[InputFile]:
        """Return the files that a glob matches, but what runs wrote below the folders that it names."""
        named = 0
        parts = Path(text).parts
        while named < len(parts) and not glob.has_magic(parts[named]):
            named += 1
        matches = sorted(Path(match) for match in glob.glob(text, recursive=True))
        paths = [path for path in matches if not os.path.isdir(path)]
        files = [_input_file(path) for path in paths if not self._below_output(path, named)]
        mine = list(self._told(text))
        if len(paths) < len(matches) and "**" not in text:
            n_folders = len(matches) - len(paths)
            mine.append(f"{text}: {_counted(n_folders, 'folder')} matched and not searched; hand folders by name")
        if not files:
            raise InputError("; ".join([f"{text}: no file matches this pattern", *mine, "check it"]))
        notes += mine
        return files

    def _below_output(self, path: Path, n_named: int) -> bool:
        folders = [parent for parent in reversed(path.parents) if len(parent.parts) > n_named]
        return any(self._is_output(folder) for folder in folders)

    def _is_output(self, folder: Path) -> bool:
        if folder not in self._known:
            ours = os.path.realpath(folder) == self._exclude or os.path.lexists(folder / MANIFEST_NAME)
            self._known[folder] = ours or is_document_folder(folder)
            if self._known[folder]:
                self._left_out.append(folder)
        return self._known[folder]

    def _told(self, where: str | Path) -> Iterator[str]:
        if self._left_out:
            names = [str(folder) for folder in self._left_out]
            yield f"{where}: {_counted(len(names), 'folder')} of outputs left out: {_listed(names)}"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _counts_as_document(path: Path) -> bool:
    if path.suffix.lower() in ALL_SUFFIXES:
        return True
    try:
        sniff(path)
    except InputError:
        return False
    return True
