"""Captions beside what they are of."""

from __future__ import annotations

import pytest

from gravityocr.document import Box, Document, Label, Page, Passage, PassageKind, Region, RegionRef
from gravityocr.pipeline.export.captions import captions
from gravityocr.pipeline.export.document import Places

KINDS: dict[str, tuple[PassageKind, Label]] = {
    "t": ("table", "table"), "f": ("figure", "figure"), "x": ("text", "text"), "k": ("code", "code"),
    "c": ("text", "caption"), "n": ("text", "footnote"),
}  # fmt: skip


def found(*items: str, native: str = "", pages: tuple[int, ...] = ()) -> dict[int, int]:
    """`items` are a letter of KINDS and the text."""
    passages, regions = [], []
    for number, item in enumerate(items):
        kind, label = KINDS[item[0]]
        name = native if label == "footnote" else label
        regions.append(Region(number, label, name, None, Box(0, 0, 1, 1), item[2:]))
        page = pages[number] if pages else 0
        passages.append(Passage(kind, item[2:], (RegionRef(page, number),), label, item[2:]))
    document = Document(
        "a", "ok", tuple(Page(page, (1, 1), tuple(regions)) for page in {*pages, 0}), passages=tuple(passages)
    )
    return captions(passages, Places(document))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (("c Table 1: a", "t ", "c Table 2: b", "t "), {0: 1, 2: 3}),
        (("f ", "c Figure 1: a", "f ", "c Fig. 2: b"), {1: 0, 3: 2}),
        (("t ", "c Figure 1: a", "f "), {1: 2}),
        (("f ", "c 图1", "c Figure 1"), {1: 0, 2: 0}),
        (("x a", "c Figure 1", "x b"), {}),
        (("f ", "x between", "c Figure 1"), {}),
        (("f ", "c no word of its own"), {1: 0}),
        (("c Algorithm 1", "k x = 1"), {0: 1}),
        (("t ", "n Source: us"), {}),
    ],
)  # fmt: skip
def test_captions_find_what_they_are_of(items: tuple[str, ...], expected: dict[int, int]) -> None:
    assert found(*items) == expected


def test_a_note_that_the_detector_saw_is_of_what_is_before_it() -> None:
    assert found("t ", "n Source: us", "f ", native="vision_footnote") == {1: 0}


def test_no_caption_is_of_another_page() -> None:
    assert found("f ", "c Figure 1", pages=(0, 1)) == {}
