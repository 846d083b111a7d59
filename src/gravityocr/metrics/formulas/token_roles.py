"""What CDM cannot see of a token: the scripts that it stands in, and whether it is bold.

The geometric filter of CDM forgives a shift of 30 pixels, more than lies between a superscript and a subscript, and a
bold letter has the box of a plain one. Both are read from the LaTeX instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from gravityocr.metrics.formulas.latex_pieces import words


def _commands(names: str) -> frozenset[str]:
    return frozenset("\\" + name for name in words(names))


BOLD_MARK = "*"
# Deeper scripts are told apart no more: nobody sets them, and the roles of a hostile formula stay short.
MAX_LEVELS = 8
_BOLD = _commands("mathbf boldsymbol bm textbf pmb")
_BOLD_SWITCHES = _commands("bf bfseries boldmath")
_PLAIN_SWITCHES = _commands("rm it sl sf tt cal mit normalfont unboldmath")
_ONE_ARGUMENT = _commands(
    "mathrm mathit mathsf mathtt mathcal mathbb mathfrak mathscr mathop mathbin operatorname text textrm textit "
    "textsf texttt textnormal textmd textup emph smash hat widehat tilde widetilde bar vec dot ddot dddot ddddot check "
    "breve acute grave mathring overline underline overbrace underbrace"
)
_TWO_ARGUMENTS = _commands("frac binom")
# What stands above or below counts as a script: `\underset{x}{\max}` looks like `\max_x`, a root's index like `^3`.
_FIRST_STACKED = {"\\overset": "^", "\\stackrel": "^", "\\underset": "_"}
_OPTIONAL_AND_ARGUMENT = {"\\sqrt": ("^", ""), "\\xrightarrow": ("_", "^"), "\\xleftarrow": ("_", "^")}
_GREEK = words(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi "
    "omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
_LETTERS = frozenset(f"\\{form}{name}" for form in ("", "var", "up", "upvar") for name in _GREEK) | _commands(
    "ell hbar imath jmath nabla partial"
)


class _Place(NamedTuple):
    """Where an item stands: the marks of its scripts from the outermost, and whether the font is bold."""

    path: str
    bold: bool

    def within(self, marks: str) -> _Place:
        return _Place((self.path + marks)[:MAX_LEVELS], self.bold)


@dataclass
class _Group:
    """An open group; `waiting` are the places of the arguments and scripts that the next items are."""

    start: _Place
    place: _Place
    closer: str = ""
    only_primes: bool = False
    waiting: list[_Place] = field(default_factory=list)


def token_roles(tokens: Sequence[str]) -> list[str]:
    """Return the role of each token: its script path, outermost level first, and `*` if it is a bold letter.

    Only letters and digits are bold: on a sign or an accent nobody sees it. A prime stands in a superscript.

    >>> token_roles(["x", "^", "{", "a", "_", "\\\\mathbf", "{", "b", "}", "}"])
    ['', '', '', '^', '', '^_', '', '^_*', '', '']
    """
    reader = _RoleReader()
    return [reader.read(token, after) for token, after in zip_longest(tokens, tokens[1:], fillvalue="")]


class _RoleReader:
    """Reads tokens one by one; braces that do not pair up are forgiven, as the raw text of a formula may have them."""

    def __init__(self) -> None:
        plain = _Place("", False)
        self.groups = [_Group(plain, plain)]
        self.opens_bracket = False

    def read(self, token: str, after: str) -> str:
        """Return the role of a token; it is empty for braces and script marks."""
        group = self.groups[-1]
        if token in ("", "~"):
            return ""
        if token in ("}", group.closer):
            self._close(token)
            return ""
        if token in ("^", "_"):
            group.waiting.insert(0, group.place.within(token))
            return ""
        place = group.waiting.pop(0) if group.waiting else group.place
        in_script = place.path != group.place.path
        if token == "{" or (token == "[" and self.opens_bracket):
            self.groups.append(_Group(place, place, "}" if token == "{" else "]", only_primes=in_script))
            self.opens_bracket, group.only_primes = False, False
            return ""
        if token == "'" and not (in_script or group.only_primes):
            place = place.within("^")
        group.only_primes = group.only_primes and token == "'"
        self._follow(group, token, place, after)
        bold = place.bold and (token.isalnum() or token in _LETTERS)
        return place.path + (BOLD_MARK if bold else "")

    def _close(self, token: str) -> None:
        while len(self.groups) > 1:
            if self.groups.pop().closer == token:
                break

    def _follow(self, group: _Group, token: str, place: _Place, after: str) -> None:
        """Note what a command means for the items behind it."""
        arguments: list[_Place] = []
        if token in _BOLD:
            arguments = [_Place(place.path, True)]
        elif token in _ONE_ARGUMENT:
            arguments = [place]
        elif token in _TWO_ARGUMENTS:
            arguments = [place, place]
        elif token in _FIRST_STACKED:
            arguments = [place.within(_FIRST_STACKED[token]), place]
        elif token in _OPTIONAL_AND_ARGUMENT:
            optional, argument = (place.within(mark) for mark in _OPTIONAL_AND_ARGUMENT[token])
            self.opens_bracket = after == "["
            arguments = [optional, argument] if self.opens_bracket else [argument]
        elif token in _BOLD_SWITCHES or token in _PLAIN_SWITCHES:
            group.place = _Place(group.place.path, token in _BOLD_SWITCHES)
        elif token in ("&", "\\\\"):
            group.place = group.start
        group.waiting[:0] = arguments
