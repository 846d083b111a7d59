"""Self-speculation: one forward a step for all running sequences, each of which drafts, verifies, or does both."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from gravityocr.decoding.batch import Batch, Progress, run
from gravityocr.decoding.diffusion import fix_tokens
from gravityocr.decoding.guard import TieGuard
from gravityocr.decoding.plan import Drafter, Planner, StepKind
from gravityocr.decoding.request import Decoded, Request, Slots
from gravityocr.decoding.round import Outcome, Plan, Window, cut, judge, round_window
from gravityocr.decoding.sampling import greedy_with_confidence
from gravityocr.decoding.trace import RoundTrace, Source

Drafts = Literal["auto", "diffusion", "reference", "none"]
KEEP_CONFIDENCE = 0.9
REFERENCE_CONFIDENCE = 0.998


@dataclass(frozen=True)
class Speculation:
    """How drafts are made.

    `n_candidates` mask blocks ride behind each verified draft. `steps` is the number of denoising forwards of a draft.
    `drafts` "auto" takes whatever source promises most; "reference" never drafts by diffusion. `width` is the largest
    block size of any sequence.
    """

    width: int
    n_candidates: int = 0
    steps: int = 1
    drafts: Drafts = "auto"
    trace: bool = False


class Proposer(Protocol):
    """Make a draft from what the network says about the mask rows of a block.

    `source` is how the next drafts are made: "head" is for those that have one.
    """

    source: Drafter

    def forward(self, window: Window) -> Tensor:
        """Run the network and return its logits. *Shapes*: [b, r, vocab]."""

    def propose(
        self, logits: Tensor, columns: Tensor, boundary: Tensor, last: Tensor, before: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return tokens and their confidence.

        *Shapes*: logits [b, r, vocab]; columns [b, B], the mask rows; boundary [b], the row of the token before them;
        last, before [b], the last two committed tokens; both results [b, B].
        """


class IndependentRows:
    """The paper's draft: each mask row chooses its most probable token."""

    def __init__(self, slots: Slots, mask_id: int) -> None:
        self.source: Drafter = "diffusion"
        self.slots = slots
        self.mask_id = mask_id

    def forward(self, window: Window) -> Tensor:
        """Run the network and return its logits."""
        return self.slots.step(*window)

    def propose(
        self, logits: Tensor, columns: Tensor, boundary: Tensor, last: Tensor, before: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the most probable token of each mask row and its probability."""
        del boundary, last, before
        rows = torch.arange(len(columns), device=columns.device)[:, None]
        return greedy_with_confidence(logits[rows, columns], self.mask_id)


class SpeculativeLane:
    """Decode a batch by self-speculation.

    Between two steps a sequence has `n_drafts` drafts behind its boundary, or none: columns of the batch. Without a
    planner all drafts are verified and every sequence drafts its whole block.

    *Source*: paper.md section 4, self-speculation.
    """

    def __init__(self, batch: Batch, how: Speculation, proposer: Proposer, planner: Planner | None = None) -> None:
        self.batch = batch
        self.how = how
        self.proposer = proposer
        self.planner = planner
        empty = torch.zeros(0, how.width)
        batch.columns |= {
            "drafts": empty.long(), "confidence": empty.float(), "fixed": empty.bool(),
            "n_drafts": empty[:, 0].long(), "n_steps": empty[:, 0].long(),
        }  # fmt: skip

    @torch.inference_mode()
    def step(self) -> None:
        """Run one forward for every running sequence; those that end leave the batch."""
        batch, began = self.batch, time.perf_counter()
        n = len(batch.running)
        plan = self._plan()
        window = round_window(batch.x0, batch.lens, plan)
        logits = self.proposer.forward(window)
        n_causal = 1 + plan.drafts.shape[1]
        decision = batch.decide(window.tokens[:, :n_causal], logits[:, :n_causal], plan.n_drafts)
        outcome = judge(plan, decision.tokens, batch.stops, batch.n_left)
        self._book(plan, decision.tokens, outcome)
        boundaries = batch.x0
        batch.advance(outcome.committed, outcome.n_committed, decision)
        self._draft(plan, outcome, boundaries, logits)
        batch.retire()
        if self.planner is not None:
            step: StepKind = "verify" if plan.drafts.shape[1] else "draft" if plan.points.shape[1] else "plain"
            seconds = time.perf_counter() - began
            if self.proposer.source == "head" and bool(outcome.hit.any()):
                seconds -= self.planner.head_s(n, plan.blocks.shape[1])
            self.planner.observe(step, n, window.tokens.numel(), seconds)

    def _plan(self) -> Plan:
        """Choose what each sequence's window holds."""
        batch, columns = self.batch, self.batch.columns
        self._look_up_references()
        n_waiting, again = columns["n_drafts"], None
        if self.how.steps > 1:  # drafts that are still denoised are not verified yet
            again = (columns["n_steps"] > 0) & (columns["n_steps"] < self.how.steps)
            n_waiting = torch.where(again, 0, n_waiting)
        ready = n_waiting > 0
        size = self._block_size()
        n_drafts = self._widths(torch.minimum(n_waiting, batch.n_left - 1))
        width = int(n_drafts.max())
        blocks = torch.full((len(ready), max(size, 1)), batch.mask_id, device=ready.device)
        if again is not None:
            fixed = columns["fixed"][:, : blocks.shape[1]] & again[:, None]
            blocks = torch.where(fixed, columns["drafts"][:, : blocks.shape[1]], blocks)
        may_draft = [bool(size) and self._may_draft(one) for one in batch.running]
        drafting = ~ready if all(may_draft) else ~ready & torch.tensor(may_draft, device=ready.device)
        points, n_blocks = batch.lens.new_zeros(len(ready), 1), drafting.long()
        if self.how.n_candidates and size and width:
            points, n_blocks = self._candidates(n_drafts, drafting, may_draft, size)
        if not bool(n_blocks.any()):
            points = points[:, :0]
        return Plan(columns["drafts"][:, :width], n_drafts, points, n_blocks, blocks)

    def _may_draft(self, progress: Progress) -> bool:
        if self.how.drafts in ("reference", "none"):
            return False
        return progress.options.max_tokens - len(progress.ids) > 1  # the last token needs no draft behind it

    def _block_size(self) -> int:
        """Return how many tokens are drafted at once, 0 for none."""
        running = self.batch.running
        largest = max(one.options.block_size for one in running)
        if self.planner is None or self.how.drafts in ("reference", "none"):
            return largest
        kinds: dict[str, int] = {}
        for one in running:
            kinds[one.options.kind] = kinds.get(one.options.kind, 0) + 1
        size, self.proposer.source = self.planner.block_size(kinds, largest)
        return size

    def _widths(self, n_ready: Tensor) -> Tensor:
        """Return how many drafts of each sequence are verified."""
        widest = int(n_ready.max())
        if self.planner is None or not widest:
            return n_ready
        counts = torch.arange(widest, device=n_ready.device) < n_ready[:, None]
        chances = self.batch.columns["confidence"][:, :widest].cumprod(dim=1)
        gains = (chances * counts).sum(dim=0).tolist()
        return n_ready.clamp(max=self.planner.verify_width(gains, len(n_ready), widest))

    def _candidates(
        self, n_drafts: Tensor, drafting: Tensor, may_draft: list[bool], size: int
    ) -> tuple[Tensor, Tensor]:
        """Return full acceptance and the likeliest other points where it may end, and how many each sequence takes."""
        width = int(n_drafts.max())
        column = torch.arange(width + 1, device=n_drafts.device)
        sure = self.batch.columns["confidence"][:, :width].clamp(0, 1)
        reached = torch.cat([torch.ones_like(sure[:, :1]), sure.cumprod(dim=1)], dim=1)
        misses = torch.cat([1 - sure, torch.ones_like(sure[:, :1])], dim=1)
        is_full = column == n_drafts[:, None]
        misses = torch.where(is_full, 1.0, misses)  # behind the last draft acceptance must end
        chances = torch.where(column <= n_drafts[:, None], reached * misses, -1.0)
        best = (chances + is_full.float()).topk(min(self.how.n_candidates, width + 1), dim=1)
        takes = (n_drafts > 0) & torch.tensor(may_draft, device=n_drafts.device)
        n_blocks = ((best.values >= 0) & takes[:, None]).long().sum(dim=1)
        if self.planner is not None:
            n, rows = len(n_drafts), int((1 + n_drafts).sum())
            chance = float((chances.gather(1, best.indices).clamp(0) * (n_drafts > 0)[:, None]).sum(dim=1).mean())
            if not self.planner.candidates_pay(chance, n, rows, int(n_blocks.sum()) * size):
                n_blocks = torch.zeros_like(n_blocks)
        points = torch.where(drafting[:, None], 0, best.indices)
        return points, torch.where(drafting, 1, n_blocks)

    def _look_up_references(self) -> None:
        """Give sequences without drafts those of their reference, where it is the better source."""
        if self.how.drafts in ("diffusion", "none"):
            return
        columns, n = self.batch.columns, len(self.batch.running)
        has = columns["n_drafts"].tolist()
        for row, progress in enumerate(self.batch.running):
            if progress.reference is None or has[row]:
                continue
            one = progress.options
            found = progress.reference.propose(progress.ids, self.how.width)
            wins = self.how.drafts == "reference" or self.planner is None
            if found and not wins and self.planner is not None:
                wins = self.planner.reference_wins(one.kind, n, len(found), one.block_size)
            if found and wins:
                columns["drafts"][row, : len(found)] = torch.tensor(found, device=self.batch.lens.device)
                columns["confidence"][row] = REFERENCE_CONFIDENCE
                columns["n_drafts"][row] = len(found)
                progress.source, progress.n_drafted = "reference", len(found)

    def _draft(self, plan: Plan, outcome: Outcome, boundaries: Tensor, logits: Tensor) -> None:
        """Keep what the mask rows propose behind the new boundary; drop the drafts that were judged."""
        batch, columns = self.batch, self.batch.columns
        columns["n_drafts"] = torch.zeros_like(columns["n_drafts"])
        if not bool(outcome.hit.any()):
            columns["n_steps"] = torch.zeros_like(columns["n_steps"])
            return
        before = torch.where(
            outcome.n_accepted > 0,
            outcome.committed.gather(1, (outcome.n_accepted - 1).clamp(min=0)[:, None])[:, 0],
            boundaries,
        )
        tokens, confidence = self.proposer.propose(logits, outcome.columns, outcome.n_accepted, batch.x0, before)
        size = tokens.shape[1]
        rows = torch.arange(len(tokens), device=tokens.device)[:, None]
        tokens = batch.draw(logits[rows, outcome.columns], tokens)
        columns["drafts"], columns["confidence"] = columns["drafts"].clone(), columns["confidence"].clone()
        if self.how.steps > 1:
            tokens, confidence = self._denoised(plan, outcome, tokens, confidence)
        columns["drafts"][:, :size], columns["confidence"][:, :size] = tokens, confidence
        limits = torch.tensor([one.options.block_size for one in batch.running], device=tokens.device)
        # Nothing follows a stop token, though a network trained on filled blocks is sure of more of them.
        limits = cut(tokens, limits.clamp(max=size), batch.stops, limits)
        columns["n_drafts"] = torch.where(outcome.hit, limits, 0)
        columns["n_steps"] = torch.where(outcome.hit, columns["n_steps"] + 1, 0)
        for row, hit in enumerate(outcome.hit.tolist()):
            if hit:
                batch.running[row].source, batch.running[row].n_drafted = self.proposer.source, size

    def _denoised(self, plan: Plan, outcome: Outcome, tokens: Tensor, confidence: Tensor) -> tuple[Tensor, Tensor]:
        """Keep tokens that an earlier denoising step fixed, one place nearer now, and fix more."""
        columns, size = self.batch.columns, tokens.shape[1]
        again = (columns["n_steps"] > 0) & (plan.n_drafts == 0)
        fixed = torch.zeros_like(tokens, dtype=torch.bool)
        fixed[:, :-1] = columns["fixed"][:, 1:size] & again[:, None]
        kept = torch.zeros_like(tokens)
        kept[:, :-1] = columns["drafts"][:, 1:size]
        tokens = torch.where(fixed, kept, tokens)
        _, masked = fix_tokens(tokens, confidence, tokens, ~fixed, KEEP_CONFIDENCE)
        columns["fixed"] = torch.zeros_like(columns["fixed"])
        columns["fixed"][:, :size] = ~masked & outcome.hit[:, None]
        columns["n_steps"] = torch.where(again, columns["n_steps"], 0)
        return tokens, torch.where(fixed, confidence.clamp(min=KEEP_CONFIDENCE), confidence)

    def _book(self, plan: Plan, predictions: Tensor, outcome: Outcome) -> None:
        """Count forwards, rounds and accepted drafts; a draft forward opens a round that the next verify ends."""
        rows = zip(
            self.batch.running, self.batch.x0.tolist(), plan.n_drafts.tolist(), plan.n_blocks.tolist(),
            outcome.n_accepted.tolist(), outcome.n_committed.tolist(), self.batch.n_left.tolist(), strict=True,
        )  # fmt: skip
        for row, (progress, x0, n_drafts, n_blocks, n_accepted, n_committed, n_left) in enumerate(rows):
            progress.n_forwards += 1
            tokens = outcome.committed[row, :n_committed].tolist()
            ends = n_committed == n_left or tokens[-1] in progress.options.stop_ids
            source: Source = progress.source if n_drafts else "none"
            opened = progress.opened
            first, exact = opened or (x0, [])
            if n_drafts == 0 and n_blocks and not ends:
                progress.opened = (first, exact + tokens)
                continue
            progress.opened = None
            progress.n_rounds += bool(n_drafts or n_blocks or opened)
            progress.n_accepted += min(n_accepted, n_committed)
            progress.n_hits += n_drafts > 0 and opened is None and source in ("diffusion", "head")
            if n_drafts and self.planner is not None:
                # What was drafted but not worth verifying was of no use either.
                self.planner.learn(progress.options.kind, source, progress.n_drafted, min(n_accepted, n_committed))
            if self.how.trace:
                drafts, said = plan.drafts[row, :n_drafts].tolist(), predictions[row, : n_drafts + 1].tolist()
                if n_blocks and not n_drafts:  # a draft forward that ended the sequence
                    exact, tokens, said = exact + tokens, [], []
                progress.trace.append(RoundTrace(first, exact, drafts, said, n_accepted, exact + tokens, source))


def decode_speculative(
    slots: Slots,
    request: Request,
    *,
    how: Speculation | None = None,
    proposer: Proposer | None = None,
    planner: Planner | None = None,
    guard: TieGuard | None = None,
) -> list[Decoded]:
    """Decode by self-speculation and return the sequences in input order.

    `proposer` replaces the plain block-diffusion draft; it must run on the same slots. Without a planner the windows
    are fixed. *Raises*: CapacityError before the first forward. *Source*: paper.md section 4, self-speculation.
    """
    how = how or Speculation(max((one.block_size for one in request.options), default=1))
    request.check_capacity(slots.capacity, how.n_candidates)
    batch = Batch(slots, request.mask_id, guard)
    proposer = proposer or IndependentRows(slots, request.mask_id)
    return run(SpeculativeLane(batch, how, proposer, planner), request)
