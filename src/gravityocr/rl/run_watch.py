"""What happens beside the updates of a run: evaluations, the choice of the best weights, the log, and stopping."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from gravityocr.config import dump_config, load_config
from gravityocr.document import Crop
from gravityocr.errors import ConfigError, GravityOCRError, InputError
from gravityocr.rl.evaluation import Regions, evaluate, tpf_alarm
from gravityocr.rl.evaluation_records import (
    FOLDER,
    Summary,
    best_step,
    read_records,
    record_file,
    record_steps,
    summarize,
    write_records,
)
from gravityocr.rl.grpo import log_prob_gap
from gravityocr.rl.rl_config import RlConfig
from gravityocr.rl.rollouts import EngineSampler
from gravityocr.rl.run_folder import BEST_FOLDER, CONFIG_FILE, drop, mark, marked_step
from gravityocr.rl.seeds import seed_of
from gravityocr.training.export import export_adapted
from gravityocr.training.run_log import RunLog
from gravityocr.training.run_settings import differences
from gravityocr.training.stopping import StopRequest

_LOGGED = {
    "reward": "reward", "reward_std": "reward_std", "rewards/text_reward/mean": "text_reward",
    "rewards/table_reward/mean": "table_reward", "rewards/formula_reward/mean": "formula_reward",
    "frac_reward_zero_std": "zero_std_share", "kl": "kl", "entropy": "entropy", "loss": "loss",
    "grad_norm": "gradient_norm", "learning_rate": "lr", "completions/mean_length": "completion_tokens",
    "completions/clipped_ratio": "truncated_share", "clip_ratio/region_mean": "clipped_share", "step_time": "seconds",
    "sampling/sampling_logp_difference/mean": "gap_mean", "sampling/importance_sampling_ratio/mean": "importance_mean",
}  # fmt: skip


class RunWatch:
    """Watches one process of a run; files are the first one's."""

    def __init__(self, config: RlConfig, sampler: EngineSampler, regions: Regions) -> None:
        self.config = config
        self.folder = Path(config.rl.folder)
        self.sampler = sampler
        self.regions = regions
        self.stop = StopRequest()
        self.is_stopped = False
        self.trainer: Any = None
        self.log: RunLog | None = None
        self._summaries: dict[int, Summary] = {}

    def begin(self, trainer: Any, step: int) -> bool:
        """Take up a run at a step: its log, its settings, its evaluations; compare engine and trainer.

        Returns whether it has to stop at once, as it did before: TPF had fallen too far.
        """
        self.trainer = trainer
        if trainer.accelerator.is_main_process:
            file = self.folder / CONFIG_FILE
            before = load_config(RlConfig, file) if step and file.is_file() else None
            if before is not None:
                check_same_evaluation(before, self.config)
            self.log = RunLog(self.folder, tensorboard=False)
            self.log.begin(step, differences(before, self.config) if before is not None else [])
            file.write_text(dump_config(self.config), encoding="utf-8")
            self._take_up_evaluations(step)
            self._compare_with_engine(step)
        return self._any(self._stops(self.evaluate_if_due(step)))

    def logged(self, step: int, logs: Mapping[str, Any]) -> None:
        """Write what the trainer tells of a step."""
        record = {
            name: number
            for key, name in _LOGGED.items()
            if (number := _number(logs.get(key))) is not None
        }  # fmt: skip
        if self.log is not None and "reward" in record:
            seconds, left = record.get("seconds"), self.config.rl.steps - step
            self.log.write({"step": step}, record, seconds * left if seconds is not None else None)

    def step_is_over(self, step: int) -> bool:
        """Evaluate where it is due; tell whether the run has to stop now."""
        asked = self._any(self.stop.signum is not None)
        # A state cannot hold rollouts that were used once and are to be used again.
        self.is_stopped = asked and step % self.config.grpo.n_iterations == 0
        alarm = None if self.is_stopped else self.evaluate_if_due(step)
        return self.is_stopped or self._any(self._stops(alarm))

    def evaluate_if_due(self, step: int) -> str | None:
        """Read the held-out regions where it is due, and keep the weights if they are the best; return an alarm."""
        evaluation = self.config.evaluation
        if step % evaluation.every and step != self.config.rl.steps:
            return None
        alarm = None
        if self.log is not None:
            if step not in self._summaries:
                self._evaluate(step)
            alarm = self._alarm(step)
        self.trainer.accelerator.wait_for_everyone()
        return alarm

    def export(self, name: str, step: int) -> None:
        """Write the weights of now, which are those of a step, as a checkpoint below the run's folder."""
        checkpoint = self.sampler.engine.checkpoint
        self._take_rounded()
        drop(self.folder, name)
        export_adapted(self.folder / name, checkpoint, checkpoint.model, checkpoint.diffusion, torch.bfloat16)
        mark(self.folder, name, step)

    def _alarm(self, step: int) -> str | None:
        return tpf_alarm(self.config.evaluation, self._summaries[min(self._summaries)], self._summaries[step])

    def _stops(self, alarm: str | None) -> bool:
        return alarm is not None and self.config.evaluation.on_tpf_fall == "stop"

    def _evaluate(self, step: int) -> None:
        assert self.log is not None
        self._take_rounded()
        found = evaluate(self.sampler.engine, self.regions, self.config.evaluation, self.config.rewards)
        write_records(record_file(self.folder, step), found.records)
        self._summaries[step] = found.summary
        alarm = self._alarm(step)
        record = {"eval": found.summary, "quality": found.summary["quality"], "eval_seconds": round(found.seconds, 1)}
        for kind, one in found.summary["kinds"].items():
            record |= {f"val_{kind}_reward": one["reward"]} if "reward" in one else {}
        record |= {"val_tpf": found.summary["all"].get("tpf", 0.0)}
        self.log.write({"step": step}, {**record, **({"alarm": alarm} if alarm else {})})
        if step and best_held_step(self._summaries, self.config) == step:
            self.export(BEST_FOLDER, step)

    def _take_rounded(self) -> None:
        """Let the engine read with the weights as a checkpoint would hold them."""
        weights = self.trainer.accelerator.unwrap_model(self.trainer.model).state_dict()
        self.sampler.take({name: value.to(torch.bfloat16) for name, value in weights.items()})

    def _take_up_evaluations(self, step: int) -> None:
        """Read the evaluations up to a step, and drop those of steps that were lost.

        *Raises*: InputError where that of the start is missing, with which the others are compared.
        """
        assert self.log is not None
        best = marked_step(self.folder, BEST_FOLDER)
        if best is None or best > step or step == 0:
            drop(self.folder, BEST_FOLDER)
        if step == 0:
            shutil.rmtree(self.folder / FOLDER, ignore_errors=True)
            return
        if not record_file(self.folder, 0).is_file():
            what = f"{record_file(self.folder, 0)} is missing, with which the run is compared"
            raise InputError(f"{what}; put it back, or choose another rl.folder")
        for known in record_steps(self.folder):
            if known > step:
                record_file(self.folder, known).unlink()
            else:
                self._summaries[known] = summarize(read_records(record_file(self.folder, known)))

    def _compare_with_engine(self, step: int) -> None:
        """Log how far the engine's log-probabilities are from the trainer's."""
        n = self.config.rollouts.n_compared
        regions = [one for members in self.regions.values() for one in members[: n // len(self.regions) + 1]][:n]
        if not regions or self.config.grpo.temperature != 1.0:
            return
        assert self.log is not None
        self.sampler.take(self.trainer.accelerator.unwrap_model(self.trainer.model).state_dict())
        crops, rollouts = [], []
        for region in regions:
            seed = seed_of(self.config.rl.seed, "compare", region.region_id)
            try:
                crop = Crop(region.picture(), region.task)
                ((rollout,),) = self.sampler.rollouts([crop], [(seed,)])
            except GravityOCRError as error:
                self.log.tell(f"not compared: region {region.region_id}: {error}")
                continue
            crops.append(crop)
            rollouts.append(rollout)
        if crops:
            gap = log_prob_gap(self.trainer, crops, rollouts)
            self.log.write({"step": step}, {"compared": "engine with trainer", **gap})

    def _any(self, mine: bool) -> bool:
        """Tell whether any process says so."""
        accelerator = self.trainer.accelerator
        if accelerator.num_processes == 1:
            return mine
        flag = torch.tensor([int(mine)], device=accelerator.device)
        return bool(accelerator.gather(flag).any())


def best_held_step(summaries: Mapping[int, Summary], config: RlConfig) -> int:
    """Return the best step (see `best_step`) of those whose TPF held."""
    first = summaries[min(summaries)]
    held = {step: one for step, one in summaries.items() if tpf_alarm(config.evaluation, first, one) is None}
    return best_step({step: one["quality"] for step, one in held.items()})


def best_step_of(folder: Path, config: RlConfig) -> int:
    """Return the step of the best weights of a run's folder.

    *Raises*: InputError where its evaluations are missing or broken.
    """
    steps = record_steps(folder)
    return best_held_step({step: summarize(read_records(record_file(folder, step))) for step in steps}, config)


_TELLING = (
    "n_crops", "pool", "whole_crops", "n_whole_crops", "cdm", "block_size", "draft_head", "max_tokens", "seed"
)  # fmt: skip


def check_same_evaluation(before: RlConfig, now: RlConfig) -> None:
    """Refuse an evaluation that cannot be compared with those of the run so far.

    *Raises*: ConfigError naming what differs.
    """
    changed = [name for name in _TELLING if getattr(before.evaluation, name) != getattr(now.evaluation, name)]
    if before.evaluation.pool is None and before.prompts.pool != now.prompts.pool:
        changed.append("pool")
    if changed:
        names = ", ".join(f"evaluation.{name}" for name in changed)
        what = f"{names} changed since this run began, so that its evaluations could not be compared"
        raise ConfigError(f"{what}; set it back, or choose another rl.folder")


def _number(value: Any) -> float | None:
    """Return a logged value as a finite number, where it is one."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < float("inf") else None


def callback_of(watch: RunWatch) -> Any:
    """Return a watch as the trainer's callback."""
    from transformers import TrainerCallback

    class WatchCallback(TrainerCallback):
        """Passes on what the trainer tells."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Evaluate, and stop with a saved state where that is asked for."""
            if watch.step_is_over(state.global_step):
                control.should_save = control.should_training_stop = True

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            """Write the figures of a step."""
            watch.logged(state.global_step, logs or {})

    return WatchCallback()


