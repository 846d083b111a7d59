"""Greedy autoregressive decoding: the oracle. It shares the network and no acceptance code."""

from __future__ import annotations

import torch

from gravityocr.decoding.request import Batch, Decoded, Request, Slots
from gravityocr.decoding.sampling import greedy


@torch.no_grad()
def decode_autoregressive(slots: Slots, request: Request) -> list[Decoded]:
    """Decode one token a forward and return the sequences in input order.

    *Raises*: CapacityError as the other decoders do, so that a request suits all of them or none.
    *Source*: paper.md section 4, AR.
    """
    batch = Batch(request, slots)
    while batch.running:
        logits = slots.step(batch.x0[:, None], batch.lens, batch.lens[:, None])
        tokens = greedy(logits, request.mask_id)
        for progress in batch.running:
            progress.n_forwards += 1
        batch.record(tokens, torch.ones_like(batch.lens))
        batch.lens, batch.x0 = batch.lens + 1, tokens[:, 0]
        batch.retire()
    return batch.results()
