"""The tree of a LaTeX formula, written out as the official normal form.

Source: OmniDocBench v1.6, whose tokenizer walks the tree of pylatexenc. The rules are theirs, the design is ours:
one pass that turns nodes into `Piece`s, scripts attached on the way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pylatexenc import latexwalker as lw


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


FONTS = words("mathrm mathbf mathit mathsf mathtt mathcal mathbb mathfrak mathscr mbox hbox")
ACCENTS = words("hat bar vec dot ddot tilde breve check acute grave")
WIDE_ACCENTS = frozenset({"widetilde", "widehat"})
LIMIT_OPERATORS = words("det gcd inf lim liminf limsup max min Pr sup")
OPERATORS = LIMIT_OPERATORS | words(
    "arccos arcsin arctan arg cos cosh cot coth csc deg dim exp hom injlim ker lg ln log projlim sec sin sinh tan tanh"
)
FENCES = {
    "pmatrix": ("(", ")"),
    "bmatrix": ("[", "]"),
    "Bmatrix": ("\\{", "\\}"),
    "vmatrix": ("|", "|"),
    "Vmatrix": ("\\Vert", "\\Vert"),
    "cases": ("\\{", "."),
    "dcases": ("\\{", "."),
    "rcases": (".", "\\}"),
}
_CASES = frozenset({"cases", "dcases", "rcases"})
_LENGTH = re.compile(r"^\s*(-?)\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]{2})\s*$")


@dataclass
class Piece:
    """One item of a formula: a token run, a `{...}` group (tokens without the braces) or a bare script mark."""

    tokens: list[str]
    is_group: bool = False
    script: str = ""
    n_primes: int = 0
    hidden_primes: int = 0

    def written(self) -> list[str]:
        """Return the tokens, a group with its braces."""
        return ["{", *self.tokens, "}"] if self.is_group else self.tokens

    def braced(self) -> list[str]:
        """Return the tokens inside exactly one pair of braces."""
        return ["{", *self.tokens, "}"]


# What a macro reads together with the nodes behind it, and the position after them; None where it reads none.
_Ahead: TypeAlias = tuple[list[Piece], int] | None


def write_tree(nodes: Sequence[Any]) -> list[str]:
    """Write the nodes of a formula as tokens of the official normal form."""
    return _flat(_Reader().read(nodes))


def _flat(pieces: Sequence[Piece]) -> list[str]:
    return [token for piece in pieces for token in piece.written()]


def arguments_of(node: Any) -> list[Any]:
    """Return the arguments that the parser bound to a macro or environment."""
    parsed = getattr(node, "nodeargd", None)
    return [arg for arg in (getattr(parsed, "argnlist", None) or []) if arg is not None]


def _inside(node: Any) -> list[Any]:
    if node is None:
        return []
    inner = getattr(node, "nodelist", None)
    return [node] if inner is None else list(inner)


def _is_group(node: Any) -> bool:
    return isinstance(node, lw.LatexGroupNode)


def _is_brace_group(node: Any) -> bool:
    return _is_group(node) and tuple(node.delimiters) == ("{", "}")


def _direct_chars(node: Any) -> str:
    return "".join(getattr(child, "chars", "") or "" for child in (getattr(node, "nodelist", None) or []))


def _is_blank(node: Any) -> bool:
    text = getattr(node, "chars", None)
    text = getattr(node, "specials_chars", None) if text is None else text
    return isinstance(text, str) and not text.strip()


class _Reader:
    """Turns pylatexenc nodes into pieces; one method per kind of node."""

    def read(self, nodes: Sequence[Any], *, text: bool = False, primes: bool = True) -> list[Piece]:
        items: list[Piece] = []
        i = 0
        while i < len(nodes):
            ahead = self._with_followers(nodes, i, text)
            if ahead is not None:
                made, i = ahead
                items += made
                continue
            after_script = bool(items) and bool(items[-1].script)
            items += self._single(nodes[i], text, primes and not after_script)
            i += 1
        return _attach_scripts(items)

    def group(self, nodes: Sequence[Any], *, text: bool = False, primes: bool = True) -> Piece:
        return _as_group(self.read(nodes, text=text, primes=primes))

    def argument(self, node: Any, text: bool) -> Piece:
        """Read a macro argument: a brace group stays one, a single item stays bare, the rest is grouped."""
        if node is None:
            return Piece([], is_group=True)
        if _is_brace_group(node):
            return self.group(node.nodelist, text=text)
        pieces = self.read(_inside(node), text=text)
        return pieces[0] if len(pieces) == 1 else _as_group(pieces)

    def _single(self, node: Any, text: bool, primes: bool) -> list[Piece]:
        if isinstance(node, lw.LatexCharsNode):
            return _read_chars(node.chars or "", text, primes)
        if isinstance(node, lw.LatexSpecialsNode):
            return _read_chars(node.specials_chars or "", text, primes)
        if isinstance(node, lw.LatexGroupNode):
            return [self.group(node.nodelist, text=text, primes=primes)]
        if isinstance(node, lw.LatexMathNode):
            return [Piece(["$"]), *self.read(node.nodelist, primes=primes), Piece(["$"])]
        if isinstance(node, lw.LatexEnvironmentNode):
            return [Piece(self._environment(node))]
        if isinstance(node, lw.LatexMacroNode):
            pieces = self._macro(node, text)
            if text and node.macro_post_space and node.macroname not in ("limits", "nolimits"):
                pieces.append(Piece(["~"]))
            return pieces
        return []

    def _macro(self, node: Any, text: bool) -> list[Piece]:
        name, args = node.macroname, arguments_of(node)
        first = args[0] if args else None
        if name in ("limits", "nolimits"):
            return []
        if name in ("frac", "dfrac", "tfrac", "binom"):
            parts = [self.argument(a, text) for a in args[:2]] if len(args) >= 2 else [Piece([], is_group=True)] * 2
            return [_fraction(name, parts[0], parts[1])]
        if name == "sqrt":
            listed = list(getattr(node.nodeargd, "argnlist", None) or [])
            index = listed[0] if len(listed) >= 2 else None
            root = ["[", *_flat(self.read(_inside(index), text=text)), "]"] if index is not None else []
            return [Piece(["\\sqrt", *root, *self.argument(listed[-1] if listed else None, text).written()])]
        if name in ACCENTS:
            return [Piece([f"\\{name}", *self.argument(first, text).braced()])]
        if name in FONTS:
            return [_font(name, self.argument(first, text))]
        if name == "text":
            return [Piece(["\\mathrm", *self.group(_inside(first), text=True).braced()])]
        if name in ("overline", "underline"):
            return [Piece([f"\\{name}", "{", *self.argument(first, text).written(), "}"])]
        out = [Piece([f"\\{name}"])]
        for arg in args:
            inner = self.read(_inside(arg), text=text)
            if _is_group(arg) and tuple(arg.delimiters) == ("[", "]"):
                out += [Piece(["["]), *inner, Piece(["]"])]
            elif _is_group(arg):
                out.append(_as_group(inner))
            else:
                out += inner
        return out

    def _with_followers(self, nodes: Sequence[Any], i: int, text: bool) -> _Ahead:
        """Read a macro whose argument the parser left standing behind it; return the pieces and the next position."""
        name = getattr(nodes[i], "macroname", None)
        if name is None:
            return None
        if name in LIMIT_OPERATORS:
            return [Piece(["\\operatorname*", "{", *name, "}"])], i + 1
        if name in ("arccos", "tanh"):
            return [Piece([f"\\{name}"])], i + 1
        where = _next_visible(nodes, i + 1)
        follower: Any = nodes[where] if where < len(nodes) else None
        args = arguments_of(nodes[i])
        if name in ACCENTS or name in WIDE_ACCENTS:
            inner = getattr(args[0], "macroname", None) if len(args) == 1 else None
            if inner in FONTS and not arguments_of(args[0]) and _is_brace_group(follower):
                font = _font(str(inner), self.group(follower.nodelist, text=text))
                if name in ACCENTS:
                    return [Piece([f"\\{name}", *font.braced()])], where + 1
                return [Piece([f"\\{name}"]), font], where + 1
        if name == "operatorname" and _is_group(follower):
            word = _direct_chars(follower)
            if word == word.strip() and "".join(word.split()) in OPERATORS:
                return [Piece(["\\" + "".join(word.split())])], where + 1
            return [Piece(["\\operatorname"]), self.group(follower.nodelist)], where + 1
        if name in FONTS and not args and follower is not None:
            return [_font(name, self.argument(follower, text))], where + 1
        if name in ("binom", "frac", "dfrac", "tfrac") and not args and follower is not None:
            return self._loose_fraction(nodes, where, name, text)
        if name in ("phantom", "llap", "rlap") and _is_group(follower):
            return [Piece([f"\\{name}", *self.group(follower.nodelist, text=text).braced()])], where + 1
        if name == "rule":
            return _rule(nodes, where)
        return None

    def _loose_fraction(self, nodes: Sequence[Any], where: int, name: str, text: bool) -> _Ahead:
        top = nodes[where]
        chars = getattr(top, "chars", None)
        words = re.match(r"\s*(\S+)\s+(\S+)(.*)", chars, re.S) if name == "binom" and isinstance(chars, str) else None
        if words:
            upper, lower = (_attach_scripts(_read_chars(words.group(k), text, True)) for k in (1, 2))
            rest = _attach_scripts(_read_chars(words.group(3), text, True))
            return [_fraction(name, _one(upper), _one(lower)), *rest], where + 1
        below = _next_visible(nodes, where + 1)
        bottom: Any = nodes[below] if below < len(nodes) else None
        if _is_group(top) and _is_group(bottom):
            parts = [self.group(node.nodelist, text=text) for node in (top, bottom)]
            return [_fraction(name, *parts)], below + 1
        barred = any(getattr(n, "specials_chars", None) == "&" for n in (top, bottom))
        if name == "binom" and bottom is not None and not barred and getattr(bottom, "macroname", None) != "\\":
            parts = [_one(self.read(_inside(node), text=text)) for node in (top, bottom)]
            return [_fraction(name, *parts)], below + 1
        return None

    def _environment(self, node: Any) -> list[str]:
        name = node.environmentname or ""
        rows = self._rows(node, name.startswith("aligned"))
        widest = max((len(row) for row in rows), default=0)
        columns = _columns(node, name)
        if columns is None:
            aligned = name.startswith("aligned")
            columns = ["rl"[k % 2] for k in range(widest)] if aligned else ["l"] * (len(rows[0]) if rows else 0)
        out = ["\\begin{array}", "{", *columns, "}"]
        for row in rows:
            if any(cell.tokens for cell in row):
                cells = [cell.written() if cell.tokens else [] for cell in row]
                out += [token for cell in cells for token in ("&", *cell)][1:]
                out.append("\\\\")
        out.append("\\end{array}")
        fence = FENCES.get(name.rstrip("*"))
        return [f"\\left{fence[0]}", *out, f"\\right{fence[1]}"] if fence else out

    def _rows(self, node: Any, aligned: bool) -> list[list[Piece]]:
        """Cut an environment into rows of cells; each odd cell of an aligned one starts with an empty group."""
        rows: list[list[list[Any]]] = [[[]]]
        for child in node.nodelist or []:
            if isinstance(child, lw.LatexSpecialsNode) and child.specials_chars == "&":
                rows[-1].append([])
            elif isinstance(child, lw.LatexMacroNode) and child.macroname == "\\":
                star = (getattr(child.nodeargd, "argnlist", None) or [None])[0]
                rows.append([[star] if getattr(star, "chars", None) == "*" else []])
            else:
                rows[-1][-1].append(child)
        out = []
        for row in rows:
            cells = [self.read(cell) for cell in row]
            lead = [Piece([], is_group=True)]
            out.append([_as_group(lead + cell if aligned and k % 2 else cell) for k, cell in enumerate(cells)])
        return out


def _one(pieces: list[Piece]) -> Piece:
    return pieces[0] if len(pieces) == 1 else _as_group(pieces)


def _fraction(name: str, top: Piece, bottom: Piece) -> Piece:
    return Piece(["\\binom" if name == "binom" else "\\frac", *top.written(), *bottom.written()])


def _font(name: str, body: Piece) -> Piece:
    return Piece(["\\mathrm" if name in ("mbox", "hbox") else f"\\{name}", *body.written()])


def _as_group(pieces: Sequence[Piece]) -> Piece:
    n_primes = sum(p.n_primes for p in pieces) if pieces and all(p.n_primes for p in pieces) else 0
    rest = pieces[1:]
    starts_hidden = bool(rest) and pieces[0].tokens == ["^"] and all(p.n_primes for p in rest)
    hidden = sum(p.n_primes for p in rest) if starts_hidden else 0
    return Piece(_flat(pieces), is_group=True, n_primes=n_primes, hidden_primes=hidden)


def _prime_piece(tokens: list[str]) -> Piece:
    return Piece(tokens, is_group=len(tokens) > 1, n_primes=len(tokens))


def _read_chars(chars: str, text: bool, primes: bool) -> list[Piece]:
    out: list[Piece] = []
    for run in re.findall(r"\s+|'+|--|.", chars, re.S):
        if run.isspace():
            out += [Piece(["~"])] if text else []
        elif run[0] == "'" and not text:
            marks = ["\\prime" if primes else "'"] * len(run)
            out += [Piece([], script="^"), _prime_piece(marks)] if primes else [_prime_piece([m]) for m in marks]
        elif run == "--" and text:
            out += [Piece(["-"]), Piece(["-"])]
        elif run in ("^", "_"):
            out.append(Piece([], script=run))
        else:
            out += [Piece([run])] if run[0] != "'" else [Piece([char]) for char in run]
    return out


def _attach_scripts(items: Sequence[Piece]) -> list[Piece]:
    out: list[Piece] = []
    i = 0
    while i < len(items):
        base = items[i]
        i += 1
        if base.script:
            out.append(Piece([base.script]))
            continue
        scripts: dict[str, Piece] = {}
        while i < len(items) and items[i].script:
            mark = items[i].script
            k = i + 1
            while k < len(items) and items[k].tokens == ["~"]:
                k += 1
            if k >= len(items) or items[k].script:
                scripts.pop(mark, None)
                i += 1
                continue
            scripts[mark] = _merged_script(mark, scripts.get(mark), items[k])
            i = k + 1
        tokens = [t for mark in "_^" if mark in scripts for t in (mark, *scripts[mark].braced())]
        out.append(Piece(base.written() + tokens) if tokens else base)
    return out


def _merged_script(mark: str, old: Piece | None, new: Piece) -> Piece:
    if mark == "_":
        return new
    if new.hidden_primes:
        new = _prime_piece(new.tokens[1:])
    if old is not None and old.n_primes and new.n_primes:
        return _prime_piece(old.tokens + new.tokens)
    return new


def _next_visible(nodes: Sequence[Any], i: int) -> int:
    while i < len(nodes) and _is_blank(nodes[i]):
        i += 1
    return i


def _rule(nodes: Sequence[Any], where: int) -> _Ahead:
    below = _next_visible(nodes, where + 1)
    if below >= len(nodes) or not (_is_group(nodes[where]) and _is_group(nodes[below])):
        return None
    tokens = ["\\rule"]
    for node in (nodes[where], nodes[below]):
        length = _LENGTH.match(_direct_chars(node))
        if length is None:
            return None
        tokens += ["{", f"{float(length.group(1) + length.group(2)):g}", length.group(3), "}"]
    return [Piece(tokens)], below + 1


def _columns(node: Any, name: str) -> list[str] | None:
    """Read the column letters of an environment; None where it declares none."""
    base = name.rstrip("*")
    if base in _CASES:
        return ["l", "l"]
    listed = list(getattr(getattr(node, "nodeargd", None), "argnlist", None) or [])
    if name == "array" and len(listed) >= 2:
        spec = listed[1]
    else:
        spec = listed[0] if name in ("tabular", "tabularx") and listed else (listed[-1] if listed else None)
    if spec is None:
        return None
    chars = _direct_chars(spec)
    return [c for c in chars if c in "lcr"] if not chars or chars.strip() else None
