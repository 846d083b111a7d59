"""Each visible token of a formula in a colour of its own, so that a render shows where it went.

Source: OmniDocBench v1.6 CDM (`normalize_latex`, `token_add_color_RGB`): which commands split into letters, which carry
a colour, which only pass it on. The lists are facts of the metric; a token outside all of them is coloured.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gravityocr.metrics.formulas.latex_pieces import words
from gravityocr.metrics.formulas.latex_tokens import FormulaSyntaxError
from gravityocr.metrics.formulas.token_roles import token_roles

PALETTE_STEP = 15
PALETTE_SIDE = 255 // PALETTE_STEP + 1
PALETTE_SIZE = 5800


def _commands(names: str) -> frozenset[str]:
    return frozenset("\\" + name for name in words(names))


_ACCENTS = _commands(
    "widetilde overline hat widehat tilde Tilde dot bar vec underline underbrace check breve Bar Vec mathring "
    "ddot Ddot dddot ddddot"
)
_WRAPPERS = _commands(
    "boldsymbol pmb textbf mathrm mathbf mathbb mathcal textmd texttt textnormal text textit textup mathop mathbin "
    "smash operatorname textrm mathfrak emph textsf textsc"
)
_ONE_ARGUMENT = _ACCENTS | _WRAPPERS
_FRACTIONS = _commands("frac binom")
_STACKS = _commands("overset underset stackrel")
_OPTIONAL_FIRST = _commands("xrightarrow xleftarrow sqrt")
_UNSEEN = _commands("fontfamily vphantom phantom rowcolor ref thesubequation global theboldgroup")
_SKIPPED = (
    _STACKS
    | words("& $ ~ \\")
    | _commands(
        r"\ index a multirow def edef raggedright url cr ensuremath left right mathchoice scriptstyle displaystyle "
        "qquad quad , ! boldmath gdef today the"
    )
)
_SKIPPED_SHAPE = re.compile(r"[{}\[\]^_]|\\begin\{.*?\}|\\end\{.*?\}|\\.*rule.*|\\.*line.*")
_DOTS = words("…") | _commands("ldots hdots cdots dddot dots dotsc dotsi dotsm dotso dotsb mathellipsis")
_SPELLED = {
    command: "mod" if command.endswith("mod") else command[1:]
    for command in _commands(
        "ex ln lg cot min max ker hom sec scs csc deg arg log dim exp sin cos tan tanh cosh sinh coth "
        "arcsin arccos arctan mod bmod pmod"
    )
}
_DROPPED_TEXT = ("\\raggedright", "\\arraybackslash", "\\lowercase", "\\uppercase", "\\lefteqn")
_BIG = re.compile(r"\\[Bb]igg?[glrm]?")
_SPACE_MACRO = re.compile(r"\\[hv]space")
_RULE_GROUPS = {"\\rule": 2, "\\specialrule": 3}
_COLOR_MACROS = _commands("colorbox color textcolor cellcolor")


@dataclass(frozen=True)
class ColoredFormula:
    """A formula ready for TeX: its source with colours, and the token of each colour in order, with its role."""

    latex: str
    tokens: tuple[str, ...]
    roles: tuple[str, ...]


def palette_color(index: int) -> tuple[int, int, int]:
    """Return the RGB colour of token `index`; black stays free for what carries no colour.

    >>> palette_color(0), palette_color(323)
    ((0, 0, 15), (15, 0, 0))
    """
    code = index + 1
    red, rest = divmod(code, PALETTE_SIDE * PALETTE_SIDE)
    green, blue = divmod(rest, PALETTE_SIDE)
    return red * PALETTE_STEP, green * PALETTE_STEP, blue * PALETTE_STEP


def color_formula(text: str) -> ColoredFormula:
    """Colour a formula whose tokens stand between single spaces.

    *Raises*: `FormulaSyntaxError` where a command lacks its argument or there are more tokens than colours.
    """
    tokens = rewrite_tokens(text.strip().split(" "))
    painter = _Painter(tokens)
    try:
        painter.paint_all()
    except (IndexError, RecursionError) as error:
        raise FormulaSyntaxError(f"formula whose commands lack arguments: {text[:60]!r}; complete them") from error
    if len(painter.names) > PALETTE_SIZE:
        raise FormulaSyntaxError(f"formula of {len(painter.names)} tokens: at most {PALETTE_SIZE} can be told apart")
    parts = zip(painter.before, tokens, painter.after, strict=True)
    return ColoredFormula(" ".join(f"{a}{t}{b}" for a, t, b in parts), tuple(painter.names), tuple(painter.roles))


def rewrite_tokens(tokens: list[str]) -> list[str]:
    """Apply the official rewrites: words become letters, sizes join their delimiter, lone arguments get braces.

    >>> rewrite_tokens(["\\\\sin", "x", "\\\\big", "(", "\\\\hat", "y"])
    ['\\\\mathrm', '{', 's', 'i', 'n', '}', 'x', '\\\\big(', '\\\\hat', '{', 'y', '}']
    """
    try:
        return _fill_braces(_joined(_expanded([_plain(token) for token in tokens])))
    except IndexError as error:
        raise FormulaSyntaxError(f"formula that ends in the middle of a command: {' '.join(tokens)[-60:]!r}") from error


def closing(tokens: list[str], start: int, left: str = "{", right: str = "}") -> int:
    """Return the position of the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(tokens)):
        depth += (tokens[i] == left) - (tokens[i] == right)
        if depth == 0:
            break
    else:
        depth = 1
    if depth or tokens[start] != left:
        raise FormulaSyntaxError(f"formula with an unclosed {left}: {' '.join(tokens)[:60]!r}")
    return i


def _plain(token: str) -> str:
    if "\\" not in token:
        return token
    token = token.replace("\\pmatrix", "\\mypmatrix").replace("\\matrix", "\\mymatrix")
    for text in _DROPPED_TEXT:
        token = token.replace(text, "")
    return token


def _expanded(tokens: list[str]) -> list[str]:
    out: list[str] = []
    for token in tokens:
        if token in ("--", "---"):
            out += "-" * len(token)
        elif token in _DOTS:
            out += [".", ".", "."]
        elif token in _SPELLED:
            out += ["\\mathrm", "{", *_SPELLED[token], "}"]
        else:
            out.append(token)
    return out


def _group_end(tokens: list[str], start: int, allowed: str, count: int = 1) -> int | None:
    """Return the position behind `count` groups whose tokens are all spelled in `allowed` characters, or None."""
    for _ in range(count):
        if start >= len(tokens) or tokens[start] != "{":
            return None
        end = start + 1
        while end < len(tokens) and re.fullmatch(f"[{allowed}]+", tokens[end]):
            end += 1
        if end >= len(tokens) or tokens[end] != "}" or end == start + 1:
            return None
        start = end + 1
    return start


def _joined(tokens: list[str]) -> list[str]:
    out: list[str] = []
    i = 0
    while i < len(tokens):
        token, after = tokens[i], tokens[i + 1] if i + 1 < len(tokens) else None
        end: int | None = None
        if _SPACE_MACRO.fullmatch(token):
            end = _group_end(tokens, i + 1, ".0-9a-z")
        elif token in _RULE_GROUPS:
            end = _group_end(tokens, i + 1, ".0-9a-z", _RULE_GROUPS[token])
        elif token == "\\begin{array}":
            spec = _group_end(tokens, i + 1, "lrc")
            if spec:
                out += [token, "".join(tokens[i + 1 : spec])]
                i = spec
                continue
        elif token == "\\operatorname" and after == "*":
            out.append(token)
            i += 2
            continue
        elif token in _COLOR_MACROS:
            skip = i + 1
            while skip < len(tokens) and re.fullmatch(r"[\[\]RGBrgb]+", tokens[skip]):
                skip += 1
            color_end = _group_end(tokens, skip, "A-Za-z0-9,!")
            if color_end:
                i = color_end
                continue
        elif after and (
            token == "\\string"
            or (token == "\\'" and len(after) == 1 and after != "{")
            or (_BIG.fullmatch(token) and (after in set("(){}|[]") or after.startswith("\\")))
        ):
            end = i + 2
        elif token == "\\footnote":
            token = "^"
        out.append("".join(tokens[i:end]) if end else token)
        i = end or i + 1
    return out


def _fill_braces(tokens: list[str]) -> list[str]:
    """Give every one- or two-argument command the braces that its argument lacks."""
    i = 0
    while i < len(tokens):
        if tokens[i] in _ONE_ARGUMENT:
            stop = i + 1
            while tokens[stop] in _ONE_ARGUMENT:
                stop += 1
            end = closing(tokens, stop) if tokens[stop] == "{" else stop
            body = tokens[stop + 1 : end] if end > stop else [tokens[stop]]
            opened = [part for token in tokens[i:stop] for part in (token, "{")]
            tokens = tokens[:i] + opened + body + ["}"] * (stop - i) + tokens[end + 1 :]
        elif tokens[i] in _OPTIONAL_FIRST:
            at = closing(tokens, i + 1, "[", "]") + 1 if tokens[i + 1] == "[" else i + 1
            tokens = _braced_at(tokens, at)
        elif tokens[i] in _FRACTIONS or tokens[i] in _STACKS:
            tokens = _braced_at(tokens, i + 1)
            tokens = _braced_at(tokens, closing(tokens, i + 1) + 1)
        i += 1
    return tokens


def _braced_at(tokens: list[str], at: int) -> list[str]:
    return tokens if tokens[at] == "{" else [*tokens[:at], "{", tokens[at], "}", *tokens[at + 1 :]]


class _Painter:
    """Walks the tokens once and notes what to write before and after each."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.before = [""] * len(tokens)
        self.after = [""] * len(tokens)
        self.names: list[str] = []
        self.roles: list[str] = []
        self.role_of = token_roles(tokens)

    def paint_all(self) -> None:
        self._paint_range(0, len(self.tokens))

    def _paint_range(self, start: int, stop: int, braced: bool = False) -> None:
        while start < stop:
            start = self._paint(start, braced)

    def _mark(self, start: int, end: int, braced: bool = False) -> None:
        red, green, blue = palette_color(len(self.names))
        self.before[start] += ("{" if braced else "") + f"\\mathcolor[RGB]{{{red},{green},{blue}}}{{"
        self.after[end] = ("}}" if braced else "}") + self.after[end]
        self.names.append(self.tokens[start])
        self.roles.append(self.role_of[start])

    def _paint(self, i: int, braced: bool) -> int:
        """Paint the token at `i` with what belongs to it; return the position of the next one."""
        tokens, token = self.tokens, self.tokens[i]
        if not token:
            return i + 1
        if token in _UNSEEN:
            return (closing(tokens, i + 1) if tokens[i + 1] == "{" else i + 1) + 1
        special = self._special(token)
        if special:
            return special(i)
        if token in _SKIPPED or _SKIPPED_SHAPE.match(token):
            if token == "[" or (token == "]" and i >= 3):
                self._mark(i, i)
            return i + 1
        self._mark(i, i, braced or (i > 1 and tokens[i - 1] == "_"))
        return i + 1

    def _special(self, token: str) -> Callable[[int], int] | None:
        if token in _FRACTIONS:
            return self._fraction
        if token in _ACCENTS:
            return self._accent
        if token in _WRAPPERS:
            return self._wrapper
        if token in _OPTIONAL_FIRST:
            return self._optional_first
        return self._table_cell if token in ("\\multicolumn", "\\multirow") else None

    def _fraction(self, i: int) -> int:
        self._mark(i, closing(self.tokens, closing(self.tokens, i + 1) + 1))
        return i + 1

    def _accent(self, i: int) -> int:
        end = closing(self.tokens, i + 1)
        followed = end + 1 < len(self.tokens) and self.tokens[end + 1] == "_"
        self._mark(i, end, braced=followed and self.tokens[i] != "\\underbrace")
        return i + 1

    def _wrapper(self, i: int) -> int:
        end = closing(self.tokens, i + 1)
        if end == i + 3:
            self._mark(i + 2, i + 2)
        else:
            self._paint_range(i + 2, end)
        return end + 1

    def _optional_first(self, i: int) -> int:
        first_end = closing(self.tokens, i + 1, "[", "]") if self.tokens[i + 1] == "[" else None
        start = i + 1 if first_end is None else first_end + 1
        end = closing(self.tokens, start)
        self._mark(i, end)
        if first_end is not None:
            self._paint_range(i + 2, first_end, braced=True)
        self._paint_range(start + 1, end)
        return end + 1

    def _table_cell(self, i: int) -> int:
        third = closing(self.tokens, closing(self.tokens, i + 1) + 1) + 1
        end = closing(self.tokens, third)
        self._paint_range(third + 1, end)
        return end + 1
