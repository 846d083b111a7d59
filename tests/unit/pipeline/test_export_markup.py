"""What was read as HTML that is safe: everything is there, nothing runs or loads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html

from gravityocr.pipeline.export.markup import markdown_html, table_html
from gravityocr.pipeline.export.tables import table_grid

SAFE_ATTRIBUTES = {
    "rowspan", "colspan", "start", "class", "title", "display", "mathvariant", "stretchy", "fence", "accent", "form",
    "columnalign", "columnspacing", "rowspacing", "displaystyle", "width", "linethickness", "separator", "lspace",
    "rspace", "minsize", "maxsize", "movablelimits", "notation", "height", "depth", "voffset", "largeop",
    "columnlines", "rowlines", "symmetric", "scriptlevel", "accentunder",
}  # fmt: skip


def tree(markup: str) -> html.HtmlElement:
    return html.fragment_fromstring(markup, create_parent="div")


def shown(markup: str) -> str:
    return " ".join(tree(markup).text_content().split())


def assert_safe(markup: str) -> None:
    for element in tree(markup).iter():
        assert element.tag not in {"script", "style", "img", "iframe", "object", "embed", "a", "link", "form", "svg"}
        assert set(element.attrib) <= SAFE_ATTRIBUTES


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("# T *e* **b** `c`", "<h1>T <em>e</em> <strong>b</strong> <code>c</code></h1>"),
        ("- a\n- b", "<ul> <li>a</li> <li>b</li> </ul>"),
        ("3. c\n4. d", '<ol start="3"> <li>c</li> <li>d</li> </ol>'),
        (r"a \<b> \*c\* \&lt; &lt;", "<p>a &lt;b&gt; *c* &amp;lt; &lt;</p>"),
        ("a<sub>2</sub>\nb", "<p>a<sub>2</sub><br> b</p>"),
        ("[x](http://a.b) ![y](http://c/d.png)", "<p>[x](http://a.b) ![y](http://c/d.png)</p>"),
        ('<div align="center">\n\n**T**\n\n</div>', "<div> <p><strong>T</strong></p> </div>"),
        ("```\nx = '$a$' # <b>\n```", "<pre><code>x = &#x27;$a$&#x27; # &lt;b&gt; </code></pre>"),
    ],
)
def test_markdown_becomes_html(markdown: str, expected: str) -> None:
    assert " ".join(markdown_html(markdown).split()) == expected


@pytest.mark.parametrize(
    ("markdown", "n_formulas"),
    [
        ("a $x^2$ b", 1), (r"\$5 and \$6", 0), ("$5 and $6", 0), ("$a$$b$", 2), (r"$\$5$", 1), ("$ x $", 0),
        ("$a*b*c$", 1), ("$$\na\n- b\n=\nc\n$$", 1), ("text\n$$\nx\n$$\nmore", 1), ("`$x$`", 0), ("$$x$$", 1), ("$", 0),
    ],
)  # fmt: skip
def test_formulas_are_told_from_money(markdown: str, n_formulas: int) -> None:
    made = tree(markdown_html(markdown))
    assert len(made.xpath(".//math | .//code[@class='latex']")) == n_formulas
    assert not made.xpath(".//em | .//ul | .//h1 | .//h2")


def test_an_element_that_is_not_shown_leaves_its_text_or_its_name() -> None:
    markdown = (
        '<script>alert(1)</script> <b onclick="x">hi</b> <img src="http://x/y.png" alt="curve"> <iframe></iframe>'
    )
    made = markdown_html(markdown)
    assert_safe(made)
    assert shown(made) == "alert(1) hi curve <iframe>"


@given(st.lists(st.sampled_from(
    ["<script>", "</script>", "<b onclick=a>", "</b>", "<img src=x onerror=a>", "<table>", "<td colspan=2>",
     "<svg onload=a>", "$", "$$", "\\", "`", "<!--", "-->", "<a href='javascript:x'>", "word", "&lt;", "\n", "\n\n",
     "- ", "# ", "*", "\x00", "<style>*{}", "<x-tex>", "</x-display>", "<math><mtext>", "]]>", "<![CDATA["]
), max_size=12))  # fmt: skip
def test_no_mixture_gets_anything_through(pieces: list[str]) -> None:
    text = "".join(pieces)
    for made in (markdown_html(text), table_html(text), table_html(f"<table><tr><td>{text}</td></tr></table>")):
        assert_safe(made)
        assert made.count("word") == text.count("word")


def test_a_comment_is_to_be_seen() -> None:
    assert shown(markdown_html("a\n\n<!-- region 3 failed: lost -->\n\nb")) == "a region 3 failed: lost b"


def test_tables_keep_their_grid_and_formulas_and_lose_their_attributes() -> None:
    made = table_html(
        '<table border="1" style="x"><tr><td rowspan="2" onclick="a">A &lt;b&gt; $x_1$ | a_b</td><td colspan="99999">'
        "5 $ and 6 $</td></tr><tr><th>z<br>y</th></tr></table>"
    )
    assert_safe(made)
    assert made.count("<td") == 2 and made.count("<th>") == 1 and 'rowspan="2"' in made and "99999" not in made
    assert "A &lt;b&gt; <math" in made and "| a_b" in made and "5 $ and 6 $" in made


@pytest.mark.parametrize(
    "broken", ["plain", "<table>loose<tr><td>a</td></tr></table>", "", "<table></table><table></table>"]
)
def test_a_broken_table_is_shown_as_its_source(broken: str) -> None:
    (source,) = tree(table_html(broken))
    assert (source.tag, source.text or "") == ("pre", broken)


def test_a_grid_is_laid_out_as_a_browser_does() -> None:
    grid = table_grid(
        '<table><thead><tr><th rowspan=2>A</th><th colspan="2">B</th></tr><tr><th>c</th><th>d</th></tr></thead>'
        '<tbody><tr><td>1<br>x</td><td rowspan="9">2</td><td></td></tr><tr><td>9</td><td>8</td></tr></tbody></table>'
    )
    assert grid is not None
    assert (grid.n_rows, grid.n_columns, grid.n_head_rows) == (4, 3, 2)
    places = {cell.text: (cell.row, cell.column, cell.n_rows, cell.n_columns) for cell in grid.cells}
    assert places == {
        "A": (0, 0, 2, 1), "B": (0, 1, 1, 2), "c": (1, 1, 1, 1), "d": (1, 2, 1, 1),
        "1 x": (2, 0, 1, 1), "2": (2, 1, 2, 1), "": (2, 2, 1, 1), "9": (3, 0, 1, 1), "8": (3, 2, 1, 1),
    }  # fmt: skip


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), max_size=5), max_size=5))
def test_no_two_cells_share_a_place(rows: list[list[tuple[int, int]]]) -> None:
    body = "".join(
        "<tr>" + "".join(f'<td rowspan="{down}" colspan="{across}">x</td>' for down, across in row) + "</tr>"
        for row in rows
    )
    grid = table_grid(f"<table>{body}</table>")
    n_cells = sum(map(len, rows))
    assert (grid is None) == (n_cells == 0)
    if grid is None:
        return
    taken = [
        (cell.row + down, cell.column + across)
        for cell in grid.cells
        for down in range(cell.n_rows)
        for across in range(cell.n_columns)
    ]
    assert len(grid.cells) == n_cells and len(taken) == len(set(taken))
    assert all(row < grid.n_rows and column < grid.n_columns for row, column in taken)


def test_what_is_no_table_has_no_grid() -> None:
    for text in ("", "plain", "<table></table>", "<table>loose<tr><td>a</td></tr></table>", "<p>a</p>", "\x00"):
        assert table_grid(text) is None
