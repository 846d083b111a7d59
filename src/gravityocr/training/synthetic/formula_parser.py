"""The parser of the normal form: from the official tokens of a formula to its items."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gravityocr.metrics.formulas.latex_tokens import tokenize_formula
from gravityocr.training.synthetic.formula_items import FormulaFormError, Item, Items, is_known
from gravityocr.training.synthetic.formula_names import (
    ALIASES,
    CENTERED_DOTS_BEFORE,
    DELIMITERS,
    DROPPED,
    FENCE_ALIASES,
    FONT_ALIASES,
    LETTERS,
    NEGATED,
    ONE_ARGUMENT,
    OPERATORS,
    OPTIONAL_ARGUMENT,
    SHORTHANDS,
    SIZES,
    SPACES,
    SWITCHES,
    TWO_ARGUMENTS,
    UNWRAPPED,
    ordered,
)
from gravityocr.training.synthetic.formula_normal_form import in_font, tidy

MAX_DEPTH = 40
_FENCE = re.compile(r"\\(left|right)(?![A-Za-z])(.+)")
_NO_BASE = frozenset(ordered(r"+ - = < > , ; : / ( [ \{ & \leq \geq \rightarrow \times \cdot \in \pm"))


def parse_formula(latex: str) -> Items:
    """Read a formula into its normal form.

    *Raises*: InputError (FormulaSyntaxError, FormulaFormError) where it does not parse or has no normal form.
    """
    tokens = tokenize_formula(latex.replace("\n", " "))
    parser = _Parser(tokens, centered="matrix}" in latex and "{array}" not in latex)
    items = parser.read_list()
    if parser.at < len(tokens):
        raise FormulaFormError(f"formula with a stray {tokens[parser.at]!r}: {latex[:60]!r}")
    return items


class _Parser:
    """Reads tokens from left to right, one method for each construct."""

    def __init__(self, tokens: Sequence[str], centered: bool) -> None:
        self.tokens = tokens
        self.centered = centered
        self.at = 0
        self.depth = 0
        self.in_text = False

    def next(self) -> str:
        """Return the token that comes next; an empty one at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        """Return the next token and go behind it."""
        token = self.next()
        self.at += 1
        return token

    def expect(self, wanted: str) -> None:
        token = self.take()
        if token != wanted:
            raise FormulaFormError(f"formula with {token!r} where {wanted!r} should stand")

    def read_list(self, *stops: str) -> Items:
        """Read up to a token that closes something or to one of `stops`, which stays unread."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise FormulaFormError(f"formula nested deeper than {MAX_DEPTH}")
        out: list[Item] = []
        while self.next() not in ("", "}", "\\end{array}", "&", "\\\\", *stops):
            token = self.next()
            fence = _FENCE.fullmatch(token)
            if fence and fence[1] == "right":
                break
            if token in ("\\over", "\\choose"):
                self.at += 1
                above, below = tidy(out), self.read_list(*stops)
                out = [_macro("\\frac" if token == "\\over" else "\\binom", (above, below))]
            elif token in SWITCHES:
                self.at += 1
                rest = self.read_list(*stops)
                out += in_font(SWITCHES[token], rest) if SWITCHES[token] else rest
            elif token == "'" and not self.in_text:
                self.at += 1
                _attach(out, "^", (Item("symbol", "\\prime"),))
            elif token in ("^", "_"):
                self.at += 1
                _attach(out, token, self.read_argument())
            else:
                out += self.read_items()
        self.depth -= 1
        return tidy(out, keep_spaces=self.in_text)

    def read_argument(self) -> Items:
        """Read a group or a single item."""
        while self.next() == "~":
            self.at += 1
        if self.next() in ("", "}", "^", "_", "&", "\\\\"):
            raise FormulaFormError("formula with a command that lacks its argument")
        return self.read_group() if self.next() == "{" else tidy(self.read_items())

    def read_text(self) -> Items:
        """Read the argument of a font, where blanks part words."""
        outside, self.in_text = self.in_text, True
        items = self.read_argument()
        self.in_text = outside
        return items

    def read_group(self) -> Items:
        self.expect("{")
        items = self.read_list()
        self.expect("}")
        return items

    def read_items(self) -> list[Item]:
        """Read what the next token begins."""
        if self.next() == "{":
            return list(self.read_group()) or ([Item("empty")] if self.next() in ("^", "_") else [])
        token = self.take()
        token = ALIASES.get(token, token)
        fence = _FENCE.fullmatch(token)
        if fence:
            return [self._fenced(fence[2])]
        if token in SPACES:
            return [Item("space", token, width=SPACES[token])]
        if token in DROPPED:
            return []
        if token in UNWRAPPED:
            return list(self.read_argument())
        if token in SHORTHANDS:
            font, letter = SHORTHANDS[token].split(",")
            return in_font(font, [Item("symbol", letter)])
        if token in FONT_ALIASES:
            return in_font(FONT_ALIASES[token], self.read_text())
        if token == "\\operatorname" and self.next() == "*":
            self.at += 1
            token = "\\operatorname*"
        if token == "\\operatorname":
            return in_font("\\mathrm", self.read_text())
        return [self._construct(token)]

    def _construct(self, token: str) -> Item:
        if token == "\\operatorname*":
            return self._starred()
        if token == "\\begin{array}":
            return self._array()
        if token in SIZES:
            return self._sized(SIZES[token])
        if token == "\\not":
            below = self.take()
            token = NEGATED.get(ALIASES.get(below, below), "\\not")
        if token in ONE_ARGUMENT:
            return _macro(token, (self.read_argument(),))
        if token in TWO_ARGUMENTS:
            return _macro(TWO_ARGUMENTS[token], (self.read_argument(), self.read_argument()))
        if token in OPTIONAL_ARGUMENT:
            first: tuple[Items, ...] = ()
            if self.next() == "[":
                self.at += 1
                first = (self.read_list("]"),)
                self.expect("]")
            return _macro(token, (*first, self.read_argument()), optional=bool(first))
        if token in ("\\dots", "…"):
            token = "\\cdots" if self.next() in CENTERED_DOTS_BEFORE else "\\ldots"
        if token in ("$", "#", "\\end{array}") or token in _ARGUMENTS_NEEDED or not is_known(token):
            raise FormulaFormError(f"formula with {token!r}, for which there is no rule: leave it out")
        return Item("symbol", token)

    def _starred(self) -> Item:
        inner = self.read_argument()
        if len(inner) == 1 and inner[0].kind == "symbol" and inner[0].name in OPERATORS:
            return inner[0]
        word = "\\" + "".join(item.name for item in inner)
        if word in OPERATORS:
            return Item("symbol", word)
        letters = inner[0].parts[0] if len(inner) == 1 and inner[0].name == "\\mathrm" else inner
        if not letters or not all(item.name in LETTERS and not item.has_scripts for item in letters):
            raise FormulaFormError("formula with an operator that is no word: leave it out")
        return Item("font", "\\operatorname*", (letters,))

    def _fenced(self, left: str) -> Item:
        body = self.read_list()
        fence = _FENCE.fullmatch(self.take())
        if not fence:
            raise FormulaFormError(f"formula with \\left{left} that nothing closes")
        marks = [ALIASES.get(mark, FENCE_ALIASES.get(mark, mark)) for mark in (left, fence[2])]
        if not all(mark == "." or mark in DELIMITERS for mark in marks):
            raise FormulaFormError(f"formula with {marks} as fences: leave it out")
        return Item("fenced", f"\\left{marks[0]}", (body,), closer=f"\\right{marks[1]}")

    def _sized(self, size: str) -> Item:
        braced = self.next() == "{"
        self.at += braced
        mark = self.take()
        if braced:
            self.expect("}")
        mark = ALIASES.get(mark, mark)
        if mark not in DELIMITERS:
            raise FormulaFormError(f"formula with {size} before {mark!r}, which is no delimiter")
        return Item("sized", size, ((Item("symbol", mark),),))

    def _array(self) -> Item:
        before = self.tokens[self.at - 2] if self.at >= 2 else ""
        self.expect("{")
        columns = ""
        while self.next() in ("l", "c", "r"):
            columns += self.take()
        self.expect("}")
        rows: list[list[Items]] = [[]]
        while True:
            rows[-1].append(self.read_list())
            token = self.take()
            if token == "\\\\":
                rows.append([])
            elif token == "\\end{array}":
                break
            elif token != "&":
                raise FormulaFormError(f"formula with {token!r} that closes an array")
        rows = [row for row in rows if any(row)]
        n_columns = max((len(row) for row in rows), default=0)
        if not n_columns or any(row[0] and row[0][0].name in ("[", "*") for row in rows[1:]):
            raise FormulaFormError("formula with an empty array, or a row that starts like an option: leave it out")
        if self.centered and before != "\\left\\{":
            columns = "c" * n_columns
        columns = columns or "l"
        cells = tuple(cell for row in rows for cell in (*row, *([()] * (n_columns - len(row)))))
        return Item("array", "\\begin{array}", cells, columns=columns.ljust(n_columns, columns[-1])[:n_columns])


def _macro(name: str, parts: tuple[Items, ...], *, optional: bool = False) -> Item:
    if not all(parts):
        raise FormulaFormError(f"formula with an empty argument of {name}: leave it out")
    return Item("macro", name, parts, optional=optional)


_ARGUMENTS_NEEDED = frozenset({"\\operatorname*", "\\right", "\\left", *FONT_ALIASES})


def _attach(items: list[Item], mark: str, script: Items) -> None:
    """Hang a script on the last item that can bear it, or on nothing."""
    if not script:
        return
    where = "sub" if mark == "_" else "sup"
    at = len(items) - 1
    while at >= 0 and (
        items[at].kind == "space" or (items[at].kind == "empty" and not items[at].has_scripts and at > 0)
    ):
        at -= 1
    base = items[at] if at >= 0 else None
    floats = items[-1:] != [base] and items and items[-1].kind == "empty"
    if base is None or (floats and base.kind == "symbol" and base.name in _NO_BASE):
        items.append(Item("empty"))
        base, at = items[-1], len(items) - 1
    if base.sub if where == "sub" else base.sup:
        if base.kind != "symbol" and not (where == "sup" and _only_primes(base.sup)):
            raise FormulaFormError("formula with two scripts in one place: leave it out")
        if where == "sup" and (_only_primes(base.sup) or _only_primes(script)):
            script = base.sup + script if _only_primes(base.sup) else script + base.sup
        else:
            raise FormulaFormError("formula with two scripts in one place: leave it out")
    del items[at + 1 :]
    items[at] = replace(base, sub=script) if where == "sub" else replace(base, sup=script)


def _only_primes(script: Items) -> bool:
    return bool(script) and all(item.name == "\\prime" and not item.has_scripts for item in script)
