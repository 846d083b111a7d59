"""The command line: data on stdout, progress on stderr, exit 0 = all well, 1 = some input failed, 2 = usage."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gravityocr import __version__
from gravityocr.commands import bench, checkpoint, parse, recognize, train
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command("parse")(parse.parse)
app.command("recognize")(recognize.recognize)
app.command("train")(train.train)
app.add_typer(bench.app, name="bench")
app.add_typer(checkpoint.app, name="checkpoint")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Turn document images and PDFs into Markdown: diffusion drafts, the autoregressive path verifies."""


def main() -> None:
    """Run the command line; errors that we raise on purpose become one line on stderr."""
    try:
        app()
    except (ConfigError, CheckpointError) as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except GravityOCRError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
