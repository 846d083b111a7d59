"""PDFs read through a process of their own, so that a file which takes PDFium down costs its pages and not the run."""

from __future__ import annotations

import atexit
import io
import itertools
import os
import pickle
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar, cast

from PIL import Image

from gravityocr.document import PlacedText
from gravityocr.errors import InputError
from gravityocr.pipeline.sources.pdf_child import (
    LENGTH,
    CloseRequest,
    Failed,
    Opened,
    OpenRequest,
    PageHead,
    ReadRequest,
    row_strips,
)

T = TypeVar("T")

_MAX_LOST = 3  # pages of one file, each of which may take the whole time that a page may
_END_S = 5.0
_START_S = 120.0  # a cold disk, a busy machine
_BOOT = (
    "import sys, pickle; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from gravityocr.pipeline.sources.pdf_child import main; main(sys.stdin.buffer)"
)


class PageLimitError(InputError):
    """A page that takes too long or too much memory, or at which PDFium breaks down: what it does, and the remedy."""


class LostFileError(InputError):
    """A file that is given up: too many of its pages went over a limit."""


class PdfProcess:
    """An open PDF, read as `PdfFile` reads it, but in a child process with limits.

    All files of this process share one child, which is replaced when it dies.

    *Units*: `timeout_s` for opening the file and for each page; `memory_mb` of address space beyond what the child has
    before its first file, enforced on Linux.
    *Raises*: InputError for a broken PDF, one without pages, a missing or wrong password, and one whose opening goes
    over a limit.
    """

    failed = "rendered"

    def __init__(
        self,
        path: str | Path,
        name: str,
        password: str | None,
        dpi: float,
        max_page_px: int,
        text_layer: bool,
        timeout_s: float = 120.0,
        memory_mb: int = 2048,
    ) -> None:
        self._name, self._timeout_s, self._memory_mb = name, timeout_s, memory_mb
        self._n_lost = 0
        self._child: _Child | None = None
        # the child's folder is where this process once was
        where = os.fsencode(os.path.abspath(path))
        self._request = OpenRequest(next(_keys), where, name, password, dpi, max_page_px, text_layer, memory_mb)
        with _shared.lock:
            try:
                opened = self._retried(lambda: self._opened_in(_shared.get()))
            except _ChildError as failure:
                raise InputError(f"{name}: {self._told(failure, 'open')}") from failure
        self.n_pages, self._note = opened.n_pages, opened.note

    def close(self) -> None:
        """Close the file, later where the child is at work."""
        if self._child is not None:
            self._child.close_file(self._request.key)
            self._child = None

    def note(self) -> str | None:
        """Say what of the file is not read: forms in XFA, which only their maker's programs show."""
        return self._note

    def read(self, index: int) -> tuple[Image.Image, tuple[PlacedText, ...], str | None]:
        """Return one page's image, the words of its text layer where they are asked for, and what it does not show.

        *Raises*: InputError; PageLimitError for a page over a limit, LostFileError behind the third of those.
        """
        if self._n_lost >= _MAX_LOST:
            raise LostFileError(f"{self._name}: {_MAX_LOST} pages went over a limit, and the rest is left out; {_ANEW}")
        with _shared.lock:
            try:
                return self._retried(lambda: self._read_once(index))
            except _ChildError as failure:
                self._n_lost += 1
                raise PageLimitError(self._told(failure, "render")) from failure

    def _retried(self, step: Callable[[], T]) -> T:
        """Do a step, twice where a child died that had read other pages: their memory may be what was missing."""
        was_fresh = _shared.get().n_pages == 0
        try:
            return step()
        except _ChildError as failure:
            if was_fresh or failure.is_timeout:
                raise
        return step()

    def _read_once(self, index: int) -> tuple[Image.Image, tuple[PlacedText, ...], str | None]:
        child = _shared.get()
        if child is not self._child:
            self._opened_in(child)
        return child.read(ReadRequest(self._request.key, index), self._timeout_s)

    def _opened_in(self, child: _Child) -> Opened:
        opened = child.open(self._request, self._timeout_s)
        self._child = child
        return opened

    def _told(self, failure: _ChildError, verb: str) -> str:
        if failure.is_timeout:
            return f"took more than {self._timeout_s:g} s to {verb}; {_ANEW}, or raise source.page_timeout_s"
        limit = f"more than {self._memory_mb} MB to {verb}"
        what = f"needs {limit}" if failure.end is None else f"broke PDFium down ({failure.end}): it may need {limit}"
        return f"{what}; {_ANEW}, or raise source.pdf_memory_mb"


_ANEW = "print it to a new PDF, or hand a picture of it"
_keys = itertools.count()


class _ChildError(Exception):
    """A child that is gone: it took too long, said that memory ran out, or died; `end` says how."""

    def __init__(self, end: str | None = None, is_timeout: bool = False) -> None:
        super().__init__(end or "")
        self.end, self.is_timeout = end, is_timeout


class _Child:
    """The process and our ends of its pipes; used by one thread at a time, under the lock of `_Shared`."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", "-c", _BOOT]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._requests = cast(io.FileIO, self._process.stdin)
        self._replies = cast(io.FileIO, self._process.stdout)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._replies, selectors.EVENT_READ)
        self._deadline = 0.0
        self._to_close: deque[int] = deque()
        self.is_alive = True
        self.n_pages = 0

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def start(self) -> None:
        """Wait until the child is there."""
        self._send_bytes(pickle.dumps([entry for entry in sys.path if isinstance(entry, str)]))
        self._deadline = time.monotonic() + _START_S
        self._receive()

    def open(self, request: OpenRequest, timeout_s: float) -> Opened:
        """Have a file opened; what it raises is that of `read`."""
        answer, _ = self._ask(request, timeout_s)
        assert isinstance(answer, Opened)
        return answer

    def read(self, request: ReadRequest, timeout_s: float) -> tuple[Image.Image, tuple[PlacedText, ...], str | None]:
        """Return a page.

        *Raises*: InputError where that is what the child answers; _ChildError where it is gone.
        """
        head, image = self._ask(request, timeout_s)
        assert isinstance(head, PageHead) and image is not None
        self.n_pages += 1
        return image, head.words, head.note

    def _ask(self, request: OpenRequest | ReadRequest, timeout_s: float) -> tuple[Any, Image.Image | None]:
        self._deadline = time.monotonic() + timeout_s
        with ExitStack() as on_failure:
            on_failure.callback(self.end)  # half an answer may be left in the pipe: an interrupt, too, costs the child
            self.flush()
            self._send(request)
            answer = self._receive()
            if isinstance(answer, Failed) and answer.kind == "memory":
                raise _ChildError
            image = self._receive_image(answer.size_px) if isinstance(answer, PageHead) else None
            on_failure.pop_all()
        if isinstance(answer, Failed):
            raise InputError(answer.text)
        return answer, image

    def _receive_image(self, size_px: tuple[int, int]) -> Image.Image:
        """Return a page's image, whose pixels come in strips, so that no second copy of them is held."""
        image = Image.new("RGB", size_px)
        for top, bottom in row_strips(size_px):
            size = (image.width, bottom - top)
            strip = self._receive_bytes(3 * size[0] * size[1])
            image.paste(Image.frombuffer("RGB", size, strip, "raw", "RGB", 0, 1), (0, top))
        return image

    def close_file(self, key: int) -> None:
        """Have a file closed, behind the request at work if there is one; it never waits, as a finalizer may call."""
        self._to_close.append(key)
        if self is _shared.child and self.is_alive and _shared.lock.acquire(blocking=False):
            try:
                self.flush()
            except _ChildError:
                self.end()
            finally:
                _shared.lock.release()

    def flush(self) -> None:
        """Send what is to be closed."""
        while self._to_close:
            self._send(CloseRequest(self._to_close.popleft()))

    def is_gone(self) -> bool:
        """Tell whether the process has ended, by us or by itself while nothing was asked of it."""
        if self.is_alive and self._process.poll() is not None:
            self.end()
        return not self.is_alive

    def kill(self) -> None:
        """End the process at once; who waits for it hears of it."""
        self.is_alive = False
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """End the process at once and let go of it."""
        self.kill()
        self._selector.close()
        for stream in (self._requests, self._replies):
            stream.close()

    def _send(self, message: Any) -> None:
        body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._send_bytes(LENGTH.pack(len(body)) + body)

    def _send_bytes(self, data: bytes) -> None:
        try:
            while data:
                data = data[self._requests.write(data) or 0 :]
        except BrokenPipeError as error:
            raise self._obituary() from error

    def _receive(self) -> Any:
        (n_bytes,) = LENGTH.unpack(self._receive_bytes(LENGTH.size))
        return pickle.loads(self._receive_bytes(n_bytes))

    def _receive_bytes(self, n_bytes: int) -> bytearray:
        data = bytearray(n_bytes)
        view, at = memoryview(data), 0
        while at < n_bytes:
            left_s = self._deadline - time.monotonic()
            if left_s <= 0 or not self._selector.select(left_s):
                raise _ChildError(is_timeout=True)
            n_read = self._replies.readinto(view[at:])
            if not n_read:
                raise self._obituary()
            at += n_read
        return data

    def _obituary(self) -> _ChildError:
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return _ChildError("it stopped answering")
        if code < 0:
            return _ChildError(signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}")
        return _ChildError(f"exit code {code}")


class _Shared:
    """The one child of this process, started when it is first needed and again when it is gone."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.child: _Child | None = None
        self._is_over = False

    def get(self) -> _Child:
        """Return a living child; the caller holds the lock."""
        if self._is_over:
            raise InputError("the program is ending")
        if self.child is None or self.child.is_gone():
            self.child = self._started()
        return self.child

    def end(self) -> None:
        """End the child for good, without waiting for who uses it."""
        self._is_over = True
        if self.child is not None and self.child.is_alive:
            self.child.kill()

    def _started(self) -> _Child:
        try:
            child = _Child()
        except (OSError, ValueError) as error:
            raise InputError(f"PDFs are read by a second process, which cannot be started ({error})") from error
        with ExitStack() as on_failure:
            on_failure.callback(child.end)
            try:
                child.start()
            except _ChildError as failure:
                end = failure.end or f"it was not there after {_START_S:g} s"
                raise InputError(f"PDFs are read by a second process, which did not start ({end})") from failure
            on_failure.pop_all()
        return child


_shared = _Shared()


def child_pid() -> int | None:
    """Return the id of the process that renders PDFs, None where there is none now."""
    child = _shared.child
    return None if child is None or not child.is_alive else child.pid


def _forget() -> None:
    """Leave the child to the process that started it: a copy of that by `fork` has one of its own."""
    global _shared
    _shared = _Shared()


atexit.register(lambda: _shared.end())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
