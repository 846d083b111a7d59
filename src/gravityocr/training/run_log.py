"""What a run tells: JSON lines, TensorBoard, a progress line with the time that is left, and skipped samples."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gravityocr.errors import ConfigError
from gravityocr.training.joint import SkippedSample

LOG_FILE = "log.jsonl"
SKIPPED_FILE = "skipped.jsonl"


class RunLog:
    """The files that one run writes while it trains; only its first process has one."""

    def __init__(self, folder: Path, tensorboard: bool) -> None:
        """Open the files.

        *Raises*: ConfigError where TensorBoard is asked for and not installed.
        """
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._board: Any = None
        self._new_board: Callable[[str], Any] | None = None
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise ConfigError("train.tensorboard needs tensorboard; pip install 'gravityocr[train]'") from error
            self._new_board = SummaryWriter

    def write(self, head: Mapping[str, Any], record: Mapping[str, Any], eta_s: float | None = None) -> None:
        """Append a record to the log and show it; `head` begins with the step."""
        line = {**head, **{k: float(f"{v:.7g}") if isinstance(v, float) else v for k, v in record.items()}}
        shown = " ".join(f"{key}={value}" for key, value in line.items() if not isinstance(value, (dict, list)))
        print(shown + (f" eta={_duration(eta_s)}" if eta_s is not None else ""), file=sys.stderr, flush=True)
        with (self.folder / LOG_FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if self._new_board is not None:
            # Opened by the first record: a run that is only looked at leaves no empty file of events.
            if self._board is None:
                self._board = self._new_board(str(self.folder / "tensorboard"))
            for key, value in record.items():
                if isinstance(value, (int, float)):
                    self._board.add_scalar(key.replace("val_", "validation/"), value, int(head["step"]))

    def begin(self, step: int, changed: Sequence[str]) -> None:
        """Say where an interrupted run goes on and with what other settings; lines of steps that were lost go."""
        if step == 0:
            for name in (LOG_FILE, SKIPPED_FILE):
                (self.folder / name).unlink(missing_ok=True)
            return
        records = [record for record in read_records(self.folder) if _is_up_to(record, step)]
        records.append({"step": step, "resumed_from": step, "changed": list(changed)})
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        part = self.folder / f"{LOG_FILE}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(self.folder / LOG_FILE)
        self.tell(f"going on at step {step}")
        for change in changed:
            self.tell(f"  changed: {change}")

    def tell(self, what: str) -> None:
        """Show a line that belongs to no step."""
        print(what, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Write what TensorBoard still holds."""
        if self._board is not None:
            self._board.close()


def note_skipped(folder: Path, step: int, skipped: Sequence[SkippedSample]) -> None:
    """Name samples that are not trained on; every process of a run adds its own to the same file."""
    if not skipped:
        return
    for one in skipped[:3]:
        print(f"skipped {one.name}: {one.reason}", file=sys.stderr, flush=True)
    if len(skipped) > 3:
        print(f"... and {len(skipped) - 3} more, see {folder / SKIPPED_FILE}", file=sys.stderr, flush=True)
    entries = [{"step": step, "name": one.name, "reason": one.reason} for one in skipped]
    lines = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
    with (folder / SKIPPED_FILE).open("a", encoding="utf-8") as file:
        file.write(lines)


def read_records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of a run's log, none where there is no log; an unfinished last line is left out."""
    return _records(folder / LOG_FILE)


def unnamed(folder: Path, skipped: Sequence[SkippedSample]) -> list[SkippedSample]:
    """Return those skipped samples that the run's folder does not name yet."""
    named = {(record.get("name"), record.get("reason")) for record in _records(folder / SKIPPED_FILE)}
    return [one for one in skipped if (one.name, one.reason) not in named]


def _is_up_to(record: dict[str, Any], step: int) -> bool:
    number = record.get("step", 0)
    return isinstance(number, (int, float)) and number <= step


def _records(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    records = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            records.append(record)
    return records


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
