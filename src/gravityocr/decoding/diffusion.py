"""Direct block diffusion: denoise a block of masks, write it causally, go on with the next."""

from __future__ import annotations

import torch
from torch import Tensor

from gravityocr.decoding.batch import Batch, run
from gravityocr.decoding.request import Decoded, Request, Slots
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


class DiffusionLane:
    """Decode a batch by direct block diffusion.

    The logit of row i predicts row i + 1, so x0 predicts the first position of the block. A sequence ends in the block
    that holds a stop token or reaches its limit, cut there; that block is not written. Cache writes are counted apart,
    as the paper's TPF does.

    *Source*: paper.md section 4, direct block diffusion; the default threshold is ours.
    """

    def __init__(self, batch: Batch, block_size: int, threshold: float = 0.9) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise ConfigError(f"threshold {threshold}: choose a probability from 0 to 1")
        self.batch = batch
        self.threshold = threshold
        # `known` marks fixed positions, so that a new sequence starts with a block of masks.
        batch.columns |= {"block": torch.zeros(0, block_size).long(), "known": torch.zeros(0, block_size).bool()}

    @torch.inference_mode()
    def step(self) -> None:
        """Run one forward: sequences whose block is complete write it, the others denoise theirs."""
        batch = self.batch
        masked = ~batch.columns["known"]
        block = batch.columns["block"].masked_fill(masked, batch.mask_id)
        writing = ~masked.any(dim=1)
        logits = batch.slots.step(*block_window(batch.x0, block, batch.lens, writing))
        for progress, writes in zip(batch.running, writing.tolist(), strict=True):
            progress.n_cache_writes += writes
            progress.n_forwards += not writes
        tokens, confidence = greedy_with_confidence(logits[:, :-1], batch.mask_id)
        block, masked = fix_tokens(tokens, confidence, block, masked, self.threshold)

        complete = ~masked.any(dim=1) & ~writing
        n_kept = cut(block, torch.full_like(batch.lens, block.shape[1]), batch.stops, batch.n_left)
        batch.record(block, torch.where(complete, n_kept, 0))

        batch.lens = torch.where(writing, batch.lens + block.shape[1], batch.lens)
        batch.x0 = torch.where(writing, block[:, -1], batch.x0)
        batch.columns |= {"block": block, "known": ~masked & ~writing[:, None]}
        batch.retire()


def decode_diffusion(slots: Slots, request: Request, *, threshold: float = 0.9) -> list[Decoded]:
    """Decode by direct block diffusion and return the sequences in input order.

    *Raises*: ConfigError for a threshold outside [0, 1], or block sizes that differ; CapacityError before the first
    forward.
    """
    sizes = {one.block_size for one in request.options}
    if len(sizes) > 1:
        raise ConfigError(f"block sizes {sorted(sizes)}: direct diffusion needs one for all sequences")
    lane = DiffusionLane(Batch(slots, request.mask_id), max(sizes, default=1), threshold)
    request.check_capacity(slots.capacity)
    return run(lane, request)
