"""The run of `gravityocr parse`: from checked settings to written files, the summary and the exit code."""

from __future__ import annotations

import errno
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
from gravityocr.commands.parse_progress import Progress, counted, failure_line
from gravityocr.commands.parse_readers import NoReader, Reader, obstacle_of, open_reader
from gravityocr.commands.parse_settings import ParseSettings, check_reference, resolve
from gravityocr.document import Document
from gravityocr.errors import InputError
from gravityocr.pipeline.convert import n_pages_of
from gravityocr.pipeline.exports import OutputFolders, printable
from gravityocr.pipeline.inputs import FoundInputs, find_inputs
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
    found = find_inputs(asked.inputs, asked.out)
    check_reference(asked, settings, len(found.items))
    reports: list[FileReport] = []
    try:
        with _stoppable():
            _work(asked, settings, found, folders, reports)
    except StoppedError as stop:
        _tell_stopped(stop, asked, len(found.items), reports)
        return stop.code
    n_failed = sum(report.is_failure for report in reports)
    if asked.as_json:
        table: dict[str, Any] = {"files": [report.as_json() for report in reports], "n_failed": n_failed}
        if settings.config.run.verify_text_layer:
            table["text_layer"] = _text_layer(reports)
        _echo(json.dumps(table, ensure_ascii=not _holds_unicode()))
    return 1 if n_failed else 0


def _work(
    asked: ParseOptions, settings: ParseSettings, found: FoundInputs, folders: OutputFolders | None,
    reports: list[FileReport],
) -> None:  # fmt: skip
    """Do the run; `reports` grows with each input, so that it is known how far it came.

    What cannot be read is told before anything is loaded, and where that is all there is, nothing is.
    """
    items, config = found.items, settings.config
    with Progress(console, len(items), 0, config.text_check) as progress:
        for note in found.notes:
            progress.note(note)
        obstacles = [(item, obstacle_of(item)) for item in items]
        for item, obstacle in obstacles:
            if obstacle is not None:
                progress.unreadable(item.name, obstacle)
        loads = any(obstacle is None for _, obstacle in obstacles)
        if not loads:
            settings.check_unloaded()
        record = settings.on_record(asked) if loads else {}
        plan = RunPlan(folders, asked.formats, settings.pages, asked.fail_fast, asked.resume, record)
        with Run(items, plan) as run:
            if progress.is_live and loads:
                progress.expect(sum(n_pages_of(item, config, settings.pages) for item in run.to_do))
            if not run.to_do:
                for report in run.left_alone:
                    progress.finished(report)
                    reports.append(report)
            elif loads:
                with open_reader(asked, settings, run.to_do) as reader:
                    _go_through(run, reader, asked, settings, progress, reports)
            else:
                _go_through(run, Reader(NoReader(), NoReader()), asked, settings, progress, reports)
    progress.summarize(reports, asked.out)


def _go_through(
    run: Run, reader: Reader, asked: ParseOptions, settings: ParseSettings, progress: Progress,
    reports: list[FileReport],
) -> None:  # fmt: skip
    config = with_text_format(settings.config, settings.text_format or reader.text_format)
    done = run.reports(reader.recognizer, reader.detector, config, progress, reader.n_parallel)
    with closing(done):
        for report, document in done:
            if asked.stdout:
                _print_document(report, document, named=progress.n_files > 1)
            progress.finished(report)
            reports.append(report)


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
    how = "the same command with --resume goes on" if asked.out is not None else "what was printed is whole"
    done = f"{len(reports)} of {counted(n_inputs, 'input')} {'is' if n_inputs == 1 else 'are'} done"
    console.print(f"stopped by {stop}: {done}; {how}", markup=False)


def _print_document(report: FileReport, document: Document | None, named: bool) -> None:
    """Print a document's Markdown; a comment tells of one that there is nothing of."""
    if named:
        _echo(f"<!-- {comment(report.file)} -->\n")
    if document is not None and document.pages:
        _echo(document.markdown)
    else:
        _echo(f"<!-- {comment(failure_line(report))} -->\n")


def _text_layer(reports: Sequence[FileReport]) -> dict[str, Any]:
    """Sum up what the files say of their text layers."""
    found = [(report.file, report.text_layer) for report in reports if report.text_layer is not None]
    return {
        "n_compared": sum(one["n_compared"] for _, one in found),
        "disagreeing_pages": [{"file": file, "page": page} for file, one in found for page in one["disagreeing_pages"]],
    }


def _echo(text: str) -> None:
    """Print on stdout, whatever its encoding holds.

    *Raises*: InputError where stdout takes nothing; BrokenPipeError where its reader has gone.
    """
    try:
        typer.echo(printable(text, sys.stdout.encoding or "utf-8"))
    except BrokenPipeError:
        raise
    except OSError as error:
        why = "it is closed" if error.errno == errno.EBADF else error.strerror
        raise InputError(f"stdout: cannot be written ({why}); let it lead to a file or a program") from error


def _holds_unicode() -> bool:
    return (sys.stdout.encoding or "utf-8").lower().replace("-", "") == "utf8"
