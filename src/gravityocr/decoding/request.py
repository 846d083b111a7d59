"""What a decoder is asked, what it answers, and the running batch in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from gravityocr.decoding.trace import RoundTrace
from gravityocr.errors import CapacityError, ConfigError

Finish = Literal["stop", "length"]


class Slots(Protocol):
    """Offer the network's forward over a K/V cache with one row of slots per running sequence."""

    @property
    def capacity(self) -> int:
        """Tell how many slots a row holds."""

    def step(self, tokens: Tensor, start: Tensor, limits: Tensor) -> Tensor:
        """Compute rows, write the K/V of row i to slot `start + i`, attend to slots `0..limits[b, i]`.

        *Shapes*: tokens [b, r], start [b], limits [b, r] -> logits [b, r, vocab].
        """

    def keep(self, rows: Tensor) -> None:
        """Keep only these cache rows, in this order. *Shapes*: rows [n], increasing, n may be 0."""


@dataclass(frozen=True)
class Request:
    """Ask for the continuation of prefilled sequences.

    `first` holds y_1, which the prefill yields; `max_tokens` counts it.

    *Shapes*: lens, first, max_tokens [b]. *Raises*: ConfigError for tensors of different lengths, a limit
    below 1, a block size below 1, or a mask id that is negative or a stop token.
    """

    lens: Tensor
    first: Tensor
    max_tokens: Tensor
    stop_ids: frozenset[int]
    block_size: int
    mask_id: int

    def __post_init__(self) -> None:
        shapes = {tuple(t.shape) for t in (self.lens, self.first, self.max_tokens)}
        if len(shapes) != 1 or self.lens.dim() != 1:
            raise ConfigError(f"lens, first, max_tokens have shapes {sorted(shapes)}: give one entry a sequence")
        if bool((self.max_tokens < 1).any()):
            raise ConfigError(f"max_tokens {self.max_tokens.tolist()}: y_1 counts, so choose at least 1")
        if self.block_size < 1:
            raise ConfigError(f"block size {self.block_size}: choose at least 1")
        if self.mask_id < 0 or self.mask_id in self.stop_ids:
            raise ConfigError(
                f"mask id {self.mask_id}, stop ids {sorted(self.stop_ids)}: read the mask id from the "
                "checkpoint's block_diffusion.json; it is never a stop token"
            )

    def stop_tensor(self) -> Tensor:
        """Return the stop ids on the device of the sequences. *Shapes*: [k]."""
        return torch.tensor(sorted(self.stop_ids), dtype=torch.long, device=self.lens.device)

    def check_capacity(self, capacity: int) -> None:
        """Refuse sequences whose last window would not fit. *Raises*: CapacityError."""
        window = self.block_size + 2
        needed = (self.lens + self.max_tokens + window).tolist()
        for index, n_slots in enumerate(needed):
            if n_slots > capacity:
                raise CapacityError(
                    f"sequence {index} needs {n_slots} slots ({int(self.lens[index])} prefix, "
                    f"{int(self.max_tokens[index])} tokens, {window} for the window) and the cache holds "
                    f"{capacity}: lower max_tokens or the block size, or build a larger cache"
                )


@dataclass(frozen=True)
class Decoded:
    """Hold what one sequence became.

    `ids` runs from y_1 to the stop token, if one was met. `n_forwards` counts the decode forwards that the
    sequence took part in, without the prefill and without `n_cache_writes` of direct block diffusion.
    `n_rounds`, `n_accepted` (accepted drafts that were committed) and `trace` belong to self-speculation.

    *Source*: paper.md equation (5).
    """

    ids: list[int]
    finish: Finish
    n_forwards: int = 0
    n_rounds: int = 0
    n_accepted: int = 0
    n_cache_writes: int = 0
    trace: list[RoundTrace] = field(default_factory=list)

    @property
    def tpf(self) -> float:
        """Return committed tokens per forward: y_1 left out, the stop token counted, nan for no forward."""
        return (len(self.ids) - 1) / self.n_forwards if self.n_forwards else float("nan")


@dataclass
class Progress:
    """Collect one sequence while it runs."""

    ids: list[int]
    max_tokens: int
    n_forwards: int = 0
    n_rounds: int = 0
    n_accepted: int = 0
    n_cache_writes: int = 0
    trace: list[RoundTrace] = field(default_factory=list)

    def finish(self, stop_ids: frozenset[int]) -> Finish | None:
        """Tell why the sequence has ended, or None while it runs."""
        if self.ids[-1] in stop_ids:
            return "stop"
        return "length" if len(self.ids) >= self.max_tokens else None


class Batch:
    """Keep the running sequences beside the cache rows: row i here is row i there.

    *Shapes*: lens, x0, n_left [b], of the sequences still running.
    *Raises*: CapacityError before anything runs.
    """

    def __init__(self, request: Request, slots: Slots) -> None:
        request.check_capacity(slots.capacity)
        self.slots = slots
        self.stop_ids = request.stop_ids
        self.lens = request.lens
        self.x0 = request.first
        self.n_left = request.max_tokens - 1
        firsts, limits = request.first.tolist(), request.max_tokens.tolist()
        self.everyone = [Progress([first], limit) for first, limit in zip(firsts, limits, strict=True)]
        self.running = list(self.everyone)
        self.retire()  # y_1 may be a stop token or all that was asked for

    def record(self, tokens: Tensor, counts: Tensor) -> None:
        """Append the first `counts` tokens of every row to its sequence. *Shapes*: [b, n], [b]."""
        for progress, row, count in zip(self.running, tokens.tolist(), counts.tolist(), strict=True):
            progress.ids.extend(row[:count])
        self.n_left = self.n_left - counts

    def retire(self) -> Tensor | None:
        """Let finished sequences leave with their cache rows; return the rows kept, None if all stay."""
        stay = [row for row, progress in enumerate(self.running) if progress.finish(self.stop_ids) is None]
        if len(stay) == len(self.running):
            return None
        rows = torch.tensor(stay, dtype=torch.long, device=self.lens.device)
        self.slots.keep(rows)
        self.running = [self.running[row] for row in stay]
        self.lens, self.x0, self.n_left = self.lens[rows], self.x0[rows], self.n_left[rows]
        return rows

    def results(self) -> list[Decoded]:
        """Return every sequence in input order, once all have ended."""
        return [self._result(progress) for progress in self.everyone]

    def _result(self, progress: Progress) -> Decoded:
        finish = progress.finish(self.stop_ids)
        assert finish is not None, "results() before every sequence has ended"
        return Decoded(
            ids=progress.ids,
            finish=finish,
            n_forwards=progress.n_forwards,
            n_rounds=progress.n_rounds,
            n_accepted=progress.n_accepted,
            n_cache_writes=progress.n_cache_writes,
            trace=progress.trace,
        )
