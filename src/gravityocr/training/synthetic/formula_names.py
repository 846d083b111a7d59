"""Tables of the normal form of formulas: synonyms, and which commands take what."""

from __future__ import annotations

import string

from gravityocr.metrics.formulas.latex_pieces import OPERATORS as _OFFICIAL_OPERATORS
from gravityocr.metrics.formulas.latex_pieces import words
from gravityocr.training.synthetic.latex_vocabulary import LATEX_TOKENS


def ordered(text: str) -> list[str]:
    """Return the words of a text in their order."""
    return text.split()


def _commands(names: str) -> frozenset[str]:
    return frozenset("\\" + name for name in words(names))


def _pairs(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split())
    return {name: meaning for name, _, meaning in pairs}


_KNOWN = frozenset(token.strip() for token in LATEX_TOKENS)
OPERATORS = frozenset("\\" + name for name in _OFFICIAL_OPERATORS) & _KNOWN
LETTERS = frozenset(string.ascii_letters)
_GREEK_CAPITALS = _commands("Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega")
_GREEK = _GREEK_CAPITALS | _commands(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi varpi rho varrho "
    "sigma varsigma tau upsilon phi varphi chi psi omega nabla ell partial"
)

ALIASES = _pairs(r"""
\le=\leq \ge=\geq \ne=\neq \to=\rightarrow \rarr=\rightarrow \gets=\leftarrow \larr=\leftarrow \harr=\leftrightarrow
\rArr=\Rightarrow \Rarr=\Rightarrow \lArr=\Leftarrow \hArr=\Leftrightarrow \iff=\Longleftrightarrow
\implies=\Longrightarrow \uarr=\uparrow \darr=\downarrow \land=\wedge \and=\wedge \lor=\vee \or=\vee \lnot=\neg
\owns=\ni \isin=\in \empty=\emptyset \exist=\exists \infin=\infty \part=\partial \sub=\subset \sube=\subseteq
\supe=\supseteq \bull=\bullet \plusmn=\pm \sdot=\cdot \cdotp=\cdot \real=\Re \image=\Im \weierp=\wp \sect=\S
\alef=\aleph \alefsym=\aleph \ang=\angle \thetasym=\vartheta \Box=\square \dag=\dagger \ddag=\ddagger \hAar=\iff
\vert=| \mid=| \lvert=| \rvert=| \Vert=\| \lVert=\| \rVert=\| \parallel=\| \colon=: \ast=* \lbrace=\{ \rbrace=\}
\lbrack=[ \rbrack=] \lang=\langle \rang=\rangle \lt=< \gt=> \backslash=\setminus \slash=/ \hdots=\ldots \dotsc=\ldots
\dotso=\ldots \mathellipsis=\ldots \dotsb=\cdots \dotsi=\cdots \dotsm=\cdots \mod=\bmod \Tilde=\tilde \Hat=\hat
\Bar=\bar \Vec=\vec \Dot=\dot \Ddot=\ddot \Breve=\breve \Check=\check \hslash=\hbar \bigtriangleup=\triangle
\vartriangle=\triangle \thicksim=\sim \thickapprox=\approx \varpropto=\propto \vartriangleleft=\lhd
\trianglerighteq=\unrhd \lll=\ll \ggg=\gg \doublecap=\Cap \restriction=\upharpoonright \longmapsto=\mapsto
\leqq=\leqslant \geqq=\geqslant \square=\square \Diamond=\diamond \lozenge=\diamond \textasciitilde=\sim
\degree=\circ \smallsmile=\smile \smallfrown=\frown \bigstar=\star
""")
"""Commands that draw the same, or nearly, and the one that stands for them."""

DROPPED = _commands(
    "displaystyle textstyle scriptstyle scriptscriptstyle limits nolimits nonumber notag bigskip strut mathstrut hfill "
    "/ normalsize small"
)
UNWRAPPED = _commands(
    "mathop mathbin mathrel mathord mathopen mathclose mathpunct mathinner ensuremath hbox mbox vcenter"
)
SPACES = {
    "\\,": 3,
    "\\:": 4,
    "\\>": 4,
    "\\;": 5,
    "\\!": -3,
    "~": 6,
    "\\": 6,
    "\\quad": 18,
    "\\qquad": 36,
    "\\thinspace": 3,
}
"""The widths of blanks. *Units*: eighteenths of a quad."""

FONT_ALIASES = _pairs(r"""
\mathrm=\mathrm \mathbf=\mathbf \mathit=\mathit \mathsf=\mathsf \mathtt=\mathtt \mathcal=\mathcal \mathbb=\mathbb
\mathfrak=\mathfrak \mathscr=\mathscr \boldsymbol=\boldsymbol \bm=\boldsymbol \pmb=\boldsymbol \bold=\mathbf
\textbf=\mathbf \textrm=\mathrm \textit=\mathit \textsf=\mathsf \texttt=\mathtt \textup=\mathrm \textnormal=\mathrm
\textmd=\mathrm \text=\mathrm \Bbb=\mathbb \frak=\mathfrak
""")
SWITCHES = _pairs(r"\rm=\mathrm \bf=\mathbf \it=\mathit \sf=\mathsf \tt=\mathtt \cal=\mathcal \mit=")
SHORTHANDS = _pairs(r"\R=\mathbb,R \N=\mathbb,N \Z=\mathbb,Z \Q=\mathbb,Q \C=\mathbb,C \H=\mathbb,H \reals=\mathbb,R")

_DIGITS = frozenset(string.digits)
_CAPITALS = frozenset(string.ascii_uppercase)
FONTS: dict[str, frozenset[str]] = {
    "\\mathrm": LETTERS,
    "\\mathit": LETTERS,
    "\\mathbf": LETTERS | _DIGITS | _GREEK_CAPITALS,
    "\\mathsf": LETTERS | _DIGITS,
    "\\mathtt": LETTERS | _DIGITS,
    "\\boldsymbol": LETTERS | _DIGITS | _GREEK,
    "\\mathcal": _CAPITALS,
    "\\mathbb": _CAPITALS,
    "\\mathscr": _CAPITALS,
    "\\mathfrak": LETTERS,
}
"""What every font draws in its own way; other symbols stand outside of it."""
STRICT_FONTS = frozenset({"\\mathcal", "\\mathbb", "\\mathscr", "\\mathfrak"})
"""Fonts that draw other letters or digits as something else altogether."""

ACCENTS = _commands("hat bar vec dot ddot dddot tilde check breve acute grave mathring widehat widetilde")
ONE_ARGUMENT = ACCENTS | _commands("overline underline overbrace underbrace overrightarrow overleftarrow boxed pmod")
TWO_ARGUMENTS = _pairs(r"""
\frac=\frac \dfrac=\frac \tfrac=\frac \cfrac=\frac \binom=\binom \tbinom=\binom \dbinom=\binom \overset=\overset
\underset=\underset \stackrel=\overset
""")
OPTIONAL_ARGUMENT = _commands("sqrt xrightarrow xleftarrow")
SIZES = _pairs(r"""
\big=\big \bigl=\big \bigr=\big \bigm=\big \Big=\Big \Bigl=\Big \Bigr=\Big \Bigm=\Big \bigg=\bigg \biggl=\bigg
\biggr=\bigg \biggm=\bigg \Bigg=\Bigg \Biggl=\Bigg \Biggr=\Bigg \Biggm=\Bigg
""")
BRACKETS = _pairs(r"(=) [=] \{=\} |=| \|=\| \langle=\rangle \lfloor=\rfloor \lceil=\rceil")
DELIMITERS = frozenset(BRACKETS) | frozenset(BRACKETS.values())
FENCE_ALIASES = {"<": "\\langle", ">": "\\rangle"}
CENTERED_DOTS_BEFORE = words(
    r"+ - = < > \times \cdot \leq \geq \le \ge \pm \otimes \oplus \wedge \cup \cap \subset \to"
)
NEGATED = {"=": "\\neq", "\\in": "\\notin", "\\exists": "\\nexists", "\\subseteq": "\\nsubseteq", "|": "\\nmid"}
