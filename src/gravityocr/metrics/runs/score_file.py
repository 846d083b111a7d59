"""Per-sample results on disk: JSON lines that a later run takes up again."""

from __future__ import annotations

import errno
import functools
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from gravityocr import __version__
from gravityocr.errors import ConfigError, InputError
from gravityocr.metrics.runs.input_files import plain_bytes

_METRICS = Path(__file__).parents[1]
_KEYS = {"id", "input", "settings", "status", "score", "error", "seconds"}
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_LENGTH = 24  # hex digits of a digest: 96 bits


def digest(value: object) -> str:
    """Return a digest of anything that JSON holds; the order of keys does not count."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:_LENGTH]


@functools.cache
def code_digest() -> str:
    """Return a digest of the scorers' own sources: results of other code are never taken for those of this."""
    hashed = hashlib.sha256(__version__.encode())
    for path in sorted(_METRICS.rglob("*.py")):
        hashed.update(path.relative_to(_METRICS).as_posix().encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()[:_LENGTH]


def run_facts(settings: Mapping[str, Any]) -> dict[str, object]:
    """Return what a report says of its making: version, date, code and settings."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    facts: dict[str, object] = {"gravityocr": __version__, "made": now, "code": code_digest()}
    return facts | {name: value for name, value in settings.items() if value is not None}


class ResultsFile:
    """A JSONL file of `id, input, settings, status, score, error, seconds`; `input` and `settings` are digests.

    `check` is the digest of all these: a line that was changed since it was written is never taken up, so that its
    sample is scored again. Lines of other inputs or settings stay. A last line that a stopped run left torn is cut off.

    *Raises*: InputError where the file cannot be read, ConfigError where it holds something else than results.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self._settings = digest({"settings": dict(settings), "code": code_digest()})
        self._kept: dict[tuple[str, str], dict[str, Any]] = {}
        self._n_bytes = 0  # up to the end of the last whole line
        self._stream: IO[bytes] | None = None
        self._read()

    def _read(self) -> None:
        try:
            data = plain_bytes(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror}); name another results file") from error
        lines = data.split(b"\n")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                self._n_bytes += len(line) + (number < len(lines))
                continue
            row = _row(line)
            if row is None:
                if number == len(lines) and _is_torn(line):
                    break
                raise ConfigError(
                    f"{self.path}, line {number}: is no result of a scoring run; name another file, lest it be spoilt"
                )
            if number == len(lines):
                # A whole row that lacks its line end would be glued to the next one.
                break
            self._n_bytes += len(line) + 1
            if row["settings"] == self._settings and row["status"] == "ok" and _is_whole(row):
                self._kept[row["id"], row["input"]] = row

    def kept(self, name: str, input_digest: str) -> dict[str, Any] | None:
        """Return the row of a sample that was scored with this input, these settings and this code."""
        return self._kept.get((name, input_digest))

    def open(self) -> None:
        """Make ready to append.

        *Raises*: InputError where the file cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: what a full disk refused must not be written again when the file is closed.
            self._stream = self.path.open("ab", buffering=0)
            self._stream.truncate(self._n_bytes)
        except OSError as error:
            raise self._unwritable(error) from error

    def append(self, name: str, input_digest: str, status: str, score: Any, error: str | None, seconds: float) -> None:
        """Write one result through to the disk.

        *Raises*: InputError where that fails.
        """
        assert self._stream is not None
        row = {
            "id": name, "input": input_digest, "settings": self._settings, "status": status, "score": score,
            "error": error, "seconds": round(seconds, 6),
        }  # fmt: skip
        row["check"] = digest(row)
        data = memoryview(json.dumps(row, separators=(",", ":")).encode("ascii") + b"\n")
        try:
            while data:
                data = data[self._stream.write(data) :]
        except OSError as error_:
            raise self._unwritable(error_) from error_

    def close(self) -> None:
        """Close the file.

        *Raises*: InputError where what was written could not be kept.
        """
        stream, self._stream = self._stream, None
        try:
            if stream is not None:
                stream.close()
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> InputError:
        remedy = "name another results file"
        if error.errno in _NO_ROOM:
            remedy = "make room and run again, which takes up all results that are in it, or name a file elsewhere"
        return InputError(f"{self.path}: cannot be written ({error.strerror}); {remedy}")


def _is_torn(line: bytes) -> bool:
    """Tell the head of a result from a whole line of something else."""
    head = b'{"id":"'
    return line[: len(head)] == head[: len(line)] and not line.endswith(b"}")


def _is_whole(row: Mapping[str, Any]) -> bool:
    try:
        return bool(row.get("check") == digest({key: row[key] for key in _KEYS}))
    except RecursionError:
        return False


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    known = isinstance(row, dict) and row.keys() >= _KEYS
    return row if known and all(isinstance(row[key], str) for key in ("id", "input", "settings", "status")) else None
