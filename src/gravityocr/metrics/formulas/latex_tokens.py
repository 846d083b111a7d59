"""LaTeX formulas as flat token lists, the way the official CDM scorer cuts them.

Source: OmniDocBench v1.6, whose tokenizer writes a normal form of LaTeX: every environment becomes an `array`, every
script stands in braces and the subscript goes first, `\\dfrac` becomes `\\frac`, spaces outside text vanish.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pylatexenc import latexwalker as lw

from gravityocr.errors import InputError
from gravityocr.metrics.formulas.latex_pieces import OPERATORS, arguments_of, write_tree

MAX_TREE_CHARS = 20_000
_ALIGNED_ENV = re.compile(r"\\begin{(split|align|alignedat|alignat|eqnarray)\*?}(.+?)\\end{\1\*?}", re.S)
_SMALL_MATRIX_ENV = re.compile(r"\\begin{(smallmatrix)\*?}(.+?)\\end{\1\*?}", re.S)
_ENV_EDGE = re.compile(r"\\(begin|end)\{([^{}]+)\}")
_CJK_AFTER_MACRO = re.compile(r"(\\[A-Za-z]+)(?=[\u4e00-\u9fff])")
_RM_SWITCH = re.compile(r"\{ ?\\rm|\\rm\{")
_OPERATOR_NAME = re.compile(r"\\operatorname\s*\{([^{}]*?)\}")


class FormulaSyntaxError(InputError):
    """LaTeX that the tokenizer cannot read; the official scorer then renders the raw string."""


def tokenize_formula(latex: str) -> list[str]:
    """Cut a math formula into tokens of the official normal form.

    *Raises*: `FormulaSyntaxError` where braces, environments or delimiters do not pair up, or the text is too long.

    >>> tokenize_formula(r"\\dfrac{a}{b}^2_i")
    ['\\\\frac', '{', 'a', '}', '{', 'b', '}', '_', '{', 'i', '}', '^', '{', '2', '}']
    """
    text = _ALIGNED_ENV.sub(r"\\begin{aligned}\2\\end{aligned}", latex)
    text = _clean_line(_SMALL_MATRIX_ENV.sub(r"\\begin{matrix}\2\\end{matrix}", text))
    _refuse_unbalanced(text, formula=True)
    text = text.replace("$", " ")
    ends_in_backslash = text.endswith("\\")
    post = " ".join(write_tree(_parse(_RM_SWITCH.sub(_open_mathrm, text))))
    if ends_in_backslash and post and not post.endswith(" \\") and post != "\\":
        post += " \\"
    post = _OPERATOR_NAME.sub(_known_operator, post)
    return _without_last_row_break(_merge_delimiters(post.split()))


def tokenize_tabular(latex: str) -> list[str]:
    """Cut a formula that holds a `tabular` into its source tokens, nothing rewritten.

    *Raises*: `FormulaSyntaxError` as `tokenize_formula`.
    """
    text = latex.replace("\\\\%", "\\\\ %").replace("\\%", "\0").split("%")[0].replace("\0", "\\%")
    if "\\end{tabular}" not in text:
        text += "\\end{tabular}"
    text = re.sub(r"hskip(.*?)(cm|in|pt|mm|em)", r"hspace{\1\2}", text)
    text = re.sub(r"\\label\{.*?\}", "", text.replace("\\~", " ").replace("\\>", " "))
    _refuse_unbalanced(text, formula=False)
    return " ".join(_source_tokens(_parse(text))).split()


def _open_mathrm(match: re.Match[str]) -> str:
    return "\\mathrm{"


def _known_operator(match: re.Match[str]) -> str:
    name = "".join(match.group(1).split())
    return f"\\{name}" if name in OPERATORS else match.group(0)


def _clean_line(text: str) -> str:
    text = text.removeprefix("%").split("%", 1)[0].replace("\\~", " ")
    text = _CJK_AFTER_MACRO.sub(r"\1 ", text).replace("\\>", " ")
    text = re.sub(r"\\label\{.*?\}", "", text)
    if not any(word in text for word in ("matrix", "cases", "array", "begin")):
        text = text.replace("\\\\", "\\,")
    return text


def _refuse_unbalanced(text: str, *, formula: bool) -> None:
    text = text.strip()
    if len(text) > MAX_TREE_CHARS:
        raise FormulaSyntaxError(f"formula of {len(text)} characters: at most {MAX_TREE_CHARS} are parsed; shorten it")
    depth = 0
    for mark in re.finditer(r"\\[{}\[\]()]|[{}]", text):
        if mark.group() in "{}":
            depth += 1 if mark.group() == "{" else -1
            if depth < 0:
                break
    open_envs: list[str] = []
    for edge, name in _ENV_EDGE.findall(text):
        if edge == "begin":
            open_envs.append(name)
        elif not open_envs or open_envs.pop() != name:
            raise FormulaSyntaxError(f"formula with an unpaired \\end{{{name}}}: close every environment")
    pairs = [(r"\\left\b", r"\\right\b"), (r"\\\(", r"\\\)"), (r"\\\[", r"\\\]")] if formula else []
    uneven = any(len(re.findall(a, text)) != len(re.findall(b, text)) for a, b in pairs)
    odd_dollars = formula and len(re.findall(r"(?<!\\)\$", text)) % 2
    if depth or open_envs or uneven or odd_dollars:
        raise FormulaSyntaxError(f"formula with unpaired braces, environments or delimiters: {text[:60]!r}; close them")


@contextmanager
def _quiet_parser() -> Iterator[None]:
    logger = logging.getLogger("pylatexenc")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _parse(text: str) -> list[Any]:
    try:
        with _quiet_parser():
            return list(lw.LatexWalker(text).get_latex_nodes()[0])
    except (lw.LatexWalkerError, RecursionError) as error:
        raise FormulaSyntaxError(f"formula that does not parse: {text[:60]!r} ({type(error).__name__})") from error


def _merge_delimiters(tokens: Sequence[str]) -> list[str]:
    out: list[str] = []
    i = 0
    while i < len(tokens):
        size = 2 if tokens[i] in ("\\left", "\\right") and i + 1 < len(tokens) else 1
        out.append("".join(tokens[i : i + size]))
        i += size
    return out


def _without_last_row_break(tokens: Sequence[str]) -> list[str]:
    last = len(tokens) - 1
    return [t for i, t in enumerate(tokens) if not (t == "\\\\" and i < last and tokens[i + 1] == "\\end{array}")]


def _source_tokens(nodes: Sequence[Any]) -> list[str]:
    out: list[str] = []
    for node in nodes or []:
        if isinstance(node, lw.LatexCharsNode | lw.LatexSpecialsNode):
            text = node.chars if isinstance(node, lw.LatexCharsNode) else node.specials_chars
            out += [c for c in text if not c.isspace()]
        elif isinstance(node, lw.LatexGroupNode):
            out += [node.delimiters[0], *_source_tokens(node.nodelist), node.delimiters[1]]
        elif isinstance(node, lw.LatexMathNode):
            out += ["$", *_source_tokens(node.nodelist), "$"]
        elif isinstance(node, lw.LatexEnvironmentNode):
            name = f"{{{node.environmentname}}}"
            out += ["\\begin", name, *_source_tokens(arguments_of(node)), *_source_tokens(node.nodelist), "\\end", name]
        elif isinstance(node, lw.LatexMacroNode):
            out += [f"\\{node.macroname}", *_source_tokens(arguments_of(node))]
    return out
