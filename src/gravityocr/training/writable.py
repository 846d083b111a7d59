"""Folders that a command will write to, looked at before any work is done."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gravityocr.errors import ConfigError


def check_writable(folder: Path, told: str) -> None:
    """Make a folder, and try to write there; `told` is the setting or option that names it, with its value.

    *Raises*: ConfigError where the system does not let it be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"{told} cannot be written ({error.strerror}); choose another folder") from error
