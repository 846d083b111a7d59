"""Scores of crops against their truth, and their summary by kind and language.

Text is scored by NED with whitespace folded, tables by TEDS and TEDS-struct, formulas by CDM and by NED of the LaTeX.
`folded` figures also fold what a reader could not call an error: see `fold_forms`.
"""

from __future__ import annotations

import re
import statistics
import unicodedata
from collections.abc import Sequence
from typing import Any

from gravityocr.benchmark.cases import Case
from gravityocr.document import Recognition
from gravityocr.metrics.cdm import CdmConfig, CdmScorer
from gravityocr.metrics.edit import edit_distance, fold_whitespace, text_edit
from gravityocr.metrics.formulas.tex_runner import ToolMissingError
from gravityocr.metrics.normalization import strip_formula_delimiters
from gravityocr.metrics.teds import score_teds

Row = dict[str, Any]
CUT = ("truncated", "loop_cut")
MEANS = ("teds", "teds_struct", "cdm", "cdm_strict")
_FOLDS = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "‐": "-", "‑": "-"})
_CJK = "\u3000-\u303f\u3400-\u9fff\uff00-\uffef"
_INLINE = re.compile(r"\$[^$]+\$")
_BLANK = re.compile(r"(\\[A-Za-z]+)\s+(?=[A-Za-z])|\s+")
_SPACE_BESIDE_CJK = re.compile(rf"(?<=[{_CJK}])\s+|\s+(?=[{_CJK}])")


def fold_forms(text: str) -> str:
    """Fold compatibility forms, dashes and quotes, and drop spaces beside Chinese and those of inline formulas.

    No reader calls these errors; a blank of LaTeX counts only between a command and a letter.
    """
    unspaced = _INLINE.sub(_without_blanks, _SPACE_BESIDE_CJK.sub("", text))
    return fold_whitespace(unicodedata.normalize("NFKC", unspaced).translate(_FOLDS))


def _without_blanks(formula: re.Match[str]) -> str:
    return _BLANK.sub(lambda match: f"{match[1]} " if match[1] else "", formula[0])


def score_answer(case: Case, answer: str) -> Row:
    """Return the scores of one crop by its task; a formula's CDM comes later, for all at once (`add_cdm`)."""
    if case.task == "table":
        table = score_teds(answer, case.truth)
        return {"teds": table.teds, "teds_struct": table.teds_struct, "teds_status": table.status}
    if case.task == "formula":
        latex = text_edit(strip_formula_delimiters(answer), strip_formula_delimiters(case.truth), "formula")
        return {"latex_ned": latex.ned, "latex_n_edits": latex.n_edits, "latex_n_longer": latex.n_chars, "cdm": None}
    plain = _distance("ned", "n", fold_whitespace(answer), fold_whitespace(case.truth))
    return plain | _distance("ned_folded", "folded_n", fold_forms(answer), fold_forms(case.truth))


def _distance(name: str, prefix: str, pred: str, truth: str) -> Row:
    n_edits, n_longer = edit_distance(pred, truth), max(len(pred), len(truth))
    return {name: n_edits / n_longer if n_longer else 0.0, f"{prefix}_edits": n_edits, f"{prefix}_longer": n_longer}


def about(case: Case) -> Row:
    """Return what names a crop in the report."""
    return {"file": case.file.name, "kind": case.kind, "language": case.language}


def score(case: Case, answer: Recognition, reference: Recognition, wall_seconds: float) -> Row:
    """Return all figures of one crop that the checkpoint read, by self-speculation and by AR."""
    return {
        **about(case),
        "status": answer.status,
        **score_answer(case, answer.text),
        "identical_to_ar": answer.ids == reference.ids,
        "n_decoded": answer.n_decoded,
        "n_forwards": answer.n_forwards,
        "n_rounds": answer.n_rounds,
        "n_accepted": answer.n_accepted,
        "seconds": sum(answer.seconds.values()),
        "ar_seconds": sum(reference.seconds.values()),
        "wall_seconds": wall_seconds,
        "text": answer.text,
    }


def add_cdm(rows: Sequence[Row], cases: Sequence[Case]) -> str | None:
    """Add CDM to the rows of formulas; return why it is left out where TeX is not installed."""
    truths = {case.file.name: case.truth for case in cases if case.task == "formula"}
    formulas = [row for row in rows if row["kind"] == "formula"]
    pairs = [(strip_formula_delimiters(row["text"]), strip_formula_delimiters(truths[row["file"]])) for row in formulas]
    if not pairs:
        return None
    try:
        with CdmScorer(CdmConfig()) as scorer:
            scores = scorer.score(pairs)
    except ToolMissingError as error:
        return str(error)
    for row, found in zip(formulas, scores, strict=True):
        row.update(cdm=found.f1, cdm_strict=found.f1_strict, cdm_status=found.status)
    return None


def group(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Sort rows into all, each kind, and each kind and language."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        for name in ("all", row["kind"], f"{row['kind']}/{row['language']}"):
            groups.setdefault(name, []).append(row)
    return dict(sorted(groups.items()))


def quality(rows: Sequence[Row]) -> Row:
    """Return how well a group was read: each score over the rows that have it, so that kinds are never mixed.

    *Units*: micro figures are all edits over all characters.
    """
    found: Row = {"n_crops": len(rows)}
    for name, prefix in (("ned", "n"), ("ned_folded", "folded_n"), ("latex_ned", "latex_n")):
        scored = [row for row in rows if name in row]
        if scored:
            found[name] = statistics.mean(row[name] for row in scored)
            found[f"{name}_median"] = statistics.median(row[name] for row in scored)
            n_longer = sum(row[f"{prefix}_longer"] for row in scored)
            found[f"{name}_micro"] = sum(row[f"{prefix}_edits"] for row in scored) / max(1, n_longer)
    for name in MEANS:
        values = [row[name] for row in rows if row.get(name) is not None]
        if values or any(name in row for row in rows):
            found[name] = statistics.mean(values) if values else None
    found["wall_seconds"] = sum(row["wall_seconds"] for row in rows)
    return found


def decoding(rows: Sequence[Row]) -> Row:
    """Return how a group was decoded: strides, agreement with AR, and what was cut."""
    n_forwards = sum(row["n_forwards"] for row in rows)
    n_rounds = sum(row["n_rounds"] for row in rows)
    n_tokens = sum(row["n_decoded"] for row in rows)
    return {
        "tpf": n_tokens / n_forwards if n_forwards else None,
        "accepted": sum(row["n_accepted"] for row in rows) / n_rounds if n_rounds else None,
        "identical_to_ar": sum(row["identical_to_ar"] for row in rows) / len(rows),
        "n_tokens": n_tokens,
        "seconds": sum(row["seconds"] for row in rows),
        "ar_seconds": sum(row["ar_seconds"] for row in rows),
        "cut": sum(row["status"] in CUT for row in rows),
        "loops": sum(row["status"] == "loop_cut" for row in rows) / len(rows),
    }


def summarize(rows: Sequence[Row]) -> dict[str, Row]:
    """Return quality and decoding of every group of a checkpoint's crops."""
    return {name: quality(members) | decoding(members) for name, members in group(rows).items()}


def summarize_quality(rows: Sequence[Row]) -> dict[str, Row]:
    """Return the quality of every group of a baseline's crops."""
    return {name: quality(members) for name, members in group(rows).items()}
