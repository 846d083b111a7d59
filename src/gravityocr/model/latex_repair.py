"""Mend recognised LaTeX so that TeX sets it: braces, arrays, delimiters, arguments and scripts."""

from __future__ import annotations

import re

_BEGIN, _END = r"\begin{array}", r"\end{array}"
_ESCAPED = frozenset("%#$")
_CHARACTERS = re.compile(r"\\.|.", re.DOTALL)
_FRAMES = re.compile(r"\\(?:begin|end)\{array\}|\\left(?![a-zA-Z])|\\right(?![a-zA-Z])|\\.|[{}&]", re.DOTALL)
_TOKENS = re.compile(r"\\(?:begin|end)\{array\}|\\[A-Za-z]+\*?|\\.|\s+|.", re.DOTALL)
_WITH_ONE_ARGUMENT = (
    r"\sqrt \mathrm \mathbf \mathcal \mathbb \mathfrak \mathsf \mathscr \mathtt \boldsymbol \text \operatorname "
    r"\operatorname* \hat \tilde \bar \vec \dot \ddot \dddot \check \breve \acute \grave \mathring \widehat "
    r"\widetilde \overline \underline \overbrace \underbrace \overrightarrow \overleftarrow \xrightarrow "
    r"\xleftarrow \boxed \pmod ^ _"
)
_ONE_ARGUMENT = frozenset(_WITH_ONE_ARGUMENT.split())
_MAX_DEPTH = 60
_TWO_ARGUMENTS = frozenset([r"\frac", r"\binom", r"\overset", r"\underset", r"\stackrel"])
# What can be no argument: where one of these follows, the argument is missing.
_NO_ARGUMENT = frozenset(["}", "^", "_", "&", r"\\", r"\right", _END])


def settable(latex: str) -> str:
    """Return LaTeX of matching braces in which nothing is left that TeX would refuse, as far as it is known here."""
    return _paired(whole_arrays("".join(_completed(_TOKENS.findall(latex), 0, None, 0)[0])))


def _completed(tokens: list[str], at: int, end: str | None, depth: int) -> tuple[list[str], int]:
    """Return a list up to `end`, its commands with all their arguments, and where it went on; scripts never double."""
    out: list[str] = []
    scripts: set[str] = set()
    while at < len(tokens) and tokens[at] != end:
        token = tokens[at]
        if token in ("^", "_"):
            if token in scripts:
                out.append("{}")
                scripts = set()
            scripts.add(token)
        elif not token.isspace():
            scripts = set()
        piece, at = _element(tokens, at, depth)
        out += piece
    return out, at


def _element(tokens: list[str], at: int, depth: int) -> tuple[list[str], int]:
    """Return one token with its arguments, or one group; what is nested too deeply to mean anything stays as it is."""
    token = tokens[at]
    if depth > _MAX_DEPTH:
        return [token], at + 1
    if token == "{":
        inner, at = _completed(tokens, at + 1, "}", depth + 1)
        return ["{", *inner, "}"], at + 1
    out, at = [token], at + 1
    if token == r"\sqrt" and at < len(tokens) and tokens[at] == "[":
        close = next((i for i in range(at, len(tokens)) if tokens[i] in ("]", "{", "}")), len(tokens))
        if close < len(tokens) and tokens[close] == "]":
            out, at = [*out, *tokens[at : close + 1]], close + 1
    for _ in range(2 if token in _TWO_ARGUMENTS else token in _ONE_ARGUMENT):
        while at < len(tokens) and tokens[at].isspace():
            out.append(tokens[at])
            at += 1
        if at >= len(tokens) or tokens[at] in _NO_ARGUMENT:
            out.append("{}")
            continue
        argument, at = _element(tokens, at, depth + 1)
        out += argument if len(argument) == 1 or argument[0] == "{" else ["{", *argument, "}"]
    return out, at


def balanced(latex: str) -> str:
    r"""Return LaTeX whose braces match: stray closing ones dropped, missing ones added at the end.

    Characters that TeX does not set as they are get their backslash; one at the end, without a name, goes.
    """
    out: list[str] = []
    depth = 0
    for token in _CHARACTERS.findall(latex):
        if token == "\\":
            continue
        if token == "{":
            depth += 1
        elif token == "}":
            if depth == 0:
                continue
            depth -= 1
        out.append(f"\\{token}" if token in _ESCAPED else token)
    return "".join(out) + "}" * depth


def whole_arrays(latex: str) -> str:
    """Return LaTeX of matching braces in which arrays are closed; tabs that stand outside of them become blanks."""
    out: list[str] = []
    frames: list[str] = []
    at = 0
    for match in _FRAMES.finditer(latex):
        token = match[0]
        out.append(latex[at : match.start()])
        at = match.end()
        in_array = bool(frames) and frames[-1] == _BEGIN
        if token in ("{", _BEGIN):
            frames.append(token)
            out.append(token if token == "{" or latex[at:].lstrip().startswith("{") else f"{token}{{l}}")
        elif token == "}":
            while frames.pop() == _BEGIN:
                out.append(_END)
            out.append(token)
        elif token == _END:
            out.append(token if in_array else "")
            frames = frames[:-1] if in_array else frames
        else:
            out.append(" " if token == "&" and not in_array else token)
    return "".join(out) + latex[at:] + _END * len(frames)


def _paired(latex: str) -> str:
    r"""Return LaTeX in which every \left has its \right in the same group or cell; others become plain delimiters."""
    frames: list[tuple[str, list[int]]] = [("", [])]
    lonely: list[int] = []
    for match in _FRAMES.finditer(latex):
        token = match[0]
        kind, opened = frames[-1]
        if token in ("{", _BEGIN):
            frames.append((token, []))
        elif token in ("}", _END):
            lonely += frames.pop()[1]
        elif token in ("&", r"\\") and kind == _BEGIN:
            lonely += opened
            opened.clear()
        elif token == r"\left":
            opened.append(match.start())
        elif token == r"\right":
            if opened:
                opened.pop()
            else:
                lonely.append(match.start())
    for start in sorted([*lonely, *(start for _, opened in frames for start in opened)], reverse=True):
        length = len(r"\left") if latex.startswith(r"\left", start) else len(r"\right")
        rest = latex[start + length :]
        latex = latex[:start] + (rest[1:] if rest.startswith(".") else rest)
    return latex
