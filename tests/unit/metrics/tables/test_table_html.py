"""The normal form of tables: what goes, what stays, what broken markup becomes; tokens and NFKC beneath it."""

from __future__ import annotations

import doctest
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravityocr.metrics.tables import html_tokens, nfkc, table_html
from gravityocr.metrics.tables.html_tokens import tokenize
from gravityocr.metrics.tables.nfkc import normalize_nfkc
from gravityocr.metrics.tables.table_html import drop_between, normal_form, normalize_cell

HEAD, FOOT = '<html><body><table border="1" >', "</table></body></html>"


@pytest.mark.parametrize(
    ("markup", "inner"),
    [
        ("<table><tr><th>a</th></tr></table>", "<tr><td>a</td></tr>"),
        ("<table><thead>\n<tr> </tr>\n</thead></table>", "<tr> </tr>"),
        ("<table><tr><td>a", "<tr><td>a</td></tr>"),  # left open: closed
        ("<table><tr><td>a<td>b</tr></table>", "<tr><td>a<td>b</td></td></tr>"),  # nested, not repaired
        ("<table></td></p><tr></tr></table>", "<tr></tr>"),  # end tags that nothing opened
        ('<table><td style="x" class="a b" rowspan=2 colspan="3"></table>', '<td colspan="3" rowspan="2"></td>'),
        ("<table><td title='say \"a\"'></table>", "<td title='say \"a\"'></td>"),
        ("<table><td nowrap></table>", '<td nowrap=""></td>'),
        ("<table><td>a<br>b<br/></table>", "<td>a<br/>b<br/></td>"),
        ("<table><td><p>a</p><sup>b</sup><span>c</span></table>", "<td>abc</td>"),
        ("<table><td>x<p class='y'>a</p><p id='y'>b</p></table>", '<td>xa<p id="y">b</td>'),
        ('<table><td><math alttext="\\alpha"><mi>a</mi></math></table>', "<td>α</td>"),
        ("<table><td>&lt;b&gt; &amp; &ndash; &#x41; &foo;</table>", "<td><b> & – A &foo</td>"),
        ("<table><td>a <!-- b --> c</td></table>", "<td>abc</td>"),  # an official quirk: the comment becomes text
        ("<table><td>a<!--b-->c</td></table>", "<td>a<!--b-->c</td>"),
        ("<table><colgroup><col/></colgroup><tr></tr></table>", "<tr></tr>"),
        ("<table><td>１ Ｏ</table> tail", "<td>1 O</td>"),
        ("x <table>a</table> y <table>b</table> z", "a</table> y <table>b"),
        ("<table><td>1 < 2 <3></table>", "<td>1 < 2 <3></td>"),
        ('<table><td title="a', '<td title="a'),
        ("<table><td", "<td"),
        ("<table><script>a<td>b</script></table>", "<script>a<td>b</script>"),
    ],
)
def test_normal_forms(markup: str, inner: str) -> None:
    assert normal_form(markup) == HEAD + inner + FOOT


@pytest.mark.parametrize("markup", ["", "a", "| a |", "<td>a</td>", "<TABLE><td>a</TABLE>"])
def test_what_is_no_table_has_no_normal_form(markup: str) -> None:
    assert normal_form(markup) == ""


def test_capitals_are_seen_on_demand() -> None:
    assert normal_form("<TABLE><TD>a</TABLE>", any_case=True) == HEAD + "<td>a</td>" + FOOT


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("", ""),
        (" a \n b ", "a b"),
        ("-", "—"),
        (" – ", "—"),
        ("a-b", "a-b"),
        ("$\\alpha$", "α"),
        ("\\( 5 \\% \\)", "5 %"),
        ("$a$b$", "$a$b$"),
        (f"${'a' * 129}$", f"${'a' * 129}$"),
        ("✔ ✗ Ø ∼", "√ × ∅ ～"),
        ("a\u00a0b\u200bc", "a bc"),
        ("\\varepsilon", "ε"),
    ],
)
def test_cells(text: str, normal: str) -> None:
    assert normalize_cell(text) == normal


@given(st.text(alphabet="<>/!-abt &;=\"'", max_size=30))
def test_text_that_is_no_tag_is_not_lost(markup: str) -> None:
    assert "".join(token.data for token in tokenize(markup.replace("<", "("))) == markup.replace("<", "(")
    assert all(
        token.kind in {"text", "raw", "start", "end", "<!--", "<![CDATA[", "<?", "<!"} for token in tokenize(markup)
    )


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a<b>c</b>d<b>e</b>", "ad"),
        ("a<b>c\n</b>d<b>e</b>f", "a<b>c\n</b>df"),  # only on one line
        ("a<b>c<b>d</b>e", "ae"),
        ("a<b>c", "a<b>c"),
        ("</b>a<b>", "</b>a<b>"),
    ],
)
def test_stretches_are_dropped_on_one_line(text: str, kept: str) -> None:
    assert drop_between(text, "<b>", "</b>") == kept


marks = st.text(alphabet="\u0301\u0323\u0f73\u0344\u05b0", min_size=0, max_size=40)


@given(st.text(max_size=20), marks, st.text(max_size=5))
def test_nfkc_is_that_of_unicode(before: str, run: str, after: str) -> None:
    text = before + "é" * 4000 + run * 30 + after
    assert normalize_nfkc(text) == unicodedata.normalize("NFKC", text)


@pytest.mark.parametrize("module", [html_tokens, nfkc, table_html])
def test_the_examples_in_the_docstrings(module) -> None:
    results = doctest.testmod(module)
    assert results.attempted >= 1
    assert results.failed == 0
