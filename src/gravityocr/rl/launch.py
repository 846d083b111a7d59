"""A run of GRPO from a configuration: mine the prompts, build the trainer or take it up again, write the report."""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing

from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.rl.evaluation import Regions, check_tools, held_out
from gravityocr.rl.grpo import OLD_NAME, build_trainer, check_libraries
from gravityocr.rl.prompts import mine_prompts, prompt_files
from gravityocr.rl.report import write_report
from gravityocr.rl.reward_settings import PAPER
from gravityocr.rl.rewards import reward_of
from gravityocr.rl.rl_config import RlConfig
from gravityocr.rl.rollouts import EngineSampler, rollout_engine
from gravityocr.rl.run_watch import BEST_FOLDER, LAST_FOLDER, RunWatch, best_step_of, callback_of, last_state
from gravityocr.rl.trials import TrialProgress
from gravityocr.rl.trl_arguments import PATIENCE_S, STATES_FOLDER
from gravityocr.training.launch import free_port
from gravityocr.training.state import lock_folder
from gravityocr.training.writable import check_writable

_CHUNK = 1 << 24


def prompt_folder(config: RlConfig) -> Path:
    """Return where a run's prompts lie."""
    return Path(config.prompts.folder or Path(config.rl.folder) / "prompts")


def mine(config: RlConfig, on_progress: Callable[[TrialProgress], None] = lambda progress: None) -> dict[str, Any]:
    """Mine the prompts of a run, or go on with that, and return the report.

    *Raises*: see `mine_prompts`.
    """
    engine = rollout_engine(config.rl.checkpoint, config.rl.device, config.rollouts)
    limit = config.prompts.max_tokens or config.grpo.max_tokens
    sampler = EngineSampler(engine, replace(config.grpo, max_tokens=limit, temperature=1.0, top_p=1.0))
    prompts = replace(config.prompts, max_tokens=limit)
    mark = weights_mark(engine.checkpoint.path)
    if config.rewards != PAPER:  # trials are scored with them
        mark += f" {config.rewards}"
    reward = partial(reward_of, settings=config.rewards)
    return mine_prompts(prompts, prompt_folder(config), sampler, mark, on_progress, reward)


def run_grpo(
    config: RlConfig, on_progress: Callable[[TrialProgress], None] = lambda progress: None
) -> dict[str, Any] | None:
    """Run to the end, or go on where the run's folder stopped, and return its figures; None but in the first process.

    *Raises*: ConfigError and InputError for what is wrong with settings, pool or folder, before anything is sampled;
    KeyboardInterrupt where the run was told to stop, its state being saved.
    """
    rl = config.rl
    check_libraries(config)
    check_tools(config.evaluation)
    held_out(config.evaluation, config.prompts.pool)
    check_writable(Path(rl.folder), f"rl.folder {rl.folder}")
    launched = dist.is_torchelastic_launched()
    is_first, turns = True, nullcontext()
    if launched:
        from accelerate import PartialState

        processes = PartialState(cpu=rl.device == "cpu", timeout=timedelta(seconds=PATIENCE_S))
        is_first, turns = processes.is_main_process, processes.main_process_first()
    step = last_state(Path(rl.folder) / STATES_FOLDER)[1]
    if step >= rl.steps and (Path(rl.folder) / LAST_FOLDER).is_dir():
        if is_first:
            print(f"the run in {rl.folder} is finished, at step {step}; raise rl.steps to go on", file=sys.stderr)
        return figures_of(config) if is_first else None
    with turns:
        mine(config, on_progress)
    if launched or rl.n_processes == 1:
        return _run_process(config)
    with lock_folder(Path(rl.folder)):
        try:
            multiprocessing.spawn(_worker, (config, free_port()), nprocs=rl.n_processes)
        except (multiprocessing.ProcessRaisedException, multiprocessing.ProcessExitedException) as error:
            last = str(error).strip().splitlines()[-1]
            raise GravityOCRError(f"a training process failed: {last}") from error
    if not (Path(rl.folder) / LAST_FOLDER).is_dir():  # what ends a run that is not interrupted
        raise KeyboardInterrupt
    return figures_of(config)


def _run_process(config: RlConfig) -> dict[str, Any] | None:
    """Run what one process does; alone it also holds the lock of the folder."""
    from accelerate import PartialState

    folder = Path(config.rl.folder)
    is_first = PartialState(cpu=config.rl.device == "cpu").is_main_process
    with lock_folder(folder) if is_first else nullcontext():
        _train(config)
    return figures_of(config) if is_first else None


def _train(config: RlConfig) -> None:
    folder = Path(config.rl.folder)
    state, step = last_state(folder / STATES_FOLDER)
    regions: Regions = held_out(config.evaluation, config.prompts.pool)
    engine = rollout_engine(config.rl.checkpoint, config.rl.device, config.rollouts)
    sampler = EngineSampler(engine, config.grpo)
    trainer = build_trainer(config, sampler, prompt_files(prompt_folder(config)))
    world = trainer.accelerator.num_processes
    if world != config.rl.n_processes:
        raise ConfigError(f"rl.n_processes is {config.rl.n_processes}, but {world} were started; set it to that")
    watch = RunWatch(config, sampler, regions)
    trainer.add_callback(callback_of(watch))
    if state is not None:
        load_weights(trainer, state)
    is_over = watch.begin(trainer, step)
    with watch.stop, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=OLD_NAME)
        if step < config.rl.steps and not is_over:
            trainer.train(resume_from_checkpoint=str(state) if state is not None else None)
    if watch.is_stopped:
        if watch.log is not None:
            step = trainer.state.global_step
            watch.log.tell(f"stopped at step {step}, whose state is saved; the same command goes on from there")
        watch.stop.obey()
        raise KeyboardInterrupt  # another process was told to stop
    if watch.log is not None:
        watch.export(LAST_FOLDER)
        watch.log.close()
    trainer.accelerator.wait_for_everyone()


def load_weights(trainer: Any, state: Path) -> None:
    """Give a trainer the weights of a saved state now, for what is read before the trainer itself takes them up."""
    from safetensors.torch import load_file

    trainer.accelerator.unwrap_model(trainer.model).load_state_dict(load_file(str(state / "model.safetensors")))


def figures_of(config: RlConfig, *, plots: bool = True) -> dict[str, Any]:
    """Write the report of a run's folder and return its figures."""
    from importlib.util import find_spec

    folder = Path(config.rl.folder)
    best = folder / BEST_FOLDER
    report = write_report(folder, best_step_of(folder, config), plots=plots and find_spec("matplotlib") is not None)
    return {
        "step": report["steps"]["last"], "best_step": report["steps"]["best"], "run": report["run"],
        "evaluations": [{name: one[name] for name in ("step", "quality", "tpf_fall")} for one in report["evaluations"]],
        "changes": report["changes"], "checkpoint": str(folder / LAST_FOLDER),
        "best": str(best) if report["steps"]["best"] and best.is_dir() else None, "report": str(folder / "report.md"),
    }  # fmt: skip


def weights_mark(path: Path) -> str:
    """Return a few characters that stand for the weights of a checkpoint's folder."""
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(path.glob("*.safetensors")):
        with file.open("rb") as handle:
            while chunk := handle.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def _worker(rank: int, config: RlConfig, port: int) -> None:
    from accelerate.utils import patch_environment

    torch.set_num_threads(1)
    n_processes = config.rl.n_processes
    # What torchrun would tell a process of itself.
    with patch_environment(
        rank=rank, local_rank=rank, world_size=n_processes, local_world_size=n_processes, master_addr="127.0.0.1",
        master_port=port,
    ):  # fmt: skip
        try:
            _train(config)
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
