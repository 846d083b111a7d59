"""The journal of a shard's transcription: one JSON line a picture, appended as answers come, read by the next run.

The first line says what was asked. A line that a killed run left half written is cut off; of two lines about one region
the later counts.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, get_args

from gravityocr.errors import InputError
from gravityocr.training.corpora.chat_servers import Transcript, TranscriptStatus

_STATUSES = frozenset(get_args(TranscriptStatus))


class TranscriptJournal:
    """The transcripts of one shard on disk; only the places of the lines are held."""

    def __init__(self, file: Path, region_ids: Sequence[str], settings: dict[str, Any]) -> None:
        """Open a journal, or begin it; `settings` are what its answers depend on.

        *Raises*: InputError where it belongs to another shard or to other settings.
        """
        self.file = file
        self._ids, self.settings = region_ids, settings
        self._statuses: dict[int, TranscriptStatus] = {}
        self._places: dict[int, int] = {}
        digest = hashlib.sha256("\n".join(region_ids).encode("utf-8", errors="surrogatepass")).hexdigest()
        header = {"journal": "transcription", **settings, "n_regions": len(region_ids), "region_ids_sha256": digest}
        file.parent.mkdir(parents=True, exist_ok=True)
        self._stream: BinaryIO = file.open("a+b")
        try:
            self._read(header)
        except InputError:
            self._stream.close()
            raise

    def __enter__(self) -> TranscriptJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def append(self, number: int, transcript: Transcript) -> None:
        """Write down what became of region `number`; it is with the system when this returns."""
        row = {"number": number, "region_id": self._ids[number], "status": transcript.status}
        row |= {"text": transcript.text, "reason": transcript.reason, "n_requests": transcript.n_requests}
        self._note(number, transcript.status, self._write(row))

    def needs(self, number: int) -> bool:
        """Tell whether region `number` is still to be asked: never answered, or failed."""
        return self._statuses.get(number, "failed") == "failed"

    def text(self, number: int) -> str | None:
        """Return the transcript of region `number` where there is a whole one."""
        if self._statuses.get(number) != "ok":
            return None
        self._stream.seek(self._places[number])
        text = json.loads(self._stream.readline())["text"]
        assert isinstance(text, str)  # as `_read` found it, or `append` wrote it
        return text

    def counts(self) -> Counter[str]:
        """Count the regions by status."""
        return Counter(self._statuses.values())

    def left_out(self) -> Iterator[dict[str, Any]]:
        """Yield region id, status and reason of every region without a whole transcript, in the shard's order."""
        for number, status in sorted(self._statuses.items()):
            if status != "ok":
                self._stream.seek(self._places[number])
                row = json.loads(self._stream.readline())
                yield {"region_id": row["region_id"], "status": status, "reason": str(row.get("reason", ""))}

    def _note(self, number: int, status: TranscriptStatus, place: int) -> None:
        self._statuses[number], self._places[number] = status, place

    def _write(self, row: dict[str, Any]) -> int:
        place = self._stream.seek(0, 2)
        self._stream.write(json.dumps(row).encode("ascii") + b"\n")
        self._stream.flush()
        return place

    def _read(self, header: dict[str, Any]) -> None:
        self._stream.seek(0)
        place = 0
        is_first = True
        for line in self._stream:
            if not line.endswith(b"\n"):
                break
            row = _object(line)
            if is_first and row != header:
                raise InputError(f"{self.file} {_difference(row, header)}; choose another --out, or remove the file")
            if not is_first and row is not None and self._is_about_us(row):
                self._note(row["number"], row["status"], place)
            is_first = False
            place += len(line)
        self._stream.truncate(place)
        if is_first:
            self._write(header)

    def _is_about_us(self, row: dict[str, Any]) -> bool:
        number = row.get("number")
        known = type(number) is int and 0 <= number < len(self._ids) and row.get("region_id") == self._ids[number]
        return known and row.get("status") in _STATUSES and isinstance(row.get("text"), str)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _difference(row: dict[str, Any] | None, header: dict[str, Any]) -> str:
    if row is None or row.get("journal") != header["journal"]:
        return "is no journal of a transcription"
    key = next((key for key in header if row.get(key) != header[key]), next(iter(header)))
    if key in ("n_regions", "region_ids_sha256"):
        return "is the journal of another shard"
    return f"was written with another {key} ({row.get(key)!r}, now {header[key]!r})"
