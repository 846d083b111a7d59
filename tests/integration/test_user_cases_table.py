"""The users' 25 cases and where each is tested, end to end through a door that a user has.

case | what must come out right                                                     | test_user_cases_...
---- | ---------------------------------------------------------------------------- | -------------------
1    | RGBA, LA, palette-transparent PNG: composited on white, text kept             | pictures
2    | 16-bit grey: rescaled, not clipped                                            | pictures
3    | CMYK JPEG, Adobe-inverted too: normal polarity                                | pictures
4    | EXIF orientation 1-8: upright pixels, boxes in the upright frame              | pictures
5    | multi-page TIFF: all pages; GIF: the first frame, and it is said              | pictures
6    | PDF /Rotate and mixed page sizes: upright, boxes inside the page              | pictures
7    | owner-password PDF parses; user password asked for, works when given          | files
8    | one truncated PDF of ten: nine results, one named failure, exit 1             | files
9    | zero bytes, HTML named .pdf, PDF named .png: known by content                 | files
10   | blank page: an empty entry, no model call, no invented text                   | files
11   | zero-area, inverted, NaN, off-page boxes: clamped, or refused with a reason   | regions
12   | 900x4 and 1x1 crops: padded or skipped, neighbours in the batch untouched     | regions
13   | client and server count the same image tokens at all sizes                    | regions
14   | 12,000 x 17,000 px: bounded memory; decompression bombs refused               | pictures
15   | 300 pages: page images alive at once bounded by the queue                     | runs
16   | a loop of 200: cut and flagged, its tail kept; 30 equal table rows left alone | markdown
17   | "3.14 is", "A.B. Smith" unchanged; "1)item" normalised                        | markdown
18   | "$5 and $6" beside "$ x^2 $": currency escaped, formula tight                 | markdown
19   | tables with spans, an empty column, |, <b>, a_b: grid kept, escaped once      | markdown
20   | a table over three pages: one, sources recorded; where unsafe, all parts stay | markdown
21   | headers, footers, page numbers: out of Markdown, kept in JSON, restorable     | markdown
22   | a region that answers 500: retried, then an explicit failed mark              | runs
23   | speculative ids == AR ids; a wrong mask id refused at load                    | decoding
24   | stopped in the middle of a document: work stops, slots freed                  | runs
25   | kill and rerun a batch: finished files untouched, no half-written output      | runs
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

N_CASES = 25


def listed() -> dict[int, str]:
    """Return the file of each case that the table above names."""
    rows = re.findall(r"^(\d+) +\|.*\| (\w+)$", __doc__ or "", re.MULTILINE)
    return {int(number): name for number, name in rows}


def written() -> dict[int, set[str]]:
    """Return the files with a test of each case."""
    found: dict[int, set[str]] = {}
    for path in Path(__file__).parent.glob("test_user_cases_*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match = re.match(r"test_case_(\d\d)_", node.name) if isinstance(node, ast.FunctionDef) else None
            if match:
                found.setdefault(int(match[1]), set()).add(path.stem.removeprefix("test_user_cases_"))
    return found


def test_every_case_has_a_test_and_a_row() -> None:
    assert sorted(written()) == sorted(listed()) == list(range(1, N_CASES + 1))
    assert {number: {name} for number, name in listed().items()} == written()
