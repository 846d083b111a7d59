"""The tie guard: where two tokens are nearly equal, the fp32 network decides, in every decode mode alike.

A forward of one row and one over a whole window use different kernels, whose bf16 results differ a little. Where the
best two scores lie further apart than twice that, both decoders choose alike. Where they do not, the committed ids are
evaluated again in fp32, from the last slot whose K/V is already exact; that leaves exact K/V behind, so that a
sequence pays for each of its tokens at most once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gravityocr.decoding.request import Slots


@dataclass(frozen=True)
class TieGuard:
    """Find near ties and let fp32 decide them.

    *Units*: `margin` between the best two scores, in nats; above twice the greatest deviation between kernel shapes.
    """

    margin: float

    def ties(
        self, scores: Tensor, tokens: Tensor, chosen: Tensor, n_drafts: Tensor | None, temperature: Tensor | None
    ) -> Tensor:
        """Return the rows that matter and whose best two scores are too close.

        A row matters up to the first draft that was not chosen. *Shapes*: scores [b, r, vocab]; tokens, chosen [b, r];
        n_drafts, temperature [b] -> [b, r].
        """
        best = scores.topk(2, dim=-1).values
        margin = torch.full_like(best[:, :1, 0], self.margin)
        if temperature is not None:  # noise is added after the division by the temperature
            margin = margin / torch.where(temperature > 0, temperature, 1.0)[:, None].to(margin.dtype)
        close = best[..., 0] - best[..., 1] < margin
        if n_drafts is None:
            return close
        agrees = (tokens[:, 1:] == chosen[:, :-1]) | close[:, :-1]
        column = torch.arange(tokens.shape[1], device=tokens.device)
        counts = column[1:] <= n_drafts[:, None]
        reached = torch.cat([torch.ones_like(close[:, :1]), (agrees & counts).long().cumprod(dim=1).bool()], dim=1)
        return close & reached

    def evaluate(
        self,
        slots: Slots,
        rows: Tensor,
        ids: Sequence[Sequence[int]],
        prefixes: Sequence[int],
        exact: Tensor,
        lens: Tensor,
        window: Tensor,
    ) -> Tensor:
        """Return exact logits of a causal window for the sequences `rows`.

        *Shapes*: rows [n]; `ids` and `prefixes` of these; exact, lens [b]; window [b, r] -> [n, r, vocab].
        """
        n_rows = window.shape[1]
        starts, ends = exact[rows].tolist(), lens[rows].tolist()
        width = max(end - start for start, end in zip(starts, ends, strict=True)) + n_rows
        # One rectangle for all: a sequence with less to do starts where the widest still fits, and repeats some.
        starts = [min(start, slots.capacity - width) for start in starts]
        tokens = torch.zeros(len(starts), width, dtype=torch.long, device=window.device)
        own = window[rows]
        for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
            committed = torch.tensor(ids[i][start - prefixes[i] : end - prefixes[i]], device=window.device)
            tokens[i, : end - start] = committed
            tokens[i, end - start : end - start + n_rows] = own[i]
        start = torch.tensor(starts, dtype=torch.long, device=window.device)
        logits = slots.exact_step(rows, tokens, start)
        first = (lens[rows] - start)[:, None] + torch.arange(n_rows, device=window.device)
        return logits[torch.arange(len(starts), device=window.device)[:, None], first]
