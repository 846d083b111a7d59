"""Section numbers that a formatter split are whole again, numbers of lists stay."""

from __future__ import annotations

from gravityocr.document import Box, Label, Page, Region
from gravityocr.pipeline.assembly import AssemblyConfig, assemble


def written(*contents: str) -> list[str]:
    labels: list[Label] = ["title" if content.startswith("#") else "text" for content in contents]
    regions = tuple(
        Region(k, labels[k], "paragraph_title", "text", Box(0, k, 9, k + 1), content)
        for k, content in enumerate(contents)
    )
    passages = assemble([Page(0, (9, 9), regions)], AssemblyConfig("markdown"))
    return [passage.markdown for passage in passages]


def test_numbers_of_the_section_above_in_their_order() -> None:
    assert written("## 7.4 Joints", "7. 4.1 First.", "Note.", "7. 4.2 Second.", "7. 4.4 Fourth.") == [
        "## 7.4 Joints", "7.4.1 First.", "Note.", "7.4.2 Second.", "7. 4.4 Fourth."
    ]  # fmt: skip


def test_a_list_is_left_alone() -> None:
    assert written("1. 2.5 million people") == ["1. 2.5 million people"]
    assert written("## 1.2 Cities", "1. 2.5 million people", "2. 1.1 million") == [
        "## 1.2 Cities", "1. 2.5 million people", "2. 1.1 million"
    ]  # fmt: skip
    assert written("## 7 Joints", "7. 4.1 First.") == ["## 7 Joints", "7. 4.1 First."]
