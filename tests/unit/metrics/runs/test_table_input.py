"""Tables of pipes and of LaTeX, read as HTML."""

from __future__ import annotations

import pytest

from gravityocr.metrics.runs.score_tasks import teds_task
from gravityocr.metrics.runs.table_input import comparable_table, table_as_html

HTML = "<table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td>2</td></tr></table>"
PIPES = "Here it is:\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n"
LATEX = "\\begin{tabular}{ll}\n\\hline a & b \\\\ 1 & 2 \\\\ \\hline\n\\end{tabular}"


@pytest.mark.parametrize("text", [HTML, PIPES, LATEX])
def test_every_kind_is_read_as_html(text):
    assert table_as_html(text) == HTML
    payload = {"pred": text, "ref": HTML, "mode": "omnidocbench"}
    assert teds_task({**payload, "compat": False})["teds"] == 1.0
    assert teds_task({**payload, "compat": True})["status"] == ("ok" if text == HTML else "no_table")


@pytest.mark.parametrize("text", ["", "no table", "a | b", "<TABLE><tr><td>| a |\n|---|</td></tr></TABLE>"])
def test_other_text_stays(text):
    assert table_as_html(text) == text


def test_a_normal_form_has_a_row_a_line():
    assert comparable_table(PIPES).count("\n<tr>") == 2
    assert comparable_table("no table") == "no table"
    assert comparable_table("<table>" + "x" * 300_000) == "<table>" + "x" * 300_000
