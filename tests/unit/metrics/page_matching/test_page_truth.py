"""Annotations read as targets: ignored ones, parts of one paragraph, and places in the reading order."""

from __future__ import annotations

import json

import pytest
from tests.omnidoc_pages import FORMULA, TABLE, full_page, item, page, text

from gravityocr.errors import InputError
from gravityocr.metrics.omnidocbench_summary import page_record
from gravityocr.metrics.page_matching.page_truth import check_page, odd_orders, read_page


def test_a_page_has_texts_formulas_and_tables_in_reading_order() -> None:
    truth = read_page(full_page())
    assert truth.image_name == "tower.jpg"
    assert truth.attributes == {"language": "english", "layout": "single_column"}
    # Blocks without a place in the order come first, by their category.
    assert [target.category for target in truth.mixed[:3]] == ["header", "page_number", "title"]
    assert [target.order for target in truth.mixed] == [None, None, 1, 2, 4, 5, 6]
    assert [target.order for target in truth.tables] == [3, 7]
    assert [target.content for target in truth.formulas] == [FORMULA]
    assert truth.tables[0].content == TABLE


def test_other_categories_and_ignored_blocks_are_left_out() -> None:
    truth = read_page(page(item("figure", "", 1), item("abandon", "x", 2), text("a", 3, ignore=True), text("b", 4)))
    assert [target.content for target in truth.mixed] == ["b"]
    assert truth.tables == []


def test_parts_of_a_paragraph_are_joined_in_order_at_the_place_of_the_first() -> None:
    parts = [text("c", 5, anno_id="c"), text("a", 1, anno_id="a"), text("b", 3, anno_id="b"), text("d", 2)]
    truth = read_page(page(*parts, truncated=(("a", "b"), ("b", "c"))))
    assert [(target.content, target.order) for target in truth.mixed] == [("abc", 1), ("d", 2)]


def test_two_chains_that_meet_are_one_paragraph() -> None:
    parts = [text(name, i, anno_id=name) for i, name in enumerate("abcd", 1)]
    truth = read_page(page(*parts, truncated=(("a", "b"), ("c", "d"), ("b", "c"))))
    assert [target.content for target in truth.mixed] == ["abcd"]


def test_a_paragraph_is_ignored_with_any_of_its_parts() -> None:
    parts = [text("a", 1, anno_id="a"), text("b", 2, anno_id="b", ignore=True)]
    assert read_page(page(*parts, truncated=(("a", "b"),))).mixed == []


def test_parts_that_are_missing_are_no_parts() -> None:
    truth = read_page(page(text("a", 1, anno_id="a"), truncated=(("a", "gone"), ("never", "there"))))
    assert [target.content for target in truth.mixed] == ["a"]


def test_relations_of_other_kinds_join_nothing() -> None:
    of = page(text("a", 1), text("b", 2))
    of["extra"]["relation"] = [{"relation_type": "parent_son", "source_anno_id": 1, "target_anno_id": 2}]
    assert [target.content for target in read_page(of).mixed] == ["a", "b"]


def test_joined_paragraphs_lose_their_attributes_and_others_keep_them() -> None:
    language = {"text_language": "text_english"}
    parts = [text("a", 1, attribute=language), text("b", 2, attribute=language), text("c", 3, attribute=language)]
    truth = read_page(page(*parts, truncated=((1, 2),)))
    assert [target.attributes for target in truth.mixed] == [{}, language]


@pytest.mark.parametrize(
    "missing", [{"text": None}, {"text": None, "order": None}, {"order": "3"}, {"attribute": None}]
)
def test_what_may_be_missing_of_a_block_may_be_missing(missing: dict) -> None:
    (target,) = read_page(page(text("a", 1) | missing)).mixed
    assert target.content == ("" if "text" in missing else "a")
    assert target.attributes == {}
    assert target.order in (None, 1)


def test_a_page_without_relations_is_a_page() -> None:
    bare = page(text("a", 1))
    for extra in (None, {}, {"relation": None}):
        assert len(read_page({**bare, "extra": extra}).mixed) == 1
    del bare["extra"]
    assert len(read_page(bare).mixed) == 1


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"page_info": {"image_path": "a.jpg"}},
        {"page_info": {}, "layout_dets": []},
        {"page_info": None, "layout_dets": []},
        {"page_info": {"image_path": "a.jpg"}, "layout_dets": None},
        {"page_info": {"image_path": "a.jpg"}, "layout_dets": [], "extra": {"relation": [{"relation_type": "x"}, 3]}},
        [],
        page(text("a", 1), truncated=(([1], [2]),)),
        page(text("a", 1) | {"category_type": []}),
        page(text("a", 1) | {"attribute": "red"}),
        page(text("a", 1)) | {"layout_dets": {}},
        page(text("a", 1)) | {"layout_dets": None},
        page(text("a", 1), text("b", 2), truncated=((1, [2]),)),
    ],
)
def test_what_is_no_page_is_refused(broken) -> None:
    with pytest.raises(InputError, match="expected OmniDocBench's JSON"):
        read_page(broken)


NO_PLACES = [float("nan"), float("inf"), float("-inf"), 10**400, -(10**400), 10**5000, 1e300, "3", True, [1], {}]


@pytest.mark.parametrize("order", NO_PLACES, ids=lambda order: repr(order)[:20] if not isinstance(order, int) else "n")
def test_an_order_that_is_no_place_is_none_and_the_rest_is_scored(order) -> None:
    parts = [text("b", order, anno_id="b"), text("a", 4, anno_id="a")]
    truth = read_page(page(text("c", order, anno_id="c"), text("d", 2), *parts, truncated=(("a", "b"),)))
    assert [(target.content, target.order) for target in truth.mixed] == [("c", None), ("ba", None), ("d", 2)]


def test_orders_that_are_no_places_are_told_with_their_block() -> None:
    of = page(text("a", 1), text("b", None), text("c", float("inf")), text("d", 10**5000, anno_id=None), text("e", 0))
    del of["layout_dets"][2]["anno_id"]
    first, second = odd_orders(of)
    assert first == "block 3: its order ('inf') is no number of a place and counts as none"
    assert second.startswith("block 4: its order ('a number of 16610 bits')")


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (3, "block 2: is no object"),
        (None, "block 2: is no object"),
        ({"anno_id": 7}, r"block 2 \(anno_id 7\): has no category_type"),
        ({"category_type": None}, "block 2: has no category_type"),
        *[
            (text("b", 2, anno_id="x", ignore=value), rf"block 2 \(anno_id 'x'\): ignore is {shown}, neither")
            for value, shown in ((0, "0"), (1, "1"), ("false", "'false'"), ([], r"\[\]"), (float("nan"), "'nan'"))
        ],
        ({"category_type": "table", "html": 3}, "block 2: html is no string"),
        ({"category_type": "equation_isolated", "latex": ["x"]}, "block 2: latex is no string"),
        ({"category_type": "title", "text": {}}, "block 2: text is no string"),
        ({"category_type": "title", "anno_id": [1]}, "block 2: anno_id is no number or string"),
        ({"category_type": "title", "attribute": "red"}, "block 2: attribute is no object"),
    ],
)
def test_a_block_that_is_none_is_named_with_its_page(block, message) -> None:
    of = page(text("a", 1)) | {"layout_dets": [text("a", 1), block]}
    for read in (read_page, check_page):
        with pytest.raises(InputError, match=rf"^folder/tower\.jpg, {message}.*expected OmniDocBench's JSON"):
            read(of)


@pytest.mark.parametrize("ignore", [None, False])
def test_a_block_that_does_not_say_ignore_counts(ignore) -> None:
    assert len(read_page(page(text("a", 1, ignore=ignore))).mixed) == 1


@pytest.mark.parametrize(
    "number", [float("nan"), float("inf"), 10**400, 10**5000], ids=["nan", "inf", "long", "longer"]
)
def test_records_hold_what_every_reader_of_json_takes(number) -> None:
    attributes = {"layout": number, "more": [number, {"x": number}]}
    of = page(
        text("a", number, attribute=attributes),
        item("table", "<table><tr><td>x</td></tr></table>", number, attribute=attributes),
        item("equation_isolated", "$$x$$", number, attribute=attributes),
        **attributes,
    )
    record = page_record(of, "a\n\n$$x$$\n\n<table><tr><td>x</td></tr></table>")
    assert json.loads(json.dumps(record, allow_nan=False)) == json.loads(json.dumps(record))
    assert record["modes"]["ours"]["text_edit"] == 0.0 and record["modes"]["ours"]["teds"] == 1.0
