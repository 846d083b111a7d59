"""The command line: data on stdout, progress on stderr, exit 0 = all well, 1 = some input failed, 2 = usage."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from gravityocr import __version__
from gravityocr.commands.streams import settle_streams, visible, visible_lines
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError

INTERRUPTED = 130

# Modules of gravityocr.commands, with what --help says of each: importing them all would take seconds.
COMMANDS = {
    "parse": "Turn PDFs and images into Markdown, JSON and other formats, one folder per input.",
    "recognize": "Read crops of regions (not whole pages) and print their text.",
    "train": "Train, or go on where the run's folder stopped.",
    "rl": "Mine prompts and train with rewards, or go on where the run's folder stopped.",
    "data": "Get training samples, choose among them, and look at them.",
    "score": "Score predictions as the official scorers do, and faster.",
    "bench": "Measure speed and identity.",
    "checkpoint": "Convert, check, describe and publish checkpoints.",
}


class Commands(TyperGroup):
    """Imports a command when it is asked for: scoring, say, must not wait for torch, nor each of its processes."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Name all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _import_command(cmd_name)
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command to run; an unknown name gets the nearest one suggested."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            near = get_close_matches(name, COMMANDS, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else f"Choose one of {', '.join(COMMANDS)}."
            ctx.fail(f"No such command '{visible(name)}'. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands for --help, without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _import_command(name: str) -> Any:
    """Import a command's module: it holds a group named `app`, or a function of the command's name."""
    module = import_module(f"gravityocr.commands.{name}")
    holder = typer.Typer(add_completion=False, rich_markup_mode=None)
    if hasattr(module, "app"):
        holder.add_typer(module.app, name=name)
    else:
        holder.command(name)(getattr(module, name))
    return get_group(holder).commands[name]


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Turn document images and PDFs into Markdown: diffusion drafts, the autoregressive path verifies."""
    ctx.ensure_object(dict)["debug"] = debug


def main() -> None:
    """Run the command line; whatever goes wrong becomes one line on stderr and an exit code."""
    settle_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # File names need not be text; what stdout cannot encode is written as JSON's own escapes.
        sys.stdout.reconfigure(errors="backslashreplace")
    flags: dict[str, bool] = {}
    code = _run(flags)
    _settle_stdout()
    sys.exit(code)


def _run(flags: dict[str, bool]) -> int:
    try:
        code = _command(flags)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # the reader has gone, as `| head` does
        return 1
    except (ConfigError, CheckpointError) as error:
        return _tell(f"error: {error}", 2, flags)
    except GravityOCRError as error:
        return _tell(f"error: {error}", 1, flags)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _tell(f"error: cannot read or write: {error.strerror or error}{where}", 1, flags)
    except Exception as error:
        what = (str(error).strip() or "no message").splitlines()[0]
        return _tell(f"internal error: {type(error).__name__}: {what}; please report it (see --debug)", 1, flags)
    if code == INTERRUPTED and not flags.get("told"):
        typer.echo("interrupted", err=True)
    return code


def _command(flags: dict[str, bool]) -> int:
    """Run the command and return its exit code; typer reports wrong usage itself."""
    try:
        app(obj=flags)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _tell(line: str, code: int, flags: dict[str, bool]) -> int:
    if flags.get("debug"):
        traceback.print_exc()
    typer.echo(visible_lines(line), err=True)
    return code


def _settle_stdout() -> None:
    """Drop what a full or closed stdout does not take, lest the interpreter complain about it at its end."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
