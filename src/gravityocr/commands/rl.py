"""`gravityocr rl`: GRPO on the AR path from a TOML file."""

from __future__ import annotations

import json
from dataclasses import asdict
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
from gravityocr.rl.launch import figures_of, run_grpo, tell
from gravityocr.rl.mining import mine, prompt_folder
from gravityocr.rl.rl_config import RlConfig
from gravityocr.rl.run_folder import check_folder
from gravityocr.rl.trials import TrialProgress
from gravityocr.rl.trl_arguments import trl_arguments
from gravityocr.training.pool_tokens import pool_files

N_LINES = 20


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
    show = _Shown()
    if prompts_only:
        report = mine(resolved, show, tell)
        typer.echo(json.dumps(report, indent=1) if as_json else str(prompt_folder(resolved)))
        return
    found = run_grpo(resolved, show)
    if found is not None:
        typer.echo(json.dumps(found, indent=1) if as_json else found["best"] or found["checkpoint"])


class _Shown:
    """Shows how far the trials have come: a bar on a terminal, else a line now and then."""

    def __init__(self) -> None:
        columns = (TextColumn("trials"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, transient=True) if console.is_terminal else None
        self._task = self._bar.add_task("trials", total=None) if self._bar is not None else None
        self._n_told = -1

    def __call__(self, progress: TrialProgress) -> None:
        n_all, n_done = progress.n_candidates, progress.n_kept + progress.n_tried
        if self._bar is not None and self._task is not None:
            self._bar.start()
            self._bar.update(self._task, total=n_all, completed=n_done)
            if n_done >= n_all:
                self._bar.stop()
        elif n_done < n_all and n_done - self._n_told > n_all // N_LINES:
            self._n_told = n_done
            tell(f"trials: {n_done} of {n_all} candidates")


def plan_of(config: RlConfig) -> dict[str, Any]:
    """Return what a run would do: the settings by our names and by TRL's, its sizes, and what is missing."""
    problems = []
    for where, check in (
        ("", lambda: check_folder(config)),
        ("", lambda: check_libraries(config)),
        ("rl.checkpoint: ", lambda: resolve_checkpoint(config.rl.checkpoint)),
        ("", lambda: pool_files(config.prompts.pool, "train", "prompts.pool")),
        ("", lambda: held_out(config.evaluation, config.prompts.pool)),
        ("", lambda: check_tools(config.evaluation)),
    ):
        try:
            check()
        except GravityOCRError as error:
            problems.append(f"{where}{error}")
    grpo = config.grpo
    return {
        "config": asdict(config),
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
