"""Pages to passages: every region in one of them, what goes on over columns and pages put together, sources kept."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravityocr.config import dump_config, load_config
from gravityocr.document import Box, Document, Label, Page, Passage, Region, RegionRef
from gravityocr.errors import ConfigError
from gravityocr.pipeline.assembly import AssemblyConfig, assemble, page_markdown
from gravityocr.pipeline.layout import TASKS
from gravityocr.pipeline.markdown import DROPPED
from gravityocr.pipeline.passages.mends import MENDS

SIZE = (1000, 1400)
MARKDOWN = AssemblyConfig("markdown")
HEAD = "<tr><th>Name</th><th>Value</th></tr>"


def region(index: int, content: str, label: Label = "text", **more: object) -> Region:
    box = more.pop("box", None) or Box(100, 100 + 40 * index, 900, 130 + 40 * index)
    return replace(Region(index, label, label, TASKS[label], box, content), **more)  # type: ignore[arg-type]


def page(index: int, *regions: Region, **more: object) -> Page:
    return replace(Page(index, SIZE, regions), **more)  # type: ignore[arg-type]


def texts(passages: tuple[Passage, ...]) -> list[str]:
    return [passage.markdown for passage in passages]


def without(mend: str) -> tuple[str, ...]:
    return tuple(name for name in MENDS if name != mend)


def sources(passage: Passage) -> list[tuple[int, int]]:
    return [(ref.page, ref.region) for ref in passage.sources]


def table(*rows: tuple[str, str], head: str = HEAD) -> str:
    return f"<table>{head}{''.join(f'<tr><td>{a}</td><td>{b}</td></tr>' for a, b in rows)}</table>"


# --- one page


def test_passages_are_parted_by_blank_lines_and_furniture_stays_out() -> None:
    one = page(
        0, region(0, "Journal of Pages", "header"), region(1, "The\nTitle", "title"), region(2, "First."),
        region(3, "Methods", "title"), region(4, "Second."), region(5, "17", "page_number"),
        region(6, "Publisher", "footer"), region(7, "  "),
    )  # fmt: skip
    assert page_markdown(one) == "# The Title\n\nFirst.\n\n## Methods\n\nSecond.\n"
    assert page_markdown(replace(one, index=1)).startswith("## The Title\n\n")
    assert page_markdown(page(0)) == ""
    kept = assemble([one], AssemblyConfig(keep_furniture=True))
    assert texts(kept) == ["Journal of Pages", "# The Title", "First.", "## Methods", "Second.", "17", "Publisher"]
    assert [passage.furniture for passage in kept] == [True, False, False, False, False, True, True]
    assert [passage.level for passage in kept[:4]] == [0, 1, 0, 2]


def test_a_title_below_text_or_beside_a_document_title_is_not_the_documents() -> None:
    assert (
        page_markdown(page(0, region(0, "ends here."), region(1, "Results", "title"))) == "ends here.\n\n## Results\n"
    )
    assert page_markdown(page(3, region(0, "X", "doc_title"))) == "# X\n"
    both = page(0, region(0, "Kicker", "title"), region(1, "X", "doc_title"))
    assert page_markdown(both) == "## Kicker\n\n# X\n"
    known = page(0, region(0, "Abstract", "title", native_label="paragraph_title"))
    assert page_markdown(known) == "## Abstract\n"


def test_what_was_not_read_is_shown_as_a_picture() -> None:
    figure = region(0, "", "figure", image="p1.png")
    unread = region(1, "", "table", status="skipped", error="no tables", image="p2.png")
    passages = assemble([page(0, figure, unread)])
    assert texts(passages) == ["![figure](images/p1.png)", "![table](images/p2.png)"]
    assert [(passage.kind, passage.image) for passage in passages] == [("figure", "p1.png"), ("figure", "p2.png")]
    assert page_markdown(page(0, replace(figure, image=None))) == "<!-- figure: not read, no picture kept -->\n"


def test_a_failed_region_or_page_never_vanishes() -> None:
    failed = region(3, "", status="failed", error="server said <500> --\nstop", image="p.png")
    (mark,) = assemble([page(0, failed)])
    assert mark.markdown == "<!-- region 3 failed: server said <500 - - stop -->\n\n![text](images/p.png)"
    assert mark.kind == "mark" and sources(mark) == [(0, 3)]
    assert assemble([page(0, failed)], AssemblyConfig("markdown", mends=without("failures"))) == ()
    lost = page(
        1, replace(failed, error="broken"), replace(failed, index=4, error="broken"), status="failed", error="broken"
    )
    (mark,) = assemble([lost])
    assert mark.markdown == "<!-- page 2 failed: broken -->" and sources(mark) == [(1, 3), (1, 4)]
    (mark,) = assemble([page(2, status="failed", error="no image")])
    assert mark.markdown == "<!-- page 3 failed: no image -->" and mark.sources == ()


def test_cut_text_is_kept_and_cut_to_nothing_is_told() -> None:
    cut = page(0, region(0, "kept", status="truncated", error="reached 9 tokens"))
    for config in (AssemblyConfig(), MARKDOWN):
        assert page_markdown(cut, config) == "kept\n\n<!-- region 0 was cut: reached 9 tokens -->\n"
    assert page_markdown(cut, AssemblyConfig("markdown", mends=without("failures"))) == "kept\n"
    assert assemble([cut])[0].content == "kept"
    (mark,) = assemble([page(0, status="failed", error="page 1 cannot be decoded")])
    assert mark.markdown == "<!-- page 1 failed: cannot be decoded -->"
    assert page_markdown(page(0, region(0, " ", status="loop_cut"))) == "<!-- region 0 loop_cut: nothing is left -->\n"
    assert page_markdown(page(0, region(0, " "))) == ""


def test_code_lists_and_footnotes() -> None:
    one = page(
        0, region(0, "x = $a\n  y*z", "code"), region(1, "• a\n• b"), region(2, "1 See there.", "footnote"),
        region(3, "aside_note", "aside"), region(4, "Figure 1: it", "caption"),
    )  # fmt: skip
    passages = assemble([one])
    assert [passage.kind for passage in passages] == ["code", "list", "text", "text", "text"]
    assert texts(passages)[:2] == ["```\nx = $a\n  y*z\n```", "- a\n- b"]
    assert [passage.label for passage in passages[2:]] == ["footnote", "aside", "caption"]


def test_plain_text_is_escaped_and_markdown_kept() -> None:
    one = page(0, region(0, "## 2 *Methods* cost $5 and $6 beside $ x $"), region(1, "<div>\n\n**A**\n\n</div>"))
    assert texts(assemble([one])) == [
        "\\## 2 \\*Methods\\* cost \\$5 and \\$6 beside $x$", "\\<div>\n\n\\*\\*A\\*\\*\n\n\\</div>"
    ]  # fmt: skip
    passages = assemble([one], MARKDOWN)
    assert texts(passages) == ["## 2 *Methods* cost \\$5 and \\$6 beside $x$", "<div>\n\n**A**\n\n</div>"]
    assert (passages[0].kind, passages[0].level, passages[1].content) == ("title", 2, "**A**")


def test_fenced_code_and_algorithms_of_a_markdown_writer() -> None:
    code = region(0, "```c\nint a;\n```")
    listing = region(1, "a = b_c\nreturn *a", "code")
    algorithm = region(2, "1: let $x \\leftarrow 0$", "code")
    passages = assemble([page(0, code, listing, algorithm)], MARKDOWN)
    assert [passage.kind for passage in passages] == ["code", "code", "code"]
    assert texts(passages) == ["```c\nint a;\n```", "```\na = b_c\nreturn *a\n```", "1: let $x \\leftarrow 0$"]
    assert passages[0].content == "int a;"


@pytest.mark.parametrize("config", [AssemblyConfig(), MARKDOWN])
def test_tables_keep_their_grid_and_are_escaped_once(config: AssemblyConfig) -> None:
    html = '<table>\n\n<tr><td rowspan="2">a_b</td><td></td><td>|</td></tr>\n'
    html += "<tr><td></td><td>&lt;b&gt; &amp; <b>c</b></td></tr></table>"
    (passage,) = assemble([page(0, region(0, html, "table"))], config)
    assert passage.markdown == html.replace("\n\n", "\n") and passage.kind == "table"
    (cut,) = assemble([page(0, region(0, "<table><tr><td>a</td><td>b", "table"))], config)
    assert cut.markdown == "<table><tr><td>a</td><td>b</td></tr></table>"
    (other,) = assemble([page(0, region(0, "no table", "table"))], config)
    assert (other.markdown, other.kind) == ("no table", "text")


# --- formula numbers


def test_numbers_go_into_their_formulas_and_others_stay() -> None:
    formula = region(0, "a = b", "formula", box=Box(300, 100, 700, 160))
    left = region(1, "(3.1)", "formula_number", box=Box(100, 120, 150, 140))
    alone = region(2, "(3.2)", "formula_number", box=Box(900, 400, 950, 420))
    passages = assemble([page(0, left, formula, alone)])
    assert texts(passages) == ["$$\na = b \\tag{3.1}\n$$", "(3.2)"]
    assert sources(passages[0]) == [(0, 0), (0, 1)] and passages[0].content == "a = b \\tag{3.1}"
    sdk = AssemblyConfig("markdown", mends=without("formula-numbers"))
    assert texts(assemble([page(0, left, formula, alone)], sdk)) == ["$$\na = b \\tag{3.1}\n$$"]


def test_a_number_per_line_and_a_formula_with_another_tag() -> None:
    formula = region(0, "a \\\\\nb", "formula", box=Box(300, 100, 700, 200))
    second = region(1, "(2)", "formula_number", box=Box(900, 170, 950, 190))
    first = region(2, "(1)", "formula_number", box=Box(900, 110, 950, 130))
    assert texts(assemble([page(0, formula, second, first)])) == ["$$\na \\\\\nb \\tag{1, 2}\n$$"]
    tagged = replace(formula, content="a \\tag{9}")
    assert texts(assemble([page(0, tagged, first)])) == ["$$\na \\tag{9}\n$$", "(1)"]


# --- text that goes on


def test_a_paragraph_goes_on_over_the_page_past_furniture_and_floats() -> None:
    pages = [
        page(0, region(0, "It is the re-"), region(1, "1 Note.", "footnote"), region(2, "3", "page_number")),
        page(1, region(0, "Journal", "header"), region(1, "", "figure", image="f.png"), region(2, "Fig. 1", "caption"),
             region(3, "sult of this, and"), region(4, "Next one.")),
        page(2, region(0, "it ends.")),
    ]  # fmt: skip
    passages = assemble(pages)
    assert texts(passages) == [
        "It is the result of this, and", "1 Note.", "![figure](images/f.png)", "Fig. 1", "Next one.", "it ends."
    ]  # fmt: skip
    assert sources(passages[0]) == [(0, 0), (1, 3)]
    assert len(assemble(pages, AssemblyConfig(merge=False))) == 7


def test_a_paragraph_over_three_pages_is_one() -> None:
    pages = [page(0, region(0, "It begins and")), page(1, region(0, "goes on and")), page(2, region(0, "ends."))]
    (passage,) = assemble(pages)
    assert passage.markdown == "It begins and goes on and ends." and sources(passage) == [(0, 0), (1, 0), (2, 0)]
    assert len(assemble([pages[0], pages[2]])) == 2  # the page between is not there


def test_a_paragraph_goes_on_in_the_next_column() -> None:
    long = "A sentence of some length that the column's end breaks in"
    left = region(0, long, box=Box(100, 900, 480, 1300))
    right = region(1, "its middle.", box=Box(520, 100, 900, 200))
    assert texts(assemble([page(0, left, right)])) == [long + " its middle."]
    below = replace(right, box=Box(100, 1320, 480, 1380))
    assert len(assemble([page(0, left, below)])) == 2
    assert len(assemble([page(0, replace(left, content="Name of the"), right)])) == 2  # the label of a form


@pytest.mark.parametrize(
    ("first", "between", "second"),
    [
        (region(0, "It ends."), None, region(1, "and so")),
        (region(0, "It is and"), None, region(1, "Then")),
        (region(0, "It is and"), region(1, "x", "formula"), region(2, "so on")),
        (region(0, "It is and"), region(1, "Results", "title"), region(2, "so on")),
        (region(0, "It is and"), region(1, "", status="failed", error="lost"), region(2, "so on")),
        (region(0, "It is and", status="truncated"), None, region(1, "so on")),
        (region(0, "It is and"), None, region(1, "so on", "reference")),
        (region(0, "A caption of", "caption"), region(1, "Text."), region(2, "it", "caption")),
        (region(0, "```\ncode and"), None, region(1, "more")),
    ],
)
def test_what_may_not_belong_together_stays_apart(first: Region, between: Region | None, second: Region) -> None:
    regions = [second] if between is None else [between, second]
    pages = [page(0, first), page(1, *[replace(one, index=k) for k, one in enumerate(regions)])]
    for config in (AssemblyConfig(), MARKDOWN):
        assert all(len(passage.sources) == 1 for passage in assemble(pages, config))


# --- tables that go on


def test_a_table_over_three_pages_is_one_with_its_sources() -> None:
    pages = [
        page(0, region(0, "Table 2: Values", "caption"), region(1, table(("a", "1")), "table"),
             region(2, "7", "page_number")),
        page(1, region(0, "Table 2 (continued)", "caption"), region(1, table(("b", "2")), "table"),
             region(2, "† n.", "footnote")),
        page(2, region(0, "Journal", "header"), region(1, table(("c", "3")), "table"), region(2, "Text.")),
    ]  # fmt: skip
    passages = assemble(pages)
    assert [passage.kind for passage in passages] == ["text", "table", "text", "text"]
    assert passages[1].markdown == table(("a", "1"), ("b", "2"), ("c", "3"))
    assert sources(passages[1]) == [(0, 1), (1, 0), (1, 1), (2, 1)]
    assert texts(passages)[2:] == ["† n.", "Text."]
    apart = assemble(pages, AssemblyConfig(merge=False))
    assert sum(passage.kind == "table" for passage in apart) == 3 and "Table 2 (continued)" in texts(apart)


def test_a_continued_caption_that_says_more_stays() -> None:
    pages = [
        page(0, region(0, table(("a", "1")), "table")),
        page(1, region(0, "Table 2 (continued): Values of B", "caption"), region(1, table(("b", "2")), "table")),
    ]
    assert texts(assemble(pages)) == [table(("a", "1"), ("b", "2")), "Table 2 (continued): Values of B"]


@pytest.mark.parametrize(
    "second",
    [
        (region(0, "Text between."), region(1, table(("b", "2")), "table")),
        (region(0, "Table 3: Others", "caption"), region(1, table(("b", "2")), "table")),
        (region(0, "<table><tr><td>b</td></tr></table>", "table"),),
        (region(0, table(("b", "2")), "table", box=Box(100, 100, 300, 200)),),
        (region(0, "<table><tr><td>b</td><td>2", "table"),),
    ],
)
def test_tables_that_may_be_two_stay_two(second: tuple[Region, ...]) -> None:
    passages = assemble([page(0, region(0, table(("a", "1")), "table")), page(1, *second)])
    assert len(passages) == 1 + len(second) and all(len(passage.sources) == 1 for passage in passages)


def test_tables_on_one_page_or_a_page_apart_stay_two() -> None:
    first, second = region(0, table(("a", "1")), "table"), region(1, table(("b", "2")), "table")
    assert len(assemble([page(0, first, second)])) == 2
    assert len(assemble([page(0, first), page(2, second)])) == 2


# --- the SDK's ways, and the config


def test_switched_off_mends_do_what_the_sdk_does() -> None:
    items = [region(0, "- one", box=Box(100, 0, 900, 9)), region(1, "two", box=Box(105, 10, 900, 19)),
             region(2, "- three", box=Box(100, 20, 900, 29))]  # fmt: skip
    assert texts(assemble([page(0, *items)], MARKDOWN)) == ["- one", "two", "- three"]
    bare = AssemblyConfig("markdown", mends=())
    assert texts(assemble([page(0, *items)], bare)) == ["- one", "- two", "- three"]
    broken = [region(0, "is self-"), region(1, "x", "formula"), region(2, "supervised it.")]
    assert texts(assemble([page(0, *broken)], bare)) == ["is selfsupervised it.", "$$\nx\n$$"]
    assert texts(assemble([page(0, *broken)], MARKDOWN)) == ["is self-", "$$\nx\n$$", "supervised it."]


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="text_format.*'html'.*plain or markdown"):
        AssemblyConfig("html")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"'numbring' is no mend.*numbering"):
        AssemblyConfig(mends=("numbring",))
    assert AssemblyConfig().mends == tuple(MENDS) == AssemblyConfig(mends=(*reversed(MENDS), "code")).mends


def test_the_config_is_read_from_and_written_to_toml() -> None:
    config = AssemblyConfig("markdown", merge=False, mends=without("currency"))
    assert tomllib.loads(dump_config(config))["text_format"] == "markdown"
    assert load_config(AssemblyConfig, overrides=["mends=code,titles", "text_format=markdown"]).mends == (
        "code",
        "titles",
    )


# --- every region is accounted for

VOCABULARY = ("alpha", "beta", "Gamma", "delta.", "Epsilon", "zeta-", "3.14", "(4)", "eta,", "$x_1$")
WORDS = st.lists(st.sampled_from(VOCABULARY), max_size=5).map(" ".join)
LABELS = st.sampled_from([label for label in TASKS])
STATUSES = st.sampled_from(["ok", "ok", "ok", "truncated", "failed", "skipped"])
BOXES = st.tuples(st.integers(0, 900), st.integers(0, 1300), st.integers(5, 500), st.integers(5, 200))
PARTS = st.lists(st.tuples(LABELS, WORDS, STATUSES, BOXES), max_size=5)


def _page_of(index: int, parts: list[tuple[Label, str, str, tuple[int, int, int, int]]]) -> Page:
    regions = []
    for k, (label, words, status, (x, y, width, height)) in enumerate(parts):
        content = table(("a", words), (words, "2")) if label == "table" else words if TASKS[label] else ""
        content = "" if status in ("failed", "skipped") else content
        error = "told" if status in ("failed", "skipped") else None
        regions.append(region(k, content, label, status=status, error=error, box=Box(x, y, x + width, y + height)))
    return page(index, *regions)


@given(st.lists(PARTS, max_size=4), st.sampled_from(["plain", "markdown"]), st.booleans(), st.booleans())
def test_every_region_is_in_exactly_one_passage_and_its_words_survive(
    parts: list[list[tuple[Label, str, str, tuple[int, int, int, int]]]], text_format: str, merge: bool, keep: bool
) -> None:
    pages = [_page_of(index, one) for index, one in enumerate(parts)]
    passages = assemble(pages, AssemblyConfig(text_format, merge, keep))  # type: ignore[arg-type]
    told = [ref for passage in passages for ref in passage.sources]
    assert len(told) == len(set(told))
    shown = [(one, item) for one in pages for item in one.regions if keep or item.label not in DROPPED]
    for one, item in shown:
        if item.content.strip() or item.status != "ok" or item.task is None:
            assert RegionRef(one.index, item.index) in told
    written = _letters(" ".join(passage.markdown for passage in passages))
    for passage in passages:
        assert passage.markdown.strip() and passage.furniture == (passage.label in DROPPED)
    for one, item in shown:
        for word in item.content.split() if item.label not in ("table", "formula_number") else ():
            assert _letters(word) in written, (one.index, item)


def _letters(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())


def test_a_documents_markdown_is_its_passages() -> None:
    pages = (page(0, region(0, "One and")), page(1, region(0, "two.")))
    document = Document("x.pdf", "ok", pages, passages=assemble(pages))
    assert document.markdown == "One and two.\n"


FRAGMENTS = (
    "a", "Zb", "7", "$", "\\$", "$$", "`", "```", "\n", "\n\n", " ", "<div>", "</div>", "<x>", "# ", "- ", "•",
    "\\theta ", "(1)", "1.", "|", "*", "_", "-", "~~~", "<!--", "<table>", "</td>", "。", "我",
)  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=25).map("".join), LABELS, st.booleans())
def test_no_letter_of_any_text_is_lost(content: str, label: Label, is_markdown: bool) -> None:
    config = AssemblyConfig("markdown" if is_markdown else "plain", keep_furniture=True)
    passages = assemble([page(0, region(0, content, label))], config)
    written = "".join(passage.markdown for passage in passages)
    left = iter(_letters(written))
    assert TASKS[label] is None or all(letter in left for letter in _letters(content))


def test_a_detector_without_a_class_for_formula_numbers_gets_tags_too() -> None:
    formula = region(0, "a = b", "formula", box=Box(300, 100, 700, 160))
    number = region(1, "(2.3)", box=Box(850, 120, 900, 140))
    (passage,) = assemble([page(0, formula, number)])
    assert passage.markdown == "$$\na = b \\tag{2.3}\n$$" and sources(passage) == [(0, 0), (0, 1)]
    assert len(assemble([page(0, formula, number)], AssemblyConfig("markdown", mends=()))) == 2
