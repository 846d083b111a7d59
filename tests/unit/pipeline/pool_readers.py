"""Recognizers that processes of a worker pool build: light to import, and with habits that tests can rely on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gravityocr.document import Crop, Recognition
from gravityocr.errors import CheckpointError


class PidReader:
    """Answers with its process id and the crop's width; some widths are orders: 13 kills, 14 raises, 15 waits long."""

    tasks = frozenset({"text", "table"})
    text_format = "markdown"

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        widths = [crop.image.width for crop in crops]
        if 13 in widths:
            os.kill(os.getpid(), signal.SIGKILL)
        if 14 in widths:
            raise KeyError("no such slot")
        if 15 in widths:
            time.sleep(60)
        return [Recognition(f"{os.getpid()} {width}", n_tokens=2, n_forwards=1) for width in widths]


@dataclass(frozen=True)
class MakePidReader:
    """Makes a reader, or fails as a checkpoint does that does not load.

    With `dies_until`, each process leaves a file in that folder and dies, as long as there are fewer than so many.
    """

    fails: bool = False
    dies: bool = False
    dies_until: tuple[str, int] | None = None

    def __call__(self) -> PidReader:
        if self.fails:
            raise CheckpointError("weights/: has no model.safetensors")
        folder, n_deaths = self.dies_until or ("", 0)
        n_dead = len(os.listdir(folder)) if folder else 0
        if n_dead < n_deaths:
            open(os.path.join(folder, str(os.getpid())), "x").close()
        if self.dies or n_dead < n_deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        return PidReader()


class SlowReader:
    """Reads what a page says in bars: the crop's size; takes a while for it."""

    tasks = frozenset({"text"})
    text_format = "plain"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        time.sleep(self._seconds)
        return [Recognition(f"{crop.image.width} by {crop.image.height}", n_tokens=4, n_forwards=2) for crop in crops]


@dataclass(frozen=True)
class MakeSlowReader:
    """Makes a slow reader."""

    seconds: float = 0.0

    def __call__(self) -> SlowReader:
        return SlowReader(self.seconds)
