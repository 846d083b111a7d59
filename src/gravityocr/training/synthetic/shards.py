"""Shards: rendered crops with their target tokens and the places of their glyphs, cached on disk.

A shard is an uncompressed `.npz` without pickles: the PNG files one behind the other, the centres of all tokens one
behind the other, and one JSON record a sample.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from PIL import Image, UnidentifiedImageError

from gravityocr.document import Task
from gravityocr.errors import InputError

SUFFIX = ".shard.npz"
TASKS: tuple[Task, ...] = get_args(Task)
_BROKEN = (
    OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, MemoryError, SyntaxError, zipfile.BadZipFile,
    zlib.error, Image.DecompressionBombError,
)  # fmt: skip


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

        *Raises*: InputError where it is missing or broken, or holds what no shard holds.
        """
        self.file = file
        remedy = "make it again with gravityocr data synth"
        try:
            with np.load(file, allow_pickle=False) as arrays:
                self._png, self._png_ends = arrays["png"], arrays["png_ends"]
                self._centers = arrays["centers"]
                self._records = json.loads(arrays["records"].tobytes().decode("utf-8"))
        except _BROKEN as error:
            raise InputError(f"{file} is no shard ({error}); {remedy}") from error
        problem = _problem_of_records(self._records) or _problem_of_arrays(self._png, self._png_ends, self._centers)
        if problem:
            raise InputError(f"{file} is no shard ({problem}); {remedy}")
        self._ends = np.cumsum([len(record["tokens"]) for record in self._records], dtype=np.int64)
        n_tokens = int(self._ends[-1]) if self._records else 0
        if len(self._png_ends) != len(self._records) or len(self._centers) != n_tokens:
            raise InputError(f"{file} is no shard (its parts do not fit); {remedy}")

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
            # Pillow would name the address of the bytes.
            reason = "no image" if isinstance(error, UnidentifiedImageError) else error
            what = f"its picture is broken ({reason}); make the shard again with gravityocr data synth"
            raise InputError(f"{self.file}, sample {number}: {what}") from error
        start, end = self._span(self._ends, number)
        return RenderedSample(
            record["task"], image, tuple(record["tokens"]), self._centers[start:end], record["source"]
        )

    def tokens_up_to(self, most: int) -> set[str]:
        """Return the tokens of all samples that have at most `most`."""
        found: set[str] = set()
        found.update(*(record["tokens"] for record in self._records if len(record["tokens"]) <= most))
        return found

    @staticmethod
    def _span(ends: np.ndarray, number: int) -> tuple[int, int]:
        return (int(ends[number - 1]) if number else 0), int(ends[number])


def _problem_of_records(records: Any) -> str | None:
    """Return what is wrong with the records of a file, None where nothing is."""
    if not isinstance(records, list):
        return "its records are no list"
    for number, record in enumerate(records):
        if not isinstance(record, dict) or record.get("task") not in TASKS:
            return f"sample {number} has no task out of {', '.join(TASKS)}"
        tokens = record.get("tokens")
        # A set of the types is quicker than a look at each of millions of tokens.
        if not isinstance(tokens, list) or not {*map(type, tokens)} <= {str}:
            return f"sample {number} has no list of strings as tokens"
        if not isinstance(record.get("source"), str):
            return f"sample {number} has no string as source"
    return None


def _problem_of_arrays(png: np.ndarray, png_ends: np.ndarray, centers: np.ndarray) -> str | None:
    """Return what is wrong with the arrays of a file, None where nothing is."""
    if png.ndim != 1 or png.dtype != np.uint8 or png_ends.ndim != 1 or png_ends.dtype.kind not in "iu":
        return "png must hold bytes, and png_ends integers"
    edges = [0, *png_ends.tolist(), len(png)]
    if any(later < earlier for earlier, later in zip(edges[:-1], edges[1:], strict=True)):
        return "png_ends does not ascend to the length of png"
    if centers.ndim != 2 or centers.shape[1] != 2 or centers.dtype.kind != "f":
        return "centers must be pairs of decimal numbers"
    if np.isinf(centers).any() or (np.isnan(centers[:, 0]) != np.isnan(centers[:, 1])).any():
        return "a centre must be two finite numbers, or none"
    return None


def shard_files(folder: Path) -> list[Path]:
    """Return the shards below a folder, in order.

    *Raises*: InputError where there is none.
    """
    files = sorted(folder.rglob(f"*{SUFFIX}"))
    if not files:
        raise InputError(f"no shard (*{SUFFIX}) below {folder}; make some with gravityocr data synth")
    return files
