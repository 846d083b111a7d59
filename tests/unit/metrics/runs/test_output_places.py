"""Where a run may write: what is ours is overwritten, everything else is left as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gravityocr.errors import ConfigError
from gravityocr.metrics.runs.output_places import InputPlace, check_report_place, check_results_place
from gravityocr.metrics.runs.report_model import Report
from gravityocr.metrics.runs.score_file import ResultsFile
from gravityocr.metrics.runs.score_report import write_report

CHECKS = [check_report_place, check_results_place]


@pytest.fixture
def report(tmp_path) -> Path:
    write_report(tmp_path / "report.html", Report("T", "s", [], []))
    return tmp_path / "report.html"


@pytest.fixture
def results(tmp_path) -> Path:
    file = ResultsFile(tmp_path / "results.jsonl", {})
    file.open()
    file.append("a", "1", "ok", {"value": 1}, None, 0.5)
    file.close()
    return tmp_path / "results.jsonl"


@pytest.mark.parametrize("check", CHECKS)
def test_a_new_file_may_be_written_and_nothing_is_made(tmp_path, check):
    check(tmp_path / "new" / "folder" / "file")
    assert not list(tmp_path.iterdir())


def test_a_report_goes_over_a_report_and_results_onto_results(report, results):
    check_report_place(report)
    check_results_place(results)
    with pytest.raises(ConfigError, match=r"--report .*results\.jsonl: exists and is no report"):
        check_report_place(results)
    with pytest.raises(ConfigError, match=r"--results .*report\.html, line 1: is no result"):
        check_results_place(report)


def test_an_empty_file_may_become_a_report_or_results(tmp_path):
    (tmp_path / "file").touch()
    check_report_place(tmp_path / "file")
    check_results_place(tmp_path / "file")
    write_report(tmp_path / "file", Report("T", "s", [], []))
    assert (tmp_path / "file").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("content", [" ", "text", "<!doctype html><html></html>", '{"id": "a"}\n'])
def test_nothing_else_is_overwritten(tmp_path, content):
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(ConfigError, match="is no report of gravityocr score"):
        check_report_place(path)
    if content.strip():
        with pytest.raises(ConfigError, match="is no result"):
            check_results_place(path)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("link", ["same", "symbolic", "hard", "detour"])
def test_an_input_is_no_place_whatever_its_name(report, tmp_path, check, link):
    other = report
    if link == "symbolic":
        other = tmp_path / "link"
        other.symlink_to(report)
    elif link == "hard":
        other = tmp_path / "link"
        os.link(report, other)
    elif link == "detour":
        (tmp_path / "x").mkdir()
        other = tmp_path / "x" / ".." / "report.html"
    with pytest.raises(ConfigError, match="is what --gt reads"):
        check(other, inputs=[InputPlace("--gt", report)])


@pytest.mark.parametrize("check", CHECKS)
def test_a_folder_of_inputs_gets_none_that_would_be_read(tmp_path, check):
    pred = InputPlace("--pred", tmp_path, (".md", ".html"))
    with pytest.raises(ConfigError, match="lies in the folder of --pred"):
        check(tmp_path / "report.HTML", inputs=[pred])
    check(tmp_path / "report.jsonl", inputs=[pred])


@pytest.mark.parametrize("check", CHECKS)
def test_places_that_cannot_be_used_are_named(tmp_path, check):
    (tmp_path / "file").write_text("x")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, message in {
        tmp_path: "is a folder",
        tmp_path / "file" / "x": "is no folder",
        tmp_path / "file" / "x" / "y": "is no folder",
        Path("/dev/null"): "is no plain file",
        tmp_path / ("x" * 300): "cannot be used",
        tmp_path / "a\0b": "cannot be used",
        loop: "cannot be used",
    }.items():
        with pytest.raises(ConfigError, match=message):
            check(path)


@pytest.mark.parametrize("check", CHECKS)
def test_a_folder_without_leave_to_write_is_told(tmp_path, monkeypatch, check):
    monkeypatch.setattr("os.access", lambda *_args: False)  # root may write everywhere
    with pytest.raises(ConfigError, match="nothing may be written in"):
        check(tmp_path / "new" / "file")


def test_a_report_needs_leave_to_write_beside_it(report, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, _mode: Path(path) == report)
    with pytest.raises(ConfigError, match="nothing may be written in"):
        check_report_place(report)
