"""One part of a document as a passage: its Markdown, and the same without Markdown around it."""

from __future__ import annotations

import re
from dataclasses import replace

from gravityocr.document import Passage, PassageKind
from gravityocr.pipeline.markdown import escape, fenced, formula_block, table_block, text_block
from gravityocr.pipeline.passages.formula_numbers import tagged
from gravityocr.pipeline.passages.markdown_text import (
    clean,
    heading,
    is_fenced,
    mend_inline,
    text_markdown,
    title_words,
    without_div,
)
from gravityocr.pipeline.passages.merge_tables import close_table
from gravityocr.pipeline.passages.parts import Part, cut_mark
from gravityocr.pipeline.passages.safe_markup import safe_latex, safe_table

_ITEM = re.compile(r"(?:-|\d{1,3}[.)])\s")
_FENCE_LINE = re.compile(r"^(?:`{3,}|~{3,}).*$", re.MULTILINE)
_IN_DOLLARS = re.compile(r"\$([^$\n]*)(?=\$)")
_COMMAND = re.compile(r"\\[A-Za-z]")
_LEVEL_WITH = 10.0  # of 1000 of the page's width, by which lines of one list stand off each other


def render(part: Part, is_markdown: bool, mends: frozenset[str]) -> Passage:
    """Return the passage of a part; its Markdown is empty where there is nothing to show, and says so if it was cut."""
    passage = _rendered(part, is_markdown, mends)
    was_cut = part.last.status in ("truncated", "loop_cut") and part.kind not in ("mark", "figure")
    if not was_cut or "failures" not in mends or not passage.markdown.strip():
        return passage
    return replace(passage, markdown=f"{passage.markdown}\n\n{cut_mark(part.last)}")


def _rendered(part: Part, is_markdown: bool, mends: frozenset[str]) -> Passage:
    passage = Passage(
        part.kind, "", part.sources, part.region.label, part.content, part.level, part.region.image, part.furniture
    )
    if part.kind == "mark":
        picture = _picture(part)
        return replace(passage, markdown=f"{part.mark}\n\n{picture}" if picture else part.mark, content="")
    if part.kind == "figure":
        return replace(passage, markdown=_picture(part), content="")
    if part.kind == "formula":
        return _formula(passage, part, is_markdown, mends)
    if part.kind == "table":
        return _table(passage, mends)
    return _from_markdown(passage, part, mends) if is_markdown else _from_plain(passage)


def fill_bullets(rendered: list[tuple[Part, Passage]]) -> list[tuple[Part, Passage]]:
    """Add `- ` to text between two items on one page that it is level with, as the GLM-OCR SDK does."""
    filled = list(rendered)
    for place in range(1, len(filled) - 1):
        near = filled[place - 1 : place + 2]
        (_, before), (part, passage), (_, after) = near
        same_page = len({one.page for one, _ in near}) == 1
        text = all(one.region.native_label == "text" for one, _ in near)
        items = before.markdown.startswith("- ") and after.markdown.startswith("- ")
        if not (same_page and text and items) or passage.markdown.startswith("- "):
            continue
        lefts = [1000 * one.region.box.x0 / max(1, one.page_width) for one, _ in near]
        if max(abs(lefts[1] - lefts[0]), abs(lefts[1] - lefts[2])) <= _LEVEL_WITH:
            filled[place] = (part, replace(passage, markdown="- " + passage.markdown))
    return filled


def _picture(part: Part) -> str:
    return f"![{part.region.label}](images/{part.region.image})" if part.region.image else ""


def _formula(passage: Passage, part: Part, is_markdown: bool, mends: frozenset[str]) -> Passage:
    content = part.content
    if is_markdown and not (content.startswith("$$") and content.endswith("$$")):
        content = clean(content, mends)
    safe = "unsafe-markup" in mends
    numbers = tuple(map(safe_latex, part.numbers)) if safe else part.numbers
    if "formula-lines" in mends or not is_markdown:
        block = formula_block(content, safe=safe)
    else:
        block = _sdk_formula(content, safe)
    text = tagged(block, numbers)
    if text is None:  # a tag of its own beside another number, which only the SDK's pairing allows
        text = f"{block[:-3]} \\tag{{{', '.join(numbers)}}}\n$$"
    latex = "\n".join(line for line in text.split("\n") if line not in ("$$", ""))
    return replace(passage, markdown=text, content=latex)


def _sdk_formula(content: str, safe: bool) -> str:
    body = content.strip()
    if body.startswith(("$$", r"\[", r"\(")):
        body = body[2:].strip()
    if body.endswith(("$$", r"\]", r"\)")):
        body = body[:-2].strip()
    return f"$$\n{safe_latex(body) if safe else body}\n$$"


def _table(passage: Passage, mends: frozenset[str]) -> Passage:
    html = passage.content.strip()
    if "unsafe-markup" in mends:
        html = safe_table(html)
    if "tables" in mends:
        html = close_table(table_block(html))
    return replace(passage, markdown=html, content=html)


def _from_plain(passage: Passage) -> Passage:
    content = passage.content
    if passage.kind == "title":
        words = re.sub(r"^#+\s+", "", " ".join(content.split()))
        return replace(passage, markdown=f"{'#' * passage.level} {escape(words, at_line_start=False)}", content=words)
    if passage.kind == "code":
        return replace(passage, markdown=fenced(content), content=content.strip("\n"))
    text = text_block(content)
    return replace(passage, kind=_text_kind(text), markdown=text, content=content.strip())


def _from_markdown(passage: Passage, part: Part, mends: frozenset[str]) -> Passage:
    text = clean(passage.content, mends)
    if passage.kind == "title":
        words = title_words(text, mends)
        return replace(passage, markdown=mend_inline(f"{'#' * part.level} {words}", mends), content=words)
    if passage.kind == "code" and "code" in mends and not is_fenced(text) and not _has_latex(text):
        return replace(passage, markdown=fenced(passage.content), content=passage.content.strip("\n"))
    written = mend_inline(text_markdown(text, mends), mends)
    titled = heading(text)
    if titled:
        level, words = titled
        return replace(passage, kind="title", level=level, markdown=written, content=words)
    if is_fenced(text):
        code = _FENCE_LINE.sub("", written).strip("\n")
        return replace(passage, kind="code", markdown=written, content=code)
    kind = "code" if passage.kind == "code" else _text_kind(written)
    return replace(passage, kind=kind, markdown=written, content=without_div(text))


def _has_latex(text: str) -> bool:
    return any(_COMMAND.search(inside.group(1)) for inside in _IN_DOLLARS.finditer(text))


def _text_kind(text: str) -> PassageKind:
    lines = [line for line in text.split("\n") if line.strip()]
    return "list" if lines and all(_ITEM.match(line) for line in lines) else "text"
