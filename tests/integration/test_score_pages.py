"""`gravityocr score omnidocbench` as a user meets it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.score_runs import TABLE, run, run_json
from tests.tex_tools import needs_tex

from gravityocr.metrics.runs.score_run import SampleResult


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
    assert report["modes"]["ours"]["order_edit"] != report["order_edit"] and report["differences"]
    assert report["absent"] == {"cdm": "CDM switched off (--no-cdm)", "overall": "CDM switched off (--no-cdm)"}
    for axis, value in report["modes"]["ours"].items():
        if value is not None:
            changes = sum(one["effect"].get(axis, 0.0) for one in report["differences"]) + report["interaction"][axis]
            assert report["modes"]["official"][axis] + changes == pytest.approx(value)
    html = path.read_text(encoding="utf-8")
    assert "Official and ours" in html and "interaction of faults" in html and "CDM switched off" in html


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
    assert ours["mode"] == "ours" and ours["missing"] == ["b.png"]
    assert (ours["text_edit"], ours["teds"], ours["n_pages"]) == (0.5, 0.5, 2)
    official = run_json(
        "omnidocbench", "--gt", gt, "--pred", pred, "--no-cdm", "--processes", 1, "--compat", "official", code=1
    )
    assert (official["text_edit"], official["teds"], official["n_pages"]) == (0.0, 0.5, 2)
    (entry,) = [one for one in ours["differences"] if one["fault"] == "count_missing_pages"]
    assert entry["pages"] == ["b.png"] and entry["effect"]["text_edit"] == 0.5


def test_pages_for_a_reader(small_pages, tmp_path):
    gt, pred = small_pages
    path = tmp_path / "report.html"
    code, out, error = run("omnidocbench", "--gt", gt, "--pred", pred, "--no-cdm", "--processes", 1, "--report", path)
    assert code == 1 and "missing_prediction: b.png" in error
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:3] == ["axis", "ours", "official"]
    assert ["text_edit", "0.5000", "0.0000", "0.0000", "to", "1.0000", "2"] in lines
    assert "CDM switched off (--no-cdm)" in out and "only 2 pages" in out and "by_page_attribute" not in out
    assert any(line[:3] == ["count_missing_pages", "1", "text_edit"] for line in lines)
    assert ["missing", "1"] in lines
    html = path.read_text(encoding="utf-8")
    assert html.count("<span class='tag bad'>missing prediction</span>") == 2  # its text and its table
    assert "<li>1 without a prediction</li>" in html and "1 - text_edit</span> 0.0000" in html


def test_a_page_that_was_not_scored_is_told(small_pages, monkeypatch):
    from gravityocr.commands import score_pages

    def none(samples, _scorer, _config, _on_result):
        return [SampleResult(sample.id, "died", None, "its process ended") for sample in samples]

    monkeypatch.setattr(score_pages, "run_samples", none)
    code, out, error = run("omnidocbench", "--gt", small_pages[0], "--pred", small_pages[1], "--no-cdm", "--json")
    report = json.loads(out)
    assert code == 1 and "2 of 2 pages not scored" in error and "not one of 2 pages is ok" in error
    assert report["text_edit"] is None and report["statuses"] == {"died": 2} and report["n_failed"] == 2


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
    assert report["ci95"]["overall"] is None  # one page has no interval


def test_an_unreadable_prediction_is_an_empty_page_and_tells_the_exit_code(small_pages, tmp_path):
    gt, pred = small_pages
    os.mkfifo(pred / "b.md")
    path = tmp_path / "report.html"
    report = run_json(
        "omnidocbench", "--gt", gt, "--pred", pred, "--no-cdm", "--processes", 1, "--report", path, code=1
    )
    assert (report["text_edit"], report["teds"], report["n_pages"]) == (0.5, 0.5, 2)
    (note,) = report["notes"]
    assert (note["id"], note["status"], report["missing"]) == ("b.png", "unreadable_prediction", [])
    assert "<span class='tag bad'>unreadable prediction</span>" in path.read_text(encoding="utf-8")


def test_an_order_that_is_no_place_is_told_and_the_page_is_scored(small_pages):
    gt, pred = small_pages
    pages = json.loads(gt.read_text())[:1]
    pages[0]["layout_dets"][0]["order"] = float("inf")
    gt.write_text(json.dumps(pages))
    report = run_json("omnidocbench", "--gt", gt, "--pred", pred, "--no-cdm", "--processes", 1, code=1)
    assert report["text_edit"] == 0.0 and report["teds"] == 1.0
    assert [note["status"] for note in report["notes"]] == ["bad_order"]
