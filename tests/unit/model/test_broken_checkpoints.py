"""Checkpoint folders with values that no network can have: each is refused by name, before memory is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.factories import edit_json

from gravityocr.errors import CheckpointError, ConfigError
from gravityocr.model import checkpoint as checkpoint_module
from gravityocr.model.checkpoint import load_checkpoint
from gravityocr.model.device import check_device
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.pieces import PieceSpec
from gravityocr.model.text import TextConfig
from gravityocr.model.vision import VisionConfig


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(str(folder))
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)


WRONG = [None, "4", 0, -1, 2.5, [], {}, True, 10**9]
SIZES = [
    ("text_config", "hidden_size"),
    ("text_config", "vocab_size"),
    ("text_config", "num_hidden_layers"),
    ("text_config", "num_attention_heads"),
    ("vision_config", "depth"),
    ("vision_config", "num_heads"),
    ("vision_config", "patch_size"),
    ("vision_config", "intermediate_size"),
]


@pytest.mark.parametrize(("part", "key"), SIZES)
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_size_of_the_wrong_type_or_range(folder: Path, part: str, key: str, wrong: Any) -> None:
    edit_json(folder / "config.json", lambda raw: raw[part].update({key: wrong}))
    refused(folder, str(folder / "config.json"))


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0, 0.0, "x", None, [1]], ids=repr)
@pytest.mark.parametrize("part", ["text_config", "vision_config"])
def test_a_rotary_base_or_epsilon_that_is_no_positive_number(folder: Path, part: str, wrong: Any) -> None:
    original = (folder / "config.json").read_text(encoding="utf-8")
    edit_json(folder / "config.json", lambda raw: raw[part]["rope_parameters"].update(rope_theta=wrong))
    refused(folder, str(folder / "config.json"))
    (folder / "config.json").write_text(original, encoding="utf-8")
    edit_json(folder / "config.json", lambda raw: raw[part].update(rms_norm_eps=wrong))
    refused(folder, str(folder / "config.json"), "rms_norm_eps")


@pytest.mark.parametrize("wrong", [5, "text", None, [], ["a"]], ids=repr)
@pytest.mark.parametrize("part", ["text_config", "vision_config"])
def test_a_part_of_config_that_is_no_object(folder: Path, part: str, wrong: Any) -> None:
    edit_json(folder / "config.json", lambda raw: raw.update({part: wrong}))
    refused(folder, str(folder / "config.json"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: VisionConfig(hidden_size=30, num_heads=4), "multiple of 4 x 4 heads"),
        (lambda: VisionConfig(hidden_size=24, num_heads=4), "multiple of 4 x 4 heads"),
        (lambda: VisionConfig(in_channels=1), "vision.in_channels"),
        (lambda: VisionConfig(attention_bias=1), "attention_bias"),  # type: ignore[arg-type]
        (lambda: TextConfig(num_attention_heads=6, num_key_value_heads=4), "multiple of the 4"),
        (lambda: TextConfig(head_dim=127), "half of the head_dim 127"),
        (lambda: TextConfig(mrope_section=(8, 12, 12)), "mrope_section"),
        (lambda: TextConfig(mrope_section=()), "mrope_section"),
        (lambda: TextConfig(mrope_section=(16.0, 24, 24)), "mrope_section"),  # type: ignore[arg-type]
        (lambda: PieceSpec(cell_px=0), "pieces.cell_px"),
        (lambda: PieceSpec(max_width_px=10**6), "pieces.max_width_px"),
        (lambda: PieceSpec(max_width_px=392), "multiple of width_step_px"),
        (lambda: PieceSpec(cell_px=24), "multiple of width_step_px"),
        (lambda: PieceSpec(line_ink_px=32), "below line_height_px"),
        (lambda: PieceSpec(max_width_px=16, width_step_px=16), "above"),
    ],
)
def test_sizes_that_do_not_fit_together(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


@pytest.mark.parametrize("wrong", [0, -16, 10**6])
def test_a_piece_spec_out_of_range_names_its_file(folder: Path, wrong: int) -> None:
    edit_json(folder / "block_diffusion.json", lambda raw: raw.update(pieces={"cell_px": wrong}))
    refused(folder, "block_diffusion.json", "cell_px", str(wrong))


@pytest.mark.parametrize("name", ["pieces", "formula_pieces", "table_pieces"])
def test_pieces_for_other_vision_cells(folder: Path, name: str) -> None:
    edit_json(folder / "block_diffusion.json", lambda raw: raw.update({name: {"cell_px": 4}}))
    refused(folder, "block_diffusion.json", f"{name}.cell_px 4, but a vision cell")


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("bd_size", 100_000),
        ("tasks", [["text"]]),
        ("tasks", [{}]),
        ("tasks", [None]),
        ("ar_loss_weight", "1"),
        ("ar_loss_weight", float("nan")),
        ("mask_schedule", 3),
    ],
)
def test_block_diffusion_out_of_range(folder: Path, key: str, wrong: Any) -> None:
    edit_json(folder / "block_diffusion.json", lambda raw: raw.update({key: wrong}))
    refused(folder, "block_diffusion.json", key)


@pytest.mark.parametrize(
    ("key", "wrong", "word"),
    [
        ("size", [1, 2], "size"),
        ("size", 12544, "size"),
        ("size", {"shortest_edge": 9000, "longest_edge": 100}, "9000"),
        ("size", {"shortest_edge": 0, "longest_edge": 100}, "size"),
        ("size", {"shortest_edge": 1, "longest_edge": 10**12}, "size"),
        ("size", {"shortest_edge": "a", "longest_edge": 10**12}, "integers"),
        ("patch_size", "8", "patch_size"),
        ("patch_size", 14.0, "patch_size"),
        ("image_std", [0.3, 0.0, 0.3], "image_std"),
        ("image_std", [0.3, float("inf"), 0.3], "image_std"),
        ("image_std", 0.3, "image_std"),
        ("image_mean", [0.5, 0.5], "image_mean"),
        ("image_mean", [0.5, None, 0.5], "image_mean"),
        ("image_mean", [0.5, 10**400, 0.5], "image_mean"),
    ],
)
def test_a_preprocessor_out_of_range(folder: Path, key: str, wrong: Any, word: str) -> None:
    edit_json(folder / "preprocessor_config.json", lambda raw: raw.update({key: wrong}))
    refused(folder, "preprocessor_config.json", word)


@pytest.mark.parametrize("wrong", ["x", [], [True], [-1], 10**9, 1.5, [[0]]], ids=repr)
def test_stop_ids_that_are_no_tokens(folder: Path, wrong: Any) -> None:
    edit_json(folder / "generation_config.json", lambda raw: raw.update(eos_token_id=wrong))
    refused(folder, "eos_token_id")


def test_a_broken_config_takes_no_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes ask for terabytes; the headers are compared with a network that has no memory."""
    sizes = {"hidden_size": 65536, "intermediate_size": 262144, "num_hidden_layers": 200}
    edit_json(folder / "config.json", lambda raw: raw["text_config"].update(sizes))
    devices = []

    class Watched(OcrModel):
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            devices.append(self.device.type)

    monkeypatch.setattr(checkpoint_module, "OcrModel", Watched)
    refused(folder, "lacks")
    edit_json(folder / "config.json", lambda raw: raw["text_config"].update(num_hidden_layers=2))
    refused(folder, "has shape", "config.json asks")
    assert devices == ["meta", "meta"]


def test_loaded_weights_have_memory(folder: Path) -> None:
    model = load_checkpoint(str(folder)).model
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
    assert [*model.buffers()] == []


def test_integer_weights_are_refused(folder: Path) -> None:
    """A quantised checkpoint would load as noise."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["lm_head.weight"] = tensors["lm_head.weight"].to(torch.int8)
    save_file(tensors, file, metadata={"format": "pt"})
    refused(folder, "lm_head.weight", "I8")


FILES = [
    "config.json", "block_diffusion.json", "preprocessor_config.json", "generation_config.json", "tokenizer.json",
    "model.safetensors",
]  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_place_of_a_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    refused(folder, name)


@pytest.mark.parametrize("name", FILES[:4])
def test_a_file_that_may_not_be_read(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_bytes

    def deny(path: Path) -> bytes:
        if path.name == name:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", deny)
    refused(folder, name, "Permission denied")


@pytest.mark.parametrize("name", FILES[:4])
def test_json_that_is_nested_too_deeply(folder: Path, name: str) -> None:
    depth = 200_000
    (folder / name).write_text('{"a": ' + "[" * depth + "]" * depth + "}", encoding="utf-8")
    refused(folder, name)


def test_a_name_that_no_file_system_takes() -> None:
    with pytest.raises(CheckpointError, match="check the path"):
        load_checkpoint("x" * 5000)


@pytest.mark.parametrize("name", ["cuda:999", "cudafoo", "tpu", "", "CPU", "cuda:-1"])
def test_devices_that_are_not_there(name: str) -> None:
    with pytest.raises(ConfigError, match="choose cpu"):
        check_device(name)
    assert check_device("cpu") == torch.device("cpu")


def test_numbers_that_json_writes_but_nobody_can_mean(folder: Path) -> None:
    text = (folder / "config.json").read_text(encoding="utf-8")
    raw = json.loads(text)
    raw["text_config"]["hidden_size"] = 10**400
    (folder / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    refused(folder, "config.json", "hidden_size")
