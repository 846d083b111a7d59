"""Markdown split into blocks: what each kind of block is taken for, and where it stands."""

from __future__ import annotations

import pytest
from tests.omnidoc_pages import OTHER_TABLE, TABLE

from gravityocr.metrics.page_matching.markdown_blocks import MAX_BLOCKS, formula_spans, markdown_blocks
from gravityocr.metrics.page_matching.rules import MENDED, OFFICIAL


def kinds(markdown: str, rules=MENDED) -> list[tuple[str, str]]:
    return [(block.kind, block.content) for block in markdown_blocks(markdown, rules)]


def test_paragraphs_end_at_blank_lines_and_lines_are_trimmed() -> None:
    assert kinds("  one\n  two  \n\n\n\nthree\n") == [("text", "one\ntwo"), ("text", "three")]


def test_without_a_blank_line_the_official_paragraphs_are_the_lines() -> None:
    assert kinds("one\ntwo", OFFICIAL) == [("text", "one"), ("text", "two")]
    assert kinds("one\ntwo\n\nthree", OFFICIAL) == [("text", "one\ntwo"), ("text", "three")]
    assert kinds("one\ntwo") == [("text", "one\ntwo")]


def test_mended_positions_are_those_of_the_markdown() -> None:
    markdown = f"one\n\n{TABLE}\n\n \\section{{two}}\n\n$$x+1=y$$\n\nthree\n  four"
    blocks = markdown_blocks(markdown, MENDED)
    assert [block.kind for block in blocks] == ["text", "table", "text", "formula", "text"]
    starts = [markdown.index(mark) for mark in ("one", "<table", "\\section", "$$", "three")]
    found = [block.start for block in blocks]
    assert found[:2] + found[3:] == starts[:2] + starts[3:]
    assert starts[2] - 1 <= found[2] <= starts[2]
    assert blocks[-1].line_starts == (markdown.index("three"), markdown.index("  four"))


@pytest.mark.parametrize("rules", [MENDED, OFFICIAL])
def test_line_ends_of_other_systems_are_line_ends(rules) -> None:
    markdown = "one\ntwo\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nthree"
    for line_end in ("\r\n", "\r"):
        assert markdown_blocks(markdown.replace("\n", line_end), rules) == markdown_blocks(markdown, rules)


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("$$x+1=y$$", ["$$x+1=y$$"]),
        ("a\n\n$$\nx+1\n=y\n$$\n\nb", ["$$ x+1 =y $$"]),
        ("\\[x+1=y\\]", ["\\[x+1=y\\]"]),
        ("a $x+1=y$ b", ["\\[x+1=y\\]"]),
        ("a \\(x+1=y\\) b", ["\\[x+1=y\\]"]),
        ("a $x$ b", []),  # only a name
        ("a $ b", []),
    ],
)
def test_formulas_are_taken_with_any_delimiters(markdown: str, expected: list[str]) -> None:
    found = [content for kind, content in kinds(markdown) if kind == "formula"]
    assert [one.replace("$$", "\\[", 1).replace("$$", "\\]") for one in found] == [
        one.replace("$$", "\\[", 1).replace("$$", "\\]") for one in expected
    ]


def test_inline_formulas_stay_in_their_text_and_display_formulas_do_not() -> None:
    assert ("text", "a $x+1=y$ b") in kinds("a $x+1=y$ b")
    assert kinds("before\n\n$$x+1=y$$\n\nafter")[::2] == [("text", "before"), ("text", "after")]


def test_labels_tell_inline_formulas_from_display_formulas() -> None:
    blocks = [block for block in markdown_blocks("$a+b=c$ and\n\n$$d+e=f$$", MENDED) if block.kind == "formula"]
    assert [(block.label, block.is_inline) for block in blocks] == [
        ("equation_inline", True),
        ("equation_isolated", False),
    ]


def test_a_long_formula_loses_its_caption() -> None:
    found = kinds("$$x+1=y \\quad \\text{where the tower is high}$$")
    assert [content for kind, content in found if kind == "text"] == ["\\text{where the tower is high}"]
    assert [content for kind, content in found if kind == "formula"] == ["\\[ x+1=y \\]"]


def test_html_tables_are_taken_whole_nested_ones_with_their_parent() -> None:
    nested = "<table><tr><td><table><tr><td>a</td></tr></table></td></tr></table>"
    assert kinds(f"x\n\n{nested}\n\n{TABLE}{OTHER_TABLE}") == [
        ("text", "x"),
        ("table", nested),
        ("table", TABLE),
        ("table", OTHER_TABLE),
    ]


def test_a_table_that_is_never_closed_is_text() -> None:
    assert [kind for kind, _ in kinds("<table><tr><td>a")] == ["text"]


def test_pipe_tables_and_latex_tables_become_html() -> None:
    pipes, latex = "| a | b |\n|---|---|\n| 1 | 2 |", "\\begin{tabular}{ll} a & b \\\\ 1 & 2 \\end{tabular}"
    expected = "<table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td>2</td></tr></table>"
    assert kinds(f"x\n\n{pipes}\n\ny") == [("text", "x"), ("table", expected), ("text", "y")]
    assert kinds(f"x\n\n\\begin{{table}}{latex}\\end{{table}}\n\n{latex}") == [
        ("text", "x"),
        ("table", expected),
        ("table", expected),
    ]


def test_cells_that_hold_a_sum_are_formulas_too() -> None:
    blocks = markdown_blocks("<table><tr><td>12 + 34 = 46</td><td>words</td></tr></table>", MENDED)
    assert [(block.kind, block.label) for block in blocks] == [
        ("table", "html_table"),
        ("formula", "table_formula_rescue"),
    ]
    assert blocks[1].content == "\\[ 12 + 34 = 46 \\]"


def test_code_is_text_without_its_fences() -> None:
    markdown = "x\n\n```python\na = 1\n\nb = 2\n```\n\ny"
    assert [content for kind, content in kinds(markdown) if kind == "text"][0] == "x"
    assert kinds("```markdown\none\n\ntwo\n```") == [("text", "one"), ("text", "two")]


def test_images_are_blanked_unless_their_description_is_a_formula() -> None:
    assert kinds("a\n\n![a cat](cat.png)\n\nb") == [("text", "a"), ("text", "b")]
    assert ("rescue", "\\[ 3 + 4 = 7 - 0 \\]") in kinds("![3 + 4 = 7 - 0](x.png)")


def test_text_that_is_a_formula_may_be_rescued() -> None:
    assert kinds("12 + 34 = 46") == [("text", "12 + 34 = 46"), ("rescue", "\\[ 12 + 34 = 46 \\]")]


def test_descriptions_of_pictures_lose_their_delimiters() -> None:
    found = kinds("The figure shows the curve $y=x^2$ above the axis.")
    assert found == [("text", "The figure shows the curve y=x^2 above the axis.")]


def test_latex_around_text_is_unwrapped() -> None:
    found = kinds("\\title{The tower}\n\n\\section*{Stairs}\n\n\\text {Bells} ring")
    assert found == [("text", "The tower"), ("text", "Stairs"), ("text", "Bells ring")]


def test_divisions_are_read_as_lines() -> None:
    assert kinds("<div>one<br>two</div>") == [("text", "one\ntwo")]


def test_too_many_blocks_are_joined_at_the_end() -> None:
    blocks = markdown_blocks("\n\n".join(f"word {n}" for n in range(2 * MAX_BLOCKS)), MENDED)
    assert len(blocks) == MAX_BLOCKS + 1
    assert blocks[-1].content.endswith(f"word {2 * MAX_BLOCKS - 1}")


def test_formula_spans_are_the_first_that_close() -> None:
    line = "a $$x$$ b \\[y\\] c $z$ \\(w\\) \\[never $q$"
    assert [line[start:end] for start, end in formula_spans(line)] == ["$$x$$", "\\[y\\]", "$z$", "\\(w\\)", "$q$"]
