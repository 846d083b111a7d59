"""The process that runs PDFium: it opens PDFs and renders their pages for its parent, within a limit of memory."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, NamedTuple

from PIL import Image

from gravityocr.document import PlacedText
from gravityocr.errors import InputError
from gravityocr.pipeline.pixels import failure_text
from gravityocr.pipeline.sources.pdf import PDF_ERRORS, PdfFile

LENGTH = struct.Struct(">Q")
"""What goes before each message: the bytes of its pickle."""

_STRIP_BYTES = 1 << 20
_Page = tuple[Image.Image, tuple[PlacedText, ...], str | None]


@dataclass(frozen=True)
class OpenRequest:
    """Open a file under a number; answered with `Opened`. `path` is in bytes, as the system spells it."""

    key: int
    path: bytes
    name: str
    password: str | None
    dpi: float
    max_page_px: int
    text_layer: bool
    memory_mb: int


class ReadRequest(NamedTuple):
    """Render a page of an open file; answered with `PageHead` and the page's pixels."""

    key: int
    page_index: int


class CloseRequest(NamedTuple):
    """Close a file; not answered."""

    key: int


class Opened(NamedTuple):
    """How many pages an opened file has, and what of it is not read."""

    n_pages: int
    note: str | None


class PageHead(NamedTuple):
    """What goes before a page's RGB bytes, which come row by row, without any length before them."""

    size_px: tuple[int, int]
    words: tuple[PlacedText, ...]
    note: str | None


class Failed(NamedTuple):
    """What went wrong instead: an InputError's text, or memory that ran out."""

    kind: Literal["input", "memory"]
    text: str


def row_strips(size_px: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield (first row, row behind the last) of the strips that a page's pixels travel in, of about a megabyte."""
    width, height = size_px
    n_rows = max(1, _STRIP_BYTES // (3 * width))
    for top in range(0, height, n_rows):
        yield top, min(height, top + n_rows)


def main(requests: BinaryIO) -> None:
    """Answer requests on stdout until their stream ends, which ends the process at once, at work or not."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)  # the parent hears them, and ends this process
    replies = os.fdopen(os.dup(1), "wb")
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, waiting), daemon=True).start()
    baseline = _address_space()
    _send(replies, "ready")
    silence = os.open(os.devnull, os.O_WRONLY)  # from here on, a word on stdout would break the protocol, and what
    os.dup2(silence, 1)  # libraries say as they die would stand in the middle of the parent's output
    os.dup2(silence, 2)
    _serve(replies, waiting, baseline)


def _receive(requests: BinaryIO, waiting: queue.SimpleQueue[Any]) -> None:
    while True:
        head = requests.read(LENGTH.size)
        body = requests.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
        if not body:
            os._exit(0)  # the parent has closed the stream, or is gone
        waiting.put(pickle.loads(body))


def _serve(replies: BinaryIO, waiting: queue.SimpleQueue[Any], baseline: int) -> None:
    files: dict[int, PdfFile] = {}
    limits: dict[int, int] = {}
    while True:
        request = waiting.get()
        if isinstance(request, CloseRequest):
            _close(files.pop(request.key, None))
            continue
        page: _Page | None = None
        try:
            if isinstance(request, OpenRequest):
                limits[request.key] = request.memory_mb << 20
                _limit_memory(baseline, limits[request.key])
                files[request.key] = _open(request)
                answer: Any = Opened(files[request.key].n_pages, files[request.key].note())
            else:
                _limit_memory(baseline, limits[request.key])
                page = files[request.key].read(request.page_index)
                answer = PageHead(page[0].size, *page[1:])
        except MemoryError:
            answer = Failed("memory", "")
        except (InputError, *PDF_ERRORS) as failure:
            answer = Failed("input", failure_text(failure))
        _send(replies, answer)  # what goes wrong from here on ends the process: half an answer cannot be taken back
        if page is not None:
            _send_pixels(replies, page[0])


def _open(request: OpenRequest) -> PdfFile:
    path = os.fsdecode(request.path)
    return PdfFile(path, request.name, request.password, request.dpi, request.max_page_px, request.text_layer)


def _close(file: PdfFile | None) -> None:
    if file is not None:
        with suppress(InputError, *PDF_ERRORS):
            file.close()


def _send_pixels(replies: BinaryIO, image: Image.Image) -> None:
    for top, bottom in row_strips(image.size):
        replies.write(image.crop((0, top, image.width, bottom)).tobytes())
    replies.flush()


def _send(replies: BinaryIO, message: Any) -> None:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    replies.write(LENGTH.pack(len(body)) + body)
    replies.flush()


def _address_space() -> int:
    """Return the bytes of address space that this process has before any file: its libraries may reserve gigabytes."""
    if not sys.platform.startswith("linux"):
        return 0
    with open("/proc/self/statm", "rb") as stream:
        return int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _limit_memory(baseline: int, n_bytes: int) -> None:
    """Let allocations fail that take more address space than so much beyond the baseline, where the platform can."""
    if not baseline:
        return
    import resource  # not every platform has it

    n_bytes += baseline
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes if hard == resource.RLIM_INFINITY else min(n_bytes, hard), hard))
