"""`gravityocr checkpoint verify`: every part of a checkpoint checked, one line each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from gravityocr.commands.options import Json
from gravityocr.model.checkpoint import resolve_checkpoint
from gravityocr.training.verification import Check, verify_checkpoint


def verify(
    name: Annotated[str, typer.Argument(help="'nano' or a checkpoint folder.")] = "nano", json_: Json = False
) -> None:
    """Check files, keys, shapes, values, ids, prompts and forwards, also against transformers; exit 1 if one fails."""
    checks = verify_checkpoint(resolve_checkpoint(name))
    if json_:
        typer.echo(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        for line in lines(checks):
            typer.echo(line)
    if failed(checks):
        raise typer.Exit(1)


def lines(checks: Sequence[Check]) -> list[str]:
    """Return one line for each check."""
    words = {True: "ok", False: "FAILED", None: "skipped"}
    return [f"{words[check.ok]:8}{check.name:20}{check.detail}" for check in checks]


def failed(checks: Sequence[Check]) -> list[Check]:
    """Return the checks that failed; one that could not run has not."""
    return [check for check in checks if check.ok is False]
