"""The mends: where our Markdown differs on purpose from what the GLM-OCR SDK's formatter writes."""

from __future__ import annotations

from collections.abc import Iterable

from gravityocr.errors import ConfigError

MENDS: dict[str, str] = {
    "failures": "a region that failed, was not read or was cut to nothing leaves a mark or picture (SDK: it vanishes)",
    "loops": "text after a repeated passage stays, and few repeats are no loop (SDK: all after the first round goes)",
    "leaders": "runs of dots, middle dots and underscores keep their length (SDK: three are left)",
    "numbering": "3.14, A.B. Smith and e.g. stay whole; only the marker of an item is spaced (SDK: 3. 14)",
    "split-numbers": "7. 4.1 is 7.4.1 again where the title above and the numbers before say so (a trace of the SDK)",
    "backslash-t": r"\times, \theta and \text keep their first letters (SDK: a leading \t is cut off)",
    "tight-formulas": "inline formulas have no blanks inside their dollars: $x$, not $ x $",
    "currency": r"dollars of amounts are escaped: \$5 and \$6 make no formula",
    "stray-tags": "<name> that is no HTML element, and <!--, are escaped and show (SDK: a renderer hides them)",
    "unsafe-markup": "scripts, event handlers, addresses that run and half tags are escaped or dropped everywhere",
    "code": "lines of code stay one below the other, code regions are fenced (SDK: a blank line after each line)",
    "bullets": "every line's bullet becomes '- ' (SDK: the first line's only)",
    "invented-bullets": "no bullet is added that the page does not have (SDK: a line between two items becomes one)",
    "titles": "a title of several lines is one line (SDK: all but the first become text)",
    "formula-lines": "display formulas have no blank lines, which would end them, and no delimiters inside",
    "formula-numbers": "a number goes to the formula on its line, else stays as text (SDK: its neighbour, or dropped)",
    "tables": "blank lines leave a table, and a table that was cut gets its end tags (SDK: both break the page)",
    "hyphens": "self-, well- and 3- keep their hyphen, words are joined over page ends (SDK: within a page, any word)",
    "continued-text": "a paragraph that goes on in the next column or page is one paragraph",
    "continued-tables": "a table that goes on over pages is one table, its repeated header dropped",
}
"""Every mend by name, with what it does and what the SDK does instead."""

ALL_MENDS = tuple(MENDS)


def check_mends(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, each once and in the order of `MENDS`.

    *Raises*: ConfigError for one that is no mend.
    """
    chosen = frozenset(names)
    unknown = sorted(chosen - MENDS.keys())
    if unknown:
        raise ConfigError(f"assembly.mends: {unknown[0]!r} is no mend; choose out of {', '.join(MENDS)}")
    return tuple(name for name in MENDS if name in chosen)
