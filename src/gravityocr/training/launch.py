"""Start a training run in one or several processes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing

from gravityocr.training.trainer import TrainConfig, Trainer


def run_training(config: TrainConfig) -> Path:
    """Train to the end and return the folder of the checkpoint.

    Processes average their gradients with gloo: on a CPU, two single-threaded processes beat one of two threads.
    """
    n_processes = config.run.n_processes
    if n_processes == 1:
        Trainer(config).train()
    else:
        with tempfile.TemporaryDirectory() as folder:
            multiprocessing.spawn(_worker, (config, f"file://{folder}/rendezvous"), nprocs=n_processes)
    return Path(config.run.folder) / "checkpoint"


def _worker(rank: int, config: TrainConfig, rendezvous: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rendezvous, rank=rank, world_size=config.run.n_processes)
    try:
        Trainer(config, rank).train()
    finally:
        dist.destroy_process_group()
