"""Scores of crops: each task by its own measure, kinds never mixed, figures that can be checked by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks import crop_scores
from benchmarks.crop_scores import add_cdm, fold_forms, quality, score, score_answer, summarize, summarize_quality
from benchmarks.crop_tables import decoding_table, quality_table
from tests.tex_tools import needs_tex

from gravityocr.benchmark.cases import Case
from gravityocr.document import Recognition, Task
from gravityocr.metrics.formulas.tex_runner import ToolMissingError

TABLE = "<table><tr><td>abc</td><td>d</td></tr></table>"


def case(truth: str, task: Task = "text", language: str = "english", name: str = "a.png") -> Case:
    return Case(Path(name), task, language, truth)


def read(truth: str, answer: str, task: Task = "text", **fields: Any) -> crop_scores.Row:
    name = fields.pop("name", "a.png")
    language = fields.pop("language", "english")
    reading = Recognition(answer, **({"ids": ((1, 2),), "n_tokens": 2, "n_forwards": 1} | fields))
    return score(case(truth, task, language, name), reading, Recognition("", ids=((1, 2),)), 0.5)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("ﬁne – “so”", 'fine - "so"'),
        ("侵蚀 沟道 ， 级别", "侵蚀沟道,级别"),
        ("用 Python 写", "用Python写"),
        ("a  b\nc", "a b c"),
        (r"so $ x \in  A, \, y $ holds", r"so $x\in A,\,y$ holds"),
    ],
)
def test_forms_that_fold(text: str, folded: str) -> None:
    assert fold_forms(text) == folded


def test_text_with_and_without_folding() -> None:
    scores = score_answer(case("a–b c"), "a-b\n c")
    assert (scores["ned"], scores["n_edits"], scores["n_longer"]) == (0.2, 1, 5)
    assert (scores["ned_folded"], scores["folded_n_edits"], scores["folded_n_longer"]) == (0.0, 0, 5)
    assert score_answer(case(""), "")["ned"] == 0.0


def test_a_table_has_teds_and_no_ned() -> None:
    scores = score_answer(case(TABLE, "table"), TABLE.replace("abc", "abd"))
    assert 0.8 < scores["teds"] < 1 and scores["teds_struct"] == 1.0 and "ned" not in scores
    broken = score_answer(case(TABLE, "table"), "no table at all")
    assert broken["teds"] == 0.0 and broken["teds_status"] == "no_table"


@pytest.mark.parametrize("truth", ["x^{2}", "$$\nx^{2}\n$$", r"\[ x^{2} \]", r"\( x^{2} \)"])
def test_delimiters_of_a_formula_do_not_count(truth: str) -> None:
    assert score_answer(case(truth, "formula"), "x^2")["latex_ned"] == 0.0
    assert score_answer(case(truth, "formula"), "$y^2$")["latex_ned"] == pytest.approx(1 / 3)


@needs_tex
def test_cdm_of_formulas_only() -> None:
    cases = [case("$$x+y$$", "formula", name="f.png"), case("x", name="t.png"), case(r"\[a\]", "formula", name="g.png")]
    rows = [
        read("$$x+y$$", "x+y", "formula", name="f.png"),
        read("x", "x", name="t.png"),
        read(r"\[a\]", "", "formula", name="g.png"),
    ]
    assert add_cdm(rows, cases) is None
    assert rows[0]["cdm"] == 1.0 and "cdm" not in rows[1]
    assert rows[2]["cdm"] == 0.0 and rows[2]["cdm_status"] == "empty_pred"
    assert summarize(rows)["formula"]["cdm"] == 0.5


def test_without_tex_cdm_is_null_and_the_rest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: object, pairs: object) -> None:
        raise ToolMissingError("pdflatex is not installed")

    monkeypatch.setattr(crop_scores.CdmScorer, "score", missing)
    rows = [read("$x$", "x", "formula")]
    assert "pdflatex" in str(add_cdm(rows, [case("$x$", "formula")]))
    group = summarize(rows)["formula"]
    assert group["cdm"] is None and group["latex_ned"] == 0.0
    assert add_cdm([read("a", "a")], [case("a")]) is None


def test_kinds_and_languages_are_groups_that_never_mix() -> None:
    rows = [
        read("ab", "ab"),
        read("ab", "xy", language="dutch"),
        read("$a$", "$b$"),
        read(TABLE, TABLE, "table"),
    ]
    groups = summarize(rows)
    assert list(groups) == sorted(groups)
    assert set(groups) == {"all", "text", "text/english", "text/dutch", "text_with_formula",
                           "text_with_formula/english", "table", "table/english"}  # fmt: skip
    assert groups["text"]["ned"] == 0.5 and groups["text/dutch"]["ned"] == 1.0
    assert groups["all"]["n_crops"] == 4 and groups["all"]["ned"] == pytest.approx((0 + 1 + 1 / 3) / 3)
    assert groups["all"]["teds"] == groups["table"]["teds"] == 1.0 and "teds" not in groups["text"]
    assert groups["all"]["wall_seconds"] == 2.0


def test_mean_median_and_micro_are_different_figures() -> None:
    rows = [read("a" * 10, "a" * 10), read("a" * 10, "a" * 10), read("ab", "ax"), read("ab", "xx")]
    found = quality(rows)
    assert found["ned"] == 0.375 and found["ned_median"] == 0.25 and found["ned_micro"] == 3 / 24
    assert found["ned_folded_micro"] == 3 / 24


def test_decode_figures() -> None:
    rows = [
        read("a", "a", n_tokens=11, n_forwards=2, n_rounds=1, n_accepted=8, ids=((1,),), seconds={"decode": 1.0}),
        read("a", "a", n_tokens=2, n_forwards=2, n_rounds=2, status="loop_cut"),
        read("a", "a", n_tokens=2, n_forwards=0, status="truncated"),
        read("a", "a"),
    ]
    found = summarize(rows)["all"]
    assert found["n_tokens"] == 10 + 1 + 1 + 1 and found["tpf"] == 13 / 5 and found["accepted"] == 8 / 3
    assert found["identical_to_ar"] == 0.75 and found["seconds"] == 1.0
    assert found["cut"] == 2 and found["loops"] == 0.25


def test_the_tables_put_readers_side_by_side() -> None:
    ours, theirs = [read("ab", "ab"), read(TABLE, TABLE, "table")], [read("ab", "xy")]
    groups = summarize(ours)
    lines = quality_table({"nano": groups, "other": summarize_quality(theirs)}).splitlines()
    assert len({len(line) for line in lines}) == 1 and "CDM" not in lines[0] and "TEDS-S" in lines[0]
    text = [line.split() for line in lines if line.startswith("text/english")]
    assert [line[1:4] for line in text] == [["nano", "1", "0.0000"], ["other", "1", "1.0000"]]
    assert [line.split()[1] for line in lines if line.startswith("table/")] == ["nano"]
    assert len(decoding_table(groups).splitlines()) == 2 + len(groups)
