"""How a run of `parse` is told on stderr: a live table on a terminal, a line a page anywhere else."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gravityocr.commands.streams import visible
from gravityocr.document import Page
from gravityocr.pipeline.runs import FileReport
from gravityocr.pipeline.text_check import TextCheckConfig

_REFRESH_PER_S = 4
_SHOWN_FILES = 4
_DONE_STATUS = ("ok", "partial", "failed")
_MANY_LINES = 10  # behind which failures are told once more


@dataclass
class _Counts:
    """What is done so far. *Units*: `n_decoded` tokens of `n_forwards` forwards, as TPF counts them."""

    n_pages: int = 0
    n_regions: int = 0
    n_tokens: int = 0
    n_decoded: int = 0
    n_forwards: int = 0
    files: Counter[str] = field(default_factory=Counter)

    def add(self, page: Page, n_decoded: int) -> None:
        self.n_pages += 1
        self.n_regions += len(page.regions)
        self.n_tokens += sum(region.n_tokens for region in page.regions)
        self.n_forwards += sum(region.n_forwards for region in page.regions)
        self.n_decoded += n_decoded

    @property
    def tpf(self) -> float | None:
        return self.n_decoded / self.n_forwards if self.n_forwards else None


class Progress:
    """Tells of a run as it goes, and sums it up at its end. It is a `RunListener` and a context.

    `n_files` are to be done, `n_pages` of them are known to be read (0 where none is known yet). Names are printed with
    their control characters escaped.
    """

    def __init__(self, console: Console, n_files: int, n_pages: int, text_check: TextCheckConfig,
                 clock: Callable[[], float] = time.monotonic) -> None:  # fmt: skip
        self._console = console
        self._n_lines, self._first_failure = 0, 0  # lines printed, and how many there were before a failure
        self._told: set[str] = set()  # failures that were told before the inputs' turns
        self.n_files, self._n_pages, self._text_check, self._clock = n_files, n_pages, text_check, clock
        self._started = clock()
        self._reading_since: float | None = None  # loading does not count for what is left
        self._counts = _Counts()
        self._open: dict[str, list[int]] = {}  # pages done and to come of what is under way
        self._guard = threading.Lock()  # `opened` comes from another thread, and so does the drawing
        self._live = Live(
            get_renderable=self.table, console=console, refresh_per_second=_REFRESH_PER_S, transient=True
        ) if console.is_terminal else None  # fmt: skip

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def is_live(self) -> bool:
        """Tell whether a table is drawn, in which the number of pages to come is of use."""
        return self._live is not None

    def expect(self, n_pages: int) -> None:
        """Hear how many pages will be read."""
        with self._guard:
            self._n_pages = n_pages

    def note(self, line: str) -> None:
        """Print a line that is not about one input's content."""
        self._say(line, "yellow")

    def unreadable(self, name: str, error: str) -> None:
        """Tell early of an input that cannot be read; its turn comes later all the same."""
        line = failure_line(FileReport(name, "failed", error=error))
        self._told.add(line)
        self._failure(line, is_failure=True)

    def opened(self, name: str, n_pages: int) -> None:
        """Note how many pages an input has."""
        with self._guard:
            self._open[name] = [0, n_pages]
            self._reading_since = self._reading_since or self._clock()

    def page(self, name: str, page: Page, n_decoded: int) -> None:
        """Count a page, and print its line where there is no table."""
        with self._guard:
            self._counts.add(page, n_decoded)
            self._open.setdefault(name, [0, 1])[0] += 1
        if self._live is None:
            self._say(page_line(name, page))
        note = self._text_check.note(page)
        if note is not None:
            self._say(f"{name}: {note}", "yellow")

    def finished(self, report: FileReport) -> None:
        """Count an input, and print what it became."""
        with self._guard:
            self._open.pop(report.file, None)
            self._counts.files["resumed" if report.resumed else report.status] += 1
            place = f"[{sum(self._counts.files.values())}/{self.n_files}] "
        if report.resumed:
            self._say(f"{place}{report.file}: {report.status}, finished by an earlier run")
            return
        if report.status != "ok" and failure_line(report) not in self._told:
            self._failure(f"{place}{failure_line(report)}", report.is_failure)
        for note in report.notes:
            self._say(f"{report.file}: note: {note}", "yellow")
        if report.outputs and self._live is None:
            n_files = counted(len(report.outputs), "file")
            self._say(f"{place}{report.file} -> {_folder_of(report.outputs)} ({n_files})")

    def summarize(self, reports: Sequence[FileReport], out: str | None = None) -> None:
        """Print what became of all inputs and where it is; failures that are long gone are told once more."""
        counts = self._counts
        files = [f"{n} {status}" for status in (*_DONE_STATUS, "resumed", "skipped") if (n := counts.files[status])]
        parts = [counted(counts.n_pages, "page"), counted(counts.n_regions, "region")]
        if counts.tpf is not None:
            parts += [counted(counts.n_tokens, "token"), f"TPF {counts.tpf:.2f}"]
        n_notes = sum(len(report.notes) for report in reports if not report.resumed)
        parts += [counted(n_notes, "note")] if n_notes else []
        parts.append(_duration(self._clock() - self._started))
        is_long_ago = self._n_lines - self._first_failure > _MANY_LINES and self._first_failure > 0
        self._say(f"{counted(len(reports), 'input')}: {', '.join(files)}; {', '.join(parts)}")
        for report in reports if is_long_ago else ():
            if report.status != "ok":
                self._say(f"  {failure_line(report)}", "red" if report.is_failure else "yellow")
        if any(report.text_layer is not None for report in reports):
            self._say(text_layer_line(reports))
        if out is not None and any(report.outputs for report in reports):
            self._say(f"the output is in {out}")

    def table(self) -> RenderableType:
        """Return the live table as it is now."""
        with self._guard:
            counts, under_way = self._counts, {name: tuple(pages) for name, pages in self._open.items()}
            n_failed = counts.files["failed"] + counts.files["partial"]
            n_files = sum(counts.files.values())
            n_pages = max(self._n_pages, counts.n_pages)
            elapsed = self._clock() - self._started
            cells = (
                f"{counts.n_pages}/{n_pages}" if n_pages else f"{counts.n_pages}",
                f"{counts.n_regions}",
                f"{counts.n_tokens}",
                "-" if counts.tpf is None else f"{counts.tpf:.2f}",
                _duration(elapsed),
                self._eta(counts.n_pages, n_pages),
                f"{n_files}/{self.n_files}",
                f"{n_failed}",
            )
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for title in ("pages", "regions", "tokens", "TPF", "elapsed", "ETA", "files", "failed"):
            table.add_column(title, justify="right", style="red" if title == "failed" and n_failed else None)
        table.add_row(*cells)
        lines = [
            Text(f"{visible(name)}: page {min(done + 1, n)} of {n}", overflow="ellipsis", no_wrap=True)
            for name, (done, n) in list(under_way.items())[:_SHOWN_FILES]
        ]
        return Group(table, *lines)

    def _eta(self, n_done: int, n_pages: int) -> str:
        if self._reading_since is None or not n_done or n_pages <= n_done:
            return "-"
        return _duration((self._clock() - self._reading_since) / n_done * (n_pages - n_done))

    def _failure(self, line: str, is_failure: bool) -> None:
        self._first_failure = self._first_failure or self._n_lines + 1
        self._say(line, "red" if is_failure else "yellow")

    def _say(self, line: str, style: str | None = None) -> None:
        self._n_lines += 1
        self._console.print(visible(line), style=style, markup=False)


def page_line(name: str, page: Page) -> str:
    """Return the line that tells of a page."""
    seconds = sum(page.seconds.values())
    unread = sum(region.status == "skipped" for region in page.regions)
    note = f" ({unread} kept as {'a picture' if unread == 1 else 'pictures'})" if unread else ""
    regions = counted(len(page.regions), "region")
    return f"{name}: page {page.index + 1}, {regions}{note}, {page.status}, {seconds:.1f} s"


def failure_line(report: FileReport) -> str:
    """Return the line that tells why an input is not ok."""
    where = "" if str(report.error).startswith(report.file) else f"{report.file}: "
    return f"{where}{report.status}: {report.error}"


def text_layer_line(reports: Sequence[FileReport]) -> str:
    """Return the line that sums up what was compared with text layers."""
    found = [(report.file, report.text_layer) for report in reports if report.text_layer is not None]
    n_compared = sum(one["n_compared"] for _, one in found)
    n_differing = sum(len(one["disagreeing_pages"]) for _, one in found)
    named = [
        f"{file}: {', '.join(map(str, one['disagreeing_pages']))}" for file, one in found if one["disagreeing_pages"]
    ]
    where = f" ({'; '.join(named)})" if named else ""
    differ = "differs" if n_differing == 1 else "differ"
    return f"text layer: {counted(n_compared, 'page')} compared, {n_differing} {differ}{where}"


def counted(n: int, noun: str) -> str:
    """Return a number with its noun, as in `1 page` and `2 pages`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _folder_of(outputs: Sequence[str]) -> str:
    """Return the folder that holds all of a document's files."""
    return os.path.commonpath([Path(output).parent for output in outputs])


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}" if minutes else f"{seconds:.1f} s"
