"""Train the sequential draft head of a checkpoint whose network stays as it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gravityocr.errors import CheckpointError, ConfigError
from gravityocr.model.checkpoint import Checkpoint, load_checkpoint, resolve_checkpoint
from gravityocr.model.draft_head import DRAFT_HEAD_FILE, DraftHead, save_draft_head
from gravityocr.training.attention import segment_attention
from gravityocr.training.joint import RowData
from gravityocr.training.losses import packed_hidden
from gravityocr.training.optimizer import rate_share
from gravityocr.training.packing import PackedRow, Sample, pack
from gravityocr.training.run_config import RunConfig, TrainConfig
from gravityocr.training.setup import open_source
from gravityocr.training.sources import Done
from gravityocr.training.writable import check_writable

LEARNING_RATE = 3e-3
CLIP_NORM = 1.0


def train_draft_head(config: TrainConfig, folder: Path) -> dict[str, Any]:
    """Train a head on fully masked copies and write it into the checkpoint's folder.

    Data, noise, length and schedule are the run's. Returns the last losses, with and without the head.
    *Raises*: ConfigError where nothing can be written to the folder, CheckpointError where it holds no checkpoint or
    the loss is not finite.
    """
    if not folder.is_dir():
        raise ConfigError(f"--draft-head {folder} is no folder; name that of a checkpoint, the head is written there")
    checkpoint = load_checkpoint(str(folder.resolve()))
    check_writable(folder, f"--draft-head {folder}")
    text = checkpoint.model.config.text
    torch.manual_seed(config.train.seed)
    head = DraftHead(text.hidden_size, text.vocab_size)
    optimizer = torch.optim.AdamW(head.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    rows = _rows(config, checkpoint)
    record: dict[str, Any] = {}
    began, step = time.monotonic(), 0
    while (share := _share_done(config.train, step, time.monotonic() - began)) < 1.0:
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * rate_share(share, config.optimizer)
        data = next(rows)
        loss, plain = _step(checkpoint, head, data, config)
        if not loss.isfinite():
            what = f"the loss of step {step} is not finite"
            raise CheckpointError(f"--draft-head {folder}: {what}; look at the checkpoint's weights")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), CLIP_NORM)
        optimizer.step()
        step += 1
        record = {"step": step, "elapsed_s": round(time.monotonic() - began, 1)}
        record |= {"loss": loss.item(), "loss_without_head": plain.item()}
        if step % config.train.log_every == 0:
            print(" ".join(f"{key}={value:.5g}" for key, value in record.items()), file=sys.stderr, flush=True)
    save_draft_head(head, folder)
    return record


def has_draft_head(name: str) -> bool:
    """Tell whether a checkpoint, by name or folder, is there and has a draft head."""
    try:
        return (resolve_checkpoint(name) / DRAFT_HEAD_FILE).is_file()
    except CheckpointError:
        return False


def _rows(config: TrainConfig, checkpoint: Checkpoint) -> Iterator[RowData]:
    """Return rows of fully masked copies, as difficult as they get."""
    noise = replace(config.noise, mask_schedule="all")
    source = open_source(replace(config, noise=noise), checkpoint.prompts, min(checkpoint.stop_ids))
    source.set_difficulty(1.0)
    for ticket in source.tickets(Done(), 0, 1, 1):
        yield from source.rows(ticket)


def _share_done(run: RunConfig, step: int, elapsed_s: float) -> float:
    return elapsed_s / run.budget_s if run.budget_s is not None else step / run.steps


def _step(checkpoint: Checkpoint, head: DraftHead, data: RowData, config: TrainConfig) -> tuple[Tensor, Tensor]:
    """Return the mean loss of all mask rows with the head, and without it."""
    model = checkpoint.model
    row = pack(data.samples, checkpoint.diffusion.mask_id)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=config.train.bf16):
        _, features = model.encode_images([sample.prompt for sample in data.samples])
        hidden = packed_hidden(model, row, features, segment_attention(row)).float()
    rows, before, last, token_before, target = mask_rows(row, data.samples)
    hidden = hidden[0]
    correction = head.correction(head.context(hidden[rows], hidden[before]), last, token_before)
    with torch.no_grad():
        plain = F.cross_entropy(model.logits(hidden[rows]), target)
    return F.cross_entropy(model.logits(hidden[rows] + correction), target), plain


def mask_rows(row: PackedRow, samples: tuple[Sample, ...]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Find the mask rows of fully masked copies, the row before each in its draft window, and their tokens.

    The first mask row of a block follows its boundary, which is causal: the row of the clean stream.
    *Shapes*: five tensors [n]: rows and rows before, the two tokens before, the target.
    """
    parts = []
    for sample, place in zip(samples, row.places, strict=True):
        response, block = sample.response, sample.corruption.block
        clean, masked = place.streams[:2]
        at = torch.arange(1, response.numel() - 1)
        opens = block[at] != block[at - 1]
        before = torch.where(opens, clean + at - 1, masked + at - 1)
        parts.append((masked + at, before, response[at], response[at - 1], response[at + 1]))
    rows, before, last, token_before, target = (torch.cat(column) for column in zip(*parts, strict=True))
    return rows, before, last, token_before, target
