"""Blocks matched stage by stage: ignored ones, runs, the assignment, embedded blocks, leftovers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.omnidoc_pages import FORMULA, HEIGHT

from gravityocr.metrics.edit import ned
from gravityocr.metrics.page_matching.block_matching import (
    MAX_LINES,
    Match,
    Target,
    block_lines,
    distances,
    match_blocks,
    rows_of,
    split_block,
    split_blocks,
    target_lines,
)
from gravityocr.metrics.page_matching.markdown_blocks import Block
from gravityocr.metrics.page_matching.rules import MENDED, OFFICIAL, Rules

LLAMAS = "Llamas quarrel about submarine cables every quarter."
ROWS = "$$\\begin{aligned} a &= b+c \\\\ d &= e+f \\end{aligned}$$"


def texts(*contents: str) -> list[Block]:
    return [Block("text", content, 10 * i, 10 * i + 5, "text_block") for i, content in enumerate(contents)]


def targets(*contents: str, category: str = "text_block") -> list[Target]:
    return [Target(category, content, i) for i, content in enumerate(contents, 1)]


def matched(of: list[Target], blocks: list[Block], rules: Rules = MENDED) -> list[Match]:
    return match_blocks(target_lines(of, rules), block_lines(blocks, rules), rules)


def pairs(matches: list[Match]) -> dict[tuple[int, ...], tuple[int, ...]]:
    return {match.gt: match.pred for match in matches}


def test_blocks_are_matched_in_any_order() -> None:
    found = matched(targets(*HEIGHT), texts(HEIGHT[2], HEIGHT[0], HEIGHT[1]))
    assert pairs(found) == {(0,): (1,), (1,): (2,), (2,): (0,)}
    assert [match.edit for match in found] == [0.0, 0.0, 0.0]
    assert [match.pred_start for match in found] == [10, 20, 0]
    assert [match.orders for match in found] == [(1,), (2,), (3,)]


@pytest.mark.parametrize("rules", [MENDED, OFFICIAL])
def test_one_side_may_be_empty(rules: Rules) -> None:
    assert matched([], texts("a"), rules) == []
    (alone,) = matched(targets("a"), [], rules)
    assert (alone.gt, alone.pred, alone.pred_text, alone.pred_start, alone.edit) == ((0,), (), "", None, 1.0)


def test_a_lone_pair_is_officially_a_pair_whatever_it_holds() -> None:
    assert pairs(matched(targets(HEIGHT[0]), texts(LLAMAS), OFFICIAL)) == {(0,): (0,)}
    assert pairs(matched(targets(HEIGHT[0]), texts(LLAMAS), MENDED)) == {(0,): ()}


def test_leftovers_are_officially_paired_and_stay_alone_else() -> None:
    blocks = texts(HEIGHT[0], LLAMAS)
    assert pairs(matched(targets(*HEIGHT[:2]), blocks, OFFICIAL)) == {(0,): (0,), (1,): (1,)}
    assert pairs(matched(targets(*HEIGHT[:2]), blocks, MENDED)) == {(0,): (0,), (1,): ()}


def test_ignored_blocks_take_what_is_near_them_first() -> None:
    of = [*targets(HEIGHT[0], category="header"), *targets(HEIGHT[0][:-4])]
    found = matched(of, texts(HEIGHT[0]))
    assert {match.category: match.pred for match in found} == {"header": (0,), "text_block": ()}


def test_an_ignored_block_takes_nothing_that_is_not_near_it() -> None:
    of = [*targets("The bells ring", category="page_footnote"), *targets(HEIGHT[0])]
    found = matched(of, texts(HEIGHT[0], "The bolls were sold again"))
    assert {match.category: match.pred for match in found} == {"page_footnote": (), "text_block": (0,)}


def test_pieces_are_joined() -> None:
    (found,) = matched(targets(HEIGHT[0]), texts(HEIGHT[0][:35], HEIGHT[0][35:70], HEIGHT[0][70:]))
    assert (found.pred, found.norm_pred == found.norm_gt, found.pred_start) == ((0, 1, 2), True, 0)


def test_blocks_that_were_printed_as_one_share_it() -> None:
    (found,) = matched(targets(*HEIGHT), texts(" ".join(HEIGHT)))
    assert (found.gt, found.pred, found.orders) == ((0, 1, 2), (0,), (1, 2, 3))
    assert found.norm_pred == found.norm_gt


def test_a_block_within_something_much_longer_is_not_found_there() -> None:
    found = matched(targets("bells ring"), texts(" ".join([LLAMAS, "bells ring", LLAMAS])))
    assert pairs(found) == {(0,): ()}
    official = matched(targets("bells ring", HEIGHT[0]), texts(" ".join([LLAMAS, "bells ring", LLAMAS])), OFFICIAL)
    assert pairs(official)[0,] == (0,)


def test_a_block_behind_the_last_piece_of_another_shares_both_pieces() -> None:
    short = "Dogs wait outside."
    blocks = texts(HEIGHT[0][:45], f"{HEIGHT[0][45:]} {short}")
    (found,) = matched(targets(HEIGHT[0], short), blocks)
    assert (found.gt, found.pred) == ((0, 1), (0, 1))
    assert found.norm_pred == found.norm_gt


def test_a_stretch_of_a_prediction_counts_for_one_block_only() -> None:
    # The title's words begin the paragraph, but nobody printed the title.
    blocks = texts(HEIGHT[0])
    assert pairs(matched(targets("The tower", HEIGHT[0]), blocks)) == {(1,): (0,), (0,): ()}
    assert pairs(matched(targets("The tower", HEIGHT[0]), blocks, OFFICIAL)) == {(0, 1): (0,)}
    assert pairs(matched(targets(HEIGHT[0], HEIGHT[0]), blocks)) == {(0,): (0,), (1,): ()}
    assert pairs(matched(targets("The tower", HEIGHT[0]), texts(f"The tower {HEIGHT[0]}"))) == {(0, 1): (0,)}


def test_a_pair_that_is_rejected_does_not_move_the_good_ones() -> None:
    gt, pred = ["abcdefghijklm7123456", "abcdefghiABCDEFGHIJK"], ["abcdefghijklmnopqrst", "zzzzzzzzzzzzzzz23456"]
    assert distances(gt, pred).tolist() == [[0.35, 0.75], [0.55, 1.0]]
    assert pairs(matched(targets(*gt), texts(*pred))) == {(0,): (0,), (1,): ()}
    # Officially the second block gets the prediction, and the first one is found within it afterwards.
    assert pairs(matched(targets(*gt), texts(*pred), OFFICIAL)) == {(0, 1): (0,)}


def test_multi_line_formulas_are_matched_row_by_row() -> None:
    lines = target_lines(targets(ROWS, FORMULA, category="equation_isolated"), MENDED)
    assert lines.raw == ["\\[a &= b+c\\]", "\\[d &= e+f\\]", FORMULA]
    assert [target.order for target in lines.items] == [1.001, 1.002, 2]
    formula = Block("formula", ROWS, 100, 100 + len(ROWS), "equation_isolated")
    assert [ROWS[row.start - 100 : row.end - 99] for row in split_block(formula)] == ["a &= b+c", "d &= e+f"]
    found = matched(targets(ROWS, category="equation_isolated"), [formula])
    assert pairs(found) == {(0,): (0,), (1,): (1,)}


def test_too_many_rows_stay_together() -> None:
    formula = Block("formula", ROWS, 0, len(ROWS), "equation_isolated")
    assert len(split_blocks([formula] * (MAX_LINES // 2))) == MAX_LINES
    assert split_blocks([formula] * MAX_LINES) == [formula] * MAX_LINES


def test_what_normalises_to_nothing_is_left_out() -> None:
    blocks = texts("one", "***", "two")
    mended, official = (block_lines(blocks, rules) for rules in (MENDED, OFFICIAL))
    assert mended.norm == official.norm == ["one", "two"]
    assert [block.content for block in mended.items] == ["one", "two"]
    assert len(official.items) == 3  # so that positions are shifted


def test_a_match_has_the_commonest_category_that_is_scored() -> None:
    of = [Target("title", HEIGHT[0], 1), Target("text_block", HEIGHT[1], 2), Target("text_block", HEIGHT[2], 3)]
    (found,) = matched(of, texts(" ".join(HEIGHT)))
    assert found.category == "text_block"


def test_attributes_of_all_blocks_are_kept() -> None:
    of = [Target("text_block", one, i, {"n": i}) for i, one in enumerate(HEIGHT, 1)]
    (found,) = matched(of, texts(" ".join(HEIGHT)))
    assert found.attributes == ({"n": 1}, {"n": 2}, {"n": 3})


def test_distances_are_those_of_all_pairs() -> None:
    left, right = ["", "tower", "塔楼"], ["tower", "", "towers", "塔"]
    assert np.allclose(distances(left, right), [[ned(a, b) for b in right] for a in left])
    assert distances([], right).shape == (0, 4) and distances(left, []).shape == (3, 0)


def test_rows_are_set_below_one_another() -> None:
    assert rows_of(["\\[a\\]", "$$b$$"]) == "\\begin{array}{l} {a} \\\\ {b} \\end{array}"
