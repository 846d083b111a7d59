"""Our Markdown beside the GLM-OCR SDK's own, from its published results."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from benchmarks.assembly_parity import compare, find_files, main

FILES = ["GLM-4.5V", "code/code", "handwritten/handwritten", "page/page", "paper/paper", "table/table"]


@pytest.fixture(scope="module")
def results(cases_dir: Path) -> Path:
    return cases_dir / "glm_reference" / "result"


@pytest.mark.parametrize("name", FILES)
def test_equal_to_the_byte_without_mends_and_only_listed_differences_with_them(results: Path, name: str) -> None:
    parity = compare(results / f"{name}.json", name)
    assert parity.equal_without_mends
    assert parity.unlisted == []
    assert parity.n_equal + parity.n_listed == parity.n_passages > 0


def test_all_six_are_compared(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(find_files(results)) == 6
    assert main(["--cases", str(results / "page"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["n_unlisted"] == 0
    assert report["files"][0]["listed"]["split-numbers"] == 8


@pytest.mark.parametrize(
    "change", [("f _ {1}", "f _ {2}"), ("7. 4.2", "7.4.2"), ("6mm。", "6mm。\n\nMore."), ("8.1 玻", "8.1  玻")]
)
def test_a_difference_that_no_mend_makes_is_unlisted(results: Path, tmp_path: Path, change: tuple[str, str]) -> None:
    shutil.copy(results / "page" / "page.json", tmp_path)
    text = (results / "page" / "page.md").read_text(encoding="utf-8")
    assert change[0] in text
    (tmp_path / "page.md").write_text(text.replace(*change), encoding="utf-8")
    assert main(["--cases", str(tmp_path)]) == 1


def test_a_folder_without_results_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cases", str(tmp_path)]) == 2
    assert "--cases" in capsys.readouterr().err
