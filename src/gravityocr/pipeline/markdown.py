"""Pages to Markdown: what was read as text, what was not read as its picture."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gravityocr.document import Region

DROPPED = frozenset({"header", "footer", "page_number", "logo"})
"""Labels that stay in the JSON and out of the Markdown."""

_BULLET = re.compile(r"^\s*[•●▪◦‣∙·*+\-–]\s+(?=\S)|^\s*[•●▪◦‣]\s*(?=\S)")
_NUMBER = re.compile(r"^\s*(\(?\d{1,3}[.)])\s+(?=\S)|^\s*(\d{1,2}\))(?=[^\W\d])")
_MATH_MARK = re.compile(r"[\\^_{}=]")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_MATH_NAME = re.compile(r"\\[A-Za-z]+|\\(?:text|mathrm|operatorname)\s*\{[^}]*\}")
_AMOUNT = re.compile(r"\d[\d.,]*\s*[,;.]?")
_BACKSLASH = re.compile(r"\\(?=[!-/:-@\[-`{-~])")
_TAG_OR_ENTITY = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)")
_STAR = re.compile(r"(?<=\S)\*|\*(?=\S)")
_UNDERSCORE = re.compile(r"(?<![^\W_])_+(?=\S)|(?<=\S)_+(?![^\W_])")
_LINK = re.compile(r"\[(?=[^\]\n]*\][(:])")
_TILDES = re.compile(r"~(?=~)")
_LINE_MARK = re.compile(r"^(#{1,6}(?=\s|$)|>|[*+-](?=\s|$)|(?:-{2,}|={2,}|_{3,})(?=\s*$)|~{3,})")
_LINE_NUMBER = re.compile(r"^(\d{1,9})([.)])(?=\s)")


def page_markdown(regions: Sequence[Region], *, first_page: bool = False) -> str:
    """Return one page's Markdown, blocks parted by blank lines; headers and footers are left out.

    A region that was not read appears as its picture, a failed one with the reason beside it.
    """
    top = _document_title(regions) if first_page else None
    blocks = [_block(region, region.index == top) for region in regions if region.label not in DROPPED]
    blocks = [block for block in blocks if block]
    return "\n\n".join(blocks) + "\n" if blocks else ""


def failed_page_markdown(index: int, error: str) -> str:
    """Return the mark that a page leaves which could not be read at all (`index` from 0)."""
    return f"<!-- page {index + 1} failed: {comment(error)} -->\n"


def _document_title(regions: Sequence[Region]) -> int | None:
    """The first page's first title is the document's, where no text comes before it."""
    for region in regions:
        if region.label == "title":
            return region.index
        if region.label in ("text", "list", "table", "formula", "reference"):
            return None
    return None


def _block(region: Region, is_top: bool) -> str:
    if region.status == "failed":
        picture = _picture(region)
        mark = f"<!-- region {region.index} failed: {comment(region.error or 'unknown')} -->"
        return f"{mark}\n\n{picture}" if picture else mark
    if region.status == "skipped" or region.task is None:
        return _picture(region) or f"<!-- {region.label}: {comment(region.error or 'not read, no picture kept')} -->"
    if not region.content.strip():
        return ""
    if region.label in ("title", "doc_title"):
        words = " ".join(region.content.split())
        words = re.sub(r"^#+\s+", "", words)
        return f"{'#' if is_top or region.label == 'doc_title' else '##'} {escape(words)}"
    if region.task == "formula":
        return formula_block(region.content)
    if region.task == "table":
        return table_block(region.content)
    return text_block(region.content)


def _picture(region: Region) -> str:
    return f"![{region.label}](images/{region.image})" if region.image else ""


def comment(text: str) -> str:
    """Return text on one line that cannot end the HTML comment around it."""
    return re.sub("-(?=-)", "- ", " ".join(text.split()).replace(">", ""))


def text_block(content: str) -> str:
    """Return lines of text as paragraphs, list items kept together as a list."""
    out: list[str] = []
    was_item = False
    for line in content.split("\n"):
        line = line.strip()
        if not line:
            continue
        item = _list_item(line)
        if out:
            out.append("\n" if item and was_item else "\n\n")
        out.append(item or escape(line))
        was_item = item is not None
    return "".join(out)


def _list_item(line: str) -> str | None:
    bullet = _BULLET.match(line)
    if bullet:
        return f"- {escape(line[bullet.end() :])}"
    number = _NUMBER.match(line)
    if number and not line.startswith("("):
        return f"{number.group(1) or number.group(2)} {escape(line[number.end() :])}"
    return None


def table_block(content: str) -> str:
    """Return recognised HTML as it is, without the blank lines that would end an HTML block; else as text."""
    lines = [line for line in content.strip().split("\n") if line.strip()]
    html = "\n".join(lines)
    return html if html.lower().startswith("<table") else text_block(content)


def formula_block(content: str) -> str:
    """Return LaTeX as a display formula, whatever delimiters it came with."""
    body = content.strip()
    for opening, closing in (("$$", "$$"), (r"\[", r"\]"), ("$", "$")):
        if len(body) >= len(opening) + len(closing) and body.startswith(opening) and body.endswith(closing):
            body = body[len(opening) : len(body) - len(closing)].strip()
            break
    lines = [line.rstrip() for line in body.split("\n") if line.strip()]
    return "$$\n" + "\n".join(lines) + "\n$$" if lines else ""


def escape(line: str) -> str:
    """Escape what Markdown would act on in a line of plain text; inline formulas in `$` stay, tight."""
    out: list[str] = []
    for is_math, piece in _math_pieces(line):
        out.append(f"${piece.strip()}$" if is_math else _escape_plain(piece))
    text = "".join(out)
    text = _LINE_NUMBER.sub(r"\1\\\2", text) if not out or not line.startswith("$") else text
    return _LINE_MARK.sub(lambda match: "\\" + match.group(0), text)


def _escape_plain(text: str) -> str:
    text = _BACKSLASH.sub(r"\\\\", text)
    text = _TAG_OR_ENTITY.sub(lambda match: "\\" + match.group(0), text)
    text = _STAR.sub(r"\\*", text)
    text = _UNDERSCORE.sub(lambda match: match.group(0).replace("_", "\\_"), text)
    text = _LINK.sub(r"\\[", text)
    text = _TILDES.sub(r"\\~", text)
    return text.replace("`", "\\`").replace("$", "\\$")


def _math_pieces(line: str) -> list[tuple[bool, str]]:
    """Part a line into plain text and the insides of its inline formulas."""
    pieces: list[tuple[bool, str]] = []
    plain, position = "", 0
    while position < len(line):
        start = line.find("$", position)
        end = line.find("$", start + 1) if start >= 0 else -1
        if end < 0:
            break
        inner = line[start + 1 : end]
        if _is_math(inner, line[end + 1 : end + 2]):
            pieces += [(False, plain + line[position:start]), (True, inner)]
            plain, position = "", end + 1
        else:
            plain += line[position : start + 1]
            position = start + 1
    return [*pieces, (False, plain + line[position:])]


def _is_math(inner: str, after: str) -> bool:
    """Tell a formula from the text between two amounts of money, as in `$5 and $6`."""
    body = inner.strip()
    if not body or after.isdigit() or inner[0].isspace() != inner[-1].isspace():
        return False
    if _MATH_MARK.search(body):
        return not (body[0].isdigit() and _WORD.search(_MATH_NAME.sub("", body)) and "\\" not in body)
    if _WORD.search(body):
        return False
    return not (inner[0].isspace() and _AMOUNT.fullmatch(body) and body[-1] in ",;.")
