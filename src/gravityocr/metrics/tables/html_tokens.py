"""Markup split into text and tags as Python's forgiving HTML parser does, in time linear in its length.

That parser searches to the end of the text for every tag that is never closed; a broken table of a megabyte takes it
hours. This reader remembers what is never closed. It reads what Beautiful Soup 4 makes of `html.parser` of Python 3.11.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.entities import html5

RAW = frozenset({"script", "style"})

_TAG_NAME = re.compile(r"[a-zA-Z][^\t\n\r\f />\x00]*")
_ATTRIBUTE = re.compile(r"[\s/]*(?P<name>[^\s/>][^\s/=>]*)(?P<equals>\s*=+\s*)?")
_UNQUOTED = re.compile(r"[^>\s]*")
_TAG_END = re.compile(r"[\s/]*>")
_SPACED_END_TAG = re.compile(r"</\s+([a-zA-Z][-.a-zA-Z0-9:_]*)\s*>")
_ENDLESS_NUMBER = re.compile("&#([0-9]{1000,})")
_MANY_DIGITS = 8  # more than any character's number has
_ENTITY = re.compile(r"&(?:#([0-9]+|[xX][0-9a-fA-F]+)|([a-zA-Z][-.a-zA-Z0-9]*));?")


@dataclass(frozen=True)
class Token:
    """One piece of markup; `kind` is text, raw, start, end, or what opens it (`<!--`, `<?`, `<!`)."""

    kind: str
    data: str
    attributes: tuple[tuple[str, str], ...] = ()
    closed: bool = False


def unescape(text: str) -> str:
    """Replace the entities of a text as `html.unescape` does, numbers of more digits than Python reads included.

    >>> unescape("a &lt; b &#65;" + "&#" + 5000 * "9" + ";")
    'a < b A\ufffd'
    """
    if "&#" in text:
        text = _ENDLESS_NUMBER.sub(lambda found: f"&#{found[1].lstrip('0')[:_MANY_DIGITS] or '0'}", text)
    return html.unescape(text)


def decode_entities(text: str) -> str:
    """Replace the entities of a text; an unknown name keeps its `&` and loses its `;`.

    >>> decode_entities("a &lt; b &ndash; &unknown; &#65;")
    'a < b – &unknown A'
    """
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(match: re.Match[str]) -> str:
    number, name = match.groups()
    if number:
        return html.unescape(f"&#{number};") if len(number) < 9 else "\ufffd"
    return html5.get(f"{name};") or html5.get(name) or f"&{name}"


def tokenize(markup: str) -> Iterator[Token]:
    """Split markup into text and tags; what is not complete markup is text."""
    reader = _TagReader(markup)
    start = 0
    while start < len(markup):
        begin = markup.find("<", start)
        if begin < 0:
            begin = len(markup)
        if begin > start:
            yield Token("text", markup[start:begin])
        if begin == len(markup):
            return
        token, start = reader.read(begin)
        yield token
        if token.kind == "start" and token.data in RAW and not token.closed:
            end = re.compile(rf"</{token.data}(?![a-z])", re.IGNORECASE).search(markup, start)
            if end is None:
                return  # what no end tag gives back is lost
            if end.start() > start:
                yield Token("raw", markup[start : end.start()])
            start = end.start()


def _as_text(markup: str) -> Token:
    """Make text of broken markup; entities in it stay as they are written."""
    return Token("text", markup.replace("&", "&amp;"))


class _TagReader:
    """Reads one tag at a time; remembers what is never closed, so that no text is searched twice."""

    def __init__(self, markup: str) -> None:
        self.markup = markup
        self.last = {mark: markup.rfind(mark) for mark in (">", "'", '"', "-->", "]]>")}
        self.doomed: set[int] = set()  # places inside a start tag from which no end of the tag is reached

    def read(self, begin: int) -> tuple[Token, int]:
        """Return the token that starts at the `<` at `begin`, and where it ends."""
        markup = self.markup
        follower = markup[begin + 1 : begin + 2]
        if self.last[">"] <= begin or not (follower.isascii() and (follower.isalpha() or follower in tuple("/!?"))):
            return Token("text", "<"), begin + 1
        if follower.isalpha():
            return self._start_tag(begin)
        if follower == "/":
            return self._end_tag(begin)
        for opener, closer in (("<!--", "-->"), ("<![CDATA[", "]]>")):
            if markup.startswith(opener, begin) and self.last[closer] >= begin + len(opener):
                end = markup.find(closer, begin + len(opener))
                return Token(opener, markup[begin + len(opener) : end]), end + len(closer)
        end = markup.find(">", begin)
        if markup.startswith(("<!--", "<!["), begin):
            return _as_text(markup[begin : end + 1]), end + 1
        kind = "<?" if follower == "?" else ("<!" if markup[begin + 2 : begin + 9].lower() == "doctype" else "<!--")
        return Token(kind, markup[begin + 2 : end]), end + 1

    def _end_tag(self, begin: int) -> tuple[Token, int]:
        spaced = _SPACED_END_TAG.match(self.markup, begin)
        if spaced:
            return Token("end", spaced[1].lower()), spaced.end()
        name = _TAG_NAME.match(self.markup, begin + 2)
        end = self.markup.find(">", name.end() if name else begin)
        if name:
            return Token("end", name.group().lower()), end + 1
        dropped = self.markup[begin + 2 : end]
        return (Token("<!--", dropped) if dropped else Token("text", "")), end + 1

    def _start_tag(self, begin: int) -> tuple[Token, int]:
        name = _TAG_NAME.match(self.markup, begin + 1)
        assert name is not None  # the caller has seen the letter
        attributes: dict[str, str] = {}
        at = name.end()
        visited: list[int] = []
        while (end := _TAG_END.match(self.markup, at)) is None:
            visited.append(at)
            found = None if at in self.doomed else self._attribute(at)
            if found is None:
                self.doomed.update(visited)
                end_of_text = self.markup.find(">", begin)
                return _as_text(self.markup[begin : end_of_text + 1]), end_of_text + 1
            key, value, at = found
            attributes[key] = value
        closed = self.markup[end.end() - 2] == "/"
        return Token("start", name.group().lower(), tuple(sorted(attributes.items())), closed), end.end()

    def _attribute(self, at: int) -> tuple[str, str, int] | None:
        """Return name, value and end of the attribute at `at`; None where the markup or a quote is never closed."""
        found = _ATTRIBUTE.match(self.markup, at)
        if found is None or self.last[">"] < found.end():
            return None
        name, at = found["name"].lower(), found.end()
        if not found["equals"]:
            return name, "", at
        quote = self.markup[at]
        if quote not in "'\"":
            value = _UNQUOTED.match(self.markup, at)
            assert value is not None  # it matches the empty string
            return name, unescape(value.group()), value.end()
        if self.last[quote] <= at:
            return None
        end = self.markup.find(quote, at + 1)
        return name, unescape(self.markup[at + 1 : end]), end + 1


def cell_texts(table: str) -> list[str]:
    """Return the text of every cell of a table, white space folded.

    >>> cell_texts("<table><tr><td>a <b>b</b><td>c</td></table>")
    ['a b', 'c']
    """
    cells: list[list[str]] = []
    inside = False
    for token in tokenize(table):
        if token.data in ("td", "th") and token.kind in ("start", "end"):
            inside = token.kind == "start"
            cells += [[]] if inside else []
        elif inside and token.kind == "text":
            cells[-1].append(decode_entities(token.data))
    return [" ".join(" ".join(parts).split()) for parts in cells]


def block_text(markup: str) -> str:
    r"""Return the text of markup with a line break for every `<br>` and after every block.

    >>> block_text("<div>a<br>b<p>c</p></div>")
    'a\nbc\n\n'
    """
    parts = []
    for token in tokenize(markup):
        if token.kind == "text":
            parts.append(decode_entities(token.data))
        elif (token.kind == "end" and token.data in ("div", "dir", "p", "li")) or token.data == "br":
            parts.append("\n")
    return "".join(parts)
