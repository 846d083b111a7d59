"""Joint training: rows in, checkpoint out; resumable to the same bits (with loader workers, but for the ramp's lag).

A step: (1) every process takes its rows, (2) all processes count the targets of the step, (3) row by row, the vision
tower encodes all crops in one call and the decoder runs the packed row, (4) the losses, scaled by the counts of the
whole step, add up their gradients, (5) the optimisers step. So the loss of a step is a mean over its targets, however
many rows and processes they are spread over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from gravityocr.config import dump_config
from gravityocr.errors import CheckpointError, ConfigError
from gravityocr.training.card import write_card
from gravityocr.training.cost import batch_stats, model_flops, peak_flops
from gravityocr.training.joint import JointModule, RowData, SkippedSample, checkpoint_activations
from gravityocr.training.losses import TargetScale, target_scale
from gravityocr.training.optimizer import build_optimizers, freeze, rate_share, set_rates
from gravityocr.training.parallel import Parallel
from gravityocr.training.run_config import Progress, TrainConfig
from gravityocr.training.run_log import RunLog, note_skipped, read_records, unnamed
from gravityocr.training.run_settings import changed_settings
from gravityocr.training.setup import NetworkSetup, build_source, filler_row, new_setup
from gravityocr.training.sources import Done, RowSource
from gravityocr.training.state import load_state, lock_folder, save_state
from gravityocr.training.stopping import StopRequest
from gravityocr.training.validation import validate
from gravityocr.training.warm_start import start_from
from gravityocr.training.weight_average import WeightAverage

MAX_STEP_S = 60.0
PARTS = ("loss", "ar", "diffusion", "glyph", "index", "glyph_accuracy", "guide")
"""What a row's forward may return."""
MAX_LOST_STEPS = 20
"""Steps in a row without a gradient that is finite, after which a run gives up."""


class _StepDataset(Dataset[tuple[RowData, ...]]):
    """The rows of a ticket as its item, so that loader workers decode ahead."""

    def __init__(self, source: RowSource) -> None:
        self.source = source

    def __getitem__(self, ticket: Any) -> tuple[RowData, ...]:
        return self.source.rows(ticket)


class Trainer:
    """One process of a training run."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        run = config.train
        self.folder = Path(run.folder)
        self.parallel = Parallel(run)
        if self.parallel.world != run.n_processes:
            n_started = self.parallel.world
            raise ConfigError(f"train.n_processes is {run.n_processes}, but {n_started} were started; set it to that")
        self.setup: NetworkSetup = new_setup(config)
        self.model = self.setup.model.to(self.parallel.device)
        freeze(self.model, run.freeze)
        if run.activation_checkpointing:
            checkpoint_activations(self.model)
        heads = self.setup.heads.to(self.parallel.device) if self.setup.heads is not None else None
        if run.start_from is not None and not (self.folder / "state.pt").exists():
            start_from(run.start_from, self.model, heads, self.setup.tokenizer)
        self.module = JointModule(
            self.model, heads, config.glyphs, self.setup.mask_id, run.attention_kind, run.bf16
        ).train()
        self.optimizers = build_optimizers(self.model, heads, config.optimizer)
        self.progress = Progress()
        # Weights are the same in all processes, so one of them keeps the mean.
        self.ema = WeightAverage(self.model, run.ema) if run.ema and self.parallel.rank == 0 else None
        self.parallel.prepare(self.module, self.optimizers, config.optimizer.clip_norm)
        load_state(self)
        self.source = build_source(config, self.setup, self.parallel)
        self.log = RunLog(self.folder, run.tensorboard) if self.parallel.rank == 0 else None
        on_gpu = self.parallel.device.type == "cuda"
        self._peak_flops = peak_flops(torch.cuda.get_device_name(self.parallel.device)) if on_gpu else None
        self._clock = time.monotonic()
        self._n_lost = 0
        self._stop = StopRequest()
        self._is_stopped = False

    @property
    def share_done(self) -> float:
        """How much of the run is done, 0..1."""
        run = self.config.train
        if run.budget_s is not None:
            return min(1.0, self.progress.elapsed_s / run.budget_s)
        return min(1.0, self.progress.step / run.steps)

    def train(self) -> dict[str, Any]:
        """Run to the end, saving and validating on the way; return the last figures.

        A run that SIGINT or SIGTERM stops saves its state first. One that is finished is left as it is.
        """
        if self.share_done >= 1.0 and (self.folder / "checkpoint").is_dir():
            if self.log:
                what = f"the run is finished, at step {self.progress.step}: nothing is trained"
                self.log.tell(f"{what}; raise train.steps or train.budget_s to go on, or choose another train.folder")
            return (read_records(self.folder) or [{}])[-1]
        with lock_folder(self.folder) if self.log else nullcontext():
            return self._train()

    def _train(self) -> dict[str, Any]:
        self._begin()
        began, tokens_first = self.progress.elapsed_s, self.progress.n_tokens
        with StopRequest() as self._stop:
            record = self._run()
        if self._is_stopped:
            self._stop.obey()
            raise KeyboardInterrupt  # another process was told to stop
        figures = self.validate()
        self.write(figures)
        whole = self.parallel.whole(self.model)
        if self.log:
            self.setup.export(self.folder / "checkpoint", whole, self.config, self._averaged())
            write_card(self.folder / "checkpoint", self.folder)
            self.log.close()
        self.parallel.wait()
        rate = (self.progress.n_tokens - tokens_first) / max(1e-9, self.progress.elapsed_s - began)
        return {**record, **figures, "tokens_per_s": round(rate, 1)}

    def _begin(self) -> None:
        progress = self.progress
        if self.log:
            self.log.begin(progress.step, changed_settings(self.config))
            if self.setup.warning is not None:
                self.log.tell(f"warning: {self.setup.warning}")
            note_skipped(self.folder, 0, unnamed(self.folder, self.setup.skipped))
            (self.folder / "config.toml").write_text(dump_config(self.config), encoding="utf-8")
        self.source.set_difficulty(progress.difficulty(self.config.data))

    def _run(self) -> dict[str, Any]:
        run, progress = self.config.train, self.progress
        saved = validated = progress.elapsed_s
        began, n_first = progress.elapsed_s, progress.step
        record: dict[str, Any] = {}
        self._clock = time.monotonic()
        for rows in self._steps():
            if self.share_done >= 1.0:
                break
            record = self._timed_step(rows)
            self.source.set_difficulty(progress.difficulty(self.config.data))
            if progress.step % run.log_every == 0 or self.share_done >= 1.0 or self._is_stopped:
                self.write(record, self._eta_s(began, n_first))
            if self._is_stopped:
                break
            if progress.elapsed_s - saved > run.save_every_s:
                save_state(self)
                saved = progress.elapsed_s
            if self._validation_is_due(progress.elapsed_s - validated) and self.share_done < 1.0:
                self.write(self.validate())
                validated = progress.elapsed_s
            self._clock = time.monotonic()
        save_state(self)
        if self._is_stopped and self.log:
            self.log.tell(f"stopped at step {progress.step}, whose state is saved; the same command goes on from there")
        return record

    def _validation_is_due(self, since_s: float) -> bool:
        run = self.config.train
        by_time = run.validate_every_s is not None and since_s > run.validate_every_s
        return by_time or (run.validate_every is not None and self.progress.step % run.validate_every == 0)

    def _eta_s(self, began_s: float, first_step: int) -> float | None:
        run, progress = self.config.train, self.progress
        if run.budget_s is not None:
            return max(0.0, run.budget_s - progress.elapsed_s)
        per_step = (progress.elapsed_s - began_s) / max(1, progress.step - first_step)
        return per_step * (run.steps - progress.step)

    def _steps(self) -> Iterator[tuple[RowData, ...]]:
        run, parallel = self.config.train, self.parallel
        done = Done(self.progress.step, self.progress.n_rows)
        tickets = self.source.tickets(done, parallel.rank, parallel.world, run.accumulation)
        dataset = _StepDataset(self.source)
        if run.n_workers == 0:
            return (dataset[ticket] for ticket in tickets)
        loader = DataLoader(
            dataset, sampler=tickets, batch_size=None, num_workers=run.n_workers, prefetch_factor=4,
            persistent_workers=True,
        )  # fmt: skip
        return iter(loader)

    def _timed_step(self, rows: Sequence[RowData]) -> dict[str, Any]:
        share = rate_share(self.share_done, self.config.optimizer)
        set_rates(self.parallel.optimizers, share)
        record = {**self.step(rows), "lr": share * self.config.optimizer.lr_decoder}
        now = time.monotonic()
        # Rendering counts, a pause of the process does not.
        spent = min(now - self._clock, MAX_STEP_S)
        self._clock = now
        # All processes must agree on the time, since it steers the schedule, and on when to stop.
        total, n_stopped = self.parallel.sum([spent, float(self._stop.signum is not None)])
        spent, self._is_stopped = total / self.parallel.world, n_stopped > 0
        progress = self.progress
        progress.step += 1
        progress.n_rows += len(rows) * self.parallel.world
        progress.elapsed_s += spent
        progress.n_samples += record["n_samples"]
        progress.n_tokens += record["n_tokens"]
        progress.n_skipped += record["n_skipped"]
        if "glyph_accuracy" in record:
            progress.glyph_accuracy += 0.05 * (record["glyph_accuracy"] - progress.glyph_accuracy)
        if progress.ramp_start < 0 and progress.glyph_accuracy > self.config.data.ramp_from:
            progress.ramp_start = progress.n_samples
        if self.config.data.pool is not None:
            room = len(rows) * self.parallel.world * self.config.packing.row_tokens
            record["waste"] = 1.0 - record["n_tokens"] / room
        if self._peak_flops is not None:
            flops = [model_flops(self.model.config, batch_stats(row.samples), self.config.train.freeze) for row in rows]
            peak = self._peak_flops * self.parallel.world * max(spent, 1e-9)
            record["mfu"] = self.parallel.sum([sum(flops)])[0] / peak
        return {**record, "tokens_per_s": round(record["n_tokens"] / max(spent, 1e-9), 1)}

    def step(self, rows: Sequence[RowData]) -> dict[str, Any]:
        """Run one optimiser step and return what to log."""
        parallel = self.parallel
        targets = [_counts(row) for row in rows]
        n_ar, n_diffusion, n_samples, n_tokens = (
            int(value) for value in parallel.sum([sum(column) for column in zip(*targets, strict=True)])
        )
        scale = target_scale(n_ar, n_diffusion, self.config.loss)
        totals: dict[str, float] = {}
        skipped: list[SkippedSample] = []
        for row in rows:
            with parallel.accumulate():
                result, row = self._forward(row, scale)
                parallel.backward(result["loss"])
            skipped += row.skipped
            for name, value in result.items():
                totals[name] = totals.get(name, 0.0) + float(value.detach())
        gradient_norm = parallel.step(self.config.optimizer.clip_norm)
        self._count_lost(gradient_norm)
        if self.ema:
            self.ema.update(self.model)
        n_skipped = self._tell_skipped(skipped)
        # All parts in every process: one whose rows have lost all their samples has no part but the loss.
        known = [*(totals.get(name, 0.0) for name in PARTS), *(float(name in totals) for name in PARTS)]
        values = parallel.sum(known)
        sums = {name: values[i] for i, name in enumerate(PARTS) if values[len(PARTS) + i]}
        n_rows = len(rows) * parallel.world
        record = {"loss": sums.pop("loss")}
        for name, count in (("ar", n_ar), ("diffusion", n_diffusion)):
            if name in sums:
                record[name] = sums.pop(name) / max(count, 1)
        record |= {name: value / n_rows for name, value in sums.items()}
        return {**record, "gradient_norm": gradient_norm, "n_samples": n_samples, "n_tokens": n_tokens,
                "n_skipped": n_skipped}  # fmt: skip

    def _forward(self, row: RowData, scale: TargetScale) -> tuple[dict[str, torch.Tensor], RowData]:
        """Return the loss of a row; samples without a finite one are taken out of it."""
        result = self._pass(self.parallel.module, row, scale)
        finite = bool(result["loss"].isfinite())
        if self.parallel.sharded:
            # Every pass of one process is one of all, so none looks at its samples one by one: the row is left out.
            if not self.parallel.any(not finite):
                return result, row
            if not finite:
                row = row.without([SkippedSample(one.name, "the loss of its row is not finite") for one in row.samples])
            return self._pass(self.parallel.module, row, scale), row
        if finite:
            return result, row
        with torch.no_grad():
            alone = [replace(row, samples=(one,), truths=row.truths[i : i + 1]) for i, one in enumerate(row.samples)]
            losses = [self._pass(self.module, one, scale)["loss"] for one in alone]
        bad = [sample for sample, loss in zip(row.samples, losses, strict=True) if not loss.isfinite()]
        # A row of one sample cannot tell a bad sample from bad weights, so these are looked at.
        broken = not bad or len(bad) == len(row.samples) > 1
        if broken or not all(bool(weight.isfinite().all()) for weight in self.module.parameters()):
            raise CheckpointError(
                f"step {self.progress.step}: no sample has a finite loss, so the weights are broken; go on from an "
                f"earlier state of {self.folder}, with a lower learning rate"
            )
        row = row.without([SkippedSample(sample.name, "its loss is not finite") for sample in bad])
        return self._pass(self.parallel.module, row, scale), row

    def _pass(self, module: nn.Module, row: RowData, scale: TargetScale) -> dict[str, torch.Tensor]:
        if not row.samples and self.parallel.sharded:
            # Weights are gathered and gradients summed layer by layer, so every process goes through all of them.
            filler = filler_row(self.setup, self.config.noise)
            return {"loss": module(filler, TargetScale(0.0, 0.0), 0.0, False)["loss"]}
        auxiliary_scale = 1.0 / (self.config.train.accumulation * self.parallel.world)
        vision_only = self.share_done < self.config.train.vision_only
        result: dict[str, torch.Tensor] = module(row, scale, auxiliary_scale, vision_only)
        return result

    def _count_lost(self, gradient_norm: float) -> None:
        # A norm of exactly 0 is that of a step whose samples are all left out.
        counts = 0.0 < gradient_norm < float("inf")
        self._n_lost = 0 if counts else self._n_lost + 1
        if self._n_lost >= MAX_LOST_STEPS:
            raise CheckpointError(
                f"step {self.progress.step}: {MAX_LOST_STEPS} steps in a row had no gradient, or no finite one; "
                f"go on from the last state of {self.folder} with a lower learning rate"
            )

    def _tell_skipped(self, skipped: Sequence[SkippedSample]) -> int:
        note_skipped(self.folder, self.progress.step + 1, skipped)
        return int(self.parallel.sum([len(skipped)])[0])

    def write(self, record: dict[str, Any], eta_s: float | None = None) -> None:
        """Append one record to the run's log."""
        progress = self.progress
        if self.log:
            head = {"step": progress.step, "samples": progress.n_samples, "elapsed_s": round(progress.elapsed_s, 1)}
            if self.config.data.pool is None:
                head["difficulty"] = round(progress.difficulty(self.config.data), 3)
            self.log.write(head, record, eta_s)

    def validate(self) -> dict[str, Any]:
        """Read held-out crops with the present weights."""
        model = self.parallel.whole(self.model)
        if self.parallel.rank != 0:
            self.parallel.wait()
            return {}
        model.eval()
        config, setup = self.config, self.setup
        with self._averaged():
            result = validate(model, setup.prompts, config.data, config.reading, setup.stop_ids, setup.mask_id)
        model.train()
        self.parallel.wait()
        return result

    def _averaged(self) -> AbstractContextManager[None]:
        return self.ema.applied(self.model) if self.ema else nullcontext()


def _counts(row: RowData) -> tuple[int, int, int, int]:
    """Return the AR targets, diffusion targets, samples and forward tokens of a row."""
    return (
        sum(sample.n_supervised for sample in row.samples),
        sum(int(masked.sum()) for sample in row.samples for masked in sample.corruption.masked),
        len(row.samples),
        sum(sample.n_tokens for sample in row.samples),
    )
