"""What a run says on stderr: a table that lives on a terminal, lines anywhere else, and a summary at the end."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from gravityocr.commands.parse_progress import Progress
from gravityocr.document import Box, Page, Region
from gravityocr.pipeline.runs import FileReport
from gravityocr.pipeline.text_check import TextCheckConfig

BOX = Box(0, 0, 10, 10)


def read_page(index: int, ned: float | None = None, n_skipped: int = 0) -> Page:
    regions = tuple(
        Region(k, "text", "text", "text", BOX, "x", "skipped" if k < n_skipped else "ok", n_tokens=10, n_forwards=4)
        for k in range(2)
    )
    return Page(index, (100, 100), regions, seconds={"render": 0.5, "recognize": 1.0}, text_layer_ned=ned)


def layer(n_compared: int, *pages: int) -> dict[str, Any]:
    return {"n_compared": n_compared, "disagreeing_pages": list(pages)}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


Make = Callable[..., tuple[Progress, io.StringIO, Clock]]


@pytest.fixture
def make() -> Make:
    def make(terminal: bool = False, n_files: int = 2, n_pages: int = 0) -> tuple[Progress, io.StringIO, Clock]:
        stream, clock = io.StringIO(), Clock()
        console = Console(file=stream, force_terminal=terminal, width=160, highlight=False, color_system=None)
        return Progress(console, n_files, n_pages, TextCheckConfig(), clock), stream, clock

    return make


def drawn(progress: Progress) -> str:
    stream = io.StringIO()
    Console(file=stream, width=100, color_system=None).print(progress.table())
    return stream.getvalue()


def test_the_table_counts_pages_regions_tokens_tpf_and_what_is_left(make: Make) -> None:
    progress, _, clock = make(terminal=True, n_files=3, n_pages=8)
    clock.now = 10.0  # it took so long to load the checkpoint
    progress.opened("a.pdf", 4)
    progress.page("a.pdf", read_page(0), 18)
    progress.page("a.pdf", read_page(1), 18)
    progress.finished(FileReport("bad.pdf", "failed", error="bad.pdf: is broken"))
    clock.now = 40.0
    titles, row, *under_way = drawn(progress).splitlines()
    assert titles.split() == ["pages", "regions", "tokens", "TPF", "elapsed", "ETA", "files", "failed"]
    assert row.split() == ["2/8", "4", "40", "2.25", "40.0", "s", "1:30", "1/3", "1"]
    assert [line.strip() for line in under_way] == ["a.pdf: page 3 of 4"]


def test_the_table_is_drawn_on_a_terminal_only(make: Make) -> None:
    for terminal in (True, False):
        progress, stream, _ = make(terminal)
        with progress:
            progress.opened("a.pdf", 1)
            progress.page("a.pdf", read_page(0), 18)
            progress.finished(FileReport("a.pdf", "ok", outputs=("out/a/a.md", "out/a/a.json")))
        lines = stream.getvalue()
        assert ("elapsed" in lines) is terminal
        assert ("a.pdf: page 1, 2 regions, ok, 1.5 s" in lines) is not terminal
        assert ("[1/2] a.pdf -> out/a (2 files)" in lines) is not terminal


def test_failures_notes_and_disagreeing_pages_are_told_in_both(make: Make) -> None:
    for terminal in (True, False):
        progress, stream, _ = make(terminal)
        with progress:
            progress.page("a.pdf", read_page(4, ned=0.4, n_skipped=1), 18)
            progress.finished(FileReport("a.pdf", "ok", notes=("has 3 page(s)",)))
            progress.finished(FileReport("b.pdf", "partial", error="page 1: 1 of 2 regions failed"))
        lines = stream.getvalue()
        assert "page 5: what was read and the text layer differ by 0.40" in lines
        assert "a.pdf: note: has 3 page(s)" in lines
        assert "b.pdf: partial: page 1: 1 of 2 regions failed" in lines


def test_the_summary_counts_and_tells_where_the_output_is(make: Make) -> None:
    progress, stream, clock = make()
    reports = [
        FileReport("a.pdf", "ok", 1, 2, outputs=("out/a/a.md",), notes=("x",), text_layer=layer(4, 2, 3)),
        FileReport("b.pdf", "failed", error="b.pdf: is empty"),
        FileReport("c.pdf", "ok", resumed=True),
        FileReport("d.pdf", "skipped", error="not run"),
    ]
    progress.page("a.pdf", read_page(0), 18)
    for report in reports:
        progress.finished(report)
    clock.now = 3725.0
    stream.truncate(0)
    progress.summarize(reports, "out")
    assert stream.getvalue().lstrip("\0").splitlines() == [
        "4 inputs: 1 ok, 1 failed, 1 resumed, 1 skipped; 1 page, 2 regions, 20 tokens, TPF 2.25, 1 note, 1:02:05",
        "text layer: 4 pages compared, 2 differ (a.pdf: 2, 3)",
        "the output is in out",
    ]


def test_failures_that_are_long_gone_are_told_once_more(make: Make) -> None:
    progress, stream, _ = make(n_files=2)
    failed = FileReport("b.pdf", "failed", error="b.pdf: is empty")
    progress.finished(failed)
    for index in range(11):
        progress.page("a.pdf", read_page(index), 18)
    stream.truncate(0)
    progress.summarize([failed, FileReport("d.pdf", "skipped", error="not run")])
    told = stream.getvalue().lstrip("\0").splitlines()
    assert told[1:] == ["  failed: b.pdf: is empty", "  d.pdf: skipped: not run"]


def test_what_was_told_early_is_not_told_at_its_turn(make: Make) -> None:
    progress, stream, _ = make()
    progress.unreadable("b.pdf", "b.pdf: is empty")
    progress.finished(FileReport("b.pdf", "failed", error="b.pdf: is empty"))
    progress.finished(FileReport("c.pdf", "failed", error="c.pdf: is torn"))
    assert stream.getvalue().splitlines() == ["failed: b.pdf: is empty", "[2/2] failed: c.pdf: is torn"]


def test_names_cannot_act_on_the_terminal(make: Make) -> None:
    name = "a\x1b[2J\x07\x9b\n\u202e.pdf"
    for terminal in (True, False):
        progress, stream, _ = make(terminal)
        progress.opened(name, 2)
        table = drawn(progress)
        progress.page(name, read_page(0, ned=0.4), 1)
        progress.note(name)
        progress.unreadable(name, f"{name}: is empty")
        progress.finished(FileReport(name, "ok", notes=(name,), outputs=(f"out/{name}/a.md",)))
        progress.summarize([FileReport(name, "ok", outputs=(name,))], name)
        lines = stream.getvalue() + table
        assert r"a\x1b[2J\x07\x9b\n\u202e.pdf" in lines
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(lines.replace("\x1b[33m", "").replace("\x1b[0m", ""))


def test_names_with_brackets_are_no_markup(make: Make) -> None:
    progress, stream, _ = make()
    progress.page("[bold]a[/bold].pdf", read_page(0), 1)
    assert "[bold]a[/bold].pdf: page 1" in stream.getvalue()
