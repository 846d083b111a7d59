"""Self-speculation: rounds of draft and verify until every sequence has ended."""

from __future__ import annotations

from functools import partial

import torch

from gravityocr.decoding.request import Batch, Decoded, Progress, Request, Slots
from gravityocr.decoding.round import Draft, Round, Rules, decode_round
from gravityocr.decoding.sampling import greedy
from gravityocr.decoding.trace import RoundTrace


@torch.no_grad()
def decode_speculative(
    slots: Slots, request: Request, *, draft: Draft | None = None, trace: bool = False
) -> list[Decoded]:
    """Decode by self-speculation and return the sequences in input order, with a trace if asked.

    `draft` replaces the plain block-diffusion draft; it must run on the same slots.
    *Raises*: CapacityError before the first forward. *Source*: paper.md section 4, self-speculation.
    """
    rules = Rules(request.block_size, request.mask_id, request.stop_tensor())
    choose = partial(greedy, mask_id=request.mask_id)
    batch = Batch(request, slots)
    while batch.running:
        outcome = decode_round(slots.step, choose, batch.x0, batch.lens, batch.n_left, rules, draft)
        _count(batch.running, outcome)
        batch.record(outcome.committed, outcome.n_committed)
        if trace:
            _trace(batch.running, outcome)
        batch.lens, batch.x0 = outcome.lens, outcome.x0
        batch.retire()
    return batch.results()


def _count(running: list[Progress], outcome: Round) -> None:
    # d_j is committed token j (a0 is token 0): a cut after n tokens leaves at most n - 1 drafts.
    accepted = torch.minimum(outcome.n_accepted, outcome.n_committed - 1).tolist()
    for progress, n_accepted in zip(running, accepted, strict=True):
        progress.n_rounds += 1
        progress.n_forwards += 2
        progress.n_accepted += n_accepted


def _trace(running: list[Progress], outcome: Round) -> None:
    columns = zip(
        running,
        outcome.a0.tolist(),
        outcome.drafts.tolist(),
        outcome.predictions.tolist(),
        outcome.n_accepted.tolist(),
        outcome.n_committed.tolist(),
        strict=True,
    )
    for progress, a0, drafts, predictions, n_accepted, n_committed in columns:
        committed = progress.ids[-n_committed:]
        x0 = progress.ids[-n_committed - 1]
        progress.trace.append(RoundTrace(x0, a0, drafts, predictions, n_accepted, committed))
