"""The prepared formulas, joined and varied so that long ones and rare symbols are common."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gravityocr.errors import InputError
from gravityocr.training.synthetic.fonts import Split
from gravityocr.training.synthetic.formula_items import Item, Items, is_known
from gravityocr.training.synthetic.formula_names import LETTERS, ordered
from gravityocr.training.synthetic.formula_normal_form import in_font, target_tokens, tidy
from gravityocr.training.synthetic.formula_parser import parse_formula

FORMULA_SOURCE = "English Wikipedia (CC BY-SA 4.0), as collected in mathoid-texvcjs (Apache-2.0)"
MIN_TOKENS = 3
MAX_TOKENS = 160
_USUAL_TOKENS = 40  # shorter formulas are drawn less often, those on Wikipedia being half as long as displayed ones
_GREEK = ordered(
    r"\alpha \beta \gamma \delta \epsilon \varepsilon \zeta \eta \theta \vartheta \iota \kappa \lambda \mu \nu "
    r"\xi \pi \varpi \rho \varrho \sigma \varsigma \tau \upsilon \phi \varphi \chi \psi \omega \Gamma \Delta "
    r"\Theta \Lambda \Xi \Pi \Sigma \Upsilon \Phi \Psi \Omega"
)
_RELATIONS = ordered(
    r"= < > \leq \geq \neq \equiv \approx \sim \simeq \cong \in \subset \subseteq \supset \rightarrow \mapsto "
    r"\Rightarrow \propto \ll \gg \leqslant \geqslant \perp \prec \succ \notin \leftrightarrow \longrightarrow "
    r"\lesssim \gtrsim \supseteq \ni \models \vdash \asymp \doteq \triangleq \Leftrightarrow \Longrightarrow "
    r"\leftarrow \hookrightarrow \lhd \unlhd \rhd \trianglelefteq \updownarrow \nearrow \searrow \nleq \nmid "
    r"\Leftarrow \Vdash \bowtie"
)
_OPERATIONS = ordered(
    r"+ - \pm \mp \times \cdot \otimes \oplus \wedge \vee \cap \cup \circ * \setminus \lrcorner \star \bullet "
    r"\div \odot \ominus \ltimes \rtimes \dagger / \diamond"
)
_ACCENTS = ordered(
    r"\tilde \dot \hat \bar \vec \widetilde \widehat \ddot \overline \check \breve \mathring \dddot \grave "
    r"\acute"
)
_FONTS = ordered(r"\mathcal \mathbf \mathbb \mathrm \boldsymbol \mathfrak \mathscr \mathsf")
_OTHERS = ordered(
    r"\partial \nabla \ell \hbar \infty \prime \aleph \Re \Im \wp \emptyset \square \triangle \imath \jmath "
    r"\flat \sharp \natural \heartsuit \spadesuit \S \Uparrow \mho"
)
_SEPARATORS = (
    r",\quad",
    ",",
    r"\quad",
    "=",
    ";",
    r",\qquad",
    r"\quad\mathrm{and}\quad",
    r"\quad\mathrm{for}\quad",
    r"\Rightarrow",
    "+",
    "-",
)
_SEPARATOR_WEIGHTS = np.array([6, 3, 2, 4, 0.5, 2, 1.5, 1.5, 1, 1.5, 1.5])


def prepare_formulas(file: Path, out: Path) -> dict[str, int]:
    """Write `formulas.jsonl` from a JSON list or object of LaTeX formulas; return the number of each split.

    Formulas that are written alike in normal form count once, and a hash of that form decides on their split.

    *Raises*: InputError where the file is no such JSON.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} is no JSON of formulas ({error}); give a list or object of LaTeX strings") from error
    if not isinstance(content, list | dict):
        raise InputError(f"{file} holds neither a list nor an object of formulas")
    seen: set[bytes] = set()
    counts = {"train": 0, "heldout": 0, "without a normal form": 0}
    with (out / "formulas.jsonl").open("w", encoding="utf-8") as lines:
        for latex in content.values() if isinstance(content, dict) else content:
            try:
                tokens = target_tokens(parse_formula(str(latex)))
            except InputError:
                counts["without a normal form"] += 1
                continue
            digest = hashlib.sha256("".join(tokens).encode()).digest()
            if digest not in seen:
                seen.add(digest)
                split = "heldout" if digest[0] < 5 else "train"
                row = {"latex": str(latex), "split": split, "n_tokens": len(tokens), "source": FORMULA_SOURCE}
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
                counts[split] += 1
    return counts


@dataclass(frozen=True)
class SourceFormula:
    """A formula in normal form and where it comes from."""

    items: Items
    source: str


class FormulaSource:
    """Serve formulas of one split, the longer ones in proportion to their length."""

    def __init__(self, data_dir: Path, split: Split, *, max_tokens: int = MAX_TOKENS) -> None:
        """Read the formulas of a split that have at most `max_tokens` tokens.

        *Raises*: InputError where the file is missing or broken, or has none.
        """
        self.file = file = data_dir / "formulas.jsonl"
        if not file.is_file():
            raise InputError(f"no formulas at {file}: run scripts/prepare_data.py --formulas FILE --out {data_dir}")
        rows = [row for row in _read_rows(file) if row[1] == split and MIN_TOKENS <= row[2] <= max_tokens]
        if not rows:
            raise InputError(f"{file} has no formula of split {split!r}: prepare the data with more formulas")
        self._latex = [(latex, source) for latex, _, _, source in rows]
        weights = np.clip(np.array([n_tokens for _, _, n_tokens, _ in rows]) / _USUAL_TOKENS, 0.15, 1.0)
        self._ends = np.cumsum(weights)

    def draw(self, rng: np.random.Generator) -> SourceFormula:
        """Return one formula as it is written at its source."""
        at = int(np.searchsorted(self._ends, rng.random() * self._ends[-1], side="right"))
        latex, source = self._latex[min(at, len(self._latex) - 1)]
        return SourceFormula(parse_formula(latex), source)

    def draw_varied(self, rng: np.random.Generator) -> SourceFormula:
        """Return one or several formulas joined, symbols renamed in some, a full stop or comma behind some."""
        parts = [self.draw(rng)]
        while rng.random() < 0.3 and sum(len(target_tokens(part.items)) for part in parts) < MAX_TOKENS // 2:
            separator = parse_formula(
                _SEPARATORS[rng.choice(len(_SEPARATORS), p=_SEPARATOR_WEIGHTS / _SEPARATOR_WEIGHTS.sum())] + "x"
            )
            parts += [SourceFormula(separator[:-1], parts[0].source), self.draw(rng)]
        items = tidy(item for part in parts for item in part.items)
        if rng.random() < 0.45:
            items = renamed(items, rng)
        if rng.random() < 0.3 and items[-1].kind != "array":
            items = (*items, Item("symbol", "." if rng.random() < 0.5 else ","))
        return SourceFormula(items, parts[0].source)


def _read_rows(file: Path) -> Iterator[tuple[str, str, int, str]]:
    number = 0
    try:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                number += 1
                row = json.loads(line)
                yield str(row["latex"]), str(row["split"]), int(row["n_tokens"]), str(row["source"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{file}, line {number}: {error}; run scripts/prepare_data.py again") from error


def renamed(items: Items, rng: np.random.Generator) -> Items:
    """Give some of a formula's symbols other names, each the same name wherever it stands."""
    names: dict[str, Items] = {}
    share = rng.uniform(0.15, 0.6)

    def name_of(item: Item) -> Items:
        if item.name not in names:
            names[item.name] = _other(item.name, rng) if rng.random() < share else (Item("symbol", item.name),)
        return names[item.name]

    def walk(part: Items) -> Items:
        out: list[Item] = []
        for item in part:
            if item.kind == "font":
                new: Items = (item,)
            elif item.kind == "symbol":
                new = name_of(item)
            else:
                new = (replace(item, parts=tuple(walk(inner) for inner in item.parts)),)
            out += (*new[:-1], replace(new[-1], sub=walk(item.sub), sup=walk(item.sup)))
        return tidy(out)

    return walk(items)


def _other(name: str, rng: np.random.Generator) -> Items:
    if name in _RELATIONS:
        return (Item("symbol", _pick(_RELATIONS, rng)),)
    if name in _OPERATIONS:
        return (Item("symbol", _pick(_OPERATIONS, rng)),)
    if name not in LETTERS and name not in _GREEK:
        return (Item("symbol", name),)
    dice = rng.random()
    letter = Item("symbol", _pick(sorted(LETTERS), rng) if rng.random() < 0.5 else _pick(_GREEK, rng))
    if dice < 0.6:
        return (letter,)
    if dice < 0.78:
        return (Item("macro", _pick(_ACCENTS, rng), ((letter,),)),)
    if dice < 0.95:
        font = _pick(_FONTS, rng)
        return tuple(in_font(font, [Item("symbol", _pick(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), rng))]))
    other = _pick(_OTHERS, rng)
    return (Item("symbol", other if is_known(other) else "x"),)


def _pick(choices: list[str], rng: np.random.Generator) -> str:
    return choices[int(rng.integers(len(choices)))]
