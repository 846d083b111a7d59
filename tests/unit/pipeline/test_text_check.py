"""What a text layer says of each region, and how far a page's reading is from it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.born_digital import make_pages
from hypothesis import given
from hypothesis import strategies as st

from gravityocr.document import Box, Page, PlacedText, Region, Task
from gravityocr.errors import ConfigError
from gravityocr.pipeline.source import SourceConfig, iter_pages
from gravityocr.pipeline.text_check import (
    TextCheckConfig,
    comparable,
    page_distance,
    region_text,
    with_text_layer,
)
from gravityocr.pipeline.text_check_latex import plain_math

WIDE, TALL, PITCH = 10.0, 20.0, 30.0
EVERYWHERE = Box(0, 0, 999, 999)


def place(lines: list[str], x: float = 100, y: float = 100, slope: float = 0.0) -> list[PlacedText]:
    """Set lines of words as a text layer has them."""
    words = []
    for row, line in enumerate(lines):
        at = x
        for text in line.split():
            top = y + PITCH * row + slope * (at - x)
            words.append(PlacedText(text, Box(at, top, at + WIDE * len(text), top + TALL)))
            at += WIDE * (len(text) + 1)
    return words


def region(content: str = "", box: Box = EVERYWHERE, task: Task | None = "text", **more: str) -> Region:
    label = {"table": "table", "formula": "formula", None: "figure"}.get(task, "text")
    return Region(0, label, "native", task, box, content, **more)  # type: ignore[arg-type]


PARAGRAPH = ["The quick brown fox jumps", "over the lazy dog and hydrody-", "namical waves."]


def test_lines_from_top_to_bottom_whatever_the_layers_order() -> None:
    words = place(PARAGRAPH)
    assert region_text(words, Box(90, 90, 900, 900)) == "\n".join(PARAGRAPH)
    random.Random(0).shuffle(words)
    assert region_text(words, Box(90, 90, 900, 900)) == "\n".join(PARAGRAPH)


def test_no_word_in_the_box_is_none_not_empty() -> None:
    assert region_text(place(PARAGRAPH), Box(0, 0, 50, 50)) is None
    assert region_text([], Box(0, 0, 50, 50)) is None


def test_a_word_cut_by_the_edge_belongs_where_its_middle_is() -> None:
    words = place(["abcdefghij klm"])
    assert region_text(words, Box(160, 0, 900, 900)) == "klm"
    assert region_text(words, Box(140, 0, 900, 900)) == "abcdefghij klm"


@pytest.mark.parametrize("slope", [0.02, -0.02])
def test_lines_of_a_slope_do_not_mix(slope: float) -> None:
    lines = [f"{row} " + " ".join(["word"] * 16) for row in "abcdef"]
    assert region_text(place(lines, slope=slope), Box(0, 0, 2000, 900)) == "\n".join(lines)


def test_small_and_tall_words_stand_in_their_lines() -> None:
    words = place(["   he value x of the", "second line here"], x=130)
    words += [
        PlacedText("T", Box(100, 100, 125, 150)),  # an initial over two lines
        PlacedText("2", Box(221, 92, 228, 102)),  # an exponent after x
    ]
    words.sort(key=lambda word: word.box.x0)
    text = region_text(words, Box(0, 0, 900, 900))
    assert text is not None
    assert text.split("\n")[0].startswith("T he value x") and "2" in text.split("\n")[0]
    assert text.split("\n")[1] == "second line here"


def test_words_of_odd_heights_only() -> None:
    words = [PlacedText("a", Box(0, 0, 5, 5)), PlacedText("B", Box(10, 0, 60, 50))]
    assert region_text(words, Box(0, 0, 99, 99)) == "a B"


def test_columns_in_one_region_keep_the_layers_order() -> None:
    left, right = place(["aa bb", "cc dd", "ee ff"]), place(["gg hh", "ii jj", "kk ll"], x=400)
    page = Box(0, 0, 999, 999)
    assert region_text([*left, *right], page) == "aa bb\ncc dd\nee ff\ngg hh\nii jj\nkk ll"
    (table,) = with_text_layer([region(box=page, task="table")], [*left, *right])
    assert table.text_layer == "aa bb gg hh\ncc dd ii jj\nee ff kk ll"


def test_vertical_and_arabic_text_keep_the_layers_order() -> None:
    upright = [PlacedText("日本語", Box(300, 0, 320, 60)), PlacedText("文字列", Box(270, 0, 290, 60))]
    assert region_text(upright, Box(0, 0, 999, 999)) == "日本語 文字列"
    arabic = [PlacedText("سلام", Box(200, 0, 240, 20)), PlacedText("عليكم", Box(100, 0, 150, 20))]
    assert region_text(arabic, Box(0, 0, 999, 999)) == "سلام عليكم"


def test_every_word_is_in_one_region_the_smallest() -> None:
    words = place(["outer words", "inner words"])
    outer, inner = region(box=Box(0, 0, 900, 900)), region(box=Box(90, 125, 400, 160))
    nowhere = region(box=Box(800, 800, 900, 900))
    texts = [one.text_layer for one in with_text_layer([outer, inner, nowhere], words)]
    assert texts == ["outer words", "inner words", None]


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(1, 80), st.integers(1, 60)), max_size=25)
)
def test_no_word_is_lost_or_told_twice(raw: list[tuple[int, int, int, int]]) -> None:
    words = [PlacedText(f"w{k}", Box(x, y, x + w, y + h)) for k, (x, y, w, h) in enumerate(raw)]
    text = region_text(words, Box(0, 0, 700, 700)) or ""
    assert sorted(text.split()) == sorted(word.text for word in words)


@pytest.mark.parametrize(
    ("read", "layer"),
    [
        ("hydrodynamical waves", "hydrody-\nnamical waves"),
        ("a well-known fact", "a well-\nknown fact"),
        ("the efficient ﬁeld", "the eﬃcient field"),
        ("x² and $ x^{2} $", "x2 and x2"),
        (r"$ \alpha_{1} \leq \mathrm{max}\,\beta $", "α1 ≤ max β"),
        (r"\( E = mc^2 \) costs 5\%", "E = mc2 costs 5%"),
        ("## **Title** of *it*", "Title of it"),
        ("- one\n- two", "• one\n• two"),
        ("it’s “so” – yes", 'it\'s "so" - yes'),
        ("a&amp;b H<sub>2</sub>O", "a&b H2O"),
        ("𝑀 = 0", "M = 0"),
        ("![](images/a.png)", ""),
    ],
)
def test_what_layout_and_markup_do_is_no_difference(read: str, layer: str) -> None:
    assert comparable(read) == comparable(layer)


@pytest.mark.parametrize(
    ("read", "layer"), [("Polish", "polish"), ("1-2", "12"), ("5 < 6", "5 > 6"), ("a.b", "ab"), ("−5", "5"), ("é", "e")]
)
def test_what_a_reader_would_see_is_a_difference(read: str, layer: str) -> None:
    assert comparable(read) != comparable(layer)


@pytest.mark.parametrize("text", ["\\", "\\\\", "$", "{}", "a\\begin{x", "<", "&#0;", "<sup", "\ud800"])
def test_broken_markup_is_no_error(text: str) -> None:
    comparable(text)
    plain_math(text)


def with_layer(content: str, layer: str | None, task: Task | None = "text") -> Region:
    return replace(region(content, task=task), text_layer=layer)


def test_the_distance_adds_up_over_the_page() -> None:
    same, other = with_layer("abcdefgh", "abcd efgh"), with_layer("wxyz", "wxYZ")
    assert page_distance([same]) == 0
    assert page_distance([same, other]) == pytest.approx(2 / 12)


def test_a_scan_is_not_compared() -> None:
    assert page_distance([region("text of a scan")]) is None
    assert page_distance([]) is None
    assert not TextCheckConfig().disagrees(Page(0, (9, 9)))


def test_formulas_pictures_and_what_was_not_read_are_left_out() -> None:
    left_out = [
        with_layer("\\frac{a}{b}", "a b", "formula"),
        with_layer("", "words in a picture", None),
        replace(with_layer("", "unread"), status="failed"),
        replace(with_layer("", "unclaimed"), status="skipped"),
    ]
    assert page_distance(left_out) is None
    assert page_distance([*left_out, with_layer("abcd", "abcd")]) == 0
    assert page_distance([replace(with_layer("", "abcd"), status="truncated")]) == 1


def test_tables_compare_by_their_cells() -> None:
    html = "<table><tr><td colspan='2'>Head A</td></tr><tr><td>1.5</td><td>2.5</td></tr></table>"
    assert page_distance([with_layer(html, "Head A\n1.5 2.5", "table")]) == 0
    assert page_distance([with_layer(html, "1.5\n2.5\nHead A", "table")]) == 0  # column by column
    wrong = page_distance([with_layer(html, "Head A\n1.7 9.5", "table")])
    assert wrong is not None and wrong == pytest.approx(2 / 11)


def test_words_that_no_region_holds_count_as_not_read() -> None:
    words = place(["stray words"], x=2000)
    assert page_distance([with_layer("abcdefghij", "abcdefghij")], words) == 0.5
    assert page_distance([], words) == 1
    assert page_distance([region("read")], []) is None


def shifted(text: str) -> str:
    """Write what a font with a wrong map to Unicode says."""
    return "".join(chr(ord(char) + 3) if char.isalpha() else char for char in text)


@pytest.mark.parametrize(
    "layer",
    [
        shifted("The quick brown fox jumps over the lazy dog."),
        "(cid:55)(cid:75)(cid:72)(cid:3)(cid:84)(cid:88)(cid:76)(cid:70)(cid:78)",
        "Быстрая коричневая лиса прыгает через ленивую собаку.",
        "The qulck hrown tox jurnps ovcr thc lazv dcg.",
    ],
)
def test_a_layer_of_garbage_is_reported_and_not_taken(layer: str) -> None:
    read = "The quick brown fox jumps over the lazy dog."
    regions = [with_layer(read, layer)]
    page = Page(3, (999, 999), tuple(regions), text_layer_ned=page_distance(regions))
    config = TextCheckConfig()
    assert config.disagrees(page)
    note = config.note(page)
    assert note is not None and note.startswith("page 4: ")
    assert page.regions[0].content == read


def test_the_bound_is_where_it_is_set() -> None:
    page = Page(0, (9, 9), text_layer_ned=0.2)
    assert TextCheckConfig().disagrees(page) and not TextCheckConfig(max_ned=0.2).disagrees(page)
    assert TextCheckConfig(max_ned=0.2).note(page) is None
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(ConfigError, match=r"text_check.max_ned"):
            TextCheckConfig(max_ned=wrong)


def test_very_long_texts_are_compared_in_parts() -> None:
    text = "abcdefghij" * 2000
    assert page_distance([with_layer(text, text)]) == 0
    distance = page_distance([with_layer(text, text[::-1])])
    assert distance is not None and 0.3 < distance <= 1


def test_a_born_digital_page_agrees_with_itself(tmp_path: Path) -> None:
    """Read a page by its own words, joined as a recognizer would, and find no difference; and all with other words."""
    path = tmp_path / "born.pdf"
    path.write_bytes(make_pages(1))
    source = next(iter(iter_pages(path, config=SourceConfig(dpi=100, text_layer=True))))
    assert source.image is not None and source.words
    whole = region(box=Box(0, 0, *map(float, source.image.size)))
    (told,) = with_text_layer([whole], source.words)
    assert told.text_layer is not None
    read = told.text_layer.replace("-\n", "").replace("\n", " ")
    assert page_distance([replace(told, content=read)], source.words) == 0
    other = page_distance([replace(told, content=shifted(read))], source.words)
    assert other is not None and other > 0.5
