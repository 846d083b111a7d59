"""The rows of the mask token: its embedding is drawn like one of the others, its output row never wins.

*Source*: paper.md section 1 for the embedding; the output row is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

import torch
from safetensors import safe_open
from torch import Tensor

from gravityocr.errors import CheckpointError, ConfigError

Statistics = Literal["covariance", "std"]
STATISTICS: tuple[Statistics, ...] = get_args(Statistics)
_ROWS_AT_ONCE = 4096


def draw_embedding(file: Path, key: str, used: Tensor, seed: int, statistics: Statistics = "covariance") -> Tensor:
    """Draw a row from the normal distribution that has the mean and covariance, or the deviations, of the used rows.

    The covariance is never formed: with z of independent standard normals, `mean + sum z_i (x_i - mean) / sqrt(n - 1)`
    has exactly the rows' covariance, at the cost of one more pass over them.

    *Shapes*: used [n_rows], booleans; result [width], float64.
    *Raises*: ConfigError for unknown statistics; CheckpointError for fewer than two used rows, or rows not finite.
    """
    if statistics not in STATISTICS:
        raise ConfigError(f"--statistics {statistics!r} is unknown; choose one of {', '.join(STATISTICS)}")
    n_used = int(used.sum())
    if n_used < 2:
        raise CheckpointError(f"{file}: {key} has {n_used} rows that tokens use; at least 2 are needed")
    mean = mean_row(file, key, used)
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros_like(mean)
    for rows in _used_rows(file, key, used):
        centred = rows - mean
        if statistics == "covariance":
            total += torch.randn(len(rows), dtype=torch.float64, generator=generator) @ centred
        else:
            total += centred.square().sum(dim=0)
    if statistics == "covariance":
        return mean + total / (n_used - 1) ** 0.5
    return mean + (total / (n_used - 1)).sqrt() * torch.randn(len(mean), dtype=torch.float64, generator=generator)


def mean_row(file: Path, key: str, used: Tensor) -> Tensor:
    """Return the mean of the used rows; as the mask's output row it gives the mean of the used tokens' logits.

    A mean is never above the largest of what it is taken over: whatever the hidden state, some token of the text wins
    over the mask, and all other logits stay those of the base.

    *Shapes*: used [n_rows], booleans; result [width], float64.
    *Raises*: CheckpointError where a used row is not finite.
    """
    total, n_used = torch.zeros((), dtype=torch.float64), 0
    for rows in _used_rows(file, key, used):
        total, n_used = total + rows.sum(dim=0), n_used + len(rows)
    if not bool(total.isfinite().all()):
        raise CheckpointError(f"{file}: {key} holds values that are not finite; copy it again")
    return total / max(1, n_used)


def _used_rows(file: Path, key: str, used: Tensor) -> Iterator[Tensor]:
    """Yield the used rows, a few thousand at a time, in float64."""
    with safe_open(str(file), framework="pt") as handle:
        table = handle.get_slice(key)
        for first in range(0, len(used), _ROWS_AT_ONCE):
            rows = table[first : first + _ROWS_AT_ONCE]
            kept = rows[used[first : first + _ROWS_AT_ONCE]].double()
            if len(kept):
                yield kept
