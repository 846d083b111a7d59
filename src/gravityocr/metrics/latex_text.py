r"""Formulas as plain characters: `x^2 \alpha` -> `x^2 α`, by the rules of OmniDocBench.

A formula goes through pylatexenc only where it looks like LaTeX that pylatexenc can read; everything else is returned
as it stands, because half-read LaTeX compares worse than none.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterator

from gravityocr.metrics.tables.table_html import next_or_end

LONGEST_FORMULA = 8000
LONGEST_INLINE = 128

_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile(r"[A-Za-z]{3,}")
_SIGNAL = re.compile(r"\\[A-Za-z]+|\\[\[\]()]\]|[&%#]")
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([^{}]+)\}")
_ESCAPED_OR_BRACE = re.compile(r"\\[{}\[\]()]|[{}]")
_ESCAPED_SIGN = re.compile(r"\\([\\_&%^])")
_DOLLAR = re.compile(r"(?<!\\)\$")
_CIRCLED = re.compile(r"\\textcircled\s*\{([^{}]+)\}")
_CIRCLED_CHARACTERS = str.maketrans(
    {chr(0x2460 + i): str(i + 1) for i in range(20)}
    | {chr(0x24D0 + i): chr(ord("a") + i) for i in range(26)}
    | {chr(0x24B6 + i): chr(ord("A") + i) for i in range(26)}
)
# Signs of an environment or of rows: such a formula stays LaTeX inside a text.
_NOT_INLINE = ("\\begin{", "\\end{", "\\array", "\\matrix", "\\tabular", "\\cases", "\\align", "\\\\", "&")
# What pylatexenc raises, beyond its own errors, on input that it cannot read.
_READER_ERRORS = (
    ValueError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError, RecursionError, StopIteration,
)  # fmt: skip


def uncircle(text: str) -> str:
    r"""Replace circled digits and letters, and `\textcircled{...}`, by what stands in the circle.

    >>> uncircle("① ⓑ \\textcircled{ 3 }")
    '1 b 3'
    """
    if "\\textcircled" in text:
        text = _CIRCLED.sub(lambda match: match[1].strip(), text)
    return text.translate(_CIRCLED_CHARACTERS)


def inline_formulas(text: str) -> Iterator[tuple[int, int, str]]:
    r"""List start, end and content of every `$...$` and `\(...\)` that opens and closes on one line.

    >>> list(inline_formulas(r"a $x$ b \(y\) c $"))
    [(2, 5, 'x'), (8, 13, 'y')]
    """
    closers = {"$": "$", "\\(": "\\)"}
    closed_at = dict.fromkeys(closers, -1)  # where the next closer is; len(text) for none
    line_end = -1
    search = 0
    for match in re.finditer(r"\$|\\\(", text):
        opener, inside = match[0], match.end()
        if match.start() < search:
            continue
        if closed_at[opener] < inside:
            closed_at[opener] = next_or_end(text, closers[opener], inside)
        if line_end < inside:
            line_end = next_or_end(text, "\n", inside)
        end = closed_at[opener]
        if end == len(text) or line_end < end:
            continue
        search = end + len(closers[opener])
        yield match.start(), search, text[inside:end]


def replace_inline(text: str, rewrite: Callable[[str], str | None]) -> str:
    """Replace every inline formula, delimiters included, by what `rewrite` makes of its content; None keeps it."""
    parts = []
    done = 0
    for start, end, content in inline_formulas(text):
        rewritten = rewrite(content)
        if rewritten is not None:
            parts += [text[done:start], rewritten.strip()]
            done = end
    return "".join(parts) + text[done:]


def inline_to_unicode(text: str) -> str:
    r"""Turn the inline formulas of a text into characters; a formula without `\`, `^` and `_` stays as it is.

    >>> inline_to_unicode(r"mass $m_{\alpha}$ costs $5")
    'mass m_α costs $5'
    """
    return replace_inline(uncircle(text), _inline_characters)


def _inline_characters(content: str) -> str | None:
    content = _ESCAPED_SIGN.sub("", content)
    if not any(mark in content for mark in "\\^_"):
        return None
    if content.endswith("\\"):
        content += " "
    formula = content.strip()
    if len(formula) > LONGEST_INLINE or any(sign in formula for sign in _NOT_INLINE):
        return None
    if formula.count("{") != formula.count("}"):
        return None
    return formula_to_unicode(content)


def formula_to_unicode(latex: str) -> str:
    """Turn a formula without its delimiters into characters; return it unchanged where that cannot be done.

    >>> formula_to_unicode(r"\\alpha \\le \\frac{1}{2}")
    'α≤1/2'
    """
    formula = latex.strip()
    if not formula:
        return latex
    if not any(mark in formula for mark in "\\{}$"):
        return formula
    if _is_prose(formula) or _is_weak(formula) or not _is_balanced(formula):
        return latex
    text = _read(formula)
    return latex if text is None else text


def _is_prose(formula: str) -> bool:
    """Tell whether a would-be formula is a sentence."""
    if len(formula) < 32 or any(mark in formula for mark in "{}$^_"):
        return False
    if len(_SIGNAL.findall(formula)) > 2:
        return False
    structures = ("frac", "sqrt", "left", "right", "begin", "end", "sum", "int", "alpha", "beta")
    if any(f"\\{name}" in formula for name in structures):
        return False
    return len(_WORD.findall(formula)) >= 6 and formula.count(" ") >= 5


def _is_weak(formula: str) -> bool:
    """Tell whether there is too little LaTeX in a text to read it as LaTeX."""
    n_commands = len(_COMMAND.findall(formula))
    n_words = len(_WORD.findall(formula))
    n_marks = sum(formula.count(mark) for mark in "{}$^_=&%#")
    if n_commands == 0:
        if formula.endswith("\\") and not formula.endswith("\\\\"):
            return True
        if "\\" in formula and n_marks == 0:
            return True
        if n_words >= 2 and n_marks <= 1:
            return True
    return n_words >= 4 and n_commands <= 1 and n_marks <= 2


def _is_balanced(formula: str) -> bool:
    """Tell whether braces, environments, delimiters and `left`-`right` pairs match, in a formula of bearable length."""
    if len(formula) > LONGEST_FORMULA:
        return False
    depth = 0
    for match in _ESCAPED_OR_BRACE.finditer(formula):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth < 0:
            return False
    environments: list[str] = []
    for kind, name in _ENVIRONMENT.findall(formula):
        if kind == "begin":
            environments.append(name)
        elif not environments or environments.pop() != name:
            return False
    n_left, n_right = (len(re.findall(rf"\\{side}\b", formula)) for side in ("left", "right"))
    pairs = formula.count("\\(") == formula.count("\\)") and formula.count("\\[") == formula.count("\\]")
    return depth == 0 and not environments and n_left == n_right and pairs and len(_DOLLAR.findall(formula)) % 2 == 0


@functools.lru_cache(maxsize=4096)
def _read(formula: str) -> str | None:
    from pylatexenc.latexwalker import LatexWalkerError

    try:
        text = _reader()(formula)
    except (LatexWalkerError, *_READER_ERRORS):
        return None
    return str(text)


@functools.cache
def _reader() -> Callable[[str], str]:
    from pylatexenc.latex2text import LatexNodes2Text

    # pylatexenc warns of every unknown macro; a score is no place for that.
    logging.getLogger("pylatexenc").setLevel(logging.ERROR)
    read: Callable[[str], str] = LatexNodes2Text().latex_to_text
    return read
