"""One page per fault of the official scorer: what it does there, and what the mended rule does."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from tests.omnidoc_pages import HEIGHT, OTHER_TABLE, TABLE, contents, full_page, item, page, text, texts_page

from gravityocr.metrics.normalization import normalize_text
from gravityocr.metrics.omnidocbench import PageScore, score_by_rules
from gravityocr.metrics.page_matching.page_truth import read_page
from gravityocr.metrics.page_matching.rules import FAULTS, MENDED, OFFICIAL, Rules, official_but


def both(truth: dict, markdown: str, name: str) -> tuple[PageScore, PageScore]:
    """Score by the official rules, and with this one fault mended."""
    of = read_page(truth)
    return score_by_rules(of, markdown, OFFICIAL), score_by_rules(of, markdown, official_but(name))


def test_every_rule_says_what_the_official_scorer_does() -> None:
    assert {field.name for field in fields(Rules)} == set(FAULTS)
    assert Rules(*[False] * len(FAULTS)) == OFFICIAL and Rules() == MENDED
    assert official_but("lenient_tables") != OFFICIAL
    with pytest.raises(TypeError):
        official_but("no_such_rule")


def test_the_first_table_is_missing_from_the_order() -> None:
    truth = full_page()
    official, mended = both(truth, "\n\n".join(contents(truth)), "first_table_in_order")
    assert official.order_edit == pytest.approx(1 / 7)
    assert mended.order_edit == 0.0
    assert (official.teds, mended.teds) == (1.0, 1.0)


def test_unmatched_text_costs_nothing() -> None:
    truth = texts_page(*HEIGHT)
    printed = "\n\n".join([*HEIGHT, "Llamas quarrel about submarine cables every quarter."])
    official, mended = both(truth, printed, "count_unmatched_text")
    assert official.text_edit == 0.0
    n_true, n_invented = len(normalize_text("".join(HEIGHT))), 45
    assert mended.text_edit == pytest.approx(n_invented / (n_invented + n_true))
    assert (mended.texts[-1].gt, mended.texts[-1].edit.ref) == ((), "")


def test_a_missing_block_is_paired_with_whatever_is_left() -> None:
    truth = texts_page(*HEIGHT)
    printed = "\n\n".join(["Llamas quarrel about submarine cables every quarter.", *HEIGHT[1:]])
    official, mended = both(truth, printed, "count_unmatched_text")
    assert official.order_edit == 0.0
    assert mended.order_edit == pytest.approx(1 / 3)
    assert mended.text_edit > official.text_edit


def test_paragraphs_drift_ahead_of_formulas() -> None:
    # Every blank line moves the official position of later paragraphs two characters ahead.
    blocks = [text(f"Para {n} xyz{n * 7}", n) for n in range(1, 20)]
    truth = page(*blocks, item("equation_isolated", "$$v^2=3gh$$", 20), text("after all", 21))
    official, mended = both(truth, "\n\n".join(contents(truth)), "exact_positions")
    assert official.order.pred == (*range(1, 20), 21, 20)
    assert mended.order.pred == (*range(1, 20), 20, 21)


def test_commands_around_titles_do_not_move_what_follows() -> None:
    blocks = [item("title", f"Part {n} of {n * 7}", n) for n in range(1, 6)]
    truth = page(*blocks, item("equation_isolated", "$$v^2=3gh$$", 6), text("after all", 7))
    printed = "\n\n".join(f"\\section{{{one}}}" if one.startswith("Part") else one for one in contents(truth))
    official, mended = both(truth, printed, "exact_positions")
    assert (official.text_edit, mended.text_edit) == (0.0, 0.0)
    assert official.order.pred == (1, 2, 3, 4, 5, 7, 6)
    assert mended.order.pred == (1, 2, 3, 4, 5, 6, 7)


def test_an_empty_block_shifts_the_positions_of_later_ones() -> None:
    truth = page(text(HEIGHT[0], 1), item("equation_isolated", "$$v^2=3gh$$", 2), text(HEIGHT[1], 3))
    printed = "\n\n".join(["***", HEIGHT[0], "$$v^2=3gh$$", HEIGHT[1]])
    official, mended = both(truth, printed, "exact_positions")
    assert [sample.edit.ned for sample in official.texts] == [0.0, 0.0]
    # The last paragraph is taken to stand where the formula stands, which is listed behind it.
    assert official.order_edit > 0.0
    assert mended.order_edit == 0.0


def misread(line: str) -> str:
    return re.sub("[aeioth]", "x", line)


def test_single_line_breaks_join_paragraphs() -> None:
    truth = page(text(HEIGHT[0], 1), text(HEIGHT[1], 2), text(HEIGHT[2], 3), text("An end.", 4))
    spoiled = [misread(one) for one in HEIGHT]
    printed = "\n".join(spoiled) + "\n\nAn end."
    official, mended = both(truth, printed, "lines_where_they_fit")
    assert (official.order_edit, mended.order_edit) == (0.5, 0.0)
    assert mended.text_edit < official.text_edit


def test_blank_lines_that_hold_spaces_join_paragraphs() -> None:
    truth = texts_page(*HEIGHT, "An end.")
    two_lines = [misread(one).replace(", ", ",\n") for one in HEIGHT]
    printed = "\n  \n".join(two_lines) + "\n\nAn end."
    official, mended = both(truth, printed, "lines_where_they_fit")
    assert [len(sample.gt) for sample in mended.texts] == [1, 1, 1, 1]
    assert mended.text_edit < official.text_edit


@pytest.mark.parametrize("cell", ["10:30", "a---b"])
def test_cells_with_a_colon_or_dashes_are_dropped(cell: str) -> None:
    table = f"<table><tr><td>train</td><td>time</td></tr><tr><td>one</td><td>{cell}</td></tr></table>"
    truth = page(text(HEIGHT[0], 1), item("table", table, 2))
    printed = f"{HEIGHT[0]}\n\n| train | time |\n| --- | --- |\n| one | {cell} |\n"
    official, mended = both(truth, printed, "pipe_tables_as_markdown")
    assert mended.teds == 1.0
    assert official.teds < 1.0


def test_a_bad_colspan_scores_zero() -> None:
    truth = page(item("table", TABLE, 1))
    official, mended = both(truth, TABLE.replace("<td>year", "<td colspan='x'>year"), "lenient_tables")
    assert (official.teds, mended.teds) == (0.0, 1.0)


def test_upper_case_tags_are_no_table() -> None:
    truth = page(text(HEIGHT[0], 1), item("table", TABLE, 2))
    printed = HEIGHT[0] + "\n\n" + TABLE.replace("table>", "TABLE>").replace("td>", "TD>").replace("tr>", "TR>")
    official, mended = both(truth, printed, "lenient_tables")
    assert (official.teds, mended.teds) == (0.0, 1.0)
    assert score_by_rules(read_page(truth), printed, MENDED).order_edit == 0.0


def test_of_two_tables_in_one_only_the_first_counts() -> None:
    truth = page(item("table", TABLE + OTHER_TABLE, 1))
    official, mended = both(truth, TABLE, "lenient_tables")
    assert official.teds == 1.0
    assert mended.teds < 1.0


def test_skipping_broken_references_is_left_to_cdm() -> None:
    truth = full_page()
    official, mended = both(truth, "\n\n".join(contents(truth)), "skip_broken_references")
    assert official == mended
