"""Tables as data: marks, spans, complete grids, harvested tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.training_data import write_data_dir

from gravityocr.errors import InputError
from gravityocr.training.synthetic.charset import CHARSET
from gravityocr.training.synthetic.corpus import Corpus
from gravityocr.training.synthetic.table_content import TableContent
from gravityocr.training.synthetic.table_harvest import POOL_NAME, harvest, read_pool, tables_of
from gravityocr.training.synthetic.table_model import Cell, Run, Table, is_complete, parse_runs

DOCUMENT = b"""<html><body>
<table><tr><th>Name</th><th colspan="2">Values &amp; units</th></tr>
<tr><td rowspan="2">alpha<br>beta</td><td>1</td><td>\xc2\xb5m</td></tr><tr><td>2</td><td>a<b>b</b>c</td></tr></table>
<table><tr><td><table><tr><td>a</td><td>b</td></tr></table></td><td>nested</td></tr></table>
<table><tr><td>one</td><td>row</td></tr></table>
<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>\xe4\xb8\xad</td></tr><tr><td>d</td><td>e</td></tr></table>
</body></html>"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(write_data_dir(tmp_path_factory.mktemp("data")), "train")


def test_marks_become_runs() -> None:
    expected = (Run("m s"), Run("−1", "sup"), Run(" x"), Run("2", "sub"), Run("p", "i"))
    assert parse_runs("m s^{−1} x_{2}~{p}") == expected
    assert parse_runs("") == ()


def test_html_has_spans_and_escaped_single_spaced_text() -> None:
    cells = (
        Cell(0, 0, 2, 1, (Run("a\nb"),)),
        Cell(0, 1, 1, 2, (Run("x"), Run("2", "sup"))),
        Cell(1, 1, runs=(Run("<0.001"),)),
        Cell(1, 2),
    )
    table = Table(2, 3, 1, cells, "test")
    assert table.html() == (
        '<table><tr><td rowspan="2">a b</td><td colspan="2">x2</td></tr><tr><td>&lt;0.001</td><td></td></tr></table>'
    )
    assert is_complete(cells, 2, 3)
    assert not is_complete(cells[:3], 2, 3)
    assert not is_complete((*cells[:3], Cell(1, 1)), 2, 3)


def test_plans_cover_their_grids_within_the_charset(corpus: Corpus) -> None:
    content, rng = TableContent(corpus), np.random.default_rng(1)
    tables = [content.table(rng) for _ in range(300)]
    for table in tables:
        assert is_complete(table.cells, table.n_rows, table.n_columns), table.html()
        assert table.n_head < table.n_rows
        assert set("".join(cell.text for cell in table.cells)) <= set(CHARSET), table.html()
    assert {table.source for table in tables} == {"scientific", "texts", "invoice", "schedule", "matrix", "words"}
    assert any(cell.kind == "section" and cell.n_columns > 1 for table in tables for cell in table.cells)
    assert any(cell.kind == "head" and cell.n_columns > 1 for table in tables for cell in table.cells)
    assert any(cell.n_rows > 1 and cell.row >= table.n_head for table in tables for cell in table.cells)


def test_equal_seeds_give_equal_tables(corpus: Corpus) -> None:
    first, second = (
        [TableContent(corpus).table(rng) for _ in range(20)] for rng in (np.random.default_rng(4) for _ in range(2))
    )
    assert first == second
    assert first != [TableContent(corpus).table(np.random.default_rng(5)) for _ in range(20)]


def test_harvested_tables_keep_spans_and_drop_the_unusable() -> None:
    (table,) = tables_of(DOCUMENT, "page")  # one is nested, one has a single row, one a foreign script
    assert table.n_head == 1
    assert table.html() == (
        '<table><tr><td>Name</td><td colspan="2">Values &amp; units</td></tr>'
        '<tr><td rowspan="2">alpha beta</td><td>1</td><td>μm</td></tr><tr><td>2</td><td>abc</td></tr></table>'
    )
    assert [cell.kind for cell in table.cells] == ["head", "head", "text", "number", "text", "number", "text"]


def test_pool_round_trip_and_new_texts(tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the split hangs on the names of the files
    pages = [Path(f"pages-{number}.html") for number in range(60)]
    for number, page in enumerate(pages):
        page.write_bytes(DOCUMENT.replace(b"Name", b"Name %d" % number))
    assert harvest([*pages, pages[0]], tmp_path / POOL_NAME) == 60  # the repeated page adds nothing
    train, held_out = read_pool(tmp_path, "train"), read_pool(tmp_path, "heldout")
    assert len(train) + len(held_out) == 60
    assert len(train) > 45
    assert held_out
    assert not {table.source for table in train} & {table.source for table in held_out}
    content, rng = TableContent(corpus, train), np.random.default_rng(0)
    real = [table for table in (content.table(rng) for _ in range(200)) if table.source.startswith("pages-")]
    assert any(table.source.endswith("(new texts)") for table in real)
    assert any(table in train for table in real)
    assert all(is_complete(table.cells, table.n_rows, table.n_columns) for table in real)


def test_missing_and_broken_pools(tmp_path: Path) -> None:
    assert read_pool(tmp_path, "train") == []
    row = {"split": "train", "n_rows": 2, "n_columns": 1, "n_head": 0, "cells": [{"row": 0, "column": 0}], "source": ""}
    (tmp_path / POOL_NAME).write_text(json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"tables.jsonl, line 1.*harvest"):
        read_pool(tmp_path, "train")


@pytest.mark.parametrize(
    "change",
    [
        5,
        {"n_rows": 10**9, "n_columns": 10**9},
        {"cells": [{"row": 0, "column": 0, "n_rows": 10**9}]},
        {"cells": [{"row": 0, "column": 0, "runs": [{"text": 5}]}]},
        {"cells": [{"row": 0, "column": 0, "runs": [{"text": "a", "style": "u"}]}]},
        {"source": None},
        b"\xff",
    ],
)
def test_what_no_pool_holds_is_named(tmp_path: Path, change: object) -> None:
    row = {"split": "train", "n_rows": 1, "n_columns": 1, "n_head": 0, "cells": [{"row": 0, "column": 0}], "source": ""}
    file = tmp_path / POOL_NAME
    file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert len(read_pool(tmp_path, "train")) == 1
    content = change if isinstance(change, bytes) else json.dumps(row | change if isinstance(change, dict) else change)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=r"tables.jsonl.*harvest"):
        read_pool(tmp_path, "train")
