"""`gravityocr bench report`: earlier measurements as one HTML page."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from gravityocr.benchmark.report import REPORT_MARK, read_measurements, render
from gravityocr.commands.options import console
from gravityocr.errors import ConfigError, InputError

_HEAD_BYTES = 2000


def report(
    files: Annotated[list[Path], typer.Argument(help="JSON files of earlier measurements, or folders of them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML page to write.")],
) -> None:
    """Show measurements on one self-contained page, the paper's figures beside ours."""
    _check_place(out)
    page = render(read_measurements(files))
    _replace(out, page)
    console.print(f"wrote {out}", markup=False)


def _check_place(out: Path) -> None:
    """Refuse to write over what is no report. *Raises*: ConfigError."""
    if out.exists() and not out.is_file():
        raise ConfigError(f"--out {out}: is a folder or a device; name a file")
    try:
        with out.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be used ({error.strerror}); name another file") from error
    if head and REPORT_MARK.encode() not in head:
        raise ConfigError(f"--out {out}: exists and is no report of gravityocr bench; name another file")


def _replace(out: Path, page: str) -> None:
    """Write the page beside its place and move it there when it is whole. *Raises*: InputError."""
    out = out.resolve()  # a link stays one
    beside = out.with_name(f".gravityocr-{secrets.token_hex(6)}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(page, encoding="utf-8")
        os.replace(beside, out)
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror}); choose another place") from error
    finally:
        beside.unlink(missing_ok=True)
