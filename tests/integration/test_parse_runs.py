"""Runs of `gravityocr parse` as processes: many inputs, workers, servers, signals, kills, and going on afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from benchmarks.born_digital import Column, Sheet, write_pdf
from PIL import Image
from tests.chat_double import ChatDouble, Reply, completion
from tests.unit.pipeline.scripted import draw_lines

from gravityocr.pipeline.manifest import MANIFEST_NAME

MODELS = Reply(body=json.dumps({"data": [{"id": "glm-ocr"}]}).encode())


def page(path: Path, lines: int = 1) -> Path:
    image = Image.new("RGB", (400, 300), "white")
    draw_lines(image, (40, 40, 360, 60 + 20 * lines))
    image.save(path, "PNG")
    return path


def born(path: Path, *texts: str) -> Path:
    """Write a PDF of one page a text."""
    sheets = []
    for text in texts:
        column = Column(40, 220, 300, 20)
        column.paragraph(text, "Times-Roman", 14)
        sheets.append(Sheet(tuple(column.lines), tuple(column.rules), media_box=(0, 0, 380, 320)))
    path.write_bytes(write_pdf(sheets))
    return path


class Started:
    """A running `gravityocr parse`."""

    def __init__(self, repo_root: Path, *arguments: object, importtime: bool = False) -> None:
        flags = ["-X", "importtime"] if importtime else []
        self.process = subprocess.Popen(
            [sys.executable, *flags, "-m", "gravityocr", "parse", *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=repo_root,
            env=os.environ | {"PYTHONPATH": str(repo_root / "src"), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    def until(self, text: str) -> None:
        """Read stderr up to a line that holds `text`."""
        assert self.process.stderr is not None
        while text not in (line := self.process.stderr.readline()):
            assert line, f"it ended without {text!r}"

    def end(self) -> tuple[int, str, str]:
        """Return the exit code, stdout and what is left of stderr."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def children(self) -> list[psutil.Process]:
        """Return the processes that read."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        return [one for one in found if "spawn_main" in " ".join(one.cmdline())]


@pytest.fixture
def started(repo_root: Path) -> Iterator[Any]:
    """Give a function that starts `gravityocr parse`; what still runs is killed at the end."""
    runs: list[Started] = []

    def start(*arguments: object, **more: bool) -> Started:
        runs.append(Started(repo_root, *arguments, **more))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.communicate()


def corrupted(folder: Path) -> list[Path]:
    """Write a dozen inputs that cannot be read, each in its own way."""
    whole = page(folder / "whole.png").read_bytes()
    (folder / "whole.png").unlink()
    pdf = born(folder / "whole.pdf", "words").read_bytes()
    (folder / "whole.pdf").unlink()
    contents = {
        "empty.pdf": b"",
        "page.pdf": b"<!doctype html><html><body>not a document</body></html>",
        "header-only.pdf": b"%PDF-1.7\n",
        "cut.pdf": pdf[: len(pdf) // 3],
        "no-pages.pdf": b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%EOF\n",
        "cut.png": whole[: len(whole) // 2],
        "signature.png": whole[:8],
        "text.png": b"plain words that say they are a picture",
        "cut.jpg": b"\xff\xd8\xff\xe0\x00\x10JFIF\x00",
        "cut.tif": b"II*\0\x08\0\0\0\x01\0\0\x01\x07\0",
        "cut.webp": b"RIFF\x10\0\0\0WEBPVP8 ",
        "zip.pdf": b"PK\x03\x04 an office document",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


def test_a_dozen_bad_inputs_and_three_good_ones(tmp_path: Path, started: Any) -> None:
    bad = corrupted(tmp_path)
    good = [born(tmp_path / f"good{number}.pdf", f"These are the words of number {number}.") for number in range(3)]
    mixed = [path for group in zip(bad[::4], bad[1::4], bad[2::4], bad[3::4], good, strict=True) for path in group]
    code, out, err = started(*mixed, "-o", tmp_path / "out", "--json").end()
    report = json.loads(out)
    assert code == 1 and report["n_failed"] == 12
    statuses = {file["file"]: file for file in report["files"]}
    assert list(statuses) == [str(path) for path in mixed]
    for path in bad:
        assert statuses[str(path)]["status"] == "failed" and path.name in statuses[str(path)]["error"]
        assert path.name in err.rpartition("inputs:")[2]  # the closing summary names it
    for number, path in enumerate(good):
        assert statuses[str(path)]["status"] == "ok" and statuses[str(path)]["n_pages"] == 1
        assert f"words of number {number}" in (tmp_path / f"out/good{number}/good{number}.md").read_text("utf-8")
    assert "Traceback" not in err


def content_of(path: Path) -> list[Any]:
    """Return what the JSON of a document says was read; seconds and forwards depend on the machine."""
    found = json.loads(path.read_text("utf-8"))
    keys = ("label", "bbox_px", "content", "status", "text_layer", "n_tokens")
    return [[{key: region[key] for key in keys} for region in one["regions"]] for one in found["pages"]]


def test_workers_change_nothing_but_the_time(tmp_path: Path, started: Any) -> None:
    texts = [f"Page {number} holds words that are its own." for number in range(2)]
    files = [born(tmp_path / "a.pdf", *texts), born(tmp_path / "b.pdf", *texts[::-1])]
    one = started(*files, "-o", tmp_path / "one", "--workers", "1", "--json").end()
    two = started(*files, "-o", tmp_path / "two", "--workers", "2", "--json").end()
    assert (one[0], two[0]) == (0, 0), one[2] + two[2]
    for name in ("a", "b"):
        first, second = (tmp_path / folder / name for folder in ("one", "two"))
        assert (first / f"{name}.md").read_bytes() == (second / f"{name}.md").read_bytes()
        assert content_of(first / f"{name}.json") == content_of(second / f"{name}.json")
    strip = [[{**file, "outputs": None} for file in json.loads(run[1])["files"]] for run in (one, two)]
    assert strip[0] == strip[1]


@pytest.mark.slow
def test_a_killed_worker_costs_its_page_and_an_interrupt_leaves_a_run_to_go_on_with(
    tmp_path: Path, started: Any
) -> None:
    files = [born(tmp_path / f"{name}.pdf", *["a page of some words"] * 2) for name in "abcdefgh"]
    command = (*files, "-o", tmp_path / "out", "--workers", "2")
    run = started(*command)
    run.until("a.pdf: page 1")
    workers = run.children()
    assert len(workers) == 2
    workers[0].kill()
    run.until("d.pdf: page 1")
    replaced = run.children()
    assert len(replaced) == 2 and workers[0].pid not in [one.pid for one in replaced]
    stopped = time.monotonic()
    run.process.send_signal(signal.SIGINT)
    code, _, err = run.end()
    assert time.monotonic() - stopped < 10
    assert code == 130 and "stopped by SIGINT" in err and "--resume" in err and "Traceback" not in err
    assert psutil.wait_procs(replaced, timeout=5)[1] == []
    outputs = sorted((tmp_path / "out").rglob("*.md"))
    assert outputs and len(outputs) < len(files) and not list((tmp_path / "out").rglob("*.part"))
    before = {path: path.stat().st_mtime_ns for path in outputs}
    code, out, _ = started(*command, "--resume", "--json").end()
    report = json.loads(out)
    resumed = [file for file in report["files"] if file["resumed"]]
    assert code == 0 and report["n_failed"] == 0 and len(resumed) >= 2  # of a, b and c, one had lost a page
    assert all(Path(file["outputs"][0]).stat().st_mtime_ns == before[Path(file["outputs"][0])] for file in resumed)
    assert len(list((tmp_path / "out").rglob("*.md"))) == len(files)


@pytest.fixture
def slow_server() -> Iterator[ChatDouble]:
    """Serve answers of a fifth of a second each."""

    def answer(request: dict[str, Any], number: int) -> Reply:
        return Reply(body=completion("# Words\n\nand **more** of them").body, wait_s=0.2)

    with ChatDouble(answer, models=MODELS) as double:
        yield double


def through(server: ChatDouble) -> Sequence[object]:
    return ("--server", server.url, "--layout", "none")


def test_a_server_reads_and_torch_stays_out(tmp_path: Path, started: Any, slow_server: ChatDouble) -> None:
    path = page(tmp_path / "a.png")
    code, out, err = started(path, "-o", tmp_path / "out", *through(slow_server), "--json", importtime=True).end()
    assert code == 0, err
    assert json.loads(out)["files"][0]["status"] == "ok"
    assert (tmp_path / "out/a/a.md").read_text() == "# Words\n\nand **more** of them\n"
    imported = {line.rpartition("|")[2].strip() for line in err.splitlines() if line.startswith("import time:")}
    assert "gravityocr.pipeline.convert" in imported and not imported & {"torch", "transformers", "cv2"}


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_at_once_and_what_is_finished_stays(
    tmp_path: Path, started: Any, slow_server: ChatDouble, signum: signal.Signals, code: int
) -> None:
    files = [page(tmp_path / f"{number:02d}.png", number % 5) for number in range(24)]
    command = (*files, "-o", tmp_path / "out", *through(slow_server), "--set", "server.n_parallel=2", "--json")
    run = started(*command)
    run.until(" -> ")
    stopped = time.monotonic()
    run.process.send_signal(signum)
    found, out, err = run.end()
    assert time.monotonic() - stopped < 4
    assert (found, out) == (code, "") and f"stopped by {signum.name}" in err and "Traceback" not in err
    assert "interrupted" not in err  # it is told once
    n_done = len(list((tmp_path / "out").rglob("*.md")))
    assert 1 <= n_done < 24
    _, out, _ = started(*command, "--resume", "--max-pages", "1").end()  # another setting: all is done again, and told
    report = json.loads(out)
    assert not any(file["resumed"] for file in report["files"])
    assert "settings changed since (run.max_pages: None -> 1)" in report["files"][0]["notes"][0]


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, started: Any, slow_server: ChatDouble) -> None:
    files = [page(tmp_path / f"{number:02d}.png", number % 5) for number in range(20)]
    command = (*files, "-o", tmp_path / "out", *through(slow_server), "--set", "server.n_parallel=2")
    run = started(*command)
    for _ in range(6):
        run.until(" -> ")
    run.process.kill()
    run.end()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.md")}
    n_recorded = sum(b'"state"' in line for line in (tmp_path / "out" / MANIFEST_NAME).read_bytes().splitlines())
    assert 3 <= n_recorded <= len(before) < 20
    asked = len(slow_server.requests)
    code, out, _ = started(*command, "--resume", "--json").end()
    report = json.loads(out)
    resumed = [file for file in report["files"] if file["resumed"]]
    assert code == 0 and len(resumed) == n_recorded and len(slow_server.requests) - asked == 20 - n_recorded
    assert all(Path(file["outputs"][0]).stat().st_mtime_ns == before[Path(file["outputs"][0])] for file in resumed)
    assert len(list((tmp_path / "out").rglob("*.md"))) == 20 and not list((tmp_path / "out").rglob("*.part"))


def test_a_region_that_the_server_never_reads_is_failed_and_its_neighbours_are_not(
    tmp_path: Path, started: Any
) -> None:
    def answer(request: dict[str, Any], number: int) -> Reply:
        picture = len(str(request["messages"][0]["content"][0]))
        sizes.append(picture)
        return Reply(code=500, body=b'{"error": "no"}') if picture == max(sizes) else completion("words")

    sizes: list[int] = [0]
    files = [page(tmp_path / f"{number}.png", 4 - number) for number in range(3)]
    with ChatDouble(answer, models=MODELS) as server:
        quick = ("--set", "server.backoff_s=0.01", "--set", "server.n_retries=2")
        code, out, err = started(*files, "-o", tmp_path / "out", *through(server), *quick, "--json").end()
    report = json.loads(out)
    assert code == 1 and [file["status"] for file in report["files"]] == ["failed", "ok", "ok"]
    assert "failed" in (tmp_path / "out/0/0.md").read_text() and "500" in (tmp_path / "out/0/0.json").read_text()
