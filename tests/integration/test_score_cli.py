"""`gravityocr score` as a user meets it: files in, figures out, exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gravityocr.cli import app
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError

TABLE = "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>"
WIDE = "<table><tr><td colspan='2'>a</td></tr><tr><td>c</td><td>d</td></tr></table>"
needs_tex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX here: CDM renders formulas with it")


def run(*args: object) -> tuple[int, str, str]:
    """Run `gravityocr score`; return (exit code, stdout, the error's line)."""
    result = CliRunner().invoke(app, ["score", *(str(arg) for arg in args)])
    error = result.exception
    if isinstance(error, GravityOCRError):
        return (2 if isinstance(error, (CheckpointError, ConfigError)) else 1), result.stdout, str(error)
    if error is not None and not isinstance(error, SystemExit):
        raise error
    return result.exit_code, result.stdout, result.stderr


def run_json(*args: object, code: int = 0) -> dict[str, Any]:
    found, out, error = run(*args, "--json")
    assert found == code, error
    return json.loads(out)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


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
    report = run_json("edit", "--golden", golden)
    assert report["n_pairs"] == 2 and report["n_misses"] == 1 and report["max_abs_diff"] == 1.0
    assert report["misses"] == [
        {"id": "a", "field": "edit_dist", "golden": 0.25, "ours": 0.0, "diff": 0.25},
        {"id": "a", "field": "norm_gt", "golden": "x", "ours": "HelloWorld", "diff": 1.0},
    ]


def test_official_orders_are_met(cases_dir):
    report = run_json("order", "--golden", cases_dir / "golden" / "golden_order_handed.json")
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
    assert report["statuses"]["ok"] == 2 and sum(report["statuses"].values()) == 3


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
    assert code == 0 and "n_pairs" in out
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


@needs_tex
def test_unimer_with_cdm(tmp_path):
    for folder in ("gt", "pred"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "cpe.txt").write_text("x^{2}+y\n" if folder == "gt" else "x^2+y\n")
    report = run_json("unimer", "--gt", tmp_path / "gt", "--pred", tmp_path / "pred")
    assert report["by_attribute"]["subset"]["CPE"]["cdm"] == report["mean"] == 1.0 and report["ned"] < 0.5


def test_pages_end_to_end_without_cdm(cases_dir, tmp_path):
    folder = cases_dir / "golden" / "e2e"
    path = tmp_path / "report.html"
    report = run_json(
        "omnidocbench", "--gt", folder / "gt.json", "--pred", folder / "pred_demo", "--compat", "official", "--no-cdm",
        "--report", path,
    )  # fmt: skip
    golden = json.loads((cases_dir / "golden" / "golden_e2e_handed.json").read_text())["runs"]["demo"]["summary"]
    for axis, name in {
        "text_edit": "text_block_Edit_dist", "teds": "table_TEDS", "teds_struct": "table_TEDS_structure_only",
        "order_edit": "reading_order_Edit_dist",
    }.items():  # fmt: skip
        assert report[axis] == pytest.approx(golden["metrics"][name]["raw"], abs=1e-3)
    assert report["n_pages"] == 7 and report["overall"] is None and report["cdm"] is None
    assert {axis: report[axis] for axis in report["modes"]["official"]} == report["modes"]["official"]
    assert report["modes"]["default"]["order_edit"] != report["order_edit"] and report["differences"]
    assert "Where the official scorer differs" in path.read_text(encoding="utf-8")


def block(order: int, kind: str, **content: str) -> dict[str, Any]:
    return {
        "category_type": kind, "order": order, "anno_id": order, "ignore": False, "poly": [0, 0, 9, 0, 9, 9, 0, 9],
        **content,
    }  # fmt: skip


@pytest.fixture
def small_pages(tmp_path) -> tuple[Path, Path]:
    """Two pages of a text and a table, the second without a prediction."""
    pages = [
        {
            "page_info": {"image_path": f"{name}.png", "page_attribute": {"language": "english"}},
            "layout_dets": [
                block(1, "text_block", text="Some words stand here."),
                block(2, "table", html=TABLE),
            ],
            "extra": {"relation": []},
        }
        for name in ("a", "b")
    ]
    gt, pred = tmp_path / "gt.json", tmp_path / "pred"
    gt.write_text(json.dumps(pages))
    pred.mkdir()
    (pred / "a.md").write_text(f"Some words stand here.\n\n{TABLE}\n")
    return gt, pred


def test_a_page_without_a_prediction_counts_unless_the_official_rules_are_asked_for(small_pages):
    gt, pred = small_pages
    ours = run_json("omnidocbench", "--gt", gt, "--pred", pred, "--no-cdm", "--processes", 1, code=1)
    assert ours["mode"] == "default" and ours["missing"] == ["b.png"]
    assert (ours["text_edit"], ours["teds"], ours["n_pages"]) == (0.5, 0.5, 2)
    official = run_json(
        "omnidocbench", "--gt", gt, "--pred", pred, "--no-cdm", "--processes", 1, "--compat", "official", code=1
    )
    assert (official["text_edit"], official["teds"], official["n_pages"]) == (0.0, 0.5, 2)
    (entry,) = [one for one in ours["differences"] if one["fault"] == "count_missing_pages"]
    assert entry["pages"] == ["b.png"] and entry["effect"]["text_edit"] == 0.5


@needs_tex
def test_pages_with_cdm_have_an_overall(tmp_path):
    page = {
        "page_info": {"image_path": "a.png", "page_attribute": {}},
        "layout_dets": [
            block(1, "text_block", text="Some words stand here."),
            block(2, "equation_isolated", latex="$$\\frac{a}{b} = c$$"),
            block(3, "table", html=TABLE),
        ],
        "extra": {"relation": []},
    }
    (tmp_path / "gt.json").write_text(json.dumps([page]))
    (tmp_path / "pred").mkdir()
    (tmp_path / "pred" / "a.md").write_text(f"Some words stand here.\n\n$$\\frac{{a}}{{b}} = c$$\n\n{TABLE}\n")
    report = run_json("omnidocbench", "--gt", tmp_path / "gt.json", "--pred", tmp_path / "pred", "--processes", 1)
    assert report["overall"] == 100.0 and report["cdm"] == 1.0 and report["order_edit"] == 0.0
    assert report["ci95"]["overall"] == [100.0, 100.0]


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
    assert run_json("cdm", "--pairs", tmp_path / "p.jsonl", "--results", tmp_path / "r.jsonl") == report


# Usage ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["teds"], "give one of --golden FILE, --pairs FILE and --pred DIR --ref DIR; 0 are given"),
        (["teds", "--golden", "a", "--pairs", "b"], "2 are given"),
        (["edit", "--pred", "a"], "--pred and --ref belong together"),
        (["teds", "--pairs", "a", "--mode", "x"], "--mode 'x' is unknown; choose one of omnidocbench, pubtabnet"),
        (["teds", "--pairs", "a", "--compat", "x"], "--compat 'x' is unknown"),
        (["edit", "--pairs", "a", "--kind", "x"], "--kind 'x' is unknown"),
        (["edit", "--pairs", "a", "--processes", "0"], "processes is 0"),
        (["edit", "--pairs", "a", "--timeout", "0"], "timeout_s is 0"),
        (["edit", "--pairs", "a", "--images", "nowhere"], "--images nowhere: is no folder"),
        (["cdm", "--check", "--pairs", "a"], "--check scores its own pair"),
        (["cdm", "--version", "2"], "--version '2' is unknown"),
        (["cdm", "--golden", "a", "--version", "omnidocbench-1.5"], "none of omnidocbench-1.5"),
    ],
)
def test_wrong_usage_is_told(args, message):
    code, _, error = run(*args)
    assert code == 2 and message in error


def test_unreadable_input_is_told(tmp_path):
    code, _, error = run("edit", "--pairs", tmp_path / "none.jsonl")
    assert code == 1 and "none.jsonl: does not exist" in error


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
