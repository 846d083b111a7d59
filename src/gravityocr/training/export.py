"""Write a trained network as an ordinary checkpoint folder."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer

from gravityocr.model.checkpoint import BlockDiffusion, dump_block_diffusion, dump_config
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
