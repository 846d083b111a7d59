"""Packed rows: samples over a shared prefix and up to three streams of each response.

A sample lies in its row as `[prefix | clean | corrupt a | corrupt b]`; the prefix is stored once. Samples of a row
never see each other (`gravityocr.model.masks.joint_mask`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gravityocr.errors import ConfigError
from gravityocr.model.masks import CLEAN, CORRUPT_A, PREFIX, RowTags
from gravityocr.model.prompt import Prompt
from gravityocr.training.noise import Corruption

IGNORE = -100


@dataclass(frozen=True)
class Sample:
    """One prompt, its filled response and its corruption.

    *Shapes*: response [n] with the EOS fill; `n_supervised` tokens of it are AR targets (the first EOS is the last).
    """

    prompt: Prompt
    response: Tensor
    n_supervised: int
    corruption: Corruption

    @property
    def n_tokens(self) -> int:
        """Forward tokens that this sample costs in a row."""
        return self.prompt.ids.numel() + (1 + len(self.corruption.masked)) * self.response.numel()


@dataclass(frozen=True)
class PackedBatch:
    """Rows ready for the network.

    *Shapes*: ids, is_image, ar_target, diffusion_target [b, n] (targets sit at the row that predicts them, IGNORE
    elsewhere), positions [3, b, n], tags [b, n]. `order` lists the samples in the order in which their image features
    are scattered, `places` says where each of them lies.
    """

    ids: Tensor
    is_image: Tensor
    positions: Tensor
    tags: RowTags
    ar_target: Tensor
    diffusion_target: Tensor
    order: tuple[int, ...]
    places: tuple[SamplePlace, ...]

    def to(self, device: torch.device) -> PackedBatch:
        """Return the batch on another device."""
        tags = RowTags(*(getattr(self.tags, name).to(device) for name in RowTags.__dataclass_fields__))
        names = ("ids", "is_image", "positions", "ar_target", "diffusion_target")
        return replace(self, tags=tags, **{name: getattr(self, name).to(device) for name in names})


@dataclass(frozen=True)
class SamplePlace:
    """Where a sample lies: its row, the column of its first prefix token and that of each stream's first token."""

    row: int
    prefix: int
    streams: tuple[int, ...]


def fill_response(ids: Sequence[int], eos_id: int, block_size: int) -> tuple[Tensor, int]:
    """Append exactly `block_size` EOS tokens; return the response and its number of AR-supervised tokens.

    *Source*: section 3, EOS block fill.
    """
    return torch.tensor([*ids, *[eos_id] * block_size], dtype=torch.long), len(ids) + 1


def assign_rows(sizes: Sequence[int], budget_tokens: int) -> list[list[int]]:
    """Assign samples to rows, first fit.

    *Raises*: ConfigError where one sample alone exceeds the budget.
    """
    rows: list[list[int]] = []
    free: list[int] = []
    for i, size in enumerate(sizes):
        if size > budget_tokens:
            raise ConfigError(f"a sample of {size} forward tokens exceeds the row budget of {budget_tokens}; raise it")
        for row, room in enumerate(free):
            if size <= room:
                rows[row].append(i)
                free[row] -= size
                break
        else:
            rows.append([i])
            free.append(budget_tokens - size)
    return rows


def pack(samples: Sequence[Sample], mask_id: int, budget_tokens: int) -> PackedBatch:
    """Pack samples into rows of at most `budget_tokens`, padded to the longest row."""
    rows = assign_rows([sample.n_tokens for sample in samples], budget_tokens)
    width = max(sum(samples[i].n_tokens for i in row) for row in rows)
    shape = (len(rows), width)
    builder = _Builder(shape, mask_id)
    order, places = [], []
    for number, row in enumerate(rows):
        column = 0
        for segment, i in enumerate(row):
            places.append(builder.add(samples[i], number, column, segment))
            order.append(i)
            column += samples[i].n_tokens
    return builder.finish(order, places)


class _Builder:
    def __init__(self, shape: tuple[int, int], mask_id: int) -> None:
        self.mask_id = mask_id
        self.ids = torch.zeros(shape, dtype=torch.long)
        self.is_image = torch.zeros(shape, dtype=torch.bool)
        self.positions = torch.zeros(3, *shape, dtype=torch.long)
        self.ar_target = torch.full(shape, IGNORE)
        self.diffusion_target = torch.full(shape, IGNORE)
        self.segment, self.block = torch.full(shape, -1), torch.full(shape, -1)
        self.stream, self.index = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)

    def add(self, sample: Sample, row: int, start: int, segment: int) -> SamplePlace:
        prompt, response = sample.prompt, sample.response
        n_prefix, n = prompt.ids.numel(), response.numel()
        prefix = slice(start, start + n_prefix)
        self.segment[row, start : start + sample.n_tokens] = segment
        self.ids[row, prefix] = prompt.ids
        self.is_image[row, prefix] = prompt.is_image
        self.positions[:, row, prefix] = prompt.positions
        self.stream[row, prefix] = PREFIX
        self.index[row, prefix] = torch.arange(n_prefix)
        last = start + n_prefix - 1
        streams = []
        for number in range(1 + len(sample.corruption.masked)):
            column = last + 1 + number * n
            here = slice(column, column + n)
            streams.append(column)
            self.positions[:, row, here] = prompt.next_position + torch.arange(n)
            self.index[row, here] = torch.arange(n)
            self.block[row, here] = sample.corruption.block
            # The logit at position i - 1 predicts y_i, so targets move one column to the left.
            if number == 0:
                self.stream[row, here] = CLEAN
                self.ids[row, here] = response
                target, targets = self.ar_target, response.clone()
                targets[sample.n_supervised :] = IGNORE
            else:
                masked = sample.corruption.masked[number - 1]
                self.stream[row, here] = CORRUPT_A + number - 1
                self.ids[row, here] = response.masked_fill(masked, self.mask_id)
                target, targets = self.diffusion_target, response.masked_fill(~masked, IGNORE)
            target[row, column : column + n - 1] = targets[1:]
            if targets[0] != IGNORE:
                target[row, last] = targets[0]
        return SamplePlace(row, start, tuple(streams))

    def finish(self, order: list[int], places: list[SamplePlace]) -> PackedBatch:
        tags = RowTags(self.segment, self.stream, self.index, self.block)
        return PackedBatch(
            self.ids, self.is_image, self.positions, tags, self.ar_target, self.diffusion_target,
            tuple(order), tuple(places),
        )  # fmt: skip
