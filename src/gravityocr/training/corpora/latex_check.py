r"""Whether TeX could set a formula, told from its structure and its commands in one walk.

No parser is needed for what training data get wrong: braces, environments, `\left` and `\right` that do not pair up,
cells outside of an array, second superscripts, commands without their arguments, and commands that do not exist.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from gravityocr.metrics.formulas.latex_pieces import OPERATORS, words
from gravityocr.metrics.formulas.safe_commands import is_contained
from gravityocr.metrics.latex_text import inline_formulas
from gravityocr.metrics.normalization import strip_formula_delimiters
from gravityocr.training.synthetic.formula_names import (
    ACCENTS,
    DROPPED,
    FONT_ALIASES,
    ONE_ARGUMENT,
    OPTIONAL_ARGUMENT,
    SIZES,
    SWITCHES,
    TWO_ARGUMENTS,
    UNWRAPPED,
)

_TOKEN = re.compile(r"\\(?:begin|end)\s*\{[^{}]*\}|\\[A-Za-z@]+\*?|\\.|%[^\n]*|\s+|.", re.DOTALL)
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{([^{}]*)\}")
_GROUP = re.compile(r"\s*(?:\[[^\[\]{}]*\]\s*)?\{(?:[^{}]|\{[^{}]*\})*\}")
_DISPLAY = re.compile(r"(?<!\\)\$\$(.+?)(?<!\\)\$\$|\\\[(.+?)\\\]", re.DOTALL)
# Between dollar signs of prices and variables of programs stand no commands, and blanks at the edges.
_IS_MATH = re.compile(r".*\\[A-Za-z]{2}.*|(?!\s).*[\^_{}].*(?<!\s)", re.DOTALL)

_ALIGNED = words(
    """
    array tabular matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix smallmatrix matrix* pmatrix* bmatrix* Bmatrix*
    vmatrix* Vmatrix* psmallmatrix bsmallmatrix cases dcases rcases drcases cases* dcases* align align* aligned
    alignat alignat* alignedat flalign flalign* eqnarray eqnarray* split subarray numcases subnumcases IEEEeqnarray
    IEEEeqnarray* tabular* CD
    """
)
_UNALIGNED = words("equation equation* gather gather* gathered multline multline* displaymath math subequations center")
_WITH_COLUMNS = words("array tabular subarray alignat alignat* alignedat IEEEeqnarray IEEEeqnarray*")
# Plain TeX's matrices: cells in a group behind a command.
_CELL_COMMANDS = words("matrix pmatrix bmatrix vmatrix cases eqalign eqalignno displaylines substack array settabs")
_TEXT_COMMANDS = words(
    "text textrm textbf textit textsf texttt textnormal textup textmd textsc textsl mbox hbox fbox emph intertext "
    "shortintertext tag makebox framebox"
)
_RAW_ARGUMENT = words(
    "label ref eqref cite citep citet pageref hspace vspace color textcolor mathcolor colorbox rule multicolumn "
    "hdotsfor cline cmidrule raisebox definecolor unit SI si"
)
_ONE = (
    {name.removeprefix("\\") for name in ONE_ARGUMENT | OPTIONAL_ARGUMENT | frozenset(FONT_ALIASES)}
    | _TEXT_COMMANDS
    | words("substack phantom hphantom vphantom smash underbar overbracket underbracket overleftrightarrow")
)
_TWO = {name.removeprefix("\\") for name in TWO_ARGUMENTS} | {"underaccent"}
_OVER = words("over choose atop above brack brace")
_DELIMITER_COMMANDS = words(
    """
    { } | langle rangle lfloor rfloor lceil rceil lbrace rbrace lbrack rbrack vert Vert lvert rvert lVert rVert uparrow
    downarrow updownarrow Uparrow Downarrow Updownarrow backslash lgroup rgroup lmoustache rmoustache ulcorner urcorner
    llcorner lrcorner arrowvert Arrowvert bracevert llbracket rrbracket mid parallel lang rang
    """
)
_DELIMITER_CHARS = frozenset("()[]<>|/.⟨⟩‖⌈⌉⌊⌋")
_MORE_COMMANDS = words(
    """
    label tag notag ref eqref cite mbox hbox fbox intertext shortintertext hskip vskip kern mkern mskip hspace vspace
    raisebox color textcolor colorbox cfrac dfrac tfrac dbinom tbinom genfrac hfill hfil rule vcenter oiint oiiint oint
    cancel bcancel xcancel sout newline linebreak tiny scriptsize footnotesize small normalsize large Large LARGE huge
    Huge multicolumn multirow cline hdotsfor sideset prescript mathbbm mathds llbracket rrbracket overparen underparen
    wideparen wideparen ce pu unit SI si degree celsius textdegree AA aa AE ae OE oe L l O o ss pounds euro checkmark
    maltese circledR yen ddag dag S P copyright textsuperscript textsubscript ensuremath mathnormal textsc textsl emph
    mathaccent overarc nicefrac sfrac xspace above brack brace eqalign eqalignno displaylines substack matrix pmatrix
    bmatrix vmatrix Vmatrix cases smallmatrix align gather arraystretch setlength arraycolsep noalign hline toprule
    midrule bottomrule cmidrule hdots adots iddots reflectbox rotatebox scalebox resizebox protect relax strut null
    nobreak allowbreak penalty begingroup endgroup bgroup egroup mathchoice mathpalette buildrel joinrel relbar Relbar
    underbar overbracket underbracket overleftrightarrow underrightarrow underleftarrow underleftrightarrow xmapsto
    xleftrightarrow xRightarrow xLeftarrow xhookrightarrow xhookleftarrow xlongequal xrightleftharpoons varlimsup
    varliminf varinjlim varprojlim injlim projlim dotsm dotsb dotsi dotso dotsc ldots cdots vdots ddots ulcorner
    urcorner llcorner lrcorner lgroup rgroup lmoustache rmoustache colonequals coloneqq eqqcolon Coloneqq vcentcolon
    dblcolon bigsqcap biginterleave bigparallel interleave leadsto Box Diamond mathring dddot ddddot underaccent
    boldmath unboldmath bfseries itshape rmfamily sffamily ttfamily mdseries upshape normalfont scshape slshape sc sl
    em textcircled textquotesingle textbackslash textasciitilde textasciicircum textbar textless textgreater
    textunderscore textbullet textregistered texttrademark textmu textohm permil ohm micro quad qquad enspace enskip
    thinspace medspace thickspace negthinspace negmedspace negthickspace smallskip medskip bigskip centering
    displaylimits strut nobreakspace operatornamewithlimits argmax argmin Tr tr diag rank sgn sign supp Hom End Aut Ker
    coker Spec grad curl Div div erf erfc sinc sech csch arcsinh arccosh arctanh arcsec arccsc arccot arcctg arctg ctg
    tg cosec sh ch th cth var cov Var Cov bra ket braket Bra Ket Braket ketbra abs norm dv pdv dd qty vb va vu
    xrightarrow xleftarrow mathhyphen vartriangle Longleftrightarrow iff bigcirc rightleftharpoons lightning cr
    fint sqint varoint ointclockwise ointctrclockwise varointclockwise oldstylenums rightarrowtail
    """
)


@dataclass(frozen=True)
class LatexFault:
    """What is wrong with a formula: its `structure`, or a `command` that is unknown."""

    kind: Literal["structure", "command"]
    what: str


@dataclass
class _Frame:
    """A group, environment or pair of fences that is open; `scripts` are those of the current symbol."""

    opener: str
    takes_cells: bool = False
    is_text: bool = False
    in_math: bool = False
    scripts: set[str] = field(default_factory=set)
    waiting: str = ""
    lacking: int = 0
    command: str = ""
    n_over: int = 0

    def end(self) -> str | None:
        """Say what the symbol that ends here still lacks."""
        if self.waiting:
            return f"{self.waiting} without an argument"
        if self.lacking:
            return f"\\{self.command} without its argument"
        self.scripts = set()
        return None


def formula_fault(latex: str, allowed: Collection[str] = ()) -> LatexFault | None:
    r"""Say what keeps TeX from setting a formula, None where nothing is found; `allowed` names further commands.

    >>> formula_fault(r"\left( \frac{a}{b} \right]^2"), formula_fault(r"\frac{a}{b")
    (None, LatexFault(kind='structure', what='{ that nothing closes'))
    """
    return _Walk(strip_formula_delimiters(latex), frozenset(allowed)).fault()


def text_fault(text: str, allowed: Collection[str] = ()) -> LatexFault | None:
    r"""Say what is wrong with the first broken `$...$`, `\(...\)`, `$$...$$` or `\[...\]` of a text."""
    for formula in _formulas_in(text):
        found = formula_fault(formula, allowed)
        if found:
            return found
    return None


def _formulas_in(text: str) -> Iterator[str]:
    for match in _DISPLAY.finditer(text):
        yield match[1] or match[2]
    for _, _, content in inline_formulas(_DISPLAY.sub(" ", text)):
        if _IS_MATH.fullmatch(content):
            yield content


@lru_cache(maxsize=16_384)
def is_known_command(name: str) -> bool:
    r"""Tell whether a command without its backslash is one of LaTeX's, of the usual packages or of physicists.

    >>> is_known_command("frac"), is_known_command("fracc")
    (True, False)
    """
    written = "\\" + name
    tables = (
        DROPPED,
        FONT_ALIASES,
        ONE_ARGUMENT,
        OPTIONAL_ARGUMENT,
        SIZES,
        SWITCHES,
        TWO_ARGUMENTS,
        UNWRAPPED,
    )
    return (
        name in _MORE_COMMANDS
        or name in OPERATORS
        or is_contained(written)
        or any(written in table for table in tables)
    )


class _Walk:
    """One pass over the tokens of a formula with a stack of what is open."""

    def __init__(self, latex: str, allowed: frozenset[str]) -> None:
        self.latex = latex
        self.allowed = allowed
        self.frames = [_Frame("")]
        self.at = 0
        self.previous = ""

    def fault(self) -> LatexFault | None:
        """Return the first fault."""
        unknown: str | None = None
        while self.at < len(self.latex):
            match = _TOKEN.match(self.latex, self.at)
            token = match[0] if match else self.latex[self.at]
            self.at += len(token)
            if token[0].isspace() or token[0] == "%":
                continue
            if token[0] == "\\" and token[1:2].isalpha():
                name = token[1:].split("{")[0].strip().rstrip("*")
                if unknown is None and name not in self.allowed and not is_known_command(name):
                    unknown = name if name not in ("begin", "end") else None
            what = self._take(token)
            if what:
                return LatexFault("structure", what)
            self.previous = token
        if len(self.frames) > 1:
            return LatexFault("structure", f"{self.frames[-1].opener} that nothing closes")
        what = self.frames[0].end()
        if what:
            return LatexFault("structure", what)
        return LatexFault("command", f"\\{unknown}") if unknown else None

    def _take(self, token: str) -> str | None:
        top = self.frames[-1]
        if token == "{":
            return self._open_group(top)
        if token == "}":
            return self._close("{", "}")
        if token in ("&", "\\\\"):
            return self._cell(top, token)
        if token in ("^", "_", "'"):
            return self._script(top, token)
        if token == "$":
            if not top.is_text:
                return "$ inside of a formula"
            top.in_math = not top.in_math
            return None
        if token == "#":
            return "# that is not escaped"
        if token == "\\":  # a blank at the end, whose space has been stripped
            return None
        return self._command(top, token) if token[0] == "\\" else self._atom(top)

    def _atom(self, top: _Frame) -> str | None:
        if top.waiting:
            top.waiting = ""
        elif top.lacking:
            top.lacking -= 1
        else:
            top.scripts = set()
        return None

    def _open_group(self, top: _Frame) -> str | None:
        self._atom(top)
        name = self.previous[1:].rstrip("*") if self.previous[:1] == "\\" else ""
        is_text = name in _TEXT_COMMANDS or (top.is_text and not top.in_math)
        self.frames.append(_Frame("{", name in _CELL_COMMANDS, is_text))
        return None

    def _close(self, opener: str, closer: str) -> str | None:
        top = self.frames[-1]
        if top.opener != opener or len(self.frames) == 1:
            return f"{closer} where {top.opener or 'nothing'} is open"
        self.frames.pop()
        return top.end()

    def _cell(self, top: _Frame, token: str) -> str | None:
        lacks = top.end()
        top.n_over = 0
        if token == "&" and not top.takes_cells and not top.is_text:
            return "& outside of a table"
        return lacks

    def _script(self, top: _Frame, token: str) -> str | None:
        if top.is_text and not top.in_math:
            return None if token == "'" else f"{token} in text"
        if token == "'":
            twice = "^" in top.scripts
            top.scripts.add("'")
            return "a prime behind a superscript" if twice else None
        if top.waiting:
            return f"{top.waiting} without an argument"
        if token in top.scripts:
            return f"a second {token} on one symbol"
        top.scripts.add(token)
        top.waiting = token
        return None

    def _command(self, top: _Frame, token: str) -> str | None:
        edge = _ENVIRONMENT.fullmatch(token)
        if edge:
            return self._begin(top, edge[2].strip()) if edge[1] == "begin" else self._end(edge[2].strip())
        name = token[1:].rstrip("*")
        if name in ("begin", "end"):
            return f"\\{name} without a name"
        if name in ("left", "right", "middle"):
            return self._fence(top, name)
        if name in ("limits", "nolimits", "displaylimits"):
            return None
        if name in _OVER:
            top.n_over += 1
            return f"a second \\{name} in one group" if top.n_over > 1 else top.end()
        if name in _RAW_ARGUMENT:
            group = _GROUP.match(self.latex, self.at)
            self.at = group.end() if group else self.at
            return None
        if token in SIZES and self._delimiter()[0] not in ("{", "delimiter"):
            return f"{token} without a delimiter"
        return self._arguments(top, name)

    def _arguments(self, top: _Frame, name: str) -> str | None:
        n_lacking = 2 if name in _TWO else int(name in _ONE)
        are_accents = "\\" + name in ACCENTS and "\\" + top.command in ACCENTS
        if n_lacking and top.lacking and not top.waiting and not are_accents and top.command != "sqrt":
            return f"\\{top.command} of \\{name} without braces"
        self._atom(top)
        if n_lacking:
            top.lacking += n_lacking
            top.command = name
        return None

    def _delimiter(self) -> tuple[str, int]:
        """Return what comes next (`delimiter`, or the token itself), and where it ends."""
        match = _TOKEN.match(self.latex, self.at)
        while match and match[0].isspace():
            match = _TOKEN.match(self.latex, match.end())
        mark = match[0] if match else ""
        is_one = mark in _DELIMITER_CHARS or (mark[:1] == "\\" and mark[1:] in _DELIMITER_COMMANDS)
        return "delimiter" if is_one else mark, match.end() if match else self.at

    def _fence(self, top: _Frame, name: str) -> str | None:
        what, end = self._delimiter()
        if what != "delimiter":
            return f"\\{name} without a delimiter"
        self.at = end
        if name == "left":
            self._atom(top)
            self.frames.append(_Frame("\\left"))
            return None
        if name == "right":
            return self._close("\\left", "\\right")
        return None if top.opener == "\\left" else "\\middle outside of \\left and \\right"

    def _begin(self, top: _Frame, name: str) -> str | None:
        if name not in _ALIGNED and name not in _UNALIGNED and name not in self.allowed:
            return f"the unknown environment {name}"
        self._atom(top)
        self.frames.append(_Frame(f"\\begin{{{name}}}", name in _ALIGNED))
        if name in _WITH_COLUMNS:
            group = _GROUP.match(self.latex, self.at)
            if not group:
                return f"\\begin{{{name}}} without its columns"
            self.at = group.end()
        return None

    def _end(self, name: str) -> str | None:
        return self._close(f"\\begin{{{name}}}", f"\\end{{{name}}}")
