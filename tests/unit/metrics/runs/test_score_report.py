"""The HTML report: complete, self-contained, and deaf to what hostile predictions ask for."""

from __future__ import annotations

import base64
import io
import re
from html import unescape
from html.parser import HTMLParser

import pytest
from PIL import Image
from tests.score_runs import room_for

from gravityocr.errors import ConfigError, InputError
from gravityocr.metrics.runs.confidence import Interval
from gravityocr.metrics.runs.datasets import Note
from gravityocr.metrics.runs.report_diff import MOST_CHARS, diff_html, shown, table_markup
from gravityocr.metrics.runs.report_model import BreakdownRow, ModeRow, Report, ReportAxis, ReportSample, number
from gravityocr.metrics.runs.score_report import find_image, render_report, write_report

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=http://evil.example/x.png onerror=alert(1)>",
    "</pre></details><h1>taken over</h1>",
    '"><svg onload=alert(1)>',
    "<table><tr><td style='background:url(http://evil.example)'>x</td></tr></table>",
    "<table><tr><td onmouseover=alert(1) colspan='2'>x<iframe src=http://evil.example></iframe></td></tr></table>",
    "<meta http-equiv=refresh content='0;url=http://evil.example'><link rel=preconnect href=http://evil.example>",
    "<table><tr><td><a href='javascript:alert(1)'>go</a></td></tr></table></body></html><script>alert(2)</script>",
    "</style></srcdoc>' \" ><script>alert(3)</script>",
    "<form action=http://evil.example><input></form><base href=http://evil.example>",
]


class Page(HTMLParser):
    """Collects the tags of a page as a browser would see them, frames' inner pages included."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.frames: list[Page] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "iframe":
            self.frames.append(Page(dict(attrs)["srcdoc"]))

    def names(self) -> set[str]:
        return {tag for tag, _ in self.tags}


def sample(n: int = 0, kind: str = "table", pred: str = "p", ref: str = "r", goodness: float | None = 0.5, **more):
    return ReportSample(f"sample {n}", kind, pred, ref, goodness, "TEDS", {"teds": goodness}, **more)


def report(samples, **more) -> Report:
    return Report("Title", "subtitle", [ReportAxis("teds", Interval(0.5, 0.4, 0.6, 3))], samples, **more)


@pytest.mark.parametrize("kind", ["table", "text", "formula", "page"])
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markup_stays_text(kind, text):
    samples = [
        ReportSample(text, kind, text, text[::-1], 0.1, text, {text: 0.1}, text, text, text, {text: text}),
        ReportSample("other", kind, text[::-1], text, 0.2),
    ]
    notes = [Note(text, text, text)]
    rows = [BreakdownRow(text, text, 1, {text: 0.5})]
    modes = [ModeRow(text, {text: 0.5}), ModeRow(text, {text: 0.1}, True, 3, text)]
    axes = [ReportAxis(text, None, text)]
    footer = {text: text, "list": [text]}
    page = Page(render_report(Report(text, text, axes, samples, rows, notes, modes, [text], [text], footer)))
    allowed = {
        "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "b", "br", "ul", "li",
        "section", "div", "svg", "rect", "line", "text", "table", "thead", "tbody", "tr", "th", "td",
        "details", "summary", "span", "pre", "del", "ins", "iframe",
    }  # fmt: skip
    assert page.names() <= allowed
    every = [page, *page.frames]
    attributes = {key for one in every for _, attrs in one.tags for key in attrs}
    assert not {key for key in attributes if key.startswith("on") or key in ("href", "src", "action")}
    assert len([tag for tag, _ in page.tags if tag == "h1"]) == 1
    for inner in page.frames:
        assert inner.names() <= {"meta", "style", "table", "tr", "td", "p", "b"}
        assert "style" not in {key for tag, attrs in inner.tags for key in attrs}


def test_tables_are_rendered_in_frames_that_can_do_nothing():
    table = "<table><tr><TD ColSpan = '2' class=x>a &amp; b</TD></tr></table>"
    html = render_report(report([sample(pred=table, ref=table)]))
    frames = re.findall(r"<iframe ([^>]*)>", html)
    assert len(frames) == 2
    for frame in frames:
        assert 'sandbox=""' in frame
        inner = unescape(re.search(r'srcdoc="([^"]*)"', frame).group(1))
        assert "default-src 'none'" in inner
        assert '<table><tr><td colspan="2">a &amp; b</td></tr></table>' in inner


def test_the_page_needs_nothing_else():
    html = render_report(report([sample(kind="text")], warnings=["one"], notes=[Note("a", "bad_encoding", "m")]))
    assert "default-src 'none'" in html and "prefers-color-scheme: dark" in html
    assert not re.search(r"https?://|@import|url\(|<script|<link", html)


def test_the_worst_come_first_and_unscored_before_them():
    samples = [sample(n, "text", goodness=goodness) for n, goodness in enumerate([0.9, 0.1, None, 0.5])]
    html = render_report(report(samples), n_worst=3)
    assert re.findall(r"class='name'>(sample \d)", html) == ["sample 2", "sample 1", "sample 3"]
    assert "3 of 4 samples" in html


def test_no_samples_and_no_figures():
    html = render_report(Report("T", "s", [ReportAxis("teds", None)], []))
    assert "nothing was scored" in html and "Worst samples" not in html
    assert "Worst samples" not in render_report(report([sample()]), n_worst=0)


def test_figures_breakdown_notes_and_modes_are_shown():
    rows = [BreakdownRow("language", "en", 3, {"teds": 0.25}), BreakdownRow("language", "zh", 1, {"teds": None})]
    modes = [
        ModeRow("official", {"teds": 0.5}, is_change=False),
        ModeRow("tags in capitals score 0", {"teds": 0.25}, n_pages=3, detail="lenient_tables: a.png"),
    ]
    html = render_report(
        report([sample(0), sample(1)], breakdown=rows, modes=modes, notes=[
            Note("x", "missing_prediction", "no prediction")
        ], facts=["1 page"], footer={"code": "abc"}, warnings=["3 of 9 pages not scored"])
    )  # fmt: skip
    for text in (
        "0.5000", "0.4000 – 0.6000", "n = 3", "0.2500", "tags in capitals", "+0.2500", "lenient_tables: a.png",
        "missing_prediction", "<li>1 page</li>", "code: abc", "3 of 9 pages not scored", "Tables, TEDS\u00a0↑",
    ):  # fmt: skip
        assert text in html
    overall = [ReportAxis("overall", Interval(92.314, 90, 95, 2))]
    assert "92.31" in render_report(Report("T", "s", overall, []))


def test_an_axis_without_an_interval_says_why():
    html = render_report(report([]))
    assert "n = 3: few, the interval is a rough guide" in html
    one_page = [ReportAxis("teds", Interval(0.5, None, None, 1)), ReportAxis("cdm", None, "CDM switched off")]
    html = render_report(Report("T", "s", one_page, []))
    assert "n = 1: no interval" in html and "CDM switched off" in html and "95 % CI" not in html


def test_attributes_are_grouped():
    rows = [BreakdownRow("a", "x", 1, {"teds": 0.5}), BreakdownRow("b", "y", 1, {"cdm": 0.5, "teds": None})]
    html = render_report(report([], breakdown=rows))
    groups = re.findall(r"<div class='card wide group'>.*?</div>", html)
    assert len(groups) == 2 and "CDM" not in groups[0] and "TEDS" not in groups[1]


def test_every_kind_has_a_histogram_with_counts_and_labels():
    samples = [sample(n, "table", goodness=0.05 if n < 3 else 1.0) for n in range(5)]
    samples += [sample(n, "text", goodness=None) for n in range(2)]
    html = render_report(report(samples))
    (histogram,) = re.findall(r"<div class='card histogram'>.*?</svg>", html)
    assert "Tables by TEDS: 5 samples" in histogram and "TEDS (1 is perfect)" in histogram
    assert re.findall(r"middle'>(\d)</text>", histogram) == ["3", "2"]


def test_a_score_is_labelled_and_a_missing_prediction_has_a_badge():
    html = render_report(report([sample(badge="missing prediction")]))
    assert "<span class='measure'>TEDS</span> 0.5000" in html
    assert "<span class='tag bad'>missing prediction</span>" in html


def test_tables_are_compared_in_their_normal_form():
    ref = "<table><thead><tr><th>a</th></tr></thead></table>"
    html = render_report(report([sample(pred="| a |\n|---|\n", ref=ref), sample(pred=ref.upper().lower(), ref=ref)]))
    diffs = re.findall(r"<pre class='diff'>(.*?)</pre>", html, re.DOTALL)
    assert len(diffs) == 2 and not [diff for diff in diffs if "<del>" in diff or "<ins>" in diff]


def test_numbers():
    assert (number(None), number(float("nan")), number(0.5), number(50.0, 100.0)) == ("–", "–", "0.5000", "50.00")


def test_the_file_is_written_or_the_error_names_it(tmp_path):
    path = tmp_path / "new" / "report.html"
    write_report(path, report([sample(pred="\ud800", kind="text")]))
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    write_report(path, report([]))  # over a report, another
    with pytest.raises(ConfigError, match=r"report\.html/x: .*report\.html is no folder"):
        write_report(path / "x", report([]))
    other = tmp_path / "page.html"
    other.write_text("<html>mine</html>")
    with pytest.raises(ConfigError, match="exists and is no report of gravityocr score"):
        write_report(other, report([]))
    assert other.read_text() == "<html>mine</html>"


def test_a_full_disk_leaves_what_was_there(tmp_path):
    old, new = tmp_path / "old.html", tmp_path / "new.html"
    write_report(old, report([]))
    before = old.read_bytes()
    for path in (old, new):
        with pytest.raises(InputError, match=rf"{path.name}: cannot be written .*make room"), room_for(1000):
            write_report(path, report([sample()]))
    assert [path.name for path in tmp_path.iterdir()] == ["old.html"] and old.read_bytes() == before


def test_a_report_is_written_through_a_link_and_may_be_read_by_others(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.html").symlink_to(tmp_path / "folder" / "r.html")
    write_report(tmp_path / "link.html", report([]))
    assert (tmp_path / "link.html").is_symlink() and (tmp_path / "folder" / "r.html").is_file()
    plain = tmp_path / "plain"
    plain.touch()
    assert (tmp_path / "folder" / "r.html").stat().st_mode == plain.stat().st_mode


# Pictures ------------------------------------------------------------------------------------------


def test_pictures_are_embedded_and_made_smaller(tmp_path):
    Image.new("RGB", (4000, 1000), "red").save(tmp_path / "a.png")
    html = render_report(report([sample(image=tmp_path / "a.png")]))
    data = re.search(r'src="data:image/webp;base64,([^"]*)"', html).group(1)
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (1100, 275)


def test_a_picture_that_is_none_says_so(tmp_path):
    (tmp_path / "a.png").write_bytes(b"no picture")
    html = render_report(report([sample(image=tmp_path / "a.png")]))
    assert "a.png: cannot be shown" in html and "<img" not in html


def test_pictures_are_found_by_stem(tmp_path):
    (tmp_path / "spe").mkdir()
    for name in ("a.pdf_1.JPG", "spe/0000001.png", "b.txt"):
        (tmp_path / name).write_bytes(b"")
    assert find_image(tmp_path, "a.pdf_1") == tmp_path / "a.pdf_1.JPG"
    assert find_image(tmp_path, "a.pdf_1.JPG") == tmp_path / "a.pdf_1.JPG"
    assert find_image(tmp_path, "spe/0000001") == tmp_path / "spe" / "0000001.png"
    inside = tmp_path / "spe"
    for stem in ("b", "none", None, "", "../a.pdf_1", str(tmp_path / "a.pdf_1"), "a\0b"):
        assert find_image(inside, stem) is None


def test_formulas_are_shown_as_drawn():
    samples = [sample(0, "formula", "\\frac{a", "\\frac{a}{b}", 0.1), sample(1, "formula", "x", "x", 1.0)]
    asked: list[list[str]] = []

    def draw(formulas):
        asked.append(list(formulas))
        return [b"PNG of it" if formula.endswith("}") else None for formula in formulas]

    html = render_report(report([*samples, sample(2)]), n_worst=1, draw=draw)
    assert asked == [["\\frac{a}{b}", "\\frac{a"]]
    assert base64.b64encode(b"PNG of it").decode() in html and html.count("cannot be rendered") == 1
    assert "Formulas: 1 of 2 samples" in html and "Tables: 1 of 1 sample," in html


# Diffs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pred", "ref", "expected"),
    [
        ("same", "same", "same"),
        ("", "gone", "<del>gone</del>"),
        ("new", "", "<ins>new</ins>"),
        ("cat", "cut", "c<del>u</del><ins>a</ins>t"),
        ("a<b>", "a", "a<ins>&lt;b&gt;</ins>"),
        ("ab", "a\nb", "a<del>\u21b5\n</del>b"),
    ],
)
def test_short_texts_are_compared_by_character(pred, ref, expected):
    assert diff_html(pred, ref) == expected


def test_long_texts_are_compared_by_word():
    words = "The quick brown fox jumps over the lazy dog. " * 10
    assert "<del>lazy</del><ins>LAZY</ins>" in diff_html(words.replace("lazy", "LAZY", 1), words)
    tags = "<tr><td>1</td></tr>" * 30
    assert "<del>&lt;td&gt;</del><ins>&lt;td rowspan=&quot;2&quot;&gt;</ins>" in diff_html(
        tags.replace("<td>", '<td rowspan="2">', 1), tags
    )


def test_a_diff_tells_both_sides():
    pred, ref = "Alpha beta 漢字 gamma\n" * 20, "Alpha bet 漢子 gamma delta\n" * 20
    found = diff_html(pred, ref)
    assert unescape(re.sub(r"<ins>.*?</ins>|</?del>|\u21b5", "", found, flags=re.DOTALL)) == ref
    assert unescape(re.sub(r"<del>.*?</del>|</?ins>|\u21b5", "", found, flags=re.DOTALL)) == pred


def test_a_megabyte_is_cut_and_said_to_be():
    text = "word " * 200_000
    assert "more words are not compared" in diff_html(text, "other")
    assert len(shown(text)) < MOST_CHARS + 200 and f"{len(text) - MOST_CHARS} more characters" in shown(text)
    assert len(render_report(report([sample(pred="<td>" + text, ref=text)]))) < 600_000


def test_markup_is_reduced_to_a_table():
    assert table_markup("<TABLE class=x><tr><td rowspan=2 ColSpan='3'>a</td></table>") == (
        '<table><tr><td rowspan="2" colspan="3">a</td></table>'
    )
    assert table_markup("a < b & c <1> &lt; &#12;") == "a &lt; b &amp; c &lt;1&gt; &lt; &#12;"
    assert table_markup("<td colspan=x>" + "<td " * 50_000).startswith("<td>")
