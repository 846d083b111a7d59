"""Tables that are handed in as Markdown or LaTeX, read as HTML the way the pages of OmniDocBench are."""

from __future__ import annotations

from gravityocr.metrics.normalization import normalize_table
from gravityocr.metrics.page_matching.markdown_tables import pipe_tables, tabular_html

_MOST_CHARS = 200_000


def table_as_html(text: str) -> str:
    r"""Return the first kind of table that a text holds as HTML: tags, else `tabular`, else pipes.

    A text with a `<table` or without any table is returned as it is.

    >>> table_as_html("| a | b |\n|---|---|\n| 1 | 2 |")
    '<table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td>2</td></tr></table>'
    """
    if "<table" in text.lower():
        return text
    return tabular_html(text) or "".join(html for _, _, html in pipe_tables(text)) or text


def comparable_table(text: str) -> str:
    """Return the normal form of a table, a row a line, for a reader to compare.

    A text without a table is returned as it is, and so is one longer than a reader would compare.
    """
    if len(text) > _MOST_CHARS:
        return text
    html = normalize_table(table_as_html(text))
    return html.replace("<tr", "\n<tr").replace("</table>", "\n</table>") if html else text
