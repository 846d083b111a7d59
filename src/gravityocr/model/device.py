"""Where a network runs."""

from __future__ import annotations

import re

import torch

from gravityocr.errors import ConfigError

DEVICE = re.compile(r"cpu|cuda(?::([0-9]{1,3}))?")


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
