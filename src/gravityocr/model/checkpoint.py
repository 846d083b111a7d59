"""Ordinary `GlmOcrForConditionalGeneration` directories: load, save, and account for every key."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import torch
from tokenizers import Tokenizer

from gravityocr.errors import CheckpointError, ConfigError
from gravityocr.model.checkpoint_files import read_bytes, read_json
from gravityocr.model.draft_head import DraftHead, load_draft_head
from gravityocr.model.formula_pieces import FormulaPieceSpec
from gravityocr.model.ocr_model import OcrConfig, OcrModel
from gravityocr.model.pieces import PieceSpec
from gravityocr.model.prompt import TASK_PROMPTS, ImageSpec, PromptBuilder
from gravityocr.model.table_pieces import TablePieceSpec
from gravityocr.model.text import TextConfig
from gravityocr.model.vision import VisionConfig
from gravityocr.model.weights import load_weights

S = TypeVar("S", PieceSpec, FormulaPieceSpec, TablePieceSpec)
TextFormat = Literal["plain", "markdown"]
MASK_TOKEN = "<|mask|>"
MAX_BLOCK_SIZE = 256
MAX_PIXELS = 10**9


@dataclass(frozen=True)
class BlockDiffusion:
    """The contents of `block_diffusion.json`; tasks, pieces and `text_format` are ours, absent in the authors' release.

    *Source*: section 1. `pieces`, `formula_pieces` and `table_pieces` are set where the checkpoint reads such crops
    only in pieces of a limited size; `draft_head` says whether drafts take the draft head unless told otherwise.
    `text_format` says what its text is: `plain` with formulas in `$`, or `markdown` as GLM-OCR itself writes it.
    """

    bd_size: int
    mask_id: int
    ar_loss_weight: float = 1.0
    mask_schedule: str = "uniform"
    tasks: tuple[str, ...] = ("text", "table", "formula")
    pieces: PieceSpec | None = None
    formula_pieces: FormulaPieceSpec | None = None
    table_pieces: TablePieceSpec | None = None
    draft_head: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    text_format: TextFormat = "markdown"


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint: network, tokenizer, prompts and what the decoders must know."""

    path: Path
    model: OcrModel
    tokenizer: Tokenizer
    prompts: PromptBuilder
    diffusion: BlockDiffusion
    stop_ids: frozenset[int]
    draft_head: DraftHead | None = None


def resolve_checkpoint(name: str) -> Path:
    """Return the folder of a checkpoint: `nano` is the embedded one, anything else a path.

    *Raises*: CheckpointError where there is no such folder.
    """
    if name == "nano":
        return Path(str(resources.files("gravityocr") / "checkpoints" / "nano"))
    path = Path(name)
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise CheckpointError(f"{name!r} cannot be opened ({error.strerror}); check the path") from error
    if not is_folder:
        raise CheckpointError(f"no checkpoint folder at {name!r}; give 'nano' or a folder with config.json")
    return path


def load_checkpoint(name: str, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Checkpoint:
    """Load a checkpoint folder.

    *Raises*: CheckpointError where files, keys, shapes or the mask token do not fit together.
    """
    path = resolve_checkpoint(name)
    raw = read_json(path / "config.json")
    config = parse_config(raw, path / "config.json")
    tokenizer = read_tokenizer(path, config.text.vocab_size)
    diffusion = read_block_diffusion(path, tokenizer, config.text.vocab_size)
    stop_ids = read_stop_ids(path, raw, config.text.vocab_size)
    spec = read_image_spec(path)
    check_patches(path, spec, config.vision)
    check_pieces(path, diffusion, spec)
    prompts = PromptBuilder(tokenizer, spec)
    with torch.device("meta"):  # no memory before the weights are known to fit
        model = OcrModel(config)
    load_weights(model, path)
    model = model.to(device=device, dtype=dtype).eval().requires_grad_(False)
    head = load_draft_head(path, config.text.hidden_size, config.text.vocab_size, dtype, device)
    return Checkpoint(path, model, tokenizer, prompts, diffusion, stop_ids, head)


def parse_config(raw: dict[str, Any], file: str | Path = "config.json") -> OcrConfig:
    """Read the network's sizes from a GLM-OCR config.json.

    *Raises*: CheckpointError naming `file` where a needed entry is missing, or one of the wrong type or out of range.
    """
    try:
        return _config_of(raw)
    except KeyError as error:
        raise CheckpointError(f"{file} lacks {error}; it must be a GLM-OCR config") from error
    except (CheckpointError, ConfigError) as error:
        raise CheckpointError(f"{file}: {error}") from error
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        what = f"an entry of the wrong type ({error})"
        raise CheckpointError(f"{file} holds {what}; it must be a GLM-OCR config") from error


def _config_of(raw: dict[str, Any]) -> OcrConfig:
    vision, text = raw["vision_config"], raw["text_config"]
    vision_rope = vision.get("rope_parameters") or {}
    text_rope = text["rope_parameters"]
    if float(text_rope.get("partial_rotary_factor", 1.0)) != 1.0:
        raise CheckpointError("it asks for a partial rotary embedding; only 1.0 is supported")
    if text_rope.get("rope_type", "default") != "default" or vision_rope.get("rope_type", "axial") != "axial":
        raise CheckpointError("it asks for another rotary embedding than default (text), axial (vision)")
    if {vision.get("hidden_act", "silu"), text.get("hidden_act", "silu")} != {"silu"}:
        raise CheckpointError("it asks for another activation than silu")
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
    content = read_bytes(file, "copy it from the model that this was converted from")
    try:
        tokenizer = Tokenizer.from_buffer(content)
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
    raw = read_json(file, "it names the mask token; convert the checkpoint first")
    if type(raw.get("mask_id")) is not int or type(raw.get("bd_size")) is not int:
        raise CheckpointError(f"{file} must hold the integers mask_id and bd_size")
    parsed = {"pieces", "formula_pieces", "table_pieces", "tasks"}
    known = BlockDiffusion.__dataclass_fields__.keys() - {"extra"} - parsed
    tasks = raw.get("tasks", [*TASK_PROMPTS])
    if not isinstance(tasks, list) or not all(isinstance(task, str) and task in TASK_PROMPTS for task in tasks):
        raise CheckpointError(f"{file}: tasks {tasks!r} must be a list out of {', '.join(TASK_PROMPTS)}")
    diffusion = BlockDiffusion(
        **{name: raw[name] for name in known if name in raw},
        tasks=tuple(tasks),
        pieces=_piece_spec(file, raw, "pieces", PieceSpec),
        formula_pieces=_piece_spec(file, raw, "formula_pieces", FormulaPieceSpec),
        table_pieces=_piece_spec(file, raw, "table_pieces", TablePieceSpec),
        extra={key: value for key, value in raw.items() if key not in known | parsed},
    )
    if not 1 <= diffusion.bd_size <= MAX_BLOCK_SIZE:
        raise CheckpointError(f"{file}: bd_size {diffusion.bd_size} must be 1 to {MAX_BLOCK_SIZE}")
    if not isinstance(diffusion.draft_head, bool):
        raise CheckpointError(f"{file}: draft_head {diffusion.draft_head!r} must be true or false")
    if diffusion.text_format not in get_args(TextFormat):
        raise CheckpointError(f"{file}: text_format {diffusion.text_format!r} must be plain or markdown")
    if not _is_number(diffusion.ar_loss_weight) or not isinstance(diffusion.mask_schedule, str):
        raise CheckpointError(f"{file}: ar_loss_weight must be a number and mask_schedule a string")
    if not 0 <= diffusion.mask_id < vocab_size:
        raise CheckpointError(f"{file}: mask_id {diffusion.mask_id} is outside the vocabulary of {vocab_size}")
    expected = tokenizer.token_to_id(MASK_TOKEN)
    if expected is not None and expected != diffusion.mask_id:
        raise CheckpointError(f"{file}: mask_id {diffusion.mask_id}, but the tokenizer's {MASK_TOKEN} is {expected}")
    return diffusion


def _piece_spec(file: Path, raw: dict[str, Any], name: str, cls: type[S]) -> S | None:
    """Read the sizes of pieces; None where there are none.

    *Raises*: CheckpointError where they do not fit.
    """
    pieces = raw.get(name)
    if pieces is None:
        return None
    sizes: list[str] = [size.name for size in fields(cls)]
    if not (isinstance(pieces, dict) and pieces.keys() <= {*sizes} and all(type(v) is int for v in pieces.values())):
        raise CheckpointError(f"{file}: {name} {pieces!r} must be an object of the integers {', '.join(sizes)}")
    try:
        return cls(**pieces)
    except ConfigError as error:
        raise CheckpointError(f"{file}: {error}") from error


def dump_block_diffusion(diffusion: BlockDiffusion) -> dict[str, Any]:
    """Return the contents of `block_diffusion.json`."""
    raw = asdict(diffusion)
    extra = raw.pop("extra")
    raw["tasks"] = list(raw["tasks"])
    return {**{name: value for name, value in raw.items() if value is not None}, **extra}


def read_image_spec(path: Path) -> ImageSpec:
    """Read `preprocessor_config.json`; GLM-OCR's values where an entry is missing.

    *Raises*: CheckpointError for an entry of the wrong type or out of range.
    """
    file = path / "preprocessor_config.json"
    raw = read_json(file)
    default = ImageSpec()
    size = raw.get("size") or {}
    if not isinstance(size, dict):
        raise CheckpointError(f"{file}: size {size!r} must be an object of shortest_edge and longest_edge")
    names = ("patch_size", "temporal_patch_size", "merge_size")
    sides = {name: raw.get(name, getattr(default, name)) for name in names}
    low, high = size.get("shortest_edge", default.min_pixels), size.get("longest_edge", default.max_pixels)
    if any(type(value) is not int for value in (*sides.values(), low, high)):
        raise CheckpointError(f"{file}: {', '.join(names)}, shortest_edge and longest_edge must be integers")
    if not 1 <= low <= high <= MAX_PIXELS:
        raise CheckpointError(f"{file}: size {low} to {high} pixels must rise within 1 to {MAX_PIXELS}")
    mean, std = raw.get("image_mean", default.mean), raw.get("image_std", default.std)
    for name, values in (("image_mean", mean), ("image_std", std)):
        if not isinstance(values, (list, tuple)) or len(values) != 3 or not all(map(_is_number, values)):
            raise CheckpointError(f"{file}: {name} {values!r} must be three numbers, one per colour")
    if min(std) <= 0:
        raise CheckpointError(f"{file}: image_std {std!r} must be above 0")
    return ImageSpec(**sides, min_pixels=low, max_pixels=high, mean=tuple(mean), std=tuple(std))


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and -1e30 < value < 1e30  # type: ignore[operator]


def check_patches(path: Path, spec: ImageSpec, vision: VisionConfig) -> None:
    """Check that the pixels are cut as the network takes them.

    *Raises*: CheckpointError naming the size that differs.
    """
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


def check_pieces(path: Path, diffusion: BlockDiffusion, spec: ImageSpec) -> None:
    """Refuse pieces that were cut for other vision cells: what is read in them would be wrong without a word.

    *Raises*: CheckpointError naming the pieces.
    """
    cell_px = spec.patch_size * spec.merge_size
    for name in ("pieces", "formula_pieces", "table_pieces"):
        pieces = getattr(diffusion, name)
        if pieces is not None and pieces.cell_px != cell_px:
            what = f"{name}.cell_px {pieces.cell_px}, but a vision cell of preprocessor_config.json has {cell_px} px"
            raise CheckpointError(f"{path / 'block_diffusion.json'}: {what}")


def read_stop_ids(path: Path, raw: dict[str, Any], vocab_size: int) -> frozenset[int]:
    """Return the tokens that end a response; generation_config.json goes first, config.json, `raw`, is next.

    *Raises*: CheckpointError where none are named, or one is no token.
    """
    generation = path / "generation_config.json"
    sources = [read_json(generation)] if generation.exists() else []
    text = raw.get("text_config")
    for source in [*sources, raw, text if isinstance(text, dict) else {}]:
        value = source.get("eos_token_id")
        if value is None:
            continue
        ids = value if isinstance(value, list) else [value]
        if not ids or not all(type(one) is int and 0 <= one < vocab_size for one in ids):
            raise CheckpointError(f"{path}: eos_token_id {value!r} must be token ids below {vocab_size}")
        return frozenset(ids)
    raise CheckpointError(f"{path}: neither generation_config.json nor config.json names eos_token_id")
