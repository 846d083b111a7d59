"""A run over many inputs: order, records, what is left alone and what is done again, and how it stops."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.born_digital import Column, Sheet, write_pdf
from PIL import Image
from tests.unit.pipeline.scripted import ScriptedDetector, ScriptedRecognizer, draw_lines

from gravityocr.document import Crop, Document, Page, Recognition
from gravityocr.pipeline.convert import PipelineConfig
from gravityocr.pipeline.exports import OutputFolders
from gravityocr.pipeline.inputs import InputFile, collect_inputs
from gravityocr.pipeline.manifest import MANIFEST_NAME
from gravityocr.pipeline.runs import FileReport, Run, RunPlan
from gravityocr.pipeline.source import SourceConfig
from gravityocr.pipeline.stages import RunConfig

SETTINGS = {"source.dpi": 200.0}


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.openings: list[tuple[str, int]] = []
        self.pages: list[tuple[str, int]] = []

    def opened(self, name: str, n_pages: int) -> None:
        self.openings.append((Path(name).name, n_pages))

    def page(self, name: str, page: Page, n_decoded: int) -> None:
        self.pages.append((Path(name).name, page.index))


def page(path: Path, lines: int = 1) -> Path:
    image = Image.new("RGB", (400, 300), "white")
    draw_lines(image, (40, 40, 360, 60 + 20 * lines))
    image.save(path, "PNG")
    return path


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    return [page(tmp_path / f"{name}.png", number) for number, name in enumerate("abc")]


class Runner:
    """Runs over the same inputs with the same settings, but for what a test changes."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.recognizer = ScriptedRecognizer()
        self.heard = Heard()

    def __call__(self, inputs: Sequence[Path], **more: Any) -> list[FileReport]:
        return [report for report, _ in self.stream(inputs, **more)]

    def stream(self, inputs: Sequence[Path], config: PipelineConfig | None = None, n_parallel: int = 1, **more: Any):  # type: ignore[no-untyped-def]
        self.recognizer.calls.clear()
        plan = replace(RunPlan(OutputFolders(self.out), settings=SETTINGS), **more)
        run = Run(collect_inputs(inputs), plan)
        return run.reports(self.recognizer, ScriptedDetector([]), config or PipelineConfig(), self.heard, n_parallel)

    def state(self) -> dict[str, tuple[int, bytes]]:
        """Tell every output file apart by its time and content."""
        files = [path for path in self.out.rglob("*") if path.is_file() and path.name != MANIFEST_NAME]
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path / "out")


def test_reports_come_in_the_order_of_the_inputs(runner: Runner, inputs: list[Path], tmp_path: Path) -> None:
    mixed = [inputs[2], tmp_path / "gone.png", inputs[0], inputs[1]]
    reports = runner(mixed, n_parallel=3)
    assert [Path(report.file).name for report in reports] == ["c.png", "gone.png", "a.png", "b.png"]
    assert [report.status for report in reports] == ["ok", "failed", "ok", "ok"]
    assert all(len(report.outputs) == 2 and all(map(os.path.isfile, report.outputs)) for report in reports[::2])
    assert runner.heard.pages == [("c.png", 0), ("a.png", 0), ("b.png", 0)]
    assert sorted(runner.heard.openings) == [("a.png", 1), ("b.png", 1), ("c.png", 1)]


def test_a_document_is_written_before_the_next_one_is_done(runner: Runner, inputs: list[Path]) -> None:
    for place, (report, document) in enumerate(runner.stream(inputs)):
        assert isinstance(document, Document) and document.source == str(inputs[place])
        assert all(map(os.path.isfile, report.outputs))
        assert not (runner.out / "c").exists() or place == 2


def test_finished_inputs_are_left_alone(runner: Runner, inputs: list[Path]) -> None:
    first = runner(inputs[:2])
    before = runner.state()
    second = runner(inputs, resume=True)
    assert [report.resumed for report in second] == [True, True, False]
    assert [replace(report, resumed=False) for report in second[:2]] == first
    assert len(runner.recognizer.calls) == 1
    after = runner.state()
    assert {path: after[path] for path in before} == before and len(after) == 6
    assert [report.resumed for report in runner(inputs)] == [False] * 3  # not asked for, not done


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda runner, path: page(path, 5), "the input has changed since"),
        (lambda runner, path: (runner.out / "a/a.md").unlink(), "a/a.md is gone"),
        (
            lambda runner, path: SETTINGS.update({"source.dpi": 100.0}),
            "settings changed since (source.dpi: 200.0 -> 100.0)",
        ),
    ],
)
def test_what_has_changed_is_done_again_and_why_is_told(
    runner: Runner, inputs: list[Path], change: Callable[[Runner, Path], object], why: str
) -> None:  # fmt: skip
    before = dict(SETTINGS)
    runner(inputs[:1])
    try:
        change(runner, inputs[0])
        (report,) = runner(inputs[:1], resume=True)
    finally:
        SETTINGS.clear()
        SETTINGS.update(before)
    assert not report.resumed and report.notes == (f"done again: {why}",)
    assert all(map(os.path.isfile, report.outputs))


def test_a_touched_input_of_the_same_content_is_left_alone(runner: Runner, inputs: list[Path]) -> None:
    runner(inputs[:1])
    os.utime(inputs[0], ns=(1, 1))
    assert runner(inputs[:1], resume=True)[0].resumed


def test_failures_are_tried_again_and_cut_regions_are_not(runner: Runner, inputs: list[Path]) -> None:
    answers = {"failed": Recognition("", "failed", "no answer"), "cut": Recognition("half", "truncated", "limit")}
    for name, resumed in (("failed", False), ("cut", True)):
        runner.recognizer = ScriptedRecognizer(lambda k, crop, name=name: answers[name])  # type: ignore[misc]
        (report,) = runner(inputs[:1])
        assert report.is_failure
        (report,) = runner(inputs[:1], resume=True)
        assert report.resumed is resumed and report.is_failure
    assert report.status == "partial" and "1 of 1 regions were cut" in str(report.error)


def test_what_a_killed_run_left_is_swept_away(runner: Runner, inputs: list[Path]) -> None:
    runner(inputs[:1])
    torn = runner.out / "b" / "images"
    torn.mkdir(parents=True)
    leftovers = [torn / "tmpab12cd.part", runner.out / "b" / "tmp12.part", runner.out / "a" / "tmp34.part"]
    for path in leftovers:
        path.write_bytes(b"half")
    (torn / "mine.part").write_bytes(b"not ours")
    with open(runner.out / MANIFEST_NAME, "ab") as stream:
        stream.write(b'{"state": {"identity": "')
    reports = runner(inputs[:2], resume=True)
    assert [(report.status, report.resumed) for report in reports] == [("ok", True), ("ok", False)]
    assert not any(path.exists() for path in leftovers) and (torn / "mine.part").exists()
    assert (runner.out / "b/b.md").is_file()
    assert [report.resumed for report in runner(inputs[:2], resume=True)] == [True, True]


def test_the_first_failure_can_stop_the_run(runner: Runner, inputs: list[Path], tmp_path: Path) -> None:
    mixed = [inputs[0], tmp_path / "gone.png", *inputs[1:]]
    reports = runner(mixed, fail_fast=True)
    assert [report.status for report in reports] == ["ok", "failed", "skipped", "skipped"]
    assert [report.is_failure for report in reports] == [False, True, False, False]
    assert "--fail-fast" in str(reports[2].error)
    assert not (runner.out / "b").exists() and len(runner.recognizer.calls) <= 2
    reports = runner(mixed, fail_fast=True, resume=True)
    assert reports[0].resumed and reports[1].status == "failed"


def test_leaving_off_keeps_what_is_done(runner: Runner, inputs: list[Path]) -> None:
    stream = runner.stream(inputs)
    next(stream)
    stream.close()
    assert [report.resumed for report in runner(inputs, resume=True)] == [True, False, False]


def test_a_document_that_cannot_be_written_is_failed_and_not_on_record(runner: Runner, inputs: list[Path]) -> None:
    (runner.out / "a/a.md").mkdir(parents=True)
    (runner.out / "a/a.json").write_text(json.dumps({"source_path": os.path.realpath(inputs[0])}))
    reports = runner(inputs)
    assert [report.status for report in reports] == ["failed", "ok", "ok"] and "a.md" in str(reports[0].error)
    assert [report.resumed for report in runner(inputs, resume=True)] == [False, True, True]


def test_pages_that_disagree_with_their_text_layer_are_named(runner: Runner, tmp_path: Path) -> None:
    words = "Four score and seven years ago our fathers brought forth"
    sheets = []
    for _ in range(2):
        column = Column(40, 300, 300, 20)
        column.paragraph(words, "Times-Roman", 14)
        sheets.append(Sheet(tuple(column.lines), tuple(column.rules), media_box=(0, 0, 380, 320)))
    (tmp_path / "born.pdf").write_bytes(write_pdf(sheets))
    answers = iter([words, "Something that stands nowhere on this page at all"])
    runner.recognizer = ScriptedRecognizer(lambda k, crop: Recognition(next(answers)))
    verify = PipelineConfig(source=SourceConfig(text_layer=True), run=RunConfig(verify_text_layer=True))
    (report,) = runner([tmp_path / "born.pdf"], config=verify)
    assert report.text_layer == {"n_compared": 2, "disagreeing_pages": [2]} and report.status == "ok"
    assert report.as_json()["text_layer"] == report.text_layer
    runner.recognizer = ScriptedRecognizer()
    (report,) = runner([tmp_path / "born.pdf"])
    assert report.text_layer is None and "text_layer" not in report.as_json()


def test_an_input_that_is_begun_again_is_off_the_record(runner: Runner, inputs: list[Path]) -> None:
    """What a killed run may have written in part must not pass for what an earlier one finished."""
    runner(inputs[:2])
    runner.heard.openings.clear()
    stream = runner.stream(inputs[:2])
    next(stream)
    deadline = time.monotonic() + 5
    while ("b.png", 1) not in runner.heard.openings and time.monotonic() < deadline:
        time.sleep(0.01)
    stream.close()
    first, second = runner(inputs[:2], resume=True)
    assert first.resumed and not second.resumed


def test_without_a_folder_nothing_is_written(tmp_path: Path, inputs: list[Path]) -> None:
    run = Run([InputFile(str(inputs[0]))], RunPlan())
    done = list(run.reports(ScriptedRecognizer(), ScriptedDetector([]), PipelineConfig(), Heard()))
    assert [(report.status, report.outputs, document.markdown) for report, document in done if document] == [
        ("ok", (), "text 0\n")
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.png", "c.png"]


def test_what_stops_a_run_is_no_failure_of_a_page(runner: Runner, inputs: list[Path]) -> None:
    class Stopped(BaseException):
        pass

    def stop(index: int, crop: Crop) -> Recognition:
        if len(runner.recognizer.calls) == 2:
            raise Stopped
        return Recognition("fine")

    runner.recognizer = ScriptedRecognizer(stop)
    with pytest.raises(Stopped):
        runner(inputs)
    assert (runner.out / "a/a.md").is_file() and not (runner.out / "b/b.md").exists()
    assert list(runner.out.rglob("*.part")) == []
