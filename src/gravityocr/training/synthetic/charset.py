"""The characters that the synthetic crops may contain; the tokenizer of the small model is made from them."""

import re
import unicodedata

ASCII = "".join(chr(code) for code in range(0x20, 0x7F))
PUNCTUATION = "–—‘’“”•…°±×·§©®™€£µ"
ACCENTED = "éèêëáàâäãåçñóòôöõøúùûüíìîïßæÉÖÜÄÅÇ"
GREEK = "αβγδεθλμπσφωΔΣΩ"
RELATIONS = "≤≥≈→∼−"

CHARSET: str = ASCII + "\n" + PUNCTUATION + ACCENTED + GREEK + RELATIONS
"""Every character that a label may hold, newline included, each once."""

# U+00B5 looks exactly like U+03BC and no reader could tell them apart: labels hold the Greek letter only.
NEVER_DRAWN = frozenset("µ")

LIGATURES = {"ffi": "\ufb03", "ffl": "\ufb04", "ff": "\ufb00", "fi": "\ufb01", "fl": "\ufb02"}
"""Plain letters and the presentation form that is drawn for them; longest first."""

_FOLDS = str.maketrans(
    {
        "µ": "μ",
        "\u00a0": " ",
        "\u2009": " ",
        "\u202f": " ",
        "\u2010": "-",
        "\u2011": "-",
        "\u2012": "–",
        "\u2015": "—",
        "\u201a": ",",
        "\u201e": "“",
        "\u2032": "'",
        "\u2033": '"',
        "\u2043": "•",
        "\u2219": "·",
        "\u22c5": "·",
        "\u00ad": "",
        "\u200b": "",
        "\ufeff": "",
        "ϕ": "φ",
        "ϵ": "ε",
    }
)
# What a font without the glyph draws instead; a character that is in neither is left out.
SUBSTITUTES = {
    "–": "-",
    "—": "-",
    "−": "-",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "…": "...",
    "•": "-",
    "·": ".",
    "×": "x",
    "∼": "~",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
}
_SPACES = re.compile(r"\s+")
_ALLOWED = frozenset(CHARSET) - NEVER_DRAWN


def fold_to_charset(text: str) -> str | None:
    """Fold a paragraph into the charset with single spaces; None where a character has no equivalent."""
    text = _SPACES.sub(" ", text.translate(_FOLDS)).strip()
    if _ALLOWED.issuperset(text):
        return text
    text = unicodedata.normalize("NFC", text)
    folded = "".join(c if c in _ALLOWED else unicodedata.normalize("NFKC", c) for c in text)
    folded = _SPACES.sub(" ", folded.translate(_FOLDS)).strip()
    return folded if _ALLOWED.issuperset(folded) else None


def restrict(text: str, covered: frozenset[str]) -> str:
    """Replace the characters that a font lacks by their substitutes, or leave them out."""
    if covered.issuperset(text):
        return text
    return "".join(c if c in covered else SUBSTITUTES.get(c, "") for c in text)
