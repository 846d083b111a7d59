"""Files that a run reads: regular ones alone, as a FIFO or a device may never end."""

from __future__ import annotations

import codecs
import errno
import os
import stat
import sys
from pathlib import Path

from gravityocr.errors import InputError

STDIN = Path("-")
_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip


class UnreadableFileError(InputError):
    """A file that is not there, is no regular file, or may not be read."""


def plain_bytes(path: Path) -> bytes:
    """Read a regular file, links followed.

    *Raises*: OSError, also for a folder, FIFO, socket or device.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(mode), 'something else')}, no regular file")
    return path.read_bytes()


def read_bytes(path: Path) -> bytes:
    """Read a regular file, or stdin where it is `-`.

    *Raises*: UnreadableFileError where that is impossible.
    """
    try:
        return sys.stdin.buffer.read() if path == STDIN else plain_bytes(path)
    except FileNotFoundError as error:
        raise UnreadableFileError(f"{path}: does not exist; name an existing file") from error
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = getattr(error, "strerror", None) or error
        raise UnreadableFileError(f"{path}: cannot be read ({reason}); name a readable file") from error


def read_text(path: Path) -> tuple[str, str | None]:
    """Read a text file; return its text and what is wrong with its encoding, None where nothing is.

    *Raises*: UnreadableFileError where the file cannot be read.
    """
    data = read_bytes(path)
    fault = None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not data.startswith(codecs.BOM_UTF32_LE):
        text = data.decode("utf-16", "replace")
        fault = "is UTF-16, read as such; save it as UTF-8"
    else:
        text = data.decode("utf-8-sig", "replace")
        try:
            data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            fault = f"is no UTF-8 (first at byte {error.start}), what does not fit is read as U+FFFD; save it as UTF-8"
    return text.replace("\r\n", "\n").replace("\r", "\n"), fault
