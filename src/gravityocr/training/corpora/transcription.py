"""Transcribe the pending regions of region files through servers: streaming, resumable, with a status a region.

Each output shard has a journal beside it, which holds what the servers answered. When all pending regions of a shard
are answered, the shard is written: annotated regions as they were, pending ones with their transcripts. Truncated,
empty and failed ones are no targets: they are left out, and the report names them. A run that was killed goes on where
it stopped; a later run asks again only for what failed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from gravityocr.errors import InputError
from gravityocr.model.prompt import TASK_PROMPTS
from gravityocr.training.corpora.chat_servers import ChatServers, TranscriptionConfig, TranscriptStatus
from gravityocr.training.corpora.region_shards import LabelledRegion, RegionFile, write_regions
from gravityocr.training.corpora.shard_outputs import make_out, mirrored_files, side_file, write_json
from gravityocr.training.corpora.transcript_journal import TranscriptJournal

JOURNAL_SUFFIX = ".transcripts.jsonl"
REPORT_NAME = "transcription.json"
MOST_NAMED = 1000  # regions without a transcript that the report names; the journals name all
_READ_AHEAD = 16
_STATUSES = get_args(TranscriptStatus)


@dataclass
class Progress:
    """How far a run has come: `n_pending` regions in all shards, `n_kept` of them answered by earlier runs."""

    n_shards: int = 0
    n_shards_done: int = 0
    n_pending: int = 0
    n_kept: int = 0
    statuses: Counter[str] = field(default_factory=Counter)

    @property
    def n_answered(self) -> int:
        """Count the regions that this run has settled."""
        return self.statuses.total()


@dataclass
class _Shard:
    """A shard under way: `todo` are the numbers of the regions to ask for, `n_open` of them are being asked."""

    file: Path
    out: Path
    source: RegionFile
    origins: list[str]
    journal: TranscriptJournal
    todo: frozenset[int]
    n_open: int = 0
    is_read: bool = False

    def regions(self) -> Iterator[LabelledRegion]:
        """Yield what the output holds."""
        for number, region in enumerate(self.source):
            if region.target_origin != "pending":
                yield region
            elif (text := self.journal.text(number)) is not None:
                yield region.with_target(text, self.journal.settings["model"])


def transcribe_regions(
    folder: Path,
    out: Path,
    config: TranscriptionConfig,
    api_key: str | None = None,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> dict[str, Any]:
    """Transcribe all pending regions below a folder into shards of the same names below `out`; return the report.

    `tell` is called after each region and each shard. A shard that cannot be read is reported, and the others go on.

    *Raises*: InputError where there is no region file, or no server is left; ConfigError where `out` and the folder
    lie within one another, or nothing can be written to `out`.
    """
    files = mirrored_files(folder, out)
    make_out(out, out)
    report = asyncio.run(_Run(files, config, tell).transcribe(api_key))
    write_json(out / REPORT_NAME, report)
    return report


class _Run:
    def __init__(
        self, files: Mapping[Path, Path], config: TranscriptionConfig, tell: Callable[[Progress], None]
    ) -> None:
        self._files, self._config, self._tell = files, config, tell
        self._progress = Progress(len(files))
        self._reports: dict[Path, dict[str, Any]] = {}
        self._left_out: list[dict[str, Any]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: list[_Shard] = []

    async def transcribe(self, api_key: str | None) -> dict[str, Any]:
        """Work through all shards and return the report."""
        for file in self._files:
            self._count(file)
        async with ChatServers(self._config, api_key) as servers:
            try:
                for file, out in self._files.items():
                    if file not in self._reports:
                        await self._transcribe_shard(servers, file, out)
                while self._tasks:
                    await self._wait()
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                for shard in self._open:  # of shards that failed, or that the run did not get to the end of
                    shard.journal.close()
            return self._report(servers)

    def _count(self, file: Path) -> None:
        try:
            self._progress.n_pending += RegionFile(file).columns("target_origin")["target_origin"].count("pending")
        except InputError as error:
            self._fail(file, error)

    def _fail(self, file: Path, error: InputError) -> None:
        self._reports[file] = {"file": str(file), "status": "failed", "reason": str(error)}
        self._progress.n_shards_done += 1
        self._tell(self._progress)

    async def _transcribe_shard(self, servers: ChatServers, file: Path, out: Path) -> None:
        try:
            shard = self._open_shard(file, out)
        except InputError as error:
            self._fail(file, error)
            return
        self._open.append(shard)
        if not shard.todo and out.exists() and out.stat().st_mtime_ns >= file.stat().st_mtime_ns:
            self._close(shard, "kept")
            return
        out.unlink(missing_ok=True)  # it would pass for whole if this run were killed
        regions = iter(enumerate(shard.source)) if shard.todo else iter(())
        while True:
            try:
                some = await asyncio.to_thread(lambda: [*islice(regions, _READ_AHEAD)])
            except InputError as error:
                self._fail(file, error)
                return
            if not some:
                break
            for number, region in some:
                if number in shard.todo:
                    await self._start(servers, shard, number, region)
        shard.is_read = True
        if shard.n_open == 0:
            await self._finish(shard)

    def _open_shard(self, file: Path, out: Path) -> _Shard:
        source = RegionFile(file)
        columns = source.columns("region_id", "target_origin")
        settings = {
            "model": self._config.model, "max_tokens": self._config.max_tokens, "prompts": dict(TASK_PROMPTS),
        }  # fmt: skip
        journal = TranscriptJournal(side_file(out, JOURNAL_SUFFIX), columns["region_id"], settings)
        pending = [number for number, origin in enumerate(columns["target_origin"]) if origin == "pending"]
        todo = frozenset(number for number in pending if journal.needs(number))
        self._progress.n_kept += len(pending) - len(todo)
        return _Shard(file, out, source, columns["target_origin"], journal, todo)

    async def _start(self, servers: ChatServers, shard: _Shard, number: int, region: LabelledRegion) -> None:
        """Ask for a region as soon as fewer are being asked than the configuration admits."""
        while len(self._tasks) >= self._config.concurrency:
            await self._wait()
        shard.n_open += 1
        self._tasks.add(asyncio.create_task(self._ask(servers, shard, number, region)))

    async def _wait(self) -> None:
        """Wait for one of the tasks; what it raised is raised here."""
        done, self._tasks = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        errors = [error for task in done if (error := task.exception()) is not None]  # asks all: none stays unheard
        for error in errors:
            raise error

    async def _ask(self, servers: ChatServers, shard: _Shard, number: int, region: LabelledRegion) -> None:
        transcript = await servers.transcribe(region.image, region.task)
        shard.journal.append(number, transcript)
        shard.n_open -= 1
        self._progress.statuses[transcript.status] += 1
        self._tell(self._progress)
        if shard.is_read and shard.n_open == 0:
            await self._finish(shard)

    async def _finish(self, shard: _Shard) -> None:
        try:
            await asyncio.to_thread(lambda: write_regions(shard.out, shard.regions()))
        except InputError as error:
            self._fail(shard.file, error)
        else:
            self._close(shard, "written")

    def _close(self, shard: _Shard, status: str) -> None:
        n_pending = shard.origins.count("pending")
        self._reports[shard.file] = {
            "file": str(shard.file), "status": status, "n_regions": len(shard.source),
            "n_passed_through": len(shard.source) - n_pending, **dict.fromkeys(_STATUSES, 0),
            **shard.journal.counts(),
        }  # fmt: skip
        room = MOST_NAMED - len(self._left_out)
        self._left_out += [{"file": str(shard.file), **row} for row in islice(shard.journal.left_out(), room)]
        shard.journal.close()
        self._open.remove(shard)
        self._progress.n_shards_done += 1
        self._tell(self._progress)

    def _report(self, servers: ChatServers) -> dict[str, Any]:
        shards = [self._reports[file] for file in self._files]
        totals = {
            key: sum(shard.get(key, 0) for shard in shards) for key in ("n_regions", "n_passed_through", *_STATUSES)
        }
        return {
            "model": self._config.model, "servers": servers.turns.report(), **totals,
            "n_answered_by_earlier_runs": self._progress.n_kept,
            "n_shards": len(shards), "n_shards_failed": sum(shard["status"] == "failed" for shard in shards),
            "left_out": self._left_out, "shards": shards,
        }  # fmt: skip
