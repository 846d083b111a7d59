"""`gravityocr rl`: what is printed, what is refused, and that standard output holds nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.grpo_runs import SMALL
from tests.unit.rl.test_rl_config import PAPER
from typer.testing import CliRunner

from gravityocr.cli import app
from gravityocr.config import load_config
from gravityocr.errors import ConfigError, GravityOCRError, InputError
from gravityocr.rl.rl_config import RlConfig
from gravityocr.rl.trl_arguments import trl_arguments

pytest.importorskip("trl", reason="GRPO; install the extra 'rl'")

Output = tuple[str, str]


def output(*arguments: object) -> Output:
    """Run the command and return standard output and standard error; errors are raised as they are."""
    result = CliRunner().invoke(app, ["rl", *map(str, arguments)])
    if isinstance(result.exception, GravityOCRError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def small(folder: Path, *overrides: str) -> list[str]:
    """Give the settings that make a run of the shipped recipe small."""
    settings = [*SMALL, f"rl.folder={folder}", "rollouts.n_compared=0", "rl.steps=1", *overrides]
    return [part for setting in settings for part in ("--set", setting)]


@pytest.fixture(scope="module")
def recipe(repo_root: Path) -> Path:
    return repo_root / "recipes" / "grpo-nano.toml"


@pytest.fixture(scope="module")
def paper(repo_root: Path) -> Path:
    file = repo_root / "recipes" / "grpo-paper.toml"
    if not file.is_file():
        pytest.skip(f"no recipe of the paper's run: {file.name}")
    return file


def test_the_dry_run_prints_every_setting_of_the_paper(paper: Path) -> None:
    plan: dict[str, Any] = json.loads(output(paper, "--dry-run", "--json")[0])
    for name, value in {**PAPER, "rollouts.engine": "vllm", "rl.device": "cuda"}.items():
        section, key = name.split(".")
        told = plan["config"][section][key]
        assert (tuple(told) if isinstance(told, list) else told) == value, name
    assert plan["trl"] == trl_arguments(load_config(RlConfig, paper))
    assert (plan["completions_per_step"], plan["completions"]) == (672, 336_000)
    assert plan["never_sampled"] == ["image token", "mask token"]
    text = output(paper, "--dry-run")[0]
    for line in ("prompts_per_step = 24", "n_rollouts = 28", "clip_low = 0.2", "clip_high = 0.28", "kl = 0.001",
                 "lr = 3e-06", 'schedule = "cosine"', 'kind = "adamw_8bit"', "bf16 = true", "clip_norm = 1.0",
                 "temperature = 1.0", "top_p = 1.0", "max_tokens = 8448", 'engine = "vllm"', 'loss = "token"',
                 'advantages = "group"', "leave_out_truncated = true", 'importance_correction = "token_truncate"',
                 "n_prompts = 7723", "n_trials = 8", "table_share = 0.92", "text_share = 0.06",
                 "formula_share = 0.02", "structure_weight = 0.45", "vllm_mode = 'colocate'", "loss_type = 'dapo'",
                 "never sampled: image token, mask token"):  # fmt: skip
        assert f"\n{line}\n" in text, line


def test_the_dry_run_names_all_that_is_missing_and_leaves_nothing(paper: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = (f"rl.folder={folder}", f"prompts.pool={tmp_path / 'pool'}", "rl.checkpoint=nowhere",
                "evaluation.cdm=false")  # fmt: skip
    plan = json.loads(output(paper, *(part for one in settings for part in ("--set", one)), "--dry-run", "--json")[0])
    told = "\n".join(plan["missing"])
    assert not plan["ready"] and "nowhere" in told and str(tmp_path / "pool") in told
    assert not folder.exists()


def test_the_shipped_recipe_is_ready(recipe: Path, tmp_path: Path) -> None:
    plan = json.loads(output(recipe, "--set", f"rl.folder={tmp_path / 'run'}", "--dry-run", "--json")[0])
    assert plan["ready"] and plan["missing"] == [] and not (tmp_path / "run").exists()
    assert "nothing is missing" in output(recipe, "--dry-run")[0]


@pytest.mark.parametrize(
    ("setting", "error", "named"),
    [
        ("grpo.clip_hi=0.3", ConfigError, "did you mean 'clip_high'"),
        ("grop.kl=0.1", ConfigError, "did you mean 'grpo'"),
        ("rl.micro_batch=7", ConfigError, "choose "),
        ("prompts.pool=no-such-pool", InputError, "no-such-pool"),
    ],
)
def test_wrong_settings_are_refused(
    recipe: Path, tmp_path: Path, setting: str, error: type[GravityOCRError], named: str
) -> None:
    with pytest.raises(error, match=named):
        output(recipe, "--set", f"rl.folder={tmp_path / 'run'}", "--set", setting)
    assert not (tmp_path / "run").exists()


def test_a_recipe_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GravityOCRError, match=r"none\.toml"):
        output(tmp_path / "none.toml")


def test_prompts_then_a_run_then_its_report_and_nothing_twice(recipe: Path, tmp_path: Path) -> None:
    settings = small(tmp_path / "run")
    report = json.loads(output(recipe, *settings, "--prompts-only", "--json")[0])
    assert report["n_prompts"] == 4 and not (tmp_path / "run" / "log.jsonl").exists()
    folder = output(recipe, *settings, "--prompts-only")[0].strip()
    assert folder == str(tmp_path / "run" / "prompts") and (tmp_path / "run" / "prompts" / "prompts.json").is_file()
    found = json.loads(output(recipe, *settings, "--json")[0])
    assert (found["step"], found["run"]["n_steps"]) == (1, 1)
    assert [one["step"] for one in found["evaluations"]] == [0, 1]
    assert found["checkpoint"] == str(tmp_path / "run" / "checkpoint") and Path(found["checkpoint"]).is_dir()
    assert (found["best"] is None) == (found["best_step"] == 0)
    log = (tmp_path / "run" / "log.jsonl").read_bytes()
    again, told = output(recipe, *settings, "--json")
    assert json.loads(again) == found and "is finished, at step 1; raise rl.steps to go on" in told
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == log
    (tmp_path / "run" / "report.md").unlink()
    shown = output(recipe, *settings, "--report-only")[0].strip()
    assert shown == str(tmp_path / "run" / "report.md") and Path(shown).is_file()
    assert json.loads(output(recipe, *settings, "--report-only", "--json")[0]) == found
    plain = output(recipe, *settings)[0].strip()
    assert plain == (found["best"] or found["checkpoint"])
