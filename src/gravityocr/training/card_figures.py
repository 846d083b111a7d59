"""The figures of a model card: those that a run's validation measured, further ones out of a file, no others."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from gravityocr.errors import InputError
from gravityocr.training.run_record import RunRecord

FEWEST_CROPS = 30
"""Below so many crops a figure says next to nothing."""
# The trainer's names, as the card spells them.
METRICS: Mapping[str, str] = {
    "n_crops": "crops",
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
_TPF = "TPF counts draft and verify forwards, not the prefill; greedy decoding by single tokens has 1."


def read_figures(file: Path) -> dict[str, float | str]:
    """Read further figures: a JSON object of names and numbers (or texts), nested ones joined by dots.

    *Raises*: InputError for anything else.
    """
    try:
        raw = json.loads(file.read_text(encoding="utf-8"), parse_constant=_no_number)
        found = dict(_flatten(file, "", raw)) if isinstance(raw, dict) else {}
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); give a JSON file") from error
    except RecursionError as error:
        raise InputError(f"{file} is nested too deeply; give an object of names and figures") from error
    except ValueError as error:
        raise InputError(f"{file} is not valid JSON: {error}") from error
    if not found:
        raise InputError(f"{file} must hold an object of names and figures")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no figure")


def _flatten(file: Path, prefix: str, raw: Mapping[str, Any]) -> list[tuple[str, float | str]]:
    found: list[tuple[str, float | str]] = []
    for name, value in raw.items():
        if isinstance(value, dict):
            found += _flatten(file, f"{prefix}{name}.", value)
        elif isinstance(value, (int, float, str)) and not isinstance(value, bool):
            found.append((" ".join(f"{prefix}{name}".replace("|", "/").split()), value))
        else:
            raise InputError(f"{file}: {prefix}{name} is {value!r}; figures are numbers or texts")
    return found


def validated(record: RunRecord | None) -> dict[str, dict[str, float]]:
    """Return the figures of a run's last validation by kind of crop, `text` first."""
    values = {
        name.removeprefix("val_"): value
        for name, value in (record.validation if record is not None else {}).items()
        if name.startswith("val_") and isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    kinds = {
        name.removeprefix(known).removeprefix("_")
        for name in values
        for known in METRICS
        if name == known or name.startswith(f"{known}_")
    }
    rows: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        kind = next((one for one in sorted(kinds, key=len, reverse=True) if one and name.endswith(f"_{one}")), "")
        rows.setdefault(kind or "text", {})[name.removesuffix(f"_{kind}") if kind else name] = value
    return rows


def figures_section(record: RunRecord | None, further: Mapping[str, float | str]) -> str:
    """Return what a card says of figures."""
    parts, rows = [], validated(record)
    if record is not None and rows:
        parts.append(f"Held-out crops, the run's last validation (step {record.validation.get('step', 'unknown')}):")
        parts.append(_validation_table(rows))
    if further:
        parts.append("Measured apart:")
        parts.append(table(["figure", "value"], [[name, number(value)] for name, value in further.items()]))
    return "\n\n".join([*parts, _TPF]) if parts else _NO_FIGURES


def _validation_table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Return a row for each kind of crop and a column for each figure that one of them has."""
    columns = [*METRICS, *sorted({metric for row in rows.values() for metric in row} - METRICS.keys())]
    columns = [metric for metric in columns if any(metric in row for row in rows.values())]
    heads = ["kind", *(METRICS.get(metric, metric) for metric in columns)]
    cells = [[kind, *(_cell(metric, row) for metric in columns)] for kind, row in rows.items()]
    return table(heads, cells)


def _cell(metric: str, row: Mapping[str, float]) -> str:
    if metric not in row:
        return ""
    few = metric == "n_crops" and row[metric] < FEWEST_CROPS
    return number(row[metric]) + (" (too few to tell)" if few else "")


def card_has_figures(text: str) -> bool:
    """Tell whether a card's section of figures has a table row with a number in it, counts of crops apart."""
    found = re.search(r"^## Figures$(.*?)(?=^#{1,2} |\Z)", text, re.MULTILINE | re.DOTALL)
    rows = [_cells(line) for line in (found[1] if found else "").splitlines() if line.startswith("|")]
    heads = rows[0] if rows else []
    return any(
        re.match(r"[-+]?\d", cell) and (at >= len(heads) or heads[at] != METRICS["n_crops"])
        for row in rows[2:]
        for at, cell in enumerate(row)
    )


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def number(value: float | str) -> str:
    """Return a figure as a cell of a table."""
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 1e4 else str(value).replace("|", "\\|")


def table(heads: Sequence[str], rows: Collection[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
