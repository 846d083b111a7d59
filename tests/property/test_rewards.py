"""The laws of the rewards: from 0 to 1, 1 for the reference, never more for a planted defect."""

from __future__ import annotations

import html
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gravityocr.metrics.edit import edit_distance, ned
from gravityocr.metrics.tables.table_tree import read_table
from gravityocr.metrics.teds import score_structure, score_teds
from gravityocr.rl.rewards import reward_of

TASKS = st.sampled_from(["text", "table", "formula"])
FOREIGN, MISREAD = "\u0416", "\u0429"  # stand in no generated text

PIECES = [
    "<table>", "</table>", "<tr>", "</tr>", "<td>", "</td>", "<th>", "<td colspan=2>", "<td rowspan='x'>", "<thead>",
    "<sup>", "<!--", "-->", "&nbsp;", "&", '"', "{", "}", "\\left", "\\right", "\\frac", "\\begin{a}", "\\end{b}", "$",
    "\\(", "\\tag{", "^", "_", "\\", " ", "\n", "x", "7", "\u200b",
    f"&#{'9' * 5000};", f"<td id='&#{'9' * 5000}' rowspan={'9' * 5000}>", f"&#x{'f' * 5000};", "&#0;", "&#xD800",
]  # fmt: skip
anything = st.lists(
    st.one_of(st.sampled_from(PIECES), st.text(alphabet=st.characters(exclude_categories=()), max_size=4)), max_size=25
).map("".join)

words = st.text(alphabet="abcdef0123456789.-% &", max_size=8)
grids = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(words, min_size=width, max_size=width), min_size=1, max_size=6)
)
formula_parts = st.sampled_from(
    [
        r"\frac{a}{b}",
        r"\left( x \right)",
        "y^{2}",
        r"\alpha",
        "+",
        "=",
        r"\sqrt{n}",
        r"\{ k \}",
        r"\begin{array}{l} z \end{array}",
    ]
)
formulas = st.lists(formula_parts, min_size=1, max_size=8).map(" ".join)
Grid = list[list[str]]


def rows_of(grid: Grid) -> str:
    return "".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>" for row in grid)


def table_of(grid: Grid) -> str:
    return f"<table>{rows_of(grid)}</table>"


def has_text(grid: Grid) -> bool:
    return any(text.strip() for row in grid for text in row)


@settings(max_examples=150)
@given(TASKS, anything, anything)
@example("table", "<table><tr><td>a</td></tr></table>" * 40, "<table></table>")
@example("table", "<table><tr><td colspan=-5 rowspan=0>a</td></tr></table>", "<table><tr><td>a</td></tr></table>")
@example("table", f"<table><tr><td>&#{'9' * 5000};</td></tr></table>", "<table><tr><td>a</td></tr></table>")
@example("table", "<table><tr><td>a</td></tr></table>", f"<table><tr><td>&#{'9' * 5000};</td></tr></table>")
@example("formula", "}" * 50, "")
def test_every_reward_is_from_0_to_1(task, pred: str, ref: str) -> None:
    assert 0.0 <= reward_of(task, pred, ref) <= 1.0


@settings(max_examples=60)
@given(st.one_of(st.just("text"), st.just("formula")), st.one_of(anything, formulas))
def test_a_text_and_a_formula_are_themselves(task, ref: str) -> None:
    assert reward_of(task, ref, ref) == 1.0


@settings(max_examples=80)
@given(st.lists(st.lists(st.text(max_size=9), min_size=1, max_size=4), min_size=1, max_size=6), st.booleans())
@example([["0"] * 3] * 6, True)
@example([["." * 80]], False)
@example([["\x00a"]], False)
def test_a_table_of_any_texts_is_itself(grid: Grid, is_fragment: bool) -> None:
    ref = rows_of(grid) if is_fragment else table_of(grid)
    assert reward_of("table", ref, ref) == 1.0


def drop_row(grid: Grid) -> str:
    return table_of(grid[:-1])


def repeat_row(grid: Grid) -> str:
    return table_of([*grid, grid[-1]])


def loop_row(grid: Grid) -> str:
    return table_of([*grid, *[grid[-1]] * 30])


def drop_cell(grid: Grid) -> str:
    return table_of([*grid[:-1], grid[-1][:-1]])


def add_cell(grid: Grid) -> str:
    return table_of([*grid[:-1], [*grid[-1], ""]])


def garble_cell(grid: Grid) -> str:
    return table_of([*grid[:-1], [*grid[-1][:-1], grid[-1][-1] + FOREIGN]])


def widen_cell(grid: Grid) -> str:
    return table_of(grid)[::-1].replace("<td>"[::-1], '<td colspan="2">'[::-1], 1)[::-1]


def move_text(grid: Grid) -> str:
    """Hand the last cell's text on to a cell that is added."""
    return table_of([*grid[:-1], [*grid[-1][:-1], "", grid[-1][-1]]])


TABLE_DEFECTS = [drop_row, repeat_row, loop_row, drop_cell, add_cell, garble_cell, widen_cell, move_text]


@settings(max_examples=25)
@given(grids, st.integers(0, 3))
@pytest.mark.parametrize("plant", TABLE_DEFECTS)
def test_a_planted_defect_of_a_table_costs(plant: Callable[[Grid], str], grid: Grid, n_wrong: int) -> None:
    """The prediction has the rows and columns of the reference, its first `n_wrong` cells misread."""
    ref = [*grid, ["last", *grid[0][1:]]]
    read = [list(row) for row in ref]
    for number in range(min(n_wrong, len(ref[0]))):
        read[0][number] += MISREAD
    undamaged = reward_of("table", table_of(read), table_of(ref))
    damaged = reward_of("table", plant(read), table_of(ref))
    assert damaged < undamaged
    assert undamaged == 1.0 or n_wrong


@settings(max_examples=40)
@given(grids, grids, st.integers(1, 12))
def test_an_unclosed_table_earns_nothing(grid: Grid, ref: Grid, n_lost: int) -> None:
    cut = table_of(grid)[: -min(n_lost, len("</table>"))]
    assert reward_of("table", cut, table_of(ref)) == 0.0
    assert reward_of("table", table_of(grid) + "<table>", table_of(ref)) == 0.0
    assert reward_of("table", rows_of(grid)[: -min(n_lost, len("</tr>"))], rows_of(ref)) == 0.0


@settings(max_examples=60)
@given(st.text(alphabet="abc 123|-", max_size=60), grids)
def test_what_is_no_table_earns_a_share_of_its_likeness(pred: str, grid: Grid) -> None:
    ref = table_of(grid)
    assume(len(pred.split()) < 16)
    longest = max((len(run) for run in pred.replace("\t", " ").split()), default=0)
    assume(longest <= 16 and "  " not in pred)
    assert reward_of("table", pred, ref) == pytest.approx(0.15 * (1 - ned(pred, ref)))


@settings(max_examples=60)
@given(st.text(alphabet="abcdefgh123", min_size=4, max_size=40), st.integers(0, 3), st.data())
def test_a_planted_defect_of_a_text_costs(ref: str, n_wrong: int, data) -> None:
    pred = ref[: len(ref) - n_wrong] + MISREAD * n_wrong
    undamaged = reward_of("text", pred, ref)
    place = data.draw(st.integers(0, len(pred) - n_wrong - 1))
    for damaged in (
        pred[:place] + FOREIGN + pred[place + 1 :],
        pred + FOREIGN * 3,
        FOREIGN + pred,
        pred + f" {ref[-4:]}x" * 40,
    ):
        assert reward_of("text", damaged, ref) < undamaged


@settings(max_examples=60)
@given(formulas, st.integers(0, 2))
def test_a_planted_defect_of_a_formula_costs(ref: str, n_wrong: int) -> None:
    pred = MISREAD * n_wrong + ref
    undamaged = reward_of("formula", pred, ref)
    for damaged in (pred + "}", "{" + pred, pred + r"\right)", r"\left." + pred, pred + "$", r"\begin{array}" + pred):
        assert reward_of("formula", damaged, ref) <= 0.3 * undamaged + 1e-9
    for damaged in (pred + FOREIGN, FOREIGN + pred, pred + " + x" * 40, pred + "{}" * 100):
        assert reward_of("formula", damaged, ref) < undamaged


@settings(max_examples=60)
@given(grids)
def test_the_normal_form_is_what_counts(grid: Grid) -> None:
    """Head cells, sections, indentation and entities differ, the table does not."""
    ref = table_of(grid)
    same = ref.replace("<td", "<th").replace("</td", "</th").replace("<table>", "<table><thead>", 1)
    same = same.replace("</table>", "</thead></table>").replace("<tr>", "\n <tr>").replace("%", "&#37;")
    assume(has_text(grid))
    assert reward_of("table", same, ref) == 1.0


@settings(max_examples=60)
@given(grids, grids)
def test_structure_alone_scores_as_teds_does(pred: Grid, ref: Grid) -> None:
    one, other = table_of(pred), table_of(ref)
    readings = read_table(one), read_table(other)
    score = score_teds(one, other)
    exact = score_structure(*readings)
    assert exact == pytest.approx(score.teds_struct, abs=1e-9)
    assert exact - 1e-9 <= score_structure(*readings, budget=0) <= 1.0


@settings(max_examples=60)
@given(st.text(max_size=60), st.text(max_size=60), st.integers(1, 500))
def test_a_budget_bounds_an_edit_distance_from_above(pred: str, ref: str, budget: int) -> None:
    exact, bound = edit_distance(pred, ref), edit_distance(pred, ref, budget)
    assert exact <= bound <= max(len(pred), len(ref))
    assert edit_distance(pred, pred, budget) == 0
    assert edit_distance(pred, ref, max(1, len(pred) * len(ref))) == exact
