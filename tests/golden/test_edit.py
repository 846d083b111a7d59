"""The edit distance against the official scorer's values on every handed pair."""

from __future__ import annotations

import json

import pytest

from gravityocr.metrics.edit import edit_distance, ned, text_edit
from gravityocr.metrics.normalization import normalize_formula, normalize_text


@pytest.fixture(scope="module")
def rows(cases_dir) -> list[dict]:
    return json.loads((cases_dir / "golden" / "golden_edit_handed.json").read_text(encoding="utf-8"))


def test_the_normal_forms_are_the_official_ones_on_all_pairs(rows) -> None:
    assert len(rows) == 88
    normalize = {"text": normalize_text, "formula": normalize_formula}
    wrong = [
        (row["id"], side)
        for row in rows
        for side in ("pred", "gt")
        if normalize[row["type"]](row[side]) != row[f"norm_{side}"]
    ]
    assert wrong == []


def test_the_scores_are_the_official_ones_on_all_pairs(rows) -> None:
    for row in rows:
        score = text_edit(row["pred"], row["gt"], row["type"])
        assert score.ned == pytest.approx(row["edit_dist"], abs=1e-6), row["id"]
        assert (score.n_edits, score.n_chars) == (row["edit_num"], row["upper_len"]), row["id"]


def test_the_raw_distance_is_the_official_one_on_all_pairs(rows) -> None:
    for row in rows:
        raw = row["edit_raw"]
        assert raw in (edit_distance(row["pred"], row["gt"]), pytest.approx(ned(row["pred"], row["gt"]), abs=1e-6))
