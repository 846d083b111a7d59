r"""Prepare formulas for CDM: what is rendered of a pair, and a second try for matrices.

*Source*: OmniDocBench v1.6, preparation of CDM samples.
"""

from __future__ import annotations

import itertools
import re

from gravityocr.metrics.normalization import formula_to_render, strip_formula_delimiters, strip_formula_tags
from gravityocr.metrics.page_matching.block_matching import Match
from gravityocr.metrics.page_matching.formula_lines import split_cells, split_rows

_MATRICES = ("matrix", "bmatrix", "pmatrix", "vmatrix", "Vmatrix", "smallmatrix")
_ANY_MATRIX = "|".join(_MATRICES)
_STYLE = re.compile(r"\\(?:boldsymbol|mathbf|mathrm|mathit|mathsf|mathtt|textbf)\s*\{([^{}]+)\}")
_DET = re.compile(r"\\operatorname\s*\{\s*det\s*\}")
_NO_COLUMNS = re.compile(r"\\begin\{array\}\s*\{\s*\}")
_ONE_COLUMN = re.compile(r"\s*\\begin\{array\}\s*\{\s*l\s*\}(?P<body>.*)\\end\{array\}\s*$", re.DOTALL)
_IN_ALIGNED = re.compile(
    r"\s*\\begin\{aligned\*?\}\s*&?\s*(?P<body>\\begin\{(?:" + _ANY_MATRIX + r")\}.*?\\end\{(?:" + _ANY_MATRIX + r")\})"
    r"\s*(?:\\\\\s*)?\\end\{aligned\*?\}\s*$",
    re.DOTALL,
)
_ARRAY = re.compile(r"\\begin\{array\}\s*\{(?P<head>[^}]*)\}(?P<body>.*?)\\end\{array\}", re.DOTALL)
_MATRIX = re.compile(r"\\begin\{(?P<head>" + _ANY_MATRIX + r")\}(?P<body>.*?)\\end\{(?P=head)\}", re.DOTALL)
MAX_MATRIX_CHARS = 20_000


def cdm_pair(match: Match) -> tuple[str, tuple[str, ...]]:
    """Return the reference and the predictions of which the best one counts."""
    ref = _bare(match.gt_text)
    pred = _bare(match.pred_text)
    other = ""
    if _has_matrix(ref) or _has_matrix(pred):
        other = _simplified(pred, ref)
        ref = _simplified(ref, ref) if _NO_COLUMNS.search(ref) else ref
    first = formula_to_render(match.pred_text)
    second = formula_to_render(other) if other != pred else ""
    return formula_to_render(ref), (first, second) if second and second != first else (first,)


def _bare(latex: str) -> str:
    return strip_formula_tags(strip_formula_delimiters(latex).strip())


def _has_matrix(latex: str) -> bool:
    if any(f"\\begin{{{name}}}" in latex for name in _MATRICES):
        return True
    return "\\begin{array}" in latex and any(mark in latex for mark in ("\\left[", "\\right]", "&"))


def _simplified(latex: str, ref: str) -> str:
    """Drop fonts, needless braces and wrappers of matrices, which change nothing of what is read."""
    if len(latex) > MAX_MATRIX_CHARS or not (_has_matrix(latex) or _has_matrix(ref)):
        return latex
    latex = _simplified_part(latex)
    if column := _ONE_COLUMN.match(latex):
        rows = [_simplified_part(row) for row in split_rows(column["body"])]
        if any(_has_matrix(row) for row in rows):
            latex = " \\qquad ".join(rows)
    return _simplified_part(latex)


def _simplified_part(latex: str) -> str:
    latex = _NO_COLUMNS.sub(r"\\begin{array}{l}", _without_braces(latex)).replace("\\dfrac", "\\frac")
    latex = re.sub(r"_\{_\{([^{}]+)\}\}", r"_{\1}", latex)
    while (plain := _STYLE.sub(r"\1", latex)) != latex:
        latex = plain
    latex = _DET.sub(r"\\det", latex)
    latex = _ARRAY.sub(lambda m: f"\\begin{{array}}{{{m['head']}}}{_cells(m['body'])}\\end{{array}}", latex)
    latex = _MATRIX.sub(lambda m: f"\\begin{{{m['head']}}}{_cells(m['body'])}\\end{{{m['head']}}}", latex)
    latex = re.sub(r"(\\begin\{(?:" + _ANY_MATRIX + r")\})\s*\\\\", r"\1 ", latex)
    latex = re.sub(r"\\\\\s*(\\end\{(?:" + _ANY_MATRIX + r")\})", r" \1", latex)
    wrapped = _IN_ALIGNED.match(latex)
    return (wrapped["body"] if wrapped else latex).strip()


def _cells(body: str) -> str:
    return "\\\\".join("&".join(_without_braces(cell) for cell in split_cells(row)) for row in split_rows(body))


def _without_braces(latex: str) -> str:
    latex = latex.strip()
    while latex.startswith("{") and latex.endswith("}"):
        depths = itertools.accumulate((char == "{") - (char == "}") for char in latex)
        closed_at = next((i for i, depth in enumerate(depths) if depth == 0), -1)
        inner = latex[1:-1].strip()
        if closed_at != len(latex) - 1 or not inner:
            return latex
        latex = inner
    return latex
