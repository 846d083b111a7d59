"""The run of `gravityocr parse`: from checked settings to written files, the summary and the exit code."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any

import typer

from gravityocr.api import with_text_format
from gravityocr.commands.options import console
from gravityocr.commands.parse_options import ParseOptions
from gravityocr.commands.parse_progress import Progress
from gravityocr.commands.parse_readers import open_reader
from gravityocr.commands.parse_settings import ParseSettings, check_reference, resolve
from gravityocr.document import Document
from gravityocr.pipeline.convert import PipelineConfig, n_pages_of
from gravityocr.pipeline.exports import OutputFolders, printable
from gravityocr.pipeline.inputs import InputFile, collect_inputs
from gravityocr.pipeline.markdown import comment
from gravityocr.pipeline.runs import FileReport, Run, RunPlan

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedError(BaseException):
    """A run is to stop: no failure of a page or file, so nothing that catches those catches it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.code = 128 + signum


def run(asked: ParseOptions) -> int:
    """Parse all inputs and return the exit code.

    *Raises*: ConfigError, CheckpointError and InputError for what stops the whole run before it begins.
    """
    settings = resolve(asked)
    folders = OutputFolders(asked.out) if asked.out is not None else None
    items = collect_inputs(asked.inputs)
    check_reference(asked, settings, len(items))
    plan = RunPlan(
        folders, asked.formats, settings.pages, asked.fail_fast, asked.resume, settings.on_record(asked)
    )  # fmt: skip
    reports: list[FileReport] = []
    try:
        with _stoppable():
            _work(asked, settings, items, plan, reports)
    except StoppedError as stop:
        _tell_stopped(stop, asked, len(items), reports)
        return stop.code
    n_failed = sum(report.is_failure for report in reports)
    if asked.as_json:
        table: dict[str, Any] = {"files": [report.as_json() for report in reports], "n_failed": n_failed}
        if settings.config.run.verify_text_layer:
            table["text_layer"] = _text_layer(reports)
        _echo(json.dumps(table, ensure_ascii=not _holds_unicode()))
    return 1 if n_failed else 0


def _work(
    asked: ParseOptions, settings: ParseSettings, items: Sequence[InputFile], plan: RunPlan, reports: list[FileReport]
) -> None:
    """Do the run; `reports` grows with each input, so that it is known how far it came."""
    run = Run(items, plan)
    config: PipelineConfig = settings.config
    n_pages = sum(n_pages_of(item, config, settings.pages) for item in run.to_do) if console.is_terminal else 0
    with Progress(console, len(items), n_pages, config.text_check) as progress:
        if not run.to_do:
            for report in run.left_alone:
                progress.finished(report)
                reports.append(report)
        else:
            with open_reader(asked, settings, run.to_do) as reader:
                config = with_text_format(config, settings.text_format or reader.text_format)
                done = run.reports(reader.recognizer, reader.detector, config, progress, reader.n_parallel)
                with closing(done):
                    for report, document in done:
                        if asked.stdout and document is not None:
                            _print_document(document, named=len(items) > 1)
                        progress.finished(report)
                        reports.append(report)
    progress.summarize(reports)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGINT and SIGTERM stop the run once; a second one ends the process as it is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, _frame: FrameType | None) -> None:
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        raise StoppedError(signum)

    before = {one: signal.signal(one, stop) for one in _SIGNALS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _tell_stopped(stop: StoppedError, asked: ParseOptions, n_inputs: int, reports: Sequence[FileReport]) -> None:
    how = "the same command with --resume goes on" if asked.out is not None else "nothing is kept with --stdout"
    console.print(f"stopped by {stop}: {len(reports)} of {n_inputs} inputs are done; {how}", markup=False)


def _print_document(document: Document, named: bool) -> None:
    if named:
        _echo(f"<!-- {comment(document.source)} -->\n")
    _echo(document.markdown)


def _text_layer(reports: Sequence[FileReport]) -> dict[str, Any]:
    """Sum up what the files say of their text layers."""
    found = [(report.file, report.text_layer) for report in reports if report.text_layer is not None]
    return {
        "n_compared": sum(one["n_compared"] for _, one in found),
        "disagreeing_pages": [{"file": file, "page": page} for file, one in found for page in one["disagreeing_pages"]],
    }


def _echo(text: str) -> None:
    """Print on stdout, whatever its encoding holds."""
    typer.echo(printable(text, sys.stdout.encoding or "utf-8"))


def _holds_unicode() -> bool:
    return (sys.stdout.encoding or "utf-8").lower().replace("-", "") == "utf8"
