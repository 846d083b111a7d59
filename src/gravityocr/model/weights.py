"""Weights of `GlmOcrForConditionalGeneration` folders: keys and shapes are checked before memory is taken."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from gravityocr.errors import CheckpointError
from gravityocr.model.draft_head import DRAFT_HEAD_FILE
from gravityocr.model.ocr_model import OcrModel

CONVOLUTIONS = ("visual.patch_embed.proj.weight", "visual.downsample.weight")
FLOATS = ("F64", "F32", "F16", "BF16")
WeightInfo = tuple[tuple[int, ...], str]
"""Shape and type of a stored tensor, the type in the words of safetensors."""


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


@dataclass(frozen=True)
class WeightFaults:
    """What of a folder's weights does not fit a network: one sentence each, naming file or folder and key."""

    unexpected: tuple[str, ...]
    missing: tuple[str, ...]
    mistyped: tuple[str, ...]
    misshapen: tuple[str, ...]


def weight_files(path: Path) -> list[Path]:
    """List a folder's weight files; the draft head is not one.

    *Raises*: CheckpointError where there is none.
    """
    files = [file for file in sorted(path.glob("*.safetensors")) if file.name != DRAFT_HEAD_FILE]
    if not files:
        raise CheckpointError(f"{path} holds no .safetensors file")
    return files


def weight_faults(model: OcrModel, path: Path, held: Mapping[Path, Mapping[str, WeightInfo]]) -> WeightFaults:
    """Compare the headers of a folder's weight files with a network, multi-token-prediction layers set aside."""
    wanted = {key: name for name, key in weight_names(model).items()}
    everything = set().union(*held.values())
    extra = extra_layer_keys(everything, model.config.text.num_hidden_layers)
    unexpected = [
        f"{file} has unexpected keys: {', '.join(sorted(strange)[:5])}"
        for file, keys in held.items()
        if (strange := keys.keys() - extra - wanted.keys())
    ]
    missing = sorted(wanted.keys() - everything)
    lacks = [f"{path} lacks {len(missing)} keys, among them {', '.join(missing[:5])}"] if missing else []
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    mistyped, misshapen = [], []
    for file, keys in held.items():
        for key in sorted(keys.keys() & wanted.keys()):
            shape, dtype = keys[key]
            asked = shapes[wanted[key]]
            if dtype not in FLOATS:
                mistyped.append(f"{file}: {key} is of type {dtype}; only {', '.join(FLOATS)} are read")
            if _flat(key, shape) != asked:
                misshapen.append(f"{file}: {key} has shape {shape}, config.json asks {asked}")
    return WeightFaults(tuple(unexpected), tuple(lacks), tuple(mistyped), tuple(misshapen))


def check_weights(model: OcrModel, path: Path) -> dict[Path, dict[str, WeightInfo]]:
    """Check a folder's weight files by their headers, and return those.

    *Raises*: CheckpointError for missing, unexpected or misshapen keys.
    """
    held = {file: weight_header(file) for file in weight_files(path)}
    found = weight_faults(model, path, held)
    for kind in (found.unexpected, found.missing, found.mistyped, found.misshapen):
        if kind:
            raise CheckpointError(kind[0])
    return held


def load_weights(model: OcrModel, path: Path) -> None:
    """Load all weights of a folder's safetensors files.

    A network on the meta device gets its memory only when the files' headers fit it, so that a broken config.json
    never allocates.

    *Raises*: CheckpointError for missing, unexpected or misshapen keys (multi-token-prediction layers are set aside).
    """
    held = check_weights(model, path)
    wanted = {key: name for name, key in weight_names(model).items()}
    if model.device.type == "meta":
        model.to_empty(device="cpu")
    own = model.state_dict()
    for file, keys in held.items():
        with safe_open(str(file), framework="pt") as handle:
            for key in keys.keys() & wanted.keys():
                target, value = own[wanted[key]], handle.get_tensor(key)
                if not bool(value.isfinite().all()):
                    raise CheckpointError(f"{file}: {key} holds values that are not finite; the training went wrong")
                target.copy_(value.view(target.shape))


def weight_header(file: Path) -> dict[str, WeightInfo]:
    """Return the shape and the type of every tensor of a file.

    *Raises*: CheckpointError where it is broken.
    """
    try:
        with safe_open(str(file), framework="pt") as handle:
            slices = {key: handle.get_slice(key) for key in handle.keys()}  # noqa: SIM118 (a handle is no mapping)
            return {key: (tuple(one.get_shape()), str(one.get_dtype())) for key, one in slices.items()}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{file} cannot be read ({error}); copy it again") from error


def _flat(key: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that a weight has in our network, where convolutions over patches are matrices."""
    if key.removeprefix("model.") in CONVOLUTIONS and len(shape) > 1:
        return (shape[0], math.prod(shape[1:]))
    return shape


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
    (path / "model.safetensors").chmod(0o644)  # safetensors lets nobody else read it
