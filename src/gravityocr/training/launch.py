"""Start a training run in one or several processes."""

from __future__ import annotations

import difflib
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing

from gravityocr.config import dump_config, load_config
from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.model.device import check_device
from gravityocr.training.run_config import TrainConfig
from gravityocr.training.trainer import Trainer
from gravityocr.training.validation import held_out_crops


def run_training(config: TrainConfig) -> Path:
    """Train to the end and return the folder of the checkpoint.

    Processes average their gradients with gloo: on a CPU, two single-threaded processes beat one of two threads.
    """
    check_device(config.run.device)
    # Missing data, a folder that cannot be written and a broken state are told before any process starts.
    held_out_crops(config.data, config.validation)
    check_writable(Path(config.run.folder), "run.folder")
    trainer = Trainer(config)
    n_processes = config.run.n_processes
    if n_processes == 1:
        trainer.train()
    else:
        del trainer
        with tempfile.TemporaryDirectory() as folder:
            try:
                multiprocessing.spawn(_worker, (config, f"file://{folder}/rendezvous"), nprocs=n_processes)
            except (multiprocessing.ProcessRaisedException, multiprocessing.ProcessExitedException) as error:
                last = str(error).strip().splitlines()[-1]
                raise GravityOCRError(f"a training process failed: {last}") from error
    return Path(config.run.folder) / "checkpoint"


def check_writable(folder: Path, setting: str) -> None:
    """Make the folder that a setting names.

    *Raises*: ConfigError where nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"{setting} {folder} cannot be written ({error.strerror}); choose another") from error


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
