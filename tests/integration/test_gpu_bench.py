"""The CPU path of benchmarks/gpu.sh: all parts write a measurement, what is made up says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks import gpu

from gravityocr.benchmark.report import read_measurements


@pytest.mark.slow
def test_a_dry_run_takes_the_whole_path(repo_root: Path, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    command = ["bash", str(repo_root / "benchmarks" / "gpu.sh"), "run", str(tmp_path), "--dry-run"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {one.file.stem: one for one in read_measurements([tmp_path])}
    assert set(found) == {"nano-equality", "nano-decode", "simulated-text", "simulated-table"}
    assert {name for name, one in found.items() if one.is_simulated} == {"simulated-text", "simulated-table"}
    assert all(row["identical_to_ar"] == 1.0 for row in found["nano-equality"].data["modes"].values())
    for name in ("simulated-text", "simulated-table"):
        sizes = found[name].data["sizes"]
        assert list(sizes) == ["1", "2"] and found[name].data["profile"]["name"].startswith("paper")
        assert [size["modes"]["ar"]["n_sequences"] for size in sizes.values()] == [2, 4]
        for size in sizes.values():
            assert all(row["identical_to_ar"] == 1.0 and row["simulated"] for row in size["modes"].values())
            assert size["modes"]["self-spec+fixed"]["n_accepted"] > 4.0


def test_the_random_network_walks_on_without_ties() -> None:
    checkpoint = gpu.random_checkpoint(gpu.TINY, "cpu")
    model = checkpoint.model
    tokens = torch.arange(130, 140)
    hidden = model.language_model.norm(model.language_model.embed_tokens(tokens))
    best = model.logits(hidden).topk(2).values
    assert torch.equal(model.logits(hidden).argmax(-1), tokens + 1)
    assert (best[:, 0] - best[:, 1]).min() > 1.0


def test_out_of_time_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = gpu.Parts(tmp_path, -1.0)
    parts.run("x", dict, "float32", "cpu", "nano")
    assert parts.left_out == ["x: out of time"] and not list(tmp_path.iterdir())
    parts = gpu.Parts(tmp_path, 60.0)

    def fail() -> dict[str, object]:
        raise RuntimeError("CUDA error: no memory\nmore")

    parts.run("y", fail, "float32", "cpu", "nano")
    parts.run("z", dict, "float32", "cpu", "nano")
    assert parts.left_out == ["y: RuntimeError: CUDA error: no memory"]
    assert json.loads((tmp_path / "z.json").read_text(encoding="utf-8"))["checkpoint"] == "nano"


def test_without_a_gpu_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(["--out", str(tmp_path / "out")]) == 2
    assert "--dry-run" in capsys.readouterr().err and not (tmp_path / "out").exists()
