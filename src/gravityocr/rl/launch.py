"""A run of GRPO from a configuration: mine the prompts, build the trainer or take it up again, write the report."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing

from gravityocr import errors
from gravityocr.config import load_config
from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.rl.evaluation import Regions, check_tools, held_out
from gravityocr.rl.grpo import OLD_NAME, build_trainer, check_libraries
from gravityocr.rl.mining import mine, prompt_folder
from gravityocr.rl.prompts import prompt_files
from gravityocr.rl.report import write_report
from gravityocr.rl.rl_config import RlConfig
from gravityocr.rl.rollouts import EngineSampler, rollout_engine
from gravityocr.rl.run_folder import BEST_FOLDER, CONFIG_FILE, LAST_FOLDER, check_folder, last_state, marked_step
from gravityocr.rl.run_watch import RunWatch, best_step_of, callback_of
from gravityocr.rl.trials import TrialProgress
from gravityocr.rl.trl_arguments import PATIENCE_S
from gravityocr.training.draft_head import has_draft_head
from gravityocr.training.launch import free_port
from gravityocr.training.run_settings import differences
from gravityocr.training.state import lock_folder
from gravityocr.training.writable import check_writable


def changed_since(config: RlConfig) -> list[str]:
    """Return what differs from the settings that a run's folder holds."""
    file = Path(config.rl.folder) / CONFIG_FILE
    return differences(load_config(RlConfig, file), config) if file.is_file() else []


def tell(line: str) -> None:
    """Show a line that is no data."""
    print(line, file=sys.stderr, flush=True)


def run_grpo(
    config: RlConfig, on_progress: Callable[[TrialProgress], None] = lambda progress: None
) -> dict[str, Any] | None:
    """Run to the end, or go on where the run's folder stopped, and return its figures; None but in the first process.

    *Raises*: ConfigError and InputError for what is wrong with settings, pool or folder, before anything is sampled;
    KeyboardInterrupt where the run was told to stop, its state being saved.
    """
    rl = config.rl
    check_folder(config)
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
    _, step, _ = last_state(Path(rl.folder))
    if step >= rl.steps and marked_step(Path(rl.folder), LAST_FOLDER) == step:
        if is_first:
            tell(f"the run in {rl.folder} is finished, at step {step}; raise rl.steps to go on")
            for change in changed_since(config):
                tell(f"  not used: {change}")
        return figures_of(config) if is_first else None
    with turns:
        mine(config, on_progress, tell if is_first else lambda line: None)
    if launched or rl.n_processes == 1:
        return _run_process(config)
    with lock_folder(Path(rl.folder), "rl.folder"):
        _spawn(config)
    if marked_step(Path(rl.folder), LAST_FOLDER) != last_state(Path(rl.folder))[1]:
        raise KeyboardInterrupt  # what ends a run that is not interrupted is its export
    return figures_of(config)


def _spawn(config: RlConfig) -> None:
    """Run the processes of a run; what one of them finds wrong is told as if there were one alone."""
    told = multiprocessing.get_context("spawn").SimpleQueue()
    try:
        multiprocessing.spawn(_worker, (config, free_port(), told), nprocs=config.rl.n_processes)
    except (multiprocessing.ProcessRaisedException, multiprocessing.ProcessExitedException) as error:
        if not told.empty():  # the others only tell that a connection was closed
            name, message = told.get()
            raise getattr(errors, name, GravityOCRError)(message) from error
        last = str(error).strip().splitlines()[-1]
        raise GravityOCRError(f"a training process failed: {last}") from error


def _run_process(config: RlConfig) -> dict[str, Any] | None:
    """Run what one process does; alone it also holds the lock of the folder."""
    from accelerate import PartialState

    folder = Path(config.rl.folder)
    is_first = PartialState(cpu=config.rl.device == "cpu").is_main_process
    with lock_folder(folder, "rl.folder") if is_first else nullcontext():
        _train(config)
    return figures_of(config) if is_first else None


def _train(config: RlConfig) -> None:
    folder = Path(config.rl.folder)
    state, step, faults = last_state(folder)
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
    if watch.log is not None:
        for fault in faults:
            watch.log.tell(f"warning: {fault}; going on from step {step}")
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
        watch.export(LAST_FOLDER, trainer.state.global_step or step)
        if engine.checkpoint.draft_head is not None:
            how = "train one anew with gravityocr train CONFIG --draft-head DIR"
            watch.log.tell(f"the draft head of {config.rl.checkpoint} fits other weights and is left behind; {how}")
        watch.log.close()
    trainer.accelerator.wait_for_everyone()


def load_weights(trainer: Any, state: Path) -> None:
    """Give a trainer the weights of a saved state now, for what is read before the trainer itself takes them up."""
    from safetensors.torch import load_file

    weights = {name: value for file in state.glob("*.safetensors") for name, value in load_file(str(file)).items()}
    trainer.accelerator.unwrap_model(trainer.model).load_state_dict(weights)


def figures_of(config: RlConfig, *, plots: bool = True) -> dict[str, Any]:
    """Write the report of a run's folder and return its figures."""
    from importlib.util import find_spec

    folder = Path(config.rl.folder)
    best = folder / BEST_FOLDER if marked_step(folder, BEST_FOLDER) else None
    report = write_report(
        folder, best_step_of(folder, config), plots=plots and find_spec("matplotlib") is not None,
        draft_head_left=has_draft_head(config.rl.checkpoint),
    )  # fmt: skip
    return {
        "step": report["steps"]["last"], "best_step": report["steps"]["best"], "run": report["run"],
        "evaluations": [{name: one[name] for name in ("step", "quality", "tpf_fall")} for one in report["evaluations"]],
        "changes": _rounded(report["changes"]), "checkpoint": str(folder / LAST_FOLDER),
        "best": str(best) if best is not None else None, "report": str(folder / "report.md"),
    }  # fmt: skip


def _rounded(value: Any) -> Any:
    """Return figures with six digits, without those that are None."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items() if one is not None}
    if isinstance(value, (list, tuple)):
        return [_rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _worker(rank: int, config: RlConfig, port: int, told: Any) -> None:
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
        except GravityOCRError as error:
            told.put((type(error).__name__, str(error)))
            raise
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
