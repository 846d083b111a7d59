"""What reads the regions of a run: the checkpoint here, several processes of it, or servers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from gravityocr.api import EngineFactory, GravityOCR
from gravityocr.commands.parse_options import ParseOptions
from gravityocr.commands.parse_settings import ParseSettings
from gravityocr.document import Crop, Recognition
from gravityocr.errors import GravityOCRError, InputError
from gravityocr.pipeline.convert import PipelineConfig, n_pages_of
from gravityocr.pipeline.inputs import InputFile
from gravityocr.pipeline.layout import LayoutBox, LayoutDetector
from gravityocr.pipeline.layout_choice import build_detector
from gravityocr.pipeline.recognizer import Recognizer
from gravityocr.pipeline.server.recognizer import ServerRecognizer
from gravityocr.pipeline.source import PageRanges
from gravityocr.pipeline.sources.kinds import sniff
from gravityocr.pipeline.worker_pool import WorkerPool

MOST_WORKERS = 16  # beyond it, one layout stage cannot feed them
PAGES_PER_WORKER = 4  # that repay the start of a process
_WORKER_BYTES = 1_000_000_000
_SMALL_BYTES = 200_000_000  # of weights: networks below it run in one thread
_PAGES_AT_SERVERS = 8  # whose regions are on their way at a time


@dataclass(frozen=True)
class Reader:
    """What reads, how many pages it takes at a time, what it writes, and what finds the regions."""

    recognizer: Recognizer
    detector: LayoutDetector
    n_parallel: int = 1
    text_format: str | None = None


class NoReader:
    """Stands where nothing is read: no input can be opened."""

    tasks: frozenset[str] = frozenset()

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        """Fail: an input that could not be opened can be, meanwhile."""
        raise GravityOCRError("it could not be opened when the run began; parse it again")

    def detect(self, image: Image.Image) -> list[LayoutBox]:
        """Fail in the same way."""
        raise GravityOCRError("it could not be opened when the run began; parse it again")


def obstacle_of(item: InputFile) -> str | None:
    """Say why an input cannot be read, as far as its first bytes tell; None where it may."""
    if item.error is not None or item.origin != "file":
        return item.error
    try:
        sniff(item.path, item.name)
    except InputError as error:
        return str(error)
    return None


@contextmanager
def open_reader(asked: ParseOptions, settings: ParseSettings, items: Sequence[InputFile]) -> Iterator[Reader]:
    """Give what reads; processes and connections have ended behind the block.

    *Raises*: ConfigError and CheckpointError where it cannot be made, InputError where no server answers.
    """
    if settings.engine is None:
        with ServerRecognizer(settings.urls, settings.config.server) as servers:
            servers.check()
            n_parallel = min(_PAGES_AT_SERVERS, settings.config.server.n_parallel)
            yield Reader(servers, _detector(asked, settings), n_parallel)
        return
    n_workers = settings.n_workers
    if n_workers is None:
        n_workers = auto_workers(asked, items, settings.config, settings.pages)
    if n_workers > 1:
        factory = EngineFactory(asked.checkpoint, settings.engine, asked.dtype, asked.device, asked.threads)
        detector = _detector(asked, settings)
        with WorkerPool(factory, n_workers) as pool:
            yield Reader(pool, detector, n_workers, pool.text_format)
        return
    ocr = GravityOCR.from_pretrained(
        asked.checkpoint, layout=_detector(asked, settings), engine=settings.engine, pipeline=settings.config,
        dtype=asked.dtype, device=asked.device, n_threads=asked.threads,
    )  # fmt: skip
    yield Reader(ocr.engine, ocr.detector, 1, getattr(ocr.engine, "text_format", None))


def _detector(asked: ParseOptions, settings: ParseSettings) -> LayoutDetector:
    # one thread, whoever reads: what is found must not depend on it
    n_threads = asked.threads or 1
    return build_detector(
        settings.layout, model=asked.layout_model, device=asked.device, n_threads=n_threads,
        config=settings.config.layout_v3,
    )  # fmt: skip


def auto_workers(
    asked: ParseOptions, items: Sequence[InputFile], config: PipelineConfig, pages: PageRanges | None
) -> int:
    """Return how many processes are worth their start: one per free core on a CPU, where there are pages enough.

    A network that would take all cores by itself, and any on a GPU, is read with in this process.
    """
    if asked.device != "cpu" or (asked.threads is None and not _is_small(asked.checkpoint)):
        return 1
    most = min(_n_cores() // (asked.threads or 1), MOST_WORKERS, _memory_bytes() // _WORKER_BYTES)
    n_pages = 0
    for item in items:
        if most < 2 or n_pages >= most * PAGES_PER_WORKER:
            break
        n_pages += n_pages_of(item, config, pages)
    return max(1, min(most, n_pages // PAGES_PER_WORKER))


def _n_cores() -> int:
    """Return the cores that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_small(checkpoint: str) -> bool:
    folder = Path(checkpoint)
    weights = list(folder.glob("*.safetensors")) if folder.is_dir() else []
    return checkpoint == "nano" or (bool(weights) and sum(file.stat().st_size for file in weights) < _SMALL_BYTES)


def _memory_bytes() -> int:
    """Return half of the machine's memory: the rest is for whoever else is there."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
