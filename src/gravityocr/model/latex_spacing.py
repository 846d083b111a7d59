"""Blanks and dollars in recognised LaTeX.

A command's token brings a blank, which is needed before a letter only; a formula whose dollar was forgotten gets it.
"""

from __future__ import annotations

import re

_NEEDLESS = re.compile(r"(\\[A-Za-z]+\*?) +(?![A-Za-z ])")
_LONE_BACKSLASH = re.compile(r"(?<!\\)((?:\\\\)*)\\\Z")  # of a blank with a backslash that lost its blank
_DOLLAR = re.compile(r"(?<!\\)\$")
_LATEX = re.compile(r"\\[A-Za-z]|[\w)\]}][\^_]\{")
_INLINE = re.compile(r"(?<!\\)\$((?:[^$\\]|\\.)+)(?<!\\)\$", re.DOTALL)


def compact_latex(latex: str) -> str:
    """Return LaTeX without the blanks behind commands that no letter follows, and without blanks at its ends."""
    return _LONE_BACKSLASH.sub(r"\1", _NEEDLESS.sub(r"\1", latex).strip())


def compact_inline_formulas(text: str) -> str:
    """Return text whose inline formulas are compact."""
    return _INLINE.sub(lambda match: f"${compact_latex(match[1])}$", text)


def with_both_dollars(text: str) -> str:
    """Return a piece of text whose formula has both its dollars; an odd dollar that is money stays as it is."""
    dollars = [match.start() for match in _DOLLAR.finditer(text)]
    if len(dollars) % 2 == 0:
        return text
    if _LATEX.search(text, dollars[-1]):
        return text.rstrip() + "$"
    opening = _LATEX.search(text, 0, dollars[0])
    return text if opening is None else f"{text[: opening.start()]}${text[opening.start() :]}"


def join_formula_parts(before: str, after: str) -> str | None:
    """Join two texts that a cut inside an inline formula parted; None where there was none.

    Each piece of a formula is a formula of its own: `$a=$` and `$b$` become `$a= b$`.
    """
    if not (before.endswith("$") and after.startswith("$")) or before.endswith(r"\$"):
        return None
    return f"{before[:-1].rstrip()} {after[1:].lstrip()}" if _count(before) % 2 == 0 else None


def _count(text: str) -> int:
    """Return the number of dollars that are no characters of the text."""
    return len(_DOLLAR.findall(text))
