"""Joint training: rows in, checkpoint out; resumable to the same bits (with loader workers, but for the ramp's lag).

A step: (1) every process draws its samples, (2) the vision tower encodes all crops in one call, (3) the decoder runs
the packed rows under the dense mask, (4) losses are formed and gradients averaged over the processes, (5) the
optimisers step. Every process weighs the same, whatever its number of targets.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from gravityocr.config import check_numbers, dump_config
from gravityocr.errors import CheckpointError, ConfigError
from gravityocr.model.checkpoint import MASK_TOKEN, BlockDiffusion
from gravityocr.model.device import DEVICE
from gravityocr.model.ocr_model import OcrConfig, OcrModel
from gravityocr.model.pieces import PieceSpec
from gravityocr.model.prompt import PromptBuilder, token_id
from gravityocr.training.export import export_checkpoint
from gravityocr.training.glyphs import GlyphConfig, GlyphHeads, GuidedAttention
from gravityocr.training.losses import LossConfig, joint_loss, masked_attention, packed_hidden
from gravityocr.training.nano import EOS_TOKEN, IMAGE_SPEC, NETWORK, build_tokenizer, new_network
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.optimizer import OptimizerConfig, build_optimizers, clip_gradients, rate_share, set_rates
from gravityocr.training.packing import pack
from gravityocr.training.sources import DataConfig, StepData, SyntheticSource
from gravityocr.training.synthetic.charset import CHARSET
from gravityocr.training.validation import ValidationConfig, validate

MAX_STEP_S = 60.0
# What torch.load raises for junk, and what its contents raise where they do not fit.
STATE_ERRORS = (
    OSError, EOFError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, pickle.UnpicklingError,
)  # fmt: skip


@dataclass(frozen=True)
class RunConfig:
    """Length, size and place of a run.

    The run ends after `n_steps`, or after `budget_s` of training time if that is set (the schedule then follows the
    time, and resuming goes on where the time stopped). `export_block_size` is the `bd_size` that the checkpoint names,
    None being the trained one. *Units*: `row_budget_tokens` forward tokens a packed row.
    """

    folder: str = "runs/nano"
    seed: int = 0
    n_steps: int = 1000
    budget_s: float | None = None
    n_processes: int = 1
    n_workers: int = 0
    n_samples: int = 16
    row_budget_tokens: int = 10240
    vision_only: float = 0.0
    device: str = "cpu"
    bf16: bool = True
    log_every: int = 20
    save_every_s: float = 120.0
    validate_every_s: float = 600.0
    export_block_size: int | None = None

    def __post_init__(self) -> None:
        check_numbers(
            self, "run.", optional=("budget_s", "export_block_size"), seed=(0, 2**63 - 1), n_steps=(1, 10**9),
            budget_s=(1e-3, 1e9), n_processes=(1, 256), n_workers=(0, 256), n_samples=(1, 10**6),
            row_budget_tokens=(1, 10**7), vision_only=(0.0, 1.0), log_every=(1, 10**9), save_every_s=(0.0, 1e9),
            validate_every_s=(0.0, 1e9), export_block_size=(1, 256),
        )  # fmt: skip
        if not self.folder:
            raise ConfigError("run.folder is empty; name the folder that the run writes to")
        if not DEVICE.fullmatch(self.device):
            raise ConfigError(f"run.device is {self.device!r}; choose cpu or cuda")


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a training run."""

    run: RunConfig = field(default_factory=RunConfig)
    data: DataConfig = field(default_factory=DataConfig)
    network: OcrConfig = field(default_factory=lambda: NETWORK)
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    glyphs: GlyphConfig = field(default_factory=GlyphConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    def __post_init__(self) -> None:
        n_layers = self.network.text.num_hidden_layers
        if any(not 0 <= layer < n_layers for layer in self.glyphs.guide_layers):
            layers = self.glyphs.guide_layers
            raise ConfigError(f"glyphs.guide_layers {layers}: the network has layers 0 to {n_layers - 1}")


@dataclass
class Progress:
    """What a run knows of itself; saved with the weights."""

    step: int = 0
    n_samples: int = 0
    elapsed_s: float = 0.0
    glyph_accuracy: float = 0.0
    ramp_start: int = -1

    def difficulty(self, data: DataConfig) -> float:
        """Return the difficulty of the next crops, 0..1."""
        if self.ramp_start < 0:
            return 0.0
        return min(1.0, (self.n_samples - self.ramp_start) / max(1, data.n_ramp_samples))


class _StepDataset(Dataset[StepData]):
    """Step s as item s, so that loader workers render ahead."""

    def __init__(self, trainer: Trainer, difficulty: Tensor) -> None:
        self.trainer, self.difficulty = trainer, difficulty

    def __getitem__(self, step: int) -> StepData:
        trainer = self.trainer
        seed = [trainer.config.run.seed, step, trainer.rank]
        return trainer.source.step(seed, trainer.config.run.n_samples, float(self.difficulty))


class Trainer:
    """One process of a training run."""

    def __init__(self, config: TrainConfig, rank: int = 0) -> None:
        self.config, self.rank = config, rank
        self.folder = Path(config.run.folder)
        self.tokenizer = build_tokenizer(CHARSET)
        self.eos_id = token_id(self.tokenizer, EOS_TOKEN)
        self.mask_id = token_id(self.tokenizer, MASK_TOKEN)
        self.prompts = PromptBuilder(self.tokenizer, IMAGE_SPEC)
        self.source = SyntheticSource(config.data, self.prompts, config.noise, self.eos_id)
        self.device = torch.device(config.run.device)
        self.model: OcrModel = new_network(config.run.seed, config.network).to(self.device)
        width = config.network.text.hidden_size
        self.heads = GlyphHeads(width, config.network.text.vocab_size, self.eos_id).to(self.device)
        self.optimizers = build_optimizers(self.model, self.heads, config.optimizer)
        self.parameters = [*self.model.parameters(), *self.heads.parameters()]
        self.progress = Progress()
        self._clock = time.monotonic()
        self._load_state()

    @property
    def share_done(self) -> float:
        """How much of the run is done, 0..1."""
        run = self.config.run
        if run.budget_s is not None:
            return min(1.0, self.progress.elapsed_s / run.budget_s)
        return min(1.0, self.progress.step / run.n_steps)

    def train(self) -> None:
        """Run to the end, saving and validating on the way."""
        run = self.config.run
        if self.rank == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "config.toml").write_text(dump_config(self.config), encoding="utf-8")
        difficulty = torch.zeros(()).share_memory_()
        difficulty.fill_(self.progress.difficulty(self.config.data))
        saved = validated = self.progress.elapsed_s
        self._clock = time.monotonic()
        for data in self._batches(difficulty):
            if self.share_done >= 1.0:
                break
            record = self._timed_step(data)
            difficulty.fill_(self.progress.difficulty(self.config.data))
            if self.rank != 0:
                continue
            if self.progress.step % run.log_every == 0:
                self.log(record)
            if self.progress.elapsed_s - saved > run.save_every_s:
                self.save_state()
                saved = self.progress.elapsed_s
            if self.progress.elapsed_s - validated > run.validate_every_s:
                self.log(self.validate())
                validated = self.progress.elapsed_s
        if self.rank == 0:
            self.save_state()
            self.log(self.validate())
            self.export(self.folder / "checkpoint")

    def _batches(self, difficulty: Tensor) -> Iterator[StepData]:
        dataset = _StepDataset(self, difficulty)
        workers = self.config.run.n_workers
        steps = range(self.progress.step, 10**9)
        if workers == 0:
            return (dataset[step] for step in steps)
        loader = DataLoader(
            dataset, sampler=steps, batch_size=None, num_workers=workers, prefetch_factor=4, persistent_workers=True
        )
        return iter(loader)

    def _timed_step(self, data: StepData) -> dict[str, Any]:
        set_rates(self.optimizers, rate_share(self.share_done, self.config.optimizer))
        record = self.step(data)
        now = time.monotonic()
        # Rendering counts, a pause of the process does not.
        spent = min(now - self._clock, MAX_STEP_S)
        self._clock = now
        elapsed = torch.tensor([spent, record["glyph_accuracy"]], dtype=torch.float64)
        if dist.is_initialized():
            # All processes must agree on time and accuracy, since both steer the schedule.
            dist.all_reduce(elapsed)
            elapsed /= dist.get_world_size()
        progress = self.progress
        progress.step += 1
        progress.n_samples += len(data.samples) * self.config.run.n_processes
        progress.elapsed_s += float(elapsed[0])
        progress.glyph_accuracy += 0.05 * (float(elapsed[1]) - progress.glyph_accuracy)
        if progress.ramp_start < 0 and progress.glyph_accuracy > self.config.data.ramp_from:
            progress.ramp_start = progress.n_samples
        return record

    def step(self, data: StepData) -> dict[str, Any]:
        """Run one optimiser step and return what to log."""
        vision_only = self.share_done < self.config.run.vision_only
        use_bf16 = torch.autocast(self.device.type, torch.bfloat16) if self.config.run.bf16 else nullcontext()
        with use_bf16:
            loss, record = self._vision_loss(data) if vision_only else self._joint_loss(data)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._average_gradients()
        record["gradient_norm"] = clip_gradients(self.parameters, self.config.optimizer.clip_norm)
        for optimizer in self.optimizers:
            optimizer.step()
        return {"loss": loss.item(), **record}

    def _glyph_loss(self, features: Tensor, data: StepData, order: tuple[int, ...]) -> tuple[Tensor, dict[str, Any]]:
        glyph, index, accuracy = self.heads(features, [data.truths[i] for i in order])
        weights = self.config.glyphs
        record = {"glyph": glyph.item(), "index": index.item(), "glyph_accuracy": accuracy}
        return weights.glyph_weight * glyph + weights.index_weight * index, record

    def _vision_loss(self, data: StepData) -> tuple[Tensor, dict[str, Any]]:
        _, features = self.model.encode_images([sample.prompt for sample in data.samples])
        return self._glyph_loss(features, data, tuple(range(len(data.samples))))

    def _joint_loss(self, data: StepData) -> tuple[Tensor, dict[str, Any]]:
        weights = self.config.glyphs
        batch = pack(data.samples, self.mask_id, self.config.run.row_budget_tokens).to(self.device)
        _, features = self.model.encode_images([data.samples[i].prompt for i in batch.order])
        guided = GuidedAttention(batch, data.truths, weights.guide_layers) if weights.guide_weight else None
        hidden = packed_hidden(self.model, batch, features, guided or masked_attention(batch.tags))
        joint = joint_loss(self.model, batch, hidden)
        loss = joint.mean(self.config.loss)
        glyph, record = self._glyph_loss(features, data, batch.order)
        loss = loss + glyph
        if guided:
            guide = guided.loss()
            loss = loss + weights.guide_weight * guide
            record["guide"] = guide.item()
        record["ar"] = joint.ar_sum.item() / max(joint.n_ar, 1)
        record["diffusion"] = joint.diffusion_sum.item() / max(joint.n_diffusion, 1)
        return loss, record

    def _average_gradients(self) -> None:
        if not dist.is_initialized():
            return
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        flat = torch.cat([g.flatten() for g in gradients])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for gradient, average in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(average.view_as(gradient))

    def log(self, record: dict[str, Any]) -> None:
        """Append one record to the run's JSONL log."""
        progress = self.progress
        head = {"step": progress.step, "samples": progress.n_samples, "elapsed_s": round(progress.elapsed_s, 1)}
        head["difficulty"] = round(progress.difficulty(self.config.data), 3)
        line = {**head, **{k: round(v, 5) if isinstance(v, float) else v for k, v in record.items()}}
        print(" ".join(f"{key}={value}" for key, value in line.items()), file=sys.stderr, flush=True)
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def validate(self) -> dict[str, Any]:
        """Read held-out crops with the present weights."""
        self.model.eval()
        config = self.config
        result = validate(self.model, self.prompts, config.data, config.validation, self.eos_id, self.mask_id)
        self.model.train()
        return result

    def export(self, path: Path) -> None:
        """Write the present weights as an ordinary checkpoint."""
        noise = self.config.noise
        diffusion = BlockDiffusion(
            self.config.run.export_block_size or noise.block_size,
            self.mask_id,
            self.config.loss.ar_weight,
            noise.mask_schedule,
            ("text",),
            PieceSpec(),
        )
        export_checkpoint(path, self.model, self.tokenizer, IMAGE_SPEC, diffusion, self.eos_id)

    def save_state(self) -> None:
        """Write the whole state, atomically."""
        state = {
            "model": self.model.state_dict(),
            "heads": self.heads.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "progress": vars(self.progress),
        }
        temporary = self.folder / "state.pt.part"
        torch.save(state, temporary)
        temporary.replace(self.folder / "state.pt")

    def _load_state(self) -> None:
        file = self.folder / "state.pt"
        if not file.exists():
            return
        try:
            self._take_state(torch.load(file, map_location=self.device, weights_only=True))
        except STATE_ERRORS as error:
            what = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise CheckpointError(
                f"{file} is not the state of this run ({what}); remove it, or choose another run.folder"
            ) from error

    def _take_state(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.heads.load_state_dict(state["heads"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            # The state is the run's, the settings are the config's, which may have changed since.
            kept = ("params", "lr")
            settings = [{k: v for k, v in group.items() if k not in kept} for group in optimizer.param_groups]
            optimizer.load_state_dict(saved)
            for group, own in zip(optimizer.param_groups, settings, strict=True):
                group.update(own)
        self.progress = Progress(**state["progress"])
