"""Autoregressive decoding: the oracle. It shares the network and no acceptance code."""

from __future__ import annotations

import torch

from gravityocr.decoding.batch import Batch, run
from gravityocr.decoding.guard import TieGuard
from gravityocr.decoding.request import Decoded, Request, Slots


class AutoregressiveLane:
    """Decode a batch one token a forward. *Source*: paper.md section 4, AR."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    @torch.inference_mode()
    def step(self) -> None:
        """Run one forward, which commits one token of every sequence."""
        batch = self.batch
        tokens = batch.x0[:, None]
        logits = batch.slots.step(tokens, batch.lens, batch.lens[:, None])
        decision = batch.decide(tokens, logits)
        for progress in batch.running:
            progress.n_forwards += 1
        batch.advance(decision.tokens, torch.ones_like(batch.lens), decision)
        batch.retire()


def decode_autoregressive(slots: Slots, request: Request, *, guard: TieGuard | None = None) -> list[Decoded]:
    """Decode one token a forward and return the sequences in input order.

    *Raises*: CapacityError as the other decoders do, so that a request suits all of them or none.
    """
    request.check_capacity(slots.capacity)
    return run(AutoregressiveLane(Batch(slots, request.mask_id, guard)), request)
