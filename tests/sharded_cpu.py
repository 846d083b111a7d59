"""`python -m tests.sharded_cpu`: gravityocr where accelerate shares out weights on CPUs, as it does on GPUs alone."""

from __future__ import annotations

from typing import Any

import accelerate
from accelerate import Accelerator
from accelerate.state import PartialState
from accelerate.utils import DistributedType

from gravityocr.cli import main


def on_gpus(**settings: Any) -> Accelerator:
    """Return an accelerator that does not know that its processes have no GPU."""
    return Accelerator(**{**settings, "cpu": False})


if __name__ == "__main__":
    PartialState._prepare_backend = lambda *_args: ("gloo", DistributedType.MULTI_GPU)
    accelerate.Accelerator = on_gpus
    main()
