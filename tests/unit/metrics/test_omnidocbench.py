"""Whole pages scored, by default and with the official faults."""

from __future__ import annotations

import pytest
from tests.omnidoc_pages import FORMULA, HEIGHT, OTHER_TABLE, TABLE, contents, full_page, item, page, text, texts_page

from gravityocr.errors import InputError
from gravityocr.metrics.normalization import normalize_text
from gravityocr.metrics.omnidocbench import score_page

LLAMAS = "Llamas quarrel about submarine cables every quarter."


def test_a_perfect_page() -> None:
    score = score_page(full_page(), "\n\n".join(contents(full_page())))
    assert (score.text_edit, score.order_edit, score.teds, score.teds_struct) == (0.0, 0.0, 1.0, 1.0)
    assert score.order.gt == score.order.pred == (1, 2, 3, 4, 5, 6, 7)
    assert [sample.category for sample in score.texts] == ["title", "text_block", "text_block", "text_block"]
    assert [(sample.ref, sample.preds) for sample in score.formulas] == [(FORMULA.strip("$"), (FORMULA.strip("$"),))]
    assert score.attributes == {"language": "english", "layout": "single_column"}
    assert (score.image_name, score.n_extra_tables) == ("tower.jpg", 0)


@pytest.mark.parametrize("compat", [True, False])
def test_an_empty_prediction_scores_nothing(compat: bool) -> None:
    score = score_page(full_page(), "", compat)
    assert (score.text_edit, score.order_edit, score.teds, score.teds_struct) == (1.0, 1.0, 0.0, 0.0)
    assert [sample.preds for sample in score.formulas] == [("",)]
    assert [sample.teds.status for sample in score.tables] == ["empty", "empty"]


@pytest.mark.parametrize("compat", [True, False])
def test_an_empty_page_has_no_scores(compat: bool) -> None:
    score = score_page(page(), "", compat)
    assert (score.text_edit, score.order_edit, score.teds, score.teds_struct) == (None, None, None, None)
    assert not score.has_tables and not score.has_formulas


def test_text_on_an_empty_page_is_invented() -> None:
    assert score_page(page(), LLAMAS).text_edit == 1.0
    assert score_page(page(), LLAMAS, compat=True).text_edit is None


def test_the_pages_text_edit_is_all_edits_over_the_longer_lengths() -> None:
    long, short = HEIGHT[0], "An end"
    score = score_page(texts_page(long, short), f"{long}\n\nAn ant")
    n_chars = len(normalize_text(long)) + 5
    assert score.text_edit == pytest.approx(2 / n_chars)


def test_ignored_blocks_may_be_printed_or_not() -> None:
    truth = full_page()
    blocks = contents(truth)
    for compat in (True, False):
        with_them = score_page(truth, "\n\n".join(["Guide to the castle", *blocks, "217"]), compat)
        without = score_page(truth, "\n\n".join(blocks), compat)
        assert with_them.text_edit == without.text_edit == 0.0
        assert with_them.order_edit == without.order_edit


def test_tables_are_paired_whatever_their_order_and_the_rest_is_counted() -> None:
    truth = page(text(HEIGHT[0], 1), item("table", TABLE, 2), item("table", OTHER_TABLE, 3))
    extra = "<table><tr><td>z</td></tr></table>"
    score = score_page(truth, "\n\n".join([HEIGHT[0], OTHER_TABLE, extra, TABLE]))
    assert score.teds == 1.0
    assert score.n_extra_tables == 1
    assert score.order.pred == (1, 3, 2)
    missing = score_page(truth, f"{HEIGHT[0]}\n\n{TABLE}")
    assert [sample.teds.teds for sample in missing.tables] == [1.0, 0.0]
    assert missing.teds == 0.5


def test_a_page_whose_tables_hold_nothing_counts_as_0() -> None:
    score = score_page(page(item("table", "", 1)), TABLE)
    assert score.has_tables and score.tables == ()
    assert score.teds == score.teds_struct == 0.0


def test_a_truncated_paragraph_is_one_sample() -> None:
    truth = page(
        text(HEIGHT[0][:40], 1, anno_id="a"), text("between", 2), text(HEIGHT[0][40:], 3, anno_id="b"),
        truncated=(("a", "b"),),
    )  # fmt: skip
    score = score_page(truth, f"{HEIGHT[0]}\n\nbetween")
    assert (score.text_edit, score.order_edit, score.order.gt) == (0.0, 0.0, (1, 2))


def test_attributes_come_with_their_samples() -> None:
    red, wide = {"text_background": "red"}, {"line": "full_line"}
    truth = page(text(HEIGHT[0], 1, attribute=red), text(HEIGHT[1], 2), item("table", TABLE, 3, attribute=wide))
    score = score_page(truth, "\n\n".join(contents(truth)))
    assert [sample.attributes for sample in score.texts] == [(red,), ({},)]
    assert score.tables[0].attributes == (wide,)
    merged = score_page(truth, f"{HEIGHT[0]} {HEIGHT[1]}\n\n{TABLE}")
    assert [sample.attributes for sample in merged.texts] == [(red, {})]


def test_an_invented_formula_stands_in_for_none() -> None:
    truth = page(text(HEIGHT[0], 1), item("equation_isolated", FORMULA, 2))
    for invented in ("12 + 34 = 46", "$$\\sum_{k=1}^{n} \\gamma_k \\Omega - q$$"):
        score = score_page(truth, f"{HEIGHT[0]}\n\n{invented}")
        assert [sample.preds for sample in score.formulas] == [("",)]
        assert score.order.pred == (1,)
        official = score_page(truth, f"{HEIGHT[0]}\n\n{invented}", compat=True)
        assert official.order.pred == (1, 2)


def test_rows_of_a_formula_have_places_of_their_own() -> None:
    rows = "$$\\begin{aligned} a &= b+c \\\\ d &= e+f \\end{aligned}$$"
    score = score_page(page(text(HEIGHT[0], 1), item("equation_isolated", rows, 2)), f"{rows}\n\n{HEIGHT[0]}")
    assert score.order.gt == (1, 2.001, 2.002)
    assert score.order.pred == (2.001, 2.002, 1)
    assert len(score.formulas) == 2


def test_what_is_no_page_is_refused() -> None:
    with pytest.raises(InputError, match="page_info"):
        score_page({"layout_dets": []}, "text")
