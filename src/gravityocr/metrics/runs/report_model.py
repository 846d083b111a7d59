"""What a score report shows, before it is a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gravityocr.metrics.runs.confidence import Interval
from gravityocr.metrics.runs.datasets import Note

Kind = Literal["text", "table", "formula", "page"]


@dataclass(frozen=True)
class ReportAxis:
    """One figure of the summary; without an `interval` nothing was scored, and `absent` says why."""

    name: str
    interval: Interval | None
    absent: str = "nothing was scored"
    main: bool = False


@dataclass(frozen=True)
class ReportSample:
    """One sample: `goodness` is 1 for a perfect one and None where it was not scored; `measure` names it.

    `badge` says what is wrong with the prediction's file, `image` is the picture's file.
    """

    id: str
    kind: Kind
    pred: str
    ref: str
    goodness: float | None
    measure: str = ""
    values: Mapping[str, float | None] = field(default_factory=dict)
    status: str = "ok"
    error: str | None = None
    badge: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    image: Path | None = None


@dataclass(frozen=True)
class BreakdownRow:
    """The scores of the samples that share one value of an attribute."""

    attribute: str
    value: str
    n: int
    scores: Mapping[str, float | None]


@dataclass(frozen=True)
class ModeRow:
    """A row on the way from the official figures to ours: figures, or what one mended fault adds to them."""

    label: str
    values: Mapping[str, float | None]
    is_change: bool = True
    n_pages: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class Report:
    """All that the page shows; `facts` are what was run in a few words, `footer` all of it."""

    title: str
    subtitle: str
    axes: Sequence[ReportAxis]
    samples: Sequence[ReportSample]
    breakdown: Sequence[BreakdownRow] = ()
    notes: Sequence[Note] = ()
    modes: Sequence[ModeRow] = ()
    warnings: Sequence[str] = ()
    facts: Sequence[str] = ()
    footer: Mapping[str, object] = field(default_factory=dict)


def number(value: float | None, top: float = 1.0, sign: bool = False) -> str:
    """Write a score for a reader: four digits behind the point of 0-1, two of 0-100, a dash for none."""
    if value is None or value != value:
        return "–"
    return f"{value:{'+' if sign else ''}.{2 if top > 1 else 4}f}"


def counted(n: int, noun: str) -> str:
    """Write a number with its noun: `1 page`, `2 pages`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def shortened(items: Sequence[str], n_shown: int = 5) -> str:
    """Join the first items and count the rest."""
    rest = len(items) - n_shown
    return ", ".join(items[:n_shown]) + (f", … {rest} more" if rest > 0 else "")
