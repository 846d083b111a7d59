"""Files of a checkpoint folder: read with errors that name them, written so that no half of a folder is ever seen."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gravityocr.errors import CheckpointError, InputError

# What belongs to a checkpoint beside its weights; a model card speaks of the weights that it came with.
SETTINGS_SUFFIXES = (".json", ".jinja", ".txt", ".model")
NOT_COPIED = ("block_diffusion.json", "model.safetensors.index.json", "pytorch_model.bin.index.json")


def read_json(file: Path, remedy: str = "it must be a GLM-OCR checkpoint folder") -> dict[str, Any]:
    """Read a JSON object.

    *Raises*: CheckpointError naming the file and the remedy.
    """
    content = read_bytes(file, remedy)
    try:
        value = json.loads(content.decode("utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{file} is not valid JSON: {error}") from error
    except RecursionError as error:
        raise CheckpointError(f"{file} is nested too deeply to be read; {remedy}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} must hold a JSON object")
    return value


def read_bytes(file: Path, remedy: str) -> bytes:
    """Read a whole file.

    *Raises*: CheckpointError naming the file and the remedy.
    """
    try:
        return file.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointError(f"{file.parent} has no {file.name}; {remedy}") from error
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read ({error.strerror}); check it and its permissions") from error


def write_json(file: Path, value: dict[str, Any]) -> None:
    """Write a JSON object as UTF-8 text."""
    file.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def settings_files(folder: Path) -> list[Path]:
    """List what a checkpoint made from this one takes over as it is: config, tokenizer, processor, template, licence.

    Weights, their index, `block_diffusion.json` and the model card are not among them.
    """
    return [
        file
        for file in sorted(folder.iterdir())
        if file.is_file()
        and not file.name.startswith(".")
        and file.name not in NOT_COPIED
        and (file.suffix in SETTINGS_SUFFIXES or file.name.upper().startswith("LICENSE"))
    ]


@contextmanager
def new_folder(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Give a folder to fill, which becomes `path` at the end, whole; after an error nothing of it is left.

    *Raises*: InputError where `path` is taken: by anything but an empty folder, or, with `overwrite`, a checkpoint.
    """
    _check_place(path, overwrite)
    path = path.resolve()
    part = path.parent / f".{path.name}.{os.getpid()}.part"
    old = path.parent / f".{path.name}.{os.getpid()}.old"
    part.mkdir(parents=True)
    try:
        yield part
        if path.exists():
            path.replace(old)
        try:
            part.replace(path)
        except OSError:
            if old.exists():
                old.replace(path)
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def _check_place(path: Path, overwrite: bool) -> None:
    if not path.exists():
        return
    if not path.is_dir():
        raise InputError(f"{path} is a file; name a folder")
    if not any(path.iterdir()):
        return
    if not overwrite:
        raise InputError(f"{path} is not empty; name another folder, or say --overwrite")
    if not (path / "config.json").is_file():
        # A slip of the hand must not remove somebody's documents.
        raise InputError(f"{path} holds something that is no checkpoint; remove it yourself, or name another folder")
