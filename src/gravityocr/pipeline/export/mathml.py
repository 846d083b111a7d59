"""LaTeX as MathML that a browser draws; what cannot be converted whole stays LaTeX."""

from __future__ import annotations

import re
from html import escape, unescape
from xml.etree.ElementTree import Element

from latex2mathml import converter, exceptions

_FAILURES: tuple[type[Exception], ...] = (
    *(item for item in vars(exceptions).values() if isinstance(item, type) and issubclass(item, Exception)),
    ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""What the converter raises for LaTeX that it does not know, or that is none."""

_LONGEST = 20_000  # characters: beyond it, no formula is one
_PARTS = {
    "mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3,
}  # fmt: skip
_TAGS = frozenset(
    {"math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "msqrt", "mstyle", "mpadded", "mphantom", "menclose",
     "mtable", "mtr", "mtd", "merror", "mmultiscripts", "mprescripts", "none"} | _PARTS.keys()
)  # fmt: skip
_ATTRIBUTES = frozenset(
    {"accent", "accentunder", "columnalign", "columnlines", "columnspacing", "displaystyle", "depth", "display",
     "fence", "form", "height", "largeop", "linethickness", "lspace", "mathvariant", "maxsize", "minsize",
     "movablelimits", "notation", "rowlines", "rowspacing", "rspace", "scriptlevel", "separator", "stretchy",
     "symmetric", "voffset", "width"}
)  # fmt: skip
_ALIGNED = re.compile(r"\\(begin|end)\{(?:aligned|align|split|eqnarray\*?|alignedat)\}(?:(?<=alignedat\})\{\d+\})?")
_GATHERED = re.compile(r"\\(begin|end)\{(?:gathered|gather\*?|multline\*?)\}")
_TAG = re.compile(r"\\tag\*?\s*\{([^{}]*)\}")
_COMMAND = re.compile(r"\\[A-Za-z]+")


def formula_html(latex: str, *, display: bool = False) -> str:
    """Return a formula as MathML with its LaTeX as `title`, its number beside it; as `<code>` where that fails."""
    body = latex.strip()
    numbers = _TAG.findall(body)
    number = ""
    if display and len(numbers) == 1:
        body = _TAG.sub("", body).strip()
        number = f'<span class="number">({escape(numbers[0])})</span>'
    tree = _converted(body, display)
    if tree is None:
        return f'<code class="latex">{escape(visible(latex.strip()))}</code>'
    math = _serialised(tree, f' title="{escape(visible(body))}"')
    return f'<span class="formula">{math}{number}</span>' if display else math


def visible(text: str) -> str:
    """Return text with its control characters as pictures of them: a document can hold no others."""
    return "".join(chr(0x2400 + ord(sign)) if ord(sign) < 32 and sign not in "\t\n\r" else sign for sign in text)


def _converted(latex: str, display: bool) -> Element | None:
    if not latex or len(latex) > _LONGEST:
        return None
    known = _ALIGNED.sub(r"\\\1{align*}", visible(latex))
    known = _GATHERED.sub(lambda match: r"\begin{array}{c}" if match[1] == "begin" else r"\end{array}", known)
    tree = _tried(known, display)
    if tree is not None and any(element.get("linebreak") == "newline" for element in tree.iter("mspace")):
        # lines that no environment holds together would be drawn as one
        tree = _tried(r"\begin{align*}" + known + r"\end{align*}", display) or tree
    return tree


def _tried(latex: str, display: bool) -> Element | None:
    try:
        tree = converter.convert_to_element(latex, display="block" if display else "inline")
    except _FAILURES:
        return None
    return tree if all(map(_is_whole, tree.iter())) else None


def _is_whole(element: Element) -> bool:
    """Tell whether an element was understood: known, with all its parts, no LaTeX left in its text."""
    if element.tag not in _TAGS or len(element) != _PARTS.get(element.tag, len(element)):
        return False
    text = unescape(element.text or "")
    return not _COMMAND.search(text) and not (element.tag == "mi" and text == "&")


def _serialised(element: Element, title: str = "") -> str:
    """Write an element with what is harmless of its attributes; the converter's own text is entities already."""
    named = "".join(f' {name}="{escape(value)}"' for name, value in sorted(element.items()) if name in _ATTRIBUTES)
    inner = escape(unescape(element.text or "")) + "".join(map(_serialised, element))
    tail = escape(unescape(element.tail or ""))
    return f"<{element.tag}{named}{title}>{inner}</{element.tag}>{tail}"
