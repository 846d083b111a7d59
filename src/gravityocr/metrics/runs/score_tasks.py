"""What one process does with one sample: module-level functions from JSON to JSON, for `score_run.run_samples`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gravityocr.metrics.edit import ned, text_edit
from gravityocr.metrics.normalization import normalize_formula, normalize_text
from gravityocr.metrics.runs.table_input import table_as_html
from gravityocr.metrics.teds import score_teds

Payload = Mapping[str, Any]


def teds_task(payload: Payload) -> dict[str, Any]:
    """Score a table: `pred`, `ref`, `mode`, `compat`, and `budget` where the usual one will not do.

    Without `compat`, tables of pipes and of LaTeX are read as HTML first.
    """
    pred, ref = payload["pred"], payload["ref"]
    if not payload["compat"]:
        pred, ref = table_as_html(pred), table_as_html(ref)
    options = {"budget": payload["budget"]} if payload.get("budget") is not None else {}
    score = score_teds(pred, ref, mode=payload["mode"], compat=payload["compat"], **options)
    return {**asdict(score), "n_nodes": list(score.n_nodes)}


def edit_task(payload: Payload) -> dict[str, Any]:
    """Score a text: `pred`, `ref`, `kind`."""
    score = text_edit(payload["pred"], payload["ref"], payload["kind"])
    return {"ned": score.ned, "n_edits": score.n_edits, "n_chars": score.n_chars}


def golden_teds_task(payload: Payload) -> dict[str, Any]:
    """Compute the four figures of one row of official table scores."""
    pred, ref = payload["pred_html"], payload["gt_html"]
    whole = score_teds(pred, ref, mode="omnidocbench", compat=True)
    raw = score_teds(pred, ref, mode="pubtabnet", compat=True)
    return {
        "teds": whole.teds,
        "teds_struct": whole.teds_struct,
        "teds_raw": raw.teds,
        "teds_struct_raw": raw.teds_struct,
    }


def golden_edit_task(payload: Payload) -> dict[str, Any]:
    """Compute what one row of official text scores holds: figures, counts and normal forms."""
    pred, ref, kind = payload["pred"], payload["gt"], payload["type"]
    score = text_edit(pred, ref, kind)
    normalize = normalize_formula if kind == "formula" else normalize_text
    return {
        "edit_dist": score.ned,
        "edit_raw": ned(pred, ref),
        "edit_num": score.n_edits,
        "upper_len": score.n_chars,
        "norm_pred": normalize(pred),
        "norm_gt": normalize(ref),
    }
