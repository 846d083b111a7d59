"""The settings that a run's folder was trained with, beside those of now."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from gravityocr.config import dump_config, load_config
from gravityocr.errors import ConfigError
from gravityocr.training.run_config import TrainConfig


def changed_settings(config: TrainConfig) -> list[str]:
    """Return what differs from the settings that this run's folder was last trained with.

    *Raises*: ConfigError where the network differs: its weights would not fit.
    """
    file = Path(config.train.folder) / "config.toml"
    if not file.is_file():
        return []
    before = load_config(TrainConfig, file)
    if (before.network, before.train.base) != (config.network, config.train.base):
        raise ConfigError(f"{file} has another network; choose another train.folder, or remove that one")
    return differences(before, config)


def differences(before: object, now: object) -> list[str]:
    """Return what differs between two configurations, a line a setting."""
    old, new = (_flat(tomllib.loads(dump_config(one))) for one in (before, now))
    names = [*old, *(name for name in new if name not in old)]
    return [f"{name}: {old.get(name)} -> {new.get(name)}" for name in names if old.get(name) != new.get(name)]


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in table.items():
        values |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return values
