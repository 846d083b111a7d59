"""Scripted models: a cache that remembers what it saw and refuses whatever is not causal.

`ScriptedSlots` offers the decoders' `Slots` protocol. Its K/V of a slot is a token and a chain, the hash of
all tokens that a causal row at that slot has seen. A K/V is *pure* when its row attended to itself and below
only and everything below is pure and still the same. Causal rows answer with the script's next token,
every other row with the script's draft; both depend on what the row really sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from gravityocr.decoding import Request, SequenceOptions

VOCAB = 12
MASK = 11
STOPS = frozenset({0, 1})
ORDINARY = range(2, MASK)


class Script(Protocol):
    """Say what a model would answer for one sequence."""

    prefix: list[int]

    def next_token(self, tokens: Sequence[int]) -> int:
        """Return the AR answer after these tokens, prefix included."""

    def fill(self, cached: Sequence[int], window: Sequence[int], row: int) -> tuple[int, float]:
        """Return the token and the logit of a row of a window with two-way attention."""


@dataclass
class HashScript:
    """Answer by hash. `agreement` is always, never, sometimes or random; `stop_at` is the index of the
    response token (y_1 is 0) that is a stop token, None for an endless response."""

    seed: int = 0
    n_prefix: int = 3
    stop_at: int | None = None
    agreement: str = "sometimes"
    prefix: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.prefix = [ORDINARY[hash((self.seed, i)) % len(ORDINARY)] for i in range(self.n_prefix)]

    def next_token(self, tokens: Sequence[int]) -> int:
        draw = hash((self.seed, *tokens))
        if len(tokens) - self.n_prefix == self.stop_at:
            return draw % len(STOPS)
        return ORDINARY[draw % len(ORDINARY)]

    def fill(self, cached: Sequence[int], window: Sequence[int], row: int) -> tuple[int, float]:
        draw = hash((self.seed, row, *cached, -1, *window))
        logit = 1.0 + (draw >> 8) % 97 / 16 + row / 4096  # no two rows alike, so the best one is well defined
        if self.agreement == "random":
            return draw % MASK, logit
        tokens = [*cached, window[0]]
        for _ in range(row + 1):
            tokens.append(self.next_token(tokens))
        agrees = {"always": True, "never": False, "sometimes": draw % 4 > 0}[self.agreement]
        return (tokens[-1] if agrees else (tokens[-1] + 1) % MASK), logit


@dataclass
class TapeScript:
    """Answer from literal tapes: `truth` is the response, `drafts` what mask rows say at each index."""

    prefix: list[int]
    truth: list[int]
    drafts: list[int]

    def next_token(self, tokens: Sequence[int]) -> int:
        n_response = len(tokens) - len(self.prefix)
        on_tape = list(tokens) == self.prefix + self.truth[:n_response] and n_response < len(self.truth)
        return self.truth[n_response] if on_tape else ORDINARY[0]

    def fill(self, cached: Sequence[int], window: Sequence[int], row: int) -> tuple[int, float]:
        index = len(cached) + row + 1 - len(self.prefix)
        return (self.drafts[index] if index < len(self.drafts) else ORDINARY[0]), 5.0


@dataclass(frozen=True)
class Slot:
    """One token's K/V."""

    token: int
    chain: int
    pure: bool


@dataclass
class Memory:
    """The cache row of one sequence."""

    index: int
    script: Script
    slots: list[Slot] = field(default_factory=list)

    def __post_init__(self) -> None:
        for token in self.script.prefix:
            self.write(len(self.slots), token, causal=True)

    def write(self, slot: int, token: int, causal: bool) -> None:
        below = self.slots[slot - 1] if slot else Slot(-1, 0, True)
        self.slots[slot : slot + 1] = [Slot(token, hash((below.chain, token)), causal and below.pure)]

    def n_pure(self) -> int:
        """Count the leading slots whose K/V is causal and was computed over exactly the slots below."""
        chain = 0
        for index, slot in enumerate(self.slots):
            chain = hash((chain, slot.token))
            if not slot.pure or slot.chain != chain:
                return index
        return len(self.slots)

    def tokens(self, n: int) -> list[int]:
        return [slot.token for slot in self.slots[:n]]


class ScriptedSlots:
    """Play one script per sequence and assert that every past is causal.

    The mask token always has the largest logit and the last ordinary token ties with odd answers: decoders
    must bar the one and take the lower id of the other.
    """

    def __init__(self, scripts: Sequence[Script], capacity: int = 512) -> None:
        self.capacity = capacity
        self.live = [Memory(index, script) for index, script in enumerate(scripts)]
        self.retired: dict[int, Memory] = {}
        self.n_steps = 0

    def step(
        self, tokens: Tensor, start: Tensor, limits: Tensor, spans: Tensor | None = None, offsets: Tensor | None = None
    ) -> Tensor:
        n_sequences, n_rows = tokens.shape
        assert n_sequences == len(self.live) > 0, "a finished sequence stayed, or a running one left"
        assert limits.shape == tokens.shape and start.shape == (n_sequences,)
        assert tokens.dtype == start.dtype == limits.dtype == torch.long
        self.n_steps += 1
        logits = torch.zeros((n_sequences, n_rows, VOCAB))
        logits[..., MASK] = 50.0
        if spans is None:  # rows that see what is behind them are one block behind x0
            slots = start[:, None] + torch.arange(n_rows)
            last = limits.amax(dim=1, keepdim=True)
            opens = (limits > slots).any(dim=1, keepdim=True) | (tokens == MASK)
            opens = opens & (slots > start[:, None]) & (limits == last)
            spans = torch.stack(
                [torch.where(opens, start[:, None] + 1, slots), torch.where(opens, last, slots)], dim=-1
            )
            offsets = torch.zeros_like(tokens)
            limits = torch.where(opens, start[:, None], limits)
        assert offsets is not None
        rows = zip(
            self.live, tokens.tolist(), start.tolist(), limits.tolist(), spans.tolist(), offsets.tolist(), strict=True
        )
        for b, (memory, *row) in enumerate(rows):
            for i, (token, logit) in enumerate(self._answers(memory, *row)):
                logits[b, i, token] = logit
                if token % 2:
                    logits[b, i, ORDINARY[-1]] = logit
        return logits

    def keep(self, rows: Tensor) -> None:
        kept = rows.tolist()
        assert len(kept) == len(set(kept)) and all(0 <= row < len(self.live) for row in kept)
        for row, memory in enumerate(self.live):
            if row not in kept:
                assert memory.index not in self.retired, "retired twice"
                self.retired[memory.index] = memory
        moved = [row for place, row in enumerate(kept) if place != row]
        assert all(row >= len(kept) for row in moved), "a row moved although its place stayed in use"
        self.live = [self.live[row] for row in kept]

    def join(self, scripts: Sequence[Script]) -> None:
        """Append sequences whose prefill is done."""
        first = len(self.live) + len(self.retired)
        self.live += [Memory(first + i, script) for i, script in enumerate(scripts)]

    def _answers(
        self,
        memory: Memory,
        tokens: list[int],
        start: int,
        limits: list[int],
        spans: list[list[int]],
        offsets: list[int],
    ) -> list[tuple[int, float]]:
        """Answer each row by what it sees.

        A row that sees the slots up to its own is causal. Any other one sees the slots up to a limit and those of its
        span; it must be placed as if the span followed the limit.
        """
        end = start + len(tokens)
        assert end <= self.capacity, "wrote past the capacity"
        assert memory.n_pure() >= start, f"sequence {memory.index}: K/V below slot {start} is not causal"
        for i, (token, limit, (first, last)) in enumerate(zip(tokens, limits, spans, strict=True)):
            assert 0 <= token < VOCAB, "not a token"
            assert first <= start + i <= last < end, "a row must see itself and no slot behind the window"
            assert limit <= start + i, "a row sees what is behind it through its span only"
            causal = limit == start + i or (first, last, limit) == (start + i, start + i, start + i - 1)
            memory.write(start + i, token, causal=causal and last == start + i and offsets[i] == 0)
        n_pure = memory.n_pure()
        answers = []
        for i, (limit, (first, last)) in enumerate(zip(limits, spans, strict=True)):
            if start + i < n_pure and tokens[i] != MASK:
                answers.append((memory.script.next_token(memory.tokens(start + i + 1)), 5.0))
                continue
            if limit == start + i:  # a causal row over what is not causal
                answers.append((ORDINARY[0], 1.0))
                continue
            if last == first and tokens[i] != MASK:  # fills the rectangle up
                answers.append((ORDINARY[0], 1.0))
                continue
            assert limit < n_pure and first > limit, "a mask row sees what is not causal"
            place = start + i - first  # in its block
            assert start + i + offsets[i] == limit + 1 + place, "a mask row is not placed behind its boundary"
            seen = memory.tokens(limit + 1)
            answers.append(
                memory.script.fill(seen[:-1], [seen[-1], *tokens[first - start : last - start + 1]], place + 1)
            )
        return answers


def greedy_ids(script: Script, max_tokens: int) -> list[int]:
    """Return what greedy decoding must give, by plain iteration over the script."""
    ids: list[int] = []
    while len(ids) < max_tokens and not (ids and ids[-1] in STOPS):
        ids.append(script.next_token(script.prefix + ids))
    return ids


def make_request(scripts: Sequence[Script], max_tokens: Sequence[int], block_size: int, **more: object) -> Request:
    """Return the request of sequences whose prefill has just yielded y_1."""
    return Request(
        lens=torch.tensor([len(script.prefix) for script in scripts], dtype=torch.long),
        first=torch.tensor([script.next_token(script.prefix) for script in scripts], dtype=torch.long),
        options=tuple(SequenceOptions(n, STOPS, block_size, **more) for n in max_tokens),  # type: ignore[arg-type]
        mask_id=MASK,
    )


def assert_conserved(slots: ScriptedSlots, cached_ids: Sequence[Sequence[int]]) -> None:
    """Assert that all rows were given back, each with causal K/V of its prefix and of these ids."""
    assert slots.live == [] and sorted(slots.retired) == list(range(len(cached_ids)))
    for index, ids in enumerate(cached_ids):
        memory = slots.retired[index]
        expected = memory.script.prefix + list(ids)
        assert memory.tokens(len(expected)) == expected
        assert memory.n_pure() >= len(expected), f"sequence {index}: a surviving K/V is not causal"
