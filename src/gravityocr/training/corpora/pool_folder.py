"""The folder of a pool: whether it is finished, goes on, or may be begun anew."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gravityocr.errors import ConfigError
from gravityocr.training.corpora.region_shards import SUFFIX
from gravityocr.training.corpora.shard_outputs import write_json
from gravityocr.training.corpora.unwritable import tokenizer_of

REPORT = "pool.json"
SPLITS = ("train", "validation")
UNFINISHED = ".unfinished"
_INDEX_SETTINGS = ("filters", "n_examples", "checkpoint")


@dataclass(frozen=True)
class PoolStamp:
    """What a pool is made of: its settings, files with sizes and times, and the tokenizer that it is made for."""

    settings: dict[str, Any]
    inputs: list[list[Any]]
    tokenizer: str | None

    @classmethod
    def of(cls, files: Sequence[Path], settings: dict[str, Any], checkpoint: str | None) -> PoolStamp:
        """Look at the files and the checkpoint.

        *Raises*: CheckpointError where there is none.
        """
        stats = [(file, file.stat()) for file in files]
        inputs = [[str(file), stat.st_size, stat.st_mtime_ns] for file, stat in stats]
        written = tokenizer_of(checkpoint).to_str() if checkpoint is not None else None
        return cls(settings, inputs, hashlib.sha256(written.encode("utf-8")).hexdigest() if written else None)

    @property
    def mark(self) -> str:
        """Return a few characters that stand for all of it."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.blake2b(text.encode("utf-8"), digest_size=16).hexdigest()

    def same_index(self, record: dict[str, Any]) -> bool:
        """Tell whether the filtered index of another stamp, as `run.json` has it, holds for this one."""
        mine, settings = asdict(self), record.get("settings", {})
        same_files = all(record.get(name) == mine[name] for name in ("inputs", "tokenizer"))
        return same_files and all(settings.get(name) == self.settings.get(name) for name in _INDEX_SETTINGS)


def finished_report(out: Path, stamp: PoolStamp) -> dict[str, Any] | None:
    """Return the report of the pool in a folder where the stamp says that it is just that; None where there is none.

    *Raises*: ConfigError where the folder holds a finished pool of other inputs or settings, or lacks shards of it.
    """
    file = out / REPORT
    if not file.exists():
        return None
    report = _read_json(file)
    remedy = "choose another --out, or give --overwrite to make it anew"
    # A pool that went through decontamination keeps its report, but is no longer what the inputs give.
    if report.get("made_of") != stamp.mark or "decontamination" in report:
        raise ConfigError(f"{out} holds a finished pool of other inputs or settings; {remedy}")
    for split in SPLITS:
        n_wanted = math.ceil(report["splits"][split]["n_regions"] / stamp.settings["shard_regions"])
        if len([*(out / split).glob(f"*{SUFFIX}")]) != n_wanted:
            raise ConfigError(f"{out / split} lacks shards of the finished pool; {remedy}")
    shutil.rmtree(out / UNFINISHED, ignore_errors=True)
    return report


def prepare_folder(out: Path, stamp: PoolStamp, *, overwrite: bool) -> Path:
    """Make the folder of an unfinished pool, or find it again; return it.

    Where other settings left nothing but the filtered index, the pool is begun anew, with that index if it holds.

    *Raises*: ConfigError where an unfinished pool of other settings has come farther, or nothing can be written.
    """
    work = out / UNFINISHED
    if overwrite:
        _refuse_strangers(out)
        for name in (*SPLITS, UNFINISHED):
            shutil.rmtree(out / name, ignore_errors=True)
        (out / REPORT).unlink(missing_ok=True)
    note = work / "run.json"
    if note.exists():
        record = _read_json(note)
        if record == asdict(stamp):
            return work
        if any(not one.name.endswith(".part") for one in (work / "scatter").glob("*")):
            remedy = "give the same inputs and settings to go on, or --overwrite to begin anew"
            raise ConfigError(f"{out} holds an unfinished pool of other inputs or settings; {remedy}")
        shutil.rmtree(work / "scatter", ignore_errors=True)
        if not stamp.same_index(record):
            shutil.rmtree(work / "index", ignore_errors=True)
    else:
        taken = [name for name in SPLITS if (out / name).exists()]
        if taken:
            raise ConfigError(f"{out / taken[0]} is there already and no part of a pool; choose another --out")
    try:
        (work / "index").mkdir(parents=True, exist_ok=True)
        (work / "scatter").mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be written ({error.strerror}); choose another folder") from error
    write_json(note, asdict(stamp))
    return work


def _refuse_strangers(out: Path) -> None:
    """Check that nothing but region files would be overwritten.

    *Raises*: ConfigError naming what no pool holds.
    """
    parts = (SUFFIX, f"{SUFFIX}.part")
    for split in SPLITS:
        strangers = [one for one in (out / split).rglob("*") if not one.is_dir() and not one.name.endswith(parts)]
        if strangers:
            raise ConfigError(f"{strangers[0]} is no part of a pool; remove it yourself, or choose another --out")


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{file} is broken ({error}); give --overwrite to make the pool anew") from error
    return content if isinstance(content, dict) else {}
