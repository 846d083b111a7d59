"""Whether TeX sets formulas without an error: the real check, for machines that have TeX."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gravityocr.metrics.formulas.safe_commands import is_contained
from gravityocr.metrics.formulas.tex_runner import Kind, document, read_fates, run_tex

# A2: what is set on it is never too wide.
_PAPER = 2
_SHARED = 64
_KINDS: tuple[Kind, ...] = ("math", "chinese")
_CHINESE = re.compile("[\u3400-\u9fff]")
# Displays, which may not stand in a display, and what does.
_INNER = {"align": "aligned", "flalign": "aligned", "gather": "gathered", "multline": "gathered", "equation": ""}
_DISPLAY = re.compile(rf"\\(begin|end)\{{({'|'.join(_INNER)})\*?\}}")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def set_without_error(formulas: Sequence[str], timeout_s: float = 60.0) -> list[bool]:
    """Tell of each formula whether TeX sets it without an error; those of plain commands share runs.

    *Raises*: ToolMissingError where pdflatex is missing.
    """
    found = {latex: False for latex in formulas if not latex.strip()}
    waiting = [latex for latex in dict.fromkeys(formulas) if latex not in found]
    for kind in _KINDS:
        shared = [latex for latex in waiting if _kind(latex) == kind and is_contained(latex)]
        while shared:
            verdicts = _verdicts(shared[:_SHARED], kind, timeout_s)
            found |= verdicts
            shared = [latex for latex in shared if latex not in found]
    for latex in waiting:
        if latex not in found:
            found |= _verdicts([latex], _kind(latex), timeout_s)
    return [found[latex] for latex in formulas]


def _verdicts(formulas: Sequence[str], kind: Kind, timeout_s: float) -> dict[str, bool]:
    """Set formulas in one run: those before the first error are well, the one with the error is not.

    Those behind it are left open, as the error may have spoilt them; a lone formula always has a verdict.
    """
    run = run_tex(document([_body(latex) for latex in formulas], kind, _PAPER, marked=True), timeout_s)
    fates = read_fates(run.output, len(formulas), run.pdf is not None)
    verdicts: dict[str, bool] = {}
    for latex, fate in zip(formulas, fates, strict=True):
        if fate.outcome in ("done", "overfull"):
            verdicts[latex] = True
        elif fate.outcome == "alone" and not run.timed_out:
            return verdicts | {latex: False}
    if not verdicts:  # TeX has not come to an end, and nobody knows at which formula
        return {formulas[0]: False} if len(formulas) == 1 else _verdicts(formulas[:1], kind, timeout_s)
    return verdicts


def _body(latex: str) -> str:
    """Return what stands between the display's ends: no blank line, and no display of its own."""
    text = re.sub(r"\n\s*\n", "\n", _UNPRINTABLE.sub(" ", latex).strip())
    return _DISPLAY.sub(lambda edge: f"\\{edge[1]}{{{_INNER[edge[2]]}}}" if _INNER[edge[2]] else " ", text)


def _kind(latex: str) -> Kind:
    return "chinese" if _CHINESE.search(latex) else "math"
