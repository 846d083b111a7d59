"""Plans of tables: scientific ones with grouped heads, texts, invoices, schedules, matrices, real structures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gravityocr.training.synthetic.corpus import Corpus
from gravityocr.training.synthetic.table_model import Cell, Kind, Run, Table, parse_runs
from gravityocr.training.synthetic.table_values import Draw, Values, chance, date, pick

_MAX_COLUMNS = 12
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MATRIX_MARKS = (("x", ""), ("yes", "no"), ("Yes", "No"), ("+", "−"), ("•", ""), ("Y", "N"), ("+", "-"), ("x", "–"))


@dataclass(frozen=True)
class _Column:
    head: str
    draw: Draw
    kind: Kind


class _Grid:
    """Collect cells; places that no cell covers become empty cells at the end."""

    def __init__(self, n_columns: int) -> None:
        self.n_columns = n_columns
        self.n_rows = 0
        self.n_head = 0
        self._cells: list[Cell] = []

    def put(
        self, row: int, column: int, text: str, kind: Kind, span: tuple[int, int] = (1, 1), indent: int = 0
    ) -> None:
        """Add a cell; `span` is (rows, columns)."""
        self._cells.append(Cell(row, column, *span, parse_runs(text), kind, indent))
        self.n_rows = max(self.n_rows, row + span[0])

    def table(self, source: str) -> Table:
        """Return the finished table."""
        covered = {
            (row, column)
            for cell in self._cells
            for row in range(cell.row, cell.row + cell.n_rows)
            for column in range(cell.column, cell.column + cell.n_columns)
        }
        empty = [
            Cell(row, column, kind="head" if row < self.n_head else "text")
            for row in range(self.n_rows)
            for column in range(self.n_columns)
            if (row, column) not in covered
        ]
        cells = tuple(sorted([*self._cells, *empty], key=lambda cell: (cell.row, cell.column)))
        return Table(self.n_rows, self.n_columns, self.n_head, cells, source)


class TableContent:
    """Compose tables; every table depends on its generator only."""

    def __init__(self, corpus: Corpus, pool: Sequence[Table] = ()) -> None:
        """Take the running text, and the harvested tables of the same split."""
        self._values = Values(corpus)
        self._pool = pool
        self._plans: tuple[tuple[float, Callable[[np.random.Generator], Table]], ...] = (
            (0.50, self._scientific),
            (0.15, self._texts),
            (0.04, self._invoice),
            (0.03, self._schedule),
            (0.05, self._matrix),
            (0.05, self._word_list),
            (0.18, self._harvested if pool else self._texts),
        )

    def table(self, rng: np.random.Generator) -> Table:
        """Return one table."""
        shares = np.array([share for share, _ in self._plans])
        plan = self._plans[int(rng.choice(len(self._plans), p=shares / shares.sum()))][1]
        return plan(rng)

    def caption(self, rng: np.random.Generator) -> str:
        """Return a line as it stands above or below a table."""
        text = self._values.words(rng, 3, 14)
        roll = rng.random()
        if roll < 0.4:
            return f"Table {rng.integers(1, 12)}{pick(rng, ('.', ':', '', ' –'))} {text}"
        return f"{pick(rng, ('* ', 'a ', 'Note: ', '1 ', 'Abbreviations: '))}{text}" if roll < 0.7 else text

    def _columns(self, rng: np.random.Generator, count: int, words: float) -> list[_Column]:
        columns = []
        for _ in range(count):
            is_word = chance(rng, words)
            head, draw = (self._values.word_column if is_word else self._values.number_column)(rng)
            columns.append(_Column(head, draw, "text" if is_word else "number"))
        return columns

    def _scientific(self, rng: np.random.Generator) -> Table:
        """Compose a stub column, columns of numbers under single or grouped heads, and rows in groups."""
        n_stubs = 2 if chance(rng, 0.15) else 1
        words = float(rng.choice((0.0, 0.15, 0.5)))
        if chance(rng, 0.55):
            columns = self._columns(rng, int(rng.integers(1, 7)) + int(rng.integers(0, 3)), words)
            groups: list[int] = [0] * len(columns)
        else:
            columns, groups = self._grouped_columns(rng, words)
        columns = columns[: _MAX_COLUMNS - n_stubs]
        groups = groups[: len(columns)]
        grid = _Grid(n_stubs + len(columns))
        self._put_heads(rng, grid, n_stubs, columns, groups)
        self._put_body(rng, grid, n_stubs, columns)
        return grid.table("scientific")

    def _grouped_columns(self, rng: np.random.Generator, words: float) -> tuple[list[_Column], list[int]]:
        """Return columns, and for each the number of its group: 0 for none, neighbours of equal number together."""
        columns, groups = [], []
        same = chance(rng, 0.7)
        size = int(rng.integers(2, 5))
        kinds = self._columns(rng, size, words)
        for number in range(1, int(rng.integers(1, 5)) + 1):
            if not same:
                kinds = self._columns(rng, int(rng.integers(2, 5)), words)
            columns += kinds
            groups += [number] * len(kinds)
        for column in self._columns(rng, int(rng.choice((0, 0, 1, 2))), words):
            place = int(rng.choice((0, len(columns))))
            columns.insert(place, column)
            groups.insert(place, 0)
        return columns, groups

    def _put_heads(
        self, rng: np.random.Generator, grid: _Grid, n_stubs: int, columns: list[_Column], groups: list[int]
    ) -> None:
        values = self._values
        deep = any(groups)
        top = 1 if deep and chance(rng, 0.15) else 0
        depth = top + (2 if deep else 1)
        grid.n_head = depth
        spanning = chance(rng, 0.6)
        row_of_single = 0 if spanning or chance(rng, 0.5) else depth - 1
        height = depth if spanning else 1
        for stub in range(n_stubs):
            text = values.head(rng) if chance(rng, 0.7) else ""
            grid.put(row_of_single, stub, text, "head", (height, 1))
        if top:
            inside = [n_stubs + i for i, group in enumerate(groups) if group]
            grid.put(0, inside[0], values.group(rng), "head", (1, inside[-1] - inside[0] + 1))
        start = 0
        for i, (column, group) in enumerate(zip(columns, groups, strict=True)):
            if not group:
                grid.put(row_of_single, n_stubs + i, column.head, "head", (height, 1))
                continue
            grid.put(depth - 1, n_stubs + i, column.head, "head")
            if i + 1 == len(groups) or groups[i + 1] != group:
                start = groups.index(group)
                grid.put(depth - 2, n_stubs + start, values.group(rng), "head", (1, i + 1 - start))

    def _put_body(self, rng: np.random.Generator, grid: _Grid, n_stubs: int, columns: list[_Column]) -> None:
        values, width = self._values, n_stubs + len(columns)
        n_rows = int(rng.integers(2, 9)) + int(rng.choice((0, 0, 4, 10)))
        form = pick(rng, ("plain", "plain", "plain", "groups", "groups", "sections", "merged"))
        empty, dash = float(rng.choice((0.0, 0.0, 0.05, 0.25))), pick(rng, ("", "–", "-", "—", "N/A", "."))
        row, last = grid.n_head, grid.n_head + n_rows
        while row < last:
            block = min(int(rng.integers(2, 6)), last - row)
            if form == "sections" or (form == "groups" and chance(rng, 0.1)):
                mark = pick(rng, ("", "!", "~"))
                text = values.label(rng)
                text = f"{mark}{{{text}}}" if mark and "{" not in text else text
                grid.put(row, 0, text, "section", (1, width))
                row += 1
            elif form == "groups":
                grid.put(row, 0, values.label(rng), "stub")
                if chance(rng, 0.4):
                    grid.put(row, width - 1, columns[-1].draw(rng), columns[-1].kind)
                row += 1
            elif form == "merged" and n_stubs > 1 and block > 1:
                grid.put(row, 0, values.label(rng), "stub", (block, 1))
            for r in range(row, row + block):
                indent = int(form == "groups" or (form == "sections" and chance(rng, 0.5)))
                merged = form == "merged" and block > 1 and n_stubs > 1
                for stub in range(int(merged), n_stubs):
                    grid.put(r, stub, values.label(rng), "stub", indent=indent if stub == 0 else 0)
                for i, column in enumerate(columns, n_stubs):
                    text = dash if chance(rng, empty) else column.draw(rng)
                    grid.put(r, i, text, column.kind)
            row += block
        if chance(rng, 0.12):
            grid.put(row, 0, pick(rng, ("Total", "!{Total}", "Overall", "Mean", "Sum")), "stub", (1, n_stubs))
            for i, column in enumerate(columns, n_stubs):
                grid.put(row, i, column.draw(rng), column.kind)

    def _texts(self, rng: np.random.Generator) -> Table:
        """Compose columns of phrases and sentences, with or without merged cells in the first columns."""
        values = self._values
        n_columns = int(rng.integers(2, 6))
        grid = _Grid(n_columns)
        drawers: list[Draw] = [lambda rng: values.words(rng, 1, 4)]
        for _ in range(n_columns - 1):
            roll = rng.random()
            if roll < 0.5:
                drawers.append(values.sentence)
            elif roll < 0.75:
                drawers.append(lambda rng: values.words(rng, 1, 6))
            else:
                drawers.append((values.word_column if roll < 0.88 else values.number_column)(rng)[1])
        if chance(rng, 0.85):
            grid.n_head = 1
            for column in range(n_columns):
                grid.put(0, column, values.head(rng), "head")
        merged = chance(rng, 0.25)
        row = grid.n_head
        for _ in range(int(rng.integers(2, 8))):
            block = int(rng.integers(1, 4)) if merged else 1
            grid.put(row, 0, drawers[0](rng), "text", (block, 1))
            for r in range(row, row + block):
                for column in range(1, n_columns):
                    grid.put(r, column, "" if chance(rng, 0.04) else drawers[column](rng), "text")
            row += block
        return grid.table("texts")

    def _invoice(self, rng: np.random.Generator) -> Table:
        values, sign = self._values, pick(rng, ("$", "€", "£", ""))
        heads = ["Description", pick(rng, ("Qty", "Quantity", "Units")), "Unit price", pick(rng, ("Amount", "Total"))]
        heads = ([pick(rng, ("No.", "#", "Item", "Date"))] if chance(rng, 0.5) else []) + heads
        grid = _Grid(len(heads))
        grid.n_head = 1
        for column, head in enumerate(heads):
            grid.put(0, column, head, "head")
        form, n_lines = int(rng.integers(1, 7)), int(rng.integers(2, 9))
        for row in range(1, n_lines + 1):
            count, price = int(rng.integers(1, 40)), float(10 ** rng.uniform(0, 3.5))
            line = [values.words(rng, 1, 7), f"{count}", f"{sign}{price:,.2f}", f"{sign}{count * price:,.2f}"]
            if len(heads) == 5:
                line.insert(0, date(rng, form) if heads[0] == "Date" else f"{row}")
            for column, text in enumerate(line):
                grid.put(row, column, text, "text" if column < len(heads) - 3 else "number")
        for extra, name in enumerate(("Subtotal", "VAT (19%)", "!{Total due}")[: int(rng.integers(0, 4))]):
            row = n_lines + 1 + extra
            grid.put(row, 0, name, "number", (1, len(heads) - 1))
            grid.put(row, len(heads) - 1, f"{sign}{10 ** rng.uniform(1, 5):,.2f}", "number")
        return grid.table("invoice")

    def _schedule(self, rng: np.random.Generator) -> Table:
        n_days = int(rng.integers(3, 8))
        grid = _Grid(n_days + 1)
        grid.n_head = 1
        for column, day in enumerate(("Time", *_DAYS[:n_days])):
            grid.put(0, column, day, "head")
        start, row = int(rng.integers(6, 12)), 1
        for hour in range(int(rng.integers(3, 9))):
            grid.put(row, 0, f"{start + hour:02d}:00{pick(rng, ('', f'–{start + hour:02d}:50'))}", "stub")
            column = 1
            while column <= n_days:
                width = min(int(rng.choice((1, 1, 1, 1, 2, 3))), n_days + 1 - column)
                grid.put(row, column, "" if chance(rng, 0.2) else self._values.words(rng, 1, 3), "text", (1, width))
                column += width
            row += 1
        return grid.table("schedule")

    def _matrix(self, rng: np.random.Generator) -> Table:
        """Compose features by products, or a triangle of correlations."""
        values, size = self._values, int(rng.integers(3, 9))
        triangle = chance(rng, 0.4)
        grid = _Grid(size + 1)
        grid.n_head = 1
        names = [values.words(rng, 1, 2) if chance(rng, 0.5) else f"{i + 1}" for i in range(size)]
        for column, name in enumerate(("", *names)):
            grid.put(0, column, name, "head")
        yes, no = _MATRIX_MARKS[int(rng.integers(len(_MATRIX_MARKS)))]
        for row in range(1, (size if triangle else int(rng.integers(2, 12))) + 1):
            label = f"{row}. {names[row - 1]}" if triangle and row <= size else values.label(rng)
            grid.put(row, 0, label, "stub")
            for column in range(1, size + 1):
                if triangle:
                    text = "" if column > row else ("1" if column == row else f"{rng.uniform(-1, 1):.2f}")
                    text = text.replace("-", "−") + (pick(rng, ("*", "**")) if text and chance(rng, 0.2) else "")
                else:
                    text = yes if chance(rng, 0.55) else no
                grid.put(row, column, text, "number" if triangle else "text")
        return grid.table("matrix")

    def _word_list(self, rng: np.random.Generator) -> Table:
        """Compose short words or numbers without a stub, often without a head."""
        n_columns = int(rng.integers(2, 7))
        grid = _Grid(n_columns)
        columns = self._columns(rng, n_columns, 0.7)
        if chance(rng, 0.5):
            grid.n_head = 1
            for i, column in enumerate(columns):
                grid.put(0, i, column.head, "head")
        for row in range(grid.n_head, grid.n_head + int(rng.integers(2, 15))):
            for i, column in enumerate(columns):
                grid.put(row, i, column.draw(rng), column.kind)
        return grid.table("words")

    def _harvested(self, rng: np.random.Generator) -> Table:
        """Take a real table; in 40 % of the cases only its structure, with new texts of similar length."""
        table = self._pool[int(rng.integers(len(self._pool)))]
        if chance(rng, 0.6):
            return table
        drawers = [column.draw for column in self._columns(rng, table.n_columns, 0.5)]
        cells = []
        for cell in table.cells:
            text = cell.text
            if not text:
                cells.append(cell)
                continue
            if cell.kind == "head":
                new = self._values.head(rng)
            elif len(text) <= 14:
                new = drawers[cell.column](rng)
            else:
                new = self._values.words(rng, max(1, len(text) // 9), max(2, len(text) // 6))
            cells.append(replace(cell, runs=parse_runs(new) or (Run("x"),)))
        return replace(table, cells=tuple(cells), source=f"{table.source} (new texts)")
