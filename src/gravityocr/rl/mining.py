"""The prompt pool of a run, mined with the checkpoint that the run begins with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gravityocr.engine.engine import Engine
from gravityocr.rl.prompts import mine_prompts, prompt_files
from gravityocr.rl.reward_settings import PAPER
from gravityocr.rl.rewards import reward_of
from gravityocr.rl.rl_config import RlConfig
from gravityocr.rl.rollouts import EngineSampler, rollout_engine
from gravityocr.rl.trials import TrialProgress
from gravityocr.training.corpora.region_shards import RegionFile
from gravityocr.training.piece_sizes import oversized_regions, oversized_warning

POOR_REWARD = 0.25
_CHUNK = 1 << 24


def prompt_folder(config: RlConfig) -> Path:
    """Return where a run's prompts lie."""
    return Path(config.prompts.folder or Path(config.rl.folder) / "prompts")


def mine(
    config: RlConfig,
    on_progress: Callable[[TrialProgress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Mine the prompts of a run, or go on with that, and return the report; `say` is told what became of it.

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
    folder = prompt_folder(config)
    try:
        report = mine_prompts(prompts, folder, sampler, mark, on_progress, reward)
    except KeyboardInterrupt:
        say(f"stopped; the trials so far are in {folder}, and the same command goes on from there")
        raise
    for line in mining_lines(report, prompt_files(folder), engine, config.prompts.n_prompts):
        say(line)
    return report


def mining_lines(report: Mapping[str, Any], files: list[Path], engine: Engine, n_wanted: int) -> list[str]:
    """Return what to tell of mined prompts: how many there are, what became of the others, and what looks wrong."""
    fates = {fate: counts["all"] for fate, counts in report["fates"].items() if counts["all"] and fate != "chosen"}
    told = ", ".join(f"{n} {fate.replace('_', ' ')}" for fate, n in fates.items())
    n_prompts = report["n_prompts"]
    lines = [f"prompts: {n_prompts}" + (f" of {n_wanted} wanted" if n_prompts < n_wanted else "") + f" ({told})"]
    for task, found in report["mean_reward"]["tried"].items():
        if task != "all" and found.get("mean", 1.0) < POOR_REWARD:
            what = f"warning: trial rollouts of {task} prompts earn {found['mean']:.2f} on average"
            lines.append(f"{what}; do their targets have the form that the checkpoint writes? see docs/rl.md")
    warning = oversized_warning(oversized_regions(map(RegionFile, files), engine.checkpoint.diffusion))
    return [*lines, f"warning: {warning}"] if warning else lines


def weights_mark(path: Path) -> str:
    """Return a few characters that stand for the weights of a checkpoint's folder."""
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(path.glob("*.safetensors")):
        with file.open("rb") as handle:
            while chunk := handle.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()
