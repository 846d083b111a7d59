"""Draft with the sequential head: one forward for all mask rows, then their tokens one after another."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from gravityocr.decoding.plan import Drafter
from gravityocr.decoding.round import Window
from gravityocr.decoding.sampling import greedy_with_confidence
from gravityocr.model.draft_head import DraftHead
from gravityocr.model.ocr_model import DecodeSession


class SequentialRows:
    """Propose drafts with the head of a checkpoint; it keeps the hidden states of the last forward."""

    def __init__(self, session: DecodeSession, head: DraftHead, mask_id: int) -> None:
        self.session = session
        self.head = head
        self.mask_id = mask_id
        self.to_logits = (session.model.lm_head.weight @ head.to_hidden.weight).float().T.contiguous()
        self.last_table, self.before_table = head.last_token.weight.float(), head.token_before.weight.float()
        self.hidden: Tensor | None = None
        self.source: Drafter = "head"

    def forward(self, window: Window) -> Tensor:
        """Run the network and return its logits."""
        self.hidden = self.session.step_hidden(*window)
        return self.session.model.logits(self.hidden)

    def propose(
        self, logits: Tensor, columns: Tensor, boundary: Tensor, last: Tensor, before: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the tokens of the mask rows, each chosen with a view to the two before it, or each for itself."""
        if self.source == "diffusion":
            rows = torch.arange(len(columns), device=columns.device)[:, None]
            return greedy_with_confidence(logits[rows, columns], self.mask_id)
        assert self.hidden is not None, "propose() follows forward()"
        rows = torch.arange(len(columns), device=columns.device)[:, None]
        hidden = self.hidden[rows, torch.cat([boundary[:, None], columns], dim=1)]
        context = self.head.context(hidden[:, 1:], hidden[:, :-1]).float()
        own = logits[rows, columns]
        chosen, confidence = [before, last], []
        for row in range(columns.shape[1]):
            seen = context[:, row] + self.last_table[chosen[-1]] + self.before_table[chosen[-2]]
            corrected = torch.addmm(own[:, row], F.silu(seen), self.to_logits)
            token, sure = greedy_with_confidence(corrected, self.mask_id)
            chosen.append(token)
            confidence.append(sure)
        return torch.stack(chosen[2:], dim=1), torch.stack(confidence, dim=1)
