"""Runs that `accelerate launch` starts, with the launch files that we ship: on gloo, against one process of ours.

Accelerate shares out neither weights nor optimiser states on CPUs; `tests.sharded_cpu` makes it believe in GPUs.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training_data import make_region, read_log, tiny_run, write_base, write_pool

from gravityocr.config import dump_config
from gravityocr.model.checkpoint import load_checkpoint
from gravityocr.training.launch import run_training
from gravityocr.training.run_config import TrainConfig

CURVE = ("step", "samples", "loss", "ar", "diffusion", "gradient_norm", "n_samples", "n_tokens")
DDP = """\
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
mixed_precision: 'no'
num_machines: 1
num_processes: 2
machine_rank: 0
use_cpu: true
"""


def broken_pool(folder: Path, *settings: str) -> TrainConfig:
    """Give a run over a pool some of whose rows hold no picture that can be read."""
    regions = [make_region(number) for number in range(14)]
    for number in (1, 4, 5, 8):
        regions[number] = replace(regions[number], image=b"no picture")
    pool, base = write_pool(folder / "pool", regions), write_base(folder / "base")
    longest = 10 + 20 + 3 * (8 + 4)
    return tiny_run(
        folder, "train.steps=6", f"train.base={base}", f"data.pool={pool}", f"packing.row_tokens={longest}",
        "packing.open_rows=2", "optimizer.lr_decoder=1e-3", "optimizer.warmup=0.0", "optimizer.clip_norm=0.7",
        "validation.n_crops=1", *settings,
    )  # fmt: skip


def run_of(config: TrainConfig, folder: Path, n_processes: int) -> TrainConfig:
    """Give a run two rows a step, of one process or shared by two."""
    return replace(
        config, train=replace(config.train, folder=str(folder), n_processes=n_processes, accumulation=2 // n_processes)
    )


def launch(config: TrainConfig, file: Path, root: Path, module: str) -> subprocess.CompletedProcess[str]:
    """Start two processes of a run as one would on a machine of two GPUs."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    folder = Path(config.train.folder)
    recipe = folder.with_suffix(".toml")
    recipe.write_text(dump_config(config), encoding="utf-8")
    command = [
        sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(file), "--num_machines", "1",
        "--num_processes", "2", "--main_process_ip", "127.0.0.1", "--main_process_port", str(port), "--module", module,
        "train", str(recipe),
    ]  # fmt: skip
    path = os.pathsep.join([str(root), *sys.path])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    if module != "gravityocr":
        env["ACCELERATE_TORCH_DEVICE"] = "cpu"
    return subprocess.run(command, env=env, cwd=root, capture_output=True, text=True, timeout=300, check=False)


def assert_same_run(ours: Path, theirs: Path) -> None:
    """Compare the curves, the crops that were read and the checkpoints."""
    logs = read_log(ours), read_log(theirs)
    assert len(logs[0]) == len(logs[1]) == 7
    for one, other in zip(*logs, strict=True):
        for key in CURVE:
            if key in other:
                assert one[key] == pytest.approx(other[key], rel=1e-5, abs=2e-6), (one["step"], key)
    assert logs[0][-1]["val_ned"] == pytest.approx(logs[1][-1]["val_ned"])
    networks = [load_checkpoint(folder / "checkpoint").model.state_dict() for folder in (ours, theirs)]
    for name, value in networks[1].items():  # saved in bf16
        torch.testing.assert_close(networks[0][name], value, rtol=0.01, atol=1e-4, msg=name)


@pytest.mark.slow
def test_two_launched_processes_train_as_two_that_we_start(tmp_path: Path, repo_root: Path) -> None:
    pytest.importorskip("accelerate", reason="the launcher; install the extra 'train'")
    config, file = broken_pool(tmp_path), tmp_path / "ddp.yaml"
    file.write_text(DDP, encoding="utf-8")
    launched = launch(run_of(config, tmp_path / "launched", 2), file, repo_root, "gravityocr")
    assert launched.returncode == 0, launched.stderr
    assert launched.stdout.split() == [str(tmp_path / "launched" / "checkpoint")]
    assert run_training(run_of(config, tmp_path / "ours", 2)) is not None
    assert_same_run(tmp_path / "launched", tmp_path / "ours")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "package"), [("fsdp2", "accelerate"), ("zero2", "deepspeed")])
def test_sharing_out_weights_and_optimizer_states_changes_nothing(
    name: str, package: str, tmp_path: Path, repo_root: Path
) -> None:
    """Rows without a sample included, in which a process would wait for the others for ever."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    config = broken_pool(tmp_path, 'train.freeze=["vision"]')
    shared, file = run_of(config, tmp_path / "shared", 2), repo_root / "recipes" / "paper-slurm" / f"{name}.yaml"
    launched = launch(shared, file, repo_root, "tests.sharded_cpu")
    assert launched.returncode == 0, launched.stderr
    assert run_training(run_of(config, tmp_path / "alone", 1)) is not None
    assert_same_run(tmp_path / "shared", tmp_path / "alone")
    assert min(line["n_samples"] for line in read_log(tmp_path / "alone")[:-1]) <= 1
