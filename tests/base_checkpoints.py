"""Tiny GLM-OCR checkpoints as their authors publish them: no mask token, spare rows or none, shards, an MTP layer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tests.factories import CONFIGS, edit_json, image_spec
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from gravityocr.model.checkpoint import MASK_TOKEN, BlockDiffusion
from gravityocr.model.ocr_model import OcrModel
from gravityocr.training.export import export_checkpoint
from gravityocr.training.nano import EOS_TOKEN, SPECIAL_TOKENS

N_BYTES = 256
N_USED = N_BYTES + len(SPECIAL_TOKENS) - 1  # all but the mask token
N_ROWS = N_USED + 5
EMBEDDINGS, OUTPUT = "model.language_model.embed_tokens.weight", "lm_head.weight"
MTP = "model.language_model.layers.2."


def byte_tokenizer(with_mask: bool = False) -> Tokenizer:
    """Return a byte-level BPE tokenizer, as GLM-OCR has one, with its special tokens behind the bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokens = [token for token in SPECIAL_TOKENS if with_mask or token != MASK_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens])
    return tokenizer


def base_network(n_rows: int = N_ROWS, seed: int = 0) -> OcrModel:
    """Return a random network whose rows that no token uses are far from the others."""
    config = CONFIGS["gqa"]
    torch.manual_seed(seed)
    model = OcrModel(replace(config, text=replace(config.text, vocab_size=n_rows))).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(torch.randn_like(parameter) * (parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.2))
    for name, parameter in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            parameter.add_(1.0)
    model.language_model.embed_tokens.weight.mul_(8.0).add_(0.5)
    model.language_model.embed_tokens.weight[N_USED:] = 99.0
    return model


def base_checkpoint(
    path: Path, n_rows: int = N_ROWS, with_mask: bool = False, mtp: bool = False, n_shards: int = 1,
    dtype: torch.dtype = torch.bfloat16,
) -> Path:  # fmt: skip
    """Write a checkpoint without `block_diffusion.json`, with the files that the authors' one has."""
    tokenizer = byte_tokenizer(with_mask)
    eos_id = tokenizer.token_to_id(EOS_TOKEN)
    export_checkpoint(path, base_network(n_rows), tokenizer, image_spec("gqa"), BlockDiffusion(8, 0), eos_id, dtype)
    (path / "block_diffusion.json").unlink()
    edit_json(path / "config.json", lambda raw: raw["text_config"].update(num_nextn_predict_layers=1))
    added = tokenizer.get_added_tokens_decoder()
    decoder = {str(i): {"content": token.content, "special": True} for i, token in added.items()}
    edit_json(
        path / "tokenizer_config.json",
        lambda raw: raw.update(mask_token=None, added_tokens_decoder=decoder, additional_special_tokens=["[gMASK]"]),
    )
    (path / "chat_template.jinja").write_text("[gMASK]<sop>{{ messages }}\n", encoding="utf-8")
    (path / "README.md").write_text("the base's own card\n", encoding="utf-8")
    (path / "LICENSE").write_text("do as you like\n", encoding="utf-8")
    if mtp:
        change_weights(path, mtp_layer(n_rows, dtype))
    if n_shards > 1:
        split_weights(path, n_shards)
    return path


def mtp_layer(n_rows: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return a multi-token-prediction layer, keyed as GLM-OCR's."""
    text = CONFIGS["gqa"].text
    width = text.hidden_size
    shapes = {
        "self_attn.q_proj.weight": (64, width), "mlp.down_proj.weight": (width, text.intermediate_size),
        "input_layernorm.weight": (width,), "eh_proj.weight": (width, 2 * width), "enorm.weight": (width,),
        "hnorm.weight": (width,), "embed_tokens.weight": (n_rows, width), "shared_head.head.weight": (n_rows, width),
        "shared_head.norm.weight": (width,),
    }  # fmt: skip
    return {MTP + name: torch.full(shape, 9.0, dtype=dtype) for name, shape in shapes.items()}


def change_weights(path: Path, values: dict[str, Tensor]) -> None:
    """Put tensors into a folder's single weight file."""
    file = path / "model.safetensors"
    save_file({**load_file(file), **values}, file, metadata={"format": "pt"})


def split_weights(path: Path, n_shards: int) -> None:
    """Split a folder's weight file into shards with an index; the MTP layer gets one of its own."""
    tensors = load_file(path / "model.safetensors")
    (path / "model.safetensors").unlink()
    names = sorted(key for key in tensors if not key.startswith(MTP))
    parts = [names[i::n_shards] for i in range(n_shards)]
    extra = sorted(tensors.keys() - names)
    parts += [extra] if extra else []
    places: dict[str, str] = {}
    for number, part in enumerate(parts, 1):
        file = f"model-{number:05d}-of-{len(parts):05d}.safetensors"
        save_file({key: tensors[key] for key in part}, path / file, metadata={"format": "pt"})
        places |= dict.fromkeys(part, file)
    size = sum(value.numel() * value.element_size() for value in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": places}
    (path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def all_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of all weight files of a folder."""
    return {key: value for file in sorted(path.glob("*.safetensors")) for key, value in load_file(file).items()}


def names_in(path: Path) -> Sequence[str]:
    """List the files of a folder, hidden ones included."""
    return sorted(file.name for file in path.iterdir())
