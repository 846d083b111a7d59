"""Display formulas matched at several granularities."""

from __future__ import annotations

import pytest

from gravityocr.metrics.page_matching.block_matching import Target
from gravityocr.metrics.page_matching.formula_matching import formula_pool, match_formulas, merged, source_of
from gravityocr.metrics.page_matching.markdown_blocks import Block, markdown_blocks
from gravityocr.metrics.page_matching.rules import MENDED, OFFICIAL

ROWS = ("E = m c^2 + p_0", "F = q v B - k x", "p = \\frac{h}{\\lambda_2}")


def aligned(*rows: str) -> str:
    return "$$\\begin{aligned} " + " \\\\ ".join(rows) + " \\end{aligned}$$"


def targets(*contents: str) -> list[Target]:
    return [Target("equation_isolated", content, i) for i, content in enumerate(contents, 1)]


def matched(of: list[Target], markdown: str, rules=MENDED) -> list[tuple[str, float]]:
    pool = formula_pool(markdown_blocks(markdown, rules))
    rows = sorted(match_formulas(of, pool, [], rules), key=lambda row: row.gt)
    return [(row.pred_text, row.edit) for row in rows]


@pytest.mark.parametrize("rules", [MENDED, OFFICIAL])
@pytest.mark.parametrize("printed", ["\n\n".join(f"$${row}$$" for row in ROWS), aligned(*ROWS)])
@pytest.mark.parametrize("of", [targets(*(f"$${row}$$" for row in ROWS)), targets(aligned(*ROWS))])
def test_rows_and_formulas_match_however_they_are_set(of: list[Target], printed: str, rules) -> None:
    found = matched(of, printed, rules)
    assert [edit for _, edit in found] == [0.0, 0.0, 0.0]


def test_a_whole_matches_the_parts_that_make_it() -> None:
    # A case distinction is one unit of the ground truth; here its rows were printed one by one.
    of = targets("$$\\left\\{ \\begin{array}{l} E=mc^2 \\\\ F=qvB \\end{array} \\right.$$")
    ((text, edit),) = matched(of, "$$E=mc^2$$\n\n$$F=qvB$$")
    assert text == "\\begin{array}{l} {E=mc^2} \\\\ {F=qvB} \\end{array}"
    assert edit < 0.2


def test_formulas_without_a_prediction_stay_alone() -> None:
    of = targets(*(f"$${row}$$" for row in ROWS))
    assert [edit for _, edit in matched(of, f"$${ROWS[1]}$$")] == [1.0, 0.0, 1.0]
    assert matched(of, "") == [("", 1.0)] * 3


def test_without_formulas_nothing_is_matched() -> None:
    assert matched([], f"$${ROWS[0]}$$") == []
    assert matched(targets("$$$$"), f"$${ROWS[0]}$$") == []


def test_inline_formulas_and_rescued_text_are_in_the_pool_in_order() -> None:
    text = "Every mason of the valley knows that $a+b=c$ holds"
    pool = formula_pool(markdown_blocks(f"{text}\n\n12 + 34 = 46\n\n$$d+e=f$$\n\n{aligned(*ROWS)}", MENDED))
    assert [block.content for block in pool][:3] == ["\\[a+b=c\\]", "\\[ 12 + 34 = 46 \\]", "\\[d+e=f\\]"]
    assert all(block.kind == "formula" for block in pool)
    assert [source_of(block) for block in pool] == [(block.start, block.end) for block in pool]


def test_inline_formulas_are_matched_where_no_display_formula_is() -> None:
    assert matched(targets(f"$${ROWS[0]}$$"), f"so ${ROWS[0]}$ holds")[0][1] == 0.0


def test_source_of_a_block_of_its_own() -> None:
    assert source_of(Block("formula", "x", 3, 4, "equation_isolated")) == (3, 4)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], ""),
        (["\\[a\\]"], "a"),
        (["\\[a\\]", "$$$$", "b"], "\\begin{array}{l} {a} \\\\ {b} \\end{array}"),
        (["", " "], ""),
    ],
)
def test_merged(parts: list[str], expected: str) -> None:
    assert merged(parts) == expected
