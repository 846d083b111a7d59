"""Unicode's NFKC in time that does not explode on long runs of combining marks."""

from __future__ import annotations

import re
import unicodedata

# Python sorts every run of combining marks by insertion: 200,000 of them take half a minute. Shorter texts and
# shorter runs than these cost little.
_LONG_TEXT = 4000
_LONG_RUN = 500


def normalize_nfkc(text: str) -> str:
    """Return the NFKC form of a text.

    >>> normalize_nfkc("\uff11\u00b2")
    '12'
    """
    if len(text) > _LONG_TEXT and not text.isascii():
        text = _with_sorted_marks(text)
    return unicodedata.normalize("NFKC", text)


def _with_sorted_marks(text: str) -> str:
    """Decompose a text and put long runs of marks into canonical order, which normalising leaves as it is."""
    decomposed = {character: unicodedata.normalize("NFKD", character) for character in set(text)}
    marks = {mark for form in decomposed.values() for mark in form if unicodedata.combining(mark)}
    if not marks:
        return text
    forms = text.translate({ord(character): form for character, form in decomposed.items()})
    run = re.compile(f"[{re.escape(''.join(sorted(marks)))}]{{{_LONG_RUN},}}")
    if not run.search(forms):
        return text
    return run.sub(lambda match: "".join(sorted(match[0], key=unicodedata.combining)), forms)
