"""The reward of a table: structure, cell texts, row count and repeated rows.

*Source*: section 5; what is marked *ours* there and here is the product's choice.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import dataclass

from gravityocr.metrics.edit import edit_distance, ned
from gravityocr.metrics.tables.html_tokens import tokenize, unescape
from gravityocr.metrics.tables.table_tree import TableReading, read_table
from gravityocr.metrics.teds import score_structure
from gravityocr.rl.guard import guard
from gravityocr.rl.reward_settings import EDIT_BUDGET, MOST_MARKUP, PAPER, RewardSettings

_ROW_START = re.compile(r"\s*<tr\b", re.IGNORECASE)
_TABLE_START = re.compile(r"<table\b", re.IGNORECASE)
_BETWEEN_CELLS = "\t"  # no normalised text holds it
_ROWS_AND_CELLS = frozenset({"tr", "td", "th"})


@dataclass(frozen=True)
class TableScores:
    """What the reward of a table is made of; where the status is not ok there is nothing else."""

    status: str  # ok, unclosed or unparsable
    structure: float = 0.0
    cells: float = 0.0
    p_row: float = 0.0
    p_loop: float = 0.0
    bonus: float = 0.0


@dataclass(frozen=True)
class _Side:
    """What is compared of one side."""

    table: TableReading | None
    is_closed: bool
    texts: str = ""
    plain: str = ""  # the plainest markup of its cells
    row_keys: tuple[str, ...] = ()
    n_columns: int = 0
    n_stray: int = 0
    n_hidden: int = 0
    n_chars: int = 0


def score_table(pred: str, ref: str, settings: RewardSettings = PAPER) -> float:
    r"""Return the reward of a table, guard included.

    `r = clip((0.45 TEDS_struct + 0.55 s_cell) (1 - p_row) (1 - p_loop))`, then `r <- r + b (1 - r)`, times the guard.
    An unclosed table scores 0, one that cannot be parsed `0.15 (1 - NED)` of the two texts as they stand, and a blank
    prediction of a blank reference 1. The parts are those of `table_scores`. Of a parsed table the guard counts the
    tokens of the plainest markup, so that indentation is no repetition, and runs in the text as it stands, entities
    decoded.

    *Source*: section 5.

    >>> score_table("<tr><td>a</td></tr>", "<tr><td>a</td></tr>")
    1.0
    """
    is_fragment = _is_fragment(ref)
    one, other = _read_side(pred, is_fragment), _reference(ref, is_fragment)
    scores = _compare(one, other, settings)
    if scores.status == "unclosed":
        return 0.0
    if scores.status == "unparsable":
        both_blank = not pred.strip() and not ref.strip()
        plain = 1.0 if both_blank else settings.unparsable_weight * (1.0 - ned(pred, ref, EDIT_BUDGET))
        return plain * guard(pred, ref, None, settings)
    quality = settings.structure_weight * scores.structure + settings.cell_weight * scores.cells
    reward = min(1.0, max(0.0, quality * (1.0 - scores.p_row) * (1.0 - scores.p_loop)))
    reward += scores.bonus * (1.0 - reward)
    return reward * guard(one.plain, other.plain, (unescape(pred), unescape(ref)), settings)


def table_scores(pred: str, ref: str, settings: RewardSettings = PAPER) -> TableScores:
    """Measure the parts of the reward.

    Both sides are read in the scorer's normal form. A reference of bare rows (a *row fragment*: it begins with `<tr`
    and has no `<table`) is wrapped, as is the prediction, into one `<table>`.

    - *unclosed*: at the end of the prediction a `<table>` is still open, or, of a fragment, the last `<tr>`.
    - *unparsable*: the prediction, or the reference, has no `<table>`, no cell, or more than the parser reads. Ours:
      beyond `MOST_MARKUP` characters nothing is parsed, and of texts beyond `EDIT_BUDGET` the distance is a bound.
    - `cells`: `1 - d / n`; `d` is the edit distance of the texts of all cells with a mark between any two, `n` the
      length of the longer side's texts without the marks, so that blank cells earn nothing. Ours: a tag inside a cell
      counts as one character, and characters that the prediction has more of than the reference count as inserted if
      they are *stray*: text and comments outside of cells, and tags there but for the first of each name. Markup that
      the normal form swallows (attributes, superscripts, end tags of nothing) is free up to the reference's, twice its
      length and 256 characters: it may style a table, not go on without end.
    - `p_row`: the difference of the row counts over max(reference rows, 4), 0.35 at most.
    - `p_loop`: 0, or `min(1, 0.30 + 0.70 f)` where a row occurs more than max(3, its occurrences in the reference + 1)
      times; `f` is the share of the prediction's rows beyond. The key of a row is its texts, blank cells left out.
    - `bonus`: 0.05 for equal row counts and 0.05 for equal column counts.
    """
    is_fragment = _is_fragment(ref)
    return _compare(_read_side(pred, is_fragment), _reference(ref, is_fragment), settings)


def _compare(one: _Side, other: _Side, settings: RewardSettings) -> TableScores:
    if not one.is_closed:
        return TableScores("unclosed")
    if one.table is None or other.table is None:
        return TableScores("unparsable")
    n_pred, n_ref = len(one.row_keys), len(other.row_keys)
    bonus = settings.row_bonus * (n_pred == n_ref) + settings.column_bonus * (one.n_columns == other.n_columns)
    p_row = min(settings.most_row_penalty, abs(n_pred - n_ref) / max(n_ref, settings.least_rows))
    structure = score_structure(one.table, other.table)
    p_loop = _loop_penalty(one.row_keys, other.row_keys, settings)
    return TableScores("ok", structure, _cell_similarity(one, other, settings), p_row, p_loop, bonus)


def _is_fragment(ref: str) -> bool:
    return _ROW_START.match(ref) is not None and _TABLE_START.search(ref) is None


@functools.lru_cache(maxsize=256)
def _reference(ref: str, is_fragment: bool) -> _Side:
    """Read a reference once for all its rollouts."""
    return _read_side(ref, is_fragment)


def _read_side(markup: str, is_fragment: bool) -> _Side:
    if len(markup) > MOST_MARKUP:
        return _Side(None, True)
    is_closed, n_stray = _walk(markup, is_fragment)
    if not is_closed:
        return _Side(None, False)
    table = read_table(f"<table>{markup}</table>" if is_fragment else markup)
    if table is None or not any(table.rows):
        return _Side(None, True)
    texts = _BETWEEN_CELLS.join(cell.text for row in table.rows for cell in row)
    keys = tuple(_BETWEEN_CELLS.join(cell.text for cell in row if cell.text.strip()) for row in table.rows)
    n_chars = _n_solid(unescape(markup))
    plain = "</td></tr><tr><td>".join("</td><td>".join(cell.text for cell in row) for row in table.rows)
    return _Side(table, True, texts, plain, keys, table.n_columns, n_stray, n_chars - _n_printed(table), n_chars)


def _walk(markup: str, is_fragment: bool) -> tuple[bool, int]:
    """Tell whether the markup is closed, and count its stray characters."""
    n_open = n_stray = 0
    row_is_open = in_cell = False
    known: set[str] = set()
    for token in tokenize(markup):
        name = token.data
        if token.kind == "start":
            n_open += name == "table" and not token.closed
            row_is_open = row_is_open or name == "tr"
            in_cell = name in ("td", "th") or (in_cell and name != "tr")
            if name not in _ROWS_AND_CELLS and not in_cell:
                n_stray += name in known
                known.add(name)
        elif token.kind == "end":
            n_open = max(0, n_open - (name == "table"))
            row_is_open = row_is_open and name != "tr"
            in_cell = in_cell and name not in ("td", "th", "tr", "table")
        elif token.kind != "text" or not in_cell:
            n_stray += _n_solid(token.data)
    return n_open == 0 and not (is_fragment and row_is_open), n_stray


def _n_solid(text: str) -> int:
    """Count the characters that are no white space."""
    return len("".join(text.split()))


def _n_printed(table: TableReading) -> int:
    """Count the characters of a table in the plainest markup, white space apart."""
    n_span, n_tag = len('colspan="2"'), len("<td></td>")
    n_cells = sum(
        n_tag + _n_solid(cell.text) + n_span * ((cell.n_columns > 1) + (cell.n_rows > 1))
        for row in table.rows
        for cell in row
    )
    return n_cells + n_tag * len(table.rows)


def _cell_similarity(pred: _Side, ref: _Side, settings: RewardSettings) -> float:
    n_free = ref.n_hidden + settings.free_hidden + round(settings.free_hidden_share * ref.n_chars)
    n_hidden = pred.n_hidden - n_free
    n_inserted = max(0, pred.n_stray - ref.n_stray, n_hidden)
    longer = max(len(side.texts) - side.texts.count(_BETWEEN_CELLS) for side in (pred, ref)) + n_inserted
    if not longer:
        return 1.0
    return max(0.0, 1.0 - (edit_distance(pred.texts, ref.texts, EDIT_BUDGET) + n_inserted) / longer)


def _loop_penalty(pred: tuple[str, ...], ref: tuple[str, ...], settings: RewardSettings) -> float:
    known = Counter(ref)
    n_beyond = sum(max(0, n - max(settings.free_repeats, known[key] + 1)) for key, n in Counter(pred).items())
    return min(1.0, settings.loop_base + settings.loop_slope * n_beyond / len(pred)) if n_beyond else 0.0
