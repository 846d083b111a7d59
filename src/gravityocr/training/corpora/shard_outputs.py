"""Where a command that rewrites region files puts them: the same folders and names below another folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gravityocr.errors import ConfigError, InputError
from gravityocr.training.corpora.region_shards import SUFFIX, region_files
from gravityocr.training.writable import check_writable


def mirrored_files(folder: Path, out: Path) -> dict[Path, Path]:
    """Map the region files below a folder, or one such file, to their places below `out`, in order.

    *Raises*: InputError where there is none; ConfigError where one folder lies within the other, for then a second
    run would read what the first one wrote.
    """
    root = folder.parent if folder.is_file() else folder
    here, there = folder.resolve(), out.resolve()
    if here == there or here in there.parents or (folder.is_dir() and there in here.parents):
        raise ConfigError(f"--out {out} and the input {folder} lie within one another; choose a folder apart")
    files = {file: out / file.relative_to(root) for file in region_files(folder)}
    for file, target in files.items():
        if file.resolve() == target.resolve():
            raise ConfigError(f"--out {out} would overwrite {file}; choose another folder")
    return files


def make_out(folder: Path, out: Path) -> None:
    """Make a folder in which a command writes, `out` or one below it, before any work is done.

    *Raises*: ConfigError naming --out where the system does not let it be made or written.
    """
    check_writable(folder, f"--out {out}")


def side_file(shard: Path, suffix: str) -> Path:
    """Return the file of another kind beside a shard.

    >>> side_file(Path("a/b.regions.parquet"), ".report.json").as_posix()
    'a/b.report.json'
    """
    return shard.with_name(shard.name.removesuffix(SUFFIX) + suffix)


def write_json(file: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    # Half a surrogate pair is no UTF-8; its backslash escape is JSON's own.
    part.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", errors="backslashreplace")
    part.replace(file)


def read_side_json(file: Path) -> dict[str, Any] | None:
    """Return the object of a JSON file that an earlier run left; None where it left none that can be read.

    *Raises*: InputError where the file is there and the system does not let it be read.
    """
    try:
        value = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); remove it, or choose another --out") from error
    return value if isinstance(value, dict) else None
