"""Packed rows: samples over a shared prefix and up to three streams of each response.

A sample lies in its row as `[prefix | clean | corrupt a | corrupt b]`; the prefix is stored once. Samples of a row
never see each other (`gravityocr.model.masks.sees`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gravityocr.model.masks import CLEAN, CORRUPT_A, PREFIX, RowTags
from gravityocr.model.prompt import Prompt
from gravityocr.training.noise import Corruption

IGNORE = -100


@dataclass(frozen=True)
class Sample:
    """One prompt, its filled response and its corruption; `name` is told where the sample makes trouble.

    *Shapes*: response [n] with the EOS fill; `n_supervised` tokens of it are AR targets (the first EOS is the last).
    """

    prompt: Prompt
    response: Tensor
    n_supervised: int
    corruption: Corruption
    name: str = ""

    @property
    def n_tokens(self) -> int:
        """Forward tokens that this sample costs in a row."""
        return self.prompt.ids.numel() + (1 + len(self.corruption.masked)) * self.response.numel()


@dataclass(frozen=True)
class SamplePlace:
    """Where a sample lies in its row: the column of its first prefix token and that of each stream's first token."""

    prefix: int
    streams: tuple[int, ...]
    end: int


@dataclass(frozen=True)
class PackedRow:
    """A row ready for the network.

    *Shapes*: ids, is_image, ar_target, diffusion_target [1, n] (targets sit at the row that predicts them, IGNORE
    elsewhere), positions [3, 1, n], tags [1, n]. `places` says where each sample lies, in their order.
    """

    ids: Tensor
    is_image: Tensor
    positions: Tensor
    tags: RowTags
    ar_target: Tensor
    diffusion_target: Tensor
    places: tuple[SamplePlace, ...]

    @property
    def n_tokens(self) -> int:
        """Forward tokens of the row."""
        return self.ids.shape[1]

    @property
    def n_targets(self) -> tuple[int, int]:
        """How many tokens the AR and the diffusion loss are over."""
        return tuple(int((t != IGNORE).sum()) for t in (self.ar_target, self.diffusion_target))  # type: ignore[return-value]

    def to(self, device: torch.device) -> PackedRow:
        """Return the row on another device."""
        tags = RowTags(*(getattr(self.tags, name).to(device) for name in RowTags.__dataclass_fields__))
        names = ("ids", "is_image", "positions", "ar_target", "diffusion_target")
        return replace(self, tags=tags, **{name: getattr(self, name).to(device) for name in names})


def fill_response(ids: Sequence[int], eos_id: int, n_eos: int) -> tuple[Tensor, int]:
    """Append exactly `n_eos` EOS tokens; return the response and its number of AR-supervised tokens.

    *Source*: section 3, EOS block fill.
    """
    return torch.tensor([*ids, *[eos_id] * n_eos], dtype=torch.long), len(ids) + 1


def pack(samples: Sequence[Sample], mask_id: int) -> PackedRow:
    """Pack samples into one row, in their order."""
    builder = _Builder(sum(sample.n_tokens for sample in samples), mask_id)
    places, column = [], 0
    for segment, sample in enumerate(samples):
        places.append(builder.add(sample, column, segment))
        column += sample.n_tokens
    return builder.finish(places)


class _Builder:
    def __init__(self, n_tokens: int, mask_id: int) -> None:
        self.mask_id = mask_id
        self.ids = torch.zeros(n_tokens, dtype=torch.long)
        self.is_image = torch.zeros(n_tokens, dtype=torch.bool)
        self.positions = torch.zeros(3, n_tokens, dtype=torch.long)
        self.ar_target = torch.full((n_tokens,), IGNORE)
        self.diffusion_target = torch.full((n_tokens,), IGNORE)
        self.segment, self.block = torch.full((n_tokens,), -1), torch.full((n_tokens,), -1)
        self.stream, self.index = torch.zeros(n_tokens, dtype=torch.long), torch.zeros(n_tokens, dtype=torch.long)

    def add(self, sample: Sample, start: int, segment: int) -> SamplePlace:
        prompt, response = sample.prompt, sample.response
        n_prefix, n = prompt.ids.numel(), response.numel()
        prefix = slice(start, start + n_prefix)
        self.segment[start : start + sample.n_tokens] = segment
        self.ids[prefix] = prompt.ids
        self.is_image[prefix] = prompt.is_image
        self.positions[:, prefix] = prompt.positions
        self.stream[prefix] = PREFIX
        self.index[prefix] = torch.arange(n_prefix)
        last = start + n_prefix - 1
        streams = []
        for number in range(1 + len(sample.corruption.masked)):
            column = last + 1 + number * n
            here = slice(column, column + n)
            streams.append(column)
            self.positions[:, here] = prompt.next_position + torch.arange(n)
            self.index[here] = torch.arange(n)
            self.block[here] = sample.corruption.block
            # The logit at position i - 1 predicts y_i, so targets move one column to the left.
            if number == 0:
                self.stream[here] = CLEAN
                self.ids[here] = response
                target, targets = self.ar_target, response.clone()
                targets[sample.n_supervised :] = IGNORE
            else:
                masked = sample.corruption.masked[number - 1]
                self.stream[here] = CORRUPT_A + number - 1
                self.ids[here] = response.masked_fill(masked, self.mask_id)
                target, targets = self.diffusion_target, response.masked_fill(~masked, IGNORE)
            target[column : column + n - 1] = targets[1:]
            if targets[0] != IGNORE:
                target[last] = targets[0]
        return SamplePlace(start, tuple(streams), start + sample.n_tokens)

    def finish(self, places: list[SamplePlace]) -> PackedRow:
        tags = RowTags(self.segment[None], self.stream[None], self.index[None], self.block[None])
        return PackedRow(
            self.ids[None], self.is_image[None], self.positions[:, None], tags, self.ar_target[None],
            self.diffusion_target[None], tuple(places),
        )  # fmt: skip
