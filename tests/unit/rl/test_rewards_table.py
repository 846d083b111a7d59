"""The table reward by hand, part by part."""

from __future__ import annotations

import doctest

import pytest

from gravityocr.metrics.edit import ned
from gravityocr.rl import table_reward
from gravityocr.rl.reward_settings import MOST_MARKUP
from gravityocr.rl.table_reward import TableScores, score_table, table_scores


def table(*rows: str) -> str:
    return f"<table>{''.join(f'<tr>{cells(row)}</tr>' for row in rows)}</table>"


def cells(row: str) -> str:
    return "".join(f"<td>{text}</td>" for text in row.split("|"))


ROWS = ["aa|bb", "cc|dd", "ee|ff", "gg|hh"]
REF = table(*ROWS)


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(table_reward).failed == 0


def test_the_reference_has_everything() -> None:
    assert table_scores(REF, REF) == TableScores("ok", 1.0, 1.0, 0.0, 0.0, 0.1)
    assert score_table(REF, REF) == 1.0


def test_a_misread_cell_by_hand() -> None:
    pred = REF.replace("hh", "hx")
    assert table_scores(pred, REF) == TableScores("ok", 1.0, pytest.approx(15 / 16), 0.0, 0.0, 0.1)
    quality = 0.45 + 0.55 * 15 / 16
    assert score_table(pred, REF) == pytest.approx(quality + 0.1 * (1 - quality))


def test_a_missing_row_by_hand() -> None:
    scores = table_scores(table(*ROWS[:3]), REF)
    # 3 of 12 nodes; 4 letters of 16 and the marks of two cells; 1 of 4 rows; columns still equal
    assert scores == TableScores("ok", pytest.approx(9 / 12), pytest.approx(1 - 6 / 16), 0.25, 0.0, 0.05)
    quality = (0.45 * 9 / 12 + 0.55 * 10 / 16) * 0.75
    assert score_table(table(*ROWS[:3]), REF) == pytest.approx(quality + 0.05 * (1 - quality))


@pytest.mark.parametrize(
    ("n_pred", "n_ref", "p_row"),
    [
        (4, 4, 0.0),
        (3, 4, 0.25),
        (5, 4, 0.25),
        (2, 1, 0.25),
        (3, 1, 0.35),
        (1, 20, 0.35),
        (60, 20, 0.35),
        (19, 20, 0.05),
    ],
)
def test_the_penalty_of_row_counts(n_pred: int, n_ref: int, p_row: float) -> None:
    sides = [table(*[f"x{number}|y" for number in range(n)]) for n in (n_pred, n_ref)]
    assert table_scores(*sides).p_row == pytest.approx(p_row)


@pytest.mark.parametrize(
    ("n_times", "n_in_ref", "n_beyond"),
    [(3, 1, 0), (4, 1, 1), (10, 1, 7), (3, 0, 0), (4, 3, 0), (6, 5, 0), (7, 5, 1), (40, 40, 0)],
)
def test_the_penalty_of_repeated_rows(n_times: int, n_in_ref: int, n_beyond: int) -> None:
    pred, ref = (table("head|row", *["x|y"] * n) for n in (n_times, n_in_ref))
    expected = min(1.0, 0.3 + 0.7 * n_beyond / (n_times + 1)) if n_beyond else 0.0
    assert table_scores(pred, ref).p_loop == pytest.approx(expected)


def test_blank_cells_do_not_hide_a_repeated_row() -> None:
    pred = table("head", *["|" * n for n in range(1, 12)])
    assert table_scores(pred, table("head")).p_loop > 0.3


def test_a_reference_that_repeats_is_not_punished() -> None:
    ref = table("a|b", *["0|0"] * 30)
    assert score_table(ref, ref) == 1.0
    assert score_table(table("a|b", *["0|0"] * 29), ref) > 0.9


def test_nothing_but_repetition_leaves_the_bonus() -> None:
    ref = table(*[f"{n}|{n * 7}" for n in range(40)])
    scores = table_scores(table(*["x|x"] * 40), ref)
    assert scores.p_loop == pytest.approx(0.3 + 0.7 * 37 / 40)
    assert score_table(table(*["x|x"] * 40), ref) < 0.15


@pytest.mark.parametrize(
    ("pred", "bonus"),
    [
        (REF, 0.1),
        (table(*ROWS[:3]), 0.05),
        (table(*[row + "|" for row in ROWS]), 0.05),
        (table("aa|bb|", "cc|dd"), 0.0),
        (REF.replace("<td>aa", '<td colspan="2">aa'), 0.05),
        (REF.replace("<td>aa", '<td rowspan="2">aa'), 0.05),
        (table("aa|bb", "cc", "ee|ff", "gg|hh").replace("<td>aa", '<td rowspan="2">aa'), 0.1),
        (REF.replace("<td>gg", '<td colspan="99999999999">gg'), 0.05),
    ],
)
def test_the_bonus_for_equal_counts(pred: str, bonus: float) -> None:
    assert table_scores(pred, REF).bonus == pytest.approx(bonus)


@pytest.mark.parametrize(
    "pred",
    [
        REF.removesuffix("</table>"), REF + "<table>", REF + "<table", "<table>" + REF, REF[:-3], REF[:40],
        REF.replace("</table>", "<!-- </table> -->"), "</table>" + REF.removesuffix("</table>"), "<table>",
    ],
)  # fmt: skip
def test_an_unclosed_table_earns_nothing(pred: str) -> None:
    if pred.endswith("</table><table"):  # that tag never begins: it is text after the table
        assert table_scores(pred, REF).cells < 1.0
    else:
        assert (table_scores(pred, REF).status, score_table(pred, REF)) == ("unclosed", 0.0)


def test_a_table_that_was_opened_again_may_be_closed_again() -> None:
    halves = table(*ROWS[:2]) + table(*ROWS[2:])
    assert table_scores(halves, REF).status == "ok"


@pytest.mark.parametrize(
    "pred", ["", "aa bb cc dd", "| aa | bb |", "<tr><td>aa</td></tr>", "<table></table>", "<table><tr></tr></table>"]
)
def test_what_cannot_be_parsed_earns_a_share_of_its_likeness(pred: str) -> None:
    assert table_scores(pred, REF).status == "unparsable"
    assert score_table(pred, REF) == pytest.approx(0.15 * (1 - ned(pred, REF)))


def test_markup_that_the_parser_gives_up_on_cannot_be_parsed() -> None:
    deep = "<table><tr><td>" + "<b>" * 4000 + "a" + "</b>" * 4000 + "</td></tr></table>"
    assert table_scores(deep, REF).status == "unparsable"


def test_a_reference_without_a_table_is_compared_as_text() -> None:
    assert score_table(REF, "aa bb") == pytest.approx(0.15 * (1 - ned(REF, "aa bb")))
    assert score_table("", " ") == 1.0


FRAGMENT = "<tr><td>2 (0)</td><td>336.0</td></tr>"


@pytest.mark.parametrize(
    ("pred", "low", "high"),
    [
        (FRAGMENT, 1.0, 1.0),
        (FRAGMENT.replace("336", "338"), 0.9, 0.99),
        (f"<table>{FRAGMENT}</table>", 0.8, 0.95),
        (FRAGMENT.removesuffix("</tr>"), 0.0, 0.0),
        (FRAGMENT * 2 + "<tr><td>2", 0.0, 0.0),
        (FRAGMENT.replace("</td></tr>", ""), 0.0, 0.0),
        ("<tr><td>2 (0)</td>" + FRAGMENT, 0.2, 0.9),  # the last row is closed
        (f"<table>{FRAGMENT}", 0.0, 0.0),
        ("", 0.0, 0.0),
        ("2 (0) 336.0", 0.0, 0.15),
        ("<TR><TD>2 (0)</TD><TD>336.0</TD></TR>", 1.0, 1.0),
    ],
)
def test_row_fragments_are_wrapped(pred: str, low: float, high: float) -> None:
    assert low <= score_table(pred, FRAGMENT) <= high


def test_a_bare_row_is_no_table_where_a_table_is_wanted() -> None:
    assert table_scores(FRAGMENT, f"<table>{FRAGMENT}</table>").status == "unparsable"


@pytest.mark.parametrize(
    "added", ["words after the table", "<!-- a comment after -->", "<table></table>" * 9, "<br>" * 10, "<p>more</p>"]
)
def test_what_stands_outside_of_cells_is_counted(added: str) -> None:
    scores = table_scores(REF + added, REF)
    assert scores.structure == 1.0 and scores.cells <= 0.8
    assert score_table(REF + added, REF + added) == 1.0
    assert table_scores(REF, REF + added).cells == 1.0


@pytest.mark.parametrize("attributes", [' class="wide"', ' style="color: red"', " hidden", ' colspan="1"'])
def test_attributes_that_the_normal_form_drops_are_free(attributes: str) -> None:
    assert score_table(REF.replace("<td>", f"<td{attributes}>"), REF) == 1.0
    assert score_table(REF, REF.replace("<td>", f"<td{attributes}>")) == 1.0


@pytest.mark.parametrize("hidden", ["<sup></sup>", "</b>", "\u200b ", "</td>", "</sub><sup>"])
def test_what_the_normal_form_swallows_may_not_go_on_without_end(hidden: str) -> None:
    few, many = (REF.replace("</td>", hidden * n + "</td>", 1) for n in (2, 500))
    assert table_scores(few, REF).cells == 1.0
    assert score_table(many, REF) < 0.75
    assert score_table(many, many) == 1.0


def test_text_may_not_change_its_cell() -> None:
    ref = table("aa bb|cc", "dd|")
    assert table_scores(table("aa|bb cc", "dd|"), ref).cells < 1.0
    assert table_scores(table("aa bb|cc", "|dd"), ref).cells < 1.0


def test_blank_cells_earn_nothing_for_their_marks() -> None:
    assert table_scores(table("|||||", "|||||"), table("a|b|c|d|e|f", "g|h|i|j|k|l")).cells == 0.0


def test_two_blank_tables_are_equal() -> None:
    assert score_table(table("|", "|"), table("|", "|")) == 1.0


def test_indentation_is_no_repetition() -> None:
    ref = table(*[f"row {n}|{n * 17}" for n in range(20)])
    pretty = ref.replace("<tr>", "\n  <tr>").replace("<td>", "\n    <td>\n      ").replace("</", "\n    </")
    assert score_table(pretty, ref) == score_table(f"<div>{pretty}</div>", ref) == 1.0


def test_words_that_repeat_in_cells_are_repetition() -> None:
    ref = table("a long cell of words that are all different from each other and so on and on", "b")
    pred = table("a long cell of words " + "that are all " * 12, "b")
    parts = table_scores(pred, ref)
    quality = 0.45 * parts.structure + 0.55 * parts.cells
    assert score_table(pred, ref) < 0.5 * quality


def test_what_is_unparsable_is_guarded_too() -> None:
    assert score_table("aa bb " * 40, REF) < 0.2 * 0.15 * (1 - ned("aa bb " * 40, REF))


def test_an_entity_of_endless_digits_is_one_character_as_every_other_that_is_none() -> None:
    endless, other = (f"<table><tr><td>{text}</td></tr></table>" for text in (f"&#{'9' * 5000};", "\ufffd"))
    assert score_table(endless, other) == score_table(other, other) == 1.0
    assert score_table(f"<table><tr><td id='&#{'9' * 5000};'>a</td></tr></table>", other) >= 0.0
    assert score_table(f"<a&#{'9' * 5000};>", other) >= 0.0
    assert score_table(f"<table><script>&#{'9' * 5000};</script></table>", other) >= 0.0


def test_a_monster_counts_as_what_cannot_be_parsed() -> None:
    """Whoever writes a million cells waits for no tree of them."""
    monster = f"<table>{'<tr><td>ab</td></tr>' * 10_000}</table>"
    assert len(monster) > MOST_MARKUP
    assert table_scores(monster, monster).status == "unparsable"
    assert score_table(monster, monster) == pytest.approx(0.15)
    assert score_table(monster, "<table><tr><td>ab</td></tr></table>") < 0.01
    long = f"<table>{'<tr><td>ab</td><td>c</td></tr>' * 1000}</table>"
    assert score_table(long, long) == 1.0
