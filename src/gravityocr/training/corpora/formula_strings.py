r"""Formulas as strings of what they show: two spellings of one formula give the same tokens.

Gone are delimiters, tags, environments, fonts, blanks, sizes of brackets and braces; synonyms become one; a subscript
precedes its superscript. Any string is taken, broken LaTeX included, in time linear in its length and depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gravityocr.metrics.formulas.latex_pieces import words

LONGEST_FORMULA = 20_000  # characters; what stands behind them is not looked at

_GONE = re.compile(
    r"""
    \$ | \\[\[\]()] | \\(?:tag|label|hspace|vspace|color|textcolor|phantom)\*?\s*\{[^{}]*\}
    | \\begin\s*\{(?:array|tabular|alignat|alignedat|xalignat)\*?\}\s*(?:\[[^\]]*\])?\s*\{[^{}]*\}
    | \\(?:begin|end)\s*\{[^{}]*\} | \\(?:left|right)\s*\. | \\\\\s*(?:\[[^\]]{0,12}\])? | \\[,;:!>\ ] | [~&\s]
    """,
    re.VERBOSE,
)
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[^\\]", re.DOTALL)
_DROPPED = words(
    """
    mathbf mathrm mathnormal mathit mathbb mathcal mathscr mathfrak mathsf mathtt text textbf textrm textit textsf
    texttt textnormal mbox hbox boldmath boldsymbol bm pmb operatorname bf rm it cal sf tt em left right middle big
    Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm Bigm displaystyle textstyle scriptstyle
    scriptscriptstyle limits nolimits quad qquad thinspace medspace thickspace enspace space notag nonumber
    hline mathop mathrel mathbin mathord mathopen mathclose tiny small normalsize large Large relax
    """
)
_SAME = {
    r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\cfrac": r"\frac", r"\dbinom": r"\binom", r"\tbinom": r"\binom",
    r"\le": r"\leq", r"\leqslant": r"\leq", r"\ge": r"\geq", r"\geqslant": r"\geq", r"\ne": r"\neq",
    r"\to": r"\rightarrow", r"\longrightarrow": r"\rightarrow", r"\gets": r"\leftarrow", r"\vert": "|", r"\lvert": "|",
    r"\rvert": "|", r"\mid": "|", r"\Vert": r"\|", r"\lVert": r"\|", r"\rVert": r"\|", r"\lbrace": r"\{",
    r"\rbrace": r"\}", r"\lbrack": "[", r"\rbrack": "]", r"\cdots": r"\dots", r"\ldots": r"\dots", r"\dotsc": r"\dots",
    r"\dotsb": r"\dots", r"\varepsilon": r"\epsilon", r"\varphi": r"\phi", r"\vartheta": r"\theta", r"\ast": "*",
    r"\colon": ":", r"\lnot": r"\neg", r"\land": r"\wedge", r"\lor": r"\vee", r"\emptyset": r"\varnothing",
    r"\widehat": r"\hat", r"\widetilde": r"\tilde", r"\overline": r"\bar", r"\iff": r"\Leftrightarrow",
    r"\implies": r"\Rightarrow", "−": "-", "×": r"\times", "·": r"\cdot",
}  # fmt: skip
_WORDS = words(
    """
    sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh exp log ln lg max min sup inf lim limsup liminf det
    dim ker arg deg gcd hom Pr
    """
)
_SCRIPTS = ("_", "^")


def formula_tokens(latex: str) -> list[str]:
    r"""Return what a formula shows as tokens.

    >>> formula_tokens(r"\[ \dfrac{a}{\mathbf{b}} \le x^2_{i} \]") == formula_tokens(r"$\frac ab\leq x_i^{2}$")
    True
    >>> " ".join(formula_tokens(r"\operatorname{sin}' x"))
    's i n ^ \\prime x'
    """
    return _flat(_GONE.sub(" ", latex[:LONGEST_FORMULA]))


def _flat(text: str) -> list[str]:
    """Read the groups from the inside out: each becomes one item of the list that it stands in."""
    frames: list[list[list[str]]] = [[]]
    for token in _spelled(_TOKEN.findall(text)):
        if token == "{":
            frames.append([])
        elif token == "}":
            if len(frames) > 1:
                group = _joined(frames.pop())
                frames[-1].append(group)
        else:
            frames[-1].append([token])
    while len(frames) > 1:
        group = _joined(frames.pop())
        frames[-1].append(group)
    return _joined(frames[0])


def _spelled(tokens: Iterable[str]) -> Iterator[str]:
    for token in tokens:
        name = token[1:]  # of a command
        if name in _DROPPED or token.isspace():
            continue
        if token == "'":
            yield from ("^", r"\prime")
        elif name in _WORDS:
            yield from name
        else:
            yield _SAME.get(token, token)


def _joined(items: list[list[str]]) -> list[str]:
    """Join a list of items, of two scripts on one base the subscript first."""
    out: list[str] = []
    place = 0
    while place < len(items):
        scripts: dict[str, list[str]] = {}
        while place + 1 < len(items) and len(items[place]) == 1 and (mark := items[place][0]) in _SCRIPTS:
            if mark in scripts:
                scripts[mark] += items[place + 1]
            else:
                scripts[mark] = [mark, *items[place + 1]]
            place += 2
        for mark in _SCRIPTS:
            out += scripts.get(mark, ())
        if not scripts:
            out += items[place]
            place += 1
    return out
