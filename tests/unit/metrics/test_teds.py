"""TEDS on tables small enough to score by hand, its statuses, and the faults that are mended."""

from __future__ import annotations

import doctest

import pytest

from gravityocr.errors import ConfigError
from gravityocr.metrics import teds
from gravityocr.metrics.teds import score_teds


def table(*rows: list[str]) -> str:
    return "<table>" + "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows) + "</table>"


REF = table(["a", "b"], ["c", "d"])  # 6 elements below the root


@pytest.mark.parametrize(
    ("pred", "score", "struct"),
    [
        (REF, 1.0, 1.0),
        (table(["a", "b"], ["c", "x"]), 1 - 1 / 6, 1.0),
        (table(["a", "b"]), 1 - 3 / 6, 1 - 3 / 6),
        (table(["a", "b"], ["c"]), 1 - 1 / 6, 1 - 1 / 6),
        (table(["a", "b"], ["c", "d"], ["e", "f"]), 1 - 3 / 9, 1 - 3 / 9),
        (REF.replace("<td>a", '<td colspan="2">a'), 1 - 1 / 6, 1 - 1 / 6),
        (REF.replace("<td>a", '<td colspan="1">a'), 1.0, 1.0),
        (REF.replace("a<", "<i>a</i><"), 1 - 2 / 3 / 6, 1.0),  # a tag counts like a character, and as no node
    ],
)
def test_scores_counted_by_hand(pred: str, score: float, struct: float) -> None:
    found = score_teds(pred, REF)
    assert (found.teds, found.teds_struct) == (pytest.approx(score), pytest.approx(struct))
    assert (found.status, found.error) == ("ok", None)


def test_only_omnidocbench_normalises() -> None:
    head = REF.replace("<td>a</td><td>b</td>", "<th>a</th><th>b</th>")
    assert score_teds(head, REF).teds == 1.0
    assert score_teds(head, REF, mode="pubtabnet").teds == pytest.approx(1 - 2 / 6)


@pytest.mark.parametrize(
    ("pred", "ref", "status", "reason"),
    [
        ("", REF, "empty", "the prediction is blank"),
        (REF, " \n", "empty", "the reference is blank"),
        ("| a | b |", REF, "no_table", "the prediction has no table"),
        (REF, "<p>x</p>", "no_table", "the reference has no table"),
        (f"<table><tr><td {' '.join(f'a{i}=1' for i in range(2000))}>x", REF, "malformed", "has 2000 attributes"),
    ],
)
@pytest.mark.parametrize("mode", ["omnidocbench", "pubtabnet"])
def test_what_cannot_be_scored_is_0_with_a_reason(mode, pred: str, ref: str, status: str, reason: str) -> None:
    score = score_teds(pred, ref, mode=mode)
    assert (score.teds, score.teds_struct, score.status) == (0.0, 0.0, status)
    assert reason in score.error and score.error.endswith("the score is counted as 0")


@pytest.mark.parametrize("value", ["x", "", "1.5", "9" * 5000])
def test_a_span_that_is_no_number_counts_as_1(value: str) -> None:
    pred = REF.replace("<td>b", f'<td rowspan="{value}">b')
    official, mended = (score_teds(pred, REF, compat=compat) for compat in (True, False))
    assert (official.teds, official.teds_struct, official.status) == (0.0, 0.0, "malformed")
    assert (mended.teds, mended.teds_struct, mended.status) == (1.0, 1.0, "malformed")
    assert "rowspan of the prediction" in mended.error and len(mended.error) < 200


@pytest.mark.parametrize("value", ["999999999", "-1", "0"])
def test_any_number_is_a_span(value: str) -> None:
    pred = REF.replace("<td>b", f'<td rowspan="{value}">b')
    assert score_teds(pred, REF).teds == pytest.approx(1 - 1 / 6)
    assert score_teds(pred, pred).teds == 1.0


def test_capitals_are_a_table() -> None:
    assert score_teds(REF.upper(), REF.upper(), compat=True).status == "no_table"
    score = score_teds(REF.replace("t", "T"), REF)
    assert (score.teds, score.status) == (1.0, "ok")


@pytest.mark.parametrize("mode", ["omnidocbench", "pubtabnet"])
def test_the_rows_of_several_tables_are_joined(mode) -> None:
    first, second = table(["a", "b"]), table(["c", "d"])
    assert score_teds(first + second, REF, mode=mode).teds == 1.0
    assert score_teds(first + "<p>and</p>" + second, REF, mode=mode).teds == 1.0
    assert score_teds(REF + REF, REF, mode=mode).teds == pytest.approx(0.5)
    assert score_teds(REF + REF, REF, mode=mode, compat=True).teds == 1.0


def test_a_table_inside_another_element_counts() -> None:
    inside = f"<div class='x'>{REF}</div>"
    assert score_teds(inside, REF, mode="pubtabnet", compat=True).status == "no_table"
    assert score_teds(inside, REF, mode="pubtabnet").teds == 1.0


def test_two_tables_without_cells_are_equal() -> None:
    assert score_teds("<table></table>", "<table> </table>").teds == 1.0
    official = score_teds("<table></table>", "<table> </table>", compat=True)
    assert (official.teds, official.status) == (0.0, "malformed")


def test_a_score_ends_at_0() -> None:
    chain, flat = ("<table><tr><td>x</td></tr></table>" for _ in range(2))
    chain = "<table><caption><i><u><s>1</s></u></i></caption></table>"
    flat = "<table><caption>1</caption><caption>2</caption><caption>3</caption><caption>4</caption></table>"
    assert score_teds(chain, flat, compat=True).teds_struct < 0.0
    assert score_teds(chain, flat).teds_struct == 0.0


def test_over_the_budget_is_told_but_never_for_the_same_table() -> None:
    big = table(*[[f"{row} {column}" for column in range(10)] for row in range(60)])
    other = big.replace("5", "6")
    score = score_teds(big, other, budget=100_000)
    assert (score.teds, score.teds_struct, score.status) == (0.0, 0.0, "over_budget")
    assert "over the budget of 100000" in score.error and "at most 1.0000" in score.error
    assert score_teds(big, big, budget=100_000).teds == 1.0
    assert score_teds(big, other).status == "ok"


def test_long_texts_count_towards_the_budget() -> None:
    assert score_teds(table(["ab" * 200_000]), table(["ba" * 200_000])).status == "over_budget"
    assert score_teds(table(["ab" * 200_000]), table(["b"])).status == "ok"


def test_a_text_may_hold_what_stands_for_tags() -> None:
    private = chr(0xF0000)
    score = score_teds(table([f"{private}"]), table(["<i></i>"]), mode="pubtabnet")
    assert score.teds == pytest.approx(1 - 1 / 2)


def test_text_behind_a_cell_inside_a_cell_does_not_count() -> None:
    """The official tokens leave it out; text behind any other tag counts."""
    inside, behind = (f"<table><tr><td>a<table><tr><td>b</td>{x}</tr></table></td></tr></table>" for x in ("", "x"))
    assert score_teds(behind, inside, mode="pubtabnet", compat=True).teds == 1.0
    other = score_teds(table(["a<i>b</i>x"]), table(["a<i>b</i>"]), mode="pubtabnet")
    assert other.teds == pytest.approx(1 - 1 / 5 / 3)


@pytest.mark.parametrize("junk", ["<br>", "<b>", "<img>", "<code></code>", "<table><tr><td>"])
@pytest.mark.parametrize("mode", ["omnidocbench", "pubtabnet"])
def test_junk_tags_in_a_cell_raise_the_official_score_only(junk: str, mode: str) -> None:
    junk_table = f"<table><tr><td>x{junk * 200}</td></tr></table>"
    assert score_teds(junk_table, REF, mode=mode, compat=True).teds > 0.9
    assert score_teds(junk_table, REF, mode=mode).teds <= 1 - 4 / 6


def test_tags_that_both_sides_have_count_as_nodes() -> None:
    """As the official scorer counts them, so that tables alike in their tags score the same."""
    pred, ref = (table(["<b>a</b>", last]) for last in ("b", "c"))
    for compat in (True, False):
        assert score_teds(pred, ref, mode="pubtabnet", compat=compat).teds == pytest.approx(1 - 1 / 4)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match="use omnidocbench or pubtabnet"):
        score_teds(REF, REF, mode="html")


def test_the_examples_in_the_docstrings() -> None:
    results = doctest.testmod(teds)
    assert results.attempted >= 1
    assert results.failed == 0
