"""TEDS against the official scorers' values on every handed pair, and apted on those that it does quickly."""

from __future__ import annotations

import json
import re

import pytest
from benchmarks.scorers import oracle_teds

from gravityocr.metrics.normalization import normalize_table
from gravityocr.metrics.teds import score_teds

# Pairs that show a fault of the official scorers, by mode: there, and only there, the default differs.
FAULTS = {
    "omnidocbench": {"bad_colspan", "uppercase", "two"},
    "pubtabnet": {"bad_colspan", "table_in_div", "two"},
}
KEYS = {"omnidocbench": ("teds", "teds_struct"), "pubtabnet": ("teds_raw", "teds_struct_raw")}


@pytest.fixture(scope="module")
def rows(cases_dir) -> list[dict]:
    return json.loads((cases_dir / "golden" / "golden_teds_handed.json").read_text(encoding="utf-8"))


def difference(row: dict, mode: str, compat: bool) -> float:
    score = score_teds(row["pred_html"], row["gt_html"], mode=mode, compat=compat)
    teds, teds_struct = (row[key] for key in KEYS[mode])
    return max(abs(score.teds - teds), abs(score.teds_struct - teds_struct))


def test_the_normal_form_is_the_official_one_on_all_pairs(rows) -> None:
    assert len(rows) == 69
    wrong = [
        (row["id"], side)
        for row in rows
        for side, key in (("pred_html", "norm_pred"), ("gt_html", "norm_gt"))
        if normalize_table(row[side]) != row[key]
    ]
    assert wrong == []


def n_inner_tags(table: str, mode: str) -> int:
    dropped = "sup|sub|p|div|span" if mode == "omnidocbench" else " "
    return len(re.findall(rf"<(?!/|t[rdh]\b|table|thead|tbody|html|body|(?:{dropped})\b)", table))


@pytest.mark.parametrize("mode", list(KEYS))
def test_compat_gives_the_official_scores_on_all_pairs(rows, mode: str) -> None:
    assert {row["id"]: gap for row in rows if (gap := difference(row, mode, compat=True)) > 1e-6} == {}


@pytest.mark.parametrize("mode", list(KEYS))
def test_the_default_differs_only_where_the_official_scorer_errs(rows, mode: str) -> None:
    differing = [row for row in rows if difference(row, mode, compat=False) > 1e-6]
    unlike = [row for row in rows if n_inner_tags(row["pred_html"], mode) != n_inner_tags(row["gt_html"], mode)]
    assert {row["perturbation"] for row in differing if row not in unlike} <= FAULTS[mode]
    assert {row["perturbation"] for row in differing} >= FAULTS[mode]
    # Tags that only one side has count as nodes for the official scorer: its scores are higher.
    for row in (row for row in differing if row["perturbation"] not in FAULTS[mode]):
        assert score_teds(row["pred_html"], row["gt_html"], mode=mode).teds < row[KEYS[mode][0]]


def test_errors_of_the_official_scorer_are_named(rows) -> None:
    (row,) = [row for row in rows if "teds_error" in row]
    score = score_teds(row["pred_html"], row["gt_html"], compat=True)
    assert (score.teds, score.status) == (0.0, "malformed")
    assert "colspan of the prediction is 'x'" in score.error


def test_apted_agrees_on_the_smaller_pairs(rows) -> None:
    small = [row for row in rows if max(row["norm_pred"].count("<td"), row["norm_gt"].count("<td")) <= 60][:20]
    assert len(small) == 20
    for row in small:
        score = score_teds(row["pred_html"], row["gt_html"], compat=True)
        assert score.teds == pytest.approx(oracle_teds(row["norm_pred"], row["norm_gt"]), abs=1e-9)
        assert score.teds_struct == pytest.approx(oracle_teds(row["norm_pred"], row["norm_gt"], False), abs=1e-9)
