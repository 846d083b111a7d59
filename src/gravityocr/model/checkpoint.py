"""Ordinary `GlmOcrForConditionalGeneration` directories: load, save, and account for every key."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from gravityocr.errors import CheckpointError
from gravityocr.model.ocr_model import OcrConfig, OcrModel
from gravityocr.model.pieces import PieceSpec
from gravityocr.model.prompt import TASK_PROMPTS, ImageSpec, PromptBuilder
from gravityocr.model.text import TextConfig
from gravityocr.model.vision import VisionConfig

MASK_TOKEN = "<|mask|>"
CONVOLUTIONS = ("visual.patch_embed.proj.weight", "visual.downsample.weight")


@dataclass(frozen=True)
class BlockDiffusion:
    """The contents of `block_diffusion.json`; `tasks` and `pieces` are ours, absent in the authors' release.

    *Source*: section 1. `pieces` is set where the checkpoint reads only pieces of a limited size.
    """

    bd_size: int
    mask_id: int
    ar_loss_weight: float = 1.0
    mask_schedule: str = "uniform"
    tasks: tuple[str, ...] = ("text", "table", "formula")
    pieces: PieceSpec | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint: network, tokenizer, prompts and what the decoders must know."""

    path: Path
    model: OcrModel
    tokenizer: Tokenizer
    prompts: PromptBuilder
    diffusion: BlockDiffusion
    stop_ids: frozenset[int]


def resolve_checkpoint(name: str) -> Path:
    """Return the folder of a checkpoint: `nano` is the embedded one, anything else a path.

    *Raises*: CheckpointError where there is no such folder.
    """
    if name == "nano":
        return Path(str(resources.files("gravityocr") / "checkpoints" / "nano"))
    path = Path(name)
    if not path.is_dir():
        raise CheckpointError(f"no checkpoint folder at {name!r}; give 'nano' or a folder with config.json")
    return path


def load_checkpoint(name: str, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Checkpoint:
    """Load a checkpoint folder.

    *Raises*: CheckpointError where files, keys, shapes or the mask token do not fit together.
    """
    path = resolve_checkpoint(name)
    raw = _read_json(path / "config.json")
    model = OcrModel(parse_config(raw))
    load_weights(model, path)
    tokenizer = read_tokenizer(path, model.config.text.vocab_size)
    diffusion = read_block_diffusion(path, tokenizer, model.config.text.vocab_size)
    spec = read_image_spec(path)
    _check_patches(path, spec, model.config.vision)
    prompts = PromptBuilder(tokenizer, spec)
    model = model.to(device=device, dtype=dtype).eval().requires_grad_(False)
    return Checkpoint(path, model, tokenizer, prompts, diffusion, _stop_ids(path, raw))


def parse_config(raw: dict[str, Any]) -> OcrConfig:
    """Read the network's sizes from a GLM-OCR config.json.

    *Raises*: CheckpointError where a needed entry is missing.
    """
    try:
        vision, text = raw["vision_config"], raw["text_config"]
        vision_rope = vision.get("rope_parameters") or {}
        text_rope = text["rope_parameters"]
        if float(text_rope.get("partial_rotary_factor", 1.0)) != 1.0:
            raise CheckpointError("config.json asks for a partial rotary embedding; only 1.0 is supported")
        if text_rope.get("rope_type", "default") != "default" or vision_rope.get("rope_type", "axial") != "axial":
            raise CheckpointError("config.json asks for another rotary embedding than default (text), axial (vision)")
        if {vision.get("hidden_act", "silu"), text.get("hidden_act", "silu")} != {"silu"}:
            raise CheckpointError("config.json asks for another activation than silu")
        heads = text["num_attention_heads"]
        vision_heads = vision.get("num_heads", vision.get("num_attention_heads"))
        names = VisionConfig.__dataclass_fields__.keys() - {"num_heads", "rope_theta", "depth"}
        return OcrConfig(
            VisionConfig(
                depth=vision.get("depth", vision.get("num_hidden_layers")),
                num_heads=vision_heads,
                rope_theta=float(vision_rope.get("rope_theta", 10000.0)),
                **{name: vision[name] for name in names if name in vision},
            ),
            TextConfig(
                vocab_size=text["vocab_size"],
                hidden_size=text["hidden_size"],
                intermediate_size=text["intermediate_size"],
                num_hidden_layers=text["num_hidden_layers"],
                num_attention_heads=heads,
                num_key_value_heads=text.get("num_key_value_heads") or heads,
                head_dim=text.get("head_dim") or text["hidden_size"] // heads,
                rms_norm_eps=text.get("rms_norm_eps", 1e-5),
                rope_theta=float(text_rope.get("rope_theta", 10000.0)),
                mrope_section=tuple(text_rope.get("mrope_section", (8, 12, 12))),
            ),
        )
    except KeyError as error:
        raise CheckpointError(f"config.json lacks {error}; it must be a GLM-OCR config") from error


def dump_config(config: OcrConfig, ids: dict[str, int], eos_ids: list[int], dtype: str) -> dict[str, Any]:
    """Return the config.json of a network; `ids` holds the image token ids under transformers' names."""
    vision, text = asdict(config.vision), asdict(config.text)
    vision["model_type"] = "glm_ocr_vision"
    vision["rope_parameters"] = {"rope_type": "axial", "rope_theta": vision.pop("rope_theta")}
    text["model_type"] = "glm_ocr_text"
    text["rope_parameters"] = {
        "rope_type": "default",
        "rope_theta": text.pop("rope_theta"),
        "partial_rotary_factor": 1.0,
        "mrope_section": list(text.pop("mrope_section")),
    }
    text["eos_token_id"], text["pad_token_id"] = eos_ids, eos_ids[0]
    return {
        "architectures": ["GlmOcrForConditionalGeneration"],
        "model_type": "glm_ocr",
        "dtype": dtype,
        "tie_word_embeddings": False,
        "text_config": text,
        "vision_config": vision,
        **ids,
    }


def read_tokenizer(path: Path, vocab_size: int) -> Tokenizer:
    """Read `tokenizer.json`.

    *Raises*: CheckpointError where it is missing or broken, or holds ids outside the embedding table.
    """
    file = path / "tokenizer.json"
    if not file.is_file():
        raise CheckpointError(f"{path} has no tokenizer.json; copy it from the model that this was converted from")
    try:
        tokenizer = Tokenizer.from_buffer(file.read_bytes())
    except ValueError as error:
        raise CheckpointError(f"{file} is not a tokenizer: {error}") from error
    highest = max(tokenizer.get_vocab().values(), default=-1)
    if highest >= vocab_size:
        raise CheckpointError(f"{file} holds the id {highest}, but config.json's vocab_size is {vocab_size}")
    return tokenizer


def read_block_diffusion(path: Path, tokenizer: Tokenizer, vocab_size: int) -> BlockDiffusion:
    """Read `block_diffusion.json` and check it against the tokenizer and the embedding table.

    *Raises*: CheckpointError: a wrong mask id would keep the output right and silently destroy the speed.
    """
    file = path / "block_diffusion.json"
    if not file.is_file():
        raise CheckpointError(
            f"{path} has no block_diffusion.json, so it names no mask token; convert the checkpoint first"
        )
    raw = _read_json(file)
    if type(raw.get("mask_id")) is not int or type(raw.get("bd_size")) is not int:
        raise CheckpointError(f"{file} must hold the integers mask_id and bd_size")
    known = BlockDiffusion.__dataclass_fields__.keys() - {"extra", "pieces", "tasks"}
    tasks, pieces = raw.get("tasks", [*TASK_PROMPTS]), raw.get("pieces")
    if not isinstance(tasks, list) or not all(task in TASK_PROMPTS for task in tasks):
        raise CheckpointError(f"{file}: tasks {tasks!r} must be a list out of {', '.join(TASK_PROMPTS)}")
    sizes = PieceSpec.__dataclass_fields__.keys()
    if pieces is not None and not (
        isinstance(pieces, dict) and pieces.keys() <= sizes and all(type(size) is int for size in pieces.values())
    ):
        raise CheckpointError(f"{file}: pieces {pieces!r} must be an object of the integers {', '.join(sizes)}")
    diffusion = BlockDiffusion(
        **{name: raw[name] for name in known if name in raw},
        tasks=tuple(tasks),
        pieces=None if pieces is None else PieceSpec(**pieces),
        extra={key: value for key, value in raw.items() if key not in known | {"pieces", "tasks"}},
    )
    if diffusion.bd_size < 1:
        raise CheckpointError(f"{file}: bd_size {diffusion.bd_size} must be at least 1")
    if not 0 <= diffusion.mask_id < vocab_size:
        raise CheckpointError(f"{file}: mask_id {diffusion.mask_id} is outside the vocabulary of {vocab_size}")
    expected = tokenizer.token_to_id(MASK_TOKEN)
    if expected is not None and expected != diffusion.mask_id:
        raise CheckpointError(f"{file}: mask_id {diffusion.mask_id}, but the tokenizer's {MASK_TOKEN} is {expected}")
    return diffusion


def dump_block_diffusion(diffusion: BlockDiffusion) -> dict[str, Any]:
    """Return the contents of `block_diffusion.json`."""
    raw = asdict(diffusion)
    extra = raw.pop("extra")
    raw["tasks"] = list(raw["tasks"])
    if raw["pieces"] is None:
        del raw["pieces"]
    return {**raw, **extra}


def read_image_spec(path: Path) -> ImageSpec:
    """Read `preprocessor_config.json`; GLM-OCR's values where an entry is missing."""
    file = path / "preprocessor_config.json"
    raw = _read_json(file)
    default = ImageSpec()
    size = raw.get("size", {})
    return ImageSpec(
        patch_size=raw.get("patch_size", default.patch_size),
        temporal_patch_size=raw.get("temporal_patch_size", default.temporal_patch_size),
        merge_size=raw.get("merge_size", default.merge_size),
        min_pixels=size.get("shortest_edge", default.min_pixels),
        max_pixels=size.get("longest_edge", default.max_pixels),
        mean=tuple(raw.get("image_mean", default.mean)),
        std=tuple(raw.get("image_std", default.std)),
    )


def _check_patches(path: Path, spec: ImageSpec, vision: VisionConfig) -> None:
    pairs = {
        "patch_size": (spec.patch_size, vision.patch_size),
        "temporal_patch_size": (spec.temporal_patch_size, vision.temporal_patch_size),
        "merge_size": (spec.merge_size, vision.spatial_merge_size),
    }
    for name, (ours, network) in pairs.items():
        if ours != network:
            raise CheckpointError(
                f"{path / 'preprocessor_config.json'}: {name} {ours}, but config.json's vision_config says {network}"
            )


def weight_names(model: OcrModel) -> dict[str, str]:
    """Map our parameter names to GLM-OCR's keys."""
    renames = {
        "visual.patch_embed.weight": "visual.patch_embed.proj.weight",
        "visual.patch_embed.bias": "visual.patch_embed.proj.bias",
    }
    names = {}
    for name in model.state_dict():
        key = renames.get(name, name)
        names[name] = key if key.startswith("lm_head") else f"model.{key}"
    return names


def extra_layer_keys(keys: set[str], n_layers: int) -> set[str]:
    """Return the keys of the multi-token-prediction layers behind the last one, to be set aside.

    Such a layer has a projection `eh_proj`; a plain layer there means that config.json names too few.
    """
    pattern = re.compile(r"(model\.language_model\.layers\.(\d+)\.)")
    layers = {key: match[1] for key in keys if (match := pattern.match(key)) and int(match[2]) >= n_layers}
    return {key for key, layer in layers.items() if f"{layer}eh_proj.weight" in keys}


def load_weights(model: OcrModel, path: Path) -> None:
    """Load all weights of a folder's safetensors files.

    *Raises*: CheckpointError for missing, unexpected or misshapen keys (multi-token-prediction layers are set aside).
    """
    files = sorted(path.glob("*.safetensors"))
    files = [file for file in files if file.name != "draft_head.safetensors"]
    if not files:
        raise CheckpointError(f"{path} holds no .safetensors file")
    wanted = {key: name for name, key in weight_names(model).items()}
    held = {file: _weight_keys(file) for file in files}
    everything = set().union(*held.values())
    extra = extra_layer_keys(everything, model.config.text.num_hidden_layers)
    for file, keys in held.items():
        unexpected = keys - extra - wanted.keys()
        if unexpected:
            raise CheckpointError(f"{file} has unexpected keys: {', '.join(sorted(unexpected)[:5])}")
    missing = wanted.keys() - everything
    if missing:
        raise CheckpointError(f"{path} lacks {len(missing)} keys, among them {', '.join(sorted(missing)[:5])}")
    own = model.state_dict()
    for file, keys in held.items():
        with safe_open(str(file), framework="pt") as handle:
            for key in keys & wanted.keys():
                _copy_weight(own[wanted[key]], handle.get_tensor(key), key, file)


def _weight_keys(file: Path) -> set[str]:
    try:
        with safe_open(str(file), framework="pt") as handle:
            return set(handle.keys())
    except SafetensorError as error:
        raise CheckpointError(f"{file} cannot be read ({error}); copy it again") from error


def _copy_weight(target: Tensor, value: Tensor, key: str, file: Path) -> None:
    if key.removeprefix("model.") in CONVOLUTIONS:
        value = value.flatten(1)
    if value.shape != target.shape:
        raise CheckpointError(f"{file}: {key} has shape {tuple(value.shape)}, config.json asks {tuple(target.shape)}")
    target.copy_(value)


def save_weights(model: OcrModel, path: Path, dtype: torch.dtype) -> None:
    """Write the weights as one `model.safetensors` with GLM-OCR's keys and shapes."""
    vision = model.config.vision
    shapes = {
        "visual.patch_embed.proj.weight": (
            vision.hidden_size, vision.in_channels, vision.temporal_patch_size, vision.patch_size, vision.patch_size,
        ),
        "visual.downsample.weight": (
            vision.out_hidden_size, vision.hidden_size, vision.spatial_merge_size, vision.spatial_merge_size,
        ),
    }  # fmt: skip
    tensors = {}
    for name, value in model.state_dict().items():
        key = weight_names(model)[name]
        shape = shapes.get(key.removeprefix("model."))
        value = value.detach().to("cpu", dtype)
        tensors[key] = (value.view(shape) if shape else value).contiguous().clone()
    save_file(tensors, str(path / "model.safetensors"), metadata={"format": "pt"})


def _stop_ids(path: Path, raw: dict[str, Any]) -> frozenset[int]:
    generation = path / "generation_config.json"
    sources = [_read_json(generation)] if generation.is_file() else []
    for source in [*sources, raw, raw["text_config"]]:
        value = source.get("eos_token_id")
        if value is not None:
            return frozenset([value] if isinstance(value, int) else value)
    raise CheckpointError(f"{path}: neither generation_config.json nor config.json names eos_token_id")


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise CheckpointError(f"{file.parent} has no {file.name}; it must be a GLM-OCR checkpoint folder")
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} must hold a JSON object")
    return value
