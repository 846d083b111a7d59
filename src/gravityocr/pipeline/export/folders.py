"""Each input its own output folder, and nobody's folder taken."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import unicodedata
from contextlib import suppress
from pathlib import Path

from gravityocr.errors import ConfigError
from gravityocr.pipeline.export.files import read_regular
from gravityocr.pipeline.sources.names import origin_of, source_identity, source_stem

RECORD = ".source"
"""The file that names a folder's input where no JSON does."""

SUFFIXES = {
    "md": ".md",
    "json": ".json",
    "html": ".html",
    "glm-ocr": "_glm-ocr.json",
    "content-list": "_content_list.json",
    "docling": "_docling.json",
}
"""What follows the stem in the name of a format's file, for the formats that are one file in the document's folder."""

SHARED_FOLDER = "omnidocbench"
"""The folder beside the documents' that all of them write into: no document may have it."""

_FOREIGN = ""  # the owner of what we have not written
_STEM_BYTES = 200  # file systems end names at 255, and -2 and _content_list.json come behind the stem


class OutputFolders:
    """Hands each input its own folder under one output folder.

    The second input of one stem gets `-2` behind it, whether the first came in this run or an earlier one;
    an input that is parsed again, from wherever, gets its own folder again. What we did not write is left alone.

    *Raises*: ConfigError where the output folder is no folder or cannot be written.
    """

    def __init__(self, out_dir: str | Path) -> None:
        if not str(out_dir):
            raise ConfigError("the output folder has no name; hand a folder ('.' for this one)")
        self.out_dir = Path(out_dir)
        _check_writable(self.out_dir)
        self._claimed: dict[str, str] = {_key(SHARED_FOLDER): _FOREIGN}
        self._on_disk: dict[str, list[Path]] | None = None

    def claim(self, source: str | Path) -> Path:
        """Return the folder of one input; it is not made yet."""
        stem = _stem(source)
        identity = source_identity(source)
        number = 1
        while True:
            name = stem if number == 1 else f"{stem}-{number}"
            folder = self._folder_for(name, identity)
            if folder is not None:
                self._claimed[_key(name)] = identity
                return folder
            number += 1

    def owned(self, source: str | Path) -> Path | None:
        """Return the folder that holds outputs of an input from an earlier run; nothing is claimed."""
        stem, identity = _stem(source), source_identity(source)
        number = 1
        while True:
            places = self._found(_key(stem if number == 1 else f"{stem}-{number}"))
            if not places:
                return None
            for place in places:
                if owner_of(place) == identity:
                    return place
            number += 1

    def _folder_for(self, name: str, identity: str) -> Path | None:
        """Names that a file system may take for one another count as the same."""
        key = _key(name)
        if key in self._claimed:
            if self._claimed[key] != identity:
                return None
            return next((path for path in self._found(key) if _owner(path) == identity), self.out_dir / name)
        owners = {path: _owner(path) for path in self._found(key)}
        for path, owner in owners.items():
            if owner == identity:
                return path
        return None if any(owner is not None for owner in owners.values()) else self.out_dir / name

    def _found(self, key: str) -> list[Path]:
        if self._on_disk is None:
            self._on_disk = {}
            with suppress(OSError):  # it is made with its first document
                for path in sorted(self.out_dir.iterdir()):
                    self._on_disk.setdefault(_key(path.name), []).append(path)
        return self._on_disk.get(key, [])


def _check_writable(folder: Path) -> None:
    """Look at the folder or the nearest one above it that exists, and make nothing."""
    place = folder
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    try:
        is_folder = stat.S_ISDIR(os.stat(place).st_mode)
        with suppress(FileNotFoundError):
            os.stat(folder)  # tells of a name that is too long or of a file on the way
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written to ({error.strerror}); choose another folder") from error
    if not is_folder:
        raise ConfigError(f"{folder}: {place} is no folder; choose another output folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"{folder}: {place} cannot be written to; choose another output folder")


def _stem(source: str | Path) -> str:
    """Return a folder name for an input: never one that leads elsewhere, nor one too long for a file system."""
    stem = source_stem(source)
    if not stem.strip(". "):
        return "document"
    if len(_encoded(stem)) <= _STEM_BYTES:
        return stem
    short = stem
    while len(_encoded(short)) > _STEM_BYTES - 9:
        short = short[:-1]
    return f"{short}-{hashlib.sha256(_encoded(stem)).hexdigest()[:8]}"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def owner_of(folder: Path) -> str | None:
    """Return the input whose outputs a folder holds, by our record in it; None where there is none."""
    try:
        owner = json.loads(read_regular(folder / f"{folder.name}.json"))["source_path"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        owner = None
    if isinstance(owner, str) and owner:
        return owner
    try:
        return os.fsdecode(read_regular(folder / RECORD)) or None
    except (OSError, ValueError):
        return None


def is_document_folder(folder: Path) -> bool:
    """Tell whether a folder is one that a document was written into."""
    owner = owner_of(folder)
    return owner is not None and (origin_of(owner) != "file" or os.path.isabs(owner))


def holds_outputs(folder: Path) -> bool:
    """Tell whether a document's texts are in a folder, whoever wrote them."""
    return any(os.path.lexists(folder / f"{folder.name}{suffix}") for suffix in SUFFIXES.values())


def _owner(place: Path) -> str | None:
    """Return the input that an existing place belongs to, `_FOREIGN` where no record tells, None where it is free."""
    if not place.is_dir():
        return _FOREIGN if os.path.lexists(place) else None
    owner = owner_of(place)
    if owner is not None:
        return owner
    # pictures alone are what a run left that was stopped
    return _FOREIGN if holds_outputs(place) else None
