"""Copy safetensors files tensor by tensor, byte by byte, with single rows exchanged: memory stays small, types stay.

A safetensors file is the length of its header in 8 bytes, the header (JSON: name -> type, shape, place), the data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gravityocr.errors import CheckpointError
from gravityocr.model.weights import weight_header

_CHUNK = 1 << 24


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file: type in the words of safetensors, shape, first byte and number of bytes."""

    file: Path
    key: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    n_bytes: int


@dataclass(frozen=True)
class NewRow:
    """The bytes of a row that takes the place of an old one, or follows the last."""

    row: int
    content: bytes


def stored_tensors(file: Path) -> list[StoredTensor]:
    """List the tensors of a file in the order of their data.

    *Raises*: CheckpointError where it is broken.
    """
    weight_header(file)  # the library's own reader checks places, sizes and types
    with file.open("rb") as handle:
        size = int.from_bytes(handle.read(8), "little")
        header: dict[str, Any] = json.loads(handle.read(size))
    header.pop("__metadata__", None)
    tensors = [
        StoredTensor(
            file, key, entry["dtype"], tuple(entry["shape"]), 8 + size + entry["data_offsets"][0],
            entry["data_offsets"][1] - entry["data_offsets"][0],
        )
        for key, entry in header.items()
    ]  # fmt: skip
    return sorted(tensors, key=lambda one: one.start)


def copy_tensors(path: Path, tensors: Sequence[StoredTensor], rows: Mapping[str, NewRow]) -> int:
    """Write tensors into one file and return the number of bytes of their data; `rows` are changed on the way."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for one in tensors:
        shape, n_bytes = _changed(one, rows.get(one.key))
        header[one.key] = {"dtype": one.dtype, "shape": list(shape), "data_offsets": [place, place + n_bytes]}
        place += n_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format wants the data aligned
    with path.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for one in tensors:
            with one.file.open("rb") as source:
                _copy(source, out, one, rows.get(one.key))
    return place


def _changed(one: StoredTensor, row: NewRow | None) -> tuple[tuple[int, ...], int]:
    """Return the shape and the size that a tensor has with its new row."""
    if row is None:
        return one.shape, one.n_bytes
    row_bytes = one.n_bytes // one.shape[0]
    if len(row.content) != row_bytes or not 0 <= row.row <= one.shape[0]:
        what = f"row {row.row} of {len(row.content)} bytes does not fit {one.shape}"
        raise CheckpointError(f"{one.file}: {one.key}: {what}; the file changed while it was read")
    n_rows = max(one.shape[0], row.row + 1)
    return (n_rows, *one.shape[1:]), n_rows * row_bytes


def _copy(source: BinaryIO, out: BinaryIO, one: StoredTensor, row: NewRow | None) -> None:
    if row is None:
        _copy_bytes(source, out, one.start, one.n_bytes)
        return
    before = row.row * len(row.content)
    _copy_bytes(source, out, one.start, before)
    out.write(row.content)
    behind = before + len(row.content)
    _copy_bytes(source, out, one.start + behind, max(0, one.n_bytes - behind))


def _copy_bytes(source: BinaryIO, out: BinaryIO, start: int, n_bytes: int) -> None:
    source.seek(start)
    for first in range(0, n_bytes, _CHUNK):
        out.write(source.read(min(_CHUNK, n_bytes - first)))
