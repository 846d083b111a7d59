"""The standard streams as a program that works through many files needs them: there, and never in the way."""

from __future__ import annotations

import io
import os
import re
import sys

# C0 and C1 controls, which act on terminals; marks that turn the direction of text, and line separators.
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Return a text with its control characters as escapes, so that a file's name cannot act on the terminal.

    >>> visible("a\x1b[2J.pdf")
    'a\\x1b[2J.pdf'
    """
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def visible_lines(text: str) -> str:
    """Return a text with its control characters as escapes, but for the ends of its lines."""
    return "\n".join(map(visible, text.split("\n")))


class _Lossy(io.FileIO):
    """A file that loses what cannot be written to it."""

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError:
            return memoryview(data).nbytes  # type: ignore[arg-type]


def settle_streams() -> None:
    """Make the standard streams safe, before anything is printed or opened.

    A closed descriptor would be given to the next file that is opened: the null device takes its place, on stdout one
    that refuses what is written, so that lost data is noticed. What stderr cannot take, closed or full, is lost.
    """
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        _fill(descriptor, mode)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8", write_through=True)
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
        lossy = io.BufferedWriter(_Lossy(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(lossy, encoding=encoding, errors="backslashreplace", line_buffering=True)


def _fill(descriptor: int, mode: int) -> None:
    try:
        os.fstat(descriptor)
        return
    except OSError:
        opened = os.open(os.devnull, mode)
    if opened == descriptor:
        os.set_inheritable(descriptor, True)
    else:
        os.dup2(opened, descriptor)
        os.close(opened)
