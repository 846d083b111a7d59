"""The sample stream: a function of its seed, with exact labels; and the run's configuration file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training_data import EOS_ID, PROMPTS, TOKENIZER, write_data_dir

from gravityocr.config import dump_config, load_config
from gravityocr.errors import CheckpointError, ConfigError, InputError
from gravityocr.model.prompt import TASK_PROMPTS
from gravityocr.training.joint import RowData
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.run_config import Progress, TrainConfig
from gravityocr.training.sources import DataConfig, Done, ShardShare, SyntheticSource, encode_tokens
from gravityocr.training.synthetic.shards import SUFFIX, RenderedSample, write_shard

NOISE = NoiseConfig(4, "mixed", random_offset=True)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_dir(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def source(data_dir: Path) -> SyntheticSource:
    return SyntheticSource(DataConfig(folder=str(data_dir)), PROMPTS, NOISE, EOS_ID)


def same(one: RowData, other: RowData) -> bool:
    return all(
        torch.equal(a.response, b.response)
        and torch.equal(a.prompt.pixels, b.prompt.pixels)
        and torch.equal(a.corruption.block, b.corruption.block)
        and all(torch.equal(x, y) for x, y in zip(a.corruption.masked, b.corruption.masked, strict=True))
        for a, b in zip(one.samples, other.samples, strict=True)
    )


def test_a_row_is_a_function_of_its_seed(source: SyntheticSource, data_dir: Path) -> None:
    fresh = SyntheticSource(DataConfig(folder=str(data_dir)), PROMPTS, NOISE, EOS_ID)
    source.row([9, 9, 9], 3, 1.0)
    assert same(source.row([0, 5, 1], 4, 0.8), fresh.row([0, 5, 1], 4, 0.8))
    for seed in ([1, 5, 1], [0, 6, 1], [0, 5, 0]):  # the run's seed, the step, the row
        assert not same(source.row([0, 5, 1], 4, 0.8), source.row(seed, 4, 0.8))


@pytest.mark.parametrize("difficulty", [0.0, 1.0])
def test_labels_are_exact(source: SyntheticSource, difficulty: float) -> None:
    data = source.row([3], 12, difficulty)
    for i, (sample, truth) in enumerate(zip(data.samples, data.truths, strict=True)):
        crop = source.draw([3, i], difficulty)
        n = len(crop.tokens)
        assert sample.n_supervised == n + 1 and sample.response.numel() == n + 4
        assert TOKENIZER.decode(sample.response.tolist(), skip_special_tokens=True) == crop.target
        assert (sample.response[n:] == EOS_ID).all()
        n_cells = int(sample.prompt.is_image.sum())
        assert truth.glyphs.shape[0] == truth.index.numel() == n_cells == crop.image.size // 256
        columns = crop.image.shape[1] // 16
        for token, cell, (x, y) in zip(crop.tokens, truth.cell.tolist(), crop.centers_px, strict=True):
            assert (token == "\n") == np.isnan(x)
            assert cell == (-1 if token == "\n" else int(y // 16) * columns + int(x // 16))


def formula_sample(n_tokens: int, number: int) -> RenderedSample:
    image = np.full((40, 90 + number), 255, dtype=np.uint8)
    image[10:30, 5:20] = 0  # a glyph of 20 px
    centers = np.full((n_tokens, 2), np.nan, dtype=np.float32)
    centers[0] = (12.0, 20.0)
    return RenderedSample("formula", image, ("\\alpha ", *"x" * (n_tokens - 1)), centers, "test")


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    write_shard(tmp_path / f"formulas-0{SUFFIX}", [formula_sample(3, i) for i in range(4)])
    write_shard(tmp_path / f"formulas-1{SUFFIX}", [formula_sample(30, i) for i in range(4)])
    return tmp_path


def test_shards_take_their_share(data_dir: Path, shards: Path) -> None:
    config = DataConfig(folder=str(data_dir), max_target_tokens=20, shards=(ShardShare(str(shards), 0.4),))
    source = SyntheticSource(config, PROMPTS, NOISE, EOS_ID)
    drawn = [source.draw([1, i], 0.5) for i in range(60)]
    formulas = [sample for sample in drawn if sample.task == "formula"]
    assert 12 <= len(formulas) <= 36 and {sample.task for sample in drawn} == {"formula", "text"}
    assert all(sample.target == "\\alpha xx" for sample in formulas), "the long ones are left out"
    data = source.row([1], 60, 0.5)
    prompts = [sample.prompt.ids.tolist() for sample in data.samples]
    for sample, ids in zip(drawn, prompts, strict=True):
        assert TOKENIZER.token_to_id(TASK_PROMPTS[sample.task]) in ids


def test_the_truth_of_a_varied_formula_is_where_its_glyph_is(data_dir: Path, shards: Path) -> None:
    config = DataConfig(folder=str(data_dir), shards=(ShardShare(str(shards), 1.0),))
    source = SyntheticSource(config, PROMPTS, NOISE, EOS_ID)
    for i in range(20):
        sample = source.draw([2, i], 0.0)
        rows, columns = np.nonzero(sample.image < 128)
        assert np.allclose(sample.centers_px[0], (columns.mean(), rows.mean()), atol=1.5)
        assert np.isnan(sample.centers_px[1:]).all()


def test_shards_that_hold_nothing_fitting_are_named(data_dir: Path, shards: Path) -> None:
    config = DataConfig(folder=str(data_dir), max_target_tokens=2, shards=(ShardShare(str(shards), 1.0),))
    source = SyntheticSource(config, PROMPTS, NOISE, EOS_ID)
    with pytest.raises(ConfigError, match="max_target_tokens"):
        source.draw([0], 0.0)
    with pytest.raises(ConfigError, match="must not exceed 1"):
        DataConfig(shards=(ShardShare("a", 0.7), ShardShare("b", 0.5)))


def test_shards_that_cannot_be_learnt_are_named_at_the_start(data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / f"a{SUFFIX}"
    config = DataConfig(folder=str(data_dir), max_target_tokens=5, shards=(ShardShare(str(tmp_path), 0.1),))
    write_shard(file, [])
    with pytest.raises(InputError, match="are empty"):
        SyntheticSource(config, PROMPTS, NOISE, EOS_ID)
    known = formula_sample(3, 0)
    write_shard(file, [known, replace(known, tokens=("x", "\\foo ", "ab"))])
    with pytest.raises(ConfigError, match=rf"{file.name} holds tokens outside of the vocabulary: .*foo ', 'ab';"):
        SyntheticSource(config, PROMPTS, NOISE, EOS_ID)
    write_shard(file, [known, replace(formula_sample(6, 0), tokens=("漢",) * 6)])
    SyntheticSource(config, PROMPTS, NOISE, EOS_ID)  # what is too long is not read


def test_an_unknown_character_is_named() -> None:
    assert encode_tokens(TOKENIZER, "ab\n") == [TOKENIZER.token_to_id(c) for c in "ab\n"]
    with pytest.raises(CheckpointError, match="'漢'"):
        encode_tokens(TOKENIZER, "a漢")


def test_difficulty_rises_from_the_start_of_the_ramp() -> None:
    data = DataConfig(n_ramp_samples=100)
    assert Progress(n_samples=500).difficulty(data) == 0.0
    started = Progress(n_samples=500, ramp_start=450)
    assert started.difficulty(data) == 0.5
    assert replace(started, n_samples=900).difficulty(data) == 1.0


def test_a_ticket_names_the_rows_of_a_step_in_a_process(data_dir: Path) -> None:
    """Row r of a step is the same one, whichever process of however many draws it."""
    source = SyntheticSource(DataConfig(folder=str(data_dir)), PROMPTS, NOISE, EOS_ID, seed=7, n_samples=2)
    alone = source.tickets(Done(3), rank=0, world=1, accumulation=4)
    shared = [source.tickets(Done(3), rank, world=2, accumulation=2) for rank in (0, 1)]
    for step in (3, 4):
        ticket = next(alone)
        assert ticket == tuple((step, row) for row in range(4))
        halves = [next(one) for one in shared]
        assert sorted(row for half in halves for row in half) == [*ticket]
    assert same(source.rows(((3, 1),))[0], source.row([7, 3, 1], 2, 0.0))
    source.set_difficulty(1.0)
    assert same(source.rows(((3, 1),))[0], source.row([7, 3, 1], 2, 1.0))
    names = [sample.name for row in source.rows(((3, 0), (3, 1))) for sample in row.samples]
    assert len(set(names)) == 4 and names[2] == "text crops, 7 3 1 0", "a sample in trouble is found again by its name"


def test_the_fill_may_be_a_single_eos(data_dir: Path) -> None:
    source = SyntheticSource(DataConfig(folder=str(data_dir)), PROMPTS, replace(NOISE, eos_fill=False), EOS_ID)
    for sample in source.row([3], 4, 0.0).samples:
        assert sample.response.tolist().count(EOS_ID) == 1 and sample.response.numel() == sample.n_supervised


RECIPES = ("nano-text.toml", "nano-tasks.toml", "nano-ablation.toml", "laptop.toml", "paper.toml")


@pytest.mark.parametrize("name", RECIPES)
def test_the_shipped_recipes_parse_and_read_back_equal(repo_root: Path, tmp_path: Path, name: str) -> None:
    config = load_config(TrainConfig, repo_root / "recipes" / name)
    (tmp_path / "config.toml").write_text(dump_config(config), encoding="utf-8")
    assert load_config(TrainConfig, tmp_path / "config.toml") == config != TrainConfig()


def test_the_defaults_read_back_equal(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(dump_config(TrainConfig()), encoding="utf-8")
    assert load_config(TrainConfig, tmp_path / "config.toml") == TrainConfig()


def test_the_recipes_of_the_embedded_checkpoint_say_what_they_said(repo_root: Path) -> None:
    tasks = load_config(TrainConfig, repo_root / "recipes" / "nano-tasks.toml")
    assert tasks.train.tasks == ("text", "formula", "table") and sum(one.share for one in tasks.data.shards) < 1
    config = load_config(TrainConfig, repo_root / "recipes" / "nano-text.toml")
    assert config.noise.random_offset and config.noise.mask_schedule == "mixed"
    assert config.optimizer.kind == "muon" and config.train.budget_s is not None
    assert config.train.steps == TrainConfig().train.steps  # what it leaves out keeps its default
    for one in (tasks, config):
        glyphs = one.glyphs
        assert min(glyphs.glyph_weight, glyphs.index_weight, glyphs.guide_weight) > 0
    assert not TrainConfig().glyphs.any, "the paper has no such losses"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("noise.blocksize=8", "did you mean 'block_size'"),
        ("optimiser.kind=adamw", "did you mean 'optimizer'"),
        ("network.text.n_layers=2", "unknown key"),
        ("noise.mask_schedule=unifrom", "did you mean 'uniform'"),
        ("train.steps=many", "must be an integer"),
        ("run.steps=5", "did you mean|unknown key"),
        ('train.freeze=["decode"]', "did you mean 'decoder'"),
    ],
)
def test_unknown_keys_and_values_are_errors(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(TrainConfig, None, [override])
