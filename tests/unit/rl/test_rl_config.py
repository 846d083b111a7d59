"""The settings of GRPO: the paper's by name, and combinations that cannot work are refused with the remedy."""

from __future__ import annotations

import re

import pytest

from gravityocr.config import load_config
from gravityocr.errors import ConfigError
from gravityocr.rl.rl_config import RlConfig, nearest_divisor

# Section 5 of the method.
PAPER = {
    "rl.steps": 500, "rl.bf16": True, "rl.freeze": (),
    "grpo.prompts_per_step": 24, "grpo.n_rollouts": 28, "grpo.advantages": "group", "grpo.loss": "token",
    "grpo.clip_low": 0.2, "grpo.clip_high": 0.28, "grpo.kl": 1e-3, "grpo.temperature": 1.0, "grpo.top_p": 1.0,
    "grpo.max_tokens": 8448, "grpo.leave_out_truncated": True, "grpo.n_iterations": 1,
    "rollouts.importance_correction": "token_truncate",
    "optimizer.kind": "adamw_8bit", "optimizer.lr": 3e-6, "optimizer.schedule": "cosine", "optimizer.clip_norm": 1.0,
    "prompts.n_prompts": 7723, "prompts.n_trials": 8, "prompts.table_share": 0.92, "prompts.text_share": 0.06,
    "prompts.formula_share": 0.02, "prompts.min_std": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("name", PAPER)
def test_a_setting_that_nobody_gives_is_the_paper_s(name: str) -> None:
    section, key = name.split(".")
    assert getattr(getattr(RlConfig(), section), key) == PAPER[name]


def test_a_step_takes_672_completions_that_are_shared_out() -> None:
    config = load_config(RlConfig, None, ["rl.n_processes=8", "rl.micro_batch=12"])
    assert config.grpo.n_completions == 672 and config.accumulation == 7


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["rl.n_processes=5"], r"rl\.n_processes 5 .* 672 .*prompts_per_step.*choose a divisor"),
        (["rl.micro_batch=5"], r"rl\.micro_batch 5 .* 672 .*choose 4"),
        (["rl.n_processes=32", "rl.micro_batch=8"], r"the 21 completions of a step and process; choose 7"),
        (["rollouts.engine=vllm"], r"vllm .*rl\.device to cuda, or it to engine"),
        (['rl.freeze=["vision", "embeddings", "decoder", "lm_head"]'], r"rl\.freeze names all parts"),
        (['rl.freeze=["head"]'], r"rl\.freeze"),
        (["rl.device=tpu"], r"rl\.device .*choose cpu or cuda"),
        (["rl.folder="], r"rl\.folder is empty"),
        (["rl.checkpoint="], r"rl\.checkpoint is empty"),
        (["rl.steps=0"], r"rl\.steps"),
        (["grpo.n_rollouts=1"], r"grpo\.n_rollouts"),
        (["grpo.top_p=0"], r"grpo\.top_p"),
        (["grpo.temperature=0"], r"grpo\.temperature"),
        (["grpo.kl=-1"], r"grpo\.kl"),
        (["grpo.clip_low=1.5"], r"grpo\.clip_low"),
        (["grpo.loss=word"], r"grpo\.loss"),
        (["optimizer.kind=sgd"], r"optimizer\.kind"),
        (["optimizer.betas=[0.9, 1.0]"], r"optimizer\.betas"),
        (["rollouts.importance_cap=0.5"], r"rollouts\.importance_cap"),
        (["rollouts.engine=ours"], r"rollouts\.engine"),
        (["grpo.clip_hi=0.3"], r"clip_high"),
        (["grpo.n_iterations=4"], r"rl.save_every 50 is no multiple of grpo.n_iterations 4"),
    ],
)
def test_what_cannot_work_is_refused_by_name(settings: list[str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        load_config(RlConfig, None, settings)


def test_the_remedies_work() -> None:
    for settings in (["rl.micro_batch=5"], ["rl.n_processes=32", "rl.micro_batch=8"]):
        with pytest.raises(ConfigError) as refused:
            load_config(RlConfig, None, settings)
        (told,) = re.findall(r"choose (\d+)", str(refused.value))
        assert load_config(RlConfig, None, [*settings, f"rl.micro_batch={told}"]).rl.micro_batch == int(told)


def test_the_nearest_divisor_is_the_largest_that_is_not_above() -> None:
    for number in (1, 7, 24, 672):
        for wanted in range(1, number + 3):
            fitting = [one for one in range(1, number + 1) if number % one == 0 and one <= wanted]
            assert nearest_divisor(number, wanted) == fitting[-1]
