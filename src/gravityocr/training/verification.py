"""Check a checkpoint folder part by part: every check runs, whatever became of the others, as far as it can."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from gravityocr.errors import CheckpointError, GravityOCRError
from gravityocr.model.checkpoint import (
    MASK_TOKEN,
    BlockDiffusion,
    check_patches,
    check_pieces,
    parse_config,
    read_block_diffusion,
    read_image_spec,
    read_stop_ids,
    read_tokenizer,
)
from gravityocr.model.checkpoint_files import read_json
from gravityocr.model.draft_head import DRAFT_HEAD_FILE, load_draft_head
from gravityocr.model.ocr_model import OcrConfig, OcrModel
from gravityocr.model.prompt import (
    AFTER_IMAGE,
    BEFORE_IMAGE,
    IMAGE_TOKEN,
    TASK_PROMPTS,
    ImageSpec,
    PromptBuilder,
    token_id,
)
from gravityocr.model.weights import WeightInfo, weight_faults, weight_files, weight_header
from gravityocr.training.forward_checks import FORWARD_CHECKS, Forwards, Skipped
from gravityocr.training.nano import token_ids

T = TypeVar("T")
EMBEDDINGS = "model.language_model.embed_tokens.weight"
MARKERS = ("[gMASK]", "<sop>", "<|user|>", "<|begin_of_image|>", "<|end_of_image|>", "<|assistant|>", IMAGE_TOKEN)
# What reading a broken folder raises; SafetensorError is an Exception of its own.
_FAILURES = (GravityOCRError, SafetensorError, OSError, ValueError, RuntimeError)


@dataclass(frozen=True)
class Check:
    """What one check found; `ok` is None where it could not run, `detail` then says why."""

    name: str
    ok: bool | None
    detail: str


class _Folder:
    """The parts of a folder that can be read; None for those that cannot."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.raw: dict[str, Any] | None = _part(lambda: read_json(path / "config.json"))
        self.network: OcrConfig | None = _part(lambda: parse_config(self.raw or {}, path / "config.json"))
        self.held: dict[Path, dict[str, WeightInfo]] | None = _part(
            lambda: {file: weight_header(file) for file in weight_files(path)}
        )
        size = self.vocab_size
        self.tokenizer: Tokenizer | None = _part(lambda: read_tokenizer(path, size))
        self.spec: ImageSpec | None = _part(lambda: read_image_spec(path))
        self.diffusion: BlockDiffusion | None = _part(lambda: self.read_diffusion(size))
        self.forwards = Forwards(path)

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding table; without a config any id is taken."""
        return self.network.text.vocab_size if self.network is not None else 10**9

    def read_diffusion(self, vocab_size: int) -> BlockDiffusion | None:
        if self.tokenizer is None:
            return None
        return read_block_diffusion(self.path, self.tokenizer, vocab_size)


def _part(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except _FAILURES:
        return None  # the part's own check reads it again and tells


def _need(value: T | None, what: str) -> T:
    if value is None:
        raise Skipped(f"needs {what}, which cannot be read")
    return value


def verify_checkpoint(path: Path) -> list[Check]:
    """Run all checks of a folder: files, keys, shapes, types, values, ids, prompts, and forwards in fp32.

    The stock class of transformers is compared where it is installed. Memory holds one network at a time.
    """
    folder = _Folder(path)
    checks = [_run(name, lambda check=check: check(folder)) for name, check in _CHECKS.items()]  # type: ignore[misc]
    for name, forward in FORWARD_CHECKS.items():
        checks.append(_run(name, lambda forward=forward: forward(folder.forwards)))  # type: ignore[misc]
    return checks


def _run(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, True, check())
    except Skipped as reason:
        return Check(name, None, str(reason))
    except _FAILURES as error:
        return Check(name, False, " ".join(str(error).split()) or type(error).__name__)


def _config(folder: _Folder) -> str:
    network = parse_config(read_json(folder.path / "config.json"), folder.path / "config.json")
    text = network.text
    return f"{text.num_hidden_layers} layers, {text.hidden_size} wide, a vocabulary of {text.vocab_size}"


def _files(folder: _Folder) -> str:
    files = weight_files(folder.path)
    n_tensors = sum(len(weight_header(file)) for file in files)
    return f"{n_tensors} tensors in {', '.join(file.name for file in files)}"


def _faults(folder: _Folder, kinds: tuple[str, ...]) -> None:
    network, held = _need(folder.network, "config.json"), _need(folder.held, "a weight file")
    with torch.device("meta"):
        found = weight_faults(OcrModel(network), folder.path, held)
    told = [line for kind in kinds for line in getattr(found, kind)]
    if told:
        raise CheckpointError("; ".join(told[:3]) + (f"; and {len(told) - 3} more" if len(told) > 3 else ""))


def _keys(folder: _Folder) -> str:
    _faults(folder, ("missing", "unexpected"))
    return "none is missing, none is strange"


def _shapes(folder: _Folder) -> str:
    _faults(folder, ("misshapen",))
    return "as config.json asks"


def _dtypes(folder: _Folder) -> str:
    _faults(folder, ("mistyped",))
    held = _need(folder.held, "a weight file")
    return ", ".join(sorted({dtype for keys in held.values() for _, dtype in keys.values()}))


def _finite(folder: _Folder) -> str:
    held, wrong = _need(folder.held, "a weight file"), []
    for file, keys in held.items():
        with safe_open(str(file), framework="pt") as handle:
            wrong += [f"{file.name}: {key}" for key in keys if not bool(handle.get_tensor(key).isfinite().all())]
    if wrong:
        raise CheckpointError(f"{len(wrong)} tensors hold values that are not finite: {', '.join(wrong[:5])}")
    return "all values are"


def _tokenizer(folder: _Folder) -> str:
    tokenizer = read_tokenizer(folder.path, folder.vocab_size)
    return f"{tokenizer.get_vocab_size()} tokens within the table"


def _preprocessor(folder: _Folder) -> str:
    spec = read_image_spec(folder.path)
    check_patches(folder.path, spec, _need(folder.network, "config.json").vision)
    return f"patches of {spec.patch_size} px, cells of {spec.patch_size * spec.merge_size} px"


def _block_diffusion(folder: _Folder) -> str:
    tokenizer = _need(folder.tokenizer, "tokenizer.json")
    diffusion = read_block_diffusion(folder.path, tokenizer, folder.vocab_size)
    check_pieces(folder.path, diffusion, _need(folder.spec, "preprocessor_config.json"))
    return f"blocks of {diffusion.bd_size}, mask {diffusion.mask_id}"


def _mask_token(folder: _Folder) -> str:
    tokenizer, raw = _need(folder.tokenizer, "tokenizer.json"), _need(folder.raw, "config.json")
    mask_id = read_json(folder.path / "block_diffusion.json").get("mask_id")
    if type(mask_id) is not int or not 0 <= mask_id < folder.vocab_size:
        what = f"mask_id {mask_id!r} is no row of the {folder.vocab_size} in the table"
        raise CheckpointError(f"{folder.path / 'block_diffusion.json'}: {what}; convert the checkpoint")
    text = tokenizer.id_to_token(mask_id)
    expected = tokenizer.token_to_id(MASK_TOKEN)
    if expected is not None and expected != mask_id:
        raise CheckpointError(f"mask_id {mask_id} is {text!r}, but {MASK_TOKEN} has the id {expected}")
    if text is None:
        return f"row {mask_id}, which no token uses"
    if tokenizer.decode([mask_id], skip_special_tokens=True).strip():
        raise CheckpointError(f"mask_id {mask_id} is {text!r}, which documents may hold; it must be a special token")
    taken = {name for name, value in raw.items() if name.endswith("_token_id") and value == mask_id}
    if mask_id in read_stop_ids(folder.path, raw, folder.vocab_size):
        taken.add("eos_token_id")
    if taken:
        raise CheckpointError(f"mask_id {mask_id} is {text!r}, which is also {', '.join(sorted(taken))}")
    return f"{text} = {mask_id}, special"


def _mask_row(folder: _Folder) -> str:
    held, diffusion = _need(folder.held, "a weight file"), _need(folder.diffusion, "block_diffusion.json")
    for file, keys in held.items():
        if EMBEDDINGS not in keys:
            continue
        with safe_open(str(file), framework="pt") as handle:
            table = handle.get_slice(EMBEDDINGS)
            if table.get_shape()[0] <= diffusion.mask_id:
                raise CheckpointError(f"{file}: {EMBEDDINGS} has no row {diffusion.mask_id} for the mask token")
            row = table[diffusion.mask_id : diffusion.mask_id + 1].float()
        norm = float(row.norm())
        if not norm > 0:
            raise CheckpointError(f"{file}: the mask token's row {diffusion.mask_id} of {EMBEDDINGS} has norm {norm}")
        return f"norm {norm:.3g}"
    raise CheckpointError(f"{folder.path} has no {EMBEDDINGS}")


def _stop_ids(folder: _Folder) -> str:
    raw, tokenizer = _need(folder.raw, "config.json"), _need(folder.tokenizer, "tokenizer.json")
    stops = sorted(read_stop_ids(folder.path, raw, folder.vocab_size))
    unknown = [one for one in stops if tokenizer.id_to_token(one) is None]
    if unknown:
        raise CheckpointError(f"eos_token_id {unknown} are no tokens of tokenizer.json; it is another model's")
    return ", ".join(f"{tokenizer.id_to_token(one)} = {one}" for one in stops)


def _image_ids(folder: _Folder) -> str:
    raw, tokenizer = _need(folder.raw, "config.json"), _need(folder.tokenizer, "tokenizer.json")
    if type(raw.get("image_token_id")) is not int:
        raise CheckpointError(f"{folder.path / 'config.json'} names no image_token_id")
    own = token_ids(tokenizer)
    wrong = [
        f"{name} is {raw[name]}, but the tokenizer's is {own[name]} ({tokenizer.id_to_token(own[name])})"
        for name in own
        if name in raw and raw[name] != own[name]
    ]
    if wrong:
        raise CheckpointError("; ".join(wrong))
    return f"{len(own.keys() & raw.keys())} ids of config.json are the tokenizer's"


def _prompts(folder: _Folder) -> str:
    tokenizer = _need(folder.tokenizer, "tokenizer.json")
    PromptBuilder(tokenizer, folder.spec or ImageSpec())
    apart = [marker for marker in MARKERS if len(tokenizer.encode(marker, add_special_tokens=False).ids) != 1]
    if apart:
        raise CheckpointError(f"the tokenizer takes {', '.join(apart)} apart; it is another model's")
    image_id, lengths = token_id(tokenizer, IMAGE_TOKEN), {}
    for task, prompt in TASK_PROMPTS.items():
        text = BEFORE_IMAGE + IMAGE_TOKEN * 2 + AFTER_IMAGE.format(task=prompt)
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if ids.count(image_id) != 2 or tokenizer.decode(ids, skip_special_tokens=False) != text:
            raise CheckpointError(f"the prompt of {task} does not come back from its ids; it is another tokenizer")
        lengths[task] = len(ids) - 2
    return ", ".join(f"{task} {length} tokens" for task, length in lengths.items())


def _draft_head(folder: _Folder) -> str:
    text, diffusion = _need(folder.network, "config.json").text, _need(folder.diffusion, "block_diffusion.json")
    head = load_draft_head(folder.path, text.hidden_size, text.vocab_size, torch.float32, "cpu")
    if head is not None:
        return f"{sum(parameter.numel() for parameter in head.parameters())} parameters"
    if diffusion.draft_head:
        raise CheckpointError(f"block_diffusion.json asks for a draft head, but {DRAFT_HEAD_FILE} is missing")
    raise Skipped("the checkpoint has none")


_CHECKS: Mapping[str, Callable[[_Folder], str]] = {
    "config": _config,
    "weight_files": _files,
    "keys": _keys,
    "shapes": _shapes,
    "dtypes": _dtypes,
    "finite": _finite,
    "tokenizer": _tokenizer,
    "preprocessor": _preprocessor,
    "block_diffusion": _block_diffusion,
    "mask_token": _mask_token,
    "mask_row": _mask_row,
    "stop_ids": _stop_ids,
    "image_ids": _image_ids,
    "prompts": _prompts,
    "draft_head": _draft_head,
}
