"""`gravityocr score` as a user meets it: files in, figures out, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.score_runs import TABLE, WIDE, run, run_json, write_rows
from tests.tex_tools import needs_tex

from gravityocr.errors import ConfigError
from gravityocr.metrics.runs.score_run import SampleResult


@pytest.fixture
def tables(tmp_path) -> Path:
    rows = [
        {"id": "same", "pred": TABLE, "ref": TABLE, "attributes": {"language": "en"}},
        {"id": "wide", "pred": WIDE, "ref": TABLE, "attributes": {"language": "zh"}},
        {"id": "text", "pred": "no table", "ref": TABLE, "attributes": {"language": "zh"}},
    ]
    return write_rows(tmp_path / "pairs.jsonl", rows)


# Official values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["teds", "edit"])
def test_official_values_are_met(cases_dir, name):
    report = run_json(name, "--golden", cases_dir / "golden" / f"golden_{name}_handed.json")
    assert report["n_pairs"] == {"teds": 69, "edit": 88}[name]
    assert report["misses"] == [] and report["n_misses"] == 0
    assert report["max_abs_diff"] <= 1e-6


def test_a_miss_names_id_field_golden_and_ours(tmp_path):
    row = {"id": "a", "type": "text", "pred": "Hello World", "gt": "Hello, World!", "edit_dist": 0.25, "norm_gt": "x"}
    golden = tmp_path / "golden.json"
    golden.write_text(json.dumps([row, {**row, "id": "b", "edit_dist": 0.0, "norm_gt": "HelloWorld"}]))
    report = run_json("edit", "--golden", golden, code=1)
    assert report["n_pairs"] == 2 and report["n_misses"] == 1 and report["max_abs_diff"] == 1.0
    assert report["misses"] == [
        {"id": "a", "field": "edit_dist", "golden": 0.25, "ours": 0.0, "diff": 0.25},
        {"id": "a", "field": "norm_gt", "golden": "x", "ours": "HelloWorld", "diff": 1.0},
    ]


def test_official_orders_are_met(cases_dir):
    code, out, error = run("order", "--golden", cases_dir / "golden" / "golden_order_handed.json", "--json")
    report = json.loads(out)
    assert code == (1 if report["n_misses"] else 0), error
    assert report["by_type"]["unit"] == {"n_pairs": 20, "n_misses": 0}
    pages = report["by_type"]["page"]
    assert pages["n_pairs"] == 77 and pages["n_misses"] <= 0.05 * 77


def test_a_file_of_other_values_is_told(cases_dir):
    code, _, error = run("teds", "--golden", cases_dir / "golden" / "golden_cdm_handed.json")
    assert code == 1 and "entry 1: has no pred_html, gt_html" in error


# Pairs ---------------------------------------------------------------------------------------------


def test_tables_of_jsonl(tables):
    report = run_json("teds", "--pairs", tables)
    assert report["n_pairs"] == 3 and report["n_scored"] == 3
    assert report["mean"] == report["teds"] and report["teds_struct"] >= report["teds"]
    assert report["ci95"][0] <= report["mean"] <= report["ci95"][1]
    assert report["by_attribute"]["language"]["en"] == {"n_pairs": 1, "teds": 1.0, "teds_struct": 1.0}
    assert report["statuses"] == {"no_table": 1, "ok": 2}
    (row,) = report["not_ok"]
    assert (row["id"], row["status"], report["n_not_ok"]) == ("text", "no_table", 1) and "has no table" in row["error"]
    assert report["mode"] == "ours" and report["mean_axis"] == "teds"
    assert report["axes"]["teds"]["n"] == 3 and "rough guide" in report["axes"]["teds"]["caution"]


def test_pairs_come_from_stdin(tables):
    assert run_json("teds", "--pairs", "-", stdin=tables.read_text()) == run_json("teds", "--pairs", tables)


def test_tables_of_pipes_and_of_latex_are_read_unless_the_official_rules_are_asked_for(tmp_path):
    pipes = "| a | b |\n|---|---|\n| c | d |"
    latex = "\\begin{tabular}{cc} a & b \\\\ c & d \\end{tabular}"
    rows = [{"id": "pipes", "pred": pipes, "ref": TABLE}, {"id": "latex", "pred": TABLE, "ref": latex}]
    path = write_rows(tmp_path / "p.jsonl", rows)
    assert run_json("teds", "--pairs", path)["teds"] == 1.0
    assert run_json("teds", "--pairs", path, "--compat", "official")["statuses"] == {"no_table": 2}


def test_samples_that_are_not_ok_are_told(tables, tmp_path):
    code, out, error = run("teds", "--pairs", tables)
    assert code == 0 and "no_table: 1 of 3 samples (text): the prediction has no table" in error
    lines = out.splitlines()
    assert lines[0].split() == ["axis", "ours", "95", "%", "CI", "n"] and lines[1].split()[:2] == ["teds", "0.5556"]
    assert "language: zh" in out and "no_table 1, ok 2" in out
    none = write_rows(tmp_path / "none.jsonl", [{"id": n, "pred": "x", "ref": TABLE} for n in range(120)])
    code, out, error = run("teds", "--pairs", none, "--json")
    assert "not one of 120 samples is ok" in error
    assert json.loads(out)["n_not_ok"] == 120 and len(json.loads(out)["not_ok"]) == 100


def test_what_was_not_scored_is_told_and_the_run_fails(tmp_path, monkeypatch):
    from gravityocr.commands import score_pairs

    def two_of_three(samples, _scorer, _config, _on_result):
        scored = [SampleResult(sample.id, "ok", {"ned": 0.5}) for sample in samples[:2]]
        return [*scored, SampleResult(samples[2].id, "timeout", None, "took longer than 1 s")]

    monkeypatch.setattr(score_pairs, "run_samples", two_of_three)
    path = write_rows(tmp_path / "p.jsonl", [{"id": f"s{n}", "pred": "x", "ref": "y"} for n in range(3)])
    code, out, error = run("edit", "--pairs", path, "--json", "--report", tmp_path / "r.html")
    report = json.loads(out)
    told = "1 of 3 not scored: the mean is over the rest"
    assert code == 1 and told in error and told in (tmp_path / "r.html").read_text()
    assert report["n_scored"] == 2 and report["mean"] == 0.5 and report["n_failed"] == 1
    assert report["not_ok"] == [{"id": "s2", "status": "timeout", "error": "took longer than 1 s"}]


def test_modes_of_tables_differ_where_the_official_scorer_errs(tmp_path):
    upper = write_rows(tmp_path / "p.jsonl", [{"id": "a", "pred": TABLE.upper().replace("A<", "a<"), "ref": TABLE}])
    assert run_json("teds", "--pairs", upper, "--compat", "official")["teds_struct"] == 0.0
    assert run_json("teds", "--pairs", upper)["teds_struct"] == 1.0


def test_texts_of_folders(tmp_path):
    for folder, texts in {"ref": {"a": "one", "b": "two"}, "pred": {"a": "one", "c": "extra"}}.items():
        (tmp_path / folder).mkdir()
        for stem, text in texts.items():
            (tmp_path / folder / f"{stem}.md").write_text(text)
    report = run_json("edit", "--pred", tmp_path / "pred", "--ref", tmp_path / "ref", code=1)
    assert report["ned"] == report["mean"] == 0.5
    assert report["missing"] == ["b"] and report["extra"] == ["c"]
    assert [note["status"] for note in report["notes"]] == ["missing_prediction"]


def test_wrong_encodings_are_scored_and_named(tmp_path):
    for folder in ("pred", "ref"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_bytes("caf\u00e9".encode("utf-8" if folder == "ref" else "latin-1"))
    report = run_json("edit", "--pred", tmp_path / "pred", "--ref", tmp_path / "ref", code=1)
    assert report["ned"] == 0.25 and report["notes"][0]["status"] == "bad_encoding"


def test_a_megabyte_and_malformed_markup_get_a_score_or_a_status(tmp_path):
    rows = [
        {"id": "long", "pred": "<table>" + ("<tr><td>" + "x" * 200) * 5000, "ref": TABLE},
        {"id": "open", "pred": "<table><tr><td>a<td", "ref": TABLE},
        {"id": "empty", "pred": "", "ref": TABLE},
        {"id": "fine", "pred": TABLE, "ref": TABLE},
    ]
    path = write_rows(tmp_path / "p.jsonl", rows)
    report = run_json("teds", "--pairs", path, "--timeout", 30)
    assert report["n_pairs"] == 4 and report["failed"] == []
    assert sum(report["statuses"].values()) == 4


def test_results_are_taken_up(tables, tmp_path):
    kept = tmp_path / "results.jsonl"
    first = run_json("teds", "--pairs", tables, "--results", kept, "--processes", 1)
    lines = kept.read_text().splitlines()
    assert {json.loads(line)["id"] for line in lines} == {"same", "wide", "text"}
    assert run_json("teds", "--pairs", tables, "--results", kept) == first
    assert kept.read_text().splitlines() == lines
    run_json("teds", "--pairs", tables, "--results", kept, "--mode", "pubtabnet", "--processes", 1)
    assert len(kept.read_text().splitlines()) == 6


def test_a_report_is_written(tables, tmp_path):
    path = tmp_path / "out" / "report.html"
    code, out, _ = run("teds", "--pairs", tables, "--report", path, "--worst", 2)
    assert code == 0 and "pairs     3" in out
    html = path.read_text(encoding="utf-8")
    assert "2 of 3 samples" in html and html.count("<iframe sandbox") == 4 and "language" in html


# Benchmarks ----------------------------------------------------------------------------------------


def test_pubtabnet(tmp_path):
    def row(name: str, spans: list[str]) -> dict[str, Any]:
        cell = ["<td", *spans, ">", "</td>"] if spans else ["<td>", "</td>"]
        structure = ["<tbody>", "<tr>", *cell, "</tr>", "</tbody>"]
        return {
            "filename": name, "split": "val",
            "html": {"cells": [{"tokens": ["x"]}], "structure": {"tokens": structure}},
        }  # fmt: skip

    gt = write_rows(tmp_path / "gt.jsonl", [row("a.png", []), row("b.png", [' colspan="2"'])])
    simple = "<html><body><table><tbody><tr><td>x</td></tr></tbody></table></body></html>"
    (tmp_path / "pred.json").write_text(json.dumps({"a.png": simple, "b.png": simple}))
    report = run_json("pubtabnet", "--gt", gt, "--pred", tmp_path / "pred.json")
    kinds = report["by_attribute"]["type"]
    assert kinds["simple"]["teds"] == 1.0 and kinds["complex"]["teds"] < 1.0
    assert report["teds"] == pytest.approx((1.0 + kinds["complex"]["teds"]) / 2)


def test_unimer_without_tex(tmp_path):
    for folder in ("gt", "pred"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "spe.txt").write_text("x^2\n\\frac{a}{b}\n")
        (tmp_path / folder / "hwe.txt").write_text("y\n" if folder == "gt" else "z\n")
    report = run_json("unimer", "--gt", tmp_path / "gt", "--pred", tmp_path / "pred", "--no-cdm")
    assert report["ned"] == pytest.approx(1 / 3)
    assert report["by_attribute"]["subset"]["SPE"] == {"n_pairs": 2, "ned": 0.0}
    assert report["by_attribute"]["subset"]["HWE"] == {"n_pairs": 1, "ned": 1.0}
    # The mean is always that of CDM: it must not turn into a distance where CDM is switched off.
    assert report["mean_axis"] == "cdm" and report["mean"] is None and "cdm" not in report["axes"]


@needs_tex
def test_unimer_with_cdm(tmp_path):
    for folder in ("gt", "pred"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "cpe.txt").write_text("x^{2}+y\n" if folder == "gt" else "x^2+y\n")
    report = run_json("unimer", "--gt", tmp_path / "gt", "--pred", tmp_path / "pred")
    assert report["by_attribute"]["subset"]["CPE"]["cdm"] == report["mean"] == 1.0 and report["ned"] < 0.5


# CDM -----------------------------------------------------------------------------------------------


@needs_tex
def test_the_tool_chain_is_proven():
    report = run_json("cdm", "--check")
    assert report["ok"] is True and report["pair_f1"] == 0.75


def test_a_broken_tool_chain_is_no_score(monkeypatch):
    from gravityocr.commands import score_cdm

    def broken(_config):
        raise ConfigError("pdflatex draws nothing; install texlive-latex-extra")

    monkeypatch.setattr(score_cdm, "check_toolchain", broken)
    code, out, error = run("cdm", "--check", "--json")
    assert code == 1 and json.loads(out) == {
        "ok": False,
        "error": "pdflatex draws nothing; install texlive-latex-extra",
    }
    assert "CDM cannot be trusted here" in error


@needs_tex
def test_formulas_of_jsonl(tmp_path):
    rows = [
        {"id": "same", "pred": r"\frac{a}{b}", "ref": r"\frac{a}{b}"},
        {"id": "open", "pred": r"\frac{a}{", "ref": r"\frac{a}{b}"},
    ]
    report = run_json("cdm", "--pairs", write_rows(tmp_path / "p.jsonl", rows), "--results", tmp_path / "r.jsonl")
    assert report["n_pairs"] == 2 and report["mean"] == report["cdm"] == 0.5
    assert report["not_ok"][0]["status"] == "pred_unrenderable"
    assert run_json("cdm", "--pairs", tmp_path / "p.jsonl", "--results", tmp_path / "r.jsonl") == report


@needs_tex
def test_the_versions_of_cdm(tmp_path):
    rows = [
        {"id": "script", "pred": "x_2", "ref": "x^2"},
        {"id": "broken", "pred": "x", "ref": r"\frac{a}{"},
        {"id": "empty", "pred": "x", "ref": " "},
    ]
    path = write_rows(tmp_path / "p.jsonl", rows)
    ours = run_json("cdm", "--pairs", path, "--results", tmp_path / "r.jsonl")
    assert ours["mean"] == ours["cdm"] == ours["modes"]["ours"]["cdm"] < 1.0
    assert [row["id"] for row in ours["skipped"]] == ["broken", "empty"] and ours["n_scored"] == 1
    official = run_json("cdm", "--pairs", path, "--compat", "official", "--results", tmp_path / "r.jsonl")
    assert official["mean"] == official["modes"]["official"]["cdm"] == pytest.approx(1 / 3, abs=1e-3)
    assert official["skipped"] == [] and official["modes"] == ours["modes"]
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 3  # scored once for both
    unimernet = run_json("cdm", "--pairs", path, "--compat", "official", "--version", "unimernet")
    assert unimernet["mean"] == 1.0 and unimernet["n_skipped"] == 2


def test_scoring_never_imports_torch(repo_root, tables):
    script = (
        "import sys; sys.argv[1:] = ['score', 'teds', '--pairs', sys.argv[1], '--json'];"
        "from gravityocr.cli import app; app(standalone_mode=False);"
        "sys.exit(', '.join({'torch', 'transformers', 'cv2'} & sys.modules.keys()) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tables)], capture_output=True, text=True, check=False,
        cwd=repo_root / "src",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_pairs"] == 3


def test_an_unreadable_prediction_among_pairs_costs_itself_only(tmp_path):
    for folder in ("pred", "ref"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.md").write_text("some words")
    (tmp_path / "ref" / "b.md").write_text("other words")
    (tmp_path / "pred" / "b.md").mkdir()
    report = run_json("edit", "--pred", tmp_path / "pred", "--ref", tmp_path / "ref", "--processes", 1, code=1)
    assert (report["ned"], report["n_scored"]) == (0.5, 2)
    assert [(note["id"], note["status"]) for note in report["notes"]] == [("b", "unreadable_prediction")]


def test_kept_scores_that_were_spoilt_are_scored_again(tables, tmp_path):
    args = ("teds", "--pairs", tables, "--results", tmp_path / "r.jsonl", "--processes", 1)
    first = run_json(*args)
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    for row, score in zip(rows, ({}, {"teds": "x"}, {**rows[2]["score"], "teds": 1.0}), strict=True):
        row["score"] = score
    write_rows(tmp_path / "r.jsonl", rows)
    assert run_json(*args) == first
