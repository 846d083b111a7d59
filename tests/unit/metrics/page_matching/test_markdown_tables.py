"""Tables that are written with pipes or in LaTeX read as HTML."""

from __future__ import annotations

import pytest

from gravityocr.metrics.page_matching.markdown_tables import official_pipe_tables, pipe_tables, tabular_html


def rows(*cells: str) -> str:
    printed = ["".join(f"<td>{cell}</td>" for cell in row.split("|")) for row in cells]
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in printed) + "</table>"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["| a | b |", "|---|---|", "| 1 | 2 |"], rows("a|b", "1|2")),
        (["a | b", "-|-", "1 | 2"], rows("a|b", "1|2")),
        (["|a|b|", "|:-|-:|", "|1|", "|1|2|3|"], rows("a|b", "1|", "1|2")),
        (["|a|", "|-|", "|x \\| y|"], "<table><tr><td>a</td></tr><tr><td>x | y</td></tr></table>"),
        (["|a|b|", "|-|-|"], rows("a|b")),
        (["|t|time|", "|-|-|", "|one|10:30|", "|two|a---b|"], rows("t|time", "one|10:30", "two|a---b")),
    ],
)
def test_pipe_tables(lines: list[str], expected: str) -> None:
    text = "before\n" + "\n".join(lines) + "\nafter"
    ((start, end, table),) = pipe_tables(text)
    assert table == expected
    assert text[start:end] == "\n".join(lines)


@pytest.mark.parametrize(
    "text", ["a | b\nc | d", "|a|b|\n|-|", "|a|b|\n|---|-x-|", "a\n-", "", "|", "| a |\n\n|---|", "a\n---\nb"]
)
def test_no_pipe_tables(text: str) -> None:
    assert pipe_tables(text) == []


def test_two_pipe_tables_of_a_page() -> None:
    table = "|a|\n|-|\n|1|"
    assert [found[:2] for found in pipe_tables(f"{table}\n\n{table}")] == [(0, 11), (13, 24)]


def test_the_official_reading_drops_rows_with_a_colon() -> None:
    read = official_pipe_tables("| t | time |\n|---|---|\n| one | 10:30 |\n| two | 11.15 |")
    assert read.count("<table") == 1
    assert "11.15" in read and "time" in read
    assert "10:30" not in read and "---" not in read


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("\\begin{tabular}{ll} a & b \\\\ \\hline 1 & 2 \\\\ \\end{tabular}", rows("a|b", "1|2")),
        ("\\begin{tabular}[t]{|l|p{2cm}|} a & b \\end{tabular}", rows("a|b")),
        ("\\begin{tabular*}{5cm}{ll} a & b \\end{tabular*}", rows("a|b")),
        ("\\begin{longtable}{l} a \\\\ b \\end{longtable}", rows("a", "b")),
        ("\\begin{tabular}{l} \\textbf{a} % no comment\n \\\\ 5\\% \\end{tabular}", rows("a", "5\\%")),
        ("\\begin{tabular}{l} a < b \\end{tabular}", rows("a &lt; b")),
        (
            "\\begin{tabular}{lll} \\multicolumn{2}{c}{a} & b \\\\ 1 & 2 & 3 \\end{tabular}",
            '<table><tr><td colspan="2">a</td><td>b</td></tr><tr><td>1</td><td>2</td><td>3</td></tr></table>',
        ),
        (
            "\\begin{tabular}{ll} \\multirow{2}{*}{a} & b \\\\ & c \\\\ d & e \\end{tabular}",
            '<table><tr><td rowspan="2">a</td><td>b</td></tr><tr><td>c</td></tr><tr><td>d</td><td>e</td></tr></table>',
        ),
        ("no table", ""),
        ("\\begin{tabular}{l} a", ""),
        ("\\end{tabular}\\begin{tabular}", ""),
    ],
)
def test_latex_tables(latex: str, expected: str) -> None:
    assert tabular_html(latex) == expected


@pytest.mark.parametrize("below", ["\\multicolumn{2}{c}{} & c", "& & c"])
def test_a_cell_over_rows_and_columns_covers_all_of_them(below: str) -> None:
    first, last = "\\multicolumn{2}{c}{\\multirow{2}{*}{a}} & b", "d & & f"
    latex = f"\\begin{{tabular}}{{lll}} {first} \\\\ {below} \\\\ {last} \\end{{tabular}}"
    assert tabular_html(latex) == (
        '<table><tr><td colspan="2" rowspan="2">a</td><td>b</td></tr><tr><td>c</td></tr>'
        "<tr><td>d</td><td></td><td>f</td></tr></table>"
    )
