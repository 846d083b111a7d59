"""Turn a GLM-OCR checkpoint into one that drafts: a mask token and `block_diffusion.json`, nothing else is added.

Tensors are copied byte by byte, one after another, so that type and values stay and memory holds one row at a time.
*Source*: paper.md section 1.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from gravityocr.config import check_numbers
from gravityocr.errors import CheckpointError, ConfigError, InputError
from gravityocr.model.checkpoint import (
    MASK_TOKEN,
    BlockDiffusion,
    check_patches,
    dump_block_diffusion,
    parse_config,
    read_block_diffusion,
    read_image_spec,
    read_stop_ids,
    read_tokenizer,
)
from gravityocr.model.checkpoint_files import new_folder, read_json, settings_files, write_json
from gravityocr.model.mask_row import STATISTICS, Statistics, draw_embedding, mean_row
from gravityocr.model.mask_token import MaskToken, add_mask_token, choose_mask_token, used_ids
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.prompt import PromptBuilder
from gravityocr.model.weight_copy import NewRow, StoredTensor, copy_tensors, stored_tensors
from gravityocr.model.weights import check_weights, extra_layer_keys

EMBEDDINGS = "model.language_model.embed_tokens.weight"
OUTPUT = "lm_head.weight"
INDEX = "model.safetensors.index.json"
_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True)
class ConversionConfig:
    """How a checkpoint is converted.

    `block_size` becomes `bd_size`. An existing mask token keeps its rows, which may be trained, unless `redraw`.
    `base` is what the checkpoint's card and `block_diffusion.json` call the source.
    """

    block_size: int = 32
    seed: int = 0
    statistics: Statistics = "covariance"
    mask_token: str = MASK_TOKEN
    redraw: bool = False
    base: str | None = None

    def __post_init__(self) -> None:
        check_numbers(self, "", block_size=(1, 256), seed=(0, 2**63 - 1))
        if self.statistics not in STATISTICS:
            raise ConfigError(f"statistics {self.statistics!r} is unknown; choose one of {', '.join(STATISTICS)}")
        if not self.mask_token.strip():
            raise ConfigError("the mask token is empty; choose a text that no document holds")


@dataclass(frozen=True)
class ConversionReport:
    """What a conversion did. `rows` tells whether the mask token's two rows were drawn or kept."""

    source: str
    path: str
    mask_token: str
    mask_id: int
    origin: Literal["existing token", "spare row", "new row"]
    rows: Literal["drawn", "kept"]
    statistics: Statistics | None
    seed: int | None
    vocab_size: int
    block_size: int
    dropped_layers: tuple[int, ...]
    n_dropped_tensors: int
    n_dropped_bytes: int
    n_bytes: int
    weight_files: tuple[str, ...]
    copied_files: tuple[str, ...]


@dataclass(frozen=True)
class _Source:
    """A checked source: its config, the tensors of each file, and the keys that are left behind."""

    path: Path
    raw: dict[str, Any]
    vocab_size: int
    files: dict[Path, list[StoredTensor]]
    dropped: frozenset[str]

    def tensor(self, key: str) -> StoredTensor:
        return next(one for tensors in self.files.values() for one in tensors if one.key == key)


def convert_checkpoint(source: Path, out: Path, config: ConversionConfig, overwrite: bool = False) -> ConversionReport:
    """Write the converted checkpoint to a new folder, which appears when it is whole.

    *Raises*: CheckpointError where the source is no GLM-OCR checkpoint, or one that is converted already; InputError
    where `out` is taken or lies in the source.
    """
    own, place = source.resolve(), out.resolve()
    if own == place or own in place.parents or place in own.parents:
        raise InputError(f"{out} and its source {source} lie in one another; name another folder")
    base = _read_source(source)
    mask = choose_mask_token(source, config.mask_token, base.vocab_size)
    drawn = config.redraw or mask.origin != "existing token"
    with new_folder(out, overwrite) as folder:
        copied = [file.name for file in settings_files(source)]
        for name in copied:
            shutil.copyfile(source / name, folder / name)
        add_mask_token(folder, mask)
        vocab_size = max(base.vocab_size, mask.id + 1)
        write_json(folder / "config.json", _new_config(base, vocab_size))
        rows = _mask_rows(base, mask, config) if drawn else {}
        sizes = _write_weights(base, folder, rows)
        extra = {} if config.base is None else {"base": config.base}
        diffusion = BlockDiffusion(config.block_size, mask.id, extra=extra)
        write_json(folder / "block_diffusion.json", dump_block_diffusion(diffusion))
        _check_result(folder)
    dropped = [one for tensors in base.files.values() for one in tensors if one.key in base.dropped]
    return ConversionReport(
        str(source), str(out), mask.text, mask.id, mask.origin, "drawn" if drawn else "kept",
        config.statistics if drawn else None, config.seed if drawn else None, vocab_size, config.block_size,
        tuple(sorted({int(one.key.split(".")[3]) for one in dropped})), len(dropped),
        sum(one.n_bytes for one in dropped), sum(sizes.values()), tuple(sizes), tuple(copied),
    )  # fmt: skip


def _read_source(path: Path) -> _Source:
    if not path.is_dir():
        raise CheckpointError(f"no checkpoint folder at {str(path)!r}; give a GLM-OCR folder or a hub id (org/name)")
    if (path / "block_diffusion.json").exists():
        raise CheckpointError(f"{path} has a block_diffusion.json: it is converted already; use it as it is")
    raw = read_json(path / "config.json")
    network = parse_config(raw, path / "config.json")
    check_patches(path, read_image_spec(path), network.vision)
    read_stop_ids(path, raw, network.text.vocab_size)
    PromptBuilder(read_tokenizer(path, network.text.vocab_size), read_image_spec(path))
    with torch.device("meta"):
        held = check_weights(OcrModel(network), path)
    keys = {key for tensors in held.values() for key in tensors}
    dropped = extra_layer_keys(keys, network.text.num_hidden_layers)
    files = {file: stored_tensors(file) for file in held}
    return _Source(path, raw, network.text.vocab_size, files, frozenset(dropped))


def _new_config(base: _Source, vocab_size: int) -> dict[str, Any]:
    text = {**base.raw["text_config"], "vocab_size": vocab_size}
    if base.dropped and text.get("num_nextn_predict_layers"):
        text["num_nextn_predict_layers"] = 0
    sizes = {"vocab_size": vocab_size} if "vocab_size" in base.raw else {}
    return {**base.raw, **sizes, "text_config": text}


def _mask_rows(base: _Source, mask: MaskToken, config: ConversionConfig) -> dict[str, NewRow]:
    """Return the new rows of the embeddings and of the output layer, in the types that these have."""
    embeddings, output = base.tensor(EMBEDDINGS), base.tensor(OUTPUT)
    used = torch.zeros(base.vocab_size, dtype=torch.bool)
    used[torch.tensor(used_ids(base.path, mask.id), dtype=torch.long)] = True
    drawn = draw_embedding(embeddings.file, EMBEDDINGS, used, config.seed, config.statistics)
    mean = mean_row(output.file, OUTPUT, used)
    return {
        EMBEDDINGS: NewRow(mask.id, _as_bytes(drawn, embeddings.dtype)),
        OUTPUT: NewRow(mask.id, _as_bytes(mean, output.dtype)),
    }


def _as_bytes(row: Tensor, dtype: str) -> bytes:
    return row.to(_TYPES[dtype]).view(torch.uint8).numpy().tobytes()


def _write_weights(base: _Source, folder: Path, rows: dict[str, NewRow]) -> dict[str, int]:
    """Write every file of the source that keeps a tensor, and the index where there are several.

    The files keep their names, so that an index made for them still fits.
    """
    kept: dict[str, Sequence[StoredTensor]] = {}
    for file, tensors in base.files.items():
        rest = [one for one in tensors if one.key not in base.dropped]
        if rest:
            kept[file.name] = rest
    names = {name: "model.safetensors" if len(kept) == 1 else name for name in kept}
    sizes = {names[name]: copy_tensors(folder / names[name], tensors, rows) for name, tensors in kept.items()}
    if len(kept) > 1:
        places = {one.key: name for name, tensors in kept.items() for one in tensors}
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": dict(sorted(places.items()))}
        write_json(folder / INDEX, index)
    return sizes


def _check_result(folder: Path) -> None:
    """Refuse a result that would not load, before it gets its name."""
    network = parse_config(read_json(folder / "config.json"), folder / "config.json")
    tokenizer = read_tokenizer(folder, network.text.vocab_size)
    read_block_diffusion(folder, tokenizer, network.text.vocab_size)
    with torch.device("meta"):
        check_weights(OcrModel(network), folder)
