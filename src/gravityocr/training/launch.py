"""Start a training run in one or several processes."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing

from gravityocr.errors import GravityOCRError
from gravityocr.model.device import check_device
from gravityocr.training.run_config import TrainConfig
from gravityocr.training.run_log import read_records
from gravityocr.training.run_settings import changed_settings
from gravityocr.training.trainer import Trainer
from gravityocr.training.validation import held_out_crops
from gravityocr.training.writable import check_writable


def run_training(config: TrainConfig) -> dict[str, Any] | None:
    """Train to the end and return the last figures, with the folder of the checkpoint as `checkpoint`.

    Of several processes only the first one returns them.

    Under accelerate launch or torchrun this is one of the processes that they started. Else `train.n_processes` are
    started here: on a CPU, two single-threaded processes beat one of two threads.
    """
    run = config.train
    check_device(run.device)
    # Missing data, a folder that cannot be written and a broken base are told before any process starts.
    held_out_crops(config.data, config.validation)
    check_writable(Path(run.folder), f"train.folder {run.folder}")
    changed_settings(config)  # refuses another network
    if dist.is_torchelastic_launched() or run.n_processes == 1:
        trainer = Trainer(config)
        figures = trainer.train()
        if trainer.parallel.rank != 0:
            return None
    else:
        # What is wrong with the settings, the state or the data is told here, before any process starts.
        Trainer(replace(config, train=replace(run, n_processes=1)))
        try:
            multiprocessing.spawn(_worker, (config, free_port()), nprocs=run.n_processes)
        except (multiprocessing.ProcessRaisedException, multiprocessing.ProcessExitedException) as error:
            last = str(error).strip().splitlines()[-1]
            raise GravityOCRError(f"a training process failed: {last}") from error
        figures = read_records(Path(run.folder))[-1]
        if not any(name.startswith("val_") for name in figures):  # what ends a run that is not stopped
            raise KeyboardInterrupt
    return {**figures, "checkpoint": str(Path(run.folder) / "checkpoint")}


def free_port() -> int:
    """Return a port of this machine that nobody listens to."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _worker(rank: int, config: TrainConfig, port: int) -> None:
    from accelerate.utils import patch_environment

    torch.set_num_threads(1)
    n_processes = config.train.n_processes
    # What torchrun would tell a process of itself.
    with patch_environment(
        rank=rank, local_rank=rank, world_size=n_processes, local_world_size=n_processes, master_addr="127.0.0.1",
        master_port=port,
    ):  # fmt: skip
        trainer = Trainer(config)
        try:
            trainer.train()
        finally:
            trainer.parallel.close()
