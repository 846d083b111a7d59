"""Direct block diffusion: denoise a block of masks, write it causally, go on with the next."""

from __future__ import annotations

import torch
from torch import Tensor

from gravityocr.decoding.request import Batch, Decoded, Request, Slots
from gravityocr.decoding.round import Window, cut
from gravityocr.decoding.sampling import greedy_with_confidence
from gravityocr.errors import ConfigError


def block_window(x0: Tensor, block: Tensor, lens: Tensor, writing: Tensor) -> Window:
    """Build the window [x0, block]: bidirectional behind x0 to denoise, causal to write.

    One shape serves both, so a sequence that writes never waits for one that denoises. A write needs
    [x0, block[:-1]] only; its last row lands on the slot of the next boundary and is overwritten there.

    *Shapes*: x0, lens, writing [b]; block [b, B]; B + 1 rows.
    """
    tokens = torch.cat([x0[:, None], block], dim=1)
    column = torch.arange(tokens.shape[1], device=lens.device)
    causal = writing[:, None] | (column == 0)
    return Window(tokens, lens, lens[:, None] + torch.where(causal, column, block.shape[1]))


def fix_tokens(
    tokens: Tensor, confidence: Tensor, block: Tensor, masked: Tensor, threshold: float
) -> tuple[Tensor, Tensor]:
    """Fix the masked positions at or over the threshold, or the most confident one where none is.

    *Shapes*: all [b, B]; returns the block and what is still masked in it. Complete blocks stay as they are.
    """
    confidence = confidence.masked_fill(~masked, -1.0)
    sure = masked & (confidence >= threshold)
    best = torch.zeros_like(masked).scatter(1, confidence.argmax(dim=1, keepdim=True), True)
    fixed = masked & torch.where(sure.any(dim=1, keepdim=True), sure, best)
    return torch.where(fixed, tokens, block), masked & ~fixed


@torch.no_grad()
def decode_diffusion(slots: Slots, request: Request, *, threshold: float = 0.9) -> list[Decoded]:
    """Decode by direct block diffusion and return the sequences in input order.

    The logit of row i predicts row i + 1, so x0 predicts the first position of the block. A sequence ends
    in the block that holds a stop token or reaches its limit, cut there; that block is not written. Cache
    writes are counted apart, as the paper's TPF does.

    *Raises*: ConfigError for a threshold outside [0, 1]; CapacityError before the first forward.
    *Source*: paper.md section 4, direct block diffusion; the default threshold is ours.
    """
    if not 0.0 <= threshold <= 1.0:
        raise ConfigError(f"threshold {threshold}: choose a probability from 0 to 1")
    stop_ids = request.stop_tensor()
    batch = Batch(request, slots)
    block = batch.x0.new_full((len(batch.running), request.block_size), request.mask_id)
    masked = torch.ones_like(block, dtype=torch.bool)
    while batch.running:
        writing = ~masked.any(dim=1)
        logits = slots.step(*block_window(batch.x0, block, batch.lens, writing))
        _count(batch, writing)
        tokens, confidence = greedy_with_confidence(logits[:, :-1], request.mask_id)
        block, masked = fix_tokens(tokens, confidence, block, masked, threshold)

        complete = ~masked.any(dim=1) & ~writing
        n_kept = cut(block, torch.full_like(batch.lens, block.shape[1]), stop_ids, batch.n_left)
        batch.record(block, torch.where(complete, n_kept, 0))

        batch.lens = torch.where(writing, batch.lens + block.shape[1], batch.lens)
        batch.x0 = torch.where(writing, block[:, -1], batch.x0)
        block = block.masked_fill(writing[:, None], request.mask_id)
        masked = masked | writing[:, None]
        rows = batch.retire()
        if rows is not None:
            block, masked = block[rows], masked[rows]
    return batch.results()


def _count(batch: Batch, writing: Tensor) -> None:
    for progress, writes in zip(batch.running, writing.tolist(), strict=True):
        if writes:
            progress.n_cache_writes += 1
        else:
            progress.n_forwards += 1
