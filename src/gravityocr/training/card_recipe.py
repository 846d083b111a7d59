"""What a model card says of data and recipe: the pool and what of it was left out, the settings, and their changes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from gravityocr.config import NONE_WORD
from gravityocr.errors import InputError
from gravityocr.model.checkpoint_files import read_json
from gravityocr.training.card_figures import number, table
from gravityocr.training.corpora.region_shards import RegionFile, region_files
from gravityocr.training.effective_settings import effective_toml
from gravityocr.training.losses import LossConfig
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.optimizer import OptimizerConfig, Part
from gravityocr.training.pool_tokens import SAMPLE_POOL, pool_folder
from gravityocr.training.run_record import RunRecord, reason_kind

UNKNOWN = "Not recorded: the card was written without the folder of a training run."
_GROUP = ("source", "task", "origin")  # what pool.json counts by
# Where the folders of one machine begin: a card is published.
_ROOT = r"(?:/|~/|[A-Za-z]:[\\/])"
_ABSOLUTE = re.compile(rf'"{_ROOT}[^"\n]*"')


def data_section(record: RunRecord | None) -> str:
    """Return what a card says of the data.

    *Raises*: InputError where the pool's report is broken.
    """
    if record is None:
        return UNKNOWN
    pool = record.section("data").get("pool", NONE_WORD)
    if pool == NONE_WORD:
        return "Synthetic crops, rendered by this project's own generators (`gravityocr data synth`)."
    maker = "that travels with the package" if pool == SAMPLE_POOL else "of `gravityocr data pool`"
    told = [f"The pool `{_last_part(pool)}` {maker}."]
    folder = pool_folder(pool)
    groups, n_skipped = _pool_groups(folder / "pool.json"), _skipped_groups(folder, record)
    heads = [*_GROUP, "regions"] + (["left out"] if n_skipped else [])
    rows = []
    for group in groups:
        key = tuple(str(group.get(name, "")) for name in _GROUP)
        rows.append([*key, str(group["train"])] + ([str(n_skipped[key])] if n_skipped else []))
    total = sum(group["train"] for group in groups)
    samples = record.last.get("samples")
    if total:
        told[0] += f" {total} regions, by source, task and origin of the target:"
        told.append(table(heads, rows))
    if total and isinstance(samples, int):
        told.append(f"The run drew {samples} samples, {samples / total:.3g} times the pool.")
    if record.skipped:
        told.append(_left_out(record))
    return "\n\n".join(told)


def _pool_groups(file: Path) -> list[dict[str, Any]]:
    """Return the groups of a pool's report that training reads; none where there is no report."""
    if not file.is_file():
        return []
    groups = read_json(file, "make the pool again").get("groups")
    if not isinstance(groups, list):
        raise InputError(f"{file} has no groups; make the pool again")
    return [one for one in groups if isinstance(one, dict) and type(one.get("train")) is int and one["train"] > 0]


def _skipped_groups(pool: Path, record: RunRecord) -> Counter[tuple[str, ...]]:
    """Count the regions that were left out by group, where the pool is still here."""
    counts: Counter[tuple[str, ...]] = Counter()
    if not record.skipped or not (pool / "train").is_dir():
        return counts
    for file in region_files(pool / "train"):
        columns = RegionFile(file).columns("region_id", "source", "task", "target_origin")
        for name, *key in zip(*columns.values(), strict=True):
            if name in record.skipped:
                counts[tuple(key)] += 1
    return counts


def _left_out(record: RunRecord) -> str:
    reasons = Counter(map(reason_kind, record.skipped.values()))
    told = "; ".join(f"{n}: {reason}" for reason, n in reasons.most_common(5))
    rest = f"; and {len(reasons) - 5} other reasons" if len(reasons) > 5 else ""
    return f"{len(record.skipped)} regions of the pool were left out at some step: {told}{rest}."


def recipe_section(record: RunRecord | None) -> str:
    """Return what a card says of the recipe: its length, the settings that matter, and the resolved config.

    *Raises*: ConfigError where a setting of the run is out of range.
    """
    if record is None:
        return UNKNOWN
    names = {"step": "steps", "samples": "samples", "elapsed_s": "seconds"}
    done = [f"{number(record.last[name])} {word}" for name, word in names.items() if name in record.last]
    parts = [f"Ran for {', '.join(done)}. {_settings(record)}" if done else _settings(record)]
    if record.changes:
        changes = [f"- from step {step} on: {_bare_change(one)}" for step, changed in record.changes for one in changed]
        parts.append("### Changed on the way\n\n" + "\n".join(changes))
        parts.append("### Config")
    text = effective_toml(record.config_text).strip()
    parts.append(f"The {'last' if record.changes else 'resolved'} config, for `gravityocr train`{_places(text)}:")
    parts.append(f"```toml\n{_ABSOLUTE.sub(lambda found: _quoted(found[0]), text)}\n```")
    return "\n\n".join(parts)


def _settings(record: RunRecord) -> str:
    """Say in sentences what was trained, how fast, and on which loss."""
    optimizer = _read(OptimizerConfig, record.section("optimizer"))
    loss = _read(LossConfig, record.section("loss"))
    noise = _read(NoiseConfig, record.section("noise"))
    frozen = record.section("train").get("freeze", [])
    rates = ", ".join(f"{part} {optimizer.rate(part):g}" for part in get_args(Part) if part not in frozen)
    held = f"frozen: {', '.join(frozen)}" if frozen else "no part is frozen"
    fill = f"{noise.n_eos} EOS behind each response"
    return (
        f"Peak learning rates ({optimizer.kind}): {rates}; {held}. AR weight {loss.ar_weight:g}, diffusion weight "
        f"(lambda) {loss.diffusion_weight:g}; blocks of {noise.block_size} tokens, mask schedule "
        f"{noise.mask_schedule}, {fill}."
    )


def _read(cls: type[Any], section: dict[str, Any]) -> Any:
    """Build a section of the settings from TOML values; what it does not say, or no longer means, is the default."""
    known = {field.name for field in fields(cls)}
    plain = {name: None if value == NONE_WORD else value for name, value in section.items() if name in known}
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()})


def _places(text: str) -> str:
    """Say which names stand for folders of the machine that the run was on."""
    names = dict.fromkeys(f"`{_last_part(found.strip(chr(34)))}`" for found in _ABSOLUTE.findall(text))
    if not names:
        return ""
    word = "stands for a folder" if len(names) == 1 else "stand for folders"
    return f" ({', '.join(names)} {word} of the machine that it ran on: placeholders, name your own)"


def _quoted(path: str) -> str:
    return f'"{_last_part(path.strip(chr(34)))}"'


def _last_part(path: str) -> str:
    """Return the last part of a path that begins at a root; any other text as it is."""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1] if re.match(_ROOT, path) else path


def _bare_change(change: str) -> str:
    """Return a change of a setting without the folders of one machine."""
    name, colon, values = change.partition(": ")
    return name + colon + " -> ".join(_last_part(value) for value in values.split(" -> "))
