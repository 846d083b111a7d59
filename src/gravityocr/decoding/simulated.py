"""SIMULATED drafts: real forwards, whose drafts are replaced by a known answer that is spoiled at a drawn place."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

from gravityocr.decoding.acceptance import AcceptanceProfile
from gravityocr.decoding.batch import Batch, Progress
from gravityocr.decoding.plan import Drafter
from gravityocr.decoding.round import Window
from gravityocr.decoding.speculative import Proposer


class SimulatedRows:
    """Pay for the drafts of another proposer and hand out those that an acceptance profile asks for.

    Every sequence's options hold its answer, found by an autoregressive decode, as `reference`. Its draws depend on the
    seed and that answer alone, whatever else is decoded.
    """

    def __init__(self, rows: Proposer, batch: Batch, profile: AcceptanceProfile) -> None:
        self.rows = rows
        self.batch = batch
        self.profile = profile
        self.source: Drafter = rows.source
        self.drawn: dict[int, tuple[Progress, torch.Generator]] = {}

    def forward(self, window: Window) -> Tensor:
        """Run the network and return its logits."""
        return self.rows.forward(window)

    def propose(
        self, logits: Tensor, columns: Tensor, boundary: Tensor, last: Tensor, before: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return drafts of which as many agree as was drawn; the confidence is the same everywhere."""
        self.rows.source = self.source
        tokens, confidence = self.rows.propose(logits, columns, boundary, last, before)
        size = tokens.shape[1]
        for row, progress in enumerate(self.batch.running):
            length = int(self.profile.draw(1, self._generator(progress)))
            answer = list(progress.options.reference[len(progress.ids) :][:size])
            drafts = answer + [answer[-1] if answer else progress.ids[-1]] * (size - len(answer))
            if length < size:  # any other token but the mask
                other = (drafts[length] + 1) % logits.shape[-1]
                drafts[length] = other if other != self.batch.mask_id else (other + 1) % logits.shape[-1]
            tokens[row] = torch.tensor(drafts, device=tokens.device)
        return tokens, torch.full_like(confidence, self.profile.mean / (1 + self.profile.mean))

    def _generator(self, progress: Progress) -> torch.Generator:
        if id(progress) not in self.drawn:
            seed = zlib.crc32(repr(progress.options.reference).encode(), self.profile.seed)
            self.drawn[id(progress)] = progress, torch.Generator().manual_seed(seed)
        return self.drawn[id(progress)][1]
