"""Processes of one run, by accelerate: data parallel on CPU or GPUs, ZeRO and FSDP where accelerate is told so."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gravityocr.errors import ConfigError
from gravityocr.model.ocr_model import OcrModel

if TYPE_CHECKING:
    from gravityocr.training.joint import JointModule
    from gravityocr.training.run_config import RunConfig

SHARDED = ("DEEPSPEED", "FSDP")
PATIENCE = timedelta(hours=4)
"""How long a process waits for the others, which may be reading held-out crops or counting the tokens of a pool."""


class Parallel:
    """What a trainer needs of the other processes; alone, it is all trivial."""

    def __init__(self, config: RunConfig) -> None:
        """Join the processes that the launcher started.

        *Raises*: ConfigError where accelerate is not installed, or shares out in a way that a run cannot go with.
        """
        try:
            from accelerate import Accelerator, InitProcessGroupKwargs
            from accelerate.utils import parse_flag_from_env
        except ImportError as error:
            raise ConfigError("training needs accelerate; pip install 'gravityocr[train]'") from error
        self.accelerator = Accelerator(
            gradient_accumulation_steps=config.accumulation, cpu=config.device == "cpu",
            step_scheduler_with_optimizer=False, kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)],
        )  # fmt: skip
        # A launcher's own number of rows a step would win otherwise.
        self.accelerator.gradient_accumulation_steps = config.accumulation
        self.accumulation = config.accumulation
        self.bf16 = config.bf16
        wanted = [name for name in SHARDED if parse_flag_from_env(f"ACCELERATE_USE_{name}")]
        if wanted and not self.sharded:
            raise ConfigError(f"accelerate has no {wanted[0]} on a CPU; set train.device to cuda, or launch without it")
        if self.sharded and config.ema:
            raise ConfigError(f"train.ema needs whole weights in fp32, which {self.sharded} does not keep; set it to 0")
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

    def prepare(self, module: JointModule, optimizers: Sequence[Optimizer], clip_norm: float) -> None:
        """Wrap the module and its optimisers.

        *Raises*: ConfigError where ZeRO or FSDP cannot share them out.
        """
        if self.sharded and len(optimizers) > 1:
            raise ConfigError(f"optimizer.kind needs {len(optimizers)} optimisers, {self.sharded} takes one; use adamw")
        if self.sharded and module.heads is not None:
            raise ConfigError(f"glyphs: {self.sharded} does not share out their heads; set all weights of glyphs to 0")
        if self.sharded == "DEEPSPEED":
            self._set_up_deepspeed(clip_norm)
        elif self.sharded == "FSDP":
            self._set_up_fsdp()
        self.module, *self.optimizers = self.accelerator.prepare(module, *optimizers)

    def _set_up_deepspeed(self, clip_norm: float) -> None:
        plugin = self.accelerator.state.deepspeed_plugin
        if plugin.zero_stage > 2:
            raise ConfigError(f"ZeRO stage {plugin.zero_stage} shares out the weights too; use stage 2, or FSDP2")
        # The run's config decides; accelerate would take DeepSpeed's file at its word, and clip "auto" at 1.
        settings = plugin.deepspeed_config
        settings["train_micro_batch_size_per_gpu"] = 1
        settings["gradient_accumulation_steps"] = self.accumulation
        settings["gradient_clipping"] = clip_norm
        settings["bf16"] = {**settings.get("bf16", {}), "enabled": self.bf16, "check_grad_overflow": True}

    def _set_up_fsdp(self) -> None:
        from torch.distributed.fsdp import MixedPrecisionPolicy

        plugin = self.accelerator.state.fsdp_plugin
        if plugin.fsdp_version != 2:
            raise ConfigError(f"FSDP version {plugin.fsdp_version} mixes rates; set fsdp_version to 2")
        # Accelerate's own policy would sum gradients, and return the loss, in bf16.
        low = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        plugin.mixed_precision_policy = low if self.bf16 else MixedPrecisionPolicy()

    def accumulate(self) -> AbstractContextManager[Any]:
        """Return the context of one row, in which gradients are averaged only for the last row of a step."""
        return self.accelerator.accumulate(self.module)

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of a loss that is already scaled to its share of the whole step."""
        # Data parallelism averages over the processes, and accelerate over the rows of a step.
        self.accelerator.backward(loss * (self.world * self.accumulation))

    def step(self, clip_norm: float) -> float:
        """Clip the gradient, step unless it is not finite, clear it, and return its norm.

        DeepSpeed did all that in the last `backward`, after which its optimisers' own `step` is empty.
        """
        norm = self.accelerator.clip_grad_norm_(self.module.parameters(), clip_norm)
        norm = float("nan") if norm is None else float(norm)
        for optimizer in self.optimizers:
            if norm == norm and abs(norm) != float("inf"):
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

    def whole(self, model: OcrModel) -> OcrModel:
        """Return the network of the wrapped module with whole weights in the first process; all have to call it."""
        if self.sharded != "FSDP":
            return model
        weights = self.accelerator.get_state_dict(self.module)
        if self.rank != 0:
            return model
        whole = OcrModel(model.config)
        whole.load_state_dict({name.removeprefix("model."): weight for name, weight in weights.items()})
        return whole.to(self.device)

    def save_shards(self, folder: Path) -> None:
        """Write what each process holds of the weights and optimiser states."""
        self.accelerator.save_state(str(folder))

    def load_shards(self, folder: Path) -> None:
        """Read what `save_shards` wrote."""
        self.accelerator.load_state(str(folder))

    def close(self) -> None:
        """Leave the process group."""
        self.accelerator.end_training()
