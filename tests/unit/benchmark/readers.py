"""Scripted recognizers and cases for the tests of measurements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from gravityocr.benchmark.cases import Case
from gravityocr.document import Crop, Recognition, Task


def answer(*pieces: Sequence[int], forwards: int = 0, rounds: int = 0, accepted: int = 0, decode_s: float = 1.0,
           text: str = "a") -> Recognition:  # fmt: skip
    """Return a recognition of these pieces; without `forwards` it is AR's."""
    n_tokens = sum(map(len, pieces))
    seconds = {"vision": 0.25, "prefill": 0.5, "decode": decode_s}
    ids = tuple(tuple(piece) for piece in pieces)
    return Recognition(text, n_tokens=n_tokens, n_forwards=forwards or n_tokens - len(pieces), n_rounds=rounds,
                       n_accepted=accepted, seconds=seconds, ids=ids)  # fmt: skip


class Reader:
    """Answer crops of each width as scripted, and note how many crops every call has, and their widths."""

    tasks = frozenset({"text", "table", "formula"})

    def __init__(self, answers: dict[int, Recognition]) -> None:
        self.answers = answers
        self.log: list[int] = []
        self.seen: set[int] = set()

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        self.log.append(len(crops))
        self.seen |= {crop.image.width for crop in crops}
        return [self.answers[crop.image.width] for crop in crops]


def make_case(folder: Path, width: int, task: Task = "text", truth: str = "a") -> Case:
    """Return a case whose crop has this width."""
    file = folder / f"{width}.png"
    Image.new("RGB", (width, 10), "white").save(file)
    return Case(file, task, "english", truth)
