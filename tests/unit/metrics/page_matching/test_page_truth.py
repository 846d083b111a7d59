"""Annotations read as targets: ignored ones, parts of one paragraph, and places in the reading order."""

from __future__ import annotations

import pytest
from tests.omnidoc_pages import FORMULA, TABLE, full_page, item, page, text

from gravityocr.errors import InputError
from gravityocr.metrics.page_matching.page_truth import read_page


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
        page(text("a", 1), text("b", "2"), truncated=((1, "2"),)),
    ],
)
def test_what_is_no_page_is_refused(broken) -> None:
    with pytest.raises(InputError, match="expected OmniDocBench's JSON"):
        read_page(broken)
