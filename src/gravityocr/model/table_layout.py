"""Which rows and columns of a table go into which piece, and where its borders lie there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gravityocr.model.table_grid import GridCell

_MIN_COLUMN = 20  # px: an empty column
_WASTE = 1.5  # rows go into one piece while that does not make more to look at than this times the two apart


@dataclass(frozen=True)
class Block:
    """Some rows and columns of a table: `cells` by number, `x` (px) and `y` (strips) of the borders between them.

    The cells in `parted` show their strips from `first_strip` on.
    """

    rows: range
    columns: range
    cells: tuple[int, ...]
    x: tuple[int, ...]
    y: tuple[int, ...]
    first_strip: int = 0
    parted: frozenset[int] = frozenset()

    def box(self, cell: GridCell) -> tuple[int, int, int, int]:
        """Return left (px), top (strips), right and bottom of a cell in this block, cut at its borders."""
        left = max(cell.column - self.columns.start, 0)
        right = min(cell.column + cell.n_columns, self.columns.stop) - self.columns.start
        top = max(cell.row - self.rows.start, 0)
        bottom = min(cell.row + cell.n_rows, self.rows.stop) - self.rows.start
        return self.x[left], self.y[top], self.x[right], self.y[bottom]


class _Packer:
    """Lay out blocks of one table."""

    def __init__(
        self, cells: Sequence[GridCell], widths: Sequence[int], heights: Sequence[int], max_width: int, step: int
    ) -> None:
        self.cells, self.widths, self.heights = cells, widths, heights
        self.max_width, self.step = max_width, step
        self.in_row: dict[int, list[int]] = {}
        for n, cell in enumerate(cells):
            for row in range(cell.row, cell.row + cell.n_rows):
                self.in_row.setdefault(row, []).append(n)

    def is_spanned(self, row: int) -> bool:
        """Tell whether a cell reaches from the row above into this one."""
        return any(self.cells[n].row < row for n in self.in_row[row])

    def blocks(self, rows: range, n_columns: int) -> list[Block]:
        """Return the blocks of some rows: one, or several where they are too wide."""
        here = sorted({n for row in rows for n in self.in_row[row]})
        found: list[Block] = []
        start = 0
        while start < n_columns:
            stop = start + 1
            block = self.block(rows, range(start, stop), here)
            while stop < n_columns:
                wider = self.block(rows, range(start, stop + 1), here)
                if wider.x[-1] > self.max_width:
                    break
                block, stop = wider, stop + 1
            stop = self._better_end(start, stop, here, n_columns)
            block = self.block(rows, range(start, stop), here)
            found.append(block)
            start = stop
        return found

    def _better_end(self, start: int, stop: int, here: list[int], n_columns: int) -> int:
        """Return a boundary not far before `stop` that no cell crosses."""
        if stop == n_columns:
            return stop
        for at in range(stop, max(start + (stop - start) // 2, start), -1):
            if not any(self.cells[n].column < at < self.cells[n].column + self.cells[n].n_columns for n in here):
                return at
        return stop

    def block(self, rows: range, columns: range, here: list[int]) -> Block:
        """Return the layout of a block: columns as narrow, rows as low as their cells allow."""
        inside = [
            n for n in here
            if self.cells[n].column < columns.stop and self.cells[n].column + self.cells[n].n_columns > columns.start
        ]  # fmt: skip
        own = [n for n in inside if self.cells[n].row >= rows.start and self.cells[n].column >= columns.start]
        x = [_MIN_COLUMN] * len(columns)
        y = [1] * len(rows)
        for n in sorted(own, key=lambda n: (self.cells[n].n_columns, self.cells[n].n_rows)):
            cell = self.cells[n]
            first = cell.column - columns.start
            last = min(cell.column + cell.n_columns, columns.stop) - columns.start
            _widen(x, first, last, self.widths[n])
        for n in sorted(own, key=lambda n: self.cells[n].n_rows):
            cell = self.cells[n]
            first, last = cell.row - rows.start, min(cell.row + cell.n_rows, rows.stop) - rows.start
            y[last - 1] += max(0, self.heights[n] - sum(y[first:last]))
        return Block(rows, columns, tuple(own), _sums(x), _sums(y))

    def area(self, blocks: list[Block]) -> int:
        """Return how much the network has to look at."""
        return sum((-(-(b.x[-1] + 2) // self.step) * self.step) * b.y[-1] for b in blocks)


def _widen(sizes: list[int], first: int, last: int, least: int) -> None:
    missing = least - sum(sizes[first:last])
    for i in range(first, last):
        share = -(-missing // (last - i)) if missing > 0 else 0
        sizes[i] += share
        missing -= share


def _sums(sizes: list[int]) -> tuple[int, ...]:
    sums = [0]
    for size in sizes:
        sums.append(sums[-1] + size)
    return tuple(sums)


def pack(
    cells: Sequence[GridCell], n_rows: int, n_columns: int, widths: Sequence[int], heights: Sequence[int], *,
    max_width: int, max_rows: int, max_strips: int, step: int,
) -> list[Block]:  # fmt: skip
    """Return the blocks of a table from top to bottom; `widths` (px) and `heights` (strips) are those of its cells.

    Rows that a cell spans count as one of the `max_rows` that a block may have, where they fit together.
    """
    packer = _Packer(cells, widths, heights, max_width, step)
    blocks: list[Block] = []
    start = 0
    while start < n_rows:
        stop = start + 1
        chosen = packer.blocks(range(start, stop), n_columns)
        n_whole = 1
        while stop < n_rows:
            n_whole += not packer.is_spanned(stop)
            if n_whole > max_rows:
                break
            taller = packer.blocks(range(start, stop + 1), n_columns)
            alone = packer.area(packer.blocks(range(stop, stop + 1), n_columns))
            wasteful = packer.area(taller) > _WASTE * (packer.area(chosen) + alone)
            if max(b.y[-1] for b in taller) > max_strips or (wasteful and not packer.is_spanned(stop)):
                break
            chosen, stop = taller, stop + 1
        for block in chosen:
            blocks += _parted(block, heights, max_strips)
        start = stop
    return blocks


def _parted(block: Block, heights: Sequence[int], max_strips: int) -> list[Block]:
    """Return a row too tall for a piece in parts that show the next strips each."""
    if block.y[-1] <= max_strips:
        return [block]
    parted = frozenset(block.cells)
    parts = []
    for first in range(0, max(heights[n] for n in block.cells), max_strips):
        rows = min(max_strips, max(heights[n] for n in block.cells) - first)
        parts.append(Block(block.rows, block.columns, block.cells, block.x, (0, rows), first, parted))
    return parts
