"""`gravityocr rl`: GRPO on the AR path from a TOML file."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gravityocr.commands.options import Json, console
from gravityocr.config import dump_config, load_config
from gravityocr.errors import GravityOCRError
from gravityocr.model.checkpoint import resolve_checkpoint
from gravityocr.rl.evaluation import check_tools, held_out
from gravityocr.rl.grpo import check_libraries
from gravityocr.rl.launch import figures_of, mine, prompt_folder, run_grpo
from gravityocr.rl.rl_config import RlConfig
from gravityocr.rl.trials import TrialProgress
from gravityocr.rl.trl_arguments import trl_arguments
from gravityocr.training.pool_tokens import pool_files


def rl(
    config: Annotated[Path, typer.Argument(help="TOML file; see recipes/grpo-nano.toml.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value, repeatable.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print all settings, those of TRL too, and what is missing; run nothing.")
    ] = False,
    prompts_only: Annotated[bool, typer.Option("--prompts-only", help="Mine the prompts, and train nothing.")] = False,
    report_only: Annotated[bool, typer.Option("--report-only", help="Write the report of a run anew.")] = False,
    as_json: Json = False,
) -> None:
    """Mine prompts and train with rewards, or go on where the run's folder stopped; log.jsonl there has all figures."""
    resolved = load_config(RlConfig, config, set_ or [])
    if dry_run:
        plan = plan_of(resolved)
        typer.echo(json.dumps(plan, indent=1) if as_json else plan_text(plan, resolved))
        return
    if report_only:
        figures = figures_of(resolved)
        typer.echo(json.dumps(figures, indent=1) if as_json else figures["report"])
        return
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console,
        transient=True,
    ) as bar:  # fmt: skip
        number = bar.add_task("trial rollouts", total=None)

        def show(progress: TrialProgress) -> None:
            n_done = progress.n_kept + progress.n_tried
            bar.update(number, total=progress.n_candidates, completed=n_done)
            if n_done >= progress.n_candidates:
                bar.stop()

        if prompts_only:
            report = mine(resolved, show)
            typer.echo(json.dumps(report, indent=1) if as_json else str(prompt_folder(resolved)))
            return
        found = run_grpo(resolved, show)
    if found is not None:
        typer.echo(json.dumps(found, indent=1) if as_json else found["best"] or found["checkpoint"])


def plan_of(config: RlConfig) -> dict[str, Any]:
    """Return what a run would do: the settings by our names and by TRL's, its sizes, and what is missing."""
    problems = []
    for check in (
        lambda: check_libraries(config),
        lambda: resolve_checkpoint(config.rl.checkpoint),
        lambda: pool_files(config.prompts.pool, "train"),
        lambda: held_out(config.evaluation, config.prompts.pool),
        lambda: check_tools(config.evaluation),
    ):
        try:
            check()
        except GravityOCRError as error:
            problems.append(str(error))
    grpo = config.grpo
    return {
        "config": tomllib.loads(dump_config(config)),
        "trl": trl_arguments(config),
        "completions_per_step": grpo.n_completions,
        "completions": grpo.n_completions * config.rl.steps,
        "most_tokens_per_step": grpo.n_completions * grpo.max_tokens,
        "forwards_per_step_and_process": config.accumulation,
        "never_sampled": ["image token", "mask token"],
        "prompts": str(prompt_folder(config)),
        "missing": problems,
        "ready": not problems,
    }


def plan_text(plan: dict[str, Any], config: RlConfig) -> str:
    """Return a plan to be read."""
    lines = ["# resolved configuration", "", dump_config(config), "# TRL's trainer gets", ""]
    lines += [f"{name} = {value!r}" for name, value in plan["trl"].items()]
    sizes = ("completions_per_step", "completions", "most_tokens_per_step", "forwards_per_step_and_process")
    lines += ["", *(f"{name}: {plan[name]:,}" for name in sizes)]
    lines += [f"never sampled: {', '.join(plan['never_sampled'])}", f"prompts: {plan['prompts']}"]
    lines += [f"missing: {problem}" for problem in plan["missing"]] or ["nothing is missing"]
    return "\n".join(lines)
