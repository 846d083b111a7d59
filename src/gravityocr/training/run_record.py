"""What the folder of a training run says of it: settings, log, and the samples that were left out."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gravityocr.errors import InputError
from gravityocr.training.run_log import LOG_FILE, SKIPPED_FILE

CONFIG_FILE = "config.toml"
# What a reason says of one sample alone: its name, sizes and characters.
_OF_ONE = re.compile(r"^region \S+: | of \d+( forward)? tokens| \(\d+ x \d+ px\)|: it lacks .*")


@dataclass(frozen=True)
class RunRecord:
    """What the folder of a training run says.

    `last` is the log's last record that counts samples, `validation` that of the last validation, `changes` the steps
    from which the run went on with other settings, and these; `skipped` gives the reason for each sample left out.
    """

    config_text: str
    config: dict[str, Any]
    last: dict[str, Any]
    validation: dict[str, Any]
    changes: tuple[tuple[int, tuple[str, ...]], ...]
    skipped: dict[str, str]

    def section(self, name: str) -> dict[str, Any]:
        """Return a section of the settings, empty where it is not there."""
        found = self.config.get(name, {})
        return found if isinstance(found, dict) else {}


def read_run(folder: Path) -> RunRecord:
    """Read a run's folder.

    *Raises*: InputError where it lacks config.toml or log.jsonl, or they are broken.
    """
    try:
        text = (folder / CONFIG_FILE).read_text(encoding="utf-8")
        config = tomllib.loads(text)
        records = _lines(folder / LOG_FILE)
        skipped = _lines(folder / SKIPPED_FILE) if (folder / SKIPPED_FILE).is_file() else []
    except OSError as error:
        what = f"{folder} is no folder of a training run ({error.strerror}: {error.filename})"
        raise InputError(f"{what}; give the one that holds {CONFIG_FILE} and {LOG_FILE}") from error
    except ValueError as error:  # TOML's errors and UnicodeDecodeError
        raise InputError(f"{folder / CONFIG_FILE} or {LOG_FILE} is broken: {error}") from error
    validations = [record for record in records if any(name.startswith("val_") for name in record)]
    counting = [record for record in records if "samples" in record]
    return RunRecord(
        text, config, (counting or records or [{}])[-1], (validations or [{}])[-1], _changes(records),
        {str(one.get("name")): str(one.get("reason")) for one in skipped},
    )  # fmt: skip


def reason_kind(reason: str) -> str:
    """Return the reason for leaving a sample out without what tells it from others left out for the same."""
    return _OF_ONE.sub("", reason)


def _changes(records: Sequence[Mapping[str, Any]]) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return the steps from which a run went on with other settings, and these."""
    return tuple(
        (record["resumed_from"], tuple(map(str, record["changed"])))
        for record in records
        if type(record.get("resumed_from")) is int and isinstance(record.get("changed"), list) and record["changed"]
    )


def _lines(file: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines but for those that a stopped run left unfinished."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [record for line in lines if (record := _record(line)) is not None]


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
