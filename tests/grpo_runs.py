"""Small runs of GRPO on the embedded checkpoint, with prompts from the regions that the package ships."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from gravityocr.config import load_config
from gravityocr.model.weights import weight_names
from gravityocr.rl.rl_config import RlConfig
from gravityocr.rl.rollouts import EngineSampler, rollout_engine

SMALL = (
    "rl.checkpoint=nano", "rl.steps=2", "rl.micro_batch=2", "rl.bf16=false", "grpo.prompts_per_step=2",
    "grpo.n_rollouts=2", "grpo.max_tokens=40", "optimizer.kind=adamw", "optimizer.lr=1e-4", "rollouts.n_compared=3",
    "prompts.max_candidates=8", "prompts.n_trials=3", "prompts.n_prompts=4", "prompts.table_share=0.5",
    "prompts.text_share=0.0", "prompts.formula_share=0.5", "evaluation.n_crops=1", "evaluation.every=100",
    "evaluation.max_tokens=40",
)  # fmt: skip
"""Four prompts, of which a step takes two: a run of more than two steps comes to them again."""


def small_run(folder: Path | str, *overrides: str) -> RlConfig:
    """Give a run in fp32 of two steps of two prompts."""
    return load_config(RlConfig, None, [*SMALL, f"rl.folder={folder}", *overrides])


def sampler_of(config: RlConfig) -> EngineSampler:
    """Give the sampler of a run."""
    return EngineSampler(rollout_engine(config.rl.checkpoint, config.rl.device, config.rollouts), config.grpo)


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Read the lines of a run's log."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def steps_of(folder: Path) -> list[dict[str, Any]]:
    """Give the lines of the steps, without what a clock decides."""
    return [{k: v for k, v in line.items() if k != "seconds"} for line in read_log(folder) if "loss" in line]


def evaluations_of(folder: Path) -> list[dict[str, Any]]:
    """Give the lines of the evaluations, without what a clock decides."""
    return [{k: v for k, v in line.items() if k != "eval_seconds"} for line in read_log(folder) if "eval" in line]


def with_likely(sampler: EngineSampler, tokens: frozenset[int]) -> dict[str, Tensor]:
    """Give weights, under GLM-OCR's names, with which one of two tokens has by far the highest logit everywhere."""
    model = sampler.engine.checkpoint.model
    weights = {key: model.state_dict()[name].clone() for name, key in weight_names(model).items()}
    head = weights["lm_head.weight"]
    one, other = sorted(tokens)
    head[one] = 30 * head.std() * torch.randn(head.shape[1], generator=torch.Generator().manual_seed(0))
    head[other] = -head[one]
    return weights


def whole_state(folder: Path, step: int) -> Path:
    """Write what a run can go on from, as far as a look at it tells."""
    state = folder / "states" / f"checkpoint-{step}"
    state.mkdir(parents=True)
    save_file({"weight": torch.zeros(2)}, str(state / "model.safetensors"))
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({"value": torch.zeros(1)}, state / name)
    (state / "trainer_state.json").write_text("{}", encoding="utf-8")
    return state
