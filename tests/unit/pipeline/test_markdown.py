"""Markdown of plain text: lists, tables and formulas, and nothing else that Markdown would act on."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from gravityocr.pipeline.markdown import comment, escape, fenced, formula_block, table_block, text_block


def test_table_html_is_kept_and_other_answers_are_text() -> None:
    html = '<table>\n\n<tr><td rowspan="2">a_b</td><td>|</td></tr>\n</table>'
    assert table_block(html) == '<table>\n<tr><td rowspan="2">a_b</td><td>|</td></tr>\n</table>'
    assert table_block("just <b>words</b>") == "just \\<b>words\\</b>"


def test_a_heading_has_no_needless_backslash_and_a_line_has_its_own() -> None:
    assert escape("1. Title", at_line_start=False) == "1. Title"
    assert escape("1. Title") == "1\\. Title"
    assert escape("# x", at_line_start=False) == "# x"


def test_display_formulas_in_plain_text_stay_and_amounts_do_not() -> None:
    assert escape("$$x$$ and $5") == "$$x$$ and \\$5"
    assert escape("at $$ and $$ here") == "at \\$\\$ and \\$\\$ here"
    assert escape("$a<b$ and $x^2$") == "$a< b$ and $x^2$"


@pytest.mark.parametrize("content", ["x^2", "$$x^2$$", "$$\nx^2\n$$", r"\[ x^2 \]", "$x^2$", "  x^2 \n\n", r"\(x^2\)"])
def test_formulas_are_display_blocks_whatever_their_delimiters(content: str) -> None:
    assert formula_block(content) == "$$\nx^2\n$$"


def test_formula_keeps_its_commands() -> None:
    assert formula_block("\\times \\theta\n") == "$$\n\\times \\theta\n$$"
    assert formula_block("$$$$") == ""


def test_formulas_that_came_together_are_apart_and_have_no_blank_lines() -> None:
    assert formula_block("$$\na\n\nb\n$$\n$$\nc\n$$") == "$$\na\nb\n$$\n\n$$\nc\n$$"


def test_the_fence_is_longer_than_any_in_the_code() -> None:
    assert fenced("\nx = 1\n\n  y\n") == "```\nx = 1\n\n  y\n```"
    assert fenced("````\na\n````").startswith("`````\n````")


def test_lists_are_kept() -> None:
    content = "Shopping:\n• apples\n- pears\n1. first\n2) second\n1)item\nDone."
    assert text_block(content) == ("Shopping:\n\n- apples\n- pears\n1. first\n2) second\n1) item\n\nDone.")


@pytest.mark.parametrize("line", ["3.14 is pi", "A.B. Smith", "-5 degrees", "1984 was a year", "a - b"])
def test_what_only_looks_like_a_list_stays(line: str) -> None:
    assert text_block(line) == line


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("# of pages", "\\# of pages"),
        ("#hashtag", "#hashtag"),
        ("> quoted", "\\> quoted"),
        ("a*b*c and 2 * 3", "a\\*b\\*c and 2 * 3"),
        ("snake_case_name", "snake_case_name"),
        ("_emphasis_", "\\_emphasis\\_"),
        ("__init__", "\\_\\_init\\_\\_"),
        ("use `code`", "use \\`code\\`"),
        ("<b>x</b> but 3 < 4", "\\<b>x\\</b> but 3 < 4"),
        ("&amp; & R&D", "\\&amp; & R&D"),
        ("see [1] and [a](b)", "see [1] and \\[a](b)"),
        ("---", "\\---"),
        ("===", "\\==="),
        ("C:\\*", "C:\\\\\\*"),
        ("~~no~~", "\\~~no\\~~"),
        ("plain text, nothing to do (2024).", "plain text, nothing to do (2024)."),
    ],
)
def test_markdown_characters_are_escaped(plain: str, expected: str) -> None:
    assert escape(plain) == expected


@pytest.mark.parametrize(
    "line",
    [
        "# of pages", "> quoted", "a*b*c", "_emphasis_ and __more__", "`code`", "<b>bold</b>", "&amp;",
        "[a](b)", "---", "===", "~~no~~", "snake_case_name * 2", "C:\\*dir\\_x", "1986. A great year", "+ plus",
        "***", "___", "a_b_ c", "*", "[note]: http://x",
    ],
)  # fmt: skip
def test_a_renderer_shows_the_line_as_it_was(line: str) -> None:
    tokens = MarkdownIt("commonmark").enable("strikethrough").parse(escape(line))
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    children = tokens[1].children or []
    assert {token.type for token in children} <= {"text", "text_special"}
    assert "".join(token.content for token in children) == line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("costs $5 and $6", "costs \\$5 and \\$6"),
        ("costs $5, $6 or $7.50", "costs \\$5, \\$6 or \\$7.50"),
        ("$5/$6", "\\$5/\\$6"),
        ("US$ 5 and US$ 6", "US\\$ 5 and US\\$ 6"),
        ("$5 and $6 beside $ x^2 $", "\\$5 and \\$6 beside $x^2$"),
        ("where $ x $ and $y_1$ hold", "where $x$ and $y_1$ hold"),
        ("$ a * b_c * d $ stays", "$a * b_c * d$ stays"),
        ("$ \\text{some words} = 5 $", "$\\text{some words} = 5$"),
        ("a lone $ sign", "a lone \\$ sign"),
        ("$$", "\\$\\$"),
    ],
)
def test_money_is_escaped_and_formulas_are_tight(line: str, expected: str) -> None:
    assert escape(line) == expected


@pytest.mark.parametrize("text", ["--help.png", "a --> b", "--->", "a\n--\n>", "-----"])
def test_comments_cannot_be_ended_from_inside(text: str) -> None:
    assert not [end for end in ("--", ">", "\n") if end in comment(text)]
