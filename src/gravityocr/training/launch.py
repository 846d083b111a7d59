"""Start a training run in one or several processes."""

from __future__ import annotations

import difflib
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing

from gravityocr.config import dump_config, load_config
from gravityocr.errors import ConfigError
from gravityocr.training.synthetic.text_crops import TextCropRenderer
from gravityocr.training.trainer import TrainConfig, Trainer


def run_training(config: TrainConfig) -> Path:
    """Train to the end and return the folder of the checkpoint.

    Processes average their gradients with gloo: on a CPU, two single-threaded processes beat one of two threads.
    """
    for split in ("train", "heldout"):  # missing data is told before any process starts
        TextCropRenderer(Path(config.data.folder), split, config.data.crops)
    n_processes = config.run.n_processes
    if n_processes == 1:
        Trainer(config).train()
    else:
        with tempfile.TemporaryDirectory() as folder:
            multiprocessing.spawn(_worker, (config, f"file://{folder}/rendezvous"), nprocs=n_processes)
    return Path(config.run.folder) / "checkpoint"


def changed_settings(config: TrainConfig) -> list[str]:
    """Return what differs from the settings that this run's folder was last trained with.

    *Raises*: ConfigError where the network differs: its weights would not fit.
    """
    file = Path(config.run.folder) / "config.toml"
    if not file.is_file():
        return []
    before = load_config(TrainConfig, file)
    if before.network != config.network:
        raise ConfigError(f"{file} has another network; choose another run.folder, or remove that one")
    old, new = (dump_config(one).splitlines() for one in (before, config))
    changes = difflib.unified_diff(old, new, lineterm="", n=0)
    return [line for line in changes if line[:1] in "+-" and line[1:2].isalpha()]


def _worker(rank: int, config: TrainConfig, rendezvous: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rendezvous, rank=rank, world_size=config.run.n_processes)
    try:
        Trainer(config, rank).train()
    finally:
        dist.destroy_process_group()
