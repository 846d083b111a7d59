"""The sample stream: a function of its seed, with exact labels; and the run's configuration file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training_data import EOS_ID, PROMPTS, TOKENIZER, write_data_dir

from gravityocr.config import dump_config, load_config
from gravityocr.errors import CheckpointError, ConfigError
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.sources import DataConfig, StepData, SyntheticSource, encode_characters
from gravityocr.training.trainer import Progress, TrainConfig

NOISE = NoiseConfig(4, "mixed", random_offset=True)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_dir(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def source(data_dir: Path) -> SyntheticSource:
    return SyntheticSource(DataConfig(str(data_dir)), PROMPTS, NOISE, EOS_ID)


def same(one: StepData, other: StepData) -> bool:
    return all(
        torch.equal(a.response, b.response)
        and torch.equal(a.prompt.pixels, b.prompt.pixels)
        and torch.equal(a.corruption.block, b.corruption.block)
        and all(torch.equal(x, y) for x, y in zip(a.corruption.masked, b.corruption.masked, strict=True))
        for a, b in zip(one.samples, other.samples, strict=True)
    )


def test_a_step_is_a_function_of_its_seed(source: SyntheticSource, data_dir: Path) -> None:
    fresh = SyntheticSource(DataConfig(str(data_dir)), PROMPTS, NOISE, EOS_ID)
    source.step([9, 9, 9], 3, 1.0)
    assert same(source.step([0, 5, 1], 4, 0.8), fresh.step([0, 5, 1], 4, 0.8))
    for seed in ([1, 5, 1], [0, 6, 1], [0, 5, 0]):  # the run's seed, the step, the process
        assert not same(source.step([0, 5, 1], 4, 0.8), source.step(seed, 4, 0.8))


@pytest.mark.parametrize("difficulty", [0.0, 1.0])
def test_labels_are_exact(source: SyntheticSource, difficulty: float) -> None:
    data = source.step([3], 12, difficulty)
    for i, (sample, truth) in enumerate(zip(data.samples, data.truths, strict=True)):
        crop = source.draw([3, i], difficulty)
        n = len(crop.text)
        assert sample.n_supervised == n + 1 and sample.response.numel() == n + 4
        assert TOKENIZER.decode(sample.response.tolist(), skip_special_tokens=True) == crop.text
        assert (sample.response[n:] == EOS_ID).all()
        n_cells = int(sample.prompt.is_image.sum())
        assert truth.glyphs.shape[0] == truth.index.numel() == n_cells == crop.image.size // 256
        columns = crop.image.shape[1] // 16
        for character, cell, (x, y) in zip(crop.text, truth.cell.tolist(), crop.centers_px, strict=True):
            assert cell == (-1 if character == "\n" else int(y // 16) * columns + int(x // 16))


def test_an_unknown_character_is_named() -> None:
    assert encode_characters(TOKENIZER, "ab\n") == [TOKENIZER.token_to_id(c) for c in "ab\n"]
    with pytest.raises(CheckpointError, match="'漢'"):
        encode_characters(TOKENIZER, "a漢")


def test_difficulty_rises_from_the_start_of_the_ramp() -> None:
    data = DataConfig(n_ramp_samples=100)
    assert Progress(n_samples=500).difficulty(data) == 0.0
    started = Progress(n_samples=500, ramp_start=450)
    assert started.difficulty(data) == 0.5
    assert replace(started, n_samples=900).difficulty(data) == 1.0


def test_the_shipped_configuration_parses(repo_root: Path) -> None:
    config = load_config(TrainConfig, repo_root / "configs" / "nano.toml")
    assert config.noise.random_offset and config.noise.mask_schedule == "mixed"
    assert config.optimizer.kind == "muon" and config.run.budget_s is not None
    assert config.run.n_steps == TrainConfig().run.n_steps  # what it leaves out keeps its default


def test_a_resolved_configuration_reads_back_equal(repo_root: Path, tmp_path: Path) -> None:
    for config in (TrainConfig(), load_config(TrainConfig, repo_root / "configs" / "nano.toml")):
        (tmp_path / "config.toml").write_text(dump_config(config), encoding="utf-8")
        assert load_config(TrainConfig, tmp_path / "config.toml") == config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("noise.blocksize=8", "did you mean 'block_size'"),
        ("optimiser.kind=adamw", "did you mean 'optimizer'"),
        ("network.text.n_layers=2", "unknown key"),
        ("noise.mask_schedule=unifrom", "did you mean 'uniform'"),
        ("run.n_steps=many", "must be an integer"),
    ],
)
def test_unknown_keys_and_values_are_errors(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(TrainConfig, None, [override])
