"""TEDS on whatever a model may print: always a score or a named status, and the laws of a similarity."""

from __future__ import annotations

import time

import pytest
from benchmarks.scorers import oracle_teds
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gravityocr.metrics.normalization import normalize_table
from gravityocr.metrics.teds import score_teds

STATUSES = {"ok", "empty", "no_table", "malformed", "over_budget"}
MODES = st.sampled_from(["omnidocbench", "pubtabnet"])
SECONDS = 15  # far above what a megabyte takes here, far below what a search that starts over takes

PIECES = [
    "<table>", "</table>", "<tr>", "</tr>", "<td>", "</td>", "<th>", "<td\tcolspan=2>", "<td\trowspan='x'>", "<TD>",
    "<thead>", "</tbody>", "<p>", "<b>", "</b>", "<br/>", "<!--", "-->", "<td", '"', "'", "<", ">", "</", "&amp;",
    "&#", "$x$", "-", "<math\talttext='a'>", "</math>", "<script>", "<![CDATA[", "<?",
]  # fmt: skip
# NUL and lone surrogates included.
pieces = st.one_of(st.sampled_from(PIECES), st.text(alphabet=st.characters(exclude_categories=()), max_size=5))
markup = st.lists(pieces, max_size=30).map("".join)
tables = markup.map(lambda inner: f"<table>{inner}</table>")
cells = st.text(alphabet="ab -<i&", max_size=4).map(lambda text: text.replace("<", "&lt;").replace("&lt;i", "<i>x</i>"))


def print_table(rows: list[list[tuple[str, int]]]) -> str:
    printed = ["".join(f"<td colspan={span}>{text}</td>" for text, span in row) for row in rows]
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in printed) + "</table>"


rows_of_cells = st.lists(st.tuples(cells, st.integers(1, 2)), min_size=1, max_size=4)
grids = st.lists(rows_of_cells, min_size=1, max_size=4).map(print_table)


@settings(max_examples=60)
@given(st.one_of(markup, tables), st.one_of(markup, tables), MODES, st.booleans())
@example("<table>" + "<div>" * 10_000, "<table><tr><td>a</table>", "pubtabnet", False)
@example("<table>\x00<tr><td>\ud800a\x00", "<table><tr><td>a</table>", "omnidocbench", False)
def test_anything_gets_a_score_or_a_named_status(pred: str, ref: str, mode, compat: bool) -> None:
    score = score_teds(pred, ref, mode=mode, compat=compat)
    assert score.status in STATUSES
    assert (score.error is None) == (score.status == "ok")
    assert score.teds <= 1.0 and score.teds <= score.teds_struct
    if not compat:
        assert score.teds >= 0.0


@settings(max_examples=60)
@given(tables, tables, MODES, st.booleans())
def test_swapped_sides_score_the_same(pred: str, ref: str, mode, compat: bool) -> None:
    score, swapped = (score_teds(*sides, mode=mode, compat=compat) for sides in ((pred, ref), (ref, pred)))
    assert score.teds == pytest.approx(swapped.teds, abs=1e-9)
    assert score.teds_struct == pytest.approx(swapped.teds_struct, abs=1e-9)
    if score.status == "ok":
        assert (swapped.status, swapped.n_nodes) == ("ok", score.n_nodes[::-1])


@settings(max_examples=40)
@given(tables, MODES)
def test_a_table_is_itself(one: str, mode) -> None:
    score = score_teds(one, one, mode=mode)
    if score.status == "ok":
        assert (score.teds, score.teds_struct) == (1.0, 1.0)


@settings(max_examples=40)
@given(grids, grids)
def test_tables_score_as_apted_scores_them(pred: str, ref: str) -> None:
    score = score_teds(pred, ref, compat=True)
    norm_pred, norm_ref = normalize_table(pred), normalize_table(ref)
    assert score.teds == pytest.approx(oracle_teds(norm_pred, norm_ref), abs=1e-9)
    assert score.teds_struct == pytest.approx(oracle_teds(norm_pred, norm_ref, with_content=False), abs=1e-9)
    mended = score_teds(pred, ref)
    assert mended.teds <= max(score.teds, 0.0) and mended.teds_struct <= max(score.teds_struct, 0.0)
    if pred.count("<i>") == ref.count("<i>") and "&lt;" not in pred + ref:  # the normal form makes tags of some of them
        assert (mended.teds, mended.teds_struct) == (max(score.teds, 0.0), max(score.teds_struct, 0.0))


@pytest.mark.parametrize(
    "unit",
    [
        "<",
        "<!--",
        "<td>",
        "<a ",
        '<a b="',
        "<a c='>' ",
        "<thead>",
        ' style="',
        "&lt;table&gt;",
        "\u0301\u0323",
        "<td>1</td>",
    ],
    ids=repr,
)
def test_a_megabyte_is_scored_or_refused_in_time(unit: str) -> None:
    pred = "<table><tr><td>" + unit * (1_000_000 // len(unit))
    ref = "<table><tr><td>a</td></tr></table>"
    score_teds(ref, ref.replace("a", "b"))  # compiling is not what is timed
    start = time.perf_counter()
    assert score_teds(pred, ref).status in STATUSES
    assert time.perf_counter() - start < SECONDS
