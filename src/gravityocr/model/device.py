"""Where a network runs, and on how many threads."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from gravityocr.errors import ConfigError

DEVICE = re.compile(r"cpu|cuda(?::([0-9]{1,3}))?")


@dataclass(frozen=True)
class ThreadPlan:
    """Say how many threads a forward gets: one below `from_rows` rows, else `most`.

    A small forward is over before a second thread has begun.
    """

    most: int
    from_rows: int

    def use(self, n_rows: int) -> None:
        """Set torch's threads for a forward over that many rows."""
        n_threads = self.most if n_rows >= self.from_rows else 1
        if torch.get_num_threads() != n_threads:
            torch.set_num_threads(n_threads)


def multiplies_bf16(device: torch.device) -> bool:
    """Tell whether bf16 products are faster than fp32 ones there."""
    if device.type == "cpu":
        return bool(torch.cpu.get_capabilities().get("avx512_bf16", False))
    return True


def check_device(name: str) -> torch.device:
    """Return the device of that name.

    *Raises*: ConfigError where there is none.
    """
    match = DEVICE.fullmatch(name)
    n_gpus = torch.cuda.device_count() if name != "cpu" and torch.cuda.is_available() else 0
    if match is None or (name != "cpu" and int(match[1] or 0) >= n_gpus):
        raise ConfigError(f"device {name!r} is not available here; choose cpu, or cuda where there is a GPU")
    return torch.device(name)
