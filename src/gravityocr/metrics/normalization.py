"""Text, formulas and tables as OmniDocBench compares them.

Every function takes any string, the empty one and broken LaTeX or HTML included; a megabyte takes seconds at most.

*Source*: OmniDocBench v1.6, `data_preprocess` and `text_postprocess`.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

from gravityocr.metrics.latex_text import inline_to_unicode, replace_inline, uncircle
from gravityocr.metrics.tables.table_html import drop_between, normal_form

_NOT_TEXT = re.compile(r"[^\w\u4e00-\u9fff]")
_CONTROL_WORDS = ("\\t", "\\n", "\t", "\n", "/t", "/n")
_DELIMITERS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))

# Commands without meaning for the comparison, in the order in which they go: a shorter one may begin a longer one.
_DROPPED = (
    "\\mathbf", "\\mathrm", "\\mathnormal", "\\mathit", "\\mathbb", "\\mathcal", "\\mathscr", "\\mathfrak",
    "\\mathsf", "\\mathtt", "\\textbf", "\\text", "\\boldmath", "\\boldsymbol", "\\operatorname", "\\bm",
    "\\symbfit", "\\mathbfcal", "\\symbf", "\\scriptscriptstyle", "\\notag", "\\setlength", "\\coloneqq", "\\space",
    "\\thickspace", "\\thinspace", "\\medspace", "\\nobreakspace", "\\negmedspace", "\\quad", "\\qquad",
    "\\enspace", "\\substackw", " ", "$$", "\\left", "\\right", "\\displaystyle", "\\text",
)  # fmt: skip
_SPACING = re.compile(r"\\[!,;:]")
_ALIGNMENT = re.compile(r"(?<!\\)&")
_COLUMNS = re.compile(r"\{[lcr| ]+\}")
_PLAIN_GROUP = re.compile(r"\{([A-Za-z0-9.+\-]+)\}")
_SHORT_GROUP = re.compile(r"\{([^{}]{1,160})\}")
_OPENABLE = ("=", "+", "-", "\\\\", "^", "_", "[", "]", "(", ")")
# Groups are opened from the inside, one level a pass. This many characters may be passed over, so that only a formula
# of thousands of nested groups stops early.
_MOST_GROUP_WORK = 20_000_000


def normalize_text(text: str) -> str:
    r"""Turn inline formulas into characters and keep nothing but letters, digits and `_`.

    >>> normalize_text("Hello, World! $x_{1} \\le 2$\n")
    'HelloWorldx_12'
    """
    text = uncircle(inline_to_unicode(text))
    for word in _CONTROL_WORDS:
        text = text.replace(word, "")
    return _NOT_TEXT.sub("", text)


def normalize_table(html: str) -> str:
    """Bring an HTML table into the benchmark's normal form; '' where there is no `<table`.

    >>> normalize_table("<table><thead><tr><th>a</th></tr></thead></table>")
    '<html><body><table border="1" ><tr><td>a</td></tr></table></body></html>'
    """
    return normal_form(html)


def strip_formula_delimiters(latex: str) -> str:
    r"""Remove the delimiters around a formula, however many there are.

    >>> strip_formula_delimiters(" $$ \\[ x \\] $$ ")
    'x'
    """
    start, end = _stripped(latex, 0, len(latex))
    changed = True
    while start < end and changed:
        changed = False
        for left, right in _DELIMITERS:
            fits = end - start >= len(left) + len(right)
            if fits and latex.startswith(left, start, end) and latex.endswith(right, start, end):
                start, end = _stripped(latex, start + len(left), end - len(right))
                changed = True
                break
    return latex[start:end]


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def strip_formula_tags(latex: str) -> str:
    r"""Remove `\tag{...}`, `\tag*{...}`, `\notag` and `\nonumber`.

    >>> strip_formula_tags("x = 1 \\tag{3.2} \\notag")
    'x = 1  '
    """
    if "\\tag" in latex:
        latex = _without_tags(latex)
    return latex.replace("\\notag", "").replace("\\nonumber", "")


def _without_tags(latex: str) -> str:
    closers = _closing_braces(latex)
    parts = []
    done = 0
    for match in re.finditer(r"\\tag(?!\w)(\s*(?:\*\s*)?\{)?", latex):
        if match.start() < done or match[1] is None:
            continue
        parts.append(latex[done : match.start()])
        closer = closers.get(match.end() - 1)
        # Without its closing brace only the command goes; the text of the tag stays.
        done = match.start() + len("\\tag") if closer is None else closer + 1
    return "".join(parts) + latex[done:]


def _closing_braces(latex: str) -> dict[int, int]:
    """Map every opening brace to the brace that closes it; backslashes do not matter here."""
    closers = {}
    opened = []
    for match in re.finditer(r"[{}]", latex):
        if match[0] == "{":
            opened.append(match.start())
        elif opened:
            closers[opened.pop()] = match.start()
    return closers


def _without_phantoms(latex: str) -> str:
    r"""Remove `\phantom{...}`; at the first that is never closed only the command goes, and the rest stays."""
    if "\\phantom{" not in latex:
        return latex
    closers = _closing_braces(latex)
    parts = []
    done = 0
    for match in re.finditer(r"\\phantom\{", latex):
        if match.start() < done:
            continue
        parts.append(latex[done : match.start()])
        closer = closers.get(match.end() - 1)
        if closer is None:
            done = match.end() - 1
            break
        done = closer + 1
    return "".join(parts) + latex[done:]


def formula_to_render(latex: str) -> str:
    r"""Return what TeX is given of a formula: no code fence, no delimiters, no tags.

    >>> formula_to_render("```latex\n\\[ x = 1 \\tag{2} \\]\n```")
    'x = 1'
    """
    latex = latex.split("```latex")[-1].split("```")[0].strip()
    latex = latex.strip("$").strip()
    for opening, closing in (("\\[", "\\]"), ("\\(", "\\)")):
        if latex.startswith(opening) and latex.endswith(closing):
            latex = latex[2:-2].strip()
    return strip_formula_tags(latex).strip()


def normalize_inline_formulas(text: str) -> str:
    """Replace every inline formula of a text by its normal form.

    >>> normalize_inline_formulas("so $X = {2}$ holds")
    'so x=2 holds'
    """
    return replace_inline(text, normalize_formula)


def normalize_formula(latex: str) -> str:
    r"""Reduce a formula to what the edit distance compares: no fonts, spacing, environments, tags, simple braces.

    >>> normalize_formula("$$\\mathbf{X}_{i} = \\left( 1 \\right)$$")
    'x_i=(1)'
    """
    if not latex or latex.isspace():
        return ""
    text = strip_formula_tags(strip_formula_delimiters(uncircle(latex)))
    text = _without_phantoms(_first_delimited(text))
    text = _ALIGNMENT.sub("", _SPACING.sub("", text))
    for command, sign in (("\\mid", "|"), ("\\vert", "|"), ("\\{", ""), ("\\}", ""), ("~", "")):
        text = text.replace(command, sign)
    for opener in ("\\hspace{", "\\begin{", "\\end{", "\\arraycolsep"):
        text = drop_between(text, opener, "}")
    text = _COLUMNS.sub("", text).strip(".")
    for command in _DROPPED:
        text = text.replace(command, "")
    return re.sub(r"\s+", "", _open_groups(text).lower())


def _open_groups(text: str) -> str:
    work = 0
    before = None
    while text != before and work <= _MOST_GROUP_WORK:
        before = text
        work += len(text)
        text = _PLAIN_GROUP.sub(r"\1", text).replace("{}", "")
        text = re.sub(r"\}\}+", "}", re.sub(r"\{\{+", "{", text))
        text = _SHORT_GROUP.sub(_opened, text)
    return text


def _opened(match: re.Match[str]) -> str:
    return match[1] if any(mark in match[1] for mark in _OPENABLE) else match[0]


def _first_delimited(latex: str) -> str:
    r"""Return the content of the first `\[...\]` or `\(...\)` that is closed on its line, or everything."""
    for line in latex.split("\n"):
        spans = sorted(span for sides in (("\\[", "\\]"), ("\\(", "\\)")) for span in _first_span(line, *sides))
        if spans:
            start, end = spans[0]
            return line[start:end].strip()
    return latex


def _first_span(line: str, opener: str, closer: str) -> Iterator[tuple[int, int]]:
    """Give start and end of what the first opener and a closer without a backslash before it hold."""
    closers = [match.start() for match in re.finditer(rf"(?<!\\){re.escape(closer)}", line)]
    begin = line.find(opener)
    if begin >= 0 and closers:
        inside = begin + len(opener)
        at = bisect.bisect_left(closers, inside + 1)  # at least one character in between
        if at < len(closers):
            yield inside, closers[at]
