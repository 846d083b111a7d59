"""The forwards of self-speculative decoding: one window, one acceptance rule, for drafting, verifying and both at once.

Everything here is a pure batched function of tensors. `lens[b]` counts the valid causal slots of sequence b; the
boundary x0 is committed but its K/V is not in the cache yet. A window holds x0, w drafts to be verified, and K mask
blocks of B tokens, each behind a candidate point c, the draft d_c (d_0 = x0) at which acceptance may end. With w = 3,
K = 1, B = 2, c = 2:

    slot    len   +1    +2    +3    +4     +5
    row     x0    d_1   d_2   d_3   MASK   MASK      x0 and drafts are causal; a mask row sees the slots up to d_c
    out     p_0   p_1   p_2   p_3   e_1    e_2       and its own block, and is positioned as if it followed d_c

A = length of the longest prefix with d_j == p_{j-1}. Committed are d_1..d_A and p_A, which is exactly what the
autoregressive path says there; it is the next x0, and K/V behind it are overwritten next. If A = c, the block's
e_1..e_B follow that x0 and are the next drafts. Four cases have names:

    draft forward          w = 0, K = 1, c = 0      commits p_0 (the paper's a0) and proposes B tokens behind it
    verify forward         w = B, K = 0             commits A + 1 tokens; with the draft forward a round: A + 2 in two
    fused round            w = B, K >= 1            both in one forward, where a candidate is hit
    autoregressive step    w = 0, K = 0

A surviving K/V is always causal, and the output is autoregressive decoding of the same checkpoint.

*Source*: paper.md section 4, self-speculation; the fused window is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

NO_TOKEN = -1  # fills the columns behind the committed tokens; equals no vocabulary entry
NO_STOP = -2  # fills up the stop tokens of a sequence; equals neither


class Window(NamedTuple):
    """Hold the arguments of one `step`.

    *Shapes*: tokens, limits, offsets [b, r], start [b], spans [b, r, 2].
    """

    tokens: Tensor
    start: Tensor
    limits: Tensor
    spans: Tensor | None = None
    offsets: Tensor | None = None


class Plan(NamedTuple):
    """Say what each sequence's window holds.

    *Shapes*: drafts [b, W], of which the first n_drafts [b] count; points [b, K], the candidates, of which the first
    n_blocks [b] count; blocks [b, B], the tokens of a mask block.
    """

    drafts: Tensor
    n_drafts: Tensor
    points: Tensor
    n_blocks: Tensor
    blocks: Tensor


def round_window(x0: Tensor, lens: Tensor, plan: Plan) -> Window:
    """Build the window [x0, drafts, mask blocks] of every sequence, filled up to a rectangle behind its end.

    *Shapes*: x0, lens [b].
    """
    size = plan.blocks.shape[1]
    n_rows = int((1 + plan.n_drafts + plan.n_blocks * size).max())
    column = torch.arange(n_rows, device=lens.device)
    slot = lens[:, None] + column
    n_drafts = plan.n_drafts[:, None]
    width = min(plan.drafts.shape[1], n_rows - 1)
    causal_tokens = torch.cat([x0[:, None], plan.drafts[:, :width], x0.new_zeros(len(x0), n_rows - 1 - width)], dim=1)
    if not int(plan.n_blocks.max()):
        return Window(causal_tokens, lens, slot)
    behind = column - 1 - n_drafts  # place in the blocks; below 0 for x0 and the drafts
    in_block = (behind >= 0) & (behind < plan.n_blocks[:, None] * size)
    number, place = behind.clamp(min=0) // size, behind.clamp(min=0) % size
    point = plan.points.gather(1, number.clamp(max=plan.points.shape[1] - 1))
    tokens = torch.where(in_block, plan.blocks.gather(1, place), causal_tokens)
    if width == 0 and plan.points.shape[1] == 1 and bool(in_block[:, 1:].all()):
        limits = torch.where(behind < 0, slot, slot[:, -1:])  # the block follows x0, so that one limit says it all
        return Window(tokens, lens, limits)
    first = slot - place
    limits = torch.where(behind < 0, slot, lens[:, None] + torch.where(in_block, point, n_drafts))
    spans = torch.stack([torch.where(in_block, first, slot), torch.where(in_block, first + size - 1, slot)], dim=-1)
    return Window(tokens, lens, limits, spans, torch.where(in_block, point + 1 + place - column, 0))


def accept(drafts: Tensor, n_drafts: Tensor, predictions: Tensor) -> Tensor:
    """Return A [b], the length of the longest prefix with d_j == p_{j-1}.

    *Shapes*: drafts [b, w], of which n_drafts [b] count; predictions [b, w + 1], p_0 first.
    """
    counts = torch.arange(drafts.shape[1], device=drafts.device) < n_drafts[:, None]
    return ((drafts == predictions[:, :-1]) & counts).long().cumprod(dim=1).sum(dim=1)


def commit(predictions: Tensor, n_accepted: Tensor) -> Tensor:
    """Return d_1..d_A, p_A and NO_TOKEN behind them; an accepted draft is what was predicted.

    *Shapes*: predictions [b, w + 1]; n_accepted [b]; result [b, w + 1].
    """
    column = torch.arange(predictions.shape[1], device=predictions.device)
    return predictions.masked_fill(column > n_accepted[:, None], NO_TOKEN)


def cut(tokens: Tensor, counts: Tensor, stops: Tensor, n_left: Tensor) -> Tensor:
    """Return how many of the first `counts` tokens remain up to the first stop token and the limit.

    *Shapes*: tokens [b, n]; counts, n_left and the result [b]; stops [b, k], NO_STOP where there is none. The stop
    token remains.
    """
    n_columns = tokens.shape[1]
    column = torch.arange(n_columns, device=tokens.device)
    is_stop = (tokens[:, :, None] == stops[:, None, :]).any(dim=-1)
    first_stop = torch.where(is_stop, column, n_columns).amin(dim=1)
    return torch.minimum(torch.minimum(counts, first_stop + 1), n_left)


class Outcome(NamedTuple):
    """Hold what a forward commits and where its next drafts are.

    `n_accepted` is A of the acceptance rule; `n_committed` is A + 1 or less where a stop token or the limit cut it.
    `hit` tells whether acceptance ended at a candidate and was not cut; `columns` are that candidate's mask rows.

    *Shapes*: n_accepted, n_committed, hit [b]; committed [b, w + 1]; columns [b, B].
    """

    n_accepted: Tensor
    committed: Tensor
    n_committed: Tensor
    hit: Tensor
    columns: Tensor


def judge(plan: Plan, predictions: Tensor, stops: Tensor, n_left: Tensor) -> Outcome:
    """Apply the acceptance rule to the predictions of x0 and the drafts.

    `n_left` is how many tokens a sequence may still commit, at least 1.

    *Shapes*: predictions [b, W + 1]; stops [b, k]; n_left [b].
    """
    n_accepted = accept(plan.drafts[:, : predictions.shape[1] - 1], plan.n_drafts, predictions)
    committed = commit(predictions, n_accepted)
    n_committed = cut(committed, n_accepted + 1, stops, n_left)
    size, n_points = plan.blocks.shape[1], plan.points.shape[1]
    place = torch.arange(size, device=n_left.device)
    if not n_points:
        nowhere = torch.zeros_like(n_accepted, dtype=torch.bool)
        return Outcome(n_accepted, committed, n_committed, nowhere, place.expand(len(n_left), -1))
    counts = torch.arange(n_points, device=n_left.device) < plan.n_blocks[:, None]
    hits = (plan.points == n_accepted[:, None]) & counts & (n_committed == n_accepted + 1)[:, None]
    hit = hits.any(dim=1)
    first = torch.where(hit, 1 + plan.n_drafts + hits.long().argmax(dim=1) * size, 0)
    return Outcome(n_accepted, committed, n_committed, hit, first[:, None] + place)
