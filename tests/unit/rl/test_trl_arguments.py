"""What the settings become for TRL: the paper's method in the names of its trainer, and nothing that TRL adds to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gravityocr.config import load_config
from gravityocr.rl.rl_config import RlConfig
from gravityocr.rl.trl_arguments import trl_arguments

pytest.importorskip("trl", reason="GRPO; install the extra 'rl'")

# Section 5 of the method in TRL's names: what we hand over ...
GIVEN: dict[str, Any] = {
    "max_steps": 500, "num_generations": 28, "scale_rewards": "group", "loss_type": "dapo", "epsilon": 0.2,
    "epsilon_high": 0.28, "beta": 1e-3, "learning_rate": 3e-6, "lr_scheduler_type": "cosine", "optim": "adamw_8bit",
    "bf16": True, "max_grad_norm": 1.0, "temperature": 1.0, "top_p": 1.0, "max_completion_length": 8448,
    "mask_truncated_completions": True, "num_iterations": 1, "warmup_steps": 0, "use_vllm": False,
}  # fmt: skip
# ... and what TRL must not add to it.
PLAIN: dict[str, Any] = {
    "top_k": 0, "min_p": None, "repetition_penalty": 1.0, "importance_sampling_level": "token", "delta": None,
    "sync_ref_model": False, "top_entropy_quantile": 1.0, "multi_objective_aggregation": "sum_then_normalize",
    "reward_weights": None, "off_policy_mask_threshold": None, "entropy_coef": 0.0, "generation_batch_size": 672,
    "gradient_accumulation_steps": 21, "steps_per_generation": 21, "per_device_train_batch_size": 32,
    "label_smoothing_factor": 0.0, "remove_unused_columns": False,
}  # fmt: skip


def arguments_of(*overrides: str) -> dict[str, Any]:
    return trl_arguments(load_config(RlConfig, None, list(overrides)))


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Give TRL's own configuration of the paper's run, as one process would have it."""
    from trl import GRPOConfig

    return GRPOConfig(**arguments_of(f"rl.folder={tmp_path_factory.mktemp('run')}", "rl.micro_batch=32"))


@pytest.mark.parametrize("name", GIVEN)
def test_the_paper_s_settings_reach_trl(name: str, paper: Any) -> None:
    assert arguments_of()[name] == GIVEN[name]
    assert getattr(paper, name) == GIVEN[name]


@pytest.mark.parametrize("name", PLAIN)
def test_trl_adds_nothing(name: str, paper: Any) -> None:
    assert getattr(paper, name) == PLAIN[name]


def test_nothing_is_reported_to_a_service(paper: Any) -> None:
    assert arguments_of()["report_to"] == [] and not paper.push_to_hub
    assert arguments_of("rl.tensorboard=true")["report_to"] == ["tensorboard"]


def test_vllm_shares_the_gpu_and_its_tokens_are_weighed(tmp_path: Path) -> None:
    vllm = ("rollouts.engine=vllm", "rl.device=cuda")
    given = arguments_of(*vllm)
    assert given["use_vllm"] and given["vllm_mode"] == "colocate"
    assert given["vllm_importance_sampling_correction"] is True
    assert given["vllm_importance_sampling_mode"] == "token_truncate"
    assert given["vllm_importance_sampling_clip_max"] == 3.0 and given["vllm_gpu_memory_utilization"] == 0.3
    from trl import GRPOConfig

    known = GRPOConfig.__dataclass_fields__
    assert not given.keys() - known.keys()
    off = arguments_of(*vllm, "rollouts.importance_correction=none")
    assert off["vllm_importance_sampling_correction"] is False and "vllm_importance_sampling_mode" not in off
    other = arguments_of(*vllm, "rollouts.importance_correction=sequence_mask", "rollouts.importance_cap=5.0")
    assert other["vllm_importance_sampling_mode"] == "sequence_mask"
    assert other["vllm_importance_sampling_clip_max"] == 5.0


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("grpo.advantages=batch", "scale_rewards", "batch"),
        ("grpo.advantages=mean", "scale_rewards", "none"),
        ("grpo.loss=sequence", "loss_type", "grpo"),
        ("grpo.kl_unbiased=true", "use_bias_correction_kl", True),
        ("grpo.leave_out_truncated=false", "mask_truncated_completions", False),
        ("grpo.n_iterations=5", "num_iterations", 5),
        ("optimizer.kind=adamw", "optim", "adamw_torch"),
        ("optimizer.schedule=linear", "lr_scheduler_type", "linear"),
        ("optimizer.schedule=constant", "lr_scheduler_type", "constant"),
        ("optimizer.warmup=0.1", "warmup_steps", 50),
        ("optimizer.betas=[0.8, 0.95]", "adam_beta2", 0.95),
        ("optimizer.weight_decay=0.2", "weight_decay", 0.2),
        ("rl.gradient_checkpointing=true", "gradient_checkpointing", True),
        ("rl.save_every=7", "save_steps", 7),
        ("rl.keep_states=3", "save_total_limit", 3),
        ("rl.seed=5", "seed", 5),
        ("rl.n_processes=2", "ddp_backend", "gloo"),
        ("rl.n_processes=2", "gradient_accumulation_steps", 84),
        ("rl.device=cuda", "use_cpu", False),
    ],
)
def test_every_choice_has_its_name(setting: str, name: str, value: Any) -> None:
    assert arguments_of(setting)[name] == value != arguments_of()[name]


def test_tokens_that_must_not_be_sampled_are_suppressed() -> None:
    assert trl_arguments(RlConfig(), frozenset({9, 3}))["generation_kwargs"] == {"suppress_tokens": [3, 9]}
    assert trl_arguments(RlConfig())["generation_kwargs"] is None
    vllm = load_config(RlConfig, None, ["rollouts.engine=vllm", "rl.device=cuda"])
    assert trl_arguments(vllm, frozenset({9, 3}))["generation_kwargs"] == {"logit_bias": {3: -100.0, 9: -100.0}}


def test_the_learning_rate_falls_along_a_cosine_without_a_floor() -> None:
    """The schedule is that of the whole run: half the rate in the middle, none at the end."""
    import torch
    from transformers import get_scheduler

    given = arguments_of()
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=given["learning_rate"])
    schedule = get_scheduler(given["lr_scheduler_type"], optimizer, given["warmup_steps"], given["max_steps"])
    rates = []
    for _ in range(given["max_steps"] + 1):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert rates[0] == 3e-6 and rates[250] == pytest.approx(1.5e-6) and rates[500] == pytest.approx(0.0, abs=1e-12)
