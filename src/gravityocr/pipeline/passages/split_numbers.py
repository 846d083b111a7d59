"""Section numbers that a formatter split, as `7. 4.1`, put together again where the document itself says so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gravityocr.pipeline.passages.parts import Part

_TITLE = re.compile(r"\W*(\d{1,3}(?:\.\d{1,3})*)(?!\.?\d)")
_SPLIT = re.compile(r"(\d{1,3})\. (\d{1,3}(?:\.\d{1,3})*)(?=\s)")


def mend_split_numbers(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with `7. 4.1` as `7.4.1` where the title above is 7.4 and the last such number 7.4.0 or none.

    A list's `1. 2.5 million` stays: its number neither lies in the section of the title above nor follows the last.
    """
    result: list[Part] = []
    section: list[int] = []
    last = 0
    for part in parts:
        title = _TITLE.match(part.content.strip()) if _is_title(part) else None
        if title:
            section, last = _numbers(title.group(1)), 0
        match = _SPLIT.match(part.content) if part.kind == "text" else None
        if match and section:
            number = _numbers(f"{match.group(1)}.{match.group(2)}")
            if number[:-1] == section and number[-1] == last + 1:
                last += 1
                whole = f"{match.group(1)}.{match.group(2)}"
                part = replace(part, content=whole + part.content[match.end() :])
        result.append(part)
    return result


def _is_title(part: Part) -> bool:
    return part.kind == "title" or part.content.lstrip().startswith("#")


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(".")]
