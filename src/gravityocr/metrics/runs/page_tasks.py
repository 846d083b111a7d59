"""What one process does with one page: module-level functions from JSON to JSON, for `score_run.run_samples`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gravityocr.metrics.edit import page_edit
from gravityocr.metrics.omnidocbench import score_page
from gravityocr.metrics.omnidocbench_summary import page_record
from gravityocr.metrics.reading_order import order_edit

Payload = Mapping[str, Any]


def page_task(payload: Payload) -> dict[str, Any]:
    """Score a page in both modes, all but CDM: `page` is its annotation, `markdown` the prediction."""
    return page_record(payload["page"], payload["markdown"])


def golden_order_task(payload: Payload) -> dict[str, Any]:
    """Compute what one row of official orders holds: of `matches` alone, or of `annotation` and `pred_md`."""
    if "matches" in payload:
        order = order_edit(payload["matches"])
        if order is None:
            return {"edit": None, "gt": None, "pred": None}
        return {"edit": order.edit, "gt": list(order.gt), "pred": list(order.pred)}
    page = score_page(payload["annotation"], payload["pred_md"], compat=True)
    formulas = [sample.edit for sample in page.formulas]
    return {
        "order_edit": page.order_edit,
        "text_edit_page": page.text_edit,
        "formula_edit_page": page_edit(formulas) if formulas else None,
    }
