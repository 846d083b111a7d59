"""Runs and the output folder: one at a time, records not trusted blindly, links refused, old outputs told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.pipeline.test_runs import Runner, page
from tests.unit.pipeline.test_runs import inputs as inputs
from tests.unit.pipeline.test_runs import runner as runner

from gravityocr.errors import ConfigError
from gravityocr.pipeline.export.lock import LOCK_NAME
from gravityocr.pipeline.exports import OutputFolders
from gravityocr.pipeline.inputs import InputFile
from gravityocr.pipeline.manifest import MANIFEST_NAME
from gravityocr.pipeline.runs import Run, RunPlan


def test_two_runs_into_one_folder_do_not_mix(runner: Runner, inputs: list[Path]) -> None:
    stream = runner.stream(inputs)
    next(stream)
    with pytest.raises(ConfigError, match="another run writes into this folder"):
        runner(inputs)
    stream.close()
    assert len(runner(inputs)) == 3
    plan = RunPlan(OutputFolders(runner.out))
    with Run([], plan), pytest.raises(ConfigError, match="another run"):
        Run([], plan)
    with Run([], plan):
        pass
    assert not (runner.out / LOCK_NAME).exists()


def test_a_run_that_cannot_begin_lets_others_in(runner: Runner, inputs: list[Path]) -> None:
    (runner.out / MANIFEST_NAME).mkdir(parents=True)
    for _ in range(2):
        with pytest.raises(ConfigError, match="cannot be the record"):
            runner(inputs)


def altered(**changes: Any) -> Callable[[Runner], None]:
    def alter(runner: Runner) -> None:
        path = runner.out / MANIFEST_NAME
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line | changes if "state" in line else line) + "\n" for line in lines))

    return alter


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (altered(report={}), "its record is damaged, or of another version"),
        (altered(outputs=[]), "its record is damaged, or of another version"),
        (altered(outputs=["../../../etc/passwd"], files={"../../../etc/passwd": 1}), "its record is damaged"),
        (altered(outputs=["b/b.md"], files={"b/b.md": 1}), "b/b.md is of another document"),
        (lambda runner: (runner.out / "a/a.md").write_text(""), "a/a.md has changed since"),
    ],
)
def test_a_record_that_does_not_hold_is_not_believed(
    runner: Runner, inputs: list[Path], change: Callable[[Runner], object], why: str
) -> None:
    runner(inputs[:1])
    change(runner)
    (report,) = runner(inputs[:1], resume=True)
    assert not report.resumed and report.status == "ok"
    assert why in " ".join(report.notes)
    assert runner(inputs[:1], resume=True)[0].resumed


def test_a_folder_that_does_not_say_whose_it_is_is_done_again(runner: Runner, inputs: list[Path]) -> None:
    runner(inputs[:1], formats=("omnidocbench",))
    (runner.out / "a/.source").unlink()
    (report,) = runner(inputs[:1], formats=("omnidocbench",), resume=True)
    assert not report.resumed and "a does not say that it is of this input" in report.notes[0]


def test_a_lost_picture_is_noticed(runner: Runner, inputs: list[Path]) -> None:
    runner(inputs[:1])
    (record,) = [json.loads(line) for line in (runner.out / MANIFEST_NAME).read_text().splitlines() if "state" in line]
    assert set(record["outputs"]) == {"a/a.md", "a/a.json"} <= set(record["files"])
    assert all((runner.out / name).stat().st_size == size for name, size in record["files"].items())


def test_a_folder_that_is_a_link_fails_its_document_only(runner: Runner, inputs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "other/.pages").mkdir(parents=True)
    (tmp_path / "other/tmp1.part").write_text("mine")
    runner.out.mkdir()
    (runner.out / "a").symlink_to(tmp_path / "other")
    reports = runner(inputs)
    assert [report.status for report in reports] == ["failed", "ok", "ok"]
    assert f"{runner.out / 'a'}: is a link" in str(reports[0].error)
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == [".pages", "tmp1.part"]


def test_what_an_earlier_run_left_of_a_failed_input_is_told(runner: Runner, inputs: list[Path]) -> None:
    runner(inputs[:1])
    note = f"outputs of an earlier run are still in {runner.out / 'a'}"
    inputs[0].write_text("no picture")
    for resume in (False, True):
        (report,) = runner(inputs[:1], resume=resume)
        assert report.status == "failed" and note in report.notes
    inputs[0].unlink()
    (report,) = runner(inputs[:1])
    assert report.status == "failed" and note in report.notes and (runner.out / "a/a.md").exists()
    page(inputs[0])
    (report,) = runner(inputs[:1], formats=("json",))
    assert report.status == "ok" and report.notes == ()
    assert [path.name for path in (runner.out / "a").iterdir()] == ["a.json"]


def test_a_path_that_no_file_can_have_fails_alone(runner: Runner) -> None:
    run = Run([InputFile("a\0b.png", "is no path")], RunPlan(OutputFolders(runner.out)))
    assert [item.name for item in run.to_do] == ["a\0b.png"]
    run.close()
    assert not os.path.lexists(runner.out)
