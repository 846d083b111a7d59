"""Joint training: rows in, checkpoint out; resumable to the same bits (with loader workers, but for the ramp's lag).

A step: (1) every process draws its samples, (2) the vision tower encodes all crops in one call, (3) the decoder runs
the packed rows under the dense mask, (4) losses are formed and gradients averaged over the processes, (5) the
optimisers step. Every process weighs the same, whatever its number of targets.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from gravityocr.config import dump_config
from gravityocr.errors import CheckpointError
from gravityocr.model.checkpoint import MASK_TOKEN, BlockDiffusion
from gravityocr.model.formula_pieces import FormulaPieceSpec
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.pieces import PieceSpec
from gravityocr.model.prompt import PromptBuilder, token_id
from gravityocr.model.table_pieces import TablePieceSpec
from gravityocr.training.export import export_checkpoint
from gravityocr.training.glyphs import GlyphHeads, GuidedAttention
from gravityocr.training.losses import JointLoss, joint_loss, masked_attention, packed_hidden
from gravityocr.training.nano import EOS_TOKEN, IMAGE_SPEC, MARKUP_TOKENS, build_tokenizer, new_network
from gravityocr.training.optimizer import build_optimizers, clip_gradients, rate_share, set_rates
from gravityocr.training.packing import pack
from gravityocr.training.run_config import Progress, TrainConfig
from gravityocr.training.sources import StepData, SyntheticSource
from gravityocr.training.synthetic.charset import CHARSET
from gravityocr.training.validation import validate
from gravityocr.training.warm_start import STATE_ERRORS, start_from
from gravityocr.training.weight_average import WeightAverage

MAX_STEP_S = 60.0


@dataclass(frozen=True)
class _PackLoss:
    """The losses of samples that were packed together, and their share of the step's samples."""

    joint: JointLoss
    auxiliary: Tensor
    share: float
    record: dict[str, Any]


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
        self.tokenizer = build_tokenizer(CHARSET, MARKUP_TOKENS)
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
        if config.run.start_from is not None and not (self.folder / "state.pt").exists():
            start_from(config.run.start_from, self.model, self.heads, self.tokenizer)
        # Weights are the same in all processes, so one of them keeps the mean.
        self.ema = WeightAverage(self.model, config.run.ema) if config.run.ema and rank == 0 else None
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
        if self.ema:
            self.ema.update(self.model)
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
        parts = [self._pack_loss(part) for part in self._parted(data)]
        joint = parts[0].joint
        for part in parts[1:]:
            joint = joint + part.joint
        loss = joint.mean(self.config.loss)
        record = {"ar": joint.ar_sum.item() / max(joint.n_ar, 1)}
        record["diffusion"] = joint.diffusion_sum.item() / max(joint.n_diffusion, 1)
        for name in parts[0].record:
            record[name] = sum(part.share * part.record[name] for part in parts)
        return loss + sum(part.share * part.auxiliary for part in parts), record

    def _parted(self, data: StepData) -> list[StepData]:
        """Part the samples into groups of similar length, which are packed apart."""
        sizes = [sample.n_tokens for sample in data.samples]
        groups: list[list[int]] = []
        for i in sorted(range(len(sizes)), key=sizes.__getitem__):
            if not groups or sizes[i] > self.config.run.size_ratio * sizes[groups[-1][0]]:
                groups.append([])
            groups[-1].append(i)
        return [
            StepData(tuple(data.samples[i] for i in group), tuple(data.truths[i] for i in group)) for group in groups
        ]

    def _pack_loss(self, data: StepData) -> _PackLoss:
        weights = self.config.glyphs
        longest = max(sample.n_tokens for sample in data.samples)
        budget = max(self.config.run.row_budget_tokens, longest)
        batch = pack(data.samples, self.mask_id, budget).to(self.device)
        _, features = self.model.encode_images([data.samples[i].prompt for i in batch.order])
        guided = GuidedAttention(batch, data.truths, weights.guide_layers) if weights.guide_weight else None
        hidden = packed_hidden(self.model, batch, features, guided or masked_attention(batch.tags))
        auxiliary, record = self._glyph_loss(features, data, batch.order)
        if guided:
            guide = guided.loss()
            auxiliary = auxiliary + weights.guide_weight * guide
            record["guide"] = guide.item()
        share = len(data.samples) / self.config.run.n_samples
        return _PackLoss(joint_loss(self.model, batch, hidden), auxiliary, share, record)

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
        with self._averaged():
            result = validate(self.model, self.prompts, config.data, config.validation, self.eos_id, self.mask_id)
        self.model.train()
        return result

    def _averaged(self) -> AbstractContextManager[None]:
        return self.ema.applied(self.model) if self.ema else nullcontext()

    def export(self, path: Path) -> None:
        """Write the present weights as an ordinary checkpoint."""
        noise = self.config.noise
        diffusion = BlockDiffusion(
            self.config.run.export_block_size or noise.block_size,
            self.mask_id,
            self.config.loss.ar_weight,
            noise.mask_schedule,
            self.config.run.tasks,
            PieceSpec(),
            FormulaPieceSpec() if "formula" in self.config.run.tasks else None,
            TablePieceSpec() if "table" in self.config.run.tasks else None,
        )
        with self._averaged():
            export_checkpoint(path, self.model, self.tokenizer, IMAGE_SPEC, diffusion, self.eos_id)

    def save_state(self) -> None:
        """Write the whole state, atomically."""
        state = {
            "model": self.model.state_dict(),
            "heads": self.heads.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "progress": vars(self.progress),
        }
        if self.ema:
            state["ema"] = self.ema.state_dict()
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
        if self.ema and "ema" in state:
            self.ema.load_state_dict(state["ema"])
        self.progress = Progress(**state["progress"])
