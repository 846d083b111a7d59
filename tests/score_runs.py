"""`gravityocr score` run in this process, for its tests."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from gravityocr.cli import app
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError

TABLE = "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>"
WIDE = "<table><tr><td colspan='2'>a</td></tr><tr><td>c</td><td>d</td></tr></table>"


def run(*args: object, stdin: str | None = None) -> tuple[int, str, str]:
    """Run `gravityocr score`; return (exit code, stdout, the error's line or stderr)."""
    result = CliRunner().invoke(app, ["score", *(str(arg) for arg in args)], input=stdin)
    error = result.exception
    if isinstance(error, GravityOCRError):
        return (2 if isinstance(error, (CheckpointError, ConfigError)) else 1), result.stdout, str(error)
    if error is not None and not isinstance(error, SystemExit):
        raise error
    return result.exit_code, result.stdout, result.stderr


def run_json(*args: object, code: int = 0, stdin: str | None = None) -> dict[str, Any]:
    found, out, error = run(*args, "--json", stdin=stdin)
    assert found == code, error
    return json.loads(out)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@contextmanager
def room_for(n_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond `n_bytes`, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
