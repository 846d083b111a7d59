"""`gravityocr data`: shards are made once, resumed, counted and drawn."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from gravityocr.cli import app
from gravityocr.errors import ConfigError, InputError
from gravityocr.training.synthetic import synth
from gravityocr.training.synthetic.shards import RenderedSample, Shard, write_shard
from gravityocr.training.synthetic.stats import draw_sheet, shard_stats
from gravityocr.training.synthetic.synth import SynthConfig, synthesize


def fake_samples(data_dir, split, seed, n):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        image = rng.integers(0, 256, (32, 64), np.uint8)
        yield RenderedSample(
            "formula", image, ("\\alpha ", "x"), np.array([[5, 6], [np.nan, np.nan]], np.float32), "fake"
        )


@pytest.fixture(autouse=True)
def _no_tex(monkeypatch):
    monkeypatch.setattr(synth, "make_formula_samples", fake_samples)


def run(*arguments: str):
    return CliRunner().invoke(app, [*arguments], catch_exceptions=False)


def test_shards_are_made_once_and_the_seed_decides(tmp_path):
    config = SynthConfig("formulas", 25, seed=3, shard_size=10)
    made = list(synthesize(config, tmp_path, tmp_path / "a", 1))
    assert [size for _, size in made] == [10, 10, 5]
    made[1][0].unlink()
    again = dict(synthesize(config, tmp_path, tmp_path / "a", 1))
    assert sorted(again.values(), key=str) == [10, None, None]
    list(synthesize(config, tmp_path, tmp_path / "b", 1))
    for file, _ in made:
        np.testing.assert_array_equal(Shard(file)[0].image, Shard(tmp_path / "b" / file.name)[0].image)
    first, second = (Shard(file)[0].image for file, _ in made[:2])
    assert not np.array_equal(first, second)


def test_other_settings_of_the_same_name_are_refused(tmp_path):
    list(synthesize(SynthConfig("formulas", 20, shard_size=10), tmp_path, tmp_path, 1))
    for config in (SynthConfig("formulas", 20, shard_size=5), SynthConfig("formulas", 10, shard_size=10)):
        with pytest.raises(InputError, match="n 20 and shard size 10"):
            list(synthesize(config, tmp_path, tmp_path, 1))
    assert len(list(synthesize(SynthConfig("formulas", 40, shard_size=10), tmp_path, tmp_path, 1))) == 4


@pytest.mark.parametrize("wrong", [{"kind": "poems"}, {"split": "test"}, {"n": 0}, {"shard_size": 0}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ConfigError):
        SynthConfig(**{"kind": "formulas", "n": 5, **wrong})


def test_the_command_makes_counts_and_draws(tmp_path):
    made = run("data", "synth", "--kind", "formulas", "--data", str(tmp_path), "--out", str(tmp_path), "--n", "6")
    assert made.exit_code == 0 and "1 shards made with 6 samples" in made.stdout
    sheet = tmp_path / "sheet.png"
    counted = run("data", "stats", str(tmp_path), "--sheet", str(sheet), "--sheet-samples", "3", "--json")
    report = json.loads(counted.stdout)
    assert report["tasks"]["formula"]["n_samples"] == 6 and report["unknown_tokens"] == {}
    assert report["tasks"]["formula"]["tokens_per_cell"]["p50"] == 0.25
    assert report["tasks"]["formula"]["share_of_tokens_with_place"] == 0.5
    assert sheet.read_bytes()[:4] == b"\x89PNG"
    assert "formula: 6 samples, 12 tokens" in run("data", "stats", str(tmp_path)).stdout


def test_a_broken_shard_does_not_count_as_made(tmp_path):
    config = SynthConfig("formulas", 5)
    [(file, _)] = synthesize(config, tmp_path, tmp_path, 1)
    file.write_bytes(file.read_bytes()[:-300])
    with pytest.raises(InputError, match="delete that file"):
        list(synthesize(config, tmp_path, tmp_path, 1))


def test_a_note_without_shards_binds_nobody(tmp_path, monkeypatch):
    def fail(*_):
        raise InputError("no data")
        yield

    with monkeypatch.context() as patched, pytest.raises(InputError, match="no data"):
        patched.setattr(synth, "make_formula_samples", fail)
        list(synthesize(SynthConfig("formulas", 5), tmp_path, tmp_path, 1))
    assert len(list(synthesize(SynthConfig("formulas", 3, shard_size=2), tmp_path, tmp_path, 1))) == 2


def test_an_output_that_is_no_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--out .*file cannot be written"):
        list(synthesize(SynthConfig("formulas", 5), tmp_path, tmp_path / "file", 1))


@pytest.mark.parametrize("wrong", [("--sheet-samples", "0"), ("--sheet-samples", "-2"), ("--seed", "-1")])
def test_numbers_of_the_sheet_are_checked(tmp_path, wrong):
    write_shard(tmp_path / "a.shard.npz", list(fake_samples(tmp_path, "train", 0, 1)))
    assert run("data", "stats", str(tmp_path), "--sheet", str(tmp_path / "a.png"), *wrong).exit_code == 2


def test_a_sheet_of_empty_shards_is_refused(tmp_path):
    write_shard(tmp_path / "a.shard.npz", [])
    with pytest.raises(InputError, match="empty"):
        draw_sheet([tmp_path], 3, 0)


def test_unknown_tokens_are_counted(tmp_path):
    bad = RenderedSample("text", np.zeros((32, 32), np.uint8), ("ψ", "a"), np.zeros((2, 2), np.float32), "x")
    write_shard(tmp_path / "a.shard.npz", [bad])
    assert shard_stats([tmp_path])["unknown_tokens"] == {"ψ": 1}


def test_an_unreadable_note_is_named(tmp_path):
    (tmp_path / "formulas-train-0.json").write_text("{}")
    with pytest.raises(InputError, match=r"formulas-train-0\.json"):
        list(synthesize(SynthConfig("formulas", 5), tmp_path, tmp_path, 1))
