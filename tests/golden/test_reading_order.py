"""Reading order and text matching against the official scorer: all unit cases and all page cases."""

from __future__ import annotations

import json

import pytest

from gravityocr.metrics.edit import page_edit
from gravityocr.metrics.omnidocbench import PageScore, score_page
from gravityocr.metrics.reading_order import order_edit

PERTURBATIONS = {
    "gt_order", "reverse", "swap_mid", "first_last", "shuffle", "drop_half", "single_newline", "one_paragraph", "empty",
    "hallucinated", "headings",
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(cases_dir) -> list[dict]:
    return json.loads((cases_dir / "golden" / "golden_order_handed.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def scored(cases_dir, rows) -> list[tuple[dict, PageScore]]:
    pages = json.loads((cases_dir / "golden" / "e2e" / "gt.json").read_text(encoding="utf-8"))
    by_name = {page["page_info"]["image_path"].split("/")[-1]: page for page in pages}
    cases = [row for row in rows if row["type"] == "page"]
    return [(row, score_page(by_name[row["page"]], row["pred_md"], compat=True)) for row in cases]


def test_orders_of_the_unit_cases(rows) -> None:
    units = [row for row in rows if row["type"] == "unit"]
    assert len(units) == 20
    for row in units:
        score = order_edit(row["matches"])
        found = (list(score.gt), list(score.pred), score.edit) if score else (None, None, None)
        assert found == (row["gt"], row["pred"], pytest.approx(row["edit"], abs=1e-6)), row["id"]


def test_all_page_cases_are_there(scored) -> None:
    assert len(scored) == 77
    assert {row["perturbation"] for row, _ in scored} == PERTURBATIONS


def test_orders_of_the_page_cases(scored) -> None:
    for row, score in scored:
        orders = (list(score.order.gt), list(score.order.pred)) if score.order else (None, None)
        assert orders == (row["order_gt"], row["order_pred"]), row["id"]
        assert score.order_edit == pytest.approx(row["order_edit"], abs=1e-6), row["id"]


def test_distances_and_numbers_of_samples_of_the_page_cases(scored) -> None:
    for row, score in scored:
        assert score.text_edit == pytest.approx(row["text_edit_page"], abs=1e-6), row["id"]
        formula_edit = page_edit(sample.edit for sample in score.formulas) if score.formulas else None
        assert formula_edit == pytest.approx(row["formula_edit_page"], abs=1e-6), row["id"]
        counts = (len(score.texts), len(score.formulas), len(score.tables))
        assert counts == (row["n_text_samples"], row["n_formula_samples"], row["n_table_samples"]), row["id"]


def test_every_text_pair_of_the_page_cases(scored) -> None:
    n_pairs = 0
    for row, score in scored:
        ours = sorted((sample.gt, sample.edit.ref, sample.edit.pred) for sample in score.texts)
        official = sorted((tuple(pair["gt_idx"]), pair["norm_gt"], pair["norm_pred"]) for pair in row["text_pairs"])
        assert ours == official, row["id"]
        n_pairs += len(ours)
    assert n_pairs > 500
