"""Figures of crops as tables to read: one of quality with the readers side by side, one of decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Groups = Mapping[str, Mapping[str, Any]]
QUALITY = {
    "n_crops": "crops",
    "ned": "NED",
    "ned_median": "median",
    "ned_micro": "micro",
    "ned_folded": "folded",
    "ned_folded_median": "f.median",
    "ned_folded_micro": "f.micro",
    "teds": "TEDS",
    "teds_struct": "TEDS-S",
    "cdm": "CDM",
    "latex_ned": "LaTeX NED",
    "wall_seconds": "seconds",
}
DECODING = {
    "n_crops": "crops",
    "n_tokens": "tokens",
    "tpf": "TPF",
    "accepted": "accepted",
    "identical_to_ar": "= AR",
    "cut": "cut",
    "loops": "loops",
    "seconds": "network s",
    "ar_seconds": "AR s",
}
_DIGITS = {"n_crops": 0, "n_tokens": 0, "cut": 0, "tpf": 2, "accepted": 2, "seconds": 2, "ar_seconds": 2}
_DIGITS |= {"wall_seconds": 2, "loops": 3, "identical_to_ar": 3}


def format_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align columns, the text of the first column to the left and the rest to the right."""
    widths = [max(len(row[k]) for row in [heads, *rows]) for k in range(len(heads))]
    lines = [
        "  ".join(cell.ljust(width) if k == 0 else cell.rjust(width) for k, (cell, width) in enumerate(cells)).rstrip()
        for cells in (list(zip(row, widths, strict=True)) for row in [heads, *rows])
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def quality_table(readers: Mapping[str, Groups]) -> str:
    """Put the readers of each group under one another; a column that nobody has a figure for is left out."""
    names = sorted({name for groups in readers.values() for name in groups})
    found = [(name, who, groups[name]) for name in names for who, groups in readers.items() if name in groups]
    keys = [key for key in QUALITY if any(figures.get(key) is not None for _, _, figures in found)]
    rows = [[name, who, *(_cell(figures, key) for key in keys)] for name, who, figures in found]
    return format_table(["group", "reader", *(QUALITY[key] for key in keys)], rows)


def decoding_table(groups: Groups) -> str:
    """List the decode figures of every group."""
    rows = [[name, *(_cell(figures, key) for key in DECODING)] for name, figures in groups.items()]
    return format_table(["group", *DECODING.values()], rows)


def _cell(figures: Mapping[str, Any], key: str) -> str:
    value = figures.get(key)
    return "-" if value is None else f"{value:.{_DIGITS.get(key, 4)}f}"
