"""Text that is Markdown already: kept, its markers set right, and nothing in it that a renderer would hide."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from gravityocr.pipeline.passages.markdown_text import (
    clean,
    heading,
    is_fenced,
    mend_inline,
    text_markdown,
    title_words,
)
from gravityocr.pipeline.passages.mends import MENDS

ALL_MENDS = frozenset(MENDS)
SDK: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("content", "ours", "sdk"),
    [
        ("3.14 is", "3.14 is", "3. 14 is"),
        ("7.4.1 采用", "7.4.1 采用", "7. 4.1 采用"),
        ("A.B. Smith", "A.B. Smith", "A. B. Smith"),
        ("1.5 kg", "1.5 kg", "1. 5 kg"),
        ("e.g. this", "e.g. this", "e. g. this"),
        ("1)item", "1) item", "1) item"),
        ("12）条目", "12) 条目", "12) 条目"),
        ("1.Item", "1. Item", "1. Item"),
        ("a)item", "a) item", "a) item"),
        ("（2）条目", "(2) 条目", "(2) 条目"),
        ("(3)text", "(3) text", "(3) text"),
        ("(s)he is", "(s)he is", "(s) he is"),
        ("·item", "- item", "- item"),
        ("• item", "- item", "- item"),
        ("* item", "- item", "- item"),
        ("·· · ·", "·· · ·", "- · · ·"),
        ("**bold** text", "**bold** text", "**bold** text"),
        ("1984 was", "1984 was", "1984 was"),
    ],
)
def test_markers_of_items(content: str, ours: str, sdk: str) -> None:
    assert text_markdown(content, ALL_MENDS) == ours
    assert text_markdown(content, SDK) == sdk


def test_every_line_of_a_list_has_its_bullet_and_keeps_its_indent() -> None:
    content = "• one\n  • two\n●three\n2)four"
    assert text_markdown(content, ALL_MENDS) == "- one\n\n  - two\n\n- three\n\n2) four"
    assert text_markdown(content, ALL_MENDS - {"bullets"}).startswith("- one\n\n  • two")


@pytest.mark.parametrize(
    ("content", "ours", "sdk"),
    [
        (r"\times 2", r"\times 2", "imes 2"),
        (r"\theta", r"\theta", "heta"),
        (r"\nu and \beta", r"\nu and \beta", r"\nu and \beta"),
        (r"\t\t text \t", "text", "text"),
        ("Contents ........ 3", "Contents ........ 3", "Contents ... 3"),
        ("Name ______ ···· ", "Name ______ ····", "Name ___ ···"),
        (r"Name \_\_\_\_", r"Name \_\_\_\_", r"Name \_\_\_"),
    ],
)
def test_ends_and_leaders(content: str, ours: str, sdk: str) -> None:
    assert clean(content, ALL_MENDS) == ours
    assert clean(content, SDK) == sdk


def test_the_tail_after_a_loop_stays() -> None:
    content = "Head. " + "this sentence repeats. " * 100 + "Tail."
    assert clean(content, ALL_MENDS).endswith("Tail.") and not clean(content, SDK).endswith("Tail.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("costs $5 and $6 beside $ x^2 $", r"costs \$5 and \$6 beside $x^2$"),
        (r"already \$5 and $ y $", r"already \$5 and $y$"),
        ("US$5 and A$6", r"US\$5 and A\$6"),
        (r"$ \begin{matrix} a \\ b \end{matrix} $", r"$\begin{matrix} a \\ b \end{matrix}$"),
        (r"the price $ \$5 $ here", r"the price $\$5$ here"),
        ("where $ Q $ and $ sin $ hold", "where $Q$ and $sin$ hold"),
        ("$ x= $ $ (x) $", "$x=$ $(x)$"),
        ("in $$ a + b $$ and `$5 $ 6`", "in $$ a + b $$ and `$5 $ 6`"),
        ("over two $ a\nb $ lines", "over two \\$ a\nb \\$ lines"),
        ("a lone $", "a lone \\$"),
        ("<think>so</think>", "\\<think>so\\</think>"),
        ("H<sub>2</sub>O <br/> <comp_id>", "H<sub>2</sub>O <br/> <comp_id>"),
        ("if a < b <!-- hidden -->", "if a < b \\<!-- hidden -->"),
        ("use `<tag>` and **bold**", "use `<tag>` and **bold**"),
        ("<script src=\"x\">", "&lt;script src=\"x\">"),
        ("```\n$5 $ 6 <tag>\n```", "```\n$5 $ 6 <tag>\n```"),
    ],
)  # fmt: skip
def test_dollars_and_tags(text: str, expected: str) -> None:
    assert mend_inline(text, ALL_MENDS) == expected
    assert mend_inline(text, SDK) == text
    assert mend_inline(expected, ALL_MENDS) == expected  # a second time changes nothing


def test_a_renderer_shows_escaped_tags_as_they_were() -> None:
    html = MarkdownIt("commonmark").render(mend_inline("the <answer> part <!-- of --> it", ALL_MENDS))
    assert "the &lt;answer&gt; part &lt;!-- of --&gt; it" in html


def test_code_keeps_its_lines() -> None:
    raw = "```python\nfor x in y:\n    print(x)\n```"
    assert text_markdown(raw, ALL_MENDS) == raw
    doubled = text_markdown(raw, SDK)
    assert doubled == "```python\n\nfor x in y:\n\n    print(x)\n\n```"
    assert text_markdown(doubled, ALL_MENDS) == raw  # the SDK's own trace
    with_gap = "```\na\n\nb\nc\n```"
    assert text_markdown(with_gap, ALL_MENDS) == with_gap
    assert text_markdown("```\nnever closed", ALL_MENDS) == "```\nnever closed\n```"
    assert text_markdown("Text\nmore\n```\na\nb\n```\nafter", ALL_MENDS) == "Text\n\nmore\n\n```\na\nb\n```\n\nafter"


def test_headings_and_fences_are_known() -> None:
    assert heading("## 7.4 Joints") == (2, "7.4 Joints")
    assert heading('<div align="center">\n\n# Title\n\n</div>') == (1, "Title")
    assert heading("#hashtag") is None and heading("## A\n\ntext") is None
    assert is_fenced("```\na\n```") and is_fenced("```\nnever closed")
    assert not is_fenced("```\na\n```\ntext") and not is_fenced("text")


def test_titles_lose_the_marks_before_them() -> None:
    assert title_words("## - The\nTitle", ALL_MENDS) == "- The Title"
    assert title_words("- 2 Methods", ALL_MENDS) == "2 Methods"
    assert title_words("#The\nTitle", SDK) == "The\nTitle"


def test_code_that_is_left_open_is_closed_and_a_line_that_opens_none_is_not() -> None:
    assert text_markdown("so:\n~~~~\nx = 1", ALL_MENDS).endswith("\n~~~~")
    assert text_markdown("```a\nx\n```", ALL_MENDS).count("```") == 2
    assert text_markdown("```x``` is short", ALL_MENDS) == "```x``` is short"
