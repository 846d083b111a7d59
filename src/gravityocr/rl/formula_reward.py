r"""The reward of a formula: likeness of the canonical forms, and format checks.

*Source*: section 5. CDM is never a reward.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gravityocr.metrics.edit import ned
from gravityocr.metrics.normalization import strip_formula_tags
from gravityocr.rl.guard import guard
from gravityocr.rl.reward_settings import EDIT_BUDGET, PAPER, RewardSettings

_LENGTH = r"\*?\s*(?:\{[^{}]*\}|-?[\d.]+\s*[a-z]{2})"
_SPACE = rf"\\(?:hspace|hskip|mspace|kern|mkern|mskip){_LENGTH}"
_TOKEN = re.compile(rf"(?P<space>{_SPACE})|\\[A-Za-z]+|\\.|.", re.DOTALL)
_DELIMITERS = frozenset({"$", "\\[", "\\]", "\\(", "\\)"})
_SPACING = frozenset({
    "\\,", "\\:", "\\;", "\\!", "\\>", "\\ ", "\\\n", "\\\t", "~", "\\quad", "\\qquad", "\\enspace", "\\enskip",
    "\\thinspace", "\\medspace", "\\thickspace", "\\negthinspace", "\\negmedspace", "\\negthickspace", "\\space",
    "\\nobreakspace",
})  # fmt: skip
_DROPPED = _DELIMITERS | _SPACING | {"{", "}", "\\left", "\\right"}
_SAME = {"\\dfrac": "\\frac", "\\tfrac": "\\frac"}
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{([^{}]*)\}")
_ESCAPED = re.compile(r"\\[^A-Za-z]", re.DOTALL)
_SIDE = re.compile(r"\\(left|right)(?![A-Za-z])")


def score_formula(pred: str, ref: str, settings: RewardSettings = PAPER) -> float:
    r"""Return the reward of a formula, guard included: `sim(canon(pred), canon(ref)) 0.3^v`, times the guard.

    `sim = 1 - NED`. `v` counts the checks of `format_faults` that the reference passes and the prediction fails. A
    reference whose canonical form is empty is compared as it stands, and so is the prediction.

    *Source*: section 5.

    >>> score_formula(r"\left( \dfrac{a}{b} \right)", r"(\frac ab)")
    1.0
    >>> score_formula(r"\frac{a}{b", r"\frac{a}{b}")
    0.3
    """
    sides = canon(pred), canon(ref)
    similarity = 1.0 - ned(*(sides if sides[1] else (pred.strip(), ref.strip())), EDIT_BUDGET)
    n_faults = len(format_faults(pred) - format_faults(ref))
    factor = settings.fault_factor**n_faults * guard(pred, ref, (_laid_out(pred), _laid_out(ref)), settings)
    return float(similarity * factor)


def canon(latex: str) -> str:
    r"""Return the canonical form of a formula.

    Tags (`\tag{...}`, `\notag`) go first, as the scorer lets them go. Math delimiters, `\left`, `\right`, spacing
    commands, blanks and braces are dropped, `\dfrac` and `\tfrac` become `\frac`. Escaped braces are signs and stay;
    so does the period of `\left.`, and, ours, one blank between a command and the letter after it.

    >>> canon(r"$$ \dfrac{\alpha x}{2} \, \left\{ y \right. $$")
    '\\frac\\alpha x2\\{y.'
    """
    parts: list[str] = []
    for token in _tokens(strip_formula_tags(latex)):
        if not token:
            continue
        if parts and token[0].isalpha() and len(parts[-1]) > 1 and parts[-1][-1].isalpha():
            parts.append(" ")
        parts.append(token)
    return "".join(parts)


def format_faults(latex: str) -> frozenset[str]:
    r"""Name the checks that a formula fails.

    `left-right`: every `\right` has its `\left` and the other way round; `braces`: unescaped braces pair; `begin-end`:
    environments pair and nest; `dollars`: the unescaped `$` are even in number.

    >>> sorted(format_faults(r"\left( {x$"))
    ['braces', 'dollars', 'left-right']
    """
    bare = _ESCAPED.sub("", latex)
    environments: list[str] = []
    paired = True
    for kind, name in _ENVIRONMENT.findall(bare):
        if kind == "begin":
            environments.append(name)
        else:
            paired = bool(environments) and environments.pop() == name and paired
    faults = {
        "left-right": _pairs(found[1] == "left" for found in _SIDE.finditer(bare)),
        "braces": _pairs(sign == "{" for sign in bare if sign in "{}"),
        "begin-end": paired and not environments,
        "dollars": bare.count("$") % 2 == 0,
    }
    return frozenset(name for name, passes in faults.items() if not passes)


def _pairs(openings: Iterator[bool]) -> bool:
    depth = 0
    for opens in openings:
        depth += 1 if opens else -1
        if depth < 0:
            return False
    return depth == 0


def _tokens(latex: str) -> Iterator[str]:
    """Give the tokens of a formula, an empty one for everything that is dropped."""
    for found in _TOKEN.finditer(latex):
        token = found[0]
        yield "" if found["space"] or token in _DROPPED or token.isspace() else _SAME.get(token, token)


def _laid_out(latex: str) -> str:
    """Return a formula with one blank for everything that `canon` drops: an endless row of it is a run."""
    return "".join(token or " " for token in _tokens(latex))
