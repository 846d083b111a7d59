"""Split a page's Markdown into the blocks that are matched with its ground truth.

The order of the steps is OmniDocBench v1.6's: image marks, fences, LaTeX tables, HTML tables, formulas, pipe tables,
code, and paragraphs of what is left. Every step blanks what it took, so that later positions hold.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gravityocr.metrics.page_matching.formula_rescue import (
    is_formula_like,
    is_formula_like_cell,
    rescued_formula,
    split_display_formula,
)
from gravityocr.metrics.page_matching.markdown_tables import official_pipe_tables, pipe_tables, tabular_html
from gravityocr.metrics.page_matching.rules import Rules
from gravityocr.metrics.tables.html_tokens import block_text, cell_texts

INLINE = "equation_inline"
MAX_BLOCKS = 600
FORMULA_LABELS = (INLINE, "equation_isolated")
_DELIMITERS = (("$$", "$$"), ("\\[", "\\]"), ("$", "$"), ("\\(", "\\)"))
_IMAGE_DESCRIPTIONS = (
    "the image ", "the figure ", "the diagram ", "diagram:", "[diagram:", "[image:", "qr code ",
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """Hold one block of a prediction.

    `kind` is text, formula, table or rescue (text that may be a formula); `label` is the category that the official
    results name; `source` is the span of the formula that a row was split from; `line_starts` says where the lines of a
    paragraph stand. *Units*: `start`, `end`, `line_starts` characters; they order blocks, and are not all exact.
    """

    kind: str
    content: str
    start: int
    end: int
    label: str
    source: tuple[int, int] | None = None
    line_starts: tuple[int, ...] = ()

    @property
    def is_inline(self) -> bool:
        """Whether this is a formula within text, which is matched as text and as a formula."""
        return self.label == INLINE


def markdown_blocks(markdown: str, rules: Rules) -> list[Block]:
    """Return the blocks of a page in the order of their positions.

    *Source*: OmniDocBench v1.6, extraction of Markdown.
    """
    blocks, text = _take_images(re.sub(r"\r\n?", "\n", markdown))
    text = _clean(text)
    tables = list(_latex_tables(text))
    blocks += [Block("table", table, start, end, "latex2html_table") for start, end, table in tables]
    text = _blank(text, [(start, end) for start, end, _ in tables])
    spans = _table_spans(text, rules)
    blocks += [block for start, end in spans for block in _html_table(text[start:end], start, end, "html_table")]
    text = _blank(text, spans)
    taken, text = _take_formulas(text, rules)
    blocks += taken
    taken, text = _take_pipe_tables(text, rules)
    blocks += taken
    taken, text = _take_code(text)
    blocks += taken
    blocks += _paragraphs(text, rules)
    blocks.sort(key=lambda block: block.start)
    return _at_most([block for block in blocks if block.content and not _is_inline_name(block)])


def _at_most(blocks: list[Block]) -> list[Block]:
    """Join what comes after `MAX_BLOCKS` blocks: no page has as many, and matching takes time quadratic in them."""
    if len(blocks) <= MAX_BLOCKS:
        return blocks
    rest = [block for block in blocks[MAX_BLOCKS:] if block.kind == "text"]
    kept = blocks[:MAX_BLOCKS]
    if rest:
        text = "\n".join(block.content for block in rest)
        kept.append(Block("text", text, rest[0].start, rest[-1].end, "text_block"))
    return kept


def _blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Replace spans that ascend and don't overlap by spaces."""
    pieces: list[str] = []
    cursor = 0
    for start, end in spans:
        pieces += [text[cursor:start], " " * (end - start)]
        cursor = end
    return "".join(pieces) + text[cursor:]


def _take_images(text: str) -> tuple[list[Block], str]:
    r"""Blank `![alternative](address)`; alternative texts that look like formulas are kept as such."""
    blocks: list[Block] = []
    pieces: list[str] = []
    cursor = 0
    while (at := text.find("![", cursor)) >= 0:
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        middle = text.find("](", at + 2, line_end)
        end = text.find(")", middle + 2, line_end) if middle >= 0 else -1
        if end < 0:
            # No mark can begin on the rest of this line: its end is missing.
            pieces.append(text[cursor:line_end])
            cursor = line_end
            continue
        blocks += _rescue(text[at + 2 : middle].strip(), at, end + 1, "image_formula")
        pieces += [text[cursor:at], " " * (end + 1 - at)]
        cursor = end + 1
    pieces.append(text[cursor:])
    return blocks, "".join(pieces)


def _clean(text: str) -> str:
    for fence in (r"^```markdown\n?", r"^```html\n?", r"^```latex\n?", r"```\n?$"):
        text = re.sub(fence, "", text, flags=re.MULTILINE)
    text = re.sub(r" {4,}", "    ", re.sub(r"_{4,}", "____", text))
    for tag in ("<html>", "</html>", "<body>", "</body>"):
        text = text.replace(tag, "")
    parts = re.split(r"(\n\s*\n)", text)
    return "".join(_plain_description(part) if i % 2 == 0 else part for i, part in enumerate(parts))


def _plain_description(part: str) -> str:
    """Drop the delimiters of inline formulas where a model describes a picture: they are no formulas of the page."""
    head = " ".join(part[:2000].split()).lower()
    if len(head) < 24 or not head.startswith(_IMAGE_DESCRIPTIONS):
        return part
    return _without_marks(_without_marks(part, "\\(", "\\)"), "$", "$")


def _without_marks(text: str, opening: str, closing: str) -> str:
    pieces: list[str] = []
    cursor = 0
    while (start := text.find(opening, cursor)) >= 0 and (end := text.find(closing, start + len(opening))) >= 0:
        pieces += [text[cursor:start], text[start + len(opening) : end]]
        cursor = end + len(closing)
    return "".join(pieces) + text[cursor:]


def _outer_spans(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> list[tuple[int, int]]:
    """Return the outermost spans from an opening mark to its closing one; marks that stay open are passed over."""
    marks = [(found.start(), found.end(), True) for found in opening.finditer(text)]
    marks = sorted(marks + [(found.start(), found.end(), False) for found in closing.finditer(text)])
    spans: list[tuple[int, int]] = []
    stack: list[int] = []
    for start, end, opens in marks:
        if opens:
            stack.append(start)
        elif stack:
            begun = stack.pop()
            while spans and spans[-1][0] > begun:
                spans.pop()
            spans.append((begun, end))
    return spans


def _table_spans(text: str, rules: Rules) -> list[tuple[int, int]]:
    flags = re.IGNORECASE if rules.lenient_tables else 0
    # Up to the last closing tag every opening one ends: without this limit, unfinished tags would cost quadratic time.
    last = max((found.end() for found in re.finditer(r"</table>", text, flags)), default=0)
    return _outer_spans(text[:last], re.compile(r"<table(?:[^>]*)>", flags), re.compile(r"</table>", flags))


def _latex_tables(text: str) -> Iterator[tuple[int, int, str]]:
    taken: list[tuple[int, int]] = []
    cursor = 0
    while (start := text.find("\\begin{table}", cursor)) >= 0 and (end := text.find("\\end{table}", start)) >= 0:
        cursor = end + len("\\end{table}")
        taken.append((start, cursor))
    rest = _blank(text, taken)
    taken += _outer_spans(rest, re.compile(r"\\begin\{tabular\}"), re.compile(r"\\end\{tabular\}"))
    for start, end in sorted(taken):
        yield start, end, tabular_html(text[start:end])


def _html_table(table: str, start: int, end: int, label: str) -> list[Block]:
    """Return a table, and those of its cells that look like formulas: a model may have set a column of them as one."""
    blocks = [Block("table", table, start, end, label)]
    at = max(start, 0)
    for text in cell_texts(table):
        content = rescued_formula(text) if is_formula_like_cell(text) else ""
        if content:
            blocks.append(Block("formula", content, at, at + max(len(text), 1), "table_formula_rescue"))
            at += max(len(text), 1) + 1
    return blocks


def formula_spans(text: str, within_paragraphs: bool = False) -> Iterator[tuple[int, int]]:
    r"""Yield the spans between `$$`, `\[ \]`, `$` or `\( \)`, the first mark first, across line breaks.

    `within_paragraphs` ends those of `$` and `\( \)` at a blank line: what does not close before it is no formula.
    """
    breaks = [found.start() for found in re.finditer(r"\n[^\S\n]*\n", text)] if within_paragraphs else []
    closes_until = {closing: len(text) for _, closing in _DELIMITERS}
    mark = re.compile(r"\$|\\\[|\\\(")
    cursor = 0
    while found := mark.search(text, cursor):
        at = found.start()
        cursor = found.end()
        for opening, closing in _DELIMITERS:
            if not text.startswith(opening, at) or closes_until[closing] <= at:
                continue
            end = text.find(closing, at + len(opening))
            if end < 0:
                closes_until[closing] = at  # from here on it never closes: don't look again
                continue
            if opening in ("$", "\\(") and bisect_left(breaks, at) < bisect_left(breaks, end):
                continue
            cursor = end + len(closing)
            yield at, cursor
            break


def _take_formulas(text: str, rules: Rules) -> tuple[list[Block], str]:
    """Take display formulas out; inline ones are listed and stay in the text."""
    blocks: list[Block] = []
    pieces: list[str] = []
    cursor = 0
    for start, end in formula_spans(text, rules.formulas_end_with_paragraphs):
        line = " ".join(text[start:end].strip().split("\n"))
        pieces.append(text[cursor:start])
        cursor = end
        inner = _first_dollars(line)
        if inner is None or inner:
            pieces.append(" " * (end - start))
            content = line if inner is None else _bracket_dollars(line, display=True)
            blocks += _display_formula(content, start, end, "equation_isolated")
        else:
            pieces.append(text[start:end])
            blocks += _display_formula(_bracket_dollars(line, display=False), start, end, INLINE)
    pieces.append(text[cursor:])
    return blocks, "".join(pieces)


def _first_dollars(line: str) -> str | None:
    r"""Return what the first `$$ $$` of a formula holds, "" where `$ $` or `\( \)` comes first, None for neither."""
    for start, end in formula_spans(line):
        if not line.startswith("\\[", start):
            return line[start + 2 : end - 2] if line.startswith("$$", start) and end - start >= 4 else ""
        # A bracketed formula may hold dollars.
        inner = _first_dollars(line[start + 2 : end - 2])
        if inner is not None:
            return inner
    return None


def _bracket_dollars(line: str, display: bool) -> str:
    r"""Write the dollar delimiters of a formula as `\[ \]`, dropping what the other kind of delimiter holds."""
    pieces: list[str] = []
    cursor = 0
    for start, end in _dollar_spans(line):
        is_display = line.startswith("$$", start) and end - start >= 4
        size = 2 if is_display or line.startswith("\\(", start) else 1
        pieces += [line[cursor:start], "\\[", line[start + size : end - size] if is_display == display else "", "\\]"]
        cursor = end
    return "".join(pieces) + line[cursor:]


def _dollar_spans(line: str) -> Iterator[tuple[int, int]]:
    for start, end in formula_spans(line):
        if line.startswith("\\[", start):
            yield from ((start + 2 + a, start + 2 + b) for a, b in _dollar_spans(line[start + 2 : end - 2]))
        else:
            yield start, end


def _display_formula(content: str, start: int, end: int, label: str) -> list[Block]:
    formulas, captions = split_display_formula(content, start, end)
    blocks = [Block("formula", part.content, part.start, part.end, label) for part in formulas]
    return blocks + [Block("text", part.content, part.start, part.end, "equation_caption") for part in captions]


def _take_pipe_tables(text: str, rules: Rules) -> tuple[list[Block], str]:
    blocks: list[Block] = []
    if rules.pipe_tables_as_markdown:
        tables = pipe_tables(text)
        blocks = [b for start, end, table in tables for b in _html_table(table, start, end, "md2html_table")]
        return blocks, _blank(text, [(start, end) for start, end, _ in tables])
    if _n_pipe_rows(text + "\n") < 2:
        return blocks, text
    text = official_pipe_tables(text)
    cursor = 0
    spans: list[tuple[int, int]] = []
    while (start := text.find("<table", cursor)) >= 0 and (end := text.find("</table>", start)) >= 0:
        cursor = end + len("</table>")
        spans.append((start, cursor))
        blocks += _html_table(text[start:cursor].strip(), start, cursor, "md2html_table")
    return blocks, _blank(text, spans)


def _n_pipe_rows(text: str) -> int:
    n = cursor = 0
    while (start := text.find("|", cursor)) >= 0 and (end := text.find("|\n", start + 1)) >= 0:
        n, cursor = n + 1, end + 2
    return n


def _take_code(text: str) -> tuple[list[Block], str]:
    blocks: list[Block] = []
    opening = re.compile(r"```(\w+)\n")
    cursor = 0
    while (found := opening.search(text, cursor)) and (end := text.find("```", found.end())) >= 0:
        code = text[found.end() : end].strip()
        cursor = end + 3
        blocks.append(Block("text", code, found.start(), cursor, "code"))
    return blocks, _blank(text, [(block.start, block.end) for block in blocks])


def _unwrap_latex(text: str) -> str:
    r"""Replace `\title{...}`, `\section{...}` and `\text{...}` by what they hold."""
    for command in (r"\\title\s*", r"\\text\s*", r"\\section\*?"):
        opening = re.compile(command + r"\{")
        pieces: list[str] = []
        cursor = 0
        while (found := opening.search(text, cursor)) and (end := text.find("}", found.end())) >= 0:
            pieces += [text[cursor : found.start()], text[found.end() : end].strip()]
            cursor = end + 1
        text = "".join(pieces) + text[cursor:]
    return text


def _paragraphs(text: str, rules: Rules) -> list[Block]:
    blocks: list[Block] = []
    for start, part in _parts(text if rules.exact_positions else _unwrap_latex(text), rules):
        end = start + len(part)
        lines = [(where, line.strip()) for where, line in _lines(part, start) if line.strip()]
        paragraph = "\n".join(line for _, line in lines)
        if rules.exact_positions:
            paragraph = _unwrap_latex(paragraph)
        text = _html_text(paragraph).strip()
        if text:
            starts = tuple(where for where, _ in lines) if text == paragraph else ()
            begin = starts[0] if starts and rules.exact_positions else start
            blocks.append(Block("text", text, begin, end, "text_block", line_starts=starts))
            blocks += _rescue(text, begin, end, "text_formula")
    return blocks


def _parts(text: str, rules: Rules) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs and where they begin."""
    separator = r"\n[^\S\n]*\n" if rules.lines_where_they_fit else r"\n\n" if "\n\n" in text else r"\n"
    at = drift = 0
    for found in re.finditer(separator, text):
        yield at - drift, text[at : found.start()]
        at = found.end()
        # The official positions leave out the separators, so that paragraphs drift ahead of tables and formulas.
        drift += 0 if rules.exact_positions else len(found[0])
    yield at - drift, text[at:]


def _lines(text: str, start: int) -> Iterator[tuple[int, str]]:
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def _rescue(text: str, start: int, end: int, label: str) -> list[Block]:
    content = rescued_formula(text) if is_formula_like(text) else ""
    if not content:
        return []
    is_reaction = "\\xrightarrow" in content or "\\longrightarrow" in content
    return [Block("formula" if is_reaction else "rescue", content, start, end, label)]


def _html_text(text: str) -> str:
    """Return the text of a paragraph that is wrapped in `<div>`, line by line."""
    if not re.match(r"<(div|dir)\b", text, re.IGNORECASE) or "<table" in text.lower():
        return text
    lines = (line.strip() for line in block_text(text).replace("\xa0", " ").split("\n"))
    return "\n".join(line for line in lines if line) or text


_MATH_SIGNS = (
    "=", "<", ">", "≤", "≥", "≈", "≠", "^", "+", "-", "/", "\\cdot", "\\frac", "\\sqrt", "\\sum", "\\int", "\\times",
    "\\div", "\\approx", "\\neq", "\\leq", "\\geq", "\\xrightarrow", "\\longrightarrow",
)  # fmt: skip


def _is_inline_name(block: Block) -> bool:
    """Whether an inline formula is only a name, such as `$x$`: it stays in its text and is no formula of its own."""
    if not block.is_inline or block.kind != "formula":
        return False
    inner = re.sub(r"\\[\[\](]|\\\)|\$", " ", block.content)
    compact = "".join(inner.split())
    if compact.startswith(("\\xrightarrow", "\\longrightarrow")):
        return True
    if not compact or len(compact) > 24 or any(sign in inner for sign in _MATH_SIGNS):
        return False
    return bool(re.fullmatch(r"[A-Za-z0-9._,-]+|[A-Za-z][A-Za-z0-9_.,-]*|[ΓγλμνxyzuvwMNOabcABC0-9._,-]+", compact))
