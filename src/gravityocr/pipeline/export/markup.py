"""Markdown and HTML that was read from a page as HTML that is safe to show: known tags, nothing that loads or runs."""

from __future__ import annotations

import re
from html import escape

from lxml import etree, html
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from gravityocr.pipeline.export.files import printable
from gravityocr.pipeline.export.mathml import formula_html, visible
from gravityocr.pipeline.export.tables import table_element

_INLINE = frozenset({"b", "strong", "i", "em", "u", "s", "del", "sub", "sup", "code", "span", "br"})
_BLOCKS = frozenset(
    {"p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "blockquote", "hr"}
    | {"table", "caption", "thead", "tbody", "tfoot", "tr", "td", "th"}
)  # fmt: skip
_VOID = frozenset({"br", "hr"})
_AS_IS = frozenset({"code", "pre"})
_SPAN = re.compile(r"[1-9]\d{0,2}")
_FORMULA = re.compile(r"(?<![\\$])\$(?!\s|\$)((?:\\.|[^$\\])+?)(?<!\s)\$(?![\d$])", re.DOTALL)
_TEX, _DISPLAY = "x-tex", "x-display"  # what a formula is, between Markdown and HTML
_DEEPEST = 100


def markdown_html(text: str) -> str:
    """Return Markdown as safe HTML, its `$` and `$$` formulas as MathML; links and images stay as they are written."""
    return safe_html(_MARKDOWN.render(visible(printable(text))), is_text=False)


def table_html(markup: str) -> str:
    """Return a table as safe HTML; one that is broken as its source, so that nothing of it is lost."""
    clean = visible(printable(markup))
    if table_element(clean) is None:
        return f'<pre class="broken">{escape(clean)}</pre>'
    return safe_html(clean)


def safe_html(markup: str, *, is_text: bool = True) -> str:
    """Return HTML with only known tags and spans of cells left of it, and the text of all others.

    With `is_text`, what stands between `$` is a formula.
    """
    try:
        root = html.fragment_fromstring(markup, create_parent="div")
    except (etree.ParserError, ValueError):
        return escape(markup)
    return _children(root, is_text, 0)


def _children(element: html.HtmlElement, is_text: bool, depth: int) -> str:
    parts = [_text(element.text, is_text)]
    for child in element:
        parts += [_element(child, is_text, depth + 1), _text(child.tail, is_text)]
    return "".join(parts)


def _element(element: html.HtmlElement, is_text: bool, depth: int) -> str:
    tag = element.tag
    if not isinstance(tag, str):  # a comment, or what the parser takes for one: it may be the mark of a failure
        return f"<code>{escape((element.text or '').strip())}</code>"
    if tag in (_TEX, _DISPLAY) and len(element) == 0:
        return formula_html(element.text or "", display=tag == _DISPLAY)
    if depth > _DEEPEST:
        return escape(element.text_content())
    inner = _children(element, is_text and tag not in _AS_IS, depth)
    if tag in _VOID:
        return f"<{tag}>"
    if tag not in _INLINE and tag not in _BLOCKS:
        return inner or escape(element.get("alt") or f"<{tag}>")
    spans = ""
    if tag == "ol" and _SPAN.fullmatch(start := element.get("start", "")):
        spans = f' start="{start}"'
    if tag in ("td", "th"):
        spans = "".join(
            f' {name}="{value}"' for name in ("rowspan", "colspan") if _SPAN.fullmatch(value := element.get(name, ""))
        )
    return f"<{tag}{spans}>{inner}</{tag}>"


def _text(text: str | None, is_text: bool) -> str:
    if not text:
        return ""
    if not is_text:
        return escape(text)
    pieces = _FORMULA.split(text)
    return "".join(formula_html(piece) if place % 2 else escape(piece) for place, piece in enumerate(pieces))


def _inline_formula(state: StateInline, silent: bool) -> bool:
    """Take `$...$` and `$$...$$` out of a line before Markdown acts on what is inside."""
    if state.src[state.pos] != "$":
        return False
    mark = "$$" if state.src.startswith("$$", state.pos) else "$"
    start = state.pos + len(mark)
    end = start
    while True:
        end = state.src.find(mark, end)
        if end < 0 or end >= state.posMax:
            return False
        if _n_backslashes(state.src, end) % 2 == 0:
            break
        end += 1
    inner = state.src[start:end]
    if not inner.strip() or (mark == "$" and _is_money(inner, state.src[end + 1 : end + 2])):
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.content, token.info = inner, mark
    state.pos = end + len(mark)
    return True


def _n_backslashes(text: str, end: int) -> int:
    start = end
    while start and text[start - 1] == "\\":
        start -= 1
    return end - start


def _is_money(inner: str, after: str) -> bool:
    return inner[0].isspace() or inner[-1].isspace() or after.isdigit()


def _block_formula(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Take lines between `$$` and `$$` as one formula, whatever Markdown would make of them."""
    if not _line(state, start).startswith("$$"):
        return False
    last = _last_line(state, start, end)
    if last is None:
        return False
    if silent:
        return True
    token = state.push("formula", "", 0)
    token.content = "\n".join(_line(state, line) for line in range(start, last + 1))[2:-2]
    token.info, token.block, token.map = "$$", True, [start, last + 1]
    state.line = last + 1
    return True


def _line(state: StateBlock, line: int) -> str:
    return state.getLines(line, line + 1, state.blkIndent, False).strip()


def _last_line(state: StateBlock, start: int, end: int) -> int | None:
    """Return the line that closes a display formula; one that nothing closes is looked through once only."""
    first = _line(state, start)
    if len(first) > 4 and first.endswith("$$"):
        return start
    open_from, open_to = state.env.get("unclosed", (end, end))
    if open_from <= start and end <= open_to:
        return None
    for line in range(start + 1, end):
        if _line(state, line).endswith("$$"):
            return line
    state.env["unclosed"] = (start, end)
    return None


def _render_formula(renderer: RendererHTML, tokens: list[Token], place: int, options: OptionsDict, env: EnvType) -> str:
    tag = _DISPLAY if tokens[place].info == "$$" else _TEX
    return f"<{tag}>{escape(tokens[place].content)}</{tag}>"


def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True, "breaks": True})
    parser.enable(["table", "strikethrough"])
    parser.disable(["link", "image", "autolink", "reference"], ignoreInvalid=True)
    parser.inline.ruler.before("escape", "formula", _inline_formula)
    parser.block.ruler.before("fence", "formula", _block_formula, {"alt": ["paragraph", "blockquote", "list"]})
    parser.add_render_rule("formula", _render_formula)
    return parser


_MARKDOWN = _markdown()
