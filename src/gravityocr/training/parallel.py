"""Processes of one run, by accelerate: data parallel on CPU or GPUs, ZeRO and FSDP where accelerate is told so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gravityocr.errors import ConfigError

if TYPE_CHECKING:
    from gravityocr.training.run_config import RunConfig

SHARDED = ("DEEPSPEED", "FSDP")


class Parallel:
    """What a trainer needs of the other processes; alone, it is all trivial."""

    def __init__(self, config: RunConfig) -> None:
        """Join the processes that the launcher started.

        *Raises*: ConfigError where accelerate is not installed.
        """
        try:
            from accelerate import Accelerator
        except ImportError as error:
            raise ConfigError("training needs accelerate; pip install 'gravityocr[train]'") from error
        self.accelerator = Accelerator(
            gradient_accumulation_steps=config.accumulation, cpu=config.device == "cpu",
            step_scheduler_with_optimizer=False,
        )  # fmt: skip
        self.accumulation = config.accumulation
        self.module: nn.Module = nn.Module()
        self.optimizers: list[Optimizer] = []

    @property
    def rank(self) -> int:
        """Number of this process."""
        return int(self.accelerator.process_index)

    @property
    def world(self) -> int:
        """How many processes there are."""
        return int(self.accelerator.num_processes)

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        return torch.device(self.accelerator.device)

    @property
    def sharded(self) -> str | None:
        """How weights or optimiser states are spread over the processes, None where each has all."""
        kind = str(self.accelerator.distributed_type.value)
        return kind if kind in SHARDED else None

    def prepare(self, module: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Wrap the module and its optimisers.

        *Raises*: ConfigError where they are too many for ZeRO or FSDP.
        """
        if self.sharded and len(optimizers) > 1:
            raise ConfigError(f"optimizer.kind needs {len(optimizers)} optimisers, {self.sharded} takes one; use adamw")
        if self.sharded == "DEEPSPEED":
            # It wants the size of a micro-batch, which is one row, and learns it from a loader otherwise.
            plugin = self.accelerator.state.deepspeed_plugin
            plugin.deepspeed_config["train_micro_batch_size_per_gpu"] = 1
        self.module, *self.optimizers = self.accelerator.prepare(module, *optimizers)

    def accumulate(self) -> AbstractContextManager[Any]:
        """Return the context of one row, in which gradients are averaged only for the last row of a step."""
        return self.accelerator.accumulate(self.module)

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of a loss that is already scaled to its share of the whole step."""
        # Data parallelism averages over the processes, and accelerate over the rows of a step.
        self.accelerator.backward(loss * (self.world * self.accumulation))

    def step(self, clip_norm: float) -> float:
        """Clip the gradient, step unless it is not finite, clear it, and return its norm."""
        norm = self.accelerator.clip_grad_norm_(self.module.parameters(), clip_norm)
        norm = float("nan") if norm is None else float(norm)
        for optimizer in self.optimizers:
            if self.sharded or norm == norm and abs(norm) != float("inf"):
                optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return norm

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sums of some values over the processes."""
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        if self.world > 1:
            total = self.accelerator.reduce(total, "sum")
        return [float(value) for value in total]

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process."""
        return self.sum([float(flag)])[0] > 0

    def first(self) -> AbstractContextManager[Any]:
        """Return the context that one process of a machine runs before the others enter it."""
        return self.accelerator.local_main_process_first()

    def wait(self) -> None:
        """Wait for the other processes."""
        self.accelerator.wait_for_everyone()

    def weights(self) -> Mapping[str, Tensor]:
        """Return all weights of the wrapped module, gathered; every process has to call it."""
        return self.accelerator.get_state_dict(self.module)

    def save_shards(self, folder: Path) -> None:
        """Write what each process holds of the weights and optimiser states."""
        self.accelerator.save_state(str(folder))

    def load_shards(self, folder: Path) -> None:
        """Read what `save_shards` wrote."""
        self.accelerator.load_state(str(folder))

    def close(self) -> None:
        """Leave the process group."""
        self.accelerator.end_training()
