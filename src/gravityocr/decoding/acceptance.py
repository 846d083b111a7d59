"""How many drafts a simulated drafter gets accepted: distributions, not a drafter.

A simulation answers how fast the engine is where a model drafts better than the one at hand. It runs the same forwards;
only the drafts come from a finished AR decode, spoiled behind as many of them as a draw from one of these says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gravityocr.errors import ConfigError, InputError

PAPER_BLOCK_SIZE = 32
PAPER_MEANS: Mapping[str, float] = {"text": 15.0, "formula": 18.9, "table": 25.0}
"""Mean accepted drafts a round at B = 32. *Source*: section 8."""


@dataclass(frozen=True)
class AcceptanceProfile:
    """A distribution of the accepted drafts of a round: `weights[k]` belongs to k of B.

    *Raises*: ConfigError for weights that are negative, not finite or all 0, or for fewer than two.
    """

    weights: tuple[float, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.weights) < 2:
            raise ConfigError(f"an acceptance profile of {len(self.weights)} weights: give one for each of 0..B")
        if not all(weight >= 0 for weight in self.weights) or not 0 < sum(self.weights) < math.inf:
            raise ConfigError("the weights of an acceptance profile must be finite, none below 0, and not all 0")

    @property
    def block_size(self) -> int:
        """Return B."""
        return len(self.weights) - 1

    @property
    def mean(self) -> float:
        """Return the mean accepted drafts a round."""
        return sum(k * weight for k, weight in enumerate(self.weights)) / sum(self.weights)

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Return `n` accepted lengths. *Shapes*: [n], on the generator's device."""
        weights = torch.tensor(self.weights, dtype=torch.float64, device=generator.device)
        return torch.multinomial(weights, n, replacement=True, generator=generator)


def truncated_geometric(mean: float, block_size: int, at: int | None = None) -> tuple[float, ...]:
    """Return the weights over 0..B of drafts that agree one by one with equal probability, until one does not.

    P(k) = p^k (1 - p) for k < B, and what is left at B. p is solved for the mean at a block size of `at` (None: B
    itself), so that one p serves all block sizes.

    *Raises*: ConfigError where no p has such a mean.
    """
    solved_at = at or block_size
    if not 0 <= mean <= solved_at or block_size < 1:
        raise ConfigError(f"B = {block_size}, {mean:g} accepted of {solved_at} drafts: choose 0 to {solved_at}")
    low, high = 0.0, 1.0
    for _ in range(200):  # bisection down to the last bit: the mean rises with p
        middle = (low + high) / 2
        if sum(middle**k for k in range(1, solved_at + 1)) < mean:
            low = middle
        else:
            high = middle
    return (*(high**k * (1 - high) for k in range(block_size)), high**block_size)


def paper_profile(task: str, block_size: int, seed: int = 0) -> AcceptanceProfile:
    """Return the profile of a task (text, formula, table) with the paper's mean. *Source*: section 8."""
    weights = truncated_geometric(PAPER_MEANS[task], block_size, PAPER_BLOCK_SIZE)
    return AcceptanceProfile(weights, seed)


def read_profiles(file: Path, block_size: int, seed: int = 0) -> dict[str, AcceptanceProfile]:
    """Read a JSON object of `{task: [weight of 0, ..., weight of B]}`.

    *Raises*: InputError for a file that cannot be read or holds something else, or weights for another block size.
    """
    if file.exists() and not file.is_file():
        raise InputError(f"{file}: is no regular file; an acceptance profile is a JSON object")
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: cannot be read ({error}); an acceptance profile is a JSON object") from error
    if not isinstance(raw, dict) or not raw:
        raise InputError(f"{file}: must hold an object of {', '.join(PAPER_MEANS)} and the weights of 0..B for each")
    profiles = {}
    for task, weights in raw.items():
        if task not in PAPER_MEANS or not _are_numbers(weights):
            raise InputError(f"{file}: {task!r} must be one of {', '.join(PAPER_MEANS)} and hold a list of numbers")
        if len(weights) != block_size + 1:
            what = f"{len(weights)} weights of {task} are for B = {len(weights) - 1}, and drafts have B = {block_size}"
            raise InputError(f"{file}: {what}; choose that block size (MODE:B) or give other weights")
        try:
            profiles[task] = AcceptanceProfile(tuple(float(weight) for weight in weights), seed)
        except (ConfigError, OverflowError) as error:
            raise InputError(f"{file}: {task}: {error}") from error
    return profiles


def _are_numbers(values: object) -> bool:
    return isinstance(values, list) and all(type(value) in (int, float) for value in values)
