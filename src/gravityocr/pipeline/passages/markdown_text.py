"""Text that a recognizer wrote as Markdown: kept, with its markers set right and nothing in it that would vanish."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

from gravityocr.pipeline.markdown import is_math
from gravityocr.pipeline.passages.loops import cut_like_sdk
from gravityocr.pipeline.passages.safe_markup import safe_latex, safe_links, safe_text

Mends = frozenset[str]

_HEADING = re.compile(r"(?:<div\b[^>]*>\s*)?(#{1,6})[ \t]+(?=\S)")
_DIV = re.compile(r"<div\b[^>]*>")
_FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`\n]*$)|~{3,})[^\n]*$", re.MULTILINE)
_BULLETS = "·•●▪◦‣∙"
_ELEMENTS = frozenset({
    "a", "abbr", "b", "big", "blockquote", "br", "caption", "center", "cite", "code", "col", "colgroup", "dd",
    "del", "details", "div", "dl", "dt", "em", "figcaption", "figure", "font", "h1", "h2", "h3", "h4", "h5", "h6",
    "hr", "i", "img", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q", "s", "samp", "small", "span", "strike",
    "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "tt", "u", "ul", "var",
})  # fmt: skip
_TOKEN = re.compile(r"\\[\\$`<]|`+|\$\$|\$")
_HTML_LINE = re.compile(r"[ \t]*<[A-Za-z/!?]")
_TO_DOLLAR = re.compile(r"((?:\\.|[^$\\\n])*)\$")
_SPACED_ITEM = re.compile(r"(\d{1,3})([)）])(?=[^\W\d_])|(\d{1,3})(\.)(?=[^\W\d_]{2})|([A-Za-z])([)）])(?=[^\W\d_]{2})")
_IN_PARENTHESES = re.compile(r"([(（])(\d{1,3}|[A-Za-z])([)）])\s*(?=[^\W\d_])")


def heading(text: str) -> tuple[int, str] | None:
    """Return level and words of a text that is one heading, in a `div` or not; else None."""
    body = text.strip()
    match = _HEADING.match(body)
    if match is None:
        return None
    words = body[match.end() :].removesuffix("</div>").rstrip()
    return (len(match.group(1)), words) if words and "\n" not in words else None


def without_div(text: str) -> str:
    """Return what a `div` around the whole text holds; the text itself where there is none."""
    body = text.strip()
    match = _DIV.match(body)
    if match is None or not body.endswith("</div>") or match.end() > len(body) - len("</div>"):
        return text
    inner = body[match.end() : -len("</div>")].strip()
    return text if "<div" in inner else inner


def is_fenced(text: str) -> bool:
    """Tell whether a text is one fenced block of code, or begins as one that is never closed."""
    body = text.strip()
    marks = list(_FENCE.finditer(body))
    return bool(marks) and marks[0].start() == 0 and (len(marks) == 1 or marks[1].end() == len(body))


def clean(content: str, mends: Mends) -> str:
    """Return content without the blanks and literal `\\t` at its ends; other mends off do what the SDK does there."""
    lead = r"(?:\\t(?![A-Za-z]))+" if "backslash-t" in mends else r"(?:\\t)+"
    leading = re.match(lead, content)
    text = content[leading.end() if leading else 0 :].lstrip()
    end = len(text) - text.endswith("\n")
    while text.endswith("\\t", 0, end):
        end -= 2
    text = text[:end].rstrip()
    if "leaders" not in mends:
        for mark in (r"\.", "·", "_"):
            text = re.sub(rf"{mark}{{3,}}", lambda match: match.group()[:3], text)
        text = re.sub(r"(?:\\_){3,}", r"\\_" * 3, text)
    if "loops" not in mends:
        text = cut_like_sdk(text)
    return text.strip()


def title_words(content: str, mends: Mends) -> str:
    """Return the words of a title without the marks that the recognizer put before them."""
    text = content
    if text.startswith(("- ", "* ")):
        text = text[2:].lstrip()
    text = re.sub(r"^#+\s*", "", text).lstrip()
    return " ".join(text.split()) if "titles" in mends else text


def text_markdown(content: str, mends: Mends) -> str:
    """Return a cleaned text region as Markdown: markers of items set right, lines parted, code kept."""
    text = content
    if "code" in mends:
        text += _open_fence(text)
    elif text.startswith("```") and not text.endswith("```"):
        text += "\n```"
    if "numbering" not in mends:
        return _parted_lines(_sdk_markers(text), mends)
    return _outside_code(text, lambda part: _items(part, mends), mends)


def mend_inline(text: str, mends: Mends) -> str:
    """Return Markdown text with tight formulas, escaped amounts and escaped tags that are none, code left alone."""
    if not {"tight-formulas", "currency", "stray-tags", "unsafe-markup"} & mends:
        return text
    return _outside_fences(text, lambda part: _inline(part, mends))


def _items(text: str, mends: Mends) -> str:
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if place == 0 or "bullets" in mends:
            lines[place] = _spaced_item(_first_bullet(line))
    return "\n".join(lines)


def _first_bullet(line: str) -> str:
    """Return a line with `- ` for its bullet; a lone mark or one that repeats is a sign or a leader."""
    body = line.lstrip()
    indent = line[: len(line) - len(body)]
    is_bullet = body[:1] in _BULLETS and len(body) > 1 and body[1] not in _BULLETS
    return f"{indent}- {body[1:].lstrip()}" if body.startswith("* ") or (body and is_bullet) else line


def _spaced_item(line: str) -> str:
    inner = _IN_PARENTHESES.match(line)
    if inner and not re.match(r"\([A-Za-z]\)[a-z]", line):  # (s)he
        return f"({inner.group(2)}) {line[inner.end() :]}"
    item = _SPACED_ITEM.match(line)
    if not item:
        return line
    symbol = item.group(1) or item.group(3) or item.group(5)
    separator = "." if item.group(4) else ")"
    return f"{symbol}{separator} {line[item.end() :]}"


def _sdk_markers(text: str) -> str:
    """Set a text's first marker as the SDK does: whatever follows a number or a letter with a dot is parted from it."""
    if text.startswith(("·", "•", "* ")):
        text = "- " + text[1:].lstrip()
    match = re.match(r"^[(（](\d+|[A-Za-z])[)）](.*)$", text)
    if match:
        text = f"({match.group(1)}) {match.group(2).lstrip()}"
    match = re.match(r"^(\d+|[A-Za-z])([.)）])(.*)$", text)
    if match:
        text = f"{match.group(1)}{match.group(2).replace('）', ')')} {match.group(3).lstrip()}"
    return text


def _parted_lines(text: str, mends: Mends) -> str:
    if "code" in mends:
        return _outside_code(text, lambda part: part, mends)
    return _double_breaks(text)


def _double_breaks(text: str) -> str:
    return re.sub(r"(?<!\n)\n(?!\n)", "\n\n", text)


def _outside_code(text: str, change: Callable[[str], str], mends: Mends) -> str:
    """Change text and part its lines by blank ones; lines of code are put back one below the other."""
    if "code" not in mends:
        return _double_breaks(_outside_fences(text, change))
    out: list[str] = []
    for is_code, part in _fenced_parts(text):
        out.append(_single_spaced(part) if is_code else _double_breaks(change(part)))
    return "\n\n".join(part.strip("\n") for part in out if part.strip())


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    return "".join(part if is_code else change(part) for is_code, part in _fenced_parts(text))


def _fenced_parts(text: str) -> list[tuple[bool, str]]:
    """Part a text into what is fenced code and what is not."""
    parts: list[tuple[bool, str]] = []
    position, opening = 0, None
    for match in _FENCE.finditer(text):
        if opening is None:
            parts.append((False, text[position : match.start()]))
            opening, position = match.group(1), match.start()
        elif match.group(1).startswith(opening) and match.group().strip() == match.group(1):
            parts.append((True, text[position : match.end()]))
            opening, position = None, match.end()
    parts.append((opening is not None, text[position:]))
    return [part for part in parts if part[1]]


def _open_fence(text: str) -> str:
    """Return the line that closes code which a text leaves open, for that would take all behind it in."""
    opening = ""
    for match in _FENCE.finditer(text):
        if not opening:
            opening = match.group(1)
        elif match.group(1).startswith(opening) and match.group().strip() == match.group(1):
            opening = ""
    return f"\n{opening}" if opening else ""


def _single_spaced(code: str) -> str:
    """Return fenced code without the blank line after each line; code with other gaps stays as it is."""
    lines = code.split("\n")
    if len(lines) < 3 or len(lines) % 2 == 0 or any(lines[1::2]) or not all(line.strip() for line in lines[::2]):
        return code
    return "\n".join(lines[::2])


def _inline(text: str, mends: Mends) -> str:
    """Part a text at its formulas and code; what is around them is text, with amounts and tags that are none."""
    out: list[str] = []
    plain: list[str] = []
    tokens = _Tokens(text)
    position = 0
    while token := _TOKEN.search(text, position):
        plain.append(text[position : token.start()])
        position = token.end()
        end, kept = _kept(tokens, token, mends)
        if end is None:
            plain.append(kept)
            continue
        out += [_tags("".join(plain), mends), kept]
        plain, position = [], end
    return "".join([*out, _tags("".join(plain) + text[position:], mends)])


def _kept(tokens: _Tokens, token: re.Match[str], mends: Mends) -> tuple[int | None, str]:
    """Return where what begins with a token ends and what stays of it; no end for text, as it stays."""
    text, sign = tokens.text, token.group()
    unsafe = "unsafe-markup" in mends
    if sign.startswith("\\"):
        acts = unsafe and sign == "\\<" and tokens.on_html_line(token.start())  # there, nothing is escaped
        return token.end(), "&lt;" if acts else sign
    if sign.startswith("`"):
        end = tokens.code_end(token.start(), token.end(), unsafe)
        return (end, text[token.start() : end]) if end is not None else (None, sign)
    start = token.end()
    if sign == "$$":
        end = tokens.display_end(start)
        if end is not None:
            body = text[start : end - 2]
            return end, f"$${safe_links(safe_latex(body)) if unsafe else body}$$"
        start = token.start() + 1
    inner = _TO_DOLLAR.match(text, start)
    if inner and inner.group(1).strip() and _is_formula(inner.group(1), text[inner.end() : inner.end() + 1]):
        body = inner.group(1).strip() if "tight-formulas" in mends else inner.group(1)
        return inner.end(), f"${safe_latex(body) if unsafe else body}$"
    dollar = "\\$" if "currency" in mends else "$"
    return None, dollar * len(sign)


class _Tokens:
    """Where code and formulas of one text end: each place is looked at once, however many begin."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._runs: dict[int, list[int]] = {}
        for run in re.finditer("`+", text):
            self._runs.setdefault(run.end() - run.start(), []).append(run.start())
        self._line, self._seen = 0, 0
        self._no_display = False

    def code_end(self, start: int, end: int, unsafe: bool) -> int | None:
        """Return where the code that a run of backticks begins ends; None where the run is text.

        Code does not go on over a blank line; on a line of HTML no renderer knows code.
        """
        closing = self._runs.get(end - start, [])
        place = bisect_left(closing, end)
        if place == len(closing) or closing[place] == end or self.text.find("\n\n", end, closing[place]) >= 0:
            return None
        if unsafe and self.on_html_line(start):
            return None
        return closing[place] + end - start

    def display_end(self, start: int) -> int | None:
        """Return where the formula behind `$$` ends, if it does."""
        end = -1 if self._no_display else self.text.find("$$", start + 1)
        self._no_display = end < 0
        return end + 2 if end >= 0 else None

    def on_html_line(self, place: int) -> bool:
        """Tell whether a line begins with a tag, as HTML that Markdown leaves alone does; places must not go back."""
        line_end = self.text.rfind("\n", self._seen, place)
        self._line = line_end + 1 if line_end >= 0 else self._line
        self._seen = place
        return _HTML_LINE.match(self.text, self._line) is not None


def _is_formula(inner: str, after: str) -> bool:
    """Tell a formula from what stands between two amounts; this recognizer writes words as formulas at times."""
    body = inner.strip()
    lone = re.fullmatch(r"(?:and|or|to|the|per|for|of|in|a)", body)
    balanced = inner[0].isspace() == inner[-1].isspace()
    return is_math(inner, after) or (balanced and not lone and not body[0].isdigit() and not after.isdigit())


def _tags(text: str, mends: Mends) -> str:
    return safe_text(text, _ELEMENTS, stray="stray-tags" in mends, unsafe="unsafe-markup" in mends)
