"""Whole training runs on synthetic crops and a tiny network: exact resume, log, checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.training_data import assert_equal_to_the_bit, read_log, read_state, tiny_run, write_data_dir
from torch import Tensor

from gravityocr.config import load_config
from gravityocr.decoding.prompts import DecodeOptions, decode_prompts
from gravityocr.errors import InputError
from gravityocr.model.checkpoint import load_checkpoint
from gravityocr.training.joint import RowData
from gravityocr.training.launch import run_training
from gravityocr.training.optimizer import rate_share, set_rates
from gravityocr.training.run_config import TrainConfig
from gravityocr.training.sources import SyntheticSource
from gravityocr.training.synthetic.shards import RenderedSample, write_shard
from gravityocr.training.synthetic.text_crops import TextCropRenderer
from gravityocr.training.trainer import Trainer


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_dir(tmp_path_factory.mktemp("data"))


def synthetic_run(folder: Path, data_dir: Path, *overrides: str) -> TrainConfig:
    """Give a run of six steps of two crops that passes the vision-only phase and the start of the ramp."""
    settings = [
        "train.steps=6", "train.vision_only=0.2", f"data.folder={data_dir}", "data.ramp_from=-1.0",
        "data.n_ramp_samples=8", "noise.mask_schedule=mixed", "noise.random_offset=true", "glyphs.glyph_weight=0.7",
        "glyphs.index_weight=0.35", "glyphs.guide_weight=0.3",
    ]  # fmt: skip
    return tiny_run(folder, *settings, *overrides)


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in ("elapsed_s", "tokens_per_s")}


class KilledError(Exception):
    """What ends a run in the middle."""


class KilledTrainer(Trainer):
    """A trainer that dies instead of running step 3."""

    def step(self, rows: Sequence[RowData]) -> dict[str, Any]:
        if self.progress.step == 3:
            raise KilledError
        return super().step(rows)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_killed_run_resumes_to_the_same_bits(tmp_path: Path, data_dir: Path, kind: str) -> None:
    whole = synthetic_run(tmp_path / "whole", data_dir, f"optimizer.kind={kind}")
    Trainer(whole).train()
    parts = synthetic_run(tmp_path / "parts", data_dir, f"optimizer.kind={kind}")
    with pytest.raises(KilledError):
        KilledTrainer(parts).train()
    assert read_state(tmp_path / "parts")["progress"]["step"] == 3
    torch.manual_seed(987)  # nothing may hang on torch's global generator
    resumed = Trainer(parts)
    assert resumed.progress.step == 3 and 0 < resumed.progress.difficulty(parts.data) < 1
    resumed.train()
    states = [read_state(tmp_path / name) for name in ("whole", "parts")]
    for state in states:
        assert state["progress"].pop("elapsed_s") > 0
        assert state["progress"]["step"] == 6 and state["progress"]["n_samples"] == 12
    assert_equal_to_the_bit(*states)
    logs = [[without_times(line) for line in read_log(tmp_path / name)] for name in ("whole", "parts")]
    assert [line for line in logs[1] if "resumed_from" in line] == [{"step": 3, "resumed_from": 3, "changed": []}]
    logs[1] = [line for line in logs[1] if "resumed_from" not in line]
    assert logs[0] == logs[1] and len(logs[0]) == 7, "the curve of the interrupted run is that of the whole one"
    start = Trainer(synthetic_run(tmp_path / "new", data_dir)).model.state_dict()
    assert not all(torch.equal(start[name], value) for name, value in states[0]["model"].items())


def test_a_finished_run_is_not_trained_further(tmp_path: Path, data_dir: Path) -> None:
    config = synthetic_run(tmp_path, data_dir, "train.steps=1")
    Trainer(config).train()
    before, files = read_state(tmp_path), {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    figures = Trainer(synthetic_run(tmp_path, data_dir, "train.steps=1", "loss.ar_weight=0.5")).train()
    assert_equal_to_the_bit(before, read_state(tmp_path))
    # Not even its settings: the card and config.toml say what it was trained with.
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == files
    assert figures["step"] == 1 and "val_tpf" in figures


class WatchedTrainer(Trainer):
    """A trainer that keeps what its steps were given and what they were trained with."""

    def step(self, rows: Sequence[RowData]) -> dict[str, Any]:
        self.seen = [*getattr(self, "seen", []), *rows]
        self.rates = [*getattr(self, "rates", []), self.optimizers[0].param_groups[0]["lr"]]
        return super().step(rows)


def test_every_step_draws_its_own_samples_at_its_own_rate(tmp_path: Path, data_dir: Path) -> None:
    config = synthetic_run(tmp_path, data_dir, "data.ramp_from=2.0", "train.seed=7")
    trainer = WatchedTrainer(config)
    trainer.train()
    source = trainer.source
    assert isinstance(source, SyntheticSource)
    for step, data in enumerate(trainer.seen):
        wanted = source.row([7, step, 0], 2, 0.0)
        for drawn, other in zip(data.samples, wanted.samples, strict=True):
            assert torch.equal(drawn.response, other.response)
            assert torch.equal(drawn.prompt.pixels, other.prompt.pixels)
    assert len({tuple(sample.response.tolist()) for data in trainer.seen for sample in data.samples}) > 6
    peak = trainer.optimizers[0].param_groups[0]["peak"]
    shares = [rate_share(step / 6, config.optimizer) for step in range(6)]
    assert trainer.rates == pytest.approx([peak * share for share in shares])
    assert shares[0] == 0 and max(shares) == 1 and 0 < shares[-1] < 1


def keep_gradients(trainer: Trainer) -> dict[str, Tensor]:
    """Return a dictionary that the trainer's next step fills with its gradients."""
    kept: dict[str, Tensor] = {}
    step = trainer.parallel.step

    def watched(clip_norm: float) -> float:
        kept.update({name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.grad is not None})
        return step(clip_norm)

    trainer.parallel.step = watched  # type: ignore[method-assign]
    return kept


def test_how_samples_are_spread_over_rows_changes_nothing(tmp_path: Path, data_dir: Path) -> None:
    """One row of six crops, or three of two crops that are accumulated: the same losses, gradients and weights."""
    plain = ["train.vision_only=0.0", "glyphs.glyph_weight=0.0", "glyphs.index_weight=0.0", "glyphs.guide_weight=0.0",
             "optimizer.clip_norm=1e6"]  # fmt: skip
    records, gradients = [], []
    for n_rows in (1, 3):
        config = synthetic_run(tmp_path / str(n_rows), data_dir, *plain, f"train.accumulation={n_rows}")
        trainer = Trainer(config)
        set_rates(trainer.parallel.optimizers, 1.0)
        source = trainer.source
        assert isinstance(source, SyntheticSource)
        samples = source.row([1], 6, 0.5).samples
        kept = keep_gradients(trainer)
        size = 6 // n_rows
        records.append(trainer.step([RowData(samples[i : i + size]) for i in range(0, 6, size)]))
        gradients.append(kept)
    assert records[0] == pytest.approx(records[1], rel=1e-5)
    assert gradients[0].keys() == gradients[1].keys() == dict(trainer.model.named_parameters()).keys()
    for name, value in gradients[0].items():
        torch.testing.assert_close(value, gradients[1][name], rtol=1e-5, atol=1e-6, msg=name)
    assert records[0]["n_samples"] == 6 and records[0]["n_tokens"] == sum(sample.n_tokens for sample in samples)


def test_loader_workers_draw_the_same_samples(tmp_path: Path, data_dir: Path) -> None:
    """As long as the difficulty stands still: workers read it ahead of the steps that they render."""
    for n_workers in (0, 1):
        overrides = ["train.steps=3", "data.ramp_from=2.0", f"train.n_workers={n_workers}"]
        Trainer(synthetic_run(tmp_path / str(n_workers), data_dir, *overrides)).train()
    states = [read_state(tmp_path / name) for name in ("0", "1")]
    assert_equal_to_the_bit(states[0]["model"], states[1]["model"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> tuple[Path, TrainConfig]:
    """Train once, in bf16 as shipped, for the tests that only read what a run leaves."""
    folder = tmp_path_factory.mktemp("run")
    config = synthetic_run(folder, data_dir, "train.bf16=true", "loss.ar_weight=0.5")
    figures = run_training(config)
    assert figures is not None and figures["checkpoint"] == str(folder / "checkpoint")
    assert figures["val_identical"] == 1.0 and figures["n_samples"] == 2 and figures["tokens_per_s"] > 0
    return folder, config


def test_the_log_is_one_json_object_a_line(run: tuple[Path, TrainConfig]) -> None:
    lines = read_log(run[0])
    steps, last = lines[:-1], lines[-1]
    assert [line["step"] for line in steps] == [1, 2, 3, 4, 5, 6]
    assert [line["samples"] for line in steps] == [2, 4, 6, 8, 10, 12]
    for line in steps:
        assert {"elapsed_s", "difficulty", "loss", "glyph", "index", "glyph_accuracy", "gradient_norm"} <= line.keys()
        assert all(np.isfinite(value) for value in line.values())
        assert ("ar" in line) == ("diffusion" in line) == ("guide" in line) == (line["step"] > 2)
    assert steps[0]["difficulty"] < steps[-1]["difficulty"] == 1.0
    assert {"val_ned", "val_tpf", "val_accepted", "val_identical", "val_example"} <= last.keys()
    assert last["val_identical"] == 1.0 and last["step"] == 6


def test_the_logged_loss_is_the_weighted_sum_of_its_parts(run: tuple[Path, TrainConfig]) -> None:
    lines = read_log(run[0])
    glyphs, loss = run[1].glyphs, run[1].loss
    for line in lines[2:-1]:
        joint = (loss.ar_weight * line["ar"] + loss.diffusion_weight * line["diffusion"]) / 1.5
        vision = glyphs.glyph_weight * line["glyph"] + glyphs.index_weight * line["index"]
        assert line["loss"] == pytest.approx(joint + vision + glyphs.guide_weight * line["guide"], abs=1e-3)
    vision_only = lines[0]
    assert vision_only["loss"] == pytest.approx(
        glyphs.glyph_weight * vision_only["glyph"] + glyphs.index_weight * vision_only["index"], abs=1e-3
    )


def test_the_run_writes_the_configuration_that_it_had(run: tuple[Path, TrainConfig]) -> None:
    assert load_config(TrainConfig, run[0] / "config.toml") == run[1]


def test_the_checkpoint_loads_and_reads(run: tuple[Path, TrainConfig], data_dir: Path) -> None:
    folder, config = run
    checkpoint = load_checkpoint(str(folder / "checkpoint"))
    assert checkpoint.model.config == config.network
    assert (checkpoint.diffusion.bd_size, checkpoint.diffusion.mask_schedule) == (4, "mixed")
    assert checkpoint.diffusion.ar_loss_weight == 0.5 and checkpoint.diffusion.tasks == ("text",)
    assert checkpoint.diffusion.mask_id == checkpoint.tokenizer.token_to_id("<|mask|>")
    assert checkpoint.stop_ids == {checkpoint.tokenizer.token_to_id("<|endoftext|>")}
    raw = json.loads((folder / "checkpoint" / "config.json").read_text(encoding="utf-8"))
    assert set(raw["text_config"]["eos_token_id"]) == checkpoint.stop_ids and raw["dtype"] == "bfloat16"
    trained = read_state(folder)["model"]
    for name, value in checkpoint.model.state_dict().items():
        assert torch.equal(value, trained[name].bfloat16().float()), name
    renderer = TextCropRenderer(data_dir, "heldout")
    crops = [renderer.sample(np.random.default_rng(i), 0.0) for i in range(3)]
    prompts = [checkpoint.prompts.build(Image.fromarray(crop.image)) for crop in crops]
    read = {
        mode: decode_prompts(
            checkpoint.model, prompts, DecodeOptions(checkpoint.diffusion.mask_id, checkpoint.stop_ids, 4, mode, 9)
        ).sequences
        for mode in ("ar", "self-spec")
    }
    assert [s.ids for s in read["ar"]] == [s.ids for s in read["self-spec"]]
    assert all(1 <= len(s.ids) <= 9 for s in read["ar"])


def test_training_lowers_the_loss(tmp_path: Path, data_dir: Path) -> None:
    """Sixteen steps on easy crops; the schedule, the gradients and the targets have to fit together for it."""
    overrides = ["train.steps=16", "train.vision_only=0.0", "data.ramp_from=2.0", "train.n_samples=3",
                 "optimizer.lr_decoder=1e-2", "optimizer.lr_vision=1e-2", "optimizer.warmup=0.1"]  # fmt: skip
    Trainer(synthetic_run(tmp_path, data_dir, *overrides)).train()
    lines = read_log(tmp_path)[:-1]
    for part in ("loss", "ar", "diffusion", "glyph"):
        assert np.mean([line[part] for line in lines[-3:]]) < 0.8 * np.mean([line[part] for line in lines[:2]]), part


def test_held_out_shards_of_no_use_are_told_before_training(tmp_path: Path, data_dir: Path) -> None:
    config = synthetic_run(tmp_path / "run", data_dir, f"validation.shards={tmp_path / 'held'}")
    image, centers = np.full((32, 64), 255, np.uint8), np.zeros((1, 2), np.float32)
    sample = RenderedSample("text", image, ("a",), centers, "test")
    for name in ("a", "b"):
        (tmp_path / "held" / name).mkdir(parents=True)
    write_shard(tmp_path / "held" / "a" / "lines.shard.npz", [])
    with pytest.raises(InputError, match=r"lines\.shard\.npz holds no crop that fits"):
        run_training(config)
    for name in ("a", "b"):
        write_shard(tmp_path / "held" / name / "lines.shard.npz", [sample])
    with pytest.raises(InputError, match="the name of another kind"):
        run_training(config)
    assert not (tmp_path / "run").exists()
