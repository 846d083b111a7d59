"""Where a run may write: never over an input, nor over anything that a run of this kind has not written itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.metrics.runs.score_file import ResultsFile

REPORT_MARK = '<meta name="generator" content="gravityocr score'
_HEAD = 2000  # bytes within which a report has its mark


@dataclass(frozen=True)
class InputPlace:
    """A file or folder that is read; of a folder `suffixes` says which files (in any case) are taken for inputs."""

    option: str
    path: Path
    suffixes: Sequence[str] = ()


def check_report_place(path: Path, option: str = "--report", inputs: Sequence[InputPlace] = ()) -> None:
    """Check that a report may be written: to a new file, over a report, or over an empty file.

    *Raises*: ConfigError naming the option, the file and what is wrong with it.
    """
    _check_place(path, option, inputs)
    if not _exists(path, option):
        return
    if not _may_be_overwritten(path, option):
        raise ConfigError(f"{option} {path}: exists and is no report of gravityocr score; name another file")
    _check_folder(Path(os.path.realpath(path)).parent, path, option)  # a report is written beside its place, then moved


def check_results_place(path: Path, option: str = "--results", inputs: Sequence[InputPlace] = ()) -> None:
    """Check that results may be appended: to a new file, or to one of results.

    *Raises*: ConfigError naming the option, the file and what is wrong with it.
    """
    _check_place(path, option, inputs)
    if _exists(path, option):
        try:
            ResultsFile(path, {})
        except GravityOCRError as error:
            raise ConfigError(f"{option} {error}") from error


def same_file(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to one file, links and names that do not exist yet included."""
    try:
        if one.exists() and other.exists():
            return one.samefile(other)
        return one.resolve() == other.resolve()
    except (OSError, ValueError, RuntimeError):
        return False


def _check_place(path: Path, option: str, inputs: Sequence[InputPlace]) -> None:
    known = _exists(path, option)
    for place in inputs:
        if same_file(path, place.path):
            raise ConfigError(f"{option} {path}: is what {place.option} reads; name another file")
        inside = place.path.is_dir() and place.path.resolve() in path.resolve().parents
        if inside and path.suffix.lower() in place.suffixes:
            raise ConfigError(
                f"{option} {path}: lies in the folder of {place.option}, where it would be read as an input; "
                "name a file elsewhere"
            )
    if path.is_dir():
        raise ConfigError(f"{option} {path}: is a folder; name a file")
    if known:
        if not path.is_file():
            raise ConfigError(f"{option} {path}: is no plain file; name one")
        if not os.access(path, os.W_OK | os.R_OK):
            raise ConfigError(f"{option} {path}: may not be read and written; name another file")
        return
    above = next(folder for folder in path.resolve().parents if folder.exists())
    if not above.is_dir():
        raise ConfigError(f"{option} {path}: {above} is no folder; name another place")
    _check_folder(above, path, option)


def _check_folder(folder: Path, path: Path, option: str) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"{option} {path}: nothing may be written in {folder}; name another place")


def _exists(path: Path, option: str) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{option} {path}: cannot be used ({reason}); name another file") from error
    return True


def _may_be_overwritten(path: Path, option: str) -> bool:
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
        return not head or REPORT_MARK.encode() in head
    except OSError as error:
        raise ConfigError(f"{option} {path}: cannot be read ({error.strerror}); name another file") from error
