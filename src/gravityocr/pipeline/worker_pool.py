"""Recognition in several processes: each builds a recognizer of its own, and one that dies costs the page it read."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from gravityocr.document import Crop, Recognition
from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.pipeline.memory import give_back
from gravityocr.pipeline.recognizer import Recognizer

RecognizerFactory = Callable[[], Recognizer]
MAX_WORKERS = 256
_END_S = 2.0  # what a process gets to end by itself before it is killed
_MOST_STARTS = 3  # in a row that end before the process can read


class WorkerPool:
    """A `Recognizer` whose calls are read by processes; several threads may call it, each page goes to one process.

    `factory` builds a process's recognizer and is pickled: a function of a module, or a frozen dataclass with
    `__call__`. The processes start when the pool is entered, and all have ended when it is left.

    *Raises*: ConfigError for no number of workers.
    """

    def __init__(self, factory: RecognizerFactory, n_workers: int) -> None:
        if not 1 <= n_workers <= MAX_WORKERS:
            raise ConfigError(f"{n_workers} workers: choose 1 to {MAX_WORKERS}")
        self.n_workers = n_workers
        self.n_deaths = 0
        self._factory = factory
        self._context = multiprocessing.get_context("spawn")
        self._free: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        self._guard = threading.Lock()
        self._tasks: frozenset[str] = frozenset()
        self._text_format: str | None = None
        self._closed = False

    def __enter__(self) -> WorkerPool:
        """Start the processes and wait until one can read; those that end before it are started again.

        *Raises*: what its factory raises, and GravityOCRError where none can be started.
        """
        with ExitStack() as stack:
            stack.callback(self.close)
            workers = [self._start() for _ in range(self.n_workers)]
            for n_left in reversed(range(self.n_workers + _MOST_STARTS - 1)):
                try:
                    self._tasks, self._text_format = workers[0].ready()
                    break
                except (EOFError, OSError) as error:
                    if not n_left:
                        raise GravityOCRError(f"no process can be started: {workers[0].obituary()}") from error
                dead = workers.pop(0)
                workers += [worker for worker in (self._replace(dead),) if worker is not None]
            stack.pop_all()
        for worker in workers:
            self._free.put(worker)
        return self

    def __exit__(self, *_failure: object) -> None:
        self.close()

    @property
    def tasks(self) -> frozenset[str]:
        """Return the tasks that the recognizers claim."""
        return self._tasks

    @property
    def text_format(self) -> str | None:
        """Return what the recognizers say of their text, None where they say nothing."""
        return self._text_format

    @property
    def pids(self) -> list[int]:
        """Return the ids of the processes that are there now."""
        with self._guard:
            return [worker.process.pid or 0 for worker in self._workers]

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        """Read crops in the next free process; where that one dies, all of them are `failed` and another one starts.

        One that dies before it has the crops costs nothing: another one gets them, up to a few times in a row.

        *Raises*: what the recognizer raises, and GravityOCRError where the pool is closed.
        """
        worker = self._free.get()
        if worker is None:
            self._free.put(None)  # the next one who waits is told, too
            raise GravityOCRError("the worker processes were stopped")
        reason = ""
        try:
            for _ in range(_MOST_STARTS):
                got_them = False
                try:
                    worker.ready()
                    worker.hand(list(crops))
                    got_them = True
                    return worker.answer()
                except (EOFError, OSError):
                    reason = worker.obituary()
                    worker = self._replace(worker)
                if got_them or worker is None:
                    break
            return [Recognition("", "failed", reason) for _ in crops]
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """End all processes at once, busy or not; what waits for them fails."""
        with self._guard:
            self._closed = True
            workers, self._workers = self._workers, []
        self._free.put(None)
        for worker in workers:
            worker.process.kill()
        for worker in workers:  # their pipes are closed by those who may be reading from them
            worker.process.join(_END_S)

    def _start(self) -> _Worker:
        here, there = self._context.Pipe()
        process = self._context.Process(target=_work, args=(there, self._factory), name="reader", daemon=True)
        process.start()
        there.close()  # so that the end of the process is the end of the stream
        worker = _Worker(process, here)
        with self._guard:
            self._workers.append(worker)
        return worker

    def _replace(self, dead: _Worker) -> _Worker | None:
        with self._guard:
            if self._closed:
                return None
            self.n_deaths += 1
            self._workers.remove(dead)
        dead.process.kill()
        dead.process.join(_END_S)
        dead.connection.close()
        return self._start()


Abilities = tuple[frozenset[str], str | None]


@dataclass(eq=False)
class _Worker:
    """A process and our end of the pipe to it."""

    process: BaseProcess
    connection: Connection[Any, Any]
    abilities: Abilities | None = None
    is_reading: bool = False

    def ready(self) -> Abilities:
        """Wait until the process has its recognizer, and return its tasks and text format."""
        if self.abilities is None:
            self.abilities = self.answer()
        return self.abilities

    def hand(self, crops: list[Crop]) -> None:
        self.connection.send(crops)
        self.is_reading = True

    def answer(self) -> Any:
        outcome, value = self.connection.recv()
        if outcome == "failed":
            raise value
        return value

    def obituary(self) -> str:
        """Say how the process ended, in words that a user can act on."""
        self.process.join(_END_S)
        code = self.process.exitcode
        who = "the process that read this page" if self.is_reading else "the process that was to read"
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            hint = ": it may have run out of memory; choose fewer --workers" if name == "SIGKILL" else ""
            return f"{who} was ended by {name}{hint}"
        return f"{who} ended by itself (exit code {code})"


def _work(connection: Connection[Any, Any], factory: RecognizerFactory) -> None:
    """Build a recognizer and read what comes, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    made: list[Recognizer] = []
    with _Reply(connection) as reply:
        made.append(factory())
        reply.value = made[0].tasks, getattr(made[0], "text_format", None)
    while made:
        try:
            crops = connection.recv()
        except (EOFError, OSError):
            return
        with _Reply(connection) as reply:
            reply.value = made[0].recognize(crops)
        del crops, reply
        give_back()


class _Reply:
    """Sends a value, or the failure that there was instead, which is raised again at the other end."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection
        self.value: Any = None

    def __enter__(self) -> _Reply:
        return self

    def __exit__(self, _kind: object, failure: BaseException | None, _trace: object) -> bool:
        if failure is not None and not isinstance(failure, Exception):
            return False
        answer = ("done", self.value) if failure is None else ("failed", _portable(failure))
        with suppress(OSError):  # nobody listens any more
            self._connection.send(answer)
        return True


def _portable(failure: Exception) -> Exception:
    """Exceptions of the package travel as they are; of others only the words do, since not all can be pickled."""
    if isinstance(failure, GravityOCRError):
        return failure
    return GravityOCRError(f"{type(failure).__name__}: {failure}")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
