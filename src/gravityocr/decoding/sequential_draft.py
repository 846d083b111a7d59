"""Draft with the sequential head: one forward for all mask rows, then their tokens one after another."""

from __future__ import annotations

import torch
from torch import Tensor

from gravityocr.decoding.round import Draft, Window
from gravityocr.decoding.sampling import greedy
from gravityocr.model.draft_head import DraftHead
from gravityocr.model.ocr_model import DecodeSession


def sequential_draft(session: DecodeSession, head: DraftHead, mask_id: int) -> Draft:
    """Return the drafter of a session that uses the head."""
    lm_head = session.model.lm_head.weight
    to_logits = (lm_head @ head.to_hidden.weight).float().T.contiguous()
    last_table, before_table = head.last_token.weight.float(), head.token_before.weight.float()

    def draft(window: Window) -> Tensor:
        hidden = session.step_hidden(*window)
        logits = session.model.logits(hidden)
        chosen = [window.tokens[:, 0], greedy(logits[:, 0], mask_id)]
        context = head.context(hidden[:, 1:], hidden[:, :-1]).float()
        for row in range(window.tokens.shape[1] - 1):
            seen = context[:, row] + last_table[chosen[-1]] + before_table[chosen[-2]]
            corrected = torch.addmm(logits[:, row + 1], torch.nn.functional.silu(seen), to_logits)
            chosen.append(greedy(corrected, mask_id))
        return torch.stack(chosen[1:], dim=1)

    return draft
