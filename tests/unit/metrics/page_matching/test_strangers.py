"""What nothing on a page accounts for takes no part in the matching."""

from __future__ import annotations

import pytest
from tests.omnidoc_pages import FORMULA, HEIGHT, item, page, texts_page

from gravityocr.metrics.page_matching.block_matching import target_lines
from gravityocr.metrics.page_matching.markdown_blocks import Block
from gravityocr.metrics.page_matching.page_truth import read_page
from gravityocr.metrics.page_matching.rules import MENDED
from gravityocr.metrics.page_matching.strangers import set_strangers_apart


def is_stranger(content: str, truth: dict, kind: str = "text") -> bool:
    block = Block(kind, content, 0, len(content), "text_block")
    known, strangers = set_strangers_apart([block], target_lines(read_page(truth).mixed, MENDED))
    assert known + strangers == [block]
    return bool(strangers)


@pytest.mark.parametrize(
    "content",
    [
        HEIGHT[0],
        HEIGHT[0][20:40],  # a piece
        HEIGHT[0][20:40].replace("e", "x"),
        " ".join(HEIGHT),  # several at once
        HEIGHT[0][:60] + "and then something else altogether was printed",
        "***",  # matched with nothing anyway
    ],
)
def test_what_the_ground_truth_accounts_for_stays(content: str) -> None:
    assert not is_stranger(content, texts_page(*HEIGHT))


@pytest.mark.parametrize(
    "content",
    [
        "Llamas quarrel about submarine cables every quarter.",
        "12 + 34 = 46",
        "的一是不了人我在有他这为之大来以个",
        "The quick llamas " * 40 + HEIGHT[0],  # too little of it is true
    ],
)
def test_what_nothing_accounts_for_is_set_apart(content: str) -> None:
    assert is_stranger(content, texts_page(*HEIGHT))


def test_what_holds_many_blocks_stays_though_it_is_far_from_each() -> None:
    blocks = [*HEIGHT, *(one[::-1] for one in HEIGHT)]
    assert not is_stranger(" ".join(blocks), texts_page(*blocks))


def test_without_ground_truth_everything_is_a_stranger() -> None:
    assert is_stranger(HEIGHT[0], page())


def test_ignored_blocks_account_only_for_what_is_near_them() -> None:
    header = page(item("header", HEIGHT[0], None))
    assert not is_stranger(HEIGHT[0], header)
    assert is_stranger(HEIGHT[0][:20], header)


def test_a_formula_is_known_by_any_of_its_rows() -> None:
    truth = page(item("equation_isolated", FORMULA, 1))
    other = "a_1 b_2 c_3 d_4 e_5 f_6 \\sum_{k=1}^{n} \\gamma_k \\Omega"
    assert is_stranger(f"$${other}$$", truth, "formula")
    rows = f"$$\\begin{{aligned}} {other} \\\\ {other} \\\\ {FORMULA.strip('$')} \\end{{aligned}}$$"
    assert not is_stranger(rows, truth, "formula")


def test_order_is_kept_on_both_sides() -> None:
    contents = ["llamas and cables", HEIGHT[1], "tax forms for geese", HEIGHT[0]]
    blocks = [Block("text", one, i, i, "text_block") for i, one in enumerate(contents)]
    known, strangers = set_strangers_apart(blocks, target_lines(read_page(texts_page(*HEIGHT)).mixed, MENDED))
    assert [block.start for block in known] == [1, 3]
    assert [block.start for block in strangers] == [0, 2]
