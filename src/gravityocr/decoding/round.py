"""One round of self-speculative decoding: draft, verify, accept, commit.

Everything here is a pure batched function of tensors. `lens[b]` counts the valid causal slots of sequence
b; the boundary x0 is committed but its K/V is not in the cache yet. One round, with B = 3 and A = 1:

    slot          len      len+1    len+2    len+3    len+4
    DRAFT  row    x0       MASK     MASK     MASK               x0 causal, masks see the whole window
           out    a0       d_1      d_2      d_3                a0 is an exact AR prediction
    VERIFY row             a0       d_1      d_2      d_3       causal, overwrites the masks' K/V
           out             a_1      a_2      a_3      a_4       d_1 == a_1, d_2 != a_2
    COMMIT        a0, d_1, a_2;  lens <- len + 3;  x0 <- a_2    rejected K/V behind it is overwritten next

A surviving K/V is therefore always causal, and the output is greedy AR decoding of the same checkpoint.

*Source*: paper.md section 4, self-speculation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gravityocr.errors import ConfigError

Step = Callable[[Tensor, Tensor, Tensor], Tensor]
"""tokens [b, r], start [b], limits [b, r] -> logits [b, r, vocab]; row i is written to slot `start + i`
and attends to slots `0..limits[b, i]`."""
Choose = Callable[[Tensor], Tensor]
"""logits [b, r, vocab] -> tokens [b, r]; it never chooses the mask token."""

NO_TOKEN = -1  # fills the columns behind the committed tokens; equals no vocabulary entry


@dataclass(frozen=True)
class Rules:
    """Hold what every round of a decode shares.

    *Shapes*: stop_ids [k]. *Raises*: ConfigError for a block size below 1 or a negative mask id.
    """

    block_size: int
    mask_id: int
    stop_ids: Tensor

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise ConfigError(f"block size {self.block_size}: choose at least 1")
        if self.mask_id < 0:
            raise ConfigError(f"mask id {self.mask_id}: read it from the checkpoint's block_diffusion.json")


class Window(NamedTuple):
    """Hold the arguments of one `step`. *Shapes*: tokens [b, r], start [b], limits [b, r]."""

    tokens: Tensor
    start: Tensor
    limits: Tensor


Draft = Callable[[Window], Tensor]
"""A draft window -> the tokens [b, B + 1] that its rows choose, the first of them an exact AR prediction."""


@dataclass(frozen=True)
class Round:
    """Hold the outcome of one round.

    `n_accepted` is A of the acceptance rule; `n_committed` is A + 2 or less where a stop token or the limit
    cut the round. `lens` and `x0` are the state after it.

    *Shapes*: a0, n_accepted, n_committed, lens, x0 [b]; drafts [b, B]; predictions [b, B + 1];
    committed [b, B + 2], of which the first n_committed columns count.
    """

    a0: Tensor
    drafts: Tensor
    predictions: Tensor
    n_accepted: Tensor
    committed: Tensor
    n_committed: Tensor
    lens: Tensor
    x0: Tensor


def draft_window(x0: Tensor, lens: Tensor, block_size: int, mask_id: int) -> Window:
    """Build the window [x0, MASK x B]: row 0 causal, mask rows see the cache and the whole window.

    *Shapes*: x0, lens [b]; B + 1 rows.
    """
    masks = x0.new_full((x0.shape[0], block_size), mask_id)
    limits = (lens + block_size)[:, None].repeat(1, block_size + 1)
    limits[:, 0] = lens
    return Window(torch.cat([x0[:, None], masks], dim=1), lens, limits)


def verify_window(a0: Tensor, drafts: Tensor, lens: Tensor) -> Window:
    """Build the causal window [a0, d_1..d_B] over the slots of the masks.

    *Shapes*: a0, lens [b]; drafts [b, B]; B + 1 rows.
    """
    tokens = torch.cat([a0[:, None], drafts], dim=1)
    start = lens + 1
    return Window(tokens, start, start[:, None] + torch.arange(tokens.shape[1], device=lens.device))


def accept(drafts: Tensor, predictions: Tensor) -> Tensor:
    """Return A [b], the length of the longest prefix with d_j == a_j.

    *Shapes*: drafts [b, B]; predictions [b, B + 1], a_1 first.
    """
    agrees = drafts == predictions[:, :-1]
    return agrees.long().cumprod(dim=1).sum(dim=1)


def commit(a0: Tensor, drafts: Tensor, predictions: Tensor, n_accepted: Tensor) -> Tensor:
    """Return a0, d_1..d_A, a_{A+1} and NO_TOKEN behind them.

    *Shapes*: a0, n_accepted [b]; drafts [b, B]; predictions [b, B + 1]; result [b, B + 2].
    """
    column = torch.arange(drafts.shape[1] + 2, device=drafts.device)
    last = n_accepted[:, None] + 1
    tokens = torch.cat([a0[:, None], drafts, drafts[:, :1]], dim=1)
    tokens = torch.where(column == last, predictions.gather(1, n_accepted[:, None]), tokens)
    return tokens.masked_fill(column > last, NO_TOKEN)


def cut(tokens: Tensor, counts: Tensor, stop_ids: Tensor, n_left: Tensor) -> Tensor:
    """Return how many of the first `counts` tokens remain up to the first stop token and the limit.

    *Shapes*: tokens [b, n]; counts, n_left and the result [b]; stop_ids [k]. The stop token remains.
    """
    n_columns = tokens.shape[1]
    column = torch.arange(n_columns, device=tokens.device)
    first_stop = torch.where(torch.isin(tokens, stop_ids), column, n_columns).amin(dim=1)
    return torch.minimum(torch.minimum(counts, first_stop + 1), n_left)


def decode_round(step: Step, choose: Choose, x0: Tensor, lens: Tensor, n_left: Tensor, rules: Rules,
                 draft: Draft | None = None) -> Round:  # fmt: skip
    """Run one round for every sequence: two forwards, 1 to B + 2 tokens committed for each.

    `n_left` is how many tokens a sequence may still commit, at least 1. The cache needs B + 2 slots behind
    `lens`; `step` is called twice and nothing else is touched. `draft` replaces the first call.

    *Shapes*: x0, lens, n_left [b]. *Source*: paper.md section 4, self-speculation, 1 to 3.
    """
    window = draft_window(x0, lens, rules.block_size, rules.mask_id)
    drafted = choose(step(*window)) if draft is None else draft(window)
    a0, drafts = drafted[:, 0], drafted[:, 1:]
    predictions = choose(step(*verify_window(a0, drafts, lens)))
    n_accepted = accept(drafts, predictions)
    committed = commit(a0, drafts, predictions, n_accepted)
    n_committed = cut(committed, n_accepted + 2, rules.stop_ids, n_left)
    return Round(
        a0=a0,
        drafts=drafts,
        predictions=predictions,
        n_accepted=n_accepted,
        committed=committed,
        n_committed=n_committed,
        lens=lens + n_committed,  # len + 2 + A when nothing was cut
        x0=committed.gather(1, n_committed[:, None] - 1)[:, 0],
    )
