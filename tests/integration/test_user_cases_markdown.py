"""Users' cases 16 to 21: what was read becomes Markdown, and nothing of it is lost, doubled or mangled."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from lxml import html
from tests.chat_double import completion
from tests.unit.pipeline.scripted import ScriptedDetector
from tests.user_case_inputs import Outcome, Script, cli, rows_of_boxes, serving

from gravityocr.commands import parse_readers
from gravityocr.document import Document, Label, Recognition, RegionRef
from gravityocr.pipeline.assembly import AssemblyConfig
from gravityocr.pipeline.convert import PipelineConfig
from gravityocr.pipeline.exports import document_json

FORMATS = ["plain", "markdown"]


def parse(tmp_path: Path, pages: list[list[tuple[Label, str]]], **assembly: Any) -> Document:
    """Parse a document whose regions, from top to bottom of each page, say what the test says."""
    boxes = rows_of_boxes(tmp_path / "a.pdf", *([label for label, _ in page] for page in pages))
    config = PipelineConfig(assembly=AssemblyConfig(**assembly))
    return Script(boxes, [said for page in pages for _, said in page], config).parse(tmp_path / "a.pdf")


def said(document: Document) -> str:
    """Return the Markdown without the escapes that protect plain text."""
    return re.sub(r"\\(?=[!-/:-@\[-`{-~])", "", document.markdown)


def grid(markdown: str) -> list[list[list[str]]]:
    """Return the cells of every table of a Markdown text."""
    tables = html.fromstring(f"<div>{markdown}</div>").iter("table")
    return [
        [["".join(cell.itertext()) for cell in row.iter("td", "th")] for row in table.iter("tr")] for table in tables
    ]


def table(*rows: list[str], tag: str = "td", head: list[str] | None = None) -> str:
    lines = [("th", head)] if head else []
    lines += [(tag, row) for row in rows]
    return "<table>" + "".join(
        "<tr>" + "".join(f"<{name}>{cell}</{name}>" for cell in cells) + "</tr>" for name, cells in lines
    ) + "</table>"  # fmt: skip


@pytest.mark.parametrize("text_format", FORMATS)
def test_case_16_a_loop_is_cut_and_flagged_and_its_tail_stays(tmp_path: Path, text_format: str) -> None:
    """200 rounds of a sentence. What the engine itself cuts: unit/engine/test_loops.py."""
    loop = "Before it all began. " + "The same words come again and again. " * 200 + "The end was worth waiting for."
    document = parse(tmp_path, [[("text", loop), ("text", "A neighbour.")]], text_format=text_format)
    region, neighbour = document.pages[0].regions
    assert region.status == "loop_cut" and region.error and neighbour.status == "ok"
    assert document.status == "partial" and document.pages[0].status == "partial"
    text = said(document)
    assert "Before it all began." in text and "The end was worth waiting for." in text and "A neighbour." in text
    assert 1 <= text.count("The same words") <= 3


def parse_by_cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: list[list[tuple[Label, str]]], *more: str
) -> tuple[Outcome, str, dict[str, Any]]:
    """Parse by the command line, a server reading; return what it left, the Markdown and the JSON."""
    boxes = rows_of_boxes(tmp_path / "a.pdf", *([label for label, _ in page] for page in pages))
    monkeypatch.setattr(parse_readers, "build_detector", lambda *_args, **_more: ScriptedDetector(*boxes))
    answers = iter([text for page in pages for _, text in page])
    with serving(lambda _request, _number: completion(next(answers))) as double:
        asked = [tmp_path / "a.pdf", "-o", tmp_path / "out", "--server", double.url, "--set", "server.n_parallel=1"]
        outcome = cli("parse", *asked, "--json", *more)
    folder = tmp_path / "out" / "a"
    return outcome, (folder / "a.md").read_text("utf-8"), json.loads((folder / "a.json").read_text("utf-8"))


def test_case_16_a_server_that_loops_is_cut_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = "It began. " + "Again and again the same. " * 200 + "It ended well."
    outcome, markdown, written = parse_by_cli(tmp_path, monkeypatch, [[("text", loop), ("text", "A neighbour.")]])
    assert outcome.code == 1 and outcome.files["a.pdf"]["status"] == "partial" and "a.pdf" in outcome.stderr
    assert [region["status"] for region in written["pages"][0]["regions"]] == ["loop_cut", "ok"]
    assert "It began." in markdown and "It ended well." in markdown and markdown.count("Again and again") <= 3


@pytest.mark.parametrize("text_format", FORMATS)
def test_case_16_what_repeats_for_a_reason_is_left_alone(tmp_path: Path, text_format: str) -> None:
    """30 equal rows of a table, the dots of a table of contents, the lines of a form, short items."""
    rows = table(*[["n/a", "0.00", "yes"]] * 30, head=["name", "value", "seen"])
    dots = "Introduction " + ". " * 60 + "7\nMethod " + "." * 150 + "12\nName: " + "_" * 80
    items = "\n".join(["- yes"] * 12)
    document = parse(tmp_path, [[("table", rows), ("text", dots), ("list", items)]], text_format=text_format)
    assert document.status == "ok" and {region.status for region in document.pages[0].regions} == {"ok"}
    ((head, *body),) = grid(document.markdown)
    assert head == ["name", "value", "seen"] and body == [["n/a", "0.00", "yes"]] * 30
    assert document.markdown.count("yes") == 30 + 12
    text = said(document)
    assert "." * 150 + "12" in text and "_" * 80 in text and text.count(". ") >= 59


@pytest.mark.parametrize("text_format", FORMATS)
def test_case_17_numbers_and_initials_are_unchanged(tmp_path: Path, text_format: str) -> None:
    kept = ["3.14 is less than pi.", "A.B. Smith and C. D. Jones wrote it.", "See 7.4.1 and v2.0.3 of it."]
    document = parse(tmp_path, [[("text", line) for line in kept]], text_format=text_format, merge=False)
    for line in kept:
        assert line in said(document)
    document = parse(tmp_path, [[("list", "1)item one\n2)item two\n3)item three")]], text_format=text_format)
    assert re.findall(r"(\d\)) (item \w+)", said(document)) == [
        ("1)", "item one"),
        ("2)", "item two"),
        ("3)", "item three"),
    ]


@pytest.mark.parametrize("text_format", FORMATS)
def test_case_18_currency_is_escaped_and_formulas_are_tight(tmp_path: Path, text_format: str) -> None:
    document = parse(tmp_path, [[("text", "It costs $5 and $6 where $ x^2 $ holds.")]], text_format=text_format)
    assert document.markdown == "It costs \\$5 and \\$6 where $x^2$ holds.\n"
    alone = parse(tmp_path, [[("text", "From $1,000 to $2,500.")]], text_format=text_format)
    assert alone.markdown == "From \\$1,000 to \\$2,500.\n"


@pytest.mark.parametrize("text_format", FORMATS)
def test_case_19_tables_keep_their_grid_and_are_escaped_once(tmp_path: Path, text_format: str) -> None:
    """Spans, an empty column, and cells with every sign that means something to Markdown or HTML."""
    source = (
        '<table><tr><th colspan="2">a_b | c*d</th><th></th><th>&lt;b&gt;</th></tr>'
        '<tr><td rowspan="2">R&amp;D</td><td>x_1 | y_2</td><td></td><td>1 &lt; 2</td></tr>'
        "<tr><td>`code`</td><td></td><td><b>bold</b> $5</td></tr></table>"
    )
    document = parse(tmp_path, [[("table", source)]], text_format=text_format)
    tree = html.fromstring(document.markdown)
    cells = [[(c.tag, c.get("rowspan"), c.get("colspan")) for c in row.iter("td", "th")] for row in tree.iter("tr")]
    assert cells == [
        [("th", None, "2"), ("th", None, None), ("th", None, None)],
        [("td", "2", None), ("td", None, None), ("td", None, None), ("td", None, None)],
        [("td", None, None), ("td", None, None), ("td", None, None)],
    ]
    assert grid(document.markdown) == [
        [["a_b | c*d", "", "<b>"], ["R&D", "x_1 | y_2", "", "1 < 2"], ["`code`", "", "bold $5"]]
    ]
    assert (
        "&amp;amp;" not in document.markdown
        and "&amp;lt;" not in document.markdown
        and "<b>bold</b>" in document.markdown
    )
    assert "\n\n" not in document.markdown.strip()  # a blank line ends a table for Markdown
    assert document.pages[0].regions[0].content == source


def test_case_19_a_broken_table_stays_visible(tmp_path: Path) -> None:
    """Cut in the middle of a tag, it takes no text behind it along."""
    broken = "<table><tr><td>one</td><td>two</td></tr><tr><td>three</t"
    document = parse(tmp_path, [[("table", broken), ("text", "Behind it.")]])
    root = html.fromstring(f"<div>{document.markdown}</div>")
    assert "Behind it." in document.markdown and "Behind it." not in "".join(next(root.iter("table")).itertext())
    assert all(word in document.markdown for word in ("one", "two", "three"))


HEAD = ["Name", "Weight", "Price"]
PARTS = [[[f"item {page}{row}", str(10 * page + row), f"{row}.50"] for row in range(4)] for page in range(3)]


@pytest.mark.parametrize("head_tag", ["th", "td"])
def test_case_20_a_table_over_three_pages_is_one(tmp_path: Path, head_tag: str) -> None:
    """Its header once, every row once, and where each part came from; page furniture in between is no obstacle."""
    whole = [table(HEAD, *part) if head_tag == "td" else table(*part, head=HEAD) for part in PARTS]
    footer: tuple[Label, str] = ("page_number", "7")
    pages: list[list[tuple[Label, str]]] = [
        [("text", "An introduction that ends here."), ("table", whole[0]), footer],
        [("header", "Annual report"), ("table", whole[1]), footer],
        [("header", "Annual report"), ("table", whole[2]), ("text", "After the table.")],
    ]
    document = parse(tmp_path, pages)
    (passage,) = [one for one in document.passages if one.kind == "table"]
    assert grid(document.markdown) == [[HEAD, *PARTS[0], *PARTS[1], *PARTS[2]]]
    found = [ref for page in document.pages for ref in _tables_of(page)]
    assert list(passage.sources) == found and len(found) == 3
    (written,) = [one for one in document_json(document)["passages"] if one["kind"] == "table"]
    assert [source["page"] for source in written["sources"]] == [1, 2, 3]
    kept = [region.content for page in document.pages for region in page.regions if region.label == "table"]
    assert kept == whole  # the parts as they were read stay in the JSON
    text = said(document)
    assert text.index("An introduction") < text.index("<table") < text.index("After the table.")


def _tables_of(page: Any) -> list[RegionRef]:
    return [RegionRef(page.index, region.index) for region in page.regions if region.label == "table"]


def test_case_20_no_merge_leaves_all_parts(tmp_path: Path) -> None:
    pages: list[list[tuple[Label, str]]] = [[("table", table(*part, head=HEAD))] for part in PARTS]
    document = parse(tmp_path, pages, merge=False)
    assert grid(document.markdown) == [[HEAD, *part] for part in PARTS]
    assert all(len(passage.sources) == 1 for passage in document.passages)


def test_case_20_the_command_line_merges_unless_told_not_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[list[tuple[Label, str]]] = [[("table", table(*part, head=HEAD))] for part in PARTS]
    outcome, markdown, written = parse_by_cli(tmp_path, monkeypatch, pages)
    assert outcome.code == 0 and grid(markdown) == [[HEAD, *PARTS[0], *PARTS[1], *PARTS[2]]]
    assert [[source["page"] for source in one["sources"]] for one in written["passages"]] == [[1, 2, 3]]
    outcome, markdown, _ = parse_by_cli(tmp_path, monkeypatch, pages, "--no-merge")
    assert outcome.code == 0 and grid(markdown) == [[HEAD, *part] for part in PARTS]


UNSAFE: dict[str, list[list[tuple[Label, str]]]] = {
    "another number of columns": [
        [("table", table(*PARTS[0], head=HEAD))],
        [("table", table(["only", "two"], ["of", "them"]))],
    ],
    "another header": [
        [("table", table(*PARTS[0], head=HEAD))],
        [("table", table(*PARTS[1], head=["City", "Rain", "Wind"]))],
    ],
    "text in between": [
        [("table", table(*PARTS[0], head=HEAD)), ("text", "The next table is another one.")],
        [("table", table(*PARTS[1], head=HEAD))],
    ],
    "two of one page": [[("table", table(*PARTS[0], head=HEAD)), ("table", table(*PARTS[1], head=HEAD))]],
    "a page without a table in between": [
        [("table", table(*PARTS[0], head=HEAD))],
        [("text", "A page of text that has nothing to do with it.")],
        [("table", table(*PARTS[1], head=HEAD))],
    ],
    "a span over the seam": [
        [("table", '<table><tr><td rowspan="3">A</td><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></table>')],
        [("table", table(*PARTS[1]))],
    ],
}


@pytest.mark.parametrize("name", UNSAFE)
def test_case_20_where_unsafe_all_parts_stay(tmp_path: Path, name: str) -> None:
    document = parse(tmp_path, UNSAFE[name])
    sources = [said for page in UNSAFE[name] for label, said in page if label == "table"]
    assert grid(document.markdown) == [grid(one)[0] for one in sources]


FURNISHED: list[tuple[Label, str]] = [
    ("header", "Journal of Tests"), ("text", "The body of the page."), ("footnote", "1 A note that counts."),
    ("footer", "All rights reserved"), ("page_number", "17"),
]  # fmt: skip


def test_case_21_the_command_line_keeps_furniture_where_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, markdown, written = parse_by_cli(tmp_path, monkeypatch, [FURNISHED])
    assert outcome.code == 0 and "Journal" not in markdown and "The body" in markdown
    assert {region["content"] for region in written["pages"][0]["regions"]} == {text for _, text in FURNISHED}
    outcome, markdown, _ = parse_by_cli(tmp_path, monkeypatch, [FURNISHED], "--keep-furniture")
    assert outcome.code == 0 and all(text in markdown for _, text in FURNISHED)


def test_case_21_furniture_is_left_out_kept_in_json_and_restorable(tmp_path: Path) -> None:
    page = FURNISHED
    words = [said for _, said in page]
    furniture = {"Journal of Tests", "All rights reserved", "17"}
    default = parse(tmp_path, [page])
    assert [word for word in words if word in said(default)] == [word for word in words if word not in furniture]
    regions = document_json(default)["pages"][0]["regions"]
    assert {(region["label"], region["content"]) for region in regions} == set(page)
    kept = parse(tmp_path, [page], keep_furniture=True)
    text = said(kept)
    assert [text.index(word) for word in words] == sorted(text.index(word) for word in words)  # each in its place
    assert {passage.markdown for passage in kept.passages if passage.furniture} == furniture
    assert not any(passage.furniture for passage in default.passages)


def test_case_21_a_failed_region_leaves_its_mark(tmp_path: Path) -> None:
    """What the SDK's formatter drops without a word is named."""
    script = Script(
        rows_of_boxes(tmp_path / "b.png", ["text", "text"]), [Recognition("", "failed", "no more slots"), "After."]
    )
    document = script.parse(tmp_path / "b.png")
    assert document.status == "partial" and "no more slots" in document.markdown and "After." in document.markdown
