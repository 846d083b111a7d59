"""Numbers beside display formulas: which formula each belongs to, and its `\\tag{}`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gravityocr.document import Region

_PARENTHESES = (("(", ")"), ("（", "）"), ("[", "]"), ("【", "】"), ("$", "$"))
_TAGGABLE = re.compile(r"[^\W_](?:[^\W_]|[ .,:'’′*+\-–—/])*")
_LONE = re.compile(r"[(（]\s*(?:[A-Za-z]{1,2}\s?[.\-–]?\s?)?\d{1,3}(?:[.\-–]\d{1,3}){0,3}[a-z]?['’′*]?\s*[)）]")
_LINE_SLACK = 0.5  # of the number's height, by which it may stand above or below its formula


def is_number(region: Region) -> bool:
    """Tell whether a region is the number of a formula."""
    return region.label == "formula_number" or region.native_label == "formula_number"


def is_lone_number(region: Region) -> bool:
    """Tell whether a text is nothing but a number in parentheses: detectors without a class for those call it text."""
    return region.label == "text" and _LONE.fullmatch(region.content.strip()) is not None


def clean_number(content: str) -> str | None:
    """Return a formula's number without parentheses, as `\\tag{}` takes it; None where it cannot stand there."""
    number = content.strip()
    tag = re.fullmatch(r"\\tag\s*\{([^{}]*)\}", number.strip("$ \n"))
    if tag:
        number = tag.group(1).strip()
    for _ in range(3):
        for opening, closing in _PARENTHESES:
            if len(number) > 2 and number.startswith(opening) and number.endswith(closing):
                number = number[1:-1].strip()
    return number if _TAGGABLE.fullmatch(number) else None


def pair_numbers(regions: Sequence[Region]) -> dict[int, int]:
    """Return which formula each number goes to, both by their place in `regions`.

    A number goes to the nearest formula on its line, on its left or right; so does a text that is only a number in
    parentheses, where it is small and nothing stands between them. A formula may have several, one for each
    of its lines; a number without a formula on its line is not in the answer.
    """
    formulas = [k for k, region in enumerate(regions) if _is_read_formula(region)]
    pairs: dict[int, int] = {}
    for place, number in enumerate(regions):
        is_lone = not is_number(number) and is_lone_number(number)
        if not (is_number(number) or is_lone) or number.status != "ok" or clean_number(number.content) is None:
            continue
        on_line = [k for k in formulas if _on_line(number, regions[k])]
        if is_lone:
            on_line = [k for k in on_line if _is_beside(number, regions[k], regions)]
        if on_line:
            pairs[place] = min(on_line, key=lambda k: (_gap(number, regions[k]), _offset(number, regions[k])))
    return pairs


def pair_by_order(regions: Sequence[Region]) -> dict[int, int]:
    """Return pairs as the GLM-OCR SDK makes them: a number and the formula right after or, else, right before it."""
    pairs: dict[int, int] = {}
    place = 0
    while place < len(regions):
        here = regions[place]
        after = regions[place + 1] if place + 1 < len(regions) else None
        if is_number(here) and after is not None and after.label == "formula":
            pairs[place] = place + 1
            place += 1
        elif here.label == "formula" and after is not None and is_number(after):
            pairs[place + 1] = place
            place += 1
        place += 1
    return pairs


def tagged(formula: str, numbers: Sequence[str]) -> str | None:
    """Return a display formula with its numbers in one `\\tag{}` on its last line; None where it has another tag."""
    if not numbers:
        return formula
    if not formula.endswith("\n$$"):
        return None
    tag = f"\\tag{{{', '.join(numbers)}}}"
    if "\\tag" in formula:
        return (
            formula
            if all(re.search(rf"\\tag\*?\s*\{{\(?\s*{re.escape(n)}\s*\)?\}}", formula) for n in numbers)
            else None
        )
    return f"{formula[:-3]} {tag}\n$$"


def _is_read_formula(region: Region) -> bool:
    return region.task == "formula" and region.status not in ("failed", "skipped") and bool(region.content.strip())


def _on_line(number: Region, formula: Region) -> bool:
    box, other = number.box, formula.box
    slack = _LINE_SLACK * box.height
    middle = (box.y0 + box.y1) / 2
    apart = box.width * 0.5 >= min(box.x1, other.x1) - max(box.x0, other.x0)
    return other.y0 - slack <= middle <= other.y1 + slack and apart


def _is_beside(number: Region, formula: Region, regions: Sequence[Region]) -> bool:
    """Tell whether a number is no higher and wider than its formula, with nothing between them on the line."""
    box, other = number.box, formula.box
    if box.height > max(other.height, 1.0) * 1.5 or box.width > max(other.width, 3 * box.height):
        return False
    left, right = min(box.x1, other.x1), max(box.x0, other.x0)
    return not any(
        region.box.x1 > left and region.box.x0 < right and region.box.y0 < box.y1 and region.box.y1 > box.y0
        for region in regions
        if region is not number and region is not formula
    )


def _gap(number: Region, formula: Region) -> float:
    return max(formula.box.x0 - number.box.x1, number.box.x0 - formula.box.x1, 0.0)


def _offset(number: Region, formula: Region) -> float:
    return abs((number.box.y0 + number.box.y1) - (formula.box.y0 + formula.box.y1))
