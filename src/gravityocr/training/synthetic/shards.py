"""Shards: rendered crops with their target tokens and the places of their glyphs, cached on disk.

A shard is an uncompressed `.npz` without pickles: the PNG files one behind the other, the centres of all tokens one
behind the other, and one JSON record a sample.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from gravityocr.document import Task
from gravityocr.errors import InputError

SUFFIX = ".shard.npz"
_BROKEN = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, RecursionError)


@dataclass(frozen=True)
class RenderedSample:
    """Hold one crop as it was rendered: clean, dark on white.

    *Shapes*: image uint8 [H, W]; centers_px float32 [n_tokens, 2] (x, y), NaN for a token without ink.
    `tokens` joined are the target; `source` names the data that it was made from.
    """

    task: Task
    image: np.ndarray
    tokens: tuple[str, ...]
    centers_px: np.ndarray
    source: str

    @property
    def target(self) -> str:
        """Return the text that the network shall write."""
        return "".join(self.tokens)


def write_shard(file: Path, samples: Sequence[RenderedSample]) -> None:
    """Write a shard, atomically.

    *Raises*: InputError for a sample whose centres do not fit its tokens.
    """
    pictures, records, centers = [], [], []
    for number, sample in enumerate(samples):
        if sample.centers_px.shape != (len(sample.tokens), 2):
            shape = sample.centers_px.shape
            raise InputError(f"sample {number}: {len(sample.tokens)} tokens, but centres of shape {shape}")
        buffer = io.BytesIO()
        Image.fromarray(sample.image).save(buffer, format="PNG")
        pictures.append(buffer.getvalue())
        records.append({"task": sample.task, "tokens": sample.tokens, "source": sample.source})
        centers.append(sample.centers_px.astype(np.float32))
    part = file.with_name(file.name + ".part")
    with part.open("wb") as stream:
        np.savez(
            stream,
            png=np.frombuffer(b"".join(pictures), dtype=np.uint8),
            png_ends=np.cumsum([len(picture) for picture in pictures], dtype=np.int64),
            centers=np.concatenate(centers) if centers else np.zeros((0, 2), dtype=np.float32),
            records=np.frombuffer(json.dumps(records, ensure_ascii=False).encode("utf-8"), dtype=np.uint8),
        )
    part.replace(file)


class Shard:
    """A shard in memory; pictures are decoded when they are asked for."""

    def __init__(self, file: Path) -> None:
        """Read a shard.

        *Raises*: InputError where it is missing or broken.
        """
        self.file = file
        try:
            with np.load(file, allow_pickle=False) as arrays:
                self._png, self._png_ends = arrays["png"], arrays["png_ends"]
                self._centers = arrays["centers"]
                self._records = json.loads(arrays["records"].tobytes().decode("utf-8"))
            counts = [len(record["tokens"]) for record in self._records]
        except _BROKEN as error:
            raise InputError(f"{file} is no shard ({error}); make it again with gravityocr data synth") from error
        self._ends = np.cumsum(counts, dtype=np.int64)
        n_tokens = int(self._ends[-1]) if counts else 0
        if len(self._png_ends) != len(counts) or self._centers.shape != (n_tokens, 2):
            raise InputError(f"{file} is no shard (its parts do not fit); make it again with gravityocr data synth")

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, number: int) -> RenderedSample:
        """Return one sample.

        *Raises*: InputError where its picture is broken.
        """
        if not 0 <= number < len(self):
            raise IndexError(number)
        record = self._records[number]
        start, end = self._span(self._png_ends, number)
        try:
            with Image.open(io.BytesIO(self._png[start:end].tobytes())) as picture:
                image = np.array(picture.convert("L"))
        except _BROKEN as error:
            raise InputError(f"{self.file}, sample {number}: its picture is broken ({error})") from error
        start, end = self._span(self._ends, number)
        return RenderedSample(
            record["task"], image, tuple(record["tokens"]), self._centers[start:end], record["source"]
        )

    @staticmethod
    def _span(ends: np.ndarray, number: int) -> tuple[int, int]:
        return (int(ends[number - 1]) if number else 0), int(ends[number])


def shard_files(folder: Path) -> list[Path]:
    """Return the shards below a folder, in order.

    *Raises*: InputError where there is none.
    """
    files = sorted(folder.rglob(f"*{SUFFIX}"))
    if not files:
        raise InputError(f"no shard (*{SUFFIX}) below {folder}; make some with gravityocr data synth")
    return files
