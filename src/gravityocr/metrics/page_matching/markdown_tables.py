"""Read tables that are written with pipes or in LaTeX as HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from gravityocr.metrics.page_matching.formula_lines import split_cells, split_rows

_DELIMITER_ROW = re.compile(r"[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)*[ \t]*:?-+:?[ \t]*\|?[ \t]*")
_UNESCAPED_PIPE = re.compile(r"(?<!\\)\|")


def pipe_tables(text: str) -> list[tuple[int, int, str]]:
    """Return (start, end, HTML) of every pipe table: a row, a row of dashes, then rows until a line without a pipe.

    *Units*: characters.
    """
    lines = list(_lines(text))
    found = []
    i = 0
    while i + 1 < len(lines):
        (start, head), (_, dashes) = lines[i], lines[i + 1]
        n_columns = len(_cells(head))
        if "|" in head and "-" in dashes and _DELIMITER_ROW.fullmatch(dashes) and len(_cells(dashes)) == n_columns:
            rows = [head]
            i += 2
            while i < len(lines) and "|" in lines[i][1]:
                rows.append(lines[i][1])
                i += 1
            last_start, last = lines[i - 1]
            found.append((start, last_start + len(last), _html([_fit(_cells(row), n_columns) for row in rows])))
        else:
            i += 1
    return found


def official_pipe_tables(text: str) -> str:
    """Rewrite what the official scorer takes for pipe tables as HTML, in place and with its layout: positions count.

    Every stretch from a pipe to the next pipe at a line's end is a row; rows without a line break between them are one
    table. Faults included: cells that hold a colon or three dashes are taken for the row of dashes, and the line before
    a table is lost with what stands before it on its own line.
    """
    text = text.replace("\r", "") + "\n"
    out: list[str] = []
    table: list[str] = []
    cursor, before = 0, "\n"
    while (start := text.find("|", cursor)) >= 0 and (end := text.find("|\n", start + 1)) >= 0:
        before += text[cursor:start]
        if "\n" in before:
            out += _official_table(table) if cursor else []
            out += before.split("\n")[:-2]
            table = []
        # What stands before it on its own line can have the whole row taken for dashes.
        table += [] if _like_dashes(before.rpartition("\n")[2]) else _official_row(text[start : end + 1])
        cursor, before = end + 2, ""
    out += _official_table(table) if cursor else []
    *lines, last = (before + text[cursor:]).split("\n")
    return "\n".join([*out, *lines, *([last] if last else [])])


def _official_row(stretch: str) -> list[str]:
    """Return the lines of a row; of a stretch over several lines the second one is taken for dashes."""
    lines = stretch.split("\n")
    rows = []
    for line in (lines[0], *lines[2:]):
        cells = [cell.strip() for cell in line.strip().split("|")[1:-1]]
        kept = [cell for cell in cells if not _like_dashes(cell)]
        rows += ["    <tr>", *(f'      <td colspan="1" rowspan="1">{cell}</td>' for cell in kept), "    </tr>"]
    return rows if len(rows) > 2 else []


def _like_dashes(text: str) -> bool:
    return ":" in text or "---" in text


def _official_table(rows: list[str]) -> list[str]:
    return ["\n\n" + '<table border="1" >\n' + "\n".join(rows) + "\n</table>\n\n"]


def tabular_html(latex: str) -> str:
    r"""Read the first `tabular` environment as an HTML table, or return "" where there is none.

    Spans of `\multicolumn` and `\multirow` are kept; rules, colours and sizes are dropped; cells stay LaTeX.
    """
    begin = re.search(r"\\begin\{(tabular[*xy]?|longtable)\}", latex)
    end = latex.rfind(f"\\end{{{begin[1]}}}") if begin else -1
    if begin is None or end < begin.end():
        return ""
    body = latex[_after_options(latex, begin.end()) : end]
    for pattern, replacement in _TABULAR_NOISE:
        body = pattern.sub(replacement, body)
    return _span_html([[_span_cell(cell) for cell in split_cells(row)] for row in split_rows(body)])


_TABULAR_NOISE = [
    (re.compile(r"\\(?:toprule|midrule|bottomrule|hline|specialrule(?:\{[^{}]*\}){3})(?:\[[^\]]*\])?"), ""),
    (re.compile(r"\\(?:cmidrule|cline)(?:\[[^\]]*\])?(?:\([^()]*\))?\{[^{}]*\}"), ""),
    (re.compile(r"\\addlinespace(?:\[[^\]]*\])?|\\centering|\noalign\{[^{}]*\}"), ""),
    (re.compile(r"\\(?:row|column|cell)color(?:\[[^\]]*\])?\{[^{}]*\}"), ""),
    (re.compile(r"\\(?:tiny|scriptsize|footnotesize|small|normalsize|large|Large|LARGE|huge|Huge)(?![A-Za-z])"), ""),
    (re.compile(r"(?<!\\)%[^\n]*"), ""),
]  # fmt: skip
_GROUP = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
_MULTICOLUMN = re.compile(r"\\multicolumn\s*\{\s*(\d{1,3})\s*\}\s*" + _GROUP + r"\s*" + _GROUP)
_MULTIROW = re.compile(r"\\multirow(?:\[[^\]]*\])?\s*\{\s*-?(\d{1,3})\s*\}\s*" + _GROUP + r"\s*" + _GROUP)
_STYLE = re.compile(r"\\(?:textbf|textit|emph|text|makecell|shortstack)(?:\[[^\]]*\])?\s*" + _GROUP)


def _after_options(latex: str, index: int) -> int:
    """Skip the groups that follow the environment's name: width, position, columns."""
    while index < len(latex) and (latex[index].isspace() or latex[index] in "[{"):
        if latex[index].isspace():
            index += 1
            continue
        opening, closing = latex[index], "]" if latex[index] == "[" else "}"
        depth = 0
        for at in range(index, len(latex)):
            depth += (latex[at] == opening) - (latex[at] == closing)
            if depth == 0:
                index = at + 1
                break
        else:
            return index
        if closing == "}" and latex[index : index + 1] != "{":
            break
    return index


def _span_cell(cell: str) -> tuple[str, int, int]:
    columns, rows = 1, 1
    if wide := _MULTICOLUMN.search(cell):
        columns, cell = max(1, int(wide[1])), wide[3]
    if high := _MULTIROW.search(cell):
        rows, cell = max(1, int(high[1])), high[3]
    while (plain := _STYLE.sub(r"\1", cell)) != cell:
        cell = plain
    return cell.replace("\\\\", " ").strip(), columns, rows


def _span_html(rows: list[list[tuple[str, int, int]]]) -> str:
    covered: dict[int, int] = {}  # column -> rows that a cell above still covers
    out = []
    for row in rows:
        column = 0
        cells = []
        for text, columns, n_rows in row:
            # LaTeX leaves an empty cell below a multirow; HTML has none.
            below = bool(covered.get(column)) and not text
            for i in range(column, column + columns):
                covered[i] = max(covered.get(i, 0) - 1, 0) if below or n_rows == 1 else n_rows - 1
            if not below:
                spans = f' colspan="{columns}"' if columns > 1 else ""
                spans += f' rowspan="{n_rows}"' if n_rows > 1 else ""
                cells.append(f"<td{spans}>{html.escape(text, quote=False)}</td>")
            column += columns
        out.append("<tr>" + "".join(cells) + "</tr>")
    return "<table>" + "".join(out) + "</table>" if out else ""


def _lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _UNESCAPED_PIPE.split(line)]


def _fit(cells: list[str], n_columns: int) -> list[str]:
    return [*cells[:n_columns], *[""] * (n_columns - len(cells))]


def _html(rows: list[list[str]]) -> str:
    body = ("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return "<table>" + "".join(body) + "</table>"
