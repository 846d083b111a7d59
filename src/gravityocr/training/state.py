"""The saved state of a run: all that makes an interrupted run go on as if nothing had happened.

Randomness needs no state: every draw is seeded by the run's seed and the number of the step or sample.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import torch

from gravityocr.errors import CheckpointError, ConfigError, InputError
from gravityocr.training.run_config import Progress
from gravityocr.training.run_settings import changed_settings
from gravityocr.training.warm_start import STATE_ERRORS

if TYPE_CHECKING:
    from gravityocr.training.trainer import Trainer

STATE_FILE = "state.pt"
LOCK_FILE = ".lock"
SHARDS_FOLDER = "state-shards"


def save_state(trainer: Trainer) -> None:
    """Write the whole state, atomically; every process has to call it."""
    parallel = trainer.parallel
    state: dict[str, Any] = {"progress": vars(trainer.progress)}
    if parallel.sharded:
        # Two folders take turns, so that a run that dies while it writes still has the one before.
        shards = f"{SHARDS_FOLDER}-{trainer.progress.step % 2}"
        parallel.save_shards(trainer.folder / shards)
        parallel.wait()
        state |= {"shards": shards, "sharded": parallel.sharded, "n_processes": parallel.world}
    else:
        heads = trainer.module.heads
        state["model"] = trainer.model.state_dict()
        state["heads"] = heads.state_dict() if heads is not None else {}
        state["optimizers"] = [optimizer.state_dict() for optimizer in trainer.optimizers]
    if trainer.ema:
        state["ema"] = trainer.ema.state_dict()
    if parallel.rank == 0:
        trainer.folder.mkdir(parents=True, exist_ok=True)
        _write(state, trainer.folder / STATE_FILE)
    parallel.wait()


def _write(state: dict[str, Any], file: Path) -> None:
    temporary = file.with_name(f"{file.name}.part")
    try:
        torch.save(state, temporary)
        temporary.replace(file)
    except (OSError, RuntimeError) as error:  # torch's own writer knows no OSError
        temporary.unlink(missing_ok=True)
        what = str(error).strip().splitlines()[0]
        raise InputError(f"{file} cannot be written ({what}); make room, then start again") from error


def lock_folder(folder: Path, setting: str = "train.folder") -> TextIO:
    """Keep a second run out of a run's folder for as long as the returned file is open.

    *Raises*: ConfigError where a run is in it.
    """
    file = (folder / LOCK_FILE).open("w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise ConfigError(f"another run trains in {folder}; wait for it, or choose another {setting}") from error
    return file


def load_state(trainer: Trainer) -> None:
    """Take up the state in the run's folder, if there is one.

    *Raises*: CheckpointError where it is broken or that of another run.
    """
    file = trainer.folder / STATE_FILE
    if not file.exists():
        return
    try:
        _take(trainer, torch.load(file, map_location="cpu", weights_only=True), file.parent)
    except STATE_ERRORS as error:
        lines = (str(error).strip() or type(error).__name__).splitlines()
        what = " ".join(" ".join(lines[:2]).split())[:160]
        fitting = ("train.freeze", "optimizer.kind")
        changed = [one for one in changed_settings(trainer.config) if one.startswith(fitting)]
        if changed:
            raise CheckpointError(
                f"{file} does not fit other settings ({'; '.join(changed)}); go on with those of before, or choose "
                f"another train.folder and begin from {file.parent / 'checkpoint'} with train.base"
            ) from error
        raise CheckpointError(
            f"{file} is not the state of this run ({what}); remove it, or choose another train.folder"
        ) from error


def _take(trainer: Trainer, state: dict[str, Any], folder: Path) -> None:
    optimizers = trainer.parallel.optimizers
    # The state is the run's, the settings are the config's, which may have changed since.
    settings = [
        [{k: v for k, v in group.items() if k not in ("params", "lr")} for group in optimizer.param_groups]
        for optimizer in optimizers
    ]
    if trainer.parallel.sharded:
        if (state["sharded"], state["n_processes"]) != (trainer.parallel.sharded, trainer.parallel.world):
            raise ValueError(f"{state['n_processes']} processes of {state['sharded']} saved it, and must go on with it")
        trainer.parallel.load_shards(folder / state["shards"])
    else:
        trainer.model.load_state_dict(state["model"])
        if trainer.module.heads is not None:
            trainer.module.heads.load_state_dict(state["heads"])
        for own, saved in zip(trainer.optimizers, state["optimizers"], strict=True):
            own.load_state_dict(saved)
    for optimizer, groups in zip(optimizers, settings, strict=True):
        for group, kept in zip(optimizer.param_groups, groups, strict=True):
            group.update(kept)
    if trainer.ema and "ema" in state:
        trainer.ema.load_state_dict(state["ema"])
    trainer.progress = Progress(**state["progress"])
