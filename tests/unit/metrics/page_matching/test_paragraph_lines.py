"""Paragraphs split at single line breaks where the ground truth has them apart."""

from __future__ import annotations

from tests.omnidoc_pages import HEIGHT

from gravityocr.metrics.normalization import normalize_text
from gravityocr.metrics.page_matching.markdown_blocks import markdown_blocks
from gravityocr.metrics.page_matching.paragraph_lines import split_where_lines_fit
from gravityocr.metrics.page_matching.rules import MENDED

TARGETS = [normalize_text(one) for one in HEIGHT]


def split(markdown: str, targets: list[str]) -> list[str]:
    return [block.content for block in split_where_lines_fit(markdown_blocks(markdown, MENDED), targets)]


def test_lines_that_are_blocks_are_split_and_know_where_they_stand() -> None:
    markdown = "  " + "\n".join(HEIGHT)
    blocks = split_where_lines_fit(markdown_blocks(markdown, MENDED), TARGETS)
    assert [block.content for block in blocks] == list(HEIGHT)
    # A line's indent belongs to it.
    assert [block.start for block in blocks] == [0, *(markdown.index(one) for one in HEIGHT[1:])]


def test_lines_of_one_block_stay_together() -> None:
    broken = HEIGHT[0].replace(", ", ",\n")
    assert split(broken, TARGETS) == [broken]


def test_without_ground_truth_nothing_is_split() -> None:
    assert split("one\ntwo", []) == ["one\ntwo"]


def test_lines_without_letters_count_nothing() -> None:
    assert split("***\nonly one", ["onlyone"]) == ["***\nonly one"]


def test_the_choice_for_one_paragraph_does_not_depend_on_the_others() -> None:
    broken, lines = HEIGHT[0].replace(", ", ",\n"), "\n".join(HEIGHT[1:])
    assert split(f"{lines}\n\n{broken}", TARGETS) == [*HEIGHT[1:], broken]
    assert split(f"{lines}\n\nllamas\nand cables", TARGETS)[:2] == list(HEIGHT[1:])
