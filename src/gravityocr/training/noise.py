"""Which response tokens are masked in which corrupted stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from gravityocr.config import check_numbers


@dataclass(frozen=True)
class NoiseConfig:
    """Settings of the corruption.

    `mask_schedule`: `uniform` draws one rate per block, `all` masks everything, `mixed` takes `all` for a share
    `all_share` of the samples and `uniform` for the others. `random_offset` lets the first block be shorter, so that
    blocks start anywhere, as draft windows do (ours). `eos_fill` appends a whole block of EOS tokens to a response,
    else a single one. *Source*: section 3.
    """

    block_size: int = 32
    mask_schedule: Literal["uniform", "all", "mixed"] = "uniform"
    all_share: float = 0.5
    random_offset: bool = False
    eos_fill: bool = True

    @property
    def n_eos(self) -> int:
        """How many EOS tokens are appended to a response."""
        return self.block_size if self.eos_fill else 1

    @property
    def n_corrupt(self) -> int:
        """How many corrupted copies of a response there are at most."""
        return 1 if self.mask_schedule == "all" else 2

    def __post_init__(self) -> None:
        check_numbers(self, "noise.", block_size=(1, 256), all_share=(0.0, 1.0))


@dataclass(frozen=True)
class Corruption:
    """The corrupted streams of one response.

    *Shapes*: block [n]; masked: one [n] bool per corrupted stream that masks anything; every token is masked in
    exactly one of them.
    """

    block: Tensor
    masked: tuple[Tensor, ...]


def corrupt(n_tokens: int, config: NoiseConfig, generator: Generator) -> Corruption:
    """Draw the blocks and the masks of one response of `n_tokens` (fill included).

    *Source*: section 3: per block t ~ U(0, 1), each token masked with probability t in one stream, the complement in
    the other.
    """
    size = config.block_size
    offset = int(torch.randint(size, (), generator=generator)) if config.random_offset else 0
    block = (torch.arange(n_tokens) + offset) // size
    everything = config.mask_schedule == "all" or (
        config.mask_schedule == "mixed" and float(torch.rand((), generator=generator)) < config.all_share
    )
    if everything:
        return Corruption(block, (torch.ones(n_tokens, dtype=torch.bool),))
    rate = torch.rand(int(block[-1]) + 1, generator=generator)[block]
    masked = torch.rand(n_tokens, generator=generator) < rate
    return Corruption(block, (masked, ~masked))
