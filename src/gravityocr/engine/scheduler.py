"""Continuous batching on one machine: queue, prefill, one forward a step, retirement.

submit -> queue -> prefill (several crops' vision packed, one rectangle) -> lane of its mode -> result
                     at most `batch_tokens` prompt tokens between        rows of one slot cache; the finished
                     two decode steps                                     leave it, the next ones take their rows
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from gravityocr.decoding.batch import Lane, Progress
from gravityocr.decoding.prompts import DecodeMode, DecodeOptions, Networks, build_lane, read_prompts
from gravityocr.decoding.request import Decoded, SequenceOptions, window_slots
from gravityocr.errors import ConfigError
from gravityocr.model.ocr_model import DecodeSession
from gravityocr.model.prompt import Prompt

_CACHE_ITEM_BYTES = 4  # K/V are fp32, so that what is evaluated exactly stays exact
OnTokens = Callable[["Ticket", list[int]], None]


@dataclass(eq=False)
class Ticket:
    """One submitted prompt: what was asked, and what has become of it.

    *Units*: `seconds` by stage; what a forward takes is shared by the sequences in it, vision and prefill by their
    prompt tokens.
    """

    prompt: Prompt
    options: SequenceOptions
    mode: DecodeMode
    on_tokens: OnTokens | None = None
    progress: Progress | None = None
    n_told: int = 0
    cancelled: bool = False
    seconds: dict[str, float] = field(default_factory=lambda: {"vision": 0.0, "prefill": 0.0, "decode": 0.0})

    @property
    def is_done(self) -> bool:
        """Tell whether it will change no more."""
        if self.progress is None:
            return self.cancelled
        return self.progress.finish() is not None

    def result(self) -> Decoded:
        """Return what was decoded, once that is done. *Raises*: ConfigError before."""
        if not self.is_done:
            raise ConfigError("the ticket is not done; step its scheduler on, or cancel it")
        if self.progress is None:
            return Decoded([], "cancelled")
        return self.progress.result()


class Scheduler:
    """Decode prompts that come and go at any time.

    Each ticket chooses its mode, block size, stop tokens, limits and sampling; modes run in lanes of their own. What a
    sequence becomes does not depend on what else is running, in exact arithmetic.
    *Units*: `max_running` sequences decoded together in a lane, fewer where their K/V would take more than
    `cache_bytes`; `batch_tokens` prompt tokens in one prefill.
    """

    def __init__(
        self,
        networks: Networks,
        how: DecodeOptions,
        *,
        max_running: int = 64,
        batch_tokens: int = 4096,
        cache_bytes: int = 2**32,
    ) -> None:
        self.networks = networks
        self.how = how
        self.max_running = max_running
        self.batch_tokens = batch_tokens
        self.cache_bytes = cache_bytes
        self.queue: deque[Ticket] = deque()
        self.lanes: dict[tuple[DecodeMode, int], Lane] = {}
        self.sessions: dict[tuple[DecodeMode, int], DecodeSession] = {}
        self.running: dict[tuple[DecodeMode, int], list[Ticket]] = {}

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing is left to do."""
        return not self.queue and not any(self.running.values())

    def submit(
        self,
        prompt: Prompt,
        options: SequenceOptions,
        mode: DecodeMode | None = None,
        on_tokens: OnTokens | None = None,
    ) -> Ticket:
        """Queue a prompt. `on_tokens` is called with each forward's new tokens, y_1 first.

        *Raises*: ConfigError for a block size over the scheduler's own, which lanes are built for.
        """
        ticket = Ticket(prompt, options, mode or self.how.mode, on_tokens)
        self.enqueue(ticket)
        return ticket

    def enqueue(self, ticket: Ticket) -> None:
        """Queue a ticket that was made elsewhere; see `submit`.

        *Raises*: ConfigError for a ticket that was queued before, or that names tokens which do not exist: it would
        take others down with it.
        """
        if ticket in self.queue or ticket.progress is not None or ticket.cancelled:
            raise ConfigError("the ticket was queued before; make a new one")
        n_tokens = self.networks.decode.config.text.vocab_size
        named = {*ticket.options.reference, *ticket.options.sampling.logit_bias}
        if unknown := sorted(token for token in named if not 0 <= token < n_tokens):
            raise ConfigError(
                f"token {unknown[0]} of {n_tokens} does not exist; correct the reference or the logit bias"
            )
        size = ticket.options.block_size
        if size > self.how.block_size:
            raise ConfigError(
                f"block size {size}: this scheduler drafts at most {self.how.block_size} tokens; choose less, or build "
                "it with more"
            )
        self.queue.append(ticket)

    @torch.inference_mode()
    def cancel(self, ticket: Ticket) -> None:
        """End a ticket now; what it has so far stays, and its slots are free for others. One that is done stays so."""
        if ticket.is_done:
            return
        ticket.cancelled = True
        if ticket.progress is None:
            self.queue.remove(ticket)
            return
        ticket.progress.cancelled = True
        key = self._key(ticket)
        if ticket in self.running.get(key, []):
            self.lanes[key].batch.retire()
            self._settle(key)

    @torch.inference_mode()
    def step(self) -> None:
        """Take in queued prompts if there is room, and run one forward of every lane."""
        self._admit()
        for key, lane in self.lanes.items():
            if not lane.batch.running:
                continue
            began = time.perf_counter()
            lane.step()
            share = (time.perf_counter() - began) / len(self.running[key])
            for ticket in self.running[key]:
                ticket.seconds["decode"] += share
            self._settle(key)

    def run(self) -> None:
        """Step until nothing is left to do."""
        while not self.is_idle:
            self.step()

    def _key(self, ticket: Ticket) -> tuple[DecodeMode, int]:
        # Direct diffusion denoises blocks of one size; a draft's size is each sequence's own.
        return ticket.mode, ticket.options.block_size if ticket.mode == "diffusion" else 0

    def _admit(self) -> None:
        """Prefill the next tickets of the first lane that has room for enough of them to be worth a prefill."""
        for key in dict.fromkeys(map(self._key, self.queue)):
            waiting = [ticket for ticket in self.queue if self._key(ticket) == key]
            n_running, most = len(self.running.get(key, [])), self._most_running(waiting)
            n_free = most - n_running
            if n_free <= 0 or (n_running and n_free < min(len(waiting), most // 2)):
                continue
            chosen: list[Ticket] = []
            n_tokens = 0
            for ticket in waiting[:n_free]:
                is_new = all(ticket.prompt is not one.prompt for one in chosen)
                size = ticket.prompt.ids.numel() if is_new else 0
                if chosen and n_tokens + size > self.batch_tokens:
                    break
                chosen.append(ticket)
                n_tokens += size
            for ticket in chosen:
                self.queue.remove(ticket)
            self._prefill(key, chosen)
            return

    def _most_running(self, waiting: list[Ticket]) -> int:
        """Return how many sequences as long as the longest that waits may run together."""
        text = self.networks.decode.config.text
        slot_bytes = 2 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim * _CACHE_ITEM_BYTES
        behind = window_slots(self.how.block_size, self.how.n_candidates)
        longest = max(ticket.prompt.ids.numel() + ticket.options.max_tokens for ticket in waiting) + behind
        return max(1, min(self.max_running, self.cache_bytes // (slot_bytes * longest)))

    def _prefill(self, key: tuple[DecodeMode, int], tickets: list[Ticket]) -> None:
        options = [ticket.options for ticket in tickets]
        how = replace(self.how, mode=key[0], block_size=key[1] or self.how.block_size)
        read = read_prompts(self.networks, [ticket.prompt for ticket in tickets], options, how)
        lane = self.lanes.get(key)
        if lane is None or not lane.batch.running:
            lane = self.lanes[key] = build_lane(read.session, how)
            self.sessions[key] = read.session
        else:
            self.sessions[key].join(read.session)
        total = sum(ticket.prompt.ids.numel() for ticket in tickets)
        for ticket in tickets:
            share = ticket.prompt.ids.numel() / total
            ticket.seconds["vision"] += read.vision_s * share
            ticket.seconds["prefill"] += read.prefill_s * share
        everyone = lane.batch.admit(read.request, read.first_log_probs)
        for ticket, progress in zip(tickets, everyone, strict=True):
            ticket.progress = progress
        self.running.setdefault(key, []).extend(tickets)
        self._settle(key)

    def _settle(self, key: tuple[DecodeMode, int]) -> None:
        """Tell listeners about new tokens and let go of tickets that are done."""
        for ticket in self.running[key]:
            assert ticket.progress is not None
            if ticket.on_tokens is not None and len(ticket.progress.ids) > ticket.n_told:
                told, ticket.n_told = ticket.n_told, len(ticket.progress.ids)
                ticket.on_tokens(ticket, ticket.progress.ids[told:])
        self.running[key] = [ticket for ticket in self.running[key] if not ticket.is_done]
