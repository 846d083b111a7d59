"""The benchmark of overlap, around a recognizer that sleeps: what it compares, and what it says."""

from __future__ import annotations

import json
import os

import pytest
from benchmarks import pipeline_overlap
from tests.unit.pipeline.pool_readers import MakeSlowReader


@pytest.fixture
def slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    def factory(*_: object, **more: object) -> MakeSlowReader:
        return MakeSlowReader(0.25)

    monkeypatch.setattr(pipeline_overlap, "EngineFactory", factory)


@pytest.mark.usefixtures("slow_reader")
def test_two_processes_that_wait_take_less_than_one(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--pages", "4", "--repeats", "1", "--without-command", "--layout", "none", "--json"]
    assert pipeline_overlap.main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    work = report["work"]
    assert work["same_output"] and work["one_after_another_s"] > 4 * 0.25
    assert work["ratio"] == work["pipelined_s"] / work["one_after_another_s"] < 0.8
    assert set(report["boundary"]) == {"work", "command"} and "memory" not in report


@pytest.mark.usefixtures("slow_reader")
def test_the_table_names_boundaries(capsys: pytest.CaptureFixture[str]) -> None:
    assert pipeline_overlap.main(["--pages", "1", "--repeats", "1", "--without-command", "--layout", "none"]) == 0
    told = capsys.readouterr().out
    assert "1 pages, 2 worker processes, medians of 1" in told and "worker processes started and ready before" in told


def test_ratios_are_of_medians() -> None:
    found = pipeline_overlap.summary({"one_after_another": [4.0, 2.0, 9.0], "pipelined": [2.0, 1.0, 3.0]})
    assert (found["one_after_another_s"], found["pipelined_s"], found["ratio"]) == (4.0, 2.0, 0.5)
    assert found["ratios"] == [0.5, 0.5, pytest.approx(1 / 3)]


def test_memory_of_this_process_is_seen() -> None:

    found = pipeline_overlap.resident_mib(os.getpid())
    if found is None:
        pytest.skip("no /proc here")
    assert 0 < found[0] <= found[1]
    assert os.getpid() in pipeline_overlap.family(os.getpid())


@pytest.mark.parametrize("arguments", [["--pages", "0"], ["--workers", "0"], ["--memory-pages", "-1"]])
def test_wrong_numbers_are_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        pipeline_overlap.parse_arguments(arguments)
