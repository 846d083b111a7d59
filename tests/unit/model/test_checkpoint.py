"""Checkpoint folders: what was written comes back, and whatever does not fit together fails at load, by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.factories import (
    CONFIGS,
    VOCAB,
    edit_json,
    eos_id,
    image_spec,
    make_prompts,
    mask_id,
    tiny_network,
    tiny_tokenizer,
    write_checkpoint,
)
from torch import Tensor

from gravityocr.errors import CheckpointError
from gravityocr.model.checkpoint import (
    BlockDiffusion,
    dump_block_diffusion,
    dump_config,
    load_checkpoint,
    parse_config,
    read_block_diffusion,
    resolve_checkpoint,
)
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.pieces import PieceSpec
from gravityocr.model.weights import load_weights
from gravityocr.training.export import export_checkpoint

JSON_FILES = [
    "config.json", "block_diffusion.json", "preprocessor_config.json", "generation_config.json", "tokenizer.json",
]  # fmt: skip


def refused(folder: Path, *words: str) -> str:
    """Assert that the folder does not load and that the error names these words."""
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(str(folder))
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    return message


def edit_weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, metadata={"format": "pt"})


# --- the way there and back


@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_folder_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    model = tiny_network(name, seed=2)
    cell = 2 * CONFIGS[name].vision.patch_size
    pieces = PieceSpec(3 * cell, 25, 24 * cell, cell, 8 * cell)
    path = write_checkpoint(tmp_path / "new" / name, model, name, bd_size=5, tasks=("text",), pieces=pieces)
    checkpoint = load_checkpoint(str(path))
    assert checkpoint.path == path
    assert checkpoint.model.config == CONFIGS[name]
    assert checkpoint.diffusion == BlockDiffusion(5, mask_id(), tasks=("text",), pieces=pieces)
    assert checkpoint.stop_ids == {eos_id()}
    assert checkpoint.prompts.spec == image_spec(name)
    assert checkpoint.tokenizer.to_str() == tiny_tokenizer().to_str()
    loaded = checkpoint.model.state_dict()
    assert loaded.keys() == model.state_dict().keys()
    assert all(torch.equal(loaded[key], value) for key, value in model.state_dict().items())
    assert not any(parameter.requires_grad for parameter in checkpoint.model.parameters())
    assert not checkpoint.model.training


def test_weights_in_bf16_load_in_either_type(tmp_path: Path) -> None:
    model = tiny_network(seed=3)
    diffusion = BlockDiffusion(8, mask_id())
    export_checkpoint(tmp_path, model, tiny_tokenizer(), image_spec("gqa"), diffusion, eos_id())
    assert {value.dtype for value in load_file(tmp_path / "model.safetensors").values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"
    for dtype in (torch.float32, torch.bfloat16):
        loaded = load_checkpoint(str(tmp_path), dtype).model
        assert loaded.dtype == dtype
        for key, value in model.state_dict().items():
            assert torch.equal(loaded.state_dict()[key], value.bfloat16().to(dtype)), key


def test_the_authors_block_diffusion_file() -> None:
    """Entries that we do not know are kept."""
    raw = {"bd_size": 32, "mask_id": 11, "ar_loss_weight": 1.0, "mask_schedule": "uniform", "complementary": True}
    diffusion = BlockDiffusion(32, 11, extra={"complementary": True})
    assert dump_block_diffusion(diffusion).items() >= raw.items()


def test_unknown_entries_of_block_diffusion_survive(folder: Path) -> None:
    edit_json(folder / "block_diffusion.json", lambda raw: raw.update(complementary=True))
    diffusion = read_block_diffusion(folder, tiny_tokenizer(), VOCAB)
    assert diffusion.extra == {"complementary": True}
    assert dump_block_diffusion(diffusion)["complementary"] is True
    assert diffusion.tasks == ("text", "table", "formula") and diffusion.pieces is None


@pytest.mark.parametrize(
    ("generation", "config", "stop_ids"),
    [
        ([0, 7], 3, {0, 7}),
        (9, [3], {9}),
        (None, [3, 4], {3, 4}),
        (None, 5, {5}),
    ],
)
def test_stop_ids_are_a_set_and_generation_config_goes_first(
    folder: Path, generation: Any, config: Any, stop_ids: set[int]
) -> None:
    edit_json(folder / "config.json", lambda raw: raw["text_config"].update(eos_token_id=config))
    if generation is None:
        (folder / "generation_config.json").unlink()
    else:
        edit_json(folder / "generation_config.json", lambda raw: raw.update(eos_token_id=generation))
    assert load_checkpoint(str(folder)).stop_ids == stop_ids


def test_config_entries_that_transformers_may_leave_out() -> None:
    """Older and shorter files: heads, head width and rope fall back as the stock class does."""
    config = CONFIGS["gqa"]
    raw = dump_config(config, {}, [0], "float32")
    for key in ("num_key_value_heads", "head_dim"):
        raw["text_config"][key] = None
    raw["vision_config"]["rope_parameters"] = None
    del raw["text_config"]["rope_parameters"]["partial_rotary_factor"]
    raw["text_config"]["rope_parameters"]["mrope_section"] = [1, 2, 3]
    text = replace(config.text, num_key_value_heads=4, head_dim=config.text.hidden_size // 4, mrope_section=(1, 2, 3))
    assert parse_config(raw) == replace(config, text=text)


# --- weights


@pytest.mark.parametrize(
    "key",
    [
        "lm_head.weight",
        "model.language_model.norm.weight",
        "model.language_model.layers.1.mlp.gate_up_proj.weight",
        "model.visual.patch_embed.proj.bias",
        "model.visual.downsample.weight",
    ],
)
def test_a_missing_key_is_named(folder: Path, key: str) -> None:
    edit_weights(folder, lambda tensors: tensors.pop(key))
    refused(folder, key, str(folder))


@pytest.mark.parametrize("key", ["model.language_model.norm.bias", "model.visual.extra.weight", "head.weight"])
def test_an_unexpected_key_is_named(folder: Path, key: str) -> None:
    edit_weights(folder, lambda tensors: tensors.update({key: torch.zeros(2)}))
    refused(folder, "unexpected", key, "model.safetensors")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(folder: Path, value: float) -> None:
    key = "lm_head.weight"
    edit_weights(folder, lambda tensors: tensors[key].view(-1)[3:4].fill_(value))
    refused(folder, key, "not finite")



@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ("lm_head.weight", (VOCAB + 1, 48)),
        ("model.language_model.layers.0.self_attn.k_proj.weight", (64, 48)),
        ("model.visual.patch_embed.proj.weight", (32, 3, 2, 8, 8)),
        ("model.visual.merger.post_projection_norm.bias", (1,)),
    ],
)
def test_a_misshapen_key_is_named_with_both_shapes(folder: Path, key: str, shape: tuple[int, ...]) -> None:
    edit_weights(folder, lambda tensors: tensors.update({key: torch.zeros(shape)}))
    refused(folder, key, "shape", "model.safetensors", "config.json")


def test_the_multi_token_prediction_layer_is_set_aside(folder: Path) -> None:
    before = load_checkpoint(str(folder)).model.state_dict()
    extra = {
        "self_attn.q_proj.weight": (64, 48), "mlp.down_proj.weight": (48, 80), "input_layernorm.weight": (48,),
        "eh_proj.weight": (48, 96), "enorm.weight": (48,), "hnorm.weight": (48,), "embed_tokens.weight": (VOCAB, 48),
        "shared_head.head.weight": (VOCAB, 48), "shared_head.norm.weight": (48,),
    }  # fmt: skip
    mtp = {f"model.language_model.layers.2.{key}": torch.full(shape, 9.0) for key, shape in extra.items()}
    edit_weights(folder, lambda tensors: tensors.update(mtp))
    after = load_checkpoint(str(folder)).model.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())
    edit_weights(folder, lambda tensors: tensors.pop("model.language_model.layers.1.mlp.down_proj.weight"))
    refused(folder, "model.language_model.layers.1.mlp.down_proj.weight")


def test_a_config_with_too_few_layers_does_not_drop_the_others(folder: Path) -> None:
    edit_json(folder / "config.json", lambda raw: raw["text_config"].update(num_hidden_layers=1))
    refused(folder, "unexpected", "model.language_model.layers.1.")


def test_shards_are_read_together(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    file.unlink()
    keys = sorted(tensors)
    for number, part in enumerate((keys[::2], keys[1::2]), 1):
        save_file({key: tensors[key] for key in part}, folder / f"model-0000{number}-of-00002.safetensors")
    expected = tiny_network().state_dict()
    assert all(
        torch.equal(expected[key], value) for key, value in load_checkpoint(str(folder)).model.state_dict().items()
    )
    (folder / "model-00002-of-00002.safetensors").unlink()
    refused(folder, "lacks", str(folder))


def test_weights_that_are_not_there(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    refused(folder, "safetensors", str(folder))


def test_a_truncated_weight_file_is_named(folder: Path) -> None:
    """What an interrupted copy leaves."""
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    refused(folder, "model.safetensors")


def test_another_network_s_weights_do_not_load(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, tiny_network("gqa"))
    with pytest.raises(CheckpointError):
        load_weights(OcrModel(CONFIGS["mqa"]), path)


# --- block_diffusion.json and the tokenizer


def set_block(folder: Path, **values: Any) -> None:
    edit_json(folder / "block_diffusion.json", lambda raw: raw.update(values))


@pytest.mark.parametrize("wrong", [VOCAB, VOCAB + 1000, -1])
def test_a_mask_id_outside_the_vocabulary(folder: Path, wrong: int) -> None:
    set_block(folder, mask_id=wrong)
    refused(folder, "block_diffusion.json", str(wrong), str(VOCAB))


def test_a_mask_id_that_is_not_the_tokenizer_s(folder: Path) -> None:
    """It would keep the output right and silently destroy the speed."""
    set_block(folder, mask_id=mask_id() + 1)
    refused(folder, "block_diffusion.json", str(mask_id()), str(mask_id() + 1), "<|mask|>")


@pytest.mark.parametrize("wrong", [0, -3])
def test_a_block_size_below_one(folder: Path, wrong: int) -> None:
    set_block(folder, bd_size=wrong)
    refused(folder, "block_diffusion.json", "bd_size", str(wrong))


@pytest.mark.parametrize("key", ["mask_id", "bd_size"])
@pytest.mark.parametrize("wrong", [None, "11", 1.5, True, [11]])
def test_ids_and_sizes_are_integers(folder: Path, key: str, wrong: Any) -> None:
    set_block(folder, **{key: wrong})
    refused(folder, "block_diffusion.json", key)


@pytest.mark.parametrize("pieces", [{"line_heigth_px": 32}, [32], {"line_height_px": "32"}])
def test_a_wrong_piece_spec(folder: Path, pieces: Any) -> None:
    set_block(folder, pieces=pieces)
    refused(folder, "block_diffusion.json", "pieces")


@pytest.mark.parametrize("tasks", ["text", ["text", "tables"], 3])
def test_wrong_tasks(folder: Path, tasks: Any) -> None:
    set_block(folder, tasks=tasks)
    refused(folder, "block_diffusion.json", "tasks")


@pytest.mark.parametrize("wrong", ["html", "", None, 1, ["plain"]])
def test_a_wrong_text_format(folder: Path, wrong: Any) -> None:
    set_block(folder, text_format=wrong)
    refused(folder, "block_diffusion.json", "text_format", "plain or markdown")


def test_the_text_format_is_kept_and_markdown_where_the_file_is_silent(folder: Path) -> None:
    edit_json(folder / "block_diffusion.json", lambda raw: raw.pop("text_format", None))
    assert read_block_diffusion(folder, tiny_tokenizer(), VOCAB).text_format == "markdown"
    set_block(folder, text_format="plain")
    diffusion = read_block_diffusion(folder, tiny_tokenizer(), VOCAB)
    assert diffusion.text_format == "plain" and diffusion.extra == {}
    assert dump_block_diffusion(diffusion)["text_format"] == "plain"
    nano = json.loads((resolve_checkpoint("nano") / "block_diffusion.json").read_text(encoding="utf-8"))
    assert nano["text_format"] == "plain"


def test_a_tokenizer_of_another_vocabulary(folder: Path) -> None:
    """Its ids would lie outside the embedding table."""
    raw = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    raw["model"]["vocab"].update({f"word{i}": i for i in range(200, 200 + VOCAB)})
    (folder / "tokenizer.json").write_text(json.dumps(raw), encoding="utf-8")
    refused(folder, "tokenizer", str(VOCAB))


def test_a_tokenizer_without_the_image_token(folder: Path) -> None:
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    (folder / "tokenizer.json").write_text(text.replace("<|image|>", "<|picture|>"), encoding="utf-8")
    refused(folder, "<|image|>")


# --- files


@pytest.mark.parametrize("file", ["config.json", "block_diffusion.json", "preprocessor_config.json", "tokenizer.json"])
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    refused(folder, file, str(folder))


@pytest.mark.parametrize("file", JSON_FILES)
@pytest.mark.parametrize("content", ["", "{", "[1, 2]", '{"a": 1} x'])
def test_a_broken_file_is_named(folder: Path, file: str, content: str) -> None:
    (folder / file).write_text(content, encoding="utf-8")
    refused(folder, file)


@pytest.mark.parametrize("file", JSON_FILES)
def test_a_file_that_is_not_text_is_named(folder: Path, file: str) -> None:
    (folder / file).write_bytes(b"\xff\xfe\x00{")
    refused(folder, file)


@pytest.mark.parametrize("key", ["vision_config", "text_config"])
def test_a_config_of_another_model(folder: Path, key: str) -> None:
    edit_json(folder / "config.json", lambda raw: raw.pop(key))
    refused(folder, "config.json", key)


@pytest.mark.parametrize("key", ["vocab_size", "hidden_size", "num_attention_heads", "rope_parameters"])
def test_a_config_without_a_needed_entry(folder: Path, key: str) -> None:
    edit_json(folder / "config.json", lambda raw: raw["text_config"].pop(key))
    refused(folder, "config.json", key)


def test_a_partial_rotary_embedding_is_refused(folder: Path) -> None:
    edit_json(
        folder / "config.json", lambda raw: raw["text_config"]["rope_parameters"].update(partial_rotary_factor=0.5)
    )
    refused(folder, "config.json", "rotary")


@pytest.mark.parametrize("key", ["patch_size", "temporal_patch_size", "merge_size"])
def test_pixels_that_do_not_fit_the_network(folder: Path, key: str) -> None:
    edit_json(folder / "preprocessor_config.json", lambda raw: raw.update({key: raw[key] + 2}))
    refused(folder, "preprocessor_config.json", key)


@pytest.mark.parametrize("name", ["no/such/folder", "nanoo"])
def test_no_such_checkpoint(name: str) -> None:
    with pytest.raises(CheckpointError, match="nano"):
        load_checkpoint(name)


def test_a_loaded_checkpoint_reads_prompts(folder: Path) -> None:
    checkpoint = load_checkpoint(str(folder))
    (expected,) = make_prompts("gqa", [(1, 2)])
    built = checkpoint.prompts.from_patches(expected.pixels, expected.grid)
    assert torch.equal(built.ids, expected.ids) and torch.equal(built.positions, expected.positions)
