"""Documents to files: one folder an input, every file whole or absent."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from PIL import Image

from gravityocr.document import Box, Document, Page, Region
from gravityocr.errors import ConfigError, InputError

FORMATS = ("md", "json")
_IMAGE_NAME = re.compile(r"page\d+_region\d+\.png")


_RECORD = ".source"  # names a folder's input where no JSON does
_FOREIGN = ""  # the owner of what we have not written
_STEM_BYTES = 200  # file systems end names at 255, and -2 and .json come behind the stem


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
        self._claimed: dict[str, str] = {}
        self._on_disk: dict[str, list[Path]] | None = None

    def claim(self, source: str | Path) -> Path:
        """Return the folder of one input; it is not made yet."""
        stem = _stem(source)
        identity = _identity(source)
        number = 1
        while True:
            name = stem if number == 1 else f"{stem}-{number}"
            folder = self._folder_for(name, identity)
            if folder is not None:
                self._claimed[_key(name)] = identity
                return folder
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
    stem = Path(source).stem
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


def _identity(source: str | Path) -> str:
    return os.path.realpath(source)


def _owner(place: Path) -> str | None:
    """Return the input that an existing place belongs to, `_FOREIGN` where no record tells, None where it is free."""
    if not place.is_dir():
        return _FOREIGN if os.path.lexists(place) else None
    record = place / f"{place.name}.json"
    try:
        owner = json.loads(record.read_text(encoding="utf-8"))["source_path"]
    except (OSError, ValueError, KeyError, TypeError):
        owner = None
    if isinstance(owner, str):
        return owner
    try:
        return os.fsdecode((place / _RECORD).read_bytes())
    except OSError:
        pass
    # pictures alone are what a run left that was stopped
    texts = [place / f"{place.name}.{name}" for name in FORMATS]
    return _FOREIGN if any(os.path.lexists(path) for path in texts) else None


class DocumentWriter:
    """Writes one document: pictures while its pages come, text at the end.

    *Raises*: ConfigError for an unknown format, InputError where the folder cannot be written.
    """

    def __init__(self, folder: Path, formats: Sequence[str] = FORMATS) -> None:
        unknown = [name for name in formats if name not in FORMATS]
        if unknown or not formats:
            raise ConfigError(f"format {', '.join(unknown) or '(none)'}: choose from {', '.join(FORMATS)}")
        self.folder = folder
        self.formats = tuple(formats)
        self._images: set[str] = set()

    def save_image(self, name: str, image: Image.Image) -> None:
        """Write one picture into `images/` at once, so that no page has to keep it."""
        path = self.folder / "images" / name
        _make_folder(path.parent)
        with _whole(path) as stream:
            image.save(stream, "PNG")
        self._images.add(name)

    def finish(self, document: Document) -> list[Path]:
        """Write the text files and return their paths; an earlier run's leftover pictures go."""
        _make_folder(self.folder)
        texts = {
            "json": json.dumps(document_json(document), ensure_ascii=False, indent=2) + "\n",
            "md": document.markdown,
        }
        if "json" not in self.formats:
            with _whole(self.folder / _RECORD) as stream:
                stream.write(os.fsencode(_identity(document.source)))
        for name, text in texts.items():  # the JSON first: it tells whose folder this is
            if name in self.formats:
                write_text(self._path(name), text)
        self._drop_old_pictures()
        return [self._path(name) for name in self.formats]

    def _path(self, name: str) -> Path:
        return self.folder / f"{self.folder.name}.{name}"

    def _drop_old_pictures(self) -> None:
        for old in (self.folder / "images").glob("page*_region*.png"):
            if not _IMAGE_NAME.fullmatch(old.name) or old.name in self._images:
                continue
            try:
                old.unlink()
            except OSError as error:
                raise InputError(
                    f"{old}: an earlier picture cannot be removed ({error.strerror}); remove it yourself"
                ) from error


def printable(text: str, encoding: str = "utf-8") -> str:
    """Return text that `encoding` can hold; names that are no Unicode and other misfits become `\\x`, `\\u` escapes.

    In JSON text such an escape of half a pair stands for the very same string.
    """
    return text.encode(encoding, "backslashreplace").decode(encoding)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole: into a temporary file beside it, which then takes its name.

    *Raises*: InputError where that is impossible.
    """
    with _whole(path) as stream:
        stream.write(printable(text).encode("utf-8"))


@contextmanager
def _whole(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the name of `path` when all is written, and goes whatever else happens."""
    part: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as stream:
            part = Path(stream.name)
            yield stream
        part.chmod(0o644)  # temporary files are private; results are ordinary ones
        os.replace(part, path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be written ({reason}); choose another folder") from error
    finally:
        if part is not None:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{folder}: cannot be made ({reason}); choose another folder") from error


def document_json(document: Document) -> dict[str, Any]:
    """Return a document as the JSON contract has it; pages count from 1 in `page`.

    `source` is the input as handed, `source_path` where it really lies.
    """
    return {
        "source": document.source,
        "source_path": _identity(document.source),
        "status": document.status,
        "error": document.error,
        "n_pages": len(document.pages),
        "n_regions": document.n_regions,
        "region_status": document.status_counts(),
        "pages": [page_json(page) for page in document.pages],
    }


def page_json(page: Page) -> dict[str, Any]:
    """Return one page as the JSON contract has it."""
    return {
        "page": page.index + 1,
        "status": page.status,
        "error": page.error,
        "size_px": list(page.size_px),
        "seconds": {name: round(value, 4) for name, value in page.seconds.items()},
        "regions": [region_json(region, page.size_px) for region in page.regions],
    }


def region_json(region: Region, size_px: tuple[int, int]) -> dict[str, Any]:
    """Return one region as the JSON contract has it: `bbox_px` in page pixels, `bbox_2d` in 0-1000."""
    return {
        "index": region.index,
        "label": region.label,
        "native_label": region.native_label,
        "task": region.task,
        "bbox_px": _rounded(region.box),
        "bbox_2d": list(region.box.per_mille(size_px)),
        "content": region.content,
        "status": region.status,
        "error": region.error,
        "n_tokens": region.n_tokens,
        "n_forwards": region.n_forwards,
        "score": round(region.score, 4),
        "image": f"images/{region.image}" if region.image else None,
    }


def _rounded(box: Box) -> list[float]:
    return [round(value, 1) for value in (box.x0, box.y0, box.x1, box.y1)]
