"""The saved state of a run: all that makes an interrupted run go on as if nothing had happened.

Randomness needs no state: every draw is seeded by the run's seed and the number of the step or sample.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gravityocr.errors import CheckpointError
from gravityocr.training.run_config import Progress
from gravityocr.training.warm_start import STATE_ERRORS

if TYPE_CHECKING:
    from gravityocr.training.trainer import Trainer

STATE_FILE = "state.pt"
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
        state["shards"] = shards
    else:
        heads = trainer.module.heads
        state["model"] = trainer.model.state_dict()
        state["heads"] = heads.state_dict() if heads is not None else {}
        state["optimizers"] = [optimizer.state_dict() for optimizer in trainer.optimizers]
    if trainer.ema:
        state["ema"] = trainer.ema.state_dict()
    if parallel.rank == 0:
        trainer.folder.mkdir(parents=True, exist_ok=True)
        temporary = trainer.folder / f"{STATE_FILE}.part"
        torch.save(state, temporary)
        temporary.replace(trainer.folder / STATE_FILE)
    parallel.wait()


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
        what = (str(error).strip() or type(error).__name__).splitlines()[0]
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
