"""Pages to the passages of a document: every region in exactly one of them, in reading order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from gravityocr.document import Page, Passage
from gravityocr.errors import ConfigError
from gravityocr.pipeline.passages.mends import ALL_MENDS, check_mends
from gravityocr.pipeline.passages.merge import merge_parts, merge_within_pages
from gravityocr.pipeline.passages.parts import Part, page_parts
from gravityocr.pipeline.passages.rendering import fill_bullets, render
from gravityocr.pipeline.passages.split_numbers import mend_split_numbers

TextFormat = Literal["plain", "markdown"]


@dataclass(frozen=True)
class AssemblyConfig:
    """How regions become Markdown.

    `text_format` is what the recognizer writes: `plain` text with formulas in `$`, of which everything else that
    Markdown would act on is escaped, or `markdown`, which is kept. `merge` joins what was broken at the end of a
    column or page; `keep_furniture` leaves headers, footers and page numbers in their places. `mends` are the
    differences from the GLM-OCR SDK that are wanted: without one, `markdown` text comes out as the SDK writes it.

    *Raises*: ConfigError for an unknown text format or mend.
    """

    text_format: TextFormat = "plain"
    merge: bool = True
    keep_furniture: bool = False
    mends: tuple[str, ...] = ALL_MENDS

    def __post_init__(self) -> None:
        if self.text_format not in get_args(TextFormat):
            raise ConfigError(f"assembly.text_format is {self.text_format!r}: choose plain or markdown")
        object.__setattr__(self, "mends", check_mends(self.mends))


def assemble(pages: Sequence[Page], config: AssemblyConfig | None = None) -> tuple[Passage, ...]:
    """Return a document's passages; what goes on over pages is one passage, with every region that it came from.

    Every region with content, and every one that failed or was not read, is a source of exactly one passage; headers
    and footers only where they are kept.
    """
    config = config or AssemblyConfig()
    mends = frozenset(config.mends)
    parts = [part for page in pages for part in page_parts(page, config.keep_furniture, mends)]
    return _passages(parts, {page.index for page in pages}, config, mends)


def page_markdown(page: Page, config: AssemblyConfig | None = None) -> str:
    """Return one page's Markdown by itself, as it is known before the next page comes."""
    parts = [passage.markdown for passage in assemble([page], config)]
    return "\n\n".join(parts) + "\n" if parts else ""


def _passages(parts: list[Part], pages: set[int], config: AssemblyConfig, mends: frozenset[str]) -> tuple[Passage, ...]:
    is_markdown = config.text_format == "markdown"
    if is_markdown and "split-numbers" in mends:
        parts = mend_split_numbers(parts)
    if config.merge:
        if "hyphens" not in mends:
            parts = merge_within_pages(parts)
        parts = merge_parts(parts, pages, mends)
    rendered = [(part, render(part, is_markdown, mends)) for part in parts]
    if is_markdown and "invented-bullets" not in mends:
        rendered = fill_bullets(rendered)
    return tuple(passage for _, passage in rendered if passage.markdown.strip())
