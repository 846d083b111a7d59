r"""One way to write every drawn formula: what a reader cannot tell apart gets one spelling.

The rules: blanks of less than a quad go; braces stand only where an argument or script needs them; a subscript precedes
a superscript; `\over` is `\frac`; matrices, cases and alignments are arrays; a font holds the letters that it changes
and nothing else; a word that LaTeX knows as an operator is one; brackets in sizes set by hand that pair up are `\left`
and `\right`; of synonyms one remains. A formula with anything else is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gravityocr.training.synthetic.formula_items import FormulaFormError, Item, Items, write_items
from gravityocr.training.synthetic.formula_names import BRACKETS, FONTS, LETTERS, OPERATORS, STRICT_FONTS

_ONE_QUAD, _TWO_QUADS = 13, 30  # eighteenths of a quad


def target_tokens(items: Items) -> tuple[str, ...]:
    """Return the target of a formula.

    *Raises*: FormulaFormError for a token outside of the vocabulary.
    """
    return tuple(written.token for written in write_items(items))


def in_font(font: str, items: Iterable[Item]) -> list[Item]:
    """Give a font to the letters that it changes, inside of arguments and scripts too.

    *Raises*: FormulaFormError where it lacks a letter.
    """
    return [item for old in items for item in _item_in_font(font, old)]


def _item_in_font(font: str, item: Item) -> list[Item]:
    below, above = tidy(in_font(font, item.sub)), tidy(in_font(font, item.sup))
    if item.kind == "symbol" and item.name in FONTS[font]:
        return [Item("font", font, ((Item("symbol", item.name),),), sub=below, sup=above)]
    if item.kind == "symbol" and font in STRICT_FONTS and (item.name in LETTERS or item.name.isdigit()):
        raise FormulaFormError(f"formula with {item.name!r} in {font}, which lacks it: leave it out")
    if item.kind in ("font", "array"):  # an inner font wins
        return [item]
    return [replace(item, parts=tuple(tidy(in_font(font, part)) for part in item.parts), sub=below, sup=above)]


def tidy(items: Iterable[Item], *, keep_spaces: bool = False) -> Items:
    """Join neighbours into words and pairs, and settle the blanks of a list; in text they still part words."""
    joined = _paired(_named(_merged(list(items))))
    return tuple(joined if keep_spaces else _without_small_spaces(joined))


def _merged(items: list[Item]) -> list[Item]:
    """Join neighbours of one font; a blank between two runs of upright letters becomes part of the text."""
    out: list[Item] = []
    for item in items:
        same = bool(out) and item.kind == "font" == out[-1].kind and item.name == out[-1].name
        if same and not out[-1].has_scripts and item.name != "\\operatorname*":
            out[-1] = replace(item, parts=(out[-1].parts[0] + item.parts[0],))
        elif (
            len(out) > 1
            and item.kind == "font" == out[-2].kind
            and item.name == out[-2].name == "\\mathrm"
            and out[-1].kind == "space"
            and 0 < out[-1].width < _ONE_QUAD
            and not out[-2].has_scripts
        ):
            out[-2:] = [replace(item, parts=((*out[-2].parts[0], Item("space", "~", width=6), *item.parts[0]),))]
        else:
            out.append(item)
    return out


def _named(items: list[Item]) -> list[Item]:
    out: list[Item] = []
    for item in items:
        if item.kind == "font" and item.name == "\\mathrm":
            word = "\\" + "".join(part.name for part in item.parts[0])
            if word in OPERATORS:
                item = Item("symbol", word, sub=item.sub, sup=item.sup)
        elif item.kind == "font" and item.name == "\\mathit" and len(item.parts[0]) == 1:
            item = replace(item.parts[0][0], sub=item.sub, sup=item.sup)
        out.append(item)
    return out


def _paired(items: list[Item]) -> list[Item]:
    """Turn brackets of one size set by hand that enclose a part of the list into a fence that sizes itself."""
    out: list[Item] = []
    open_at: list[int] = []
    for item in items:
        mark = item.parts[0][0].name if item.kind == "sized" else ""
        if open_at and mark:
            start = open_at[-1]
            opener = out[start]
            if BRACKETS.get(opener.parts[0][0].name) == mark and opener.name == item.name and not opener.has_scripts:
                left, right = f"\\left{opener.parts[0][0].name}", f"\\right{mark}"
                body = tuple(out[start + 1 :])
                out[start:] = [Item("fenced", left, (body,), closer=right, sub=item.sub, sup=item.sup)]
                open_at.pop()
                continue
        if mark in BRACKETS:
            open_at.append(len(out))
        out.append(item)
    return out


def _without_small_spaces(items: list[Item]) -> list[Item]:
    out: list[Item] = []
    width = 0
    for item in items:
        if item.kind == "space":
            width += item.width
            continue
        if out and width >= _ONE_QUAD:
            out.append(
                Item("space", "\\qquad" if width >= _TWO_QUADS else "\\quad", width=36 if width >= _TWO_QUADS else 18)
            )
        width = 0
        out.append(item)
    return out
