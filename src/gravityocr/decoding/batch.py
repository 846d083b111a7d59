"""The running batch: host-side progress of each sequence beside tensors and cache rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from gravityocr.decoding.guard import TieGuard
from gravityocr.decoding.reference import ReferenceText
from gravityocr.decoding.request import Decoded, Finish, Request, SequenceOptions, Slots, stop_table
from gravityocr.decoding.sampling import Choosers, bar_mask, seen_before
from gravityocr.decoding.trace import RoundTrace, Source


@dataclass
class Progress:
    """Collect one sequence while it runs.

    `n_prefix` counts the slots before y_1. `source` made the drafts that wait to be verified, `n_drafted` of them
    before the doubtful ones were dropped; `opened` holds the boundary and the exact tokens of a round whose draft
    forward is done.
    """

    ids: list[int]
    options: SequenceOptions
    n_prefix: int
    n_forwards: int = 0
    n_rounds: int = 0
    n_accepted: int = 0
    n_hits: int = 0
    n_guarded: int = 0
    n_cache_writes: int = 0
    trace: list[RoundTrace] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    cancelled: bool = False
    stopped: bool = False
    reference: ReferenceText | None = None
    source: Source = "none"
    n_drafted: int = 0
    opened: tuple[int, list[int]] | None = None

    def __post_init__(self) -> None:
        if self.options.reference:
            self.reference = ReferenceText(self.options.reference)

    def cut_at_stop_string(self, n_before: int) -> None:
        """End the sequence with the first token, behind the first `n_before`, that completes a stop string."""
        strings, text_of = self.options.stop_strings, self.options.text_of
        if not strings or text_of is None:
            return
        for n in range(n_before + 1, len(self.ids) + 1):
            text = text_of(self.ids[:n])
            if any(string in text for string in strings):
                del self.ids[n:], self.log_probs[n:]
                self.stopped = True
                return

    def finish(self) -> Finish | None:
        """Tell why the sequence has ended, or None while it runs."""
        if self.stopped or self.ids[-1] in self.options.stop_ids:
            return "stop"
        if self.cancelled:
            return "cancelled"
        return "length" if len(self.ids) >= self.options.max_tokens else None

    def result(self) -> Decoded:
        """Return what the sequence became, once it has ended."""
        finish = self.finish()
        assert finish is not None, "a result before the sequence has ended"
        return Decoded(
            self.ids, finish, self.n_forwards, self.n_rounds, self.n_accepted, self.n_hits, self.n_guarded,
            self.n_cache_writes, self.trace, self.log_probs,
        )  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """Hold the chosen tokens of causal rows. *Shapes*: tokens, guarded (decided in fp32) [b, r]."""

    tokens: Tensor
    guarded: Tensor | None
    logits: Tensor


class Batch:
    """Keep the running sequences beside the cache rows: row i here is row i there.

    `lens` counts the causal slots of each sequence, `x0` is its boundary, `n_left` how many tokens it may still
    commit. `columns` are further tensors with one row a sequence, which come, move and go with it.

    *Shapes*: lens, x0, n_left [b], stops [b, k].
    """

    def __init__(self, slots: Slots, mask_id: int, guard: TieGuard | None = None) -> None:
        self.slots = slots
        self.mask_id = mask_id
        self.guard = guard
        self.running: list[Progress] = []
        self.lens = self.x0 = self.n_left = torch.zeros(0, dtype=torch.long)
        self.stops = torch.zeros(0, 1, dtype=torch.long)
        self.columns: dict[str, Tensor] = {}
        self._plain = True
        self._choosers: Choosers | None = None

    def admit(self, request: Request, first_log_probs: Sequence[float] = ()) -> list[Progress]:
        """Take in sequences whose cache rows lie behind those that run, and return their progress."""
        device = request.lens.device
        lens, firsts = request.lens.tolist(), request.first.tolist()
        new = [Progress([y1], one, n) for y1, one, n in zip(firsts, request.options, lens, strict=True)]
        for progress, value in zip(new, first_log_probs, strict=False):
            progress.log_probs = [value] if progress.options.log_probs else []
        for progress in new:
            progress.cut_at_stop_string(0)
        before = len(self.running)
        self.running += new
        limits = torch.tensor([one.max_tokens for one in request.options], dtype=torch.long, device=device)
        self.lens = torch.cat([self.lens.to(device), request.lens])
        self.x0 = torch.cat([self.x0.to(device), request.first])
        self.n_left = torch.cat([self.n_left.to(device), limits - 1])
        for name, values in self.columns.items():
            fresh = values.new_zeros(len(new), *values.shape[1:]).to(device)
            self.columns[name] = torch.cat([values.to(device), fresh])
        if self.guard is not None:
            exact = self.columns.setdefault("exact", self.lens.clone())
            exact[before:] = request.lens
        self._refresh()
        self.retire()  # y_1 may be a stop token or all that was asked for
        return new

    def _refresh(self) -> None:
        options = [one.options for one in self.running]
        self.stops = stop_table(options, self.lens.device)
        self._plain = all(one.sampling.is_plain for one in options)
        self._choosers = None

    def decide(self, tokens: Tensor, logits: Tensor, n_drafts: Tensor | None = None) -> Decision:
        """Choose the tokens behind each row of a causal window [x0, d_1..d_w].

        *Shapes*: tokens [b, r], logits [b, r, vocab]; n_drafts [b], how many drafts of each row count.
        """
        scores = self._scores(tokens, logits)
        chosen = scores.argmax(dim=-1)
        if self.guard is None:
            return Decision(chosen, None, logits)
        ties = self.guard.ties(scores, tokens, chosen, n_drafts, self._warmth())
        rows = ties.any(dim=1).nonzero()[:, 0]
        if not rows.numel():
            return Decision(chosen, ties, logits)
        ids = [self.running[row].ids for row in rows.tolist()]
        prefixes = [self.running[row].n_prefix for row in rows.tolist()]
        exact = self.guard.evaluate(self.slots, rows, ids, prefixes, self.columns["exact"], self.lens, tokens)
        logits = logits.to(torch.float32, copy=True)
        logits[rows] = exact
        chosen = self._scores(tokens, logits).argmax(dim=-1)
        return Decision(chosen, ties, logits)

    def _scores(self, tokens: Tensor, logits: Tensor) -> Tensor:
        if self._plain:
            return bar_mask(logits, self.mask_id)
        vocab_size = logits.shape[-1]
        if self._choosers is None:
            self._choosers = Choosers.of([one.options.sampling for one in self.running], vocab_size, logits.device)
        ids = [one.ids for one in self.running]
        penalised = any(one.options.sampling.repetition_penalty != 1.0 for one in self.running)
        seen = seen_before(ids, tokens, vocab_size) if penalised else None
        places = torch.tensor([len(one) for one in ids], device=logits.device)[:, None]
        places = places + torch.arange(tokens.shape[1], device=logits.device)
        return self._choosers.scores(logits, self.mask_id, seen, places)

    def draw(self, logits: Tensor, drafts: Tensor) -> Tensor:
        """Return drafts for the places behind the boundaries as their sampling would draw them from these logits.

        Draws at a place share their noise with the verifier's, so that most agree. *Shapes*: logits [b, n, vocab],
        drafts [b, n], which greedy sequences keep.
        """
        if self._plain or self._choosers is None:
            return drafts
        places = torch.tensor([len(one.ids) for one in self.running], device=logits.device)[:, None]
        places = places + torch.arange(drafts.shape[1], device=logits.device)
        drawn = self._choosers.scores(logits, self.mask_id, None, places).argmax(dim=-1)
        return torch.where(self._choosers.temperature[:, None] > 0, drawn, drafts)

    def _warmth(self) -> Tensor | None:
        return None if self._choosers is None else self._choosers.temperature

    def record(self, tokens: Tensor, counts: Tensor, decision: Decision | None = None) -> None:
        """Append the first `counts` tokens of every row to its sequence. *Shapes*: [b, n], [b]."""
        rows = zip(self.running, tokens.tolist(), counts.tolist(), strict=True)
        for number, (progress, row, count) in enumerate(rows):
            progress.ids.extend(row[:count])
            if decision is not None and count:
                if decision.guarded is not None:
                    progress.n_guarded += int(decision.guarded[number, :count].sum())
                if progress.options.log_probs:
                    shares = _log_probs(decision.logits[number, :count], tokens[number, :count], self.mask_id)
                    progress.log_probs.extend(shares)
            progress.cut_at_stop_string(len(progress.ids) - count)
        self.n_left = self.n_left - counts

    def advance(self, committed: Tensor, counts: Tensor, decision: Decision) -> None:
        """Commit the first `counts` tokens of every row, the last of which is the next boundary.

        *Shapes*: committed [b, n], counts [b], at least 1.
        """
        self.record(committed, counts, decision)
        self.lens = self.lens + counts
        self.x0 = committed.gather(1, counts[:, None] - 1)[:, 0]
        if decision.guarded is not None:  # what was re-evaluated left exact K/V up to the new boundary
            exact = self.columns["exact"]
            self.columns["exact"] = torch.where(decision.guarded.any(dim=1), self.lens, exact)

    def retire(self) -> None:
        """Let finished sequences leave with their cache rows; the last ones take their places."""
        stay = [row for row, progress in enumerate(self.running) if progress.finish() is None]
        if len(stay) == len(self.running):
            return
        kept = _filled(stay, len(stay))
        rows = torch.tensor(kept, dtype=torch.long, device=self.lens.device)
        self.slots.keep(rows)
        self.running = [self.running[row] for row in kept]
        self.lens, self.x0, self.n_left = self.lens[rows], self.x0[rows], self.n_left[rows]
        self.columns = {name: values[rows] for name, values in self.columns.items()}
        self._refresh()


def _filled(stay: Sequence[int], n: int) -> list[int]:
    """Return the rows that stay, those below `n` in their places and the others in the gaps, so that few move."""
    places = [-1] * n
    movers = [row for row in stay if row >= n]
    for row in stay:
        if row < n:
            places[row] = row
    movers.reverse()
    return [row if row >= 0 else movers.pop() for row in places]


def _log_probs(logits: Tensor, tokens: Tensor, mask_id: int) -> list[float]:
    scores = bar_mask(logits, mask_id)
    return (scores.gather(1, tokens[:, None])[:, 0] - scores.logsumexp(dim=-1)).tolist()


class Lane(Protocol):
    """Decode a running batch in one mode, one forward a step."""

    batch: Batch

    def step(self) -> None:
        """Run one forward for every running sequence; those that end leave the batch."""


@torch.inference_mode()
def run(lane: Lane, request: Request) -> list[Decoded]:
    """Admit a request into an empty lane, step until every sequence has ended, return them in input order."""
    everyone = lane.batch.admit(request)
    while lane.batch.running:
        lane.step()
    return [one.result() for one in everyone]
