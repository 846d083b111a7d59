"""Badly matched texts that take over neighbouring predictions nobody else has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.omnidoc_pages import HEIGHT

from gravityocr.metrics.normalization import normalize_text
from gravityocr.metrics.page_matching.block_matching import Match
from gravityocr.metrics.page_matching.markdown_blocks import Block
from gravityocr.metrics.page_matching.text_rescue import as_text, compare_as_text, is_scored_text, rescue_texts

LONG = f"{HEIGHT[0]} {HEIGHT[1]}"
HALF = len(LONG) // 2


def match(gt_text: str, pred: tuple[int, ...] = (), edit: float = 1.0, category: str = "text_block") -> Match:
    return Match(
        gt=(0,), pred=pred, gt_text=gt_text, pred_text="", norm_gt=normalize_text(gt_text), norm_pred="",
        category=category, pred_label="text_block" if pred else "", orders=(1,), pred_start=None, edit=edit,
    )  # fmt: skip


def pool(*contents: str) -> list[Block]:
    return [Block("text", content, 100 * i, 100 * i + 9, "text_block") for i, content in enumerate(contents)]


def test_a_text_takes_the_pieces_beside_its_own() -> None:
    blocks = pool("llamas", LONG[:HALF], LONG[HALF:], "cables")
    (found,) = rescue_texts([match(LONG, (1,), 0.5)], blocks)
    assert (found.pred, found.edit, found.pred_start) == ((1, 2), 0.0, 100)
    assert found.norm_pred == found.norm_gt


def test_what_another_match_has_is_not_taken() -> None:
    blocks = pool(LONG[:HALF], LONG[HALF:])
    before = [match(LONG, (0,), 0.5), match(HEIGHT[2], (1,), 0.2)]
    assert rescue_texts(before, blocks) == before


def test_two_texts_do_not_take_the_same() -> None:
    found = rescue_texts([match(LONG), replace(match(LONG), gt=(1,))], pool(LONG))
    assert sorted(one.pred for one in found) == [(), (0,)]


@pytest.mark.parametrize(
    "before",
    [
        match(LONG, edit=0.45),  # not bad
        match("Short text"),  # too short to be sure
        match(LONG, category="figure_caption"),
    ],
)
def test_what_needs_no_rescue_stays(before: Match) -> None:
    assert rescue_texts([before], pool(before.gt_text)) == [before]


def test_short_titles_are_rescued() -> None:
    (found,) = rescue_texts([match("Short text", category="title")], pool("x", "Short text"))
    assert found.pred == (1,)


def test_what_is_hardly_nearer_is_not_taken() -> None:
    text, near = "abcdefghij $x^2$", "abcdefgzzzzz"
    assert rescue_texts([match(text, edit=0.5)], pool(near)) == [match(text, edit=0.5)]
    (found,) = rescue_texts([match(text, edit=0.7)], pool(near))
    assert found.edit == 5 / 12


def test_formulas_are_taken_only_by_texts_that_hold_one() -> None:
    formula = Block("formula", "\\[x^2+1\\]", 5, 9, "equation_isolated")
    with_formula = match("where $x^2+1$")
    (found,) = rescue_texts([with_formula], [*pool("where"), formula])
    assert found.pred == (0, 1)
    plain = match(LONG)
    assert rescue_texts([plain], [replace(formula, content=LONG)]) == [plain]


def test_a_text_and_a_formula_are_compared_as_texts() -> None:
    mixed = replace(match("so x + 1"), pred=(0,), pred_text="\\[so x + 1\\]", pred_label="equation_isolated", edit=0.9)
    found = compare_as_text(mixed)
    assert (found.norm_pred, found.norm_gt, found.edit) == ("sox1", "sox1", 0.0)
    same = replace(mixed, pred_label="text_block")
    assert compare_as_text(same) is same
    alone = match("where x")
    assert compare_as_text(alone) is alone


def test_as_text_drops_the_delimiters_of_formulas() -> None:
    assert as_text("\\[x\\]", True) == "x"
    assert as_text("so $\\alpha_1$", False) == "so α_1"


def test_ignored_blocks_and_formulas_are_no_scored_texts() -> None:
    scored = {name for name in ("text_block", "title", "header", "equation_isolated", "code_txt", "equation_caption")
              if is_scored_text(match("a", category=name))}  # fmt: skip
    assert scored == {"text_block", "title", "code_txt"}
