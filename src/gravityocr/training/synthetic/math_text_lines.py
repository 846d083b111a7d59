"""Lines of prose with inline formulas: what stands in them, and the TeX that colours every word and token."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gravityocr.errors import InputError
from gravityocr.training.synthetic.corpus import Corpus
from gravityocr.training.synthetic.formula_crops import Painted, paint
from gravityocr.training.synthetic.formula_items import Items, WrittenToken, write_items
from gravityocr.training.synthetic.formula_parser import parse_formula
from gravityocr.training.synthetic.formula_source import FormulaSource, renamed
from gravityocr.training.synthetic.inline_formulas import inline_formula
from gravityocr.training.synthetic.tex_fonts import TexFont
from gravityocr.training.synthetic.tex_pages import color_node

MAX_FORMULA_TOKENS = 25
WORDS_PER_FORMULA = 3.5
_ESCAPES = {
    "#": r"\#", "$": r"\$", "%": r"\%", "&": r"\&", "_": r"\_", "{": r"\{", "}": r"\}", "–": "--", "—": "---",
    "‘": "`", "’": "'", "“": "``", "”": "''", "…": r"\textellipsis{}", "•": r"\textbullet{}",
    "·": r"\textperiodcentered{}",
    "£": r"\pounds{}", "±": r"\textpm{}", "×": r"\texttimes{}", "°": r"\textdegree{}",
}  # fmt: skip
_SETTABLE = re.compile(r"[A-Za-z0-9éèêëáàâäãåçñóòôöõøúùûüíìîïßæÉÖÜÄÅÇ.,;:!?()\[\]/+=*@#$%&_<>'\"‘’“”–—…•·±×°£§©-]+")
_LIGATING = re.compile(r"(?<=[-'`,<>!?])(?=[-'`,<>])")
_PUNCTUATION = (",", ",", ".", ";", ":", ")")
_REFERENCES = (
    "({0}.{1})",
    "[{0}]",
    "[{0},{1}]",
    "({0})",
    "Eq.",
    "Fig.",
    "Theorem",
    "Lemma",
    "i.e.",
    "where",
    "Let",
    "if",
    "and",
    "for all",
)
_BREAKABLE_WORD = re.compile(r"[a-z]{7,}")


@dataclass(frozen=True)
class Word:
    """Characters without a blank; `glued`: no blank parts it from what stands before."""

    text: str
    glued: bool = False


@dataclass(frozen=True)
class InlineFormula:
    """A formula within a line; `glued` as of a word."""

    tokens: tuple[WrittenToken, ...]
    glued: bool = False


Unit = Word | InlineFormula


@dataclass(frozen=True)
class PaintedLine:
    """A line whose words and tokens have colours.

    `marks` has one number for each word, and for a formula that of its first mark; `painted` is None for a word.
    """

    latex: str
    units: tuple[Unit, ...]
    marks: tuple[int, ...]
    painted: tuple[Painted | None, ...]
    n_marks: int


def tex_of_word(text: str) -> str:
    """Escape a word; a character is drawn as it stands, but for the ligatures of letters."""
    parts = _LIGATING.sub("\x00", text)
    return "".join("{}" if c == "\x00" else _ESCAPES.get(c, c) for c in parts)


def paint_line(units: Sequence[Unit]) -> PaintedLine:
    """Colour a line: each word as a whole, so that kerning and ligatures stay, each token of a formula by itself."""
    parts: list[str] = []
    marks: list[int] = []
    painted: list[Painted | None] = []
    number = 0
    for at, unit in enumerate(units):
        if at and not unit.glued:
            parts.append(" ")
        marks.append(number)
        if isinstance(unit, Word):
            parts.append(color_node(number) + tex_of_word(unit.text))
            painted.append(None)
            number += 1
        else:
            formula = paint(unit.tokens, number)
            parts.append(f"${formula.latex}$")
            painted.append(formula)
            number = max(formula.marks, default=number - 1) + 1
    return PaintedLine("".join(parts), tuple(units), tuple(marks), tuple(painted), number)


class LineWriter:
    """Writes lines of prose, formulas among the words."""

    def __init__(self, corpus: Corpus, formulas: FormulaSource) -> None:
        self.corpus = corpus
        self._formulas = formulas

    def line(self, rng: np.random.Generator, font: TexFont, n_chars: int, *, plain: bool) -> list[Unit]:
        """Return the units of a line of about `n_chars` characters."""
        words = [fixed for word in self.corpus.window(rng, n_chars).split() if (fixed := _settable(word))]
        units: list[Unit] = [Word(word) for word in words]
        if not units:
            return []
        if not plain:
            for _ in range(1 + int(rng.poisson(len(units) / WORDS_PER_FORMULA))):
                self._insert(units, rng, font)
        last = units[-1]
        if isinstance(last, Word) and _BREAKABLE_WORD.fullmatch(last.text) and rng.random() < (0.5 if plain else 0.15):
            units[-1] = Word(last.text[: int(rng.integers(2, len(last.text) - 2))] + "-", last.glued)
        return units

    def _insert(self, units: list[Unit], rng: np.random.Generator, font: TexFont) -> None:
        at = int(rng.integers(len(units) + 1))
        while at < len(units) and units[at].glued:
            at += 1
        tokens = self._tokens(rng, font)
        added: list[Unit] = []
        dice = rng.random()
        if dice < 0.06:
            added = [Word("("), InlineFormula(tokens, glued=True), Word(")", glued=True)]
        elif dice < 0.11:
            tail = ("-th", "-dimensional", "-axis", "'s", "-value", "-norm", "-algebra")
            added = [InlineFormula(tokens), Word(tail[int(rng.integers(len(tail)))].replace("'", "’"), glued=True)]
        elif dice < 0.45:
            mark = _PUNCTUATION[int(rng.integers(len(_PUNCTUATION)))]
            added = [InlineFormula(tokens), Word(mark, glued=True)]
        else:
            added = [InlineFormula(tokens)]
        if rng.random() < 0.15:
            reference = _REFERENCES[int(rng.integers(len(_REFERENCES)))]
            text = reference.format(int(rng.integers(1, 60)), int(rng.integers(1, 30)))
            added = [*added, *(Word(word) for word in text.split())]
        units[at:at] = added

    def _tokens(self, rng: np.random.Generator, font: TexFont) -> tuple[WrittenToken, ...]:
        for _ in range(20):
            try:
                items: Items = (
                    parse_formula(inline_formula(rng)) if rng.random() < 0.5 else self._formulas.draw(rng).items
                )
                if rng.random() < 0.3:
                    items = renamed(items, rng)
                while len(items) > 1 and items[-1].name in (".", ",", ";") and not items[-1].has_scripts:
                    items = items[:-1]
                tokens = write_items(items)
            except InputError:  # renaming may ask for a letter that a font lacks
                continue
            names = {written.token for written in tokens}
            if len(tokens) <= MAX_FORMULA_TOKENS and font.can_set(names) and not names & _NOT_INLINE:
                return tuple(tokens)
        return tuple(write_items(parse_formula("x")))


_NOT_INLINE = frozenset(("\\begin{array}", "\\quad ", "\\qquad ", "$", "~"))


def _settable(word: str) -> str | None:
    """Return a word as TeX draws it, with the quotes of a typesetter; None where the fonts lack a character."""
    word = re.sub(r'(^|(?<=[(\[]))"', "“", word).replace('"', "”")
    word = re.sub(r"(^|(?<=[(\[]))'", "‘", word).replace("'", "’")
    return word if _SETTABLE.fullmatch(word) else None
