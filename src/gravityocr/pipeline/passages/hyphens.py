"""Two pieces of a text that was broken at the end of a region: joined, and the hyphen dropped or kept."""

from __future__ import annotations

import re

# First parts that take a hyphen before a word, but not before an ending, and second parts that take one after a word,
# but not after a prefix. Neither list is long: where it is silent, the hyphen goes, which is right for most words.
_FIRST_PARTS = frozenset({
    "self", "well", "quasi", "cross", "high", "low", "long", "short", "large", "small", "full", "half",
    "open", "fine", "real", "state", "two", "three", "four", "five", "seven", "eight", "nine",
})  # fmt: skip
_ENDINGS = frozenset({
    "er", "ers", "est", "ly", "ness", "ing", "ings", "ed", "en", "ened", "ening", "age", "ages", "ish", "ity",
    "ize", "ized", "ise", "ised", "ism", "ist", "istic", "hood", "dom", "able", "s", "y", "teen", "teenth", "ty",
    "th", "fold", "way", "ways", "ware", "hand", "stand", "cut", "coming", "fall", "land", "list", "time", "light",
    "side", "ment", "ments", "ion", "ions",
})  # fmt: skip
_SECOND_PARTS = frozenset({
    "based", "driven", "oriented", "specific", "dimensional", "aware", "grained", "tuned", "trained", "level",
    "scale", "term", "order", "quality",
})  # fmt: skip
_PREFIXES = frozenset({
    "over", "under", "inter", "semi", "anti", "multi", "trans", "super", "hyper", "intra", "extra",
    "counter", "pseudo",
})  # fmt: skip
_SUSPENDED = frozenset({
    "and", "or", "nor", "but", "und", "oder", "et", "ou", "y", "o",
})  # fmt: skip
_BROKEN = re.compile(r"([^\W\d_][\w'’\-‐]*|\d[\w'’.\-‐]*)[-‐\u00ad]$")
_NEXT_WORD = re.compile(r"[^\W\d_]+")
_ENDS = re.compile(r"[.!?。！？；;:：…][\"'”’»)\]）】」』*_]*$")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_CJK_OPEN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff，、（“《「]")
_LEAST_CJK = 20
_LONGEST_WORD = 80


def join_at_hyphen(first: str, second: str) -> str | None:
    """Return both as one text where a hyphen broke a word between them, else None.

    The second must go on in lower case. The hyphen stays where the word has one by itself: after digits, single
    letters, capitals (`RGB-`), parts such as `self-` and `well-`, in words that have another one (`state-of-`), and
    before parts such as `-based`; in `pre- and` it stays with its blank.
    """
    left, right = first.rstrip(), second.lstrip()
    broken = _BROKEN.search(left[-_LONGEST_WORD:])
    word = _NEXT_WORD.match(right)
    if broken is None or word is None or not right[0].islower() or broken.group(1)[-1] in "-‐":
        return None
    if word.group() in _SUSPENDED:
        return f"{left} {right}"
    if left[-1] != "\u00ad" and _keeps_hyphen(broken.group(1), word.group()):
        return left + right
    return left[:-1] + right


def _keeps_hyphen(fragment: str, word: str) -> bool:
    inner_capitals = any(letter.isupper() for letter in fragment[1:])
    compound = "-" in fragment or "‐" in fragment
    lone = len(fragment) == 1 or any(letter.isdigit() for letter in fragment)
    part = fragment.lower()
    first = part in _FIRST_PARTS and (word not in _ENDINGS or (part, word) == ("real", "time"))
    second = word in _SECOND_PARTS and len(part) > 3 and part not in _PREFIXES
    return inner_capitals or compound or lone or first or second


def join_like_sdk(first: str, second: str) -> str | None:
    """Return both without the hyphen between them, as the GLM-OCR SDK joins them without a word list, else None."""
    left, right = first.rstrip(), second.lstrip()
    if not left.endswith("-") or not right or not right[0].islower() or not left[:-1].split():
        return None
    word = (left[:-1].split()[-1] + right.split()[0]).lower()
    plausible = re.fullmatch(r"[a-z][a-z'\-]{2,30}", word) and "--" not in word and "''" not in word
    return left[:-1] + right if plausible else None


def join_continued(first: str, second: str) -> str | None:
    """Return both as one text where the second goes on in the middle of a sentence of the first, else None.

    In scripts with capitals: no end of a sentence, then a small letter. In Chinese and Japanese: a line of some
    length without any punctuation at its end, then another such character; those are joined without a blank.
    """
    left, right = first.rstrip(), second.lstrip()
    if not left or not right or _ENDS.search(left):
        return None
    if right[0].islower() and len(left.split()) > 1:
        return f"{left} {right}"
    flows = _CJK.match(left[-1]) or left[-1] in "，、"
    if flows and _CJK_OPEN.match(right) and len(left) >= _LEAST_CJK:
        return left + right
    return None
