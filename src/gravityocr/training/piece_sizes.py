"""How regions compare with the pieces that a small checkpoint reads: training takes regions whole and cuts none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gravityocr.document import Task
from gravityocr.model.checkpoint import BlockDiffusion
from gravityocr.training.corpora.region_shards import RegionFile

SIZE_COLUMNS = ("task", "width_px", "height_px")
TOLERATED_SHARE = 0.05
"""Share of a task's regions that may be larger than its pieces without a word."""


@dataclass(frozen=True)
class PieceLimit:
    """The largest piece of one task. *Units*: pixels; `cell_px` is a vision cell."""

    max_width_px: int
    max_height_px: int
    cell_px: int

    def holds(self, width_px: int, height_px: int) -> bool:
        """Tell whether a crop has no more vision cells a side than the largest piece."""
        slack = self.cell_px // 2
        return width_px <= self.max_width_px + slack and height_px <= self.max_height_px + slack


@dataclass(frozen=True)
class PieceFit:
    """How many regions of one task there are, and how many are larger than the largest piece of the checkpoint."""

    n_regions: int
    n_larger: int
    limit: PieceLimit

    @property
    def fits(self) -> bool:
        """Whether no more regions than tolerated are larger."""
        return self.n_larger <= TOLERATED_SHARE * self.n_regions


def piece_limits(diffusion: BlockDiffusion) -> dict[Task, PieceLimit]:
    """Return the largest pieces by task, where the checkpoint reads its crops in pieces alone."""
    limits: dict[Task, PieceLimit] = {}
    if (lines := diffusion.pieces) is not None:
        limits["text"] = PieceLimit(lines.max_width_px, lines.line_height_px, lines.cell_px)
    if (tables := diffusion.table_pieces) is not None:
        height_px = tables.max_strips * tables.line_height_px
        limits["table"] = PieceLimit(tables.max_width_px, height_px, tables.cell_px)
    if (formulas := diffusion.formula_pieces) is not None:
        limits["formula"] = PieceLimit(formulas.max_width_px, formulas.max_height_px, formulas.cell_px)
    return limits


def oversized(columns: Mapping[str, Sequence[Any]], diffusion: BlockDiffusion) -> dict[Task, PieceFit]:
    """Count the regions that are larger than the checkpoint's pieces, by task; tasks without pieces are left out.

    `columns` are SIZE_COLUMNS of a region file.
    """
    fits: dict[Task, PieceFit] = {}
    for task, limit in piece_limits(diffusion).items():
        rows = zip(*(columns[name] for name in SIZE_COLUMNS), strict=True)
        held = [limit.holds(width_px, height_px) for kind, width_px, height_px in rows if kind == task]
        if held:
            fits[task] = PieceFit(len(held), held.count(False), limit)
    return fits


def oversized_regions(files: Iterable[RegionFile], diffusion: BlockDiffusion) -> dict[Task, PieceFit]:
    """Count the regions of some files that are larger than the checkpoint's pieces, by task."""
    total: dict[Task, PieceFit] = {}
    if not piece_limits(diffusion):
        return total
    for file in files:
        for task, fit in oversized(file.columns(*SIZE_COLUMNS), diffusion).items():
            known = total.get(task, PieceFit(0, 0, fit.limit))
            total[task] = PieceFit(known.n_regions + fit.n_regions, known.n_larger + fit.n_larger, fit.limit)
    return total


def oversized_warning(fits: Mapping[Task, PieceFit]) -> str | None:
    """Return what to tell of regions that a checkpoint of pieces cannot read as they are; None where they fit."""
    told = [
        f"{fit.n_larger:,} of {fit.n_regions:,} {task} regions are larger than the pieces this checkpoint reads "
        f"(at most {fit.limit.max_width_px} x {fit.limit.max_height_px} px)"
        for task, fit in fits.items()
        if not fit.fits
    ]
    return f"training does not cut crops: {', '.join(told)}; see docs/training.md" if told else None
