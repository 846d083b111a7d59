"""What a run's folder holds, whose it is, and what a run can go on from.

RUN/config.toml                 the settings, as they were resolved
RUN/states/checkpoint-<step>    what the run goes on from
RUN/best, RUN/checkpoint        weights; RUN/best.json and RUN/finished.json say of which step they are
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

from gravityocr.config import load_config
from gravityocr.errors import ConfigError, InputError
from gravityocr.rl.rl_config import RlConfig
from gravityocr.rl.trl_arguments import STATES_FOLDER
from gravityocr.training.corpora.shard_outputs import write_json

CONFIG_FILE = "config.toml"
BEST_FOLDER, LAST_FOLDER = "best", "checkpoint"
_MARKS = {BEST_FOLDER: "best.json", LAST_FOLDER: "finished.json"}
_OF_OTHERS = ("state.pt", "log.jsonl", BEST_FOLDER, LAST_FOLDER, "evaluations")


def check_folder(config: RlConfig) -> None:
    """Refuse a folder whose contents a run would overwrite, and do not belong to it.

    *Raises*: ConfigError where it holds another kind of run, results whose states are gone, or the start checkpoint.
    """
    folder, start = Path(config.rl.folder), Path(config.rl.checkpoint)
    remedy = "choose another rl.folder"
    if start.is_dir() and folder.resolve() in (start.resolve(), *start.resolve().parents):
        raise ConfigError(f"rl.checkpoint {start} lies in rl.folder {folder}, which the run writes to; {remedy}")
    if not any((folder / name).exists() for name in _OF_OTHERS):
        return
    try:
        load_config(RlConfig, folder / CONFIG_FILE)
    except ConfigError as error:
        raise ConfigError(f"rl.folder {folder} holds something else than a run of GRPO ({error}); {remedy}") from error
    if (folder / LAST_FOLDER).exists() and last_state(folder)[0] is None:
        what = f"rl.folder {folder} holds the results of a run whose {STATES_FOLDER}/ is gone or broken"
        raise ConfigError(f"{what}, so that it cannot go on; move {LAST_FOLDER}/ away, or {remedy}")


def last_state(folder: Path) -> tuple[Path | None, int, list[str]]:
    """Return the newest whole state of a run and its step, and what is wrong with newer ones; None and 0 for none."""
    found = {
        int(number): one
        for one in (folder / STATES_FOLDER).glob("checkpoint-*")
        if (number := one.name.removeprefix("checkpoint-")).isdecimal()
    }
    faults: list[str] = []
    for step in sorted(found, reverse=True):
        fault = _state_fault(found[step])
        if fault is None:
            return found[step], step, faults
        faults.append(f"{found[step]} is not whole ({fault})")
    return None, 0, faults


def _state_fault(state: Path) -> str | None:
    """Say why a state cannot be gone on from: a run can be killed while it writes one."""
    from safetensors import SafetensorError, safe_open

    weights = [*state.glob("*.safetensors")]
    archives = [state / "optimizer.pt", state / "scheduler.pt", *state.glob("rng_state*.pth")]
    for file in (state / "trainer_state.json", *archives):
        if not file.is_file():
            return f"no {file.name}"
    if not weights:
        return "no weights"
    for file in archives:
        if not zipfile.is_zipfile(file):
            return f"{file.name} is broken"
    try:
        json.loads((state / "trainer_state.json").read_text(encoding="utf-8"))
        for file in weights:
            with safe_open(str(file), framework="pt"):
                pass
    except (OSError, ValueError, SafetensorError) as error:
        return str(error)
    return None


def mark(folder: Path, name: str, step: int) -> None:
    """Note of which step the weights in `best` or `checkpoint` are."""
    write_json(folder / _MARKS[name], {"step": step})


def marked_step(folder: Path, name: str) -> int | None:
    """Return of which step the weights in `best` or `checkpoint` are; None where there are none."""
    file = folder / _MARKS[name]
    if not (folder / name).is_dir() or not file.is_file():
        return None
    try:
        step = json.loads(file.read_text(encoding="utf-8"))["step"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is broken ({error}); take it away, with {folder / name}") from error
    return int(step)


def drop(folder: Path, name: str) -> None:
    """Remove weights that belong to a step that was lost."""
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / _MARKS[name]).unlink(missing_ok=True)
