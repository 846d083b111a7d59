"""Score many samples in processes of their own: none takes the others down, none is scored twice.

One parent hands short lists of samples to its workers and gets one answer a sample. A worker that dies or overstays
costs the sample that it was at, and is replaced. Answers go to a JSONL file as they come; a later run takes from it
what was scored with the same input, the same settings and the same code.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Literal

from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.metrics.runs.score_file import ResultsFile, digest

Score = dict[str, Any]  # what JSON holds
RunStatus = Literal["ok", "failed", "died", "timeout"]

# What a scorer may raise at input that nobody thought of. Anything else ends the worker, and the sample has died.
_FAILURES = (
    GravityOCRError, ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError, RuntimeError,
    TypeError, ValueError,
)  # fmt: skip
_MOST_AT_ONCE = 16
_NEVER = 10**9
_START_S = 300.0  # a process that has not even imported the scorer by then never will


@dataclass(frozen=True)
class Sample:
    """One thing to score: `payload` goes to the scorer, is picklable, and holds only what JSON does."""

    id: str
    payload: Any


@dataclass(frozen=True)
class SampleResult:
    """What became of one sample; `score` is None unless `status` is `ok`.

    `failed`: the scorer raised `error`. `died`: its process ended. `timeout`: it took longer than allowed.
    *Units*: seconds, of this run or of the one that the result is `kept` from.
    """

    id: str
    status: RunStatus
    score: Score | None = None
    error: str | None = None
    seconds: float = 0.0
    kept: bool = False


@dataclass(frozen=True)
class RunConfig:
    """How to score: processes (None: one a core), the longest that a sample may take, and where results are kept.

    `settings` is all that the scores depend on besides sample and code, such as mode and version.

    *Raises*: ConfigError for values out of range.
    """

    n_processes: int | None = None
    timeout_s: float = 600.0
    results: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.n_processes is not None and not 1 <= self.n_processes <= 1024:
            raise ConfigError(f"processes is {self.n_processes}; choose 1 to 1024")
        if not 0 < self.timeout_s < _NEVER:
            raise ConfigError(f"timeout_s is {self.timeout_s}; choose a number of seconds above 0")


def n_cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def run_samples(
    samples: Sequence[Sample],
    scorer: Callable[[Any], Score],
    config: RunConfig,
    on_result: Callable[[SampleResult], None] = lambda _result: None,
) -> list[SampleResult]:
    """Score every sample in a process of its own and return the results in the samples' order.

    `scorer` is a module's function: workers are fresh interpreters that import it. `on_result` hears of every result
    as it comes.

    *Raises*: InputError and ConfigError where the results file cannot be used.
    """
    with _Ledger(samples, config, on_result) as ledger:
        if ledger.waiting:
            _Pool(scorer, samples, config, ledger.settle).run(ledger.waiting)
        return ledger.results()


def run_batches(
    samples: Sequence[Sample],
    scorer: Callable[[list[Any]], list[Score]],
    config: RunConfig,
    batch_size: int,
    on_result: Callable[[SampleResult], None] = lambda _result: None,
) -> list[SampleResult]:
    """Score samples by `batch_size` in this process, for a scorer that shares its work out itself and raises for none.

    *Raises*: InputError and ConfigError where the results file cannot be used, and what the scorer raises.
    """
    with _Ledger(samples, config, on_result) as ledger:
        for start in range(0, len(ledger.waiting), batch_size):
            batch = ledger.waiting[start : start + batch_size]
            began = time.perf_counter()
            scores = scorer([samples[index].payload for index in batch])
            seconds = (time.perf_counter() - began) / len(batch)
            for index, score in zip(batch, scores, strict=True):
                ledger.settle(index, SampleResult(samples[index].id, "ok", score, None, seconds))
        return ledger.results()


class _Ledger:
    """Knows which samples are settled, by this run or an earlier one."""

    def __init__(self, samples: Sequence[Sample], config: RunConfig, on_result: Callable[[SampleResult], None]) -> None:
        self._on_result = on_result
        self._found: dict[int, SampleResult] = {}
        self._n_samples = len(samples)
        self._file = ResultsFile(config.results, config.settings) if config.results is not None else None
        self._digests: list[str] = [digest(sample.payload) for sample in samples] if self._file else []
        if self._file is not None:
            for index, sample in enumerate(samples):
                row = self._file.kept(sample.id, self._digests[index])
                if row is not None:
                    seconds = float(row["seconds"])
                    self._found[index] = SampleResult(sample.id, "ok", row["score"], None, seconds, kept=True)
                    on_result(self._found[index])
        self.waiting = [index for index in range(len(samples)) if index not in self._found]

    def __enter__(self) -> _Ledger:
        if self._file is not None and self.waiting:
            self._file.open()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._file is not None:
            self._file.close()

    def settle(self, index: int, result: SampleResult) -> None:
        """Keep one result; failures are kept for the reader, and tried again by the next run."""
        self._found[index] = result
        if self._file is not None:
            self._file.append(
                result.id, self._digests[index], result.status, result.score, result.error, result.seconds
            )
        self._on_result(result)

    def results(self) -> list[SampleResult]:
        """Return all results in the samples' order."""
        return [self._found[index] for index in range(self._n_samples)]


# Processes -----------------------------------------------------------------------------------------


@dataclass
class _Worker:
    """A process, the parent's end of its pipe, the samples it was handed and has not answered, and its deadline.

    It is `ready` when it has told that the scorer is imported.
    """

    process: SpawnProcess
    pipe: Connection
    deadline: float
    ready: bool = False
    held: deque[int] = field(default_factory=deque)


class _Pool:
    def __init__(
        self,
        scorer: Callable[[Any], Score],
        samples: Sequence[Sample],
        config: RunConfig,
        settle: Callable[[int, SampleResult], None],
    ) -> None:
        self._scorer = scorer
        self._samples = samples
        self._timeout_s = config.timeout_s
        self._n_processes = config.n_processes or n_cores()
        self._settle = settle
        self._context = multiprocessing.get_context("spawn")
        self._queue: deque[int] = deque()
        self._workers: list[_Worker] = []
        self._at_once = 1

    def run(self, waiting: Iterable[int]) -> None:
        """Settle every waiting sample; whatever ends the run ends the workers."""
        self._queue.extend(waiting)
        n_workers = min(self._n_processes, len(self._queue))
        # Few at once where there are few: a long sample must not keep short ones waiting behind it.
        self._at_once = max(1, min(_MOST_AT_ONCE, len(self._queue) // (8 * n_workers)))
        try:
            for _ in range(n_workers):
                self._workers.append(self._start())
            while self._queue or any(worker.held for worker in self._workers):
                self._step()
        finally:
            for worker in self._workers:
                worker.pipe.close()  # an idle one hears that and ends
            for worker in self._workers:
                _end(worker, patience_s=0.0 if worker.held or not worker.ready else 1.0)

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._scorer), daemon=True)
        process.start()
        theirs.close()  # so that the pipe ends with the process
        return _Worker(process, ours, time.monotonic() + _START_S)

    def _step(self) -> None:
        """Hand out what can be, then hear every worker that has something to say, is gone, or is late."""
        for worker in list(self._workers):
            if worker.ready and not worker.held and self._queue and not self._hand(worker):
                self._replace(worker)
        busy = [worker for worker in self._workers if worker.held or not worker.ready]
        if not busy:
            return
        left = min(worker.deadline for worker in busy) - time.monotonic()
        heard = set(wait([worker.pipe for worker in busy], timeout=max(0.0, left)))
        for worker in busy:
            if worker.pipe in heard:
                self._hear(worker)
            elif worker.deadline < time.monotonic():
                self._lose(worker, "timeout")

    def _hear(self, worker: _Worker) -> None:
        try:
            answer = worker.pipe.recv()
        except (EOFError, OSError):
            self._lose(worker, "died")
            return
        worker.deadline = time.monotonic() + self._timeout_s
        if answer is None:
            worker.ready = True
            return
        status, value, seconds = answer
        index = worker.held.popleft()  # answers come in the order of the samples
        score, error = (value, None) if status == "ok" else (None, value)
        self._settle(index, SampleResult(self._samples[index].id, status, score, error, seconds))

    def _lose(self, worker: _Worker, status: RunStatus) -> None:
        """Settle the sample that a worker was at when it went or was given up, and replace the worker."""
        culprit = worker.held.popleft() if worker.held else None
        code = self._replace(worker, patience_s=5.0 if status == "died" else 0.0)
        if culprit is None:
            raise RuntimeError(f"a scoring process ended with code {code} before it was ready")
        late = f"took longer than {self._timeout_s:g} s; its process was ended"
        error = late if status == "timeout" else f"its process ended with code {code}"
        self._settle(culprit, SampleResult(self._samples[culprit].id, status, None, error))

    def _hand(self, worker: _Worker) -> bool:
        """Hand the next samples to a worker; False where it has gone, the samples being back in the queue."""
        chunk = [self._queue.popleft() for _ in range(min(self._at_once, len(self._queue)))]
        try:
            worker.pipe.send([self._samples[index].payload for index in chunk])
        except OSError:
            self._queue.extendleft(reversed(chunk))
            return False
        worker.held.extend(chunk)
        worker.deadline = time.monotonic() + self._timeout_s
        return True

    def _replace(self, worker: _Worker, patience_s: float = 0.0) -> int | None:
        """End a worker, queue the samples that it still holds, start another; return its exit code."""
        worker.pipe.close()
        _end(worker, patience_s)
        self._queue.extendleft(reversed(worker.held))
        worker.held.clear()
        self._workers.remove(worker)
        if worker.ready:
            self._workers.append(self._start())
        return worker.process.exitcode


def _end(worker: _Worker, patience_s: float) -> None:
    worker.process.join(patience_s)
    if worker.process.is_alive():
        worker.process.kill()
    worker.process.join()


def _work(pipe: Connection, scorer: Callable[[Any], Score]) -> None:
    """Answer the parent's lists sample by sample until its end of the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends this process
    try:
        pipe.send(None)
        while True:
            for payload in pipe.recv():
                began = time.perf_counter()
                status, value = _attempt(scorer, payload)
                pipe.send((status, value, time.perf_counter() - began))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _attempt(scorer: Callable[[Any], Score], payload: object) -> tuple[RunStatus, Score | str]:
    try:
        return "ok", scorer(payload)
    except _FAILURES as error:
        return "failed", f"{type(error).__name__}: {error}"
