"""Whole runs that adapt a checkpoint to a pool of regions: resume, workers, trouble, every knob, the checkpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training_data import (
    EOS_ID,
    assert_equal_to_the_bit,
    make_region,
    read_log,
    read_state,
    tiny_run,
    write_base,
    write_pool,
)
from typer.testing import CliRunner

from gravityocr.cli import app
from gravityocr.config import dump_config
from gravityocr.decoding.prompts import DecodeOptions, decode_prompts
from gravityocr.errors import CheckpointError, ConfigError, InputError
from gravityocr.model.checkpoint import load_checkpoint
from gravityocr.training.joint import RowData, SkippedSample
from gravityocr.training.launch import run_training
from gravityocr.training.optimizer import part_of
from gravityocr.training.packing import Sample
from gravityocr.training.region_source import RegionSource
from gravityocr.training.run_config import TrainConfig
from gravityocr.training.run_settings import changed_settings
from gravityocr.training.trainer import Trainer

BROKEN = 4
N_REGIONS = 16


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a pool with one broken picture, and three regions that are known beforehand to be of no use."""
    regions = [make_region(number) for number in range(N_REGIONS)]
    regions[BROKEN] = replace(regions[BROKEN], image=b"no picture")
    regions += [
        make_region(30, target="", target_origin="pending"),
        make_region(31, n_characters=60),
        make_region(32, width_px=900, height_px=600),
    ]
    return write_pool(tmp_path_factory.mktemp("pool"), regions)


def pool_run(folder: Path, base: Path, pool: Path, *overrides: str) -> TrainConfig:
    """Give a run of four steps of one row of about four regions."""
    settings = [f"train.base={base}", f"data.pool={pool}", "packing.row_tokens=260", "packing.response_cap_tokens=40",
                "packing.open_rows=3"]  # fmt: skip
    return tiny_run(folder, *settings, *overrides)


def curve(folder: Path) -> list[dict[str, Any]]:
    """Return the log without what a clock decides, and without the marks of an interruption."""
    lines = [line for line in read_log(folder) if "resumed_from" not in line]
    return [{k: v for k, v in line.items() if k not in ("elapsed_s", "tokens_per_s")} for line in lines]


def progress_of(folder: Path) -> dict[str, Any]:
    return {key: value for key, value in read_state(folder)["progress"].items() if key != "elapsed_s"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, base: Path, pool: Path) -> tuple[Path, dict[str, Any]]:
    """Run over the pool more than once, in bf16 as shipped, with TensorBoard where it is installed."""
    folder = tmp_path_factory.mktemp("run")
    config = pool_run(folder, base, pool, "train.steps=8", "train.bf16=true", "loss.ar_weight=0.5",
                      "train.validate_every=3", "train.export_block_size=6")  # fmt: skip
    figures = run_training(config)
    assert figures is not None
    return folder, figures


def test_the_log_of_a_run(run: tuple[Path, dict[str, Any]]) -> None:
    lines = read_log(run[0])
    steps = [line for line in lines if "loss" in line]
    assert [line["step"] for line in steps] == [*range(1, 9)]
    for line in steps:
        assert "difficulty" not in line and line["n_samples"] >= 1 and 0 < line["n_tokens"] <= 260
        assert line["loss"] == pytest.approx((0.5 * line["ar"] + line["diffusion"]) / 1.5, abs=1e-3)
    assert [line["samples"] for line in steps][-1] == sum(line["n_samples"] for line in steps)
    read = [line for line in lines if "val_ned" in line]
    assert [line["step"] for line in read][:2] == [3, 6] and read[-1]["step"] == 8
    for kind in ("", "_table", "_formula"):  # the validation split, by task
        assert {f"val_{name}{kind}" for name in ("ned", "tpf", "accepted", "identical")} <= read[-1].keys()
        assert read[-1][f"val_identical{kind}"] == 1.0
    figures = run[1]
    assert figures["checkpoint"] == str(run[0] / "checkpoint") and figures["val_ned"] == pytest.approx(
        read[-1]["val_ned"], abs=1e-6
    )


def test_what_is_left_out_is_named_and_counted(run: tuple[Path, dict[str, Any]]) -> None:
    lines = read_log(run[0], "skipped.jsonl")
    before = {line["name"]: line["reason"] for line in lines if line["step"] == 0}
    assert before.keys() == {"made/30", "made/31", "made/32"}
    assert "no target yet" in before["made/30"] and "response_cap_tokens" in before["made/31"]
    assert "packing.row_tokens" in before["made/32"]
    later = [line for line in lines if line["step"] > 0]
    assert later and {line["name"] for line in later} == {f"made/{BROKEN}"}
    assert all("its picture is broken" in line["reason"] for line in later)
    counts = {line["step"]: line["n_skipped"] for line in read_log(run[0]) if line.get("n_skipped")}
    assert counts == {step: sum(line["step"] == step for line in later) for step in {line["step"] for line in later}}
    assert progress_of(run[0])["n_skipped"] == len(later)


def test_the_checkpoint_is_the_base_with_other_weights(run: tuple[Path, dict[str, Any]], base: Path) -> None:
    old, new = load_checkpoint(str(base)), load_checkpoint(run[1]["checkpoint"])
    assert new.model.config == old.model.config and new.stop_ids == old.stop_ids == {EOS_ID}
    assert new.tokenizer.to_str() == old.tokenizer.to_str() and new.prompts.spec == old.prompts.spec
    assert new.diffusion.mask_id == old.diffusion.mask_id and new.diffusion.tasks == old.diffusion.tasks
    assert (new.diffusion.bd_size, new.diffusion.ar_loss_weight, new.diffusion.mask_schedule) == (6, 0.5, "uniform")
    trained = read_state(run[0])["model"]
    for name, value in new.model.state_dict().items():
        assert torch.equal(value, trained[name].bfloat16().float()), name
    assert not torch.equal(trained["lm_head.weight"], old.model.lm_head.weight)


def test_the_checkpoint_reads_alike_in_stock_transformers_and_here(run: tuple[Path, dict[str, Any]]) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is the oracle; install the extra 'dev'")
    model, info = transformers.GlmOcrForConditionalGeneration.from_pretrained(
        run[1]["checkpoint"], dtype=torch.float32, output_loading_info=True
    )
    assert [key for kind in info for key in info[kind]] == []
    ours = load_checkpoint(run[1]["checkpoint"])
    regions = [make_region(9100 + number) for number in range(6)]
    prompts = [ours.prompts.build(region.picture(), region.task) for region in regions]
    read = {}
    for mode in ("ar", "self-spec"):
        options = DecodeOptions(ours.diffusion.mask_id, ours.stop_ids, 4, mode, 12)
        read[mode] = [one.ids for one in decode_prompts(ours.model, prompts, options).sequences]
    assert read["ar"] == read["self-spec"]
    for prompt, ids in zip(prompts, read["ar"], strict=True):
        model.model.rope_deltas = None
        kinds = prompt.is_image.long()[None]
        out = model.eval().generate(
            input_ids=prompt.ids[None], attention_mask=torch.ones_like(kinds), mm_token_type_ids=kinds,
            pixel_values=prompt.pixels, image_grid_thw=torch.tensor([[1, *prompt.grid]]), max_new_tokens=12,
            do_sample=False,
        )  # fmt: skip
        assert out[0, prompt.ids.numel() :].tolist() == [*ids]


class KilledError(Exception):
    """What ends a run in the middle."""


class KilledTrainer(Trainer):
    """A trainer that dies instead of running step 3."""

    def step(self, rows: Any) -> dict[str, Any]:
        if self.progress.step == 3:
            raise KilledError
        return super().step(rows)


def test_a_killed_run_resumes_to_the_same_bits(tmp_path: Path, base: Path, pool: Path) -> None:
    """The curve is that of the whole run: weights, optimiser, schedule, place in the plan, corruption."""
    overrides = ("train.steps=6", "train.accumulation=2", "train.ema=0.9", "noise.mask_schedule=mixed")
    Trainer(pool_run(tmp_path / "whole", base, pool, *overrides)).train()
    parts = pool_run(tmp_path / "parts", base, pool, *overrides)
    with pytest.raises(KilledError):
        KilledTrainer(parts).train()
    torch.manual_seed(987)  # nothing may hang on torch's global generator
    resumed = Trainer(parts)
    assert resumed.progress.step == 3
    resumed.train()
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")
    assert len({line["n_tokens"] for line in curve(tmp_path / "whole")[:-1]}) > 3, "every step has rows of its own"
    states = [read_state(tmp_path / name) for name in ("whole", "parts")]
    for state in states:
        state["progress"].pop("elapsed_s")
    assert_equal_to_the_bit(*states)
    assert read_log(tmp_path / "whole", "skipped.jsonl") != []


def test_loader_workers_change_nothing(tmp_path: Path, base: Path, pool: Path) -> None:
    for n_workers in (0, 2):
        Trainer(pool_run(tmp_path / str(n_workers), base, pool, f"train.n_workers={n_workers}")).train()
    assert curve(tmp_path / "0") == curve(tmp_path / "2")
    assert_equal_to_the_bit(read_state(tmp_path / "0")["model"], read_state(tmp_path / "2")["model"])
    named = [{(line["step"], line["name"]) for line in read_log(tmp_path / n, "skipped.jsonl")} for n in ("0", "2")]
    assert named[0] == named[1]


def poison(monkeypatch: pytest.MonkeyPatch, numbers: set[int] | None) -> None:
    """Let some regions, or all, have a pixel that is not finite."""
    sample = RegionSource.sample

    def poisoned(self: RegionSource, drawn: int) -> Sample | SkippedSample:
        made = sample(self, drawn)
        if isinstance(made, SkippedSample) or (numbers is not None and int(made.name.split("/")[1]) not in numbers):
            return made
        pixels = made.prompt.pixels.clone()
        pixels[0, 0] = torch.inf
        return replace(made, prompt=replace(made.prompt, pixels=pixels))

    monkeypatch.setattr(RegionSource, "sample", poisoned)


def test_a_sample_without_a_finite_loss_is_named_and_the_others_train(
    tmp_path: Path, base: Path, pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, {1, 9})
    Trainer(pool_run(tmp_path, base, pool, "train.steps=8")).train()
    told = [line for line in read_log(tmp_path, "skipped.jsonl") if line["reason"] == "its loss is not finite"]
    assert {line["name"] for line in told} == {"made/1", "made/9"}
    steps = [line for line in read_log(tmp_path) if "loss" in line]
    assert len(steps) == 8
    for line in steps:
        assert line["loss"] > 0 and line["gradient_norm"] > 0 and line["loss"] < 100
    assert sum(line["n_skipped"] for line in steps) == progress_of(tmp_path)["n_skipped"] >= len(told)
    assert all(value.isfinite().all() for value in read_state(tmp_path)["model"].values())


def test_a_bad_sample_leaves_the_gradient_of_the_others(tmp_path: Path, base: Path, pool: Path) -> None:
    """Their gradient keeps its direction; its means are over targets that the bad sample was counted into."""
    records, gradients = [], []
    for name, bad in (("with", True), ("without", False)):
        trainer = Trainer(pool_run(tmp_path / name, base, pool))
        source = trainer.source
        assert isinstance(source, RegionSource)
        samples = [made for made in map(source.sample, (0, 1, 2)) if isinstance(made, Sample)]
        if bad:
            pixels = torch.full_like(samples[1].prompt.pixels, torch.nan)
            samples[1] = replace(samples[1], prompt=replace(samples[1].prompt, pixels=pixels))
        else:
            del samples[1]
        step = trainer.parallel.step

        def watched(clip_norm: float, trainer: Trainer = trainer, step: Any = step) -> float:
            gradients.append(torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None]))
            return step(clip_norm)

        trainer.parallel.step = watched  # type: ignore[method-assign]
        records.append(trainer.step([RowData(tuple(samples))]))
    assert records[0]["n_skipped"] == 1 and records[1]["n_skipped"] == 0
    assert 0 < records[0]["loss"] < records[1]["loss"]
    assert gradients[0].isfinite().all()
    assert float(torch.cosine_similarity(*gradients, dim=0)) > 0.99


@pytest.mark.parametrize(
    ("weight", "row_tokens", "words"),
    [
        (torch.nan, 260, "so the weights are broken"),
        (torch.nan, 54, "so the weights are broken"),
        (3e38, 260, "so the weights are broken"),  # finite, but no logit is
        (3e38, 54, "20 steps in a row had no gradient"),
    ],
)
def test_broken_weights_end_a_run_with_a_clear_error(
    tmp_path: Path, base: Path, pool: Path, weight: float, row_tokens: int, words: str
) -> None:
    """At once where it is plain that not the samples are to blame, else after some steps that train nothing."""
    trainer = Trainer(pool_run(tmp_path, base, pool, f"packing.row_tokens={row_tokens}", "train.steps=40",
                               "train.save_every_s=1000"))  # fmt: skip
    with torch.no_grad():
        trainer.model.lm_head.weight.fill_(weight)
    with pytest.raises(CheckpointError, match=rf"step \d+: .*{words}.*learning rate"):
        trainer.train()


def test_a_pool_or_folder_of_no_use_is_told_before_training(tmp_path: Path, base: Path, pool: Path) -> None:
    (tmp_path / "file").write_text("a file", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"train\.folder .* cannot be written"):
        run_training(pool_run(tmp_path / "file", base, pool))
    with pytest.raises(InputError, match="make the pool with gravityocr data pool"):
        run_training(pool_run(tmp_path / "run", base, tmp_path / "none"))
    with pytest.raises(CheckpointError, match="nowhere"):
        run_training(pool_run(tmp_path / "run", tmp_path / "nowhere", pool))


def test_frozen_parts_stay_as_they_are(tmp_path: Path, base: Path, pool: Path) -> None:
    Trainer(pool_run(tmp_path, base, pool, 'train.freeze=["vision", "lm_head"]', "train.steps=2")).train()
    assert changed_parts(tmp_path, base) == {"merger", "embeddings", "decoder"}


def test_each_part_learns_at_its_own_rate(tmp_path: Path, base: Path, pool: Path) -> None:
    rates = ("optimizer.lr_vision=0", "optimizer.lr_merger=1e-3", "optimizer.lr_embeddings=0", "optimizer.lr_lm_head=0")
    Trainer(pool_run(tmp_path, base, pool, *rates, "train.steps=3")).train()
    assert changed_parts(tmp_path, base) == {"merger", "decoder"}


def changed_parts(folder: Path, base: Path) -> set[str]:
    old, new = load_checkpoint(str(base)).model.state_dict(), read_state(folder)["model"]
    assert old.keys() == new.keys()
    return {part_of(name) for name, value in new.items() if not torch.equal(value, old[name])}


def test_the_ar_loss_may_be_off(tmp_path: Path, base: Path, pool: Path) -> None:
    Trainer(pool_run(tmp_path, base, pool, "loss.ar_weight=0")).train()
    steps = [line for line in read_log(tmp_path) if "loss" in line]
    assert all(line["loss"] == pytest.approx(line["diffusion"], rel=1e-5) and line["ar"] > 0 for line in steps)
    assert load_checkpoint(str(tmp_path / "checkpoint")).diffusion.ar_loss_weight == 0.0


def test_the_eos_fill_may_be_off(tmp_path: Path, base: Path, pool: Path) -> None:
    config = pool_run(tmp_path, base, pool, "noise.eos_fill=false")
    trainer = Trainer(config)
    source = trainer.source
    assert isinstance(source, RegionSource)
    planned = next(source.plan())
    sizes = [int(source.index.n_prefix[i]) + 3 * (int(source.index.n_response[i]) + 1) for i in planned.samples]
    assert planned.n_tokens == sum(sizes)
    trainer.train()
    assert len(read_log(tmp_path)) == 5


@pytest.mark.parametrize("other", ["train.activation_checkpointing=true", "train.attention=dense"])
def test_ways_of_computing_change_no_step(tmp_path: Path, base: Path, pool: Path, other: str) -> None:
    overrides = ("optimizer.lr_decoder=1e-3", "train.steps=3", "validation.n_crops=1")
    for name, more in (("one", ()), ("other", (other,))):
        Trainer(pool_run(tmp_path / name, base, pool, *overrides, *more)).train()
    for ours, theirs in zip(curve(tmp_path / "one")[:-1], curve(tmp_path / "other")[:-1], strict=True):
        for key in ("loss", "ar", "diffusion", "gradient_norm", "n_tokens"):
            assert ours[key] == pytest.approx(theirs[key], rel=1e-5, abs=2e-6), key


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("glyphs.glyph_weight=0.5",), "glyphs: regions of data.pool have no places of glyphs"),
        (("train.start_from=nano",), "train.base and train.start_from exclude each other"),
        (("train.vision_only=0.5",), "set glyphs.glyph_weight above 0"),
        (('train.freeze=["vision","merger","embeddings","decoder","lm_head"]',), "leave one to be trained"),
    ],
)
def test_settings_that_do_not_go_together_are_named(
    tmp_path: Path, base: Path, pool: Path, overrides: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        pool_run(tmp_path, base, pool, *overrides)


def test_another_base_needs_another_folder(tmp_path: Path, base: Path, pool: Path) -> None:
    config = pool_run(tmp_path, base, pool)
    assert changed_settings(config) == []
    (tmp_path / "config.toml").write_text(dump_config(config), encoding="utf-8")
    assert changed_settings(pool_run(tmp_path, base, pool, "optimizer.lr_decoder=1e-5")) == [
        "optimizer.lr_decoder: 0.003 -> 1e-05"
    ]
    with pytest.raises(ConfigError, match="has another network"):
        changed_settings(pool_run(tmp_path, Path("nano"), pool))


def test_the_command_line_trains_and_prints_its_figures(tmp_path: Path, base: Path, pool: Path) -> None:
    """What it prints is JSON alone; TensorBoard has the curve where it is asked for."""
    pytest.importorskip("tensorboard", reason="tensorboard is in the extra 'train'")
    recipe = tmp_path / "recipe.toml"
    config = pool_run(tmp_path / "run", base, pool, "train.tensorboard=true", "train.steps=9", "validation.n_crops=1")
    recipe.write_text(dump_config(config), encoding="utf-8")
    result = CliRunner().invoke(app, ["train", str(recipe), "--set", "train.steps=2", "--json"])
    assert result.exception is None, result.output
    figures = json.loads(result.stdout)
    assert figures["checkpoint"] == str(tmp_path / "run" / "checkpoint")
    assert {"loss", "ar", "diffusion", "tokens_per_s", "waste", "n_samples", "val_ned", "val_tpf"} <= figures.keys()
    assert load_checkpoint(figures["checkpoint"]).diffusion.tasks == ("text", "formula", "table")
    assert [line["step"] for line in read_log(tmp_path / "run")] == [1, 2, 2]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert {"loss", "ar", "diffusion", "gradient_norm", "validation/ned"} <= set(events.Tags()["scalars"])
    assert [one.step for one in events.Scalars("loss")] == [1, 2]
    again = CliRunner().invoke(app, ["train", str(recipe), "--set", "train.steps=3"])
    assert again.exception is None and again.stdout.strip() == figures["checkpoint"]
    assert read_state(tmp_path / "run")["progress"]["step"] == 3
