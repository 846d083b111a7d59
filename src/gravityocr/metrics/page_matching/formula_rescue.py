"""Recognise formulas that a model wrote as plain text, and text that it wrote into a formula."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gravityocr.metrics.latex_text import formula_to_unicode

_OPERATORS = re.compile(
    r"\\frac|\\sqrt|\\sum|\\int|\\prod|\\times|\\div|\\square|\\cdots|\\left|\\right|\\approx|\\xrightarrow|\\rightarrow|"
    r"\\longrightarrow|[=<>≤≥≈÷×±∑∫√→^_□△…%/+-]"
)
_CJK = re.compile(r"[\u4e00-\u9fff]")
_WORD = re.compile(r"[A-Za-z]{4,}")
_RELATIONS = ("=", "\\approx", "≈", "\\neq", "≠", "\\leq", "≤", "\\geq", "≥")
_REPLACEMENTS = (
    ("……", " \\cdots \\cdots "), ("…", " \\cdots "), ("×", " \\times "), ("÷", " \\div "), ("≤", " \\leq "),
    ("≥", " \\geq "), ("≠", " \\neq "), ("≈", " \\approx "), ("□", " \\square "), ("△", " \\triangle "), ("（", "("),
    ("）", ")"), ("［", "["), ("］", "]"), ("｛", "{"), ("｝", "}"),
)  # fmt: skip
_REACTION_NAME = "氧化还原反应"  # a redox reaction's name, set below the arrow
_SPACING = r"(?:\\qquad|\\quad|\\enspace|\\,|\\;|\\:)\s*"
_NUMBER_BEFORE = re.compile(
    r"\s*(?P<number>\\left\(\s*[0-9IVXivx]+\s*\\right\)|\(\s*[0-9IVXivx]+\s*\))\s*(?:" + _SPACING + r")*"
)
_CAPTIONS_AFTER = (
    re.compile(r"(?P<space>" + _SPACING + r")(?P<caption>\\text\s*\{[^{}]*\}\.?)\s*$"),
    re.compile(r"(?P<space>" + _SPACING + r")(?P<caption>\([^)]*[A-Za-z][^)]*\)\.?)\s*$"),
)
_SPACES_AFTER = re.compile(r"(?:" + _SPACING + r")+$")
_ENVELOPES = (("\\[", "\\]"), ("\\(", "\\)"), ("$$", "$$"), ("$", "$"))


@dataclass(frozen=True)
class Part:
    """Hold a part of a formula. *Units*: `start`, `end` characters of the page, partly estimated."""

    content: str
    start: int
    end: int


def without_delimiters(text: str) -> str:
    """Replace the delimiters of all formulas in a text by spaces."""
    for pattern in (r"\$\$(.*?)\$\$", r"\\\[(.*?)\\\]", r"\\\((.*?)\\\)", r"\$(.*?)\$"):
        text = re.sub(pattern, r" \1 ", text, flags=re.DOTALL)
    return text


def is_formula_like(text: str) -> bool:
    """Whether a short text is likely to be a formula: many operators, few words."""
    if len(text) > 4000:  # spaces apart, no formula here is longer than 220
        return False
    text = " ".join(text.split())
    if not text or len(text) > 220:
        return False
    bare = without_delimiters(text)
    compact = "".join(bare.split())
    if not compact:
        return False
    n_operators = len(_OPERATORS.findall(bare))
    n_cjk, n_words = len(_CJK.findall(bare)), len(_WORD.findall(bare))
    n_digits = sum(char.isdigit() for char in bare)
    n_marked = len(re.findall(r"\$.*?\$|\\\(.*?\\\)", text)) + len(re.findall(r"\$\$.*?\$\$|\\\[.*?\\\]", text))
    rest = re.sub(r"\\[A-Za-z]+|[=<>≤≥÷×±∑∫√^_□△…%/()+-]|\d|\s", "", bare)
    has_box = "□" in bare or "\\square" in bare
    has_arrow = "\\xrightarrow" in bare or "\\longrightarrow" in bare or "→" in bare
    return (
        (n_marked > 0 and len(rest) <= 18 and n_operators >= 1)
        or (has_box and n_operators >= 1 and n_words <= 1 and len(compact) <= 80)
        or (has_arrow and n_cjk <= 24 and len(compact) <= 120)
        or (n_operators >= 2 and n_digits >= 1 and n_words <= 2 and n_cjk <= 12 and len(compact) <= 100)
        or (n_operators >= 3 and n_words == 0 and n_cjk <= 18 and len(compact) <= 80)
    )


def is_formula_like_cell(text: str) -> bool:
    """Whether a table's cell holds an arithmetic formula."""
    if not text or len(text) > 120 or not is_formula_like(text):
        return False
    signs = ("=", "+", "-", "×", "÷", "/", "≈", "\\times", "\\div", "\\approx")
    return any(sign in text for sign in signs) and _has_numbers(text)


def _has_numbers(text: str) -> bool:
    n_digits = sum(char.isdigit() for char in text)
    return n_digits >= 2 or "\\frac" in text or bool(re.search(r"\d+\s*/\s*\d+", text))


def rescued_formula(text: str) -> str:
    r"""Write a formula that stands in plain text as LaTeX between `\[` and `\]`, or return "" for nothing."""
    text = without_delimiters(" ".join(text.replace("\u3000", " ").split()))
    for char, latex in _REPLACEMENTS:
        text = text.replace(char, latex)
    text = _label_arrow(text)
    text = re.sub(r"(?<!\\)([%&])", r"\\\1", text)
    text = " ".join(text.split())
    if not text or text.startswith(("\\begin{", "$$", "\\[")):
        return text
    return f"\\[ {text} \\]"


def _label_arrow(text: str) -> str:
    """Set the condition of a reaction above its arrow as text."""
    arrow = re.search(r"\\xrightarrow\s*\{([^{}]+)\}", text)
    if arrow is None:
        return text
    left, label, right = text[: arrow.start()].strip(), arrow[1].strip(), text[arrow.end() :].strip()
    if label and "\\" not in label:
        label = f"\\text{{{label}}}"
    if right.endswith(_REACTION_NAME):
        right = right[: -len(_REACTION_NAME)].strip()
        return f"{left} \\underset{{{_REACTION_NAME}}}{{\\xrightarrow{{{label}}}}} {right}".strip()
    return f"{left} \\xrightarrow{{{label}}} {right}".strip()


def split_display_formula(formula: str, start: int, end: int) -> tuple[list[Part], list[Part]]:
    """Return the formulas and the captions of a display formula.

    A number before it and words after it are captions; arithmetic formulas side by side are formulas of their own.
    """
    content, captions = _split_margins(formula, start, end)
    parts = _split_side_by_side(content, start, end)
    return parts or [Part(content, start, end)], captions


def _envelope(formula: str) -> tuple[str, str, str]:
    text = " ".join(formula.split())
    for left, right in _ENVELOPES:
        if text.startswith(left) and text.endswith(right) and len(text) >= len(left) + len(right):
            return left, right, text[len(left) : len(text) - len(right)].strip()
    return "", "", text


def _wrap(inner: str, left: str, right: str) -> str:
    return f"{left} {inner} {right}" if left and inner else inner


def _split_margins(formula: str, start: int, end: int) -> tuple[str, list[Part]]:
    left, right, inner = _envelope(formula)
    captions: list[Part] = []
    if not inner or not (_NUMBER_BEFORE.match(inner) or _caption_after(inner)):
        return formula, []
    if number := _NUMBER_BEFORE.match(inner):
        raw = number["number"].strip()
        captions += _caption(raw, start, min(end, start + max(len(raw), 1)))
        inner = inner[number.end() :].strip()
    while inner and (found := _caption_after(inner)):
        raw = found["caption"].strip()
        captions += _caption(raw, max(start, end - max(len(raw), 1)), end)
        inner = inner[: found.start("space")].rstrip()
    inner = _SPACES_AFTER.sub("", inner).strip()
    if not inner:
        return " ".join(formula.split()), []
    return _wrap(inner, left, right), captions


def _caption_after(inner: str) -> re.Match[str] | None:
    for pattern in _CAPTIONS_AFTER:
        found = pattern.search(inner)
        if found and _is_caption(found["caption"]):
            return found
    return None


def _caption(latex: str, start: int, end: int) -> list[Part]:
    text = _plain(latex)
    return [Part(text, start, end)] if text else []


def _plain(latex: str) -> str:
    return " ".join(formula_to_unicode(latex.strip()).replace("\xa0", " ").split())


def _is_caption(latex: str) -> bool:
    plain = _plain(latex)
    if not plain:
        return False
    inside = plain[1:-1].strip() if plain.startswith("(") and plain.endswith(")") else plain
    if re.fullmatch(r"[0-9IVXivx]+", inside.replace(" ", "")):
        return False
    n_letters, n_words = len(re.findall(r"[A-Za-z]", plain)), len(re.findall(r"[A-Za-z]{2,}", plain))
    n_math = len(re.findall(r"\\[A-Za-z]+|[=<>≤≥÷×±∑∫√_^{}]", latex))
    has_digits = any(char.isdigit() for char in plain)
    return (n_letters >= 10 and n_words >= 2 and n_math <= 6) or (n_letters >= 14 and not has_digits and n_math <= 3)


def _split_side_by_side(formula: str, start: int, end: int) -> list[Part]:
    left, right, inner = _envelope(formula)
    if "\\quad" not in inner and "\\qquad" not in inner:
        return []
    segments = [s for s in (part.strip() for part in re.split(r"\\qquad|\\quad", inner)) if s]
    if len(segments) <= 1 or not all(map(_is_arithmetic, segments)):
        return []
    step = max(max(end - start, len(segments)) // len(segments), 1)
    last = len(segments) - 1
    return [
        Part(_wrap(s, left, right), start + i * step, end if i == last else min(end, start + (i + 1) * step))
        for i, s in enumerate(segments)
    ]


def _is_arithmetic(segment: str) -> bool:
    text = " ".join(segment.split())
    if not text or len(text) > 160 or "\\begin{" in text or "\\end{" in text:
        return False
    if re.search(r"\\(mathbf|left|right|cdot|lambda|Gamma|varGamma|text|matrix|pmatrix|bmatrix)", text):
        return False
    return any(sign in text for sign in _RELATIONS) and _has_numbers(text)
