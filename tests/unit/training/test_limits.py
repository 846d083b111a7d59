"""What no run can be made of: settings out of range, broken data, junk state, a folder that cannot be written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.training_data import TINY_NETWORK, write_data_dir

from gravityocr.config import load_config
from gravityocr.errors import CheckpointError, ConfigError, InputError
from gravityocr.training.launch import run_training
from gravityocr.training.run_config import TrainConfig
from gravityocr.training.synthetic.corpus import Corpus
from gravityocr.training.synthetic.fonts import FontLibrary

RATES = ("optimizer.lr_decoder", "optimizer.lr_vision", "optimizer.lr_merger", "optimizer.lr_embeddings",
         "optimizer.lr_lm_head", "optimizer.patch_lr_share", "optimizer.weight_decay")  # fmt: skip
AMOUNTS = ("train.budget_s", "train.save_every_s", "train.validate_every_s", "loss.ar_weight", "glyphs.guide_weight")
SHARES = ("train.vision_only", "noise.all_share", "optimizer.warmup", "optimizer.decay_from", "optimizer.final_share",
          "validation.difficulty", "data.crops.short_share")  # fmt: skip


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return write_data_dir(folder)


def run_config(folder: Path, data_dir: Path, *overrides: str) -> TrainConfig:
    """Give a run of one step of one crop."""
    settings = [f"train.folder={folder}", f"data.folder={data_dir}", "train.steps=1", "train.n_samples=1",
                "train.bf16=false", "validation.n_crops=1", "validation.max_tokens=2"]  # fmt: skip
    return load_config(TrainConfig, None, [*settings, *overrides])


@pytest.mark.parametrize("name", [*RATES, *AMOUNTS, *SHARES])
@pytest.mark.parametrize("value", ["nan", "inf", "-0.5"])
def test_numbers_that_are_none_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        load_config(TrainConfig, None, [f"{name}={value}"])


@pytest.mark.parametrize("name", SHARES)
def test_no_share_is_above_one(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        load_config(TrainConfig, None, [f"{name}=1.5"])


@pytest.mark.parametrize(
    "override",
    [
        "train.seed=-1", "train.steps=0", "train.n_processes=0", "train.n_processes=100000", "train.n_workers=-1",
        "train.n_samples=0", "train.accumulation=0", "train.ema=1.0", "train.validate_every=0", "train.log_every=0",
        "train.budget_s=0.0", "train.export_block_size=100000", "train.device=tpu", "train.device=cudafoo",
        "train.folder=", "train.attention=sparse", "packing.row_tokens=0", "packing.response_cap_tokens=0",
        "packing.open_rows=0", "noise.block_size=0", "noise.block_size=100000", "optimizer.betas=[0.9, 1.0]",
        "optimizer.betas=[-0.1, 0.9]", "optimizer.clip_norm=0.0", "data.ramp_from=nan", "data.n_ramp_samples=-1",
        "validation.n_crops=0", "validation.block_size=0", "validation.max_tokens=0", "validation.seed=-1",
        "glyphs.guide_layers=[9]", "data.crops.width_shares=[nan, 0.5, 0.5]", "network.text.head_dim=63",
        "network.vision.depth=0",
    ],
)  # fmt: skip
def test_settings_out_of_range_are_named(override: str) -> None:
    with pytest.raises(ConfigError, match=override.partition("=")[0].split(".")[-1]):
        load_config(TrainConfig, None, [override])


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("train.attention=flex",), "flex cannot train on a CPU"),
        (("glyphs.guide_weight=0.3", "train.device=cuda"), "set train.attention to segments or dense"),
        (("glyphs.guide_weight=0.3", "train.activation_checkpointing=true"), "does not go with"),
        (("train.vision_only=0.1",), "set glyphs.glyph_weight above 0"),
        (("loss.ar_weight=0", "loss.diffusion_weight=0"), "must not both be 0"),
    ],
)
def test_settings_that_exclude_each_other_are_told(overrides: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_config(TrainConfig, None, overrides)


@pytest.mark.parametrize(
    ("asked", "device", "kind"),
    [("auto", "cpu", "segments"), ("auto", "cuda", "flex"), ("dense", "cuda", "dense"), ("flex", "cuda", "flex")],
)
def test_attention_is_chosen_for_the_device(asked: str, device: str, kind: str) -> None:
    config = load_config(TrainConfig, None, [f"train.attention={asked}", f"train.device={device}"])
    assert config.train.attention_kind == kind


def test_a_gpu_is_wanted_at_the_start_only(tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration for another machine can be written and printed here."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = run_config(tmp_path / "run", data_dir, "train.device=cuda:0")
    with pytest.raises(ConfigError, match="not available here"):
        run_training(config)
    assert not (tmp_path / "run").exists()


# --- data


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1"),
        ('[\n{"path": 1,\n}]', "line 3"),
        ("{}", "list of fonts"),
        ("3", "list of fonts"),
        ("[3]", "font 1: TypeError"),
        ('[{"split": "train"}]', "font 1: KeyError 'path'"),
        ('[{"path": "plain.ttf", "family": "F"}]', "font 1: KeyError 'split'"),
        ('[{"path": 5, "family": "F", "split": "train"}]', "font 1: .*strings"),
        ('[{"path": "plain.ttf", "family": "F", "split": "train", "weight": "heavy"}]', "font 1"),
        ('[{"path": "plain.ttf", "family": "F", "split": "train", "weight": NaN}]', "font 1: .*positive"),
        ('[{"path": "plain.ttf", "family": "F", "split": "train", "chars": 5}]', "font 1: .*strings"),
        ('[{"path": "gone.ttf", "family": "F", "split": "train"}]', "font 1: .*gone.ttf"),
        ("[" * 200_000, "cannot be read"),
    ],
    ids=range(13),
)
def test_a_broken_font_table_names_the_row(data_dir: Path, text: str, words: str) -> None:
    (data_dir / "fonts.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=rf"fonts\.json.*{words}.*prepare_data"):
        FontLibrary(data_dir, "train")


def test_a_file_that_is_no_font_is_named(data_dir: Path) -> None:
    (data_dir / "plain.ttf").write_text("no font")
    library = FontLibrary(data_dir, "train")
    for use in (lambda face: library.instance(face, 20.0), lambda face: face.ink()):
        with pytest.raises(InputError, match=r"plain\.ttf is no font.*prepare_data"):
            use(library.faces[0])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "line 3"),
        (b"\n", "line 3"),
        (b"5\n", "line 3: TypeError"),
        (b'{"split": "train"}\n', "line 3: KeyError 'text'"),
        (b'{"split": "train", "text": null}\n', "line 3: .*strings"),
        (b'{"split": "train", "text": "\xff"}\n', "UTF-8"),
        (b"[" * 200_000, "line 3"),
    ],
    ids=range(7),
)
def test_a_broken_corpus_names_the_line(data_dir: Path, line: bytes, words: str) -> None:
    with (data_dir / "corpus.jsonl").open("ab") as file:
        file.write(line)
    with pytest.raises(InputError, match=rf"corpus\.jsonl.*{words}.*prepare_data"):
        Corpus(data_dir, "train")


# --- the run's folder


@pytest.mark.parametrize("n_processes", [1, 2])
@pytest.mark.parametrize("junk", ["text", "empty", "folder", "other", "list", "shapes"])
def test_a_junk_state_is_told_before_any_process_starts(
    tmp_path: Path, data_dir: Path, junk: str, n_processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.multiprocessing, "spawn", lambda *_args, **_kwargs: pytest.fail("a process started"))
    folder = tmp_path / "run"
    folder.mkdir()
    state = folder / "state.pt"
    if junk == "folder":
        state.mkdir()
    elif junk in ("text", "empty"):
        state.write_bytes(b"not a state" if junk == "text" else b"")
    else:
        weight = {"lm_head.weight": torch.zeros(2, 2)}
        torch.save({"other": {"a": 1}, "list": [1], "shapes": {"model": weight}}[junk], state)
    with pytest.raises(CheckpointError, match=r"state\.pt is not the state of this run .*remove it, or choose"):
        run_training(run_config(folder, data_dir, f"train.n_processes={n_processes}"))


def test_a_state_of_another_optimiser_is_told(tmp_path: Path, data_dir: Path) -> None:
    network = [f"network.text.{name}={getattr(TINY_NETWORK.text, name)}" for name in ("num_hidden_layers",)]
    overrides = [*network, "glyphs.guide_layers=[1]"]
    run_training(run_config(tmp_path / "run", data_dir, *overrides, "optimizer.kind=adamw"))
    with pytest.raises(CheckpointError, match=r"state\.pt does not fit other settings \(optimizer.kind: adamw -> muon"):
        run_training(run_config(tmp_path / "run", data_dir, *overrides, "optimizer.kind=muon"))


def test_a_folder_that_is_a_file(tmp_path: Path, data_dir: Path) -> None:
    (tmp_path / "run").write_text("a file", encoding="utf-8")
    for folder in (tmp_path / "run", tmp_path / "run" / "below"):
        with pytest.raises(ConfigError, match=r"train\.folder .* cannot be written"):
            run_training(run_config(folder, data_dir))


def test_missing_data_is_told_before_the_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"fonts|font table"):
        run_training(run_config(tmp_path / "run", tmp_path / "none"))
    assert json.dumps([str(path) for path in tmp_path.iterdir()]) == "[]"
