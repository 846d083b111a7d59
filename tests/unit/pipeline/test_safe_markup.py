"""Hostile text from a recognizer: nothing of it runs in what a Markdown renderer makes of it, and it takes no time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from lxml import html
from markdown_it import MarkdownIt

from gravityocr.document import Box, Label, Page, Region
from gravityocr.pipeline.assembly import AssemblyConfig, page_markdown
from gravityocr.pipeline.export.markup import markdown_html
from gravityocr.pipeline.export.tables import table_grid
from gravityocr.pipeline.layout import TASKS
from gravityocr.pipeline.markdown import text_block
from gravityocr.pipeline.passages.markdown_text import clean, heading, mend_inline, text_markdown, without_div
from gravityocr.pipeline.passages.mends import MENDS
from gravityocr.pipeline.passages.merge_tables import read_shape
from gravityocr.pipeline.passages.safe_markup import safe_latex, safe_table

ALL = frozenset(MENDS)
TABLES = (
    "<table></table><script>alert(1)</script>", "<tablex><tr onclick=a>", "<table/onclick=x><tr><td>a",
    '<table><tr><td onclick="x" rowspan="2">a<iframe src=x></iframe></td></tr></table>',
    '<table><tr><td style="background:url(x)" title="a>b" onclick=y>z', "<table><tr><td>a<svg/onload=x>",
    '<table><tr><td><a href=" java&#115;cript:x">a</a><img src=x onerror=y></td></tr></table>',
)  # fmt: skip
FORMULAS = ("x</annotation></math><script>alert(1)</script>", "a$$\n<script>x</script>", "$$\n<img src=x onerror=y>")
TEXTS = (
    "<img src=x onerror=alert(1)>", '<b onclick="x">y</b>', '<a href="javascript:alert(1)">z</a>', "<B ONCLICK=x>t",
    '<a href=" java&#115;cript:x">', "$<script>a</script>$", "[x](javascript:alert(1))", "[a]: javascript:x\n\n[a]",
    "<javascript:alert(1)>", "<div onclick=\n x", "`a\n\n<script>x</script>\n\n`", "<div>`<script>x</script>`</div>",
    "```x```<script>y</script>", "<div>\\<script>a</script></div>", "![x](data:text/html,a)", "<svg/onload=x>",
    "<div><foo onclick=x>a</foo></div>", "$$\n<script>\n$$ a", "<pre>\n`<script>x</script>`", "[x](<javascript:a>)",
    "```\ncode\n  ```\n<script>x</script>", '<b title=">" onclick=x>', "[x](java&Tab;script:a)", "<iframe src=x>",
)  # fmt: skip
CASES = [(task, text) for task, group in (("table", TABLES), ("formula", FORMULAS), ("text", TEXTS)) for text in group]


@pytest.mark.parametrize("text_format", ["plain", "markdown"])
@pytest.mark.parametrize(("label", "content"), CASES)
def test_nothing_runs_in_any_renderer(label: Label, content: str, text_format: str) -> None:
    region = Region(0, label, label, TASKS[label], Box(0, 0, 100, 20), content)
    markdown = page_markdown(Page(0, (100, 100), (region,)), AssemblyConfig(text_format))  # type: ignore[arg-type]
    renderer = MarkdownIt("commonmark", {"html": True})
    renderer.validateLink = lambda url: True  # type: ignore[method-assign]
    root = html.fragment_fromstring(renderer.render(markdown), create_parent="div")
    for element in root.iter():
        assert element.tag not in ("script", "iframe", "svg", "math", "style", "object"), markdown
        for name, value in element.items():
            assert not name.startswith("on") and name != "foo", markdown
            assert not value.strip().lower().startswith(("javascript:", "data:text", "vbscript:")), markdown


def test_harmless_markup_is_byte_for_byte_what_it_was() -> None:
    table = (
        '<table border="1" ><thead><tr><th colspan=2>a</th></tr></thead><tbody><tr>'
        '<td style="text-align:center" class="c">H<sub>2</sub>O <br/> a < b</td><td rowspan="2"/></tr></tbody></table>'
    )
    assert safe_table(table) == table
    text = 'H<sub>2</sub>O <a href="https://a.b/c">x</a> [y](https://a.b) <https://x.y> a < b <img src="images/a.png"/>'
    assert mend_inline(text, ALL) == text
    assert safe_latex(r"a < b \text{$x$} <\alpha") == r"a < b \text{$x$} <\alpha"


def test_the_mend_can_be_switched_off() -> None:
    hostile = "<b onclick=x>y</b>"
    assert mend_inline(hostile, ALL - {"unsafe-markup"}) == hostile
    region = Region(0, "table", "table", "table", Box(0, 0, 100, 20), "<table></table><script>a</script>")
    config = AssemblyConfig("markdown", mends=())
    assert page_markdown(Page(0, (100, 100), (region,)), config) == region.content + "\n"


def _growing_runs(n: int) -> str:
    return "".join("`" * k + " x " for k in range(1, int((2 * n) ** 0.5)))


LINES = ("a\n", "b\n", "- c\n", "1. d\n", "(a)x\n", "a\u2028\x85\r$\x01 b\n")
HOSTILE: dict[str, tuple[Callable[[str], object], Callable[[int], str]]] = {
    "mixed lines": (markdown_html, lambda n: "".join(LINES[k * k % 6] for k in range(n // 4))),
    "open displays": (markdown_html, lambda n: "$$a\n\n" * (n // 5)),
    "formulas": (markdown_html, lambda n: "$a$ " * (n // 4)),
    "runs of backticks": (lambda text: mend_inline(text, ALL), _growing_runs),
    "backticks parted": (lambda text: mend_inline(text, ALL), lambda n: "`a\n\n" * (n // 4)),
    "code on one line": (lambda text: mend_inline(text, ALL), lambda n: "`a` " * (n // 4)),
    "half tags": (lambda text: mend_inline(text, ALL), lambda n: "<a b " * (n // 5)),
    "displays": (lambda text: mend_inline(text, ALL), lambda n: "$$ a" * (n // 4)),
    "brackets": (text_block, lambda n: "[" * n),
    "dollars": (text_block, lambda n: "$a " * (n // 3)),
    "blanks": (heading, lambda n: "# a" + " " * n + "b"),
    "blanks in a div": (without_div, lambda n: "<div>" + " " * n + "x" + " " * n + "</div"),
    "tabs": (lambda text: clean(text, ALL), lambda n: r"\t" * (n // 2) + "x"),
    "rows": (read_shape, lambda n: "<table>" + "<tr>" * (n // 4) + "</x></table>"),
    "cells": (read_shape, lambda n: "<table><tr>" + "<td>" * (n // 4) + "</x></tr></table>"),
    "wide spans": (table_grid, lambda n: "<table>" + "<tr><td rowspan=1000 colspan=1000>a</td></tr>" * (n // 45)),
    "broken tables": (safe_table, lambda n: "<table>" + "<td a='" * (n // 7)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_with_the_text(name: str) -> None:
    """At 60,000 characters, what grew with the square took 5 s and more; linear work takes a twentieth of the bound."""
    act, make = HOSTILE[name]
    text = make(60_000)
    started = time.perf_counter()
    act(text_markdown(text, ALL) if name == "mixed lines" else text)
    assert time.perf_counter() - started < 4
