"""Recipes load, say what the paper says, and their launch files start what they promise."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gravityocr.config import load_config
from gravityocr.model.text import TextLayer
from gravityocr.model.vision import VisionBlock
from gravityocr.rl.rl_config import RlConfig
from gravityocr.training.run_config import TrainConfig

# Section 3 of the method; the warm-up is a share of the steps, see below.
PAPER: dict[str, Any] = {
    "train.steps": 40000, "train.n_processes": 16, "train.accumulation": 4, "train.bf16": True, "train.freeze": [],
    "packing.row_tokens": 10240, "packing.response_cap_tokens": 3072,
    "noise.block_size": 32, "noise.mask_schedule": "uniform", "noise.eos_fill": True, "noise.random_offset": False,
    "loss.ar_weight": 1.0, "loss.diffusion_weight": 1.0,
    "optimizer.kind": "adamw", "optimizer.lr_decoder": 2e-5, "optimizer.lr_vision": 2e-6,
    "optimizer.betas": [0.9, 0.999], "optimizer.weight_decay": 0.0, "optimizer.clip_norm": 1.0,
    "optimizer.warmup": 500 / 40000, "optimizer.decay_from": 500 / 40000,
}  # fmt: skip
SECTION_5: dict[str, Any] = {
    "rl.steps": 500, "rl.bf16": True, "rl.freeze": [], "grpo.prompts_per_step": 24, "grpo.n_rollouts": 28,
    "grpo.advantages": "group", "grpo.loss": "token", "grpo.clip_low": 0.2, "grpo.clip_high": 0.28, "grpo.kl": 1e-3,
    "grpo.temperature": 1.0, "grpo.top_p": 1.0, "grpo.max_tokens": 8448, "grpo.leave_out_truncated": True,
    "rollouts.engine": "vllm", "rollouts.importance_correction": "token_truncate",
    "optimizer.kind": "adamw_8bit", "optimizer.lr": 3e-6, "optimizer.schedule": "cosine", "optimizer.clip_norm": 1.0,
    "rewards.structure_weight": 0.45, "rewards.cell_weight": 0.55, "rewards.least_rows": 4,
    "rewards.most_row_penalty": 0.35, "rewards.free_repeats": 3, "rewards.loop_base": 0.3, "rewards.loop_slope": 0.7,
    "rewards.row_bonus": 0.05, "rewards.column_bonus": 0.05, "rewards.unparsable_weight": 0.15,
    "rewards.fault_factor": 0.3, "rewards.n_gram": 8, "rewards.least_tokens": 16, "rewards.free_run": 16,
    "prompts.n_trials": 8, "prompts.n_prompts": 7723, "prompts.table_share": 0.92, "prompts.text_share": 0.06,
    "prompts.formula_share": 0.02,
}  # fmt: skip
SOURCE = re.compile(r"Table 7|section \d|eq \(\d\)")


@pytest.fixture(scope="module")
def recipes(repo_root: Path) -> Path:
    return repo_root / "recipes"


def test_every_recipe_loads(recipes: Path) -> None:
    files = sorted(recipes.glob("*.toml"))
    assert {"laptop", "nano-ablation", "nano-tasks", "nano-text", "paper"} <= {file.stem for file in files}
    assert {"grpo-nano", "grpo-paper"} <= {file.stem for file in files}
    for file in files:
        config: type = RlConfig if file.stem.startswith("grpo-") else TrainConfig
        load_config(config, file)


def test_section_5_stands_in_the_recipe_of_grpo(recipes: Path) -> None:
    """They stand in the file itself, each with its source."""
    text = (recipes / "grpo-paper.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    for name, value in SECTION_5.items():
        section, key = name.split(".")
        assert table[section][key] == value, name
        line = re.search(rf"^{key} = .*$", text.split(f"\n[{section}]")[1], re.MULTILINE)
        assert line and "section 5" in line[0], f"{name} names no source"


def test_grpo_on_nano_needs_no_download(recipes: Path) -> None:
    config = load_config(RlConfig, recipes / "grpo-nano.toml")
    assert (config.rl.checkpoint, config.prompts.pool, config.rl.device) == ("nano", "sample", "cpu")
    assert config.optimizer.kind == "adamw" and config.rollouts.engine == "engine" and not config.evaluation.cdm


def test_the_paper_s_settings_stand_in_its_recipe(recipes: Path) -> None:
    """They stand in the file itself: a default that changes must not change the paper's run."""
    text = (recipes / "paper.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    for name, value in PAPER.items():
        section, key = name.split(".")
        assert table[section][key] == value, name
        line = re.search(rf"^{key} = .*$", text.split(f"\n[{section}]")[1], re.MULTILINE)
        assert line and SOURCE.search(line[0]), f"{name} names no source"


def test_every_setting_of_the_paper_s_recipe_says_where_it_is_from(recipes: Path) -> None:
    """What the recipe sets and the paper does not tell is marked as ours, or speaks of the machine alone."""
    machine = {"device", "tensorboard", "log_every", "validate_every_s", "save_every_s"}
    glyphs = {"glyph_weight", "index_weight", "guide_weight"}
    for line in (recipes / "paper.toml").read_text(encoding="utf-8").splitlines():
        setting = re.match(r"(\w+) = ", line)
        if setting and setting[1] not in machine | glyphs:
            assert SOURCE.search(line) or "ours" in line or "the paper" in line, line


def test_the_laptop_s_recipe_needs_no_download(recipes: Path) -> None:
    config = load_config(TrainConfig, recipes / "laptop.toml")
    assert (config.train.base, config.data.pool, config.train.device) == ("nano", "sample", "cpu")
    assert config.train.steps == 200 and config.train.folder == "runs/laptop"


def test_the_deepspeed_config_is_the_recipe_s(recipes: Path) -> None:
    config = load_config(TrainConfig, recipes / "paper.toml")
    settings = json.loads((recipes / "paper-slurm" / "zero2.json").read_text(encoding="utf-8"))
    assert settings["zero_optimization"]["stage"] == 2 and settings["bf16"] == {"enabled": True}
    assert settings["gradient_clipping"] == config.optimizer.clip_norm
    assert settings["gradient_accumulation_steps"] in ("auto", config.train.accumulation)


def test_accelerate_reads_the_launch_files(recipes: Path) -> None:
    pytest.importorskip("accelerate", reason="the launcher; install the extra 'train'")
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.utils.deepspeed import HfDeepSpeedConfig

    zero2, fsdp2 = (load_config_from_file(str(recipes / "paper-slurm" / f"{name}.yaml")) for name in ("zero2", "fsdp2"))
    for launch in (zero2, fsdp2):
        assert (launch.num_machines, launch.num_processes) == (2, 16)
    assert (zero2.distributed_type.value, fsdp2.distributed_type.value) == ("DEEPSPEED", "FSDP")
    named = recipes.parent / zero2.deepspeed_config["deepspeed_config_file"]
    assert HfDeepSpeedConfig(str(named)).is_zero2()
    assert fsdp2.fsdp_config["fsdp_version"] == 2 and fsdp2.mixed_precision == "bf16"
    layers = {TextLayer.__name__, VisionBlock.__name__}
    assert set(fsdp2.fsdp_config["fsdp_transformer_layer_cls_to_wrap"].split(",")) == layers


STUBS = {
    "scontrol": 'printf "node-a\\nnode-b\\n"',
    "gravityocr": 'printf "%s\\n" dry "$@" >> "$CALLS"',
    "accelerate": 'printf "%s\\n" "$@" > "$CALLS.$SLURM_NODEID"',
    # Runs the command once for each task, as srun does.
    "srun": 'n=$SLURM_JOB_NUM_NODES; while [[ $1 == --* ]]; do [[ $1 == --ntasks=1 ]] && n=1; shift; done\n'
    'for ((i = 0; i < n; i++)); do SLURM_NODEID=$i "$@"; done',
}  # fmt: skip


def test_the_job_starts_one_launcher_on_each_node(recipes: Path, tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="the launcher; install the extra 'train'")
    from accelerate.commands.launch import launch_command_parser

    for name, body in STUBS.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{body}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls"),
        "SLURM_JOB_NODELIST": "node-[a-b]", "SLURM_JOB_ID": "41234", "SLURM_JOB_NUM_NODES": "2",
    }  # fmt: skip
    launch, recipe = "recipes/paper-slurm/fsdp2.yaml", "recipes/paper.toml"
    command = ["bash", "recipes/paper-slurm/train.sbatch", launch, recipe, "--set", "train.seed=1"]
    subprocess.run(command, cwd=recipes.parent, env=environment, check=True, capture_output=True)
    assert (tmp_path / "calls").read_text(encoding="utf-8").split() == [
        "dry", "train", recipe, "--set", "train.seed=1", "--dry-run",
    ]  # fmt: skip
    for rank in (0, 1):
        arguments = (tmp_path / f"calls.{rank}").read_text(encoding="utf-8").splitlines()
        assert arguments[0] == "launch"
        parsed = launch_command_parser().parse_args(arguments[1:])
        assert (parsed.config_file, parsed.num_machines, parsed.num_processes) == (launch, 2, 16)
        assert (parsed.machine_rank, parsed.main_process_ip, parsed.main_process_port) == (rank, "node-a", 21234)
        assert parsed.module and parsed.training_script == "gravityocr"
        assert parsed.training_script_args == ["train", recipe, "--set", "train.seed=1"]
    subprocess.run(command[:2], cwd=recipes.parent, env=environment, check=True, capture_output=True)
    assert (tmp_path / "calls.0").read_text(encoding="utf-8").splitlines()[-2:] == ["train", recipe]
