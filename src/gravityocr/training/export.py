"""Write a trained network as an ordinary checkpoint folder, which stock transformers and our engine load."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from gravityocr.errors import CheckpointError
from gravityocr.model.checkpoint import BlockDiffusion, Checkpoint, dump_block_diffusion, dump_config, parse_config
from gravityocr.model.checkpoint_files import new_folder, read_json, settings_files, write_json
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.prompt import ImageSpec
from gravityocr.model.weights import save_weights
from gravityocr.training.nano import token_ids, write_processor_files


def export_checkpoint(path: Path, model: OcrModel, tokenizer: Tokenizer, spec: ImageSpec, diffusion: BlockDiffusion,
                      eos_id: int, dtype: torch.dtype = torch.bfloat16) -> None:  # fmt: skip
    """Write weights, config, tokenizer, processor and `block_diffusion.json`."""
    path.mkdir(parents=True, exist_ok=True)
    config = dump_config(model.config, token_ids(tokenizer), [eos_id], str(dtype).removeprefix("torch."))
    (path / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    raw = json.dumps(dump_block_diffusion(diffusion), indent=2)
    (path / "block_diffusion.json").write_text(raw + "\n", encoding="utf-8")
    write_processor_files(path, tokenizer, spec, [eos_id])
    save_weights(model, path, dtype)


def export_adapted(path: Path, base: Checkpoint, model: OcrModel, diffusion: BlockDiffusion,
                   dtype: torch.dtype = torch.bfloat16) -> None:  # fmt: skip
    """Write the weights that an adapted checkpoint has now, beside the base's own config, tokenizer and processor.

    The folder appears whole and takes the place of an earlier export. A draft head of the base stays behind, since it
    was trained on other weights; what the base's `block_diffusion.json` says beyond our entries goes along.

    *Raises*: CheckpointError where the network or the mask token is not the base's; InputError where `path` is taken
    by something that is no checkpoint.
    """
    file = base.path / "config.json"
    raw = read_json(file)
    if model.config != parse_config(raw, file):
        raise CheckpointError(f"{base.path}: its config.json is not that of the trained network; was it exchanged?")
    if diffusion.mask_id != base.diffusion.mask_id:
        what = f"mask_id {diffusion.mask_id}, but it was trained with {base.diffusion.mask_id}"
        raise CheckpointError(f"{path}: {what}; take that of the base {base.path}")
    name = str(dtype).removeprefix("torch.")
    for part in (raw, raw["text_config"], raw["vision_config"]):
        for key in ("dtype", "torch_dtype"):  # the second is what older files call it
            if key in part or (part is raw and key == "dtype"):
                part[key] = name
    diffusion = replace(diffusion, draft_head=False, extra={**base.diffusion.extra, **diffusion.extra})
    with new_folder(path, overwrite=True) as folder:
        for settings in settings_files(base.path):
            shutil.copyfile(settings, folder / settings.name)
        write_json(folder / "config.json", raw)
        write_json(folder / "block_diffusion.json", dump_block_diffusion(diffusion))
        save_weights(model, folder, dtype)
