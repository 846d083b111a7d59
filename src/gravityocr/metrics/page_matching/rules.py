"""What the scorer does where the official one errs."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Rules:
    """Say for every fault of the official end-to-end scorer whether it is mended; by default all are.

    `FAULTS` says what the official scorer does where a field is false.
    """

    first_table_in_order: bool = True
    count_unmatched_text: bool = True
    exact_positions: bool = True
    formulas_end_with_paragraphs: bool = True
    lines_where_they_fit: bool = True
    pipe_tables_as_markdown: bool = True
    lenient_tables: bool = True
    skip_broken_references: bool = True
    cdm_sees_scripts: bool = True


FAULTS: dict[str, str] = {
    "first_table_in_order": "the first predicted table never enters the predicted reading order",
    "count_unmatched_text": "predicted text that matches nothing costs nothing, or is paired with a missing block",
    "formulas_end_with_paragraphs": "a stray dollar pairs with one of another paragraph; what lies between is lost",
    "exact_positions": "paragraphs drift ahead of tables and formulas, and an empty block shifts all later ones",
    "lines_where_they_fit": (
        "single line breaks and lines of spaces join paragraphs, unless the page has no blank line at all"
    ),
    "pipe_tables_as_markdown": "cells of pipe tables that hold a colon or three dashes are dropped",
    "lenient_tables": (
        "a bad colspan or upper-case tags score 0, and of two tables in one only the first counts; tags in cells count "
        "as nodes, so that junk tags raise the score"
    ),
    "skip_broken_references": "a formula whose reference TeX cannot render scores 0",
    "cdm_sees_scripts": "CDM takes a subscript for a superscript, and bold for plain",
}
"""Rule -> what the official scorer does instead."""

MENDED = Rules()
OFFICIAL = Rules(**{field.name: False for field in fields(Rules)})


def official_but(name: str) -> Rules:
    """Return the official rules with the one fault `name` mended."""
    return replace(OFFICIAL, **{name: True})
