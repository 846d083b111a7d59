"""HTML tables in the normal form of OmniDocBench, in time linear in their length.

The benchmark reads a table with a forgiving parser, rewrites the tree, prints it, and edits the print. Printing such a
tree is the same as passing its tags on in the order in which they open and close, so no tree is built here: one walk
over the markup writes the normal form. A tag that is never closed ends with its parent, an end tag that nothing
opened is dropped, attributes come out sorted, and entities end as the characters that they name.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from gravityocr.metrics.tables.html_tokens import Token, decode_entities, tokenize, unescape
from gravityocr.metrics.tables.nfkc import normalize_nfkc

VOID = frozenset({
    "area", "base", "basefont", "bgsound", "br", "col", "command", "embed", "frame", "hr", "image", "img", "input",
    "isindex", "keygen", "link", "menuitem", "meta", "nextid", "param", "source", "spacer", "track", "wbr",
})  # fmt: skip
KEEPS_SPACE = frozenset({"pre", "textarea"})
CELLS = frozenset({"td", "th"})
# Tags whose content stays while they themselves go.
UNWRAPPED = frozenset({"thead", "tbody", "span"})
# Attributes that hold a list of words: the space between the words is folded.
WORD_LISTS = frozenset({"class", "accesskey", "dropzone"})

_SPACE = " \n\t\f\r"


@dataclass
class _Printer:
    """Writes the tags that stay, closes what was left open, and holds text back until the next visible tag."""

    out: list[str] = field(default_factory=list)
    stack: list[tuple[str, str]] = field(default_factory=list)  # the name as parsed, the end tag as printed
    n_open: Counter[str] = field(default_factory=Counter)
    segment: list[str] = field(default_factory=list)  # text since the last tag
    pending: list[str] = field(default_factory=list)  # text since the last tag that stays
    is_raw: bool = False

    def feed(self, token: Token) -> None:
        """Take the next token."""
        if token.kind == "text":
            self.segment.append(decode_entities(token.data))
            return
        self._end_segment()
        if token.kind == "raw":
            self.pending.append(token.data)
            self.is_raw = True
        elif token.kind == "start":
            self._open(token)
        elif token.kind == "end":
            self._close(token.data)
        elif not self.n_open["math"]:
            self._flush()
            self._enclosed(token)

    def finish(self) -> str:
        """Close everything and return the print."""
        self._end_segment()
        while self.stack:
            self._pop()
        self._flush()
        return "".join(self.out)

    def _open(self, token: Token) -> None:
        name = token.data
        inside_math = self.n_open["math"] > 0
        printed = ""
        if name == "math" and not inside_math:
            self.pending.append(f"${dict(token.attributes).get('alttext', '')}$")
        elif not inside_math and name not in UNWRAPPED:
            self._flush()
            tag = unescape("td" if name == "th" else name)
            attributes = "".join(_print_attribute(key, value, name) for key, value in token.attributes)
            empty = name in VOID
            self.out.append(f"<{tag}{attributes}/>" if empty else f"<{tag}{attributes}>")
            printed = "" if empty else f"</{tag}>"
        self.stack.append((name, printed))
        self.n_open[name] += 1
        if name in VOID or token.closed:
            self._pop()

    def _close(self, name: str) -> None:
        while self.n_open[name]:
            if self._pop() == name:
                return

    def _pop(self) -> str:
        name, printed = self.stack[-1]
        if printed:
            self._flush()
            self.out.append(printed)
        self.stack.pop()
        self.n_open[name] -= 1
        return name

    def _end_segment(self) -> None:
        """Fold a stretch of nothing but space, as the parser does between any two tags."""
        if self.segment:
            text = "".join(self.segment)
            self.segment.clear()
            if not self.n_open["math"]:
                self.pending.append(self._fold(text))

    def _fold(self, text: str) -> str:
        if not text or text.strip(_SPACE) or any(self.n_open[tag] for tag in KEEPS_SPACE):
            return text
        return "\n" if "\n" in text else " "

    def _flush(self) -> None:
        if self.pending:
            text = self._fold("".join(self.pending))
            self.pending.clear()
            text = self._in_cells(text)
            self.out.append(unescape(text) if self.is_raw else text)
        self.is_raw = False

    def _in_cells(self, text: str) -> str:
        """Normalise a text once for every cell that it stands in; a few rounds settle any text."""
        for _ in range(self.n_open["td"] + self.n_open["th"]):
            before, text = text, normalize_cell(text)
            if before == text:
                break
        return text

    def _enclosed(self, token: Token) -> None:
        """Print a comment, or its bare text where normalising it as a cell's text changed it."""
        closers = {"<!--": "-->", "<![CDATA[": "]]>"}
        text = self._in_cells(token.data)
        closer = closers.get(token.kind, ">")
        self.out.append(f"{token.kind}{unescape(text)}{closer}" if text == token.data else text)


def _print_attribute(name: str, value: str, tag: str) -> str:
    if name in WORD_LISTS or (name == "headers" and tag in CELLS):
        value = " ".join(value.split())
    quote = "'" if '"' in value and "'" not in value else '"'
    return f" {unescape(name)}={quote}{value}{quote}"


# Commands and signs that mean the same to a reader of a table. The order matters: replacing is by plain text, and
# an earlier command may be the beginning of a later one.
_COMMANDS = (
    ("\\checkmark", "√"), ("\\checked", "√"), ("\\surd", "√"), ("\\times", "×"), ("\\xmark", "×"),
    ("\\crossmark", "×"), ("\\pm", "±"), ("\\mp", "∓"), ("\\alpha", "α"), ("\\beta", "β"), ("\\gamma", "γ"),
    ("\\gama", "γ"), ("\\mu", "μ"), ("\\lambda", "λ"), ("\\theta", "θ"), ("\\eta", "η"), ("\\pi", "π"), ("\\rho", "ρ"),
    ("\\sigma", "σ"), ("\\omega", "ω"), ("\\delta", "δ"), ("\\Delta", "Δ"), ("\\epsilon", "ε"), ("\\varepsilon", "ε"),
    ("\\phi", "φ"), ("\\varphi", "φ"), ("\\tau", "τ"), ("\\partial", "∂"), ("\\varnothing", "∅"), ("\\emptyset", "∅"),
    ("\\sim", "～"),
)  # fmt: skip
_ESCAPES = (("\\%", "%"), ("\\#", "#"), ("\\&", "&"), ("\\_", "_"))
_SIGNS = str.maketrans(
    {**dict.fromkeys("✓✔☑✅🗸", "√"), **dict.fromkeys("✗✘✕✖☒❌╳⨯", "×"), "Ø": "∅", "∼": "～", "〜": "～"}
)
_DASHES = frozenset("-–−－—")
_WRAPPERS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))
_LONGEST_WRAPPED = 128


def normalize_cell(text: str) -> str:
    r"""Normalise the text of a cell: NFKC, one sign for each meaning, no delimiters around a short formula.

    >>> normalize_cell(r" $\alpha \pm 5$ "), normalize_cell("-"), normalize_cell("1 - 2")
    ('α ± 5', '—', '1 - 2')
    """
    text = normalize_nfkc(text).replace("\xa0", " ").replace("\u200b", "")
    text = _unify_signs(_strip_wrappers(_unify_signs(text)))
    if text.strip() in _DASHES:
        return "—"
    return " ".join(text.split())


def _unify_signs(text: str) -> str:
    if "\\" in text:
        for command, sign in _COMMANDS:
            text = text.replace(command, sign)
    text = text.translate(_SIGNS)
    if "\\" in text:
        for escape, sign in _ESCAPES:
            text = text.replace(escape, sign)
    return text


def _strip_wrappers(text: str) -> str:
    text = text.strip()
    changed = True
    while text and changed:
        changed = False
        for left, right in _WRAPPERS:
            if not (text.startswith(left) and text.endswith(right) and len(text) >= len(left) + len(right)):
                continue
            if len(text) > 2 * _LONGEST_WRAPPED and text[len(left) : -len(right)].strip()[_LONGEST_WRAPPED:]:
                continue
            inner = text[len(left) : -len(right)].strip()
            if inner and len(inner) <= _LONGEST_WRAPPED and not any(mark in inner for mark in "<>$"):
                text, changed = inner, True
                break
    return text


_TABLE_START = re.compile(r"<table\b", re.IGNORECASE)
_TABLE_END = re.compile(r"</table>", re.IGNORECASE)
_GONE = ("<sup>", "</sup>", "<sub>", "</sub>", "<span>", "</span>", "<div>", "</div>", "<p>", "</p>")


def normal_form(markup: str, *, any_case: bool = False) -> str:
    """Return the table of some markup as OmniDocBench compares it; '' where there is none.

    Everything from inside the first opened table to the last closed one counts, so that two tables in a row come
    out as two. The benchmark looks for `<table` in lower case only; `any_case=True` looks for any.
    """
    squeezed = markup.replace(" ", "")
    if "<table" not in (squeezed.lower() if any_case else squeezed):
        return ""
    printer = _Printer()
    for token in tokenize(markup):
        printer.feed(token)
    text = normalize_nfkc(printer.finish().replace("\n", "")).strip()
    inner = _inside_table(text)
    for name in ("style", "height", "width", "align", "class"):
        inner = drop_between(inner, f' {name}="', '"')
    inner = inner.replace("<tbody>", "").replace("</tbody>", "")
    inner = re.sub(r"\s+", " ", inner)
    form = f'<html><body><table border="1" >{inner}</table></body></html>'
    for tag in _GONE:
        form = form.replace(tag, "")
    return drop_between(form.replace('<spandata-span-identity="">', ""), "<colgroup>", "</colgroup>")


def _inside_table(text: str) -> str:
    start = _TABLE_START.search(text)
    begin = text.find(">", start.end()) if start else -1
    if begin < 0:
        return ""
    ends = [match.start() for match in _TABLE_END.finditer(text, begin + 1)]
    return text[begin + 1 : ends[-1]] if ends else ""


def drop_between(text: str, opener: str, closer: str) -> str:
    """Remove every stretch from an opener to the nearest closer on the same line, both included.

    >>> drop_between('<td class="a" id="b">', ' class="', '"')
    '<td id="b">'
    """
    if opener not in text:
        return text
    kept = []
    done = search = 0
    end = line_end = -1
    while (begin := text.find(opener, search)) >= 0:
        inside = begin + len(opener)
        end = text.find(closer, inside) if end < inside else end
        if end < 0:
            break
        line_end = next_or_end(text, "\n", inside) if line_end < inside else line_end
        if line_end < end:
            search = begin + 1
            continue
        kept.append(text[done:begin])
        done = search = end + len(closer)
    return "".join(kept) + text[done:]


def next_or_end(text: str, mark: str, start: int) -> int:
    """Return where `mark` is next from `start` on, or the length of the text."""
    found = text.find(mark, start)
    return found if found >= 0 else len(text)
