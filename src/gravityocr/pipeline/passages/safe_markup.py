"""HTML, links and LaTeX that a recognizer wrote, with nothing left in them that runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

TABLE_START = re.compile(r"<table(?=[\s>/])", re.IGNORECASE)
"""How a table begins: `<tablex>` is none."""

_TABLE_ELEMENTS = frozenset({
    "table", "caption", "colgroup", "col", "thead", "tbody", "tfoot", "tr", "td", "th",
    "a", "b", "big", "blockquote", "br", "center", "cite", "code", "dd", "del", "div", "dl", "dt", "em", "font", "h1",
    "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q", "s", "small",
    "span", "strike", "strong", "sub", "sup", "tt", "u", "ul", "var",
})  # fmt: skip
_DANGEROUS = frozenset({
    "applet", "audio", "base", "button", "embed", "form", "frame", "frameset", "iframe", "input", "link", "math",
    "meta", "noembed", "noframes", "noscript", "object", "plaintext", "pre", "script", "select", "source", "style",
    "svg", "template", "textarea", "title", "track", "video", "xmp",
})  # fmt: skip  # in text, `pre` too: nothing in it would be escaped any more
_ATTRIBUTES = frozenset({
    "align", "alt", "bgcolor", "border", "cellpadding", "cellspacing", "class", "color", "colspan", "dir", "height",
    "lang", "nowrap", "open", "rowspan", "rules", "scope", "size", "span", "start", "style", "title", "type", "valign",
    "value", "width",
})  # fmt: skip
_ADDRESSES = frozenset({"href", "src"})
_SCHEMES = frozenset({"http", "https", "mailto", "ftp", "tel"})
_MARK = re.compile(r"<(?=[A-Za-z/!?])")
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)((?:[\s/][^<>]*)?)>")
_ATTRIBUTE = re.compile(r"([^\s\"'<>/=]+)(?:\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'=<>`]+))?")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_STYLE = re.compile(r"(?!.*position)[\w\s:;.,#%+\-!]*", re.IGNORECASE | re.DOTALL)
_INVISIBLE = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028\u2029]|\\(?=[!-/:-@\[-`{-~])")
_LINK = re.compile(r"(?<!\\)\](?=[(:]\s*<?([^\s<>]{0,200}))")
_NO_TAG = re.compile(r"<(?:(?:https?|ftp|mailto):[^\s<>]*|[\w.+\-]+@[\w.\-]+|[\w\-]+)>", re.IGNORECASE)  # nor acts


def safe_table(html: str) -> str:
    """Return a table with harmless elements and attributes as they are; what is none loses its `<`, so that it shows.

    What is harmless as a whole comes back byte for byte.
    """

    def written(tag: re.Match[str] | None, _: str) -> str | None:
        return _safe_tag(tag) if tag and tag.group(2).lower() in _TABLE_ELEMENTS else None

    return _rewritten(html, written)


def safe_latex(latex: str) -> str:
    """Return LaTeX that no page takes for a tag, and that does not end the display around it.

    A `<` before a letter gets a blank, which draws the same; of `$$` one dollar stays.
    """
    return re.sub(r"\${2,}", "$", _MARK.sub("< ", latex))


def safe_text(text: str, elements: frozenset[str], *, stray: bool, unsafe: bool) -> str:
    """Return Markdown text outside code and formulas with what is no HTML of `elements` escaped.

    `stray` escapes names that no element has, and comments; `unsafe` half tags, elements and attributes that may run
    something, and addresses that do.
    """

    def written(tag: re.Match[str] | None, rest: str) -> str | None:
        if tag is None:
            is_comment, is_plain = rest.startswith("<!--"), _NO_TAG.match(rest)
            if is_comment and stray:
                return "\\<"
            return None if unsafe and not is_plain else "<"
        name, attributes = tag.group(2).lower(), tag.group(3).strip(" \t\n/")
        if unsafe and (name in _DANGEROUS or (name not in elements and attributes)):
            return None
        if name not in elements:
            return "\\" + tag.group() if stray else tag.group()
        return _safe_tag(tag) if unsafe else tag.group()

    text = _rewritten(text, written)
    return safe_links(text) if unsafe else text


def safe_links(text: str) -> str:
    """Return Markdown text in which no link leads to an address that runs something or holds data."""
    return _LINK.sub(lambda match: "]" if _is_safe(match.group(1)) else "\\]", text)


def _rewritten(text: str, written: Callable[[re.Match[str] | None, str], str | None]) -> str:
    """Ask for each `<` that may begin a tag what stands there: the whole tag or the sign; `&lt;` for None."""
    out: list[str] = []
    position = 0
    for mark in _MARK.finditer(text):
        start = mark.start()
        if start < position:
            continue
        tag = _TAG.match(text, start)
        found = written(tag, text[start : start + 2000])
        out += [text[position:start], "&lt;" if found is None else found]
        position = tag.end() if tag and found is not None else start + 1
    return "".join([*out, text[position:]])


def _safe_tag(tag: re.Match[str]) -> str:
    """Return a tag as it is where all of its attributes are harmless, else with those that are."""
    slash, name, rest = tag.groups()
    kept: list[str] = []
    is_whole = not slash or not rest.strip()
    for attribute in _ATTRIBUTE.finditer(rest):
        value = (attribute.group(2) or "").strip("\"'")
        if _is_harmless(attribute.group(1).lower(), value):
            kept.append(attribute.group())
        else:
            is_whole = False
    if is_whole and _ATTRIBUTE.sub("", rest).strip() in ("", "/"):
        return tag.group()
    return f"<{slash}{' '.join([name, *kept] if not slash else [name])}>"


def _is_harmless(name: str, value: str) -> bool:
    if name == "style":
        return _STYLE.fullmatch(value) is not None
    return name in _ATTRIBUTES or (name in _ADDRESSES and _is_safe(value))


def _is_safe(address: str) -> bool:
    """Tell whether an address leads to a page or a file; whatever hides its scheme from the eye is taken away first."""
    scheme = _SCHEME.match(_INVISIBLE.sub("", unescape(address)))
    return scheme is None or scheme.group(1).lower() in _SCHEMES
