"""The model card of a checkpoint: what it was trained on, how, and the figures that were measured, no others."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gravityocr.errors import InputError
from gravityocr.model.checkpoint_files import read_json
from gravityocr.model.hub import HUB_ID

CARD_FILE = "README.md"
_GROUP = ("source", "task", "origin")  # what pool.json counts by
LOG_FILE, CONFIG_FILE = "log.jsonl", "config.toml"
# The trainer's names, as the card spells them.
METRICS: Mapping[str, str] = {
    "ned": "edit distance (NED)",
    "teds": "TEDS",
    "cdm": "CDM",
    "tpf": "tokens a forward (TPF)",
    "accepted": "accepted drafts a round",
    "identical": "identical with AR",
    "n_decoded": "decoded tokens",
    "n_forwards": "forwards",
}
_NO_FIGURES = "No figures were measured for these weights."
# Where the folders of one machine begin: a card is published.
_ABSOLUTE = re.compile(r'"(?:/|~/|[A-Za-z]:[\\/])[^"\n]*"')
_USE = """```python
from gravityocr import GravityOCR

print(GravityOCR.from_pretrained("FOLDER").parse("paper.pdf").markdown)
```

Stock transformers loads the folder as an ordinary `GlmOcrForConditionalGeneration` and decodes it token by token.
`block_diffusion.json` names the mask token and the block size; the drafts need it."""


@dataclass(frozen=True)
class RunRecord:
    """What the folder of a training run says: its resolved config, and the last records of its log."""

    config_text: str
    config: dict[str, Any]
    last: dict[str, Any]
    validation: dict[str, Any]


def read_run(folder: Path) -> RunRecord:
    """Read a run's folder.

    *Raises*: InputError where it lacks config.toml or log.jsonl, or they are broken.
    """
    try:
        text = (folder / CONFIG_FILE).read_text(encoding="utf-8")
        config = tomllib.loads(text)
        lines = (folder / LOG_FILE).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        what = f"{folder} is no folder of a training run ({error.strerror}: {error.filename})"
        raise InputError(f"{what}; give the one that holds {CONFIG_FILE} and {LOG_FILE}") from error
    except ValueError as error:  # TOML's errors and UnicodeDecodeError
        raise InputError(f"{folder / CONFIG_FILE} or {LOG_FILE} is broken: {error}") from error
    records = [record for line in lines if (record := _record(line)) is not None]
    validations = [record for record in records if any(name.startswith("val_") for name in record)]
    return RunRecord(text, config, records[-1] if records else {}, validations[-1] if validations else {})


def read_figures(file: Path) -> dict[str, float | str]:
    """Read further figures: a JSON object of names and numbers (or texts), nested ones joined by dots.

    *Raises*: InputError for anything else.
    """
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); give a JSON file") from error
    except ValueError as error:
        raise InputError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(raw, dict) or not raw:
        raise InputError(f"{file} must hold an object of names and figures")
    return dict(_flatten(file, "", raw))


def write_card(checkpoint: Path, run: Path | None = None, figures: Path | None = None, license_id: str = "other",
               title: str | None = None) -> Path:  # fmt: skip
    """Write the card of a checkpoint into its folder and return the file.

    What it says of the training is read from the run's folder, the figures from the last validation in its log and
    from `figures`; where there are none, it says so.

    *Raises*: CheckpointError where the folder is no checkpoint; InputError where the run or the figures are broken.
    """
    diffusion = read_json(checkpoint / "block_diffusion.json")
    record = read_run(run) if run is not None else None
    base = _base_model(diffusion, record)
    sections = [
        _front_matter(license_id, base),
        f"# {title or (run or checkpoint).resolve().name}",
        _what_it_is(diffusion, base, record),
        "## Figures",
        _figures(record, read_figures(figures) if figures is not None else {}),
        "## Trained on",
        _data(record),
        "## Recipe",
        _recipe(record),
        "## Use",
        _USE,
    ]
    file = checkpoint / CARD_FILE
    part = checkpoint / f".{CARD_FILE}.part"
    part.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    part.replace(file)
    return file


def card_has_figures(text: str) -> bool:
    """Tell whether a card's section of figures has a table row with a number in it."""
    found = re.search(r"^## Figures$(.*?)(?=^#{1,2} |\Z)", text, re.MULTILINE | re.DOTALL)
    rows = [line for line in (found[1] if found else "").splitlines() if line.startswith("|")]
    return any(re.search(r"\|\s*[-+]?\d", row) for row in rows[2:])


def _record(line: str) -> dict[str, Any] | None:
    """Read a line of a log; None for one that a stopped run left unfinished."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _flatten(file: Path, prefix: str, raw: Mapping[str, Any]) -> list[tuple[str, float | str]]:
    found: list[tuple[str, float | str]] = []
    for name, value in raw.items():
        if isinstance(value, dict):
            found += _flatten(file, f"{prefix}{name}.", value)
        elif isinstance(value, (int, float, str)) and not isinstance(value, bool):
            found.append((f"{prefix}{name}", value))
        else:
            raise InputError(f"{file}: {prefix}{name} is {value!r}; figures are numbers or texts")
    return found


def _base_model(diffusion: Mapping[str, Any], record: RunRecord | None) -> str | None:
    """Return the name of the checkpoint that was adapted; a path of one machine says nothing but its last part."""
    named = diffusion.get("base")
    if not isinstance(named, str) and record is not None:
        named = record.config.get("train", {}).get("base")
    if not isinstance(named, str) or named == "none":
        return None
    return named if HUB_ID.fullmatch(named) else Path(named).name


def _front_matter(license_id: str, base: str | None) -> str:
    lines = ["---", f"license: {license_id}"]
    if base is not None and HUB_ID.fullmatch(base):
        lines.append(f"base_model: {base}")
    lines += ["pipeline_tag: image-to-text", "library_name: transformers", "tags:"]
    return "\n".join([*lines, "- ocr", "- block-diffusion", "- self-speculative-decoding", "---"])


def _what_it_is(diffusion: Mapping[str, Any], base: str | None, record: RunRecord | None) -> str:
    tasks = diffusion.get("tasks") or ["text", "table", "formula"]
    what = f"A GLM-OCR network that reads {', '.join(tasks)}, drafts blocks of {diffusion.get('bd_size')} tokens"
    what += " by diffusion and verifies them by its own autoregressive path."
    if base is not None:
        return f"{what} Adapted from {base}."
    if record is None:
        return what
    start = record.config.get("train", {}).get("start_from", "none")
    return f"{what} " + (
        "Trained from random weights." if start == "none" else f"Trained from the weights of {Path(start).name}."
    )


def _figures(record: RunRecord | None, further: Mapping[str, float | str]) -> str:
    parts = []
    values = {
        name.removeprefix("val_"): value
        for name, value in (record.validation if record is not None else {}).items()
        if name.startswith("val_") and isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    if record is not None and values:
        parts.append(f"Held-out crops, the run's last validation (step {record.validation.get('step', 'unknown')}):")
        parts.append(_validation_table(values))
    if further:
        parts.append("Measured apart:")
        parts.append(_table(["figure", "value"], [[name, _number(value)] for name, value in further.items()]))
    if not parts:
        return _NO_FIGURES
    where = "TPF counts draft and verify forwards, not the prefill; greedy decoding by single tokens has 1."
    return "\n\n".join([*parts, where])


def _validation_table(values: Mapping[str, float]) -> str:
    """Return a row for each kind of crop and a column for each figure that one of them has."""
    named = [(known, name.removeprefix(known).removeprefix("_")) for name in values for known in METRICS
             if name == known or name.startswith(f"{known}_")]  # fmt: skip
    kinds = {kind for _, kind in named}
    cells: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        kind = next((one for one in sorted(kinds, key=len, reverse=True) if one and name.endswith(f"_{one}")), "")
        metric = name.removesuffix(f"_{kind}") if kind else name
        cells.setdefault(kind or "text", {})[metric] = value
    columns = [*METRICS, *sorted({metric for row in cells.values() for metric in row} - METRICS.keys())]
    columns = [metric for metric in columns if any(metric in row for row in cells.values())]
    heads = ["crops", *(METRICS.get(metric, metric) for metric in columns)]
    rows = [[kind, *(_number(row[one]) if one in row else "" for one in columns)] for kind, row in cells.items()]
    return _table(heads, rows)


def _data(record: RunRecord | None) -> str:
    if record is None:
        return "Not recorded: the card was written without the folder of a training run."
    data = record.config.get("data", {})
    pool = data.get("pool", "none")
    if pool == "none":
        return "Synthetic crops, rendered by this project's own generators (`gravityocr data synth`)."
    told = f"The pool `{Path(pool).name}` of `gravityocr data pool`."
    groups = _pool_groups(Path(pool) / "pool.json")
    if not groups:
        return told
    rows = [[*(str(group.get(name, "")) for name in _GROUP), str(group["train"])] for group in groups]
    total = sum(group["train"] for group in groups)
    return f"{told} {total} regions, by source, task and origin of the target:\n\n{_table([*_GROUP, 'regions'], rows)}"


def _pool_groups(file: Path) -> list[dict[str, Any]]:
    """Return the groups of a pool's report that training reads; none where there is no report."""
    if not file.is_file():
        return []
    groups = read_json(file, "make the pool again").get("groups")
    if not isinstance(groups, list):
        raise InputError(f"{file} has no groups; make the pool again")
    return [one for one in groups if isinstance(one, dict) and type(one.get("train")) is int and one["train"] > 0]


def _recipe(record: RunRecord | None) -> str:
    if record is None:
        return "Not recorded: the card was written without the folder of a training run."
    names = {"step": "steps", "samples": "samples", "n_tokens": "forward tokens", "elapsed_s": "seconds"}
    done = [f"{_number(record.last[name])} {word}" for name, word in names.items() if name in record.last]
    said = f"Ran for {', '.join(done)}. " if done else ""
    return f"{said}The resolved config, for `gravityocr train`:\n\n```toml\n{_without_folders(record.config_text)}\n```"


def _without_folders(text: str) -> str:
    """Keep only the last part of paths that begin at a root."""
    return _ABSOLUTE.sub(lambda found: '"' + re.split(r"[\\/]", found[0].strip('"'))[-1] + '"', text.strip())


def _number(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 1e4 else str(value).replace("|", "\\|")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
