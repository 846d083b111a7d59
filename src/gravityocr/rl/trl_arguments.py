"""The paper's settings under the names of TRL's trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gravityocr.rl.rl_config import RlConfig

_ADVANTAGES = {"group": "group", "batch": "batch", "mean": "none"}
_LOSSES = {"token": "dapo", "sequence": "grpo"}
_OPTIMIZERS = {"adamw": "adamw_torch", "adamw_8bit": "adamw_8bit"}
_SCHEDULES = {"cosine": "cosine", "linear": "linear", "constant": "constant"}
_MOST_BIAS = -100.0  # the strongest that vLLM takes
STATES_FOLDER = "states"
PATIENCE_S = 4 * 3600
"""How long a process waits for the others, one of which may be reading held-out regions."""


def trl_arguments(config: RlConfig, banned: frozenset[int] = frozenset()) -> dict[str, Any]:
    """Return the keyword arguments of TRL's GRPOConfig; `banned` are token ids that generate must not sample.

    *Source*: section 5.
    """
    rl, grpo, optimizer = config.rl, config.grpo, config.optimizer
    return {
        "output_dir": str(Path(rl.folder) / STATES_FOLDER),
        "seed": rl.seed,
        "max_steps": rl.steps,
        "per_device_train_batch_size": rl.micro_batch,
        "gradient_accumulation_steps": config.accumulation,
        # All completions of a step are sampled from the weights that it begins with.
        "steps_per_generation": config.accumulation,
        "num_iterations": grpo.n_iterations,
        "num_generations": grpo.n_rollouts,
        "scale_rewards": _ADVANTAGES[grpo.advantages],
        "loss_type": _LOSSES[grpo.loss],
        "epsilon": grpo.clip_low,
        "epsilon_high": grpo.clip_high,
        "beta": grpo.kl,
        "use_bias_correction_kl": grpo.kl_unbiased,
        "mask_truncated_completions": grpo.leave_out_truncated,
        "temperature": grpo.temperature,
        "top_p": grpo.top_p,
        "max_completion_length": grpo.max_tokens,
        "generation_kwargs": _without(banned, config) if banned else None,
        "learning_rate": optimizer.lr,
        "lr_scheduler_type": _SCHEDULES[optimizer.schedule],
        "warmup_steps": round(optimizer.warmup * rl.steps),
        "optim": _OPTIMIZERS[optimizer.kind],
        "adam_beta1": optimizer.betas[0],
        "adam_beta2": optimizer.betas[1],
        "weight_decay": optimizer.weight_decay,
        "max_grad_norm": optimizer.clip_norm,
        "bf16": rl.bf16,
        "use_cpu": rl.device == "cpu",
        "ddp_backend": "gloo" if rl.device == "cpu" and rl.n_processes > 1 else None,
        "gradient_checkpointing": rl.gradient_checkpointing,
        "save_strategy": "steps",
        "save_steps": rl.save_every,
        "save_total_limit": rl.keep_states,
        "logging_steps": rl.log_every,
        "report_to": ["tensorboard"] if rl.tensorboard else [],
        "disable_tqdm": True,
        "ddp_timeout": PATIENCE_S,
        "ddp_find_unused_parameters": False,
        "remove_unused_columns": False,
        **_vllm(config),
    }


def _without(banned: frozenset[int], config: RlConfig) -> dict[str, Any]:
    """Return what keeps tokens from being sampled: generate and vLLM have different words for it."""
    if config.rollouts.engine == "vllm":
        return {"logit_bias": dict.fromkeys(sorted(banned), _MOST_BIAS)}
    return {"suppress_tokens": sorted(banned)}


def _vllm(config: RlConfig) -> dict[str, Any]:
    rollouts = config.rollouts
    if rollouts.engine != "vllm":
        return {"use_vllm": False}
    corrected = rollouts.importance_correction != "none"
    return {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": rollouts.vllm_memory_share,
        "vllm_importance_sampling_correction": corrected,
        **({"vllm_importance_sampling_mode": rollouts.importance_correction} if corrected else {}),
        "vllm_importance_sampling_clip_max": rollouts.importance_cap,
    }
