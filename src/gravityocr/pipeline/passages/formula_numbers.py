"""Numbers beside display formulas: which formula each belongs to, and its `\\tag{}`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gravityocr.document import Region

_PARENTHESES = (("(", ")"), ("（", "）"), ("[", "]"), ("【", "】"), ("$", "$"))
_TAGGABLE = re.compile(r"[^\W_](?:[^\W_]|[ .,:'’′*+\-–—/])*")
_LINE_SLACK = 0.5  # of the number's height, by which it may stand above or below its formula


def is_number(region: Region) -> bool:
    """Tell whether a region is the number of a formula."""
    return region.label == "formula_number" or region.native_label == "formula_number"


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

    A number goes to the nearest formula on its line, on its left or right. A formula may have several, one for each
    of its lines; a number without a formula on its line is not in the answer.
    """
    formulas = [k for k, region in enumerate(regions) if _is_read_formula(region)]
    pairs: dict[int, int] = {}
    for place, number in enumerate(regions):
        if not is_number(number) or number.status != "ok" or clean_number(number.content) is None:
            continue
        on_line = [k for k in formulas if _on_line(number, regions[k])]
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


def _gap(number: Region, formula: Region) -> float:
    return max(formula.box.x0 - number.box.x1, number.box.x0 - formula.box.x1, 0.0)


def _offset(number: Region, formula: Region) -> float:
    return abs((number.box.y0 + number.box.y1) - (formula.box.y0 + formula.box.y1))
