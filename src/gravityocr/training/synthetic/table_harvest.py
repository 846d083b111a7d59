"""Real tables of HTML documentation: found, folded into the charset, kept in `tables.jsonl` of a data directory."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import lxml.etree
import lxml.html

from gravityocr.errors import InputError
from gravityocr.training.synthetic.charset import fold_to_charset
from gravityocr.training.synthetic.fonts import Split
from gravityocr.training.synthetic.table_model import STYLES, Cell, Kind, Run, Table, is_complete

POOL_NAME = "tables.jsonl"
_MOST_ROWS = 18
_MOST_COLUMNS = 12
_MOST_PLACES = 10_000
_MOST_CHARS = 160
_HELD_OUT_OF_256 = 13
_PER_SHAPE = 60
_NUMBER = re.compile(r"[-+−$€£(]?\d[\d.,]*\s?%?\)?")
_BREAKS = ("br", "p", "li", "div", "tr", "pre", "dt", "dd")
_REMEDY = "harvest the tables again"


def harvest(files: Iterable[Path], pool_file: Path) -> int:
    """Write the usable tables of HTML files, each text once, split by a hash of the document; return their number.

    *Raises*: InputError where a file cannot be read or the pool cannot be written.
    """
    seen: set[bytes] = set()
    shapes: Counter[tuple[str, str]] = Counter()
    count = 0
    try:
        with pool_file.open("w", encoding="utf-8") as lines:
            for file in files:
                name = hashlib.sha256(f"{file}#0".encode()).digest()[0]
                split = "heldout" if name < _HELD_OUT_OF_256 else "train"
                for table in tables_of(file.read_bytes(), str(file)):
                    text = "\n".join(cell.text for cell in table.cells)
                    digest = hashlib.sha1(text.encode()).digest()
                    # Navigation bars repeat their first row on every page of a manual.
                    shape = (str(file.parents[0]), "\n".join(c.text for c in table.cells if c.row == 0)[:80])
                    if digest in seen or shapes[shape] >= _PER_SHAPE:
                        continue
                    seen.add(digest)
                    shapes[shape] += 1
                    count += 1
                    lines.write(json.dumps({"split": split, **asdict(table)}, ensure_ascii=False) + "\n")
    except OSError as error:
        raise InputError(
            f"{error.filename}: {error.strerror}; choose readable HTML files and a writable pool"
        ) from error
    return count


def read_pool(data_dir: Path, split: Split) -> list[Table]:
    """Return the harvested tables of a split; none where there is no pool.

    *Raises*: InputError for a pool that is broken, naming the line.
    """
    file = data_dir / POOL_NAME
    if not file.is_file():
        return []
    tables = []
    number = 0
    try:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                number += 1
                row = json.loads(line)
                if row.pop("split") == split:
                    tables.append(_table_from_row(row))
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); {_REMEDY}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}, behind line {number}: is not UTF-8 text; {_REMEDY}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{file}, line {number}: {type(error).__name__} {error}; {_REMEDY}") from error
    return tables


def tables_of(document: bytes, source: str) -> Iterator[Table]:
    """Yield the tables of an HTML document that hold no other table and whose text fits the charset."""
    try:
        root = lxml.html.document_fromstring(document, lxml.html.HTMLParser(encoding="utf-8"))
    except (lxml.etree.ParserError, ValueError):
        return
    for element in root.iter("table"):
        if element.find(".//table") is None:
            table = _read_table(element, source)
            if table is not None:
                yield table


def _table_from_row(row: dict[str, object]) -> Table:
    table = Table(**row)  # type: ignore[arg-type]
    if not 1 <= table.n_rows * table.n_columns <= _MOST_PLACES or not isinstance(table.source, str):
        raise ValueError(f"a table has 1 to {_MOST_PLACES} places, and a source")
    cells = tuple(
        replace(cell, runs=tuple(Run(**run) for run in cell.runs))  # type: ignore[arg-type]
        for cell in (Cell(**cell) for cell in table.cells)  # type: ignore[arg-type]
    )
    if sum(cell.n_rows * cell.n_columns for cell in cells) > _MOST_PLACES:
        raise ValueError("the cells do not fit into the grid")
    if not is_complete(cells, table.n_rows, table.n_columns):
        raise ValueError("the cells do not cover the grid")
    if not all(isinstance(run.text, str) and run.style in STYLES for cell in cells for run in cell.runs):
        raise ValueError(f"a run has a text and a style out of {STYLES}")
    return replace(table, cells=cells)


def _read_table(element: lxml.html.HtmlElement, source: str) -> Table | None:
    """Return a table of 2-18 rows and 2-12 columns, or None."""
    rows = [row for row in element.iter("tr") if any(cell.tag in ("td", "th") for cell in row)][:_MOST_ROWS]
    cells: list[Cell] = []
    taken: set[tuple[int, int]] = set()
    n_head = 0
    for r, row in enumerate(rows):
        column = 0
        elements = [cell for cell in row if cell.tag in ("td", "th")]
        if r == n_head and all(cell.tag == "th" for cell in elements):
            n_head += 1
        for cell in elements:
            while (r, column) in taken:
                column += 1
            n_rows = min(_span(cell, "rowspan"), len(rows) - r)
            n_columns = _span(cell, "colspan")
            text = _text_of(cell)
            if text is None or len(text) > _MOST_CHARS or column + n_columns > _MOST_COLUMNS:
                return None
            kind: Kind = "head" if r < n_head else ("number" if _NUMBER.fullmatch(text) else "text")
            cells.append(Cell(r, column, n_rows, n_columns, (Run(text),) if text else (), kind))
            taken |= {(y, x) for y in range(r, r + n_rows) for x in range(column, column + n_columns)}
            column += n_columns
    n_columns = 1 + max((x for _, x in taken), default=0)
    return _checked(Table(len(rows), n_columns, min(n_head, 4, len(rows) - 1), tuple(cells), source))


def _checked(table: Table) -> Table | None:
    """Return the table where it is whole, has several rows and columns, text in all rows and no links to turn pages."""
    filled = sum(bool(cell.text) for cell in table.cells)
    written = {cell.row for cell in table.cells if cell.text}
    leads_on = any(cell.text in ("Prev", "Next", "Home") for cell in table.cells)
    started = {cell.row for cell in table.cells}
    good = (
        table.n_rows >= 2
        and table.n_columns >= 2
        and len(started) == len(written) == table.n_rows
        and not leads_on
        and filled >= max(4, len(table.cells) // 3)
        and is_complete(table.cells, table.n_rows, table.n_columns)
    )
    return table if good else None


def _span(cell: lxml.html.HtmlElement, name: str) -> int:
    value = str(cell.get(name, "1")).strip()
    return max(1, int(value)) if value.isascii() and value.isdigit() and len(value) < 4 else 1


def _text_of(cell: lxml.html.HtmlElement) -> str | None:
    """Return the folded text of a cell, blocks parted by spaces; None where it does not fit the charset."""
    parts: list[str] = [cell.text or ""]
    for inner in cell.iterdescendants():
        is_break = inner.tag in _BREAKS
        parts += [" " if is_break else "", (inner.text or "") if isinstance(inner.tag, str) else "", inner.tail or ""]
    return fold_to_charset("".join(parts))
