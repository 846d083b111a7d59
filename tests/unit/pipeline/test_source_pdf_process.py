"""PDFs that take PDFium down cost their pages, neither the file nor the run; its process ends with ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.unit.pipeline.test_source_pdf import BOX, CATALOG, pdf, stream

from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.source import SourceConfig, SourcePage, count_pages, iter_pages
from gravityocr.pipeline.sources import pdf_process
from gravityocr.pipeline.sources.pdf_process import PdfProcess, child_pid

SHORT = SourceConfig(dpi=72, page_timeout_s=1.0)
DOTS = SourceConfig(dpi=72)
posix = pytest.mark.skipif(os.name != "posix", reason="signals and /proc are those of POSIX")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited on Linux only")

_FORM = b"/Type /XObject /Subtype /Form /BBox [0 0 200 300]"


def forms(*pages: str, n_levels: int = 9) -> bytes:
    """Pages that are "good", or a "bomb" of forms in forms, 10^n_levels squares to draw in 2 kB."""
    first_form = 4 + len(pages)
    entries = BOX + b" /Resources << /XObject << /X %d 0 R >> >>" % first_form
    drawn = {"good": b"0 g 50 170 10 10 re f", "bomb": b"/X Do " * 10}
    objects = [CATALOG, b"", stream(b"")]
    objects += [
        b"<< /Type /Page /Parent 2 0 R /Contents %d 0 R %s >>" % (first_form + n_levels + k, entries)
        for k in range(len(pages))
    ]
    for level in range(n_levels):
        inner = b" /Resources << /XObject << /X %d 0 R >> >>" % (first_form + level + 1)
        is_last = level == n_levels - 1
        objects.append(stream(b"1 1 9 9 re f" if is_last else drawn["bomb"], _FORM + (b"" if is_last else inner)))
    objects += [stream(drawn[page]) for page in pages]
    kids = b" ".join(b"%d 0 R" % (4 + k) for k in range(len(pages)))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages))
    return pdf(objects)


def spaces(n_mb: int) -> bytes:
    """A page whose description inflates to so many megabytes of nothing, and a good one."""
    deflate = zlib.compressobj(1)
    content = b"".join(deflate.compress(b" " * (1 << 20)) for _ in range(n_mb)) + deflate.flush()
    pages = [b"<< /Type /Page /Parent 2 0 R /Contents %d 0 R %s >>" % (3 + 2 * k, BOX) for k in range(2)]
    tree = b"<< /Type /Pages /Kids [4 0 R 6 0 R] /Count 2 >>"
    bomb = stream(content, b"/Filter /FlateDecode")
    return pdf([CATALOG, tree, bomb, pages[0], stream(b"0 g 50 170 10 10 re f"), pages[1]])


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def dots(page: SourcePage) -> int:
    assert page.error is None and page.image is not None
    return int((np.asarray(page.image.convert("L")) < 100).sum())


def wait_until_gone(pid: int, limit_s: float = 10.0) -> None:
    """Wait for the end of a process; one that nobody has reaped is at its end, too."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")


def test_a_page_that_takes_too_long_fails_by_name_and_the_next_one_is_read(tmp_path: Path) -> None:
    bomb = written(tmp_path / "bomb.pdf", forms("good", "bomb", "good"))
    started = time.monotonic()
    pages = list(iter_pages(bomb, config=SHORT))
    assert [page.image is not None for page in pages] == [True, False, True]
    assert pages[1].error is not None
    assert pages[1].error.startswith("page 2 took more than 1 s to render; print it to a new PDF")
    assert "page_timeout_s" in pages[1].error
    assert [dots(pages[k]) for k in (0, 2)] == [100, 100]
    assert dots(next(iter(iter_pages(written(tmp_path / "good.pdf", forms("good")), config=SHORT)))) == 100
    assert time.monotonic() - started < 20


@linux
def test_a_page_that_takes_too_much_memory_fails_by_name(tmp_path: Path) -> None:
    path = written(tmp_path / "bomb.pdf", spaces(300))
    bad, good = iter_pages(path, config=SourceConfig(dpi=72, pdf_memory_mb=256))
    assert bad.image is None and bad.error is not None and dots(good) == 100
    assert bad.error.startswith("page 1 ") and "more than 256 MB to render; print it to a new PDF" in bad.error
    assert "pdf_memory_mb" in bad.error
    assert [page.error for page in iter_pages(path, config=DOTS)] == [None, None]  # what it takes is there again


def test_a_file_ends_behind_three_such_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[SourcePage] = []
    with pytest.raises(InputError, match=r"bomb\.pdf: 3 pages went over a limit, and the rest is left out; print"):
        for page in iter_pages(written(tmp_path / "bomb.pdf", forms("bomb", "bomb", "bomb", "good")), config=SHORT):
            pages.append(page)
    assert [page.index for page in pages if page.error and "page_timeout_s" in page.error] == [0, 1, 2]
    monkeypatch.setattr(pdf_process, "_MAX_LOST", 1)
    good, bad = iter_pages(written(tmp_path / "two.pdf", forms("good", "bomb")), config=SHORT)
    assert (good.error is None, bad.error is None) == (True, False)  # nothing is left out, so nothing is said of it


@posix
def test_a_child_that_dies_between_pages_is_replaced(tmp_path: Path) -> None:
    pages = iter_pages(written(tmp_path / "a.pdf", forms("good", "good", "good")), config=DOTS)
    for _ in range(3):
        assert dots(next(pages)) == 100
        pid = child_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    assert count_pages(tmp_path / "a.pdf") == 3 and child_pid() != pid


@posix
def test_what_dies_after_other_pages_is_tried_once_more_in_a_fresh_child(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(forms("good", "bomb", n_levels=5))
    pages = iter_pages(tmp_path / "a.pdf", config=SourceConfig(dpi=72, page_timeout_s=100))
    next(pages)
    pid = child_pid()
    assert pid is not None
    threading.Timer(0.05, os.kill, (pid, signal.SIGKILL)).start()  # page 2 takes several times that
    page = next(pages)
    assert page.error is None and page.image is not None and child_pid() != pid


@posix
@pytest.mark.parametrize("signum", [signal.SIGALRM, signal.SIGTERM])
def test_rendering_can_be_interrupted(tmp_path: Path, signum: signal.Signals) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    bomb = written(tmp_path / "bomb.pdf", forms("bomb"))
    count_pages(bomb)
    before = signal.signal(signum, stop)
    started = time.monotonic()
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signum)).start()
        with pytest.raises(KeyboardInterrupt):
            list(iter_pages(bomb, config=DOTS))
    finally:
        signal.signal(signum, before)
    assert time.monotonic() - started < 10
    assert child_pid() is None  # half an answer may be in its pipe
    assert dots(next(iter(iter_pages(written(tmp_path / "a.pdf", forms("good")), config=DOTS)))) == 100


def test_files_share_the_child_across_threads_and_in_turns(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"{n}.pdf", forms(*["good"] * n)) for n in range(1, 5)]
    found: dict[Path, list[int]] = {}

    def work(path: Path) -> None:
        found[path] = [dots(page) for page in iter_pages(path, config=DOTS)]

    threads = [threading.Thread(target=work, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[path] for path in paths] == [[100] * n for n in range(1, 5)]
    pid = child_pid()
    first, second = (iter_pages(path, config=DOTS) for path in paths[2:])
    assert [dots(next(pages)) for pages in (first, second, first, second, first, second)] == [100] * 6
    assert child_pid() == pid


def test_closing_never_waits_for_the_child(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pdf", forms("good"))
    file = PdfProcess(path, "a.pdf", None, 72, 10_000_000, False)
    with pdf_process._shared.lock:  # as a finalizer that runs while its own thread waits for a page
        file.close()
    assert count_pages(path) == 1


def test_paths_are_those_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count_pages(written(tmp_path / "a.pdf", forms("good")))
    (tmp_path / "sub").mkdir()
    written(tmp_path / "sub" / "b.pdf", forms("good", "good"))
    monkeypatch.chdir(tmp_path / "sub")  # the child is where it was started
    assert count_pages("b.pdf") == 2
    odd = os.fsdecode(os.fsencode(str(tmp_path)) + b"/\xff\xe4.pdf")
    try:
        Path(odd).write_bytes(forms("good"))
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    assert dots(next(iter(iter_pages(odd, config=DOTS)))) == 100


SCRIPT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from gravityocr.pipeline.source import SourceConfig, iter_pages
from gravityocr.pipeline.sources.pdf_process import child_pid
pages = iter_pages(sys.argv[2], config=SourceConfig(dpi=72, password="open-sesame"))
next(pages)
print(child_pid(), flush=True)
"""


@contextmanager
def script(more: str, path: Path, repo_root: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a program without any guard that has read a first page; give it and the id of its child."""
    command = [sys.executable, "-c", SCRIPT + more, str(repo_root / "src"), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield running, int(running.stdout.readline())
        finally:
            running.kill()


@linux
def test_the_child_ends_with_a_parent_that_is_killed_even_at_work(tmp_path: Path, repo_root: Path) -> None:
    bomb = written(tmp_path / "a.pdf", forms("good", "bomb"))
    with script("next(pages)", bomb, repo_root) as (running, pid):
        shown = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        assert b"pdf_child" in shown and b"sesame" not in shown
        time.sleep(0.3)
        running.kill()
        wait_until_gone(pid)


@linux
def test_the_child_ends_with_a_parent_that_ends(tmp_path: Path, repo_root: Path) -> None:
    with script("", written(tmp_path / "a.pdf", forms("good", "good")), repo_root) as (running, pid):
        assert running.wait(20) == 0
        wait_until_gone(pid, 0.5)


@posix
def test_a_forked_process_has_a_child_of_its_own(tmp_path: Path, repo_root: Path) -> None:
    more = """
forked = os.fork()
mine = child_pid()
left = [page.error for page in pages]
assert left == [None, None], left
if forked == 0:
    assert child_pid() != mine
else:
    assert child_pid() == mine
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]))
"""
    with script(more, written(tmp_path / "a.pdf", forms("good", "good", "good")), repo_root) as (running, _):
        assert running.wait(20) == 0


def test_a_child_that_cannot_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.pdf", forms("good"))
    monkeypatch.setattr(pdf_process, "_shared", pdf_process._Shared())
    for program in (str(tmp_path / "none"), "/bin/false"):
        monkeypatch.setattr(sys, "executable", program)
        with pytest.raises(InputError, match=r"a second process, which (cannot be started|did not start) \("):
            count_pages(path)


@pytest.mark.parametrize(
    ("name", "value"), [("page_timeout_s", 0.0), ("page_timeout_s", float("nan")), ("pdf_memory_mb", 16)]
)
def test_limits_are_checked(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"source.{name} is .*choose"):
        SourceConfig(**{name: value})  # type: ignore[arg-type]
