"""Split display formulas that are one multi-line environment into their rows.

OmniDocBench v1.6 scores the rows of `aligned`, `array`, `split`, ... one by one, unless the environment is a unit: a
matrix, a case distinction, a brace over several lines. The rules are those of its matcher.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from gravityocr.metrics.normalization import strip_formula_delimiters, strip_formula_tags

ALIGNED = {"aligned", "align", "align*", "alignedat", "alignedat*"}
ENVIRONMENTS = (
    "array", "aligned", "align", "align*", "alignedat", "alignedat*", "split", "gather", "gather*", "gathered",
    "multline", "multline*", "flalign", "flalign*", "eqnarray", "eqnarray*", "cases",
)  # fmt: skip
_OPENING = re.compile(
    r"\\begin\{(?P<name>" + "|".join(map(re.escape, ENVIRONMENTS)) + r")\}\s*(?P<options>(?:\{[^{}]*\}\s*)*)"
)
_NESTED = re.compile(
    r"\\begin\{(?:array|align(?:ed)?\*?|alignedat\*?|split|gathered?|multline\*?|flalign\*?|eqnarray\*?|cases)\}"
)
_BRACE_BEFORE = re.compile(r"(?:\\left\s*\\\{|\\left\.)\s*")
_BRACE_AFTER = re.compile(r"\s*\\right(?:\.|\\\})\s*$")
_LABEL = re.compile(r"\\label\s*\{[^{}]*\}")
_TAG_AT_END = re.compile(r"\\tag\*?\s*\{[^{}]*\}$")
_SPACE_AT_END = re.compile(r"(?:\\qquad|\\quad|\\,|\\;|\\!|\\>|\\:|~)\s*$")
_SPACES = re.compile(r"(?:\\qquad|\\quad|\\,|\\;|\\!|\\>|\\:|~)+")
_LOGIC = re.compile(
    r"\\(?:Rightarrow|Leftrightarrow|Longrightarrow|Longleftrightarrow|longrightarrow|longleftrightarrow|implies|"
    r"therefore|because|uparrow|downarrow|Updownarrow|forall|exists)\b|单调|否定"
)
_CASE_LEAD = re.compile(
    r"(?:\(?\d+\)?|\\(?:Rightarrow|Leftrightarrow|Longrightarrow|Longleftrightarrow|implies|therefore|uparrow|"
    r"downarrow|Updownarrow|leftarrow|rightarrow))"
)
MAX_DEPTH = 50
MAX_ROWS = 200
_WORDS = re.compile(r"\\(?:text|mathrm|operatorname)\s*\{")


@dataclass(frozen=True)
class FormulaRow:
    """Hold one row: what is scored, and what stood in the source.

    *Units*: `start`, `end` characters of the formula that was split, delimiters included.
    """

    content: str
    start: int
    end: int


@dataclass(frozen=True)
class _Environment:
    name: str
    columns: str
    body: str
    braced: bool
    after: str
    body_start: int
    after_end: int

    @cached_property
    def rows(self) -> list[str]:
        return split_rows(self.body)


@lru_cache(maxsize=4096)
def split_formula(formula: str) -> tuple[FormulaRow, ...]:
    """Return the rows of a multi-line formula, or nothing where it is one unit or has more than `MAX_ROWS`."""
    environment = _splittable_environment(formula) or _bare_rows(formula)
    if environment is None or len(environment.rows) > MAX_ROWS:
        return ()
    rows: list[FormulaRow] = []
    cursor = 0
    for raw in environment.rows:
        content = strip_formula_tags(raw).strip()
        if not content:
            continue
        found = environment.body.find(content, cursor)
        at = found if found >= 0 else cursor
        cursor = at + len(content)
        start = environment.body_start + at
        rows.append(FormulaRow(content, start, start + len(content) - 1))
    if len(rows) <= 1:
        return ()
    after = strip_formula_tags(environment.after).strip()
    last = rows[-1]
    content = f"{last.content} {after}".strip() if after else last.content
    end = environment.after_end - 1 if environment.after_end > 0 else last.end
    return (*rows[:-1], FormulaRow(content, last.start, end))


def split_rows(body: str) -> list[str]:
    r"""Split at the `\\` that stand outside of braces and environments.

    >>> split_rows(r"a \\[2pt] {b \\ c}")
    ['a', '{b \\\\ c}']
    """
    return [row for row in (part.strip() for part in _split_top_level(body, "\\\\", braces=True)) if row]


def split_cells(row: str) -> list[str]:
    r"""Split at the `&` that stand outside of environments."""
    return [cell.strip() for cell in _split_top_level(row, "&", braces=False)]


def _split_top_level(text: str, separator: str, braces: bool) -> list[str]:
    parts: list[str] = []
    begun = index = braces_open = environments_open = 0
    while index < len(text):
        step = _environment_mark(text, index)
        if step:
            opens = text.startswith("\\begin", index)
            environments_open = environments_open + 1 if opens else max(0, environments_open - 1)
            index += step
            continue
        outside = environments_open == 0 and not (braces and braces_open)
        if outside and text.startswith(separator, index) and (braces or not _is_escaped(text, index)):
            parts.append(text[begun:index])
            index += len(separator)
            if braces:
                index = _skip_row_options(text, index)
            begun = index
            continue
        if text[index] in "{}" and not _is_escaped(text, index):
            braces_open = braces_open + 1 if text[index] == "{" else max(0, braces_open - 1)
        index += 1
    parts.append(text[begun:])
    return parts


def _environment_mark(text: str, index: int) -> int:
    r"""Return the length of the `\begin{...}` or `\end{...}` at `index`, or 0."""
    for mark in ("\\begin{", "\\end{"):
        if text.startswith(mark, index):
            end = text.find("}", index + len(mark))
            return end + 1 - index if end >= 0 else 0
    return 0


def _skip_row_options(text: str, index: int) -> int:
    r"""Skip what may follow `\\`: spaces, a star, a length in brackets."""
    while index < len(text) and text[index].isspace():
        index += 1
    if text.startswith("*", index):
        index += 1
    if text.startswith("[", index):
        end = text.find("]", index + 1)
        index = end + 1 if end >= 0 else index
    return index


def _is_escaped(text: str, index: int) -> bool:
    first = index
    while first and text[first - 1] == "\\":
        first -= 1
    return (index - first) % 2 == 1


def _closing(text: str, name: str, start: int) -> int:
    r"""Return where the `\end` of the environment that was opened before `start` stands, or -1."""
    depth = 1
    for mark in re.finditer(r"\\(begin|end)\{" + re.escape(name) + r"\}", text[start:]):
        depth += 1 if mark[1] == "begin" else -1
        if depth == 0:
            return start + mark.start()
    return -1


def _read_environment(formula: str) -> _Environment | None:
    inner = strip_formula_delimiters(formula).strip()
    before = _BRACE_BEFORE.match(inner)
    core = inner[before.end() :].lstrip() if before else inner
    brace_after = _BRACE_AFTER.search(core)
    if brace_after:
        core = core[: brace_after.start()].rstrip()
    opening = _OPENING.match(core)
    if opening is None:
        return None
    name = opening["name"]
    end = _closing(core, name, opening.end())
    if end < opening.end():
        return None
    options = re.findall(r"\{([^{}]*)\}", opening["options"]) if name == "array" else []
    body = core[opening.end() : end]
    close = f"\\end{{{name}}}"
    after = _drop_end_labels(core[end + len(close) :]).strip()
    body_start = max(0, formula.find(body))
    after_end = 0
    close_at = formula.find(close, body_start + len(body)) if after else -1
    if close_at >= 0:
        after_at = formula.find(after, close_at + len(close))
        after_end = after_at + len(after) if after_at >= 0 else 0
    braced = bool(before or brace_after)
    return _Environment(name, options[0] if options else "", body, braced, after, body_start, after_end)


def _splittable_environment(formula: str) -> _Environment | None:
    environment = _read_environment(formula)
    if environment is None:
        return None
    keep = {"cases": lambda e: not _cases_are_rows(e), "array": _array_is_unit}.get(environment.name)
    if environment.name in ALIGNED:
        keep = _aligned_is_unit
    if keep is not None and keep(environment):
        return None
    return None if len(split_rows(environment.after)) > 1 else environment


def _bare_rows(formula: str) -> _Environment | None:
    inner = strip_formula_delimiters(formula).strip()
    if "\\\\" not in inner or len(split_rows(inner)) <= 1:
        return None
    return _Environment("", "", inner, False, "", max(0, formula.find(inner)), 0)


def _cases_are_rows(environment: _Environment) -> bool:
    rows = environment.rows
    if len(rows) <= 1 or any(len(split_cells(row)) > 1 for row in rows) or not _LOGIC.search(environment.body):
        return False
    if _NESTED.search(environment.body):
        return True
    return any(_has_logic(row) or _has_words(row) for row in rows[1:]) or _has_logic(rows[0])


def _aligned_is_unit(environment: _Environment) -> bool:
    rows = environment.rows
    nested = bool(_NESTED.search(environment.body))
    if nested and any(_is_case_row(row) for row in rows[1:]):
        return True
    if not environment.braced:
        return False
    cells = [split_cells(row) for row in rows]
    n_left_sides = sum(len(row) > 1 and bool(strip_formula_tags(row[0]).strip()) for row in cells)
    return nested or n_left_sides >= 2 or any(_has_words(row) or _is_case_row(row) for row in rows[1:])


def _array_is_unit(environment: _Environment) -> bool:
    columns = re.sub(r"\s+|\||[@!]\{[^}]*\}", "", environment.columns)
    rows_alone = set(columns) <= set("lcr") and (len(columns) == 1 or (len(columns) == 2 and columns != "cc"))
    if not columns or not rows_alone:
        return True
    rows = environment.rows
    if _NESTED.search(environment.body) and any(_is_case_row(row) for row in rows[1:]):
        return True
    return environment.braced and set(columns) == {"l"} and len(rows) > 1


def _without_lead(row: str) -> str:
    return row.lstrip(" \t\r\n\f\v&")


def _is_case_row(row: str) -> bool:
    return bool(_CASE_LEAD.match(strip_formula_tags(_without_lead(row)).strip()))


def _has_logic(row: str) -> bool:
    return bool(_LOGIC.search(_without_lead(row)))


def _has_words(row: str) -> bool:
    return bool(_WORDS.search(_without_lead(row)))


def _drop_end_labels(text: str) -> str:
    r"""Drop labels, tags and bracketed equation numbers at the end, such as `\quad (3.2)`."""
    text = _LABEL.sub("", text)
    while True:
        text = text.rstrip()
        tag = _TAG_AT_END.search(text)
        if tag:
            text = _drop_end_spaces(text[: tag.start()].rstrip())
            continue
        if not text or text[-1] not in ")]":
            return text
        start = text.rfind("(" if text[-1] == ")" else "[")
        if start < 0 or not _is_label(text[start + 1 : -1].strip(), text[:start]):
            return text
        text = _drop_end_spaces(text[:start])


def _drop_end_spaces(text: str) -> str:
    while True:
        shorter = _SPACE_AT_END.sub("", text.rstrip()).rstrip()
        if shorter == text:
            return text
        text = shorter


def _is_label(label: str, before: str) -> bool:
    if not label or (before and not (before[-1].isspace() or _SPACES.search(before[-10:]))):
        return False
    if re.fullmatch(r"[a-z]{1,3}", label):
        return False
    return bool(re.fullmatch(r"[A-Za-z0-9.\-#]+|(?:\\[A-Za-z#]+)+", label))


def braces_as_arrays(formula: str, depth: int = 0) -> str:
    r"""Rewrite `cases` that hold a chain of reasoning as `\left\{ \begin{array}{l} ... \end{array} \right.`.

    The two look alike, and only the second one is split into rows. Environments nested deeper than `MAX_DEPTH` stay.
    """
    if depth > MAX_DEPTH:
        return formula
    pieces: list[str] = []
    cursor = 0
    while (begin := formula.find("\\begin{", cursor)) >= 0:
        pieces.append(formula[cursor:begin])
        opening = _OPENING.match(formula, begin)
        if opening is None:
            cursor = begin + len("\\begin{")
            pieces.append(formula[begin:cursor])
            continue
        name = opening["name"]
        end = _closing(formula, name, opening.end())
        if end < opening.end():
            pieces.append(formula[begin:])
            return "".join(pieces)
        close = f"\\end{{{name}}}"
        cursor = end + len(close)
        body = braces_as_arrays(formula[opening.end() : end], depth + 1)
        if name == "cases" and _cases_are_reasoning(body, formula[cursor : cursor + 200]):
            pieces.append(f"\\left\\{{ \\begin{{array}}{{l}} {body.strip()} \\end{{array}} \\right.")
        else:
            pieces.append(formula[begin : opening.end()] + body + close)
    pieces.append(formula[cursor:])
    return "".join(pieces)


def _cases_are_reasoning(body: str, after: str) -> bool:
    rows = split_rows(body)
    if len(rows) <= 1 or any(len(split_cells(row)) > 1 for row in rows):
        return False
    after = after.lstrip()
    return bool(_LOGIC.search(body) or _LOGIC.search(after) or _OPENING.match(after))
