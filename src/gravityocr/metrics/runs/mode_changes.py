"""The way from the official figures to ours, fault by fault, so that the changes add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gravityocr.metrics.runs.report_model import ModeRow, shortened

Figures = Mapping[str, float | None]
_OVERALL = {"text_edit": -100 / 3, "cdm": 100 / 3, "teds": 100 / 3}
_ROUNDING = 1e-12


def mode_rows(official: Figures, ours: Figures, found: Sequence[Mapping[str, Any]]) -> list[ModeRow]:
    """Return the official figures, what mending each fault alone changes, the rest, and ours; nulls are left out.

    The rest is what faults do together, and for CDM also what the faults of matching do, whose effect alone is not
    computed.
    """
    axes = [axis for axis in ours if official.get(axis) is not None and ours[axis] is not None]
    rows = [ModeRow("official", {axis: official[axis] for axis in axes}, is_change=False)]
    for one in found:
        effect = with_overall(one["effect"])
        changes = {axis: effect.get(axis, 0.0) for axis in axes}
        pages = shortened(one["pages"]) if one["n_pages"] <= len(one["pages"]) else _cut(one)
        rows.append(ModeRow(one["official"], changes, n_pages=one["n_pages"], detail=f"{one['fault']}: {pages}"))
    if found:
        rest = interaction(official, ours, found)
        rows.append(ModeRow("interaction of faults", {axis: rest.get(axis, 0.0) for axis in axes}))
    return [*rows, ModeRow("ours", {axis: ours[axis] for axis in axes}, is_change=False)]


def _cut(one: Mapping[str, Any]) -> str:
    shown = one["pages"][:5]
    return f"{', '.join(shown)}, … {one['n_pages'] - len(shown)} more"


def interaction(official: Figures, ours: Figures, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return how far the effects of the faults, each mended alone, miss the difference of the modes."""
    rest = {}
    for axis, value in ours.items():
        before = official.get(axis)
        if value is None or before is None:
            continue
        change = value - before - sum(with_overall(one["effect"]).get(axis, 0.0) for one in found)
        rest[axis] = 0.0 if abs(change) < _ROUNDING * max(1.0, abs(value)) else change
    return rest


def with_overall(effect: Mapping[str, float]) -> dict[str, float]:
    """Return the effects on the axes and the one on Overall that follows from them."""
    return {**effect, "overall": sum(weight * effect.get(axis, 0.0) for axis, weight in _OVERALL.items())}
