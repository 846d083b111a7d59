"""Files that are whole or absent: written beside their place, then put into it."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from PIL import Image

from gravityocr.errors import InputError


def printable(text: str, encoding: str = "utf-8") -> str:
    """Return text that `encoding` can hold; names that are no Unicode and other misfits become `\\x`, `\\u` escapes.

    In JSON text such an escape of half a pair stands for the very same string.
    """
    return text.encode(encoding, "backslashreplace").decode(encoding)


def write_text(path: Path, text: str, *, by_way_of: Path | None = None) -> None:
    """Write a text file whole: into a temporary file, which then takes its name.

    The temporary file is beside it or in the folder `by_way_of`, which a later run tidies.

    *Raises*: InputError where that is impossible.
    """
    write_pieces(path, (text,), by_way_of=by_way_of)


def write_pieces(path: Path, pieces: Iterable[str], *, by_way_of: Path | None = None) -> None:
    """Write a text file whole, piece by piece as they come, so that it never has to be in memory.

    *Raises*: InputError where that is impossible.
    """
    with whole_file(path, by_way_of=by_way_of) as stream:
        for piece in pieces:
            stream.write(printable(piece).encode("utf-8"))


def write_json(path: Path, data: Any) -> None:
    """Write data as JSON of a fixed form: two blanks deep, characters as they are.

    *Raises*: InputError where that is impossible.
    """
    write_text(path, json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


@contextmanager
def whole_file(path: Path, *, by_way_of: Path | None = None) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the name of `path` when all is written, and goes whatever else happens.

    *Raises*: InputError where it cannot be written.
    """
    part: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(dir=by_way_of or path.parent, suffix=".part", delete=False) as stream:
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


def write_image(path: Path, image: Image.Image, kind: str, **options: Any) -> None:
    """Write a picture whole, in Pillow's format `kind`.

    It is encoded in memory: Pillow, which writes to a file's descriptor itself, takes no notice of a disk that is
    full in the middle of a picture.

    *Raises*: InputError where it cannot be written.
    """
    with whole_file(path) as stream:
        encoded = io.BytesIO()
        image.save(encoded, kind, **options)
        stream.write(encoded.getbuffer())


def read_regular(path: str | Path) -> bytes:
    """Read a file that is one: no link, and nothing that would be waited for.

    *Raises*: OSError, and FileNotFoundError of its kinds where nothing is there.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    with open(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))
        return stream.read()


def refuse_link(path: Path) -> None:
    """Refuse to write through a link, which leads who knows where.

    *Raises*: InputError where `path` is one.
    """
    if os.path.islink(path):
        raise InputError(f"{path}: is a link, and outputs are not written through links; remove it")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are missing.

    *Raises*: InputError where that is impossible.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{folder}: cannot be made ({reason}); choose another folder") from error


def remove_file(path: Path) -> None:
    """Remove a file that an earlier run wrote.

    *Raises*: InputError where that is impossible.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"{path}: what an earlier run wrote cannot be removed ({error.strerror}); remove it yourself"
        ) from error
