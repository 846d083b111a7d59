"""The items that a formula in normal form consists of, and their tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gravityocr.errors import InputError
from gravityocr.training.synthetic.charset import ASCII
from gravityocr.training.synthetic.formula_names import ACCENTS
from gravityocr.training.synthetic.latex_vocabulary import LATEX_TOKENS

Kind = Literal["symbol", "space", "empty", "font", "macro", "sized", "fenced", "array"]
Role = Literal["ink", "plain", "open", "close", "body"]
_VOCABULARY = frozenset(LATEX_TOKENS) | frozenset(ASCII)


class FormulaFormError(InputError):
    """A formula that has no normal form: a command outside of the vocabulary, or a construct without a rule."""


@dataclass(frozen=True)
class Item:
    """One item of a formula with its scripts.

    `name` is the symbol, the command or the opening delimiter, `parts` are the arguments; of an array its cells row by
    row, a letter of `columns` each. `optional`: the first argument stands in brackets. `width`: of a space.
    """

    kind: Kind
    name: str = ""
    parts: tuple[Items, ...] = ()
    closer: str = ""
    columns: str = ""
    optional: bool = False
    width: int = 0
    sub: Items = ()
    sup: Items = ()

    @property
    def has_scripts(self) -> bool:
        """Tell whether a script hangs on the item."""
        return bool(self.sub or self.sup)


Items: TypeAlias = tuple[Item, ...]


@dataclass(frozen=True)
class WrittenToken:
    """A token of the target and what it draws.

    `ink`: a mark of its own. `body`: it shares the mark of the accent before it. `open` and `close`: the brackets of a
    list that is set by itself. `plain`: nothing.
    """

    token: str
    role: Role


def spelled(name: str) -> str:
    """Return a symbol or command as its token: with a blank behind it where it ends in a letter."""
    return name + " " if name.startswith("\\") and name[-1].isalpha() else name


def is_known(name: str) -> bool:
    """Tell whether a symbol or command is a token of the vocabulary."""
    return spelled(name) in _VOCABULARY


def write_items(items: Items) -> list[WrittenToken]:
    """Write a formula as tokens.

    *Raises*: FormulaFormError for a token outside of the vocabulary.
    """
    tokens = list(_write_list(items))
    unknown = [written.token for written in tokens if written.token not in _VOCABULARY]
    if unknown:
        raise FormulaFormError(f"formula with {unknown[0]!r}, which is outside of the vocabulary: leave it out")
    return tokens


def _write_list(items: Items) -> Iterator[WrittenToken]:
    for item in items:
        yield from _write_base(item)
        for mark, script in (("_", item.sub), ("^", item.sup)):
            if script:
                yield WrittenToken(mark, "plain")
                yield from _write_group(script)


def _write_group(items: Items, left: str = "{", right: str = "}") -> Iterator[WrittenToken]:
    yield WrittenToken(left, "open")
    yield from _write_list(items)
    yield WrittenToken(right, "close")


def _write_base(item: Item) -> Iterator[WrittenToken]:
    if item.kind in ("symbol", "space"):
        yield WrittenToken(spelled(item.name), "plain" if item.kind == "space" else "ink")
    elif item.kind == "empty":
        yield from (WrittenToken("{", "plain"), WrittenToken("}", "plain"))
    elif item.kind == "font":
        yield from (WrittenToken(spelled(item.name), "plain"), WrittenToken("{", "plain"))
        yield from _write_list(item.parts[0])
        yield WrittenToken("}", "plain")
    elif item.kind == "sized":
        yield WrittenToken(spelled(item.name), "ink")
        yield WrittenToken(spelled(item.parts[0][0].name), "body")
    elif item.kind == "fenced":
        yield WrittenToken(spelled(item.name), "ink")
        yield from _write_list(item.parts[0])
        yield WrittenToken(spelled(item.closer), "ink")
    elif item.kind == "array":
        yield from _write_array(item)
    else:
        yield from _write_macro(item)


def _write_macro(item: Item) -> Iterator[WrittenToken]:
    yield WrittenToken(spelled(item.name), "ink")
    if item.name in ACCENTS and len(item.parts[0]) == 1 and not item.parts[0][0].has_scripts:
        (body,) = item.parts[0]
        if body.kind in ("symbol", "font"):  # the accent of a single letter leans with it: one mark for both
            yield WrittenToken("{", "plain")
            for written in _write_base(body):
                yield WrittenToken(written.token, "body" if written.role == "ink" else written.role)
            yield WrittenToken("}", "plain")
            return
    for number, part in enumerate(item.parts):
        yield from _write_group(part, *(("[", "]") if item.optional and number == 0 else ()))


def _write_array(item: Item) -> Iterator[WrittenToken]:
    yield WrittenToken(item.name, "plain")
    yield from (WrittenToken(token, "plain") for token in ("{", *item.columns, "}"))
    n_columns = len(item.columns)
    for number, cell in enumerate(item.parts):
        if number:
            yield WrittenToken("&" if number % n_columns else "\\\\ ", "plain")
        yield from _write_list(cell)
    yield WrittenToken("\\end{array}", "plain")
