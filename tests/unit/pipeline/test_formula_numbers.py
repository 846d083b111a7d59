"""Numbers beside formulas: to the nearest formula on their line, and never lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gravityocr.document import Box, Region
from gravityocr.pipeline.passages.formula_numbers import clean_number, pair_by_order, pair_numbers, tagged

FORMULA = Region(0, "formula", "formula", "formula", Box(300, 100, 700, 160), "a = b")
NUMBER = Region(1, "formula_number", "formula_number", "text", Box(900, 120, 940, 140), "(3.1)")


def at(region: Region, x0: float, y0: float, x1: float, y1: float, content: str | None = None) -> Region:
    return replace(region, box=Box(x0, y0, x1, y1), content=region.content if content is None else content)


@pytest.mark.parametrize(
    ("content", "pairs"),
    [("(1)", {1: 0}), ("(2.3)", {1: 0}), ("(A.1)", {1: 0}), ("（3）", {1: 0}), ("(see 3)", {}), ("1", {}), ("(i)", {})],
)
def test_a_text_that_is_only_a_number_beside_a_formula_is_its_number(content: str, pairs: dict[int, int]) -> None:
    number = replace(NUMBER, label="text", native_label="text", content=content)
    assert pair_numbers([FORMULA, number]) == pairs


def test_a_lone_number_elsewhere_stays_text() -> None:
    number = replace(NUMBER, label="text", native_label="text")
    between = replace(number, index=2, content="where", box=Box(720, 110, 880, 150))
    assert pair_numbers([FORMULA, number, between]) == {}
    assert pair_numbers([FORMULA, at(number, 900, 300, 940, 320)]) == {}
    assert pair_numbers([FORMULA, at(number, 900, 20, 990, 220)]) == {}
    assert pair_by_order([FORMULA, number]) == {}


@pytest.mark.parametrize(
    ("content", "number"),
    [
        ("(3.1)", "3.1"), ("（3）", "3"), (" 12 ", "12"), ("[4a]", "4a"), ("$(5)$", "5"), (r"\tag{6}", "6"),
        ("(A.1')", "A.1'"),
        ("", None), ("()", None), ("x_1", None), (r"\alpha", None), ("50%", None), ("{1}", None),
    ],
)  # fmt: skip
def test_parentheses_go_and_what_a_tag_cannot_hold_is_refused(content: str, number: str | None) -> None:
    assert clean_number(content) == number


def test_left_right_and_nearest() -> None:
    left = at(NUMBER, 50, 120, 90, 140)
    assert pair_numbers([FORMULA, NUMBER]) == {1: 0}
    assert pair_numbers([left, FORMULA]) == {0: 1}
    other = at(FORMULA, 950, 100, 1200, 160)
    far = at(NUMBER, 1300, 120, 1340, 140)
    assert pair_numbers([FORMULA, NUMBER, other, far]) == {1: 2, 3: 2}
    assert pair_numbers([FORMULA, at(other, 1700, 100, 1900, 160), NUMBER]) == {2: 0}


def test_another_line_is_no_pair() -> None:
    below = at(NUMBER, 900, 180, 940, 200)
    assert pair_numbers([FORMULA, below]) == {}
    assert pair_numbers([FORMULA, at(NUMBER, 400, 120, 440, 140)]) == {}  # inside it: no number beside it
    assert pair_by_order([FORMULA, below]) == {1: 0}  # the SDK looks at the order only


@pytest.mark.parametrize("change", [{"status": "failed"}, {"content": "x_1"}])
def test_unread_numbers_stay(change: dict[str, str]) -> None:
    assert pair_numbers([FORMULA, replace(NUMBER, **change)]) == {}


@pytest.mark.parametrize("change", [{"status": "skipped"}, {"status": "failed"}, {"content": " "}])
def test_unread_formulas_take_none(change: dict[str, str]) -> None:
    assert pair_numbers([replace(FORMULA, **change), NUMBER]) == {}


def test_tags() -> None:
    assert tagged("$$\na\n$$", ["3.1"]) == "$$\na \\tag{3.1}\n$$"
    assert tagged("$$\na \\\\\nb\n$$", ["1a", "1b"]) == "$$\na \\\\\nb \\tag{1a, 1b}\n$$"
    assert tagged("$$\na \\tag{3.1}\n$$", ["3.1"]) == "$$\na \\tag{3.1}\n$$"
    assert tagged("$$\na \\tag{3.1}\n$$", ["4"]) is None
    assert tagged("$$\na\n$$", []) == "$$\na\n$$"
