"""What a decoder is asked and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from gravityocr.decoding.sampling import Sampling
from gravityocr.decoding.trace import RoundTrace
from gravityocr.errors import CapacityError, ConfigError

_NO_STOP = -2  # the round's NO_STOP, which the oracle does not import
Finish = Literal["stop", "length", "cancelled"]


class Slots(Protocol):
    """Offer the network's forward over a K/V cache with one row of slots per running sequence."""

    @property
    def capacity(self) -> int:
        """Tell how many slots a row holds."""

    def step(
        self, tokens: Tensor, start: Tensor, limits: Tensor, spans: Tensor | None = None, offsets: Tensor | None = None
    ) -> Tensor:
        """Compute rows, write the K/V of row i to slot `start + i`, attend to slots `0..limits[b, i]`.

        A row also sees the slots `spans[b, i, 0]..spans[b, i, 1]`; its position is that of its slot plus
        `offsets[b, i]`.

        *Shapes*: tokens [b, r], start [b], limits [b, r], spans [b, r, 2], offsets [b, r] -> logits [b, r, vocab].
        """

    def exact_step(self, rows: Tensor, tokens: Tensor, start: Tensor) -> Tensor:
        """Compute causal rows of the sequences `rows` in fp32 and write their K/V; only a tie guard asks for it.

        *Shapes*: rows [n], tokens [n, r], start [n] -> logits [n, r, vocab].
        """

    def keep(self, rows: Tensor) -> None:
        """Keep only these cache rows, in this order. *Shapes*: rows [n], distinct, n may be 0."""


@dataclass(frozen=True)
class SequenceOptions:
    """How one sequence is decoded.

    `max_tokens` counts y_1. `block_size` is the number of tokens drafted at once. `kind` names sequences whose drafts
    fare alike. `reference` is a text that the response may resemble, as token ids. A token that completes one of
    `stop_strings` in the response's text, as `text_of` spells it, is the last one.
    *Raises*: ConfigError for a limit or a block size below 1, or stop strings without `text_of`.
    """

    max_tokens: int
    stop_ids: frozenset[int]
    block_size: int = 1
    sampling: Sampling = field(default_factory=Sampling)
    log_probs: bool = False
    kind: str = ""
    reference: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    text_of: Callable[[Sequence[int]], str] | None = None

    def __post_init__(self) -> None:
        if self.stop_strings and (self.text_of is None or "" in self.stop_strings):
            raise ConfigError(f"stop strings {self.stop_strings}: give text_of with them, and none that is empty")
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens {self.max_tokens}: y_1 counts, so choose at least 1")
        if self.block_size < 1:
            raise ConfigError(f"block size {self.block_size}: choose at least 1")


@dataclass(frozen=True)
class Request:
    """Ask for the continuation of prefilled sequences.

    `first` holds y_1, which the prefill yields.

    *Shapes*: lens, first [b]. *Raises*: ConfigError for tensors of different lengths, or a mask id that is negative or
    a stop token.
    """

    lens: Tensor
    first: Tensor
    options: tuple[SequenceOptions, ...]
    mask_id: int

    def __post_init__(self) -> None:
        shapes = {tuple(t.shape) for t in (self.lens, self.first)} | {(len(self.options),)}
        if len(shapes) != 1:
            raise ConfigError(f"lens, first, options have shapes {sorted(shapes)}: give one entry a sequence")
        stops = sorted(set().union(*(one.stop_ids for one in self.options)))
        if self.mask_id < 0 or self.mask_id in stops:
            raise ConfigError(
                f"mask id {self.mask_id}, stop ids {stops}: read the mask id from the "
                "checkpoint's block_diffusion.json; it is never a stop token"
            )

    def check_capacity(self, capacity: int, n_candidates: int = 0) -> None:
        """Refuse sequences whose last window, with its mask blocks, would not fit. *Raises*: CapacityError."""
        window = window_slots(max((one.block_size for one in self.options), default=0), n_candidates)
        for index, (n_prefix, one) in enumerate(zip(self.lens.tolist(), self.options, strict=True)):
            needed = n_prefix + one.max_tokens + window
            if needed > capacity:
                raise CapacityError(
                    f"sequence {index} needs {needed} slots ({n_prefix} prefix, {one.max_tokens} tokens, {window} for "
                    f"the window) and the cache holds {capacity}: lower max_tokens or the block size, or build a "
                    "larger cache"
                )


def window_slots(block_size: int, n_candidates: int = 0) -> int:
    """Return how many slots behind the last token the widest window may touch."""
    return block_size * (1 + n_candidates) + 2


@dataclass(frozen=True)
class Decoded:
    """Hold what one sequence became.

    `ids` runs from y_1 to the stop token, if one was met. `n_forwards` counts the decode forwards that the
    sequence took part in, without the prefill and without `n_cache_writes` of direct block diffusion.
    `n_rounds`, `n_accepted` (accepted drafts that were committed), `n_hits` (rounds whose drafts came with the forward
    before) and `trace` belong to self-speculation. `n_guarded` tokens were decided in fp32; `log_probs` (where asked
    for) are those of the plain softmax, the mask token barred.

    *Source*: paper.md equation (5).
    """

    ids: list[int]
    finish: Finish
    n_forwards: int = 0
    n_rounds: int = 0
    n_accepted: int = 0
    n_hits: int = 0
    n_guarded: int = 0
    n_cache_writes: int = 0
    trace: list[RoundTrace] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)

    @property
    def tpf(self) -> float:
        """Return committed tokens per forward: y_1 left out, the stop token counted, nan for no forward."""
        return (len(self.ids) - 1) / self.n_forwards if self.n_forwards else float("nan")


def stop_table(options: list[SequenceOptions], device: torch.device) -> Tensor:
    """Return the stop ids of each sequence, filled up with what no token equals. *Shapes*: [b, k], k at least 1."""
    width = max([1, *(len(one.stop_ids) for one in options)])
    rows = [sorted(one.stop_ids) + [_NO_STOP] * (width - len(one.stop_ids)) for one in options]
    return torch.tensor(rows, dtype=torch.long, device=device).view(len(options), width)
