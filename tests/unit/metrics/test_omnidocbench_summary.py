"""Scored pages summed up: axes, Overall, breakdowns, and what mending each fault changes."""

from __future__ import annotations

import json

import pytest
from tests.omnidoc_pages import FORMULA, HEIGHT, TABLE, contents, full_page, item, page, text

from gravityocr.metrics.omnidocbench_summary import (
    AXES,
    MODES,
    PAGE_AXES,
    add_cdm,
    differences,
    formula_pairs,
    overall,
    page_record,
    summarize,
)

OFFICIAL, OURS = MODES
LLAMAS = "Llamas quarrel about submarine cables every quarter."


def scores(pairs, status: str = "ok", f1: float = 0.8, strict: float = 0.6) -> dict:
    return {pair: {"f1": f1, "f1_strict": strict, "status": status, "error": None} for pair in pairs}


def perfect_record(**attributes):
    truth = full_page()
    truth["page_info"]["page_attribute"] |= attributes
    return page_record(truth, "\n\n".join(contents(truth)))


def test_a_record_is_json_and_has_both_modes() -> None:
    record = perfect_record()
    assert json.loads(json.dumps(record))["image_name"] == "tower.jpg"
    assert record["attributes"] == {"language": "english", "layout": "single_column"}
    assert record["modes"][OURS]["order_edit"] == 0.0
    assert record["modes"][OFFICIAL]["order_edit"] == pytest.approx(1 / 7)
    assert set(record["faults"]) == {"first_table_in_order"}


def test_overall_is_the_mean_of_three_axes_in_percent() -> None:
    assert overall({"text_edit": 0.1, "cdm": 0.8, "teds": 0.7}) == pytest.approx(80.0)


def test_pages_without_a_kind_of_block_are_outside_its_mean() -> None:
    records = [perfect_record(), page_record(page(text(HEIGHT[0], 1)), ""), page_record(page(), "")]
    add_cdm(records, scores(formula_pairs(records)))
    found = summarize(records, OFFICIAL)
    assert found["text_edit"] == 0.5
    assert (found["cdm"], found["teds"]) == (0.8, 1.0)
    assert found["n_pages_by_axis"] == {"text_edit": 2, "cdm": 1, "teds": 1, "teds_struct": 1, "order_edit": 2}
    assert found["overall"] == pytest.approx((50 + 80 + 100) / 3)
    assert found["missing_axes"] == []
    assert found["n_samples"] == {"texts": 5, "tables": 2, "formulas": 1}


def test_an_axis_that_no_page_has_leaves_no_overall() -> None:
    found = summarize([page_record(page(text(HEIGHT[0], 1)), HEIGHT[0])], OFFICIAL)
    assert (found["text_edit"], found["overall"]) == (0.0, None)
    assert found["missing_axes"] == ["cdm", "teds", "teds_struct"]


def test_a_page_whose_formulas_hold_nothing_counts_as_0() -> None:
    record = page_record(page(item("equation_isolated", "", 1)), FORMULA)
    add_cdm([record], {})
    assert [record["modes"][mode]["cdm"] for mode in MODES] == [0.0, 0.0]


def test_of_two_predictions_the_better_one_counts() -> None:
    pred = "$$\\begin{bmatrix} {\\mathbf{a}} & b \\\\ c & d \\end{bmatrix}$$"
    truth = page(item("equation_isolated", "$$\\begin{bmatrix} a & b \\\\ c & d \\end{bmatrix}$$", 1))
    record = page_record(truth, pred)
    pairs = formula_pairs([record])
    assert len(pairs) == 2 and len({ref for _, ref in pairs}) == 1
    add_cdm([record], scores(pairs[:1], f1=0.2, strict=0.9) | scores(pairs[1:], f1=0.7, strict=0.3))
    assert record["modes"][OFFICIAL]["cdm"] == 0.7
    assert record["modes"][OURS]["cdm"] == 0.9


def test_a_broken_reference_is_officially_0_and_left_out_else() -> None:
    truth = page(item("equation_isolated", FORMULA, 1), item("equation_isolated", "$$a_b + \\Gamma^2 = q$$", 2))
    record = page_record(truth, "\n\n".join(contents(truth)))
    first, second = formula_pairs([record])
    add_cdm([record], scores([first], "ref_unrenderable", 0.0, 0.0) | scores([second], f1=1.0, strict=1.0))
    assert record["modes"][OFFICIAL]["cdm"] == 0.5
    assert record["modes"][OURS]["cdm"] == 1.0
    (found,) = [one for one in differences([record]) if one["fault"] == "skip_broken_references"]
    assert found["n_pages"] == found["n_formulas"] == 1
    assert found["effect"]["cdm"] == pytest.approx(0.5)
    assert found["pages"] == ["tower.jpg"]


def test_a_page_of_nothing_but_broken_references_is_outside_the_mean() -> None:
    record = page_record(page(item("equation_isolated", FORMULA, 1)), FORMULA)
    add_cdm([record], scores(formula_pairs([record]), "ref_unrenderable", 0.0, 0.0))
    assert record["modes"][OFFICIAL]["cdm"] == 0.0
    assert record["modes"][OURS]["cdm"] is None


def test_every_pair_is_scored_once() -> None:
    assert len(formula_pairs([perfect_record(), perfect_record()])) == 1


def test_pages_are_grouped_by_their_attributes() -> None:
    issues = ["watermark", "table_colorful"]
    records = [perfect_record(source="book", special_issue=issues), perfect_record(source="note")]
    groups = summarize(records, OURS)["by_page_attribute"]
    assert {label: group["n_pages"] for label, group in groups.items()} == {
        "language: english": 2, "layout: single_column": 2, "source: book": 1, "source: note": 1,
        "special_issue: watermark": 1,
    }  # fmt: skip
    assert groups["source: book"]["teds"] == 1.0


def test_samples_are_grouped_by_the_attributes_of_their_blocks() -> None:
    truth = page(
        text(HEIGHT[0], 1, attribute={"background": "red"}), text(HEIGHT[1], 2),
        item("table", TABLE, 3, attribute={"line": "full", "background": "red"}),
    )  # fmt: skip
    groups = summarize([page_record(truth, "\n\n".join(contents(truth)))], OURS)["by_block_attribute"]
    assert set(groups) == {"background: red", "line: full"}
    assert (groups["background: red"]["text_edit"], groups["background: red"]["teds"]) == (0.0, 1.0)
    assert groups["line: full"] == {"teds": 1.0, "teds_struct": 1.0, "n_samples": 1}


def test_invented_text_is_in_no_group() -> None:
    truth = page(text(HEIGHT[0], 1, attribute={"background": "red"}))
    groups = summarize([page_record(truth, f"{HEIGHT[0]}\n\n{LLAMAS}")], OURS)["by_block_attribute"]
    assert groups["background: red"]["text_edit"] == 0.0


def test_differences_name_the_fault_its_pages_and_its_effect() -> None:
    truth = full_page()
    records = [page_record(truth, "\n\n".join([*contents(truth), LLAMAS])), perfect_record()]
    found = {one["fault"]: one for one in differences(records)}
    assert set(found) == {"first_table_in_order", "count_unmatched_text"}
    assert found["first_table_in_order"]["n_pages"] == 2
    assert found["first_table_in_order"]["effect"] == {"order_edit": pytest.approx(-1 / 7)}
    assert found["count_unmatched_text"]["n_pages"] == 1
    assert found["count_unmatched_text"]["effect"]["text_edit"] > 0.0


def test_pages_without_faults_have_no_differences() -> None:
    assert differences([page_record(page(text(HEIGHT[0], 1)), HEIGHT[0])]) == []


def test_axes_have_intervals_around_them() -> None:
    records = [perfect_record() for _ in range(3)] + [page_record(full_page(), "The tower")]
    add_cdm(records, scores(formula_pairs(records)))
    found = summarize(records, OURS)
    for axis in ("overall", *AXES):
        low, high = found["ci95"][axis]
        assert low <= found[axis] <= high
    assert set(PAGE_AXES) < set(AXES)
