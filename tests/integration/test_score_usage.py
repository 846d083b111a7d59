"""Wrong usage of `gravityocr score`: told before anything is scored, made or overwritten."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.score_runs import run
from typer.testing import CliRunner

from gravityocr.cli import app
from gravityocr.metrics.formulas import tex_runner
from gravityocr.metrics.formulas.tex_runner import ToolMissingError

ROW = {"id": "a", "pred": "x", "ref": "x"}


def listed(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder with pairs, golden values, a benchmark and folders of texts, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    Path("pairs.jsonl").write_text(json.dumps(ROW) + "\n")
    golden = {"id": "a", "type": "text", "pred": "x", "gt": "x", "edit_dist": 0.0}
    tables = {"pred_html": "", "gt_html": "", "teds": 0.0, "stripped_pred": "x", "stripped_gt": "x", "cdm_f1": 1.0}
    Path("golden.json").write_text(json.dumps([{**golden, **tables}]))
    for folder in ("pred", "ref"):
        Path(folder).mkdir()
        Path(folder, "spe.txt").write_text("x\n")
        Path(folder, "p.md").write_text("x\n")
    page = {"page_info": {"image_path": "p.png", "page_attribute": {}}, "layout_dets": []}
    Path("gt.json").write_text(json.dumps([page]))
    os.mkfifo("fifo")
    return tmp_path


PAIRS = ["--pairs", "pairs.jsonl"]
GOLDEN = ["--golden", "golden.json"]
PAGES = ["omnidocbench", "--gt", "gt.json", "--pred", "pred"]
UNIMER = ["unimer", "--gt", "ref", "--pred", "pred"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["teds"], "give one of --golden FILE, --pairs FILE and --pred DIR --ref DIR; 0 are given"),
        (["teds", *GOLDEN, *PAIRS], "2 are given"),
        (["edit", "--pred", "pred"], "--pred and --ref belong together"),
        (["teds", *PAIRS, "--mode", "x"], "Invalid value for '--mode'"),
        (["teds", *PAIRS, "--compat", "x"], "'x' is not one of 'ours', 'official'"),
        (["edit", *PAIRS, "--kind", "x"], "Invalid value for '--kind'"),
        (["edit", *PAIRS, "--processes", "0"], "processes is 0"),
        (["edit", *PAIRS, "--timeout", "0"], "timeout_s is 0"),
        (["edit", *PAIRS, "--report", "r.html", "--images", "nowhere"], "--images nowhere: is no folder"),
        (["cdm", "--check", *PAIRS], "--check scores its own pair"),
        (["cdm", "--version", "2"], "Invalid value for '--version'"),
        (["cdm", *PAIRS, "--timeout", "0"], "timeout_s is 0"),
        (["cdm", *GOLDEN, "--version", "v1.5"], "--version v1.5: --golden holds values of"),
        (["edit", "--pairs", "none.jsonl"], "--pairs none.jsonl: does not exist"),
        (["edit", "--pairs", "x" * 300], "does not exist"),
        (["unimer", "--gt", "ref", "--pred", "x" * 300], "does not exist"),
        (["teds", "--golden", "none.json"], "--golden none.json: does not exist"),
        (["edit", "--pred", "none", "--ref", "ref"], "--pred none: does not exist"),
        (["edit", "--pred", "gt.json", "--ref", "ref"], "--pred gt.json: is no folder"),
        (["omnidocbench", "--gt", "none", "--pred", "pred"], "--gt none: does not exist"),
        (["pubtabnet", "--gt", "gt.json", "--pred", "none"], "--pred none: does not exist"),
        (["unimer", "--gt", "gt.json", "--pred", "pred"], "--gt gt.json: is no folder"),
        (["order", "--golden", "none"], "--golden none: does not exist"),
        (["edit", "--pairs", "fifo"], "--pairs fifo: is no regular file; name one, or - for stdin"),
        (["edit", "--golden", "pred"], "--golden pred: is no regular file"),
        (["omnidocbench", "--gt", "fifo", "--pred", "pred", "--no-cdm"], "--gt fifo: is no regular file"),
        (["pubtabnet", "--gt", "gt.json", "--pred", "fifo"], "--pred fifo: is no regular file"),
        (["unimer", "--gt", "ref", "--pred", "fifo", "--no-cdm"], "--pred fifo: is no regular file"),
        (["edit", *PAIRS, "--results", "fifo"], "--results fifo: is no plain file"),
        (["edit", *PAIRS, "--report", "fifo"], "--report fifo: is no plain file"),
        (["cdm", *PAIRS, "--timeout", "nan"], "timeout_s is nan"),
        # Options that a form has no use for
        *[
            (["teds", *GOLDEN, *option], f"{option[0]} has no use with --golden")
            for option in (
                ["--report", "r.html"], ["--images", "pred"], ["--worst", "3"], ["--seed", "1"], ["--compat", "ours"],
                ["--mode", "pubtabnet"],
            )
        ],
        (["edit", *GOLDEN, "--kind", "text"], "--kind has no use with --golden"),
        (["cdm", *GOLDEN, "--compat", "ours"], "--compat has no use with --golden"),
        (["cdm", "--check", "--report", "r.html"], "--report has no use with --check"),
        (["cdm", "--check", "--cache", "c"], "--cache has no use with --check"),
        *[
            ([*form, "--no-cdm", *option], f"{option[0]} has no use with --no-cdm")
            for form in (PAGES, UNIMER)
            for option in (["--cache", "c"], ["--version", "v1.5"])
        ],
        *[
            ([*form, "--images", "pred"], "--images has no use without --report")
            for form in (PAGES, UNIMER, ["edit", *PAIRS], ["pubtabnet", "--gt", "gt.json", "--pred", "pairs.jsonl"])
        ],
        ([*UNIMER, "--no-cdm", "--compat", "ours"], "--compat has no use with --no-cdm"),
        (["pubtabnet", "--gt", "gt.json", "--pred", "pairs.jsonl", "--split", "val"], "--split has no use with"),
        # Places
        (["edit", *PAIRS, "--report", "pairs.jsonl"], "--report pairs.jsonl: is what --pairs reads"),
        (["edit", *PAIRS, "--results", "pairs.jsonl"], "--results pairs.jsonl: is what --pairs reads"),
        (["edit", *PAIRS, "--report", "gt.json"], "--report gt.json: exists and is no report"),
        (["edit", *PAIRS, "--results", "gt.json"], "--results gt.json, line 1: is no result"),
        (["edit", *PAIRS, "--report", "new/x", "--results", "new/x"], "is the file of --results too"),
        (["edit", *PAIRS, "--report", "pred"], "--report pred: is a folder"),
        (["edit", *PAIRS, "--report", "gt.json/r.html"], "gt.json is no folder"),
        (["edit", "--pred", "pred", "--ref", "ref", "--report", "pred/r.html"], "lies in the folder of --pred"),
        ([*PAGES, "--no-cdm", "--report", "pred/p.md"], "lies in the folder of --pred"),
        ([*PAGES, "--no-cdm", "--results", "gt.json"], "--results gt.json: is what --gt reads"),
        ([*UNIMER, "--no-cdm", "--results", "ref/spe.txt"], "lies in the folder of --gt"),
        (["order", *GOLDEN, "--results", "golden.json"], "is what --golden reads"),
        ([*PAGES, "--cache", "gt.json"], "--cache gt.json: is no folder"),
    ],
)  # fmt: skip
def test_wrong_usage_is_told_and_nothing_is_touched(here, args, message):
    before = listed(here)
    code, _, error = run(*args)
    assert code == 2 and message in error
    assert listed(here) == before and not (here / "new").exists()


@pytest.mark.parametrize("form", [PAGES, UNIMER])
def test_missing_tex_is_told_before_anything_is_scored(here, monkeypatch, form):
    def missing():
        raise ToolMissingError("pdflatex is not installed; CDM needs it: apt-get install texlive-latex-extra")

    monkeypatch.setattr(tex_runner, "pdflatex_path", missing)
    before = listed(here)
    code, _, error = run(*form, "--results", "new/r.jsonl", "--cache", "kept")
    assert code == 2 and "texlive-latex-extra; or leave CDM out with --no-cdm" in error
    assert listed(here) == before and not (here / "new").exists() and not (here / "kept").exists()


def test_unreadable_input_makes_no_folders(here):
    Path("pairs.jsonl").write_text("no JSON")
    code, _, error = run("edit", *PAIRS, "--results", "new/r.jsonl", "--report", "new/r.html")
    assert code == 1 and "line 1: is no JSON" in error and not Path("new").exists()


def test_a_report_goes_over_a_report(here):
    for _ in range(2):
        assert run("edit", *PAIRS, "--report", "new/r.html", "--processes", "1")[0] == 0
    assert Path("new/r.html").read_text().startswith("<!doctype html>")


def test_help_names_choices_and_what_to_use():
    out = CliRunner().invoke(app, ["score", "--help"]).stdout
    assert "Markdown of whole pages, and OmniDocBench       omnidocbench" in out
    assert "..." not in out.partition("Commands:")[2]
    assert "ours|official" in CliRunner().invoke(app, ["score", "cdm", "--help"]).stdout
