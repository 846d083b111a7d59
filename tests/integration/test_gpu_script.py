"""The CPU path of scripts/gpu_train.sh: train, shard, join, load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.training_data import write_data_dir

from gravityocr.document import Task
from gravityocr.model.checkpoint import load_checkpoint
from gravityocr.training.synthetic.shards import RenderedSample, write_shard


def _sample(task: Task, number: int) -> RenderedSample:
    """Return a crop of bars whose tokens lie under them."""
    image = np.full((32, 128), 255, dtype=np.uint8)
    image[8:26, 12 : 110 : 20 + number] = 0
    tokens = ("<tr>", "<td>", "l", "</td>", "</tr>") if task == "table" else ("l", "+", "1")
    centers = np.full((len(tokens), 2), np.nan, dtype=np.float32)
    centers[[i for i, token in enumerate(tokens) if len(token) == 1]] = 16.0
    return RenderedSample(task, image, tokens, centers, "test")


@pytest.mark.slow
def test_train_shard_join_load(repo_root: Path, tmp_path: Path) -> None:
    data, out, joined = tmp_path / "data", tmp_path / "out", tmp_path / "joined"
    data.mkdir()
    write_data_dir(data)
    tasks: dict[str, Task] = {"formulas": "formula", "math_text": "text", "tables": "table"}
    for kind, task in tasks.items():
        (data / "shards" / kind).mkdir(parents=True)
        write_shard(data / "shards" / kind / "a.shard.npz", [_sample(task, number) for number in range(3)])
    environment = os.environ | {
        "GPU_DATA": str(data), "DEVICE": "cpu", "BUDGET_S": "3", "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"
    }  # fmt: skip
    script = str(repo_root / "scripts" / "gpu_train.sh")
    for arguments in (["run", str(out)], ["join", str(out), str(joined)]):
        done = subprocess.run(["bash", script, *arguments], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    shards = sorted(out.glob("nano.tar.*"))
    assert shards and all(shard.stat().st_size <= 15 * 2**20 for shard in shards)
    assert (out / "log.jsonl").read_text(encoding="utf-8").count('"val_ned":') == 1
    assert load_checkpoint(str(joined / "checkpoint")).diffusion.tasks == ("text", "formula", "table")


def test_without_data_it_says_what_to_do(repo_root: Path, tmp_path: Path) -> None:
    environment = os.environ | {"GPU_DATA": str(tmp_path / "none")}
    script = str(repo_root / "scripts" / "gpu_train.sh")
    done = subprocess.run(["bash", script, "run", str(tmp_path)], env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "prepare" in done.stderr
