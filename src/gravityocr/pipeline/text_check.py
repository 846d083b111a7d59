"""The cross-check of what was read with a PDF's own text layer: what it says of each region, and how far they differ.

A text layer can be wrong (fonts without a proper map to Unicode, a poor earlier OCR), so it never replaces what was
read: a page whose layer disagrees is reported, and both texts stay.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from rapidfuzz.distance import Levenshtein

from gravityocr.document import Box, Page, PlacedText, Region
from gravityocr.errors import ConfigError
from gravityocr.pipeline.text_check_latex import plain_math
from gravityocr.pipeline.text_check_lines import words_to_text

_WORK = 50_000_000  # products of lengths that one distance may take; longer texts are compared in parts

_INLINE_TAG = re.compile(r"</?(?:sup|sub|b|i|u|s|em|strong|span)\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?(?:table|thead|tbody|tfoot|tr|td|th|caption|br|p|div)\b[^<>]*>", re.IGNORECASE)
_IMAGE = re.compile(r"!\[[^\]]*\]\([^()]*\)")
_LINE_MARK = re.compile(r"^\s*(?:#{1,6}|-)\s+", re.MULTILINE)
_LETTER_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u00ad]\s*(?=[^\W\d_])")
_ALIKE = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−\u00ad", "-"),
        **dict.fromkeys("‘’‚‛′ʹ", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("*`•‣▪◦●·⋅∙_^~{}$\\", None),
    }
)
"""What print draws alike is one character, and what Markdown and LaTeX write with says nothing, on either side."""


@dataclass(frozen=True)
class TextCheckConfig:
    """From which normalised edit distance on a page counts as one whose text layer disagrees."""

    max_ned: float = 0.15

    def __post_init__(self) -> None:
        if not 0 <= self.max_ned <= 1:
            raise ConfigError(f"text_check.max_ned is {self.max_ned}: choose a share in [0, 1], as 0.15")

    def disagrees(self, page: Page) -> bool:
        """Tell whether a page was compared with its text layer and differs by more than `max_ned`."""
        return page.text_layer_ned is not None and page.text_layer_ned > self.max_ned

    def note(self, page: Page) -> str | None:
        """Say how a page disagrees with its text layer, None where it does not."""
        if page.text_layer_ned is None or not self.disagrees(page):
            return None
        return (
            f"page {page.index + 1}: what was read and the text layer differ by {page.text_layer_ned:.2f}"
            f" (more than {self.max_ned:g}); compare both in the JSON"
        )


def with_text_layer(regions: Sequence[Region], words: Sequence[PlacedText]) -> tuple[Region, ...]:
    """Return the regions with what the text layer says of each, every word in one region at most.

    A word belongs to the smallest region that holds its middle. *Units*: words and boxes in pixels of the same page.
    """
    members: list[list[PlacedText]] = [[] for _ in regions]
    for word, home in zip(words, _homes(words, [region.box for region in regions]), strict=True):
        if home >= 0:
            members[home].append(word)
    return tuple(
        replace(region, text_layer=words_to_text(own, by_rows=region.task == "table") or None)
        for region, own in zip(regions, members, strict=True)
    )


def region_text(words: Sequence[PlacedText], box: Box) -> str | None:
    """Return the words whose middle lies in a box, in lines from top to bottom; None where there is none.

    Lines are parted by newlines, and a hyphen at a line's end stays: what was printed is what is told.
    """
    homes = _homes(words, [box])
    return words_to_text([word for word, home in zip(words, homes, strict=True) if home == 0]) or None


def page_distance(regions: Sequence[Region], words: Sequence[PlacedText] = ()) -> float | None:
    """Return the normalised edit distance of a page between what was read and its text layer, None without a layer.

    It adds up the edits of its text regions and tables over the lengths of the longer side. Formulas are left out,
    since a layer holds no LaTeX, as are pictures, regions that were not read, and those of which the layer says
    nothing. Of the `words` of the page, where they are given, those that lie in no region count as not read.
    """
    n_edits = n_chars = 0
    for region in regions:
        if region.text_layer is None or region.task not in ("text", "table") or region.status in ("failed", "skipped"):
            continue
        edits, length = _compare(region.content, region.text_layer, as_table=region.task == "table")
        n_edits, n_chars = n_edits + edits, n_chars + length
    homes = _homes(words, [region.box for region in regions])
    astray = comparable(" ".join(word.text for word, home in zip(words, homes, strict=True) if home < 0))
    n_edits, n_chars = n_edits + len(astray), n_chars + len(astray)
    return n_edits / n_chars if n_chars else None


def comparable(text: str) -> str:
    """Return a text without what layout, markup and fonts do to it: only what a reader would spell out, case kept.

    >>> comparable("The **eﬃ-\\ncient** way: $ x^{2} $")
    'Theefficientway:x2'
    """
    return "".join(_words(text))


def _words(text: str) -> list[str]:
    text = _TAG.sub("\n", _INLINE_TAG.sub("", _IMAGE.sub(" ", text)))
    text = unicodedata.normalize("NFKC", plain_math(html.unescape(text)))
    text = _LINE_MARK.sub("", text).translate(_ALIKE)
    # a hyphen between letters may be a line's end or the word's own: it counts for nothing on both sides
    text = _LETTER_HYPHEN.sub("", text)
    return "".join(char for char in text if unicodedata.category(char) != "Cf").split()


def _compare(content: str, layer: str, *, as_table: bool) -> tuple[int, int]:
    """Return edits and the length of the longer side; a table's cells may stand in another order in the layer."""
    read, known = _words(content), _words(layer)
    pairs = [("".join(read), "".join(known))]
    if as_table:
        pairs.append(("".join(sorted(read)), "".join(sorted(known))))
    return min(_distance(one, other) for one, other in pairs), max(len(side) for side in pairs[0])


def _distance(one: str, other: str) -> int:
    """Return the edit distance, of very long texts that of parts of them, which is a bound from above."""
    n_parts = -(-len(one) * len(other) // _WORK)
    if n_parts <= 1:
        return Levenshtein.distance(one, other)
    edges = [(k * len(one) // n_parts, k * len(other) // n_parts) for k in range(n_parts + 1)]
    parts = zip(edges, edges[1:], strict=False)
    return sum(Levenshtein.distance(one[a:c], other[b:d]) for (a, b), (c, d) in parts)


def _homes(words: Sequence[PlacedText], boxes: Sequence[Box]) -> list[int]:
    """Return of each word which box is its own: the smallest that holds its middle, -1 for none."""
    if not words or not boxes:
        return [-1] * len(words)
    middles = np.array([((w.box.x0 + w.box.x1) / 2, (w.box.y0 + w.box.y1) / 2) for w in words])
    homes = np.full(len(words), -1)
    for index in sorted(range(len(boxes)), key=lambda index: -boxes[index].area):  # the smaller ones come last and win
        box = boxes[index]
        inside = (middles[:, 0] >= box.x0) & (middles[:, 0] < box.x1)
        homes[inside & (middles[:, 1] >= box.y0) & (middles[:, 1] < box.y1)] = index
    found: list[int] = homes.tolist()
    return found
