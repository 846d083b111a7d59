"""What a reader compares in a score report: where a prediction leaves its reference, and how its table looks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from rapidfuzz.distance import Levenshtein

MOST_TOKENS = 6000  # the opcodes of two such texts take a few megabytes and milliseconds
MOST_CHARS = 20_000  # of one text shown in a report
_SHORT = 300  # below, characters are compared

# A LaTeX command, a tag, a run of letters and digits (CJK characters one by one), white space, or any other character.
_TOKEN = re.compile(
    r"\\[A-Za-z]+|</?[A-Za-z][^<>]{0,200}>|[^\W\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+|\s+|.", re.DOTALL
)

# What shapes a table; every other tag is dropped and its text kept.
_KEPT_TAGS = frozenset(
    {
        "table", "caption", "colgroup", "col", "thead", "tbody", "tfoot", "tr", "td", "th",
        "br", "p", "b", "i", "em", "strong", "u", "s", "sub", "sup", "ul", "ol", "li", "code",
    }
)  # fmt: skip
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)([^<>]*)>")
_SPAN = re.compile(r"""\b(rowspan|colspan)\s*=\s*["']?\s*(\d{1,4})\b""", re.IGNORECASE)


def diff_html(pred: str, ref: str) -> str:
    """Return the way from a reference to a prediction: `<del>` lacks in the prediction, `<ins>` is only there.

    Short texts are compared by characters, others by words, very long ones by their first words only.
    """
    by_char = max(len(pred), len(ref)) <= _SHORT
    ours, truth = (list(text) if by_char else _TOKEN.findall(text) for text in (pred, ref))
    n_left = max(len(ours), len(truth)) - MOST_TOKENS
    ours, truth = ours[:MOST_TOKENS], truth[:MOST_TOKENS]
    parts = []
    for step in Levenshtein.opcodes(truth, ours):
        gone = truth[step.src_start : step.src_end]
        come = ours[step.dest_start : step.dest_end]
        if step.tag == "equal":
            parts.append(escape("".join(gone)))
            continue
        parts += [f"<del>{_visible(gone)}</del>"] if gone else []
        parts += [f"<ins>{_visible(come)}</ins>"] if come else []
    if n_left > 0:
        parts.append(f'<span class="cut"> … {n_left} more words are not compared</span>')
    return "".join(parts)


def _visible(tokens: Sequence[str]) -> str:
    """Escape text; line breaks get a mark, for a changed one would leave none."""
    return escape("".join(tokens)).replace("\n", "\u21b5\n").replace("\t", "\u21e5\t")


def shown(text: str) -> str:
    """Escape a text for a report, cut to what a reader may take in."""
    if len(text) <= MOST_CHARS:
        return escape(text)
    return f'{escape(text[:MOST_CHARS])}<span class="cut"> … {len(text) - MOST_CHARS} more characters</span>'


def table_markup(html: str) -> str:
    """Reduce markup to bare table tags with their spans: no attribute, script, style or address passes."""

    def tag(found: re.Match[str]) -> str:
        slash, name, attributes = found.group(1), found.group(2).lower(), found.group(3)
        if name not in _KEPT_TAGS:
            return ""
        spans = "" if slash else "".join(f' {key.lower()}="{n}"' for key, n in _SPAN.findall(attributes))
        return f"<{slash}{name}{spans}>"

    parts, end = [], 0
    for found in _TAG.finditer(html):
        parts += [_text(html[end : found.start()]), tag(found)]
        end = found.end()
    return "".join([*parts, _text(html[end:])])


def _text(text: str) -> str:
    """Escape text, leaving its entities as they are."""
    return re.sub(r"&amp;(#?\w{1,12};)", r"&\1", escape(text))
