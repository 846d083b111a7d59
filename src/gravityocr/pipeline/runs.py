"""A run over many inputs: each document is written as soon as it is complete, put on record, and told of in order."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol

from gravityocr.document import Document, Page
from gravityocr.errors import GravityOCRError, InputError
from gravityocr.pipeline.convert import DocumentJob, PipelineConfig, convert_all
from gravityocr.pipeline.export.folders import holds_outputs, owner_of
from gravityocr.pipeline.export.lock import FolderLock
from gravityocr.pipeline.exports import DEFAULT_FORMATS, DocumentWriter, OutputFolders
from gravityocr.pipeline.inputs import InputFile, source_identity
from gravityocr.pipeline.layout import LayoutDetector
from gravityocr.pipeline.manifest import FileState, Manifest, Record
from gravityocr.pipeline.recognizer import Recognizer
from gravityocr.pipeline.source import PageRanges

FileStatus = Literal["ok", "partial", "failed", "skipped"]
NOT_RUN = "not run: an input before it failed (--fail-fast)"


@dataclass(frozen=True)
class FileReport:
    """What became of one input, in the words of the summary.

    `skipped` are inputs that were not run at all; `resumed` ones were finished by an earlier run and left alone.
    `text_layer` counts the pages that were compared with their text layer and names those that disagree, from 1.
    """

    file: str
    status: FileStatus
    n_pages: int = 0
    n_regions: int = 0
    error: str | None = None
    outputs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    resumed: bool = False
    text_layer: dict[str, Any] | None = None

    @property
    def is_failure(self) -> bool:
        """Tell whether the input is one of those that make a run end with exit code 1."""
        return self.status in ("partial", "failed")

    def as_json(self) -> dict[str, Any]:
        """Return the report as the summary's JSON has it."""
        found = asdict(self) | {"outputs": list(self.outputs), "notes": list(self.notes)}
        if self.text_layer is None:
            del found["text_layer"]
        return found


class RunListener(Protocol):
    """Who is told how a run goes."""

    def opened(self, name: str, n_pages: int) -> None:
        """Hear that an input's first page is there, and how many will come; called in the thread that renders."""
        ...

    def page(self, name: str, page: Page, n_decoded: int) -> None:
        """Hear of a page that was read, and how many tokens decode forwards committed for it."""
        ...


@dataclass(frozen=True)
class RunPlan:
    """What a run does with its documents.

    Without `folders` nothing is written. `settings` are all that the output depends on, as one table of dotted names
    (`manifest.flat_settings`): with `resume`, inputs that were finished with the same ones are left alone.
    """

    folders: OutputFolders | None = None
    formats: tuple[str, ...] = DEFAULT_FORMATS
    pages: PageRanges | None = None
    fail_fast: bool = False
    resume: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _Entry:
    """One input of the run: how it is done, or the report that it already has."""

    item: InputFile
    identity: str
    writer: DocumentWriter | None = None
    ready: FileReport | None = None
    state: FileState | None = None
    notes: tuple[str, ...] = ()


class Run:
    """A run over many inputs.

    The output folder is its own from here on until `reports` has ended, or `close`.

    *Raises*: ConfigError where another run writes into the output folder, or the record of earlier runs is unusable.
    """

    def __init__(self, items: Sequence[InputFile], plan: RunPlan) -> None:
        self._plan = plan
        self._settings = ""
        self._lock = FolderLock(plan.folders.out_dir) if plan.folders is not None else None
        with ExitStack() as undo:
            undo.callback(self.close)
            self._manifest = Manifest(plan.folders.out_dir) if plan.folders is not None else None
            self._entries = [self._entry(item) for item in items]
            undo.pop_all()

    def close(self) -> None:
        """Let other runs write into the output folder."""
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def to_do(self) -> list[InputFile]:
        """Return the inputs that are to be read."""
        return [entry.item for entry in self._entries if entry.ready is None]

    @property
    def left_alone(self) -> list[FileReport]:
        """Return the reports of the inputs that an earlier run finished."""
        return [entry.ready for entry in self._entries if entry.ready is not None]

    def reports(
        self,
        recognizer: Recognizer,
        detector: LayoutDetector,
        config: PipelineConfig,
        listener: RunListener,
        n_parallel: int = 1,
    ) -> Generator[tuple[FileReport, Document | None], None, None]:
        """Do the work, and yield each input's report and document, in order; closing this stops what is under way.

        The document is None where an input was not read in this run.
        """
        documents = convert_all(self._jobs(listener), recognizer, detector, config, n_parallel)
        current: _Entry | None = None
        stopped = False
        try:
            if self._manifest is not None:
                self._settings = self._manifest.add_settings(self._plan.settings)
            for current in self._entries:
                document = None
                report = current.ready
                if report is None and stopped:
                    report = FileReport(current.item.name, "skipped", error=NOT_RUN)
                elif report is None:
                    document = next(documents)
                    report = self._written(current, document, config)
                yield report, document
                if self._plan.fail_fast and report.is_failure and not stopped:
                    stopped = True
                    documents.close()
        finally:
            documents.close()
            if current is not None and current.writer is not None and current.ready is None:
                current.writer.discard()
            self.close()

    def _entry(self, item: InputFile) -> _Entry:
        entry = _Entry(item, source_identity(item.path))
        if self._plan.folders is None or self._manifest is None or item.error is not None:
            return entry
        writer = DocumentWriter(self._plan.folders.claim(item.path), self._plan.formats, item.name)
        try:
            writer.check()
        except InputError as error:
            entry.item = replace(item, error=str(error))
            return entry
        entry.writer = writer
        _clear(writer)
        if self._plan.resume and item.origin != "stdin":
            entry.ready, entry.notes = self._left_alone(entry, self._manifest)
        return entry

    def _left_alone(self, entry: _Entry, manifest: Manifest) -> tuple[FileReport | None, tuple[str, ...]]:
        """Return an earlier run's report that still holds; else a note that says why it does not."""
        record = manifest.record_of(entry.identity)
        if manifest.is_damaged(entry.identity):
            return None, ("done again: its record is damaged, or of another version",)
        if record is None or entry.writer is None:
            return None, ()
        folder, why = entry.writer.folder, None
        trouble = manifest.trouble(record, folder)
        changes = manifest.changes(record, self._plan.settings)
        if record.again:
            why = f"it was {record.report.get('status')} the last time"
        elif not record.state.same(_state(entry, like=record.state)):
            why = "the input has changed since"
        elif trouble:
            why = trouble
        elif owner_of(folder) != entry.identity:
            why = f"{manifest.relative(folder)} does not say that it is of this input"
        elif changes:
            why = f"settings changed since ({', '.join(changes[:5])}{', ...' if len(changes) > 5 else ''})"
        if why is not None:
            return None, (f"done again: {why}",)
        return _recorded(entry.item.name, record, manifest.folder), ()

    def _jobs(self, listener: RunListener) -> Iterator[DocumentJob]:
        """Yield what is to be read; called in the thread that renders, when an input's turn comes."""
        for entry in self._entries:
            if entry.ready is not None:
                continue
            writer, name = entry.writer, entry.item.name
            if writer is not None and self._manifest is not None:
                entry.state = _state(entry)
                self._manifest.forget(entry.identity)
            yield DocumentJob(
                entry.item,
                self._plan.pages,
                on_open=lambda n_pages, name=name: listener.opened(name, n_pages),  # type: ignore[misc]
                on_page=lambda page, n_decoded, name=name: listener.page(name, page, n_decoded),  # type: ignore[misc]
                save_image=writer.save_image if writer else None,
                save_page=writer.save_page if writer and writer.wants_pages else None,
            )

    def _written(self, entry: _Entry, document: Document, config: PipelineConfig) -> FileReport:
        outputs: list[Path] = []
        error: GravityOCRError | None = None
        if entry.writer is not None and document.pages:
            try:
                outputs = entry.writer.finish(document, config.assembly)
            except GravityOCRError as failure:
                error = failure
        report = FileReport(
            document.source,
            "failed" if error else document.status,
            len(document.pages),
            document.n_regions,
            str(error) if error else document.error,
            tuple(str(path) for path in outputs),
            (*entry.notes, *document.notes, *self._left_over(entry, document)),
            text_layer=_text_layer(document, config),
        )
        if outputs and not error and entry.state is not None and self._manifest is not None:
            try:
                self._manifest.add(self._record(entry, report, document, self._manifest))
            except (GravityOCRError, OSError) as failure:  # a file of it may be gone already
                report = replace(
                    report, notes=(*report.notes, f"not on record, so --resume will do it again: {failure}")
                )
        return report

    def _left_over(self, entry: _Entry, document: Document) -> tuple[str, ...]:
        """Say where the outputs of an earlier run are still there, though this one read nothing."""
        if document.pages or self._plan.folders is None:
            return ()
        folder = self._plan.folders.owned(entry.item.path)
        if folder is None or not holds_outputs(folder):
            return ()
        return (f"outputs of an earlier run are still in {folder}",)

    def _record(self, entry: _Entry, report: FileReport, document: Document, manifest: Manifest) -> Record:
        again = document.status == "failed" or any(
            page.status == "failed" or any(region.status == "failed" for region in page.regions)
            for page in document.pages
        )
        again = again or (document.status == "partial" and all(page.status == "ok" for page in document.pages))
        outputs = tuple(manifest.relative(path) for path in report.outputs)
        written = [Path(path) for path in report.outputs] + (entry.writer.pictures if entry.writer is not None else [])
        files = {manifest.relative(path): os.stat(path).st_size for path in written}
        state = entry.state or _state(entry)
        return Record(state, self._settings, outputs, files, report.as_json(), again)


def _text_layer(document: Document, config: PipelineConfig) -> dict[str, Any] | None:
    if not config.run.verify_text_layer:
        return None
    compared = [page for page in document.pages if page.text_layer_ned is not None]
    disagreeing = [page.index + 1 for page in compared if config.text_check.disagrees(page)]
    return {"n_compared": len(compared), "disagreeing_pages": disagreeing}


def _state(entry: _Entry, like: FileState | None = None) -> FileState:
    path = entry.item.path if entry.item.origin == "file" else None
    return FileState.of(entry.identity, path, like)


def _recorded(name: str, record: Record, folder: Path) -> FileReport:
    found = record.report
    return FileReport(
        name,
        found["status"],
        found["n_pages"],
        found["n_regions"],
        found["error"],
        tuple(str(folder / output) for output in record.outputs),
        tuple(found.get("notes", ())),
        True,
        found.get("text_layer"),
    )


def _clear(writer: DocumentWriter) -> None:
    """Remove what a killed run left half-written in a document's folder."""
    writer.discard()
    for part in writer.folder.rglob("tmp*.part"):
        with suppress(OSError):
            part.unlink()
