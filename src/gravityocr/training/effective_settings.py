"""Which settings of a run have no effect, given the others: what is printed for readers leaves them out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from typing import Any

from gravityocr.config import NONE_WORD

_HEAD = re.compile(r"\[+([^\[\]]+)\]+")
_WITH_POOL = (
    "data.folder", "data.ramp_from", "data.n_ramp_samples", "data.max_target_tokens", "data.crops", "data.shards",
    "data.variation", "train.n_samples", "validation.difficulty", "validation.shards",
)  # fmt: skip


def without_effect(settings: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the settings and sections that do nothing in a run, by the reason that makes them do so.

    `settings` are those of a run as TOML has them; what they lack counts as its default.
    """
    train, data, noise, glyphs = (settings.get(name, {}) for name in ("train", "data", "noise", "glyphs"))
    found: dict[str, tuple[str, ...]] = {}
    if train.get("base", NONE_WORD) != NONE_WORD:
        found["train.base has its own"] = ("network", "train.tasks")
    if train.get("budget_s", NONE_WORD) != NONE_WORD:
        found["train.budget_s ends the run"] = ("train.steps",)
    if data.get("pool", NONE_WORD) != NONE_WORD:
        found["data.pool has its own regions"] = _WITH_POOL
    else:
        found["only a data.pool is packed"] = ("packing",)
    if not any(glyphs.get(f"{name}_weight", 0.0) for name in ("glyph", "index", "guide")):
        found["all its weights are 0"] = ("glyphs",)
    if noise.get("mask_schedule", "uniform") != "mixed":
        found['only for noise.mask_schedule = "mixed"'] = ("noise.all_share",)
    return found


def effective_toml(text: str) -> str:
    """Return the settings of a run as TOML without those that have no effect, which a comment at the end names.

    `text` is TOML with a line for each value, as `dump_config` writes it; what comes back can be loaded, too.
    """
    reasons = without_effect(tomllib.loads(text))
    kept = _without(text, [name for names in reasons.values() for name in names])
    told = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
    return f"{kept}\n# Left out, since without effect here: {told}\n"


def _without(text: str, names: Collection[str]) -> str:
    """Take settings and sections out of a TOML text, and the heads that nothing stands below any more."""
    section, head, lines = "", "", list[str]()
    for line in text.splitlines():
        if found := _HEAD.fullmatch(line.strip()):
            section, head = found[1].strip(), line
            continue
        path = [*section.split("."), line.partition("=")[0].strip()] if section else [line.partition("=")[0].strip()]
        if not line.strip() or any(".".join(path[:n]) in names for n in range(1, len(path) + 1)):
            continue
        if head:
            lines += ["", head] if lines else [head]
            head = ""
        lines.append(line)
    return "\n".join(lines)
