"""Users' cases 15, 22, 24 and 25: long documents, servers that fail, runs that are stopped, and runs that go on."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from PIL import Image
from tests.chat_double import Reply, completion
from tests.factories import make_prompts, mask_id, tiny_network
from tests.unit.pipeline.scripted import ScriptedDetector, ScriptedRecognizer
from tests.user_case_inputs import (
    Outcome,
    bars_page,
    box,
    cli,
    nano,
    picture,
    printed_page,
    printed_text,
    says_size,
    serving,
    start_cli,
    write_pdf,
)

from gravityocr.api import GravityOCR
from gravityocr.decoding.prompts import DecodeOptions, Networks
from gravityocr.decoding.request import SequenceOptions
from gravityocr.document import Crop, Page, Recognition
from gravityocr.engine.scheduler import Scheduler
from gravityocr.pipeline.convert import PipelineConfig, convert, convert_pages
from gravityocr.pipeline.layout import WholePage
from gravityocr.pipeline.server.recognizer import ServerConfig, ServerRecognizer
from gravityocr.pipeline.source import SourceConfig
from gravityocr.pipeline.stages import RunConfig

TWO = [box(95, 95, 705, 305), box(95, 595, 705, 805)]
QUICK = ServerConfig(n_retries=3, backoff_s=0.01, timeout_s=20.0)


def two_paragraphs(path: Path) -> Path:
    """A page with two paragraphs of different sizes, so that their pictures can be told apart."""
    bars_page((100, 100, 700, 300), (100, 600, 700, 800)).save(path)
    return path


def wait_for(what: Callable[[], object], timeout_s: float = 30.0) -> None:
    end = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


@pytest.mark.parametrize(("n_ahead", "most"), [(0, 3), (2, 10)])
def test_case_15_page_images_are_bounded_by_the_queue(tmp_path: Path, n_ahead: int, most: int) -> None:
    """300 pages: how many of their pictures are alive depends on the queue. Deeper: unit/pipeline/test_convert.py."""
    size = (203, 265)
    path = write_pdf(tmp_path / "long.pdf", [bars_page((20, 20, 180, 120), size=size)] * 300)
    alive: list[int] = []

    class Counting(ScriptedRecognizer):
        def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
            if len(self.calls) % 40 == 20:
                found = [one for one in gc.get_objects() if issubclass(type(one), Image.Image)]
                alive.append(sum(abs(one.width - size[0]) + abs(one.height - size[1]) < 4 for one in found))
            self.calls.append([])
            return [Recognition("text")] * len(crops)

    config = PipelineConfig(source=SourceConfig(dpi=100.0), run=RunConfig(n_ahead=n_ahead))
    detector = ScriptedDetector([box(20, 20, 180, 120)])
    document = convert(path, Counting(), detector, config)
    assert document.status == "ok" and len(document.pages) == 300
    assert len(alive) == 7 and min(alive) >= 1, "no page image was found: the count would hold emptily"
    assert max(alive) <= most


def test_case_22_a_region_that_always_answers_500_is_marked(tmp_path: Path) -> None:
    """It is tried again, then it fails by name, and its neighbour is as it would be alone."""

    def script(request: dict, _number: int) -> Reply:
        is_first = picture(request).width < 500
        return Reply(code=500, body=b'{"error": {"message": "out of slots"}}') if is_first else says_size(request, 0)

    bars_page((100, 100, 400, 300), (100, 600, 700, 800)).save(tmp_path / "a.png")
    detector = ScriptedDetector([box(95, 95, 405, 305), TWO[1]])
    with serving(script) as double, ServerRecognizer(double.url, QUICK) as servers:
        ocr = GravityOCR(servers, detector, PipelineConfig())  # type: ignore[arg-type]
        document = ocr.parse(tmp_path / "a.png")
        tries = sorted(double.n_asked.values())
    failed = [region for region in document.pages[0].regions if region.status == "failed"]
    assert len(failed) == 1 and tries[-1] == 1 + QUICK.n_retries
    assert (
        "500" in str(failed[0].error) and "out of slots" in str(failed[0].error) and "127.0.0.1" in str(failed[0].error)
    )
    assert document.status == "partial" and "failed" in document.markdown and "out of slots" in document.markdown
    assert "A picture of 6" in document.markdown


def test_case_22_a_server_that_recovers_costs_nothing(tmp_path: Path) -> None:
    """Through the command line: two 500s, then the text; nothing of it shows but time."""

    def script(request: dict, number: int) -> Reply:
        return Reply(code=500, body=b"oops") if number < 2 else completion("It came.")

    two_paragraphs(tmp_path / "a.png")
    with serving(script) as double:
        outcome = cli(
            "parse", tmp_path / "a.png", "-o", tmp_path / "out", "--server", double.url, "--layout", "none",
            "--set", "server.backoff_s=0.01", "--json",
        )  # fmt: skip
        assert len(double.requests) == 3
    assert outcome.code == 0 and outcome.files["a.png"]["status"] == "ok"
    assert (tmp_path / "out" / "a" / "a.md").read_text(encoding="utf-8") == "It came.\n"


def test_case_22_a_failed_region_is_named_by_the_command_line(tmp_path: Path) -> None:
    two_paragraphs(tmp_path / "bad.png")
    bars_page((100, 100, 300, 300), size=(500, 500)).save(tmp_path / "good.png")

    def script(request: dict, number: int) -> Reply:
        return Reply(code=500, body=b"oops") if picture(request).width == 800 else says_size(request, number)

    with serving(script) as double:
        outcome = cli(
            "parse", tmp_path / "bad.png", tmp_path / "good.png", "-o", tmp_path / "out", "--server", double.url,
            "--layout", "none", "--set", "server.backoff_s=0.01", "--set", "server.n_retries=2", "--json",
        )  # fmt: skip
        assert len(double.requests) == 4
    assert outcome.code == 1 and outcome.report["n_failed"] == 1
    assert outcome.files["good.png"]["status"] == "ok" and outcome.files["bad.png"]["status"] in ("partial", "failed")
    assert "bad.png" in outcome.stderr and "failed" in (tmp_path / "out" / "bad" / "bad.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
def test_case_24_a_signal_stops_a_parse_at_once(tmp_path: Path, how: signal.Signals, code: int) -> None:
    """Ctrl-C in the middle of a document of 40 pages: the process ends, the server is asked no more."""
    write_pdf(tmp_path / "long.pdf", [bars_page((100, 100, 700, 300 + number)) for number in range(40)])

    def script(request: dict, number: int) -> Reply:
        return Reply(**{**vars(says_size(request, number)), "wait_s": 0.5})

    with serving(script) as double:
        process = start_cli(
            "parse", tmp_path / "long.pdf", "-o", tmp_path / "out", "--server", double.url, "--layout", "none",
            "--set", "server.n_parallel=2", "--dpi", 72,
        )  # fmt: skip
        wait_for(lambda: len(double.requests) >= 3)
        process.send_signal(how)
        started = time.monotonic()
        _, stderr = process.communicate(timeout=20)
        took_s = time.monotonic() - started
        n_asked = len(double.requests)
        time.sleep(0.7)
        assert len(double.requests) == n_asked < 40
    assert process.returncode == code, stderr
    assert took_s < 4 and "--resume" in stderr and "Traceback" not in stderr
    assert not list((tmp_path / "out").rglob("*.part")) and not list((tmp_path / "out").rglob("long.md"))


def n_stages() -> int:
    """Count the threads of the pipeline's stages."""
    return sum(thread.name.startswith(("render", "layout", "read")) for thread in threading.enumerate())


@pytest.mark.parametrize("how", ["closed", "interrupted"])
def test_case_24_a_reader_that_goes_away_stops_the_work(tmp_path: Path, how: str) -> None:
    """Pages that nobody waits for any more are not read, and the next document is."""
    path = tmp_path / "a.pdf"
    write_pdf(path, [printed_page(0, 3)] * 12)
    before = n_stages()
    read: list[int] = []

    class Slow(ScriptedRecognizer):
        def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
            read.append(len(crops))
            return nano().recognize(crops)

    recognizer = Slow()
    if how == "closed":
        pages = convert_pages(path, recognizer, WholePage())
        assert next(pages).status == "ok" and next(pages).status == "ok"
        pages.close()  # type: ignore[attr-defined]
    else:

        def stop(page: Page) -> None:
            if page.index == 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            convert(path, recognizer, WholePage(), on_page=stop)
    wait_for(lambda: n_stages() == before, 5.0)
    n_read = len(read)
    assert 2 <= n_read <= 4
    time.sleep(0.3)
    assert len(read) == n_read
    printed_page(5).save(tmp_path / "next.png")
    assert convert(tmp_path / "next.png", recognizer, WholePage()).markdown == printed_text(5) + "\n"


def test_case_24_a_closed_client_ends_a_parse(tmp_path: Path) -> None:
    """Requests on their way are cancelled, what was not read is named as such."""
    path = write_pdf(tmp_path / "a.pdf", [bars_page((100, 100, 700, 300 + number)) for number in range(6)])
    with serving(lambda request, number: Reply(**{**vars(says_size(request, 0)), "wait_s": 5.0})) as double:
        servers = ServerRecognizer(double.url, QUICK)
        found: list = []
        thread = threading.Thread(target=lambda: found.append(convert(path, servers, WholePage())))
        thread.start()
        wait_for(lambda: double.requests)
        started = time.monotonic()
        servers.close()
        thread.join(10)
        assert not thread.is_alive() and time.monotonic() - started < 4
        assert len(double.requests) <= 2
    (document,) = found
    assert document.status == "failed" and all("closed" in str(page.error) for page in document.pages)


def test_case_24_a_server_that_hangs_costs_its_timeout_only(tmp_path: Path) -> None:
    def script(request: dict, _number: int) -> Reply:
        hangs = picture(request).height < 300
        return Reply(wait_s=30.0) if hangs else says_size(request, 0)

    two_paragraphs(tmp_path / "a.png")
    detector = ScriptedDetector([TWO[0], box(95, 500, 705, 805)])
    config = ServerConfig(timeout_s=0.4, n_retries=1, backoff_s=0.01)
    started = time.monotonic()
    with serving(script) as double, ServerRecognizer(double.url, config) as servers:
        document = convert(tmp_path / "a.png", servers, detector)
    assert time.monotonic() - started < 5
    hung, answered = document.pages[0].regions
    assert (hung.status, answered.status, document.status) == ("failed", "ok", "partial")
    assert "0.4" in str(hung.error)


def test_case_24_cancelled_tickets_free_their_slots() -> None:
    """The engine's own part, which a server will call when its client disconnects."""
    network, prompts = tiny_network("gqa", 4, tuple(range(20, 26))), make_prompts("gqa", [(2, 3), (1, 5), (2, 2)])
    how = DecodeOptions(mask_id(), frozenset({22}), 6, "self-spec", 60, n_candidates=1)
    options = SequenceOptions(50, frozenset(), 6)

    def alone(number: int) -> list[int]:
        scheduler = Scheduler(Networks.all_of(network), how)
        ticket = scheduler.submit(prompts[number], options)
        scheduler.run()
        return ticket.result().ids

    scheduler = Scheduler(Networks.all_of(network), how, max_running=2)
    first, second, queued = (scheduler.submit(prompt, options) for prompt in prompts)
    for _ in range(3):
        scheduler.step()
    for ticket in (first, second, queued):
        scheduler.cancel(ticket)
    assert scheduler.is_idle and all(not lane.batch.running for lane in scheduler.lanes.values())
    assert [one.result().finish for one in (first, second, queued)] == ["cancelled"] * 3
    again = [scheduler.submit(prompt, options) for prompt in prompts]
    scheduler.run()
    assert [ticket.result().ids for ticket in again] == [alone(number) for number in range(3)]


def state(folder: Path) -> dict[Path, tuple[int, bytes]]:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def test_case_25_kill_and_rerun_a_batch(tmp_path: Path) -> None:
    """kill -9 in the middle of nine files: finished ones stay to the byte, nothing half-written is left or found."""
    names = [f"file{number}" for number in range(9)]
    for number, name in enumerate(names):
        write_pdf(tmp_path / f"{name}.pdf", [bars_page((100, 100, 700, 300 + 10 * number))] * 2)
    out, waits = tmp_path / "out", [0.25]

    def script(request: dict, number: int) -> Reply:
        return Reply(**{**vars(says_size(request, number)), "wait_s": waits[0]})

    def complete() -> list[str]:
        kinds = (".md", ".json", ".html")
        return [name for name in names if all((out / name / f"{name}{kind}").is_file() for kind in kinds)]

    with serving(script) as double:
        asked = [
            "parse", *(tmp_path / f"{name}.pdf" for name in names), "-o", out, "--server", double.url,
            "--layout", "none", "--dpi", 72, "--set", "server.n_parallel=2", "--format", "md,json,html",
        ]  # fmt: skip
        process = start_cli(*asked)
        wait_for(lambda: len(complete()) >= 4)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=20)
        assert process.returncode == -signal.SIGKILL
        finished = complete()[:-1]  # the last one may be whole and not yet on record
        assert 3 <= len(finished) < len(names)
        for path in out.rglob("*.json"):
            assert json.loads(path.read_text(encoding="utf-8"))["status"] == "ok"
        before = {name: state(out / name) for name in finished}
        stray = out / "file8" / "tmpstray.part"
        stray.parent.mkdir(exist_ok=True)
        stray.write_text("half of a file")  # as a kill in the middle of a write leaves it
        waits[0], n_asked = 0.0, len(double.requests)
        process = start_cli(*asked, "--resume", "--json")
        outcome = Outcome(0, *process.communicate(timeout=30))
        n_asked = len(double.requests) - n_asked
        again = cli(*asked, "--resume", "--json")
    assert process.returncode == 0, outcome.stderr
    notes = [file["notes"] for file in outcome.report["files"] if Path(file["file"]).stem in finished]
    assert notes == [[]] * len(finished)  # none was done again, for whatever reason
    assert {name: state(out / name) for name in finished} == before
    resumed = [Path(file["file"]).stem for file in outcome.report["files"] if file["resumed"]]
    assert resumed[: len(finished)] == finished and len(resumed) <= len(finished) + 1
    assert n_asked == 2 * (len(names) - len(resumed))
    assert [Path(file["file"]).stem for file in outcome.report["files"]] == names
    assert all(file["status"] == "ok" and file["n_pages"] == 2 for file in outcome.report["files"])
    assert complete() == names
    for name in names:
        assert (out / name / f"{name}.md").read_text(encoding="utf-8").count("A picture of ") == 2
        assert (out / name / f"{name}.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    leftovers = [path for path in out.rglob("*") if path.suffix == ".part" or path.name == ".pages"]
    assert leftovers == []
    assert again.code == 0 and all(file["resumed"] for file in again.report["files"])
