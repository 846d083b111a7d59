"""The number of processes changes neither loss nor gradient: two over gloo against one that accumulates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training_data import make_region, read_log, read_state, tiny_run, write_base, write_data_dir, write_pool

from gravityocr.training.launch import run_training
from gravityocr.training.run_config import TrainConfig

CURVE = ("step", "samples", "loss", "ar", "diffusion", "gradient_norm", "n_samples", "n_tokens", "n_skipped")
AUXILIARY = ("glyph", "index", "guide")


def two_and_one(config: TrainConfig, folder: Path) -> tuple[Path, Path]:
    """Run in two processes of one row each, and in one that accumulates two rows."""
    folders = folder / "two", folder / "one"
    for out, n_processes, accumulation in ((folders[0], 2, 1), (folders[1], 1, 2)):
        settings = {"folder": str(out), "n_processes": n_processes, "accumulation": accumulation}
        assert run_training(replace(config, train=replace(config.train, **settings))) is not None
    return folders


def assert_same_run(two: Path, one: Path, n_steps: int, *more: str) -> None:
    """Compare the curves and the weights of two runs."""
    logs = read_log(two)[:-1], read_log(one)[:-1]
    assert len(logs[0]) == len(logs[1]) == n_steps
    for ours, theirs in zip(*logs, strict=True):
        for key in (*CURVE, *more):
            assert ours[key] == pytest.approx(theirs[key], rel=1e-5, abs=2e-6), (ours["step"], key)
    states = read_state(two), read_state(one)
    for name in ("n_samples", "n_tokens", "n_skipped"):
        assert states[0]["progress"][name] == states[1]["progress"][name]
    for name, value in states[1]["model"].items():
        torch.testing.assert_close(states[0]["model"][name], value, rtol=0, atol=1e-5, msg=name)


@pytest.mark.slow
def test_two_processes_train_on_a_pool_as_one_that_accumulates(tmp_path: Path) -> None:
    """Rows of one or two regions, some of which are broken: a process may have nothing left to train on."""
    regions = [make_region(number) for number in range(14)]
    for number in (1, 4, 5, 8):
        regions[number] = replace(regions[number], image=b"no picture")
    pool, base = write_pool(tmp_path / "pool", regions), write_base(tmp_path / "base")
    longest = 10 + 20 + 3 * (8 + 4)
    config = tiny_run(
        tmp_path, "train.steps=6", f"train.base={base}", f"data.pool={pool}", f"packing.row_tokens={longest}",
        "packing.open_rows=2", "optimizer.lr_decoder=1e-3", "optimizer.warmup=0.0", "validation.n_crops=1",
    )  # fmt: skip
    two, one = two_and_one(config, tmp_path)
    assert_same_run(two, one, 6)
    log = read_log(one)[:-1]
    assert sum(line["n_skipped"] for line in log) >= 2 and min(line["n_samples"] for line in log) <= 1
    named = [{(line["name"], line["step"]) for line in read_log(out, "skipped.jsonl")} for out in (two, one)]
    assert named[0] == named[1] and len(named[0]) == sum(line["n_skipped"] for line in log)


@pytest.mark.slow
def test_two_processes_train_on_synthetic_crops_as_one_that_accumulates(tmp_path: Path) -> None:
    """Each process draws crops of its own; auxiliary losses, frozen parts and the mean of the weights included."""
    data = tmp_path / "data"
    data.mkdir()
    config = tiny_run(
        tmp_path, "train.steps=3", f"data.folder={write_data_dir(data)}", "data.ramp_from=2.0", "train.ema=0.5",
        "noise.mask_schedule=mixed", "noise.random_offset=true", "optimizer.lr_decoder=1e-3", "optimizer.warmup=0.0",
        "glyphs.glyph_weight=0.7", "glyphs.index_weight=0.35", "glyphs.guide_weight=0.3", 'train.freeze=["lm_head"]',
        "train.vision_only=0.3", "validation.n_crops=1",
    )  # fmt: skip
    two, one = two_and_one(config, tmp_path)
    logs = read_log(two)[:-1], read_log(one)[:-1]
    assert [("ar" in line, "glyph" in line) for line in logs[0]] == [(False, True), (True, True), (True, True)]
    states = read_state(two), read_state(one)
    assert states[0]["progress"]["n_samples"] == states[1]["progress"]["n_samples"] == 12
    for ours, theirs in zip(*logs, strict=True):
        assert ours.keys() == theirs.keys()
        for key in (*CURVE, *AUXILIARY):
            if key in ours:
                assert ours[key] == pytest.approx(theirs[key], rel=1e-5, abs=2e-6), (ours["step"], key)
    for part in ("model", "heads"):
        for name, value in states[1][part].items():
            torch.testing.assert_close(states[0][part][name], value, rtol=0, atol=1e-5, msg=name)
    for name, value in states[1]["ema"]["mean"].items():
        torch.testing.assert_close(states[0]["ema"]["mean"][name], value, rtol=0, atol=1e-5, msg=name)
