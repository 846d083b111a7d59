"""Transcribing region files: pass-through, left-out regions, resuming, killed runs, the command."""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import typer
from PIL import Image
from tests.chat_double import ChatDouble, Reply, completion, picture_of
from typer.testing import CliRunner

from gravityocr.commands.data_transcribe import transcribe
from gravityocr.errors import ConfigError, InputError
from gravityocr.training.corpora.chat_servers import TranscriptionConfig
from gravityocr.training.corpora.region_shards import LabelledRegion, RegionFile, write_regions
from gravityocr.training.corpora.transcription import REPORT_NAME, transcribe_regions


def picture(number: int) -> bytes:
    """Return a picture of its own for each number."""
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), (number % 256, number // 256, 7)).save(buffer, format="PNG")
    return buffer.getvalue()


def region(number: int, **changes) -> LabelledRegion:
    values = {
        "region_id": f"src/doc/0/{number}", "image": picture(number), "width_px": 4, "height_px": 4, "task": "text",
        "target": "", "source": "src", "doc_id": "doc", "target_origin": "pending",
    }  # fmt: skip
    return LabelledRegion(**{**values, **changes})


def write(folder: Path, n_shards: int, n: int, n_annotated: int = 0) -> list[LabelledRegion]:
    regions = []
    for shard in range(n_shards):
        numbers = range(shard * n, (shard + 1) * n)
        some = [
            region(number, target=f"known {number}", target_origin="annotation")
            if place < n_annotated
            else region(number)
            for place, number in enumerate(numbers)
        ]
        write_regions(folder / "src" / f"{shard}.regions.parquet", some)
        regions += some
    return regions


def config(*servers: str, **changes) -> TranscriptionConfig:
    values = {
        "model": "teacher", "servers": servers, "concurrency": 8, "timeout_s": 10.0, "retries": 3,
        "backoff_s": 0.001, "longest_backoff_s": 0.002, "set_aside_s": 0.01,
    }  # fmt: skip
    return TranscriptionConfig(**{**values, **changes})


def number_of(request: dict) -> int:
    red, green, _ = Image.open(io.BytesIO(picture_of(request))).getpixel((0, 0))
    return red + 256 * green


def read_all(folder: Path) -> list[LabelledRegion]:
    return [one for file in sorted(folder.rglob("*.regions.parquet")) for one in RegionFile(file)]


def test_targets_of_pending_regions_and_nothing_else_change(tmp_path: Path) -> None:
    regions = write(tmp_path / "in", n_shards=3, n=150, n_annotated=40)
    with ChatDouble(lambda request, number: completion(f"read {number_of(request)}", wait_s=0)) as server:
        report = transcribe_regions(tmp_path / "in", tmp_path / "out", config(server.url))
    expected = [
        one if one.target_origin == "annotation" else one.with_target(f"read {number}", "teacher")
        for number, one in enumerate(regions)
    ]
    assert read_all(tmp_path / "out") == expected
    assert (report["ok"], report["n_passed_through"], report["n_regions"]) == (330, 120, 450)
    assert report["left_out"] == [] and len(server.requests) == 330
    assert [shard["status"] for shard in report["shards"]] == ["written"] * 3
    assert json.loads((tmp_path / "out" / REPORT_NAME).read_text()) == report


def test_the_bound_of_requests_at_a_time_is_reached_and_never_passed(tmp_path: Path) -> None:
    write(tmp_path / "in", n_shards=2, n=20)
    with ChatDouble(lambda request, number: Reply(body=completion("x").body, wait_s=0.05)) as server:
        transcribe_regions(tmp_path / "in", tmp_path / "out", config(server.url, concurrency=5))
    assert server.most_at_once == 5


def test_what_is_no_target_is_left_out_named_and_only_failures_are_asked_again(tmp_path: Path) -> None:
    write(tmp_path / "in", n_shards=1, n=10)
    broken = True

    def script(request, number):
        replies = {2: completion("cut", "length"), 4: completion(None), 6: Reply(400, b"no\nway"), 8: Reply(500)}
        return replies.get(number_of(request), completion("x")) if broken else completion("late")

    with ChatDouble(script) as server:
        settings = config(server.url, concurrency=1)
        first = transcribe_regions(tmp_path / "in", tmp_path / "out", settings)
        left = {row["region_id"]: row["status"] for row in first["left_out"]}
        assert left == {
            "src/doc/0/2": "truncated", "src/doc/0/4": "empty", "src/doc/0/6": "failed", "src/doc/0/8": "failed",
        }  # fmt: skip
        assert [one.region_id[-1] for one in read_all(tmp_path / "out")] == list("013579")
        assert (first["ok"], first["truncated"], first["empty"], first["failed"]) == (6, 1, 1, 2)
        broken = False
        server.n_asked.clear()
        second = transcribe_regions(tmp_path / "in", tmp_path / "out", settings)
        assert {picture(6): 1, picture(8): 1} == server.n_asked
        assert [one.target for one in read_all(tmp_path / "out")] == ["x"] * 4 + ["late"] + ["x"] + ["late", "x"]
        assert (second["ok"], second["failed"], second["n_answered_by_earlier_runs"]) == (8, 0, 8)
        third = transcribe_regions(tmp_path / "in", tmp_path / "out", settings)
        assert third["shards"][0]["status"] == "kept" and third["ok"] == 8 and len(server.n_asked) == 2


def test_a_killed_run_goes_on_and_asks_for_nothing_twice(tmp_path: Path) -> None:
    """The server answers 30 of 60, then holds its breath; the process is killed and a new one finishes."""
    regions = write(tmp_path / "in", n_shards=3, n=20)
    gate, lock = threading.Event(), threading.Lock()
    asked: list[int] = []

    def script(request, number):
        with lock:
            asked.append(number_of(request))
            is_early = len(asked) <= 30
        if not is_early:
            gate.wait(30)
        return completion(f"read {number_of(request)}")

    with ChatDouble(script) as server:
        program = (
            "import sys; from pathlib import Path;"
            "from gravityocr.training.corpora.transcription import transcribe_regions, TranscriptionConfig;"
            "transcribe_regions(Path(sys.argv[1]), Path(sys.argv[2]),"
            "  TranscriptionConfig('teacher', (sys.argv[3],), concurrency=4, timeout_s=60.0))"
        )
        command = [sys.executable, "-c", program, str(tmp_path / "in"), str(tmp_path / "out"), server.url]
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        try:
            wait_for(lambda: n_journal_rows(tmp_path / "out") == 30 and len(asked) == 34)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        tear_last_line(tmp_path / "out")
        settled = {row["region_id"] for row in journal_rows(tmp_path / "out")}
        assert len(settled) == 29
        gate.set()
        asked.clear()
        report = transcribe_regions(tmp_path / "in", tmp_path / "out", config(server.url))
    again = {regions[number].region_id for number in asked}
    assert len(asked) == len(again) == 31 and not again & settled
    assert report["n_answered_by_earlier_runs"] == 29 and report["ok"] == 60
    assert [one.target for one in read_all(tmp_path / "out")] == [f"read {number}" for number in range(60)]


def wait_for(condition, longest_s: float = 60.0) -> None:
    end = time.monotonic() + longest_s
    while not condition():
        assert time.monotonic() < end, "the run never got so far"
        time.sleep(0.02)


def journal_rows(out: Path) -> list[dict]:
    lines = [line for file in sorted(out.rglob("*.transcripts.jsonl")) for line in file.read_bytes().split(b"\n")[:-1]]
    return [row for row in map(json.loads, lines) if "status" in row]


def n_journal_rows(out: Path) -> int:
    return sum(file.read_bytes().count(b'"status"') for file in out.rglob("*.transcripts.jsonl"))


def tear_last_line(out: Path) -> None:
    file = max((file for file in out.rglob("*.transcripts.jsonl")), key=lambda file: file.name)
    file.write_bytes(file.read_bytes()[:-9])


def test_a_journal_of_something_else_stops_its_shard_only(tmp_path: Path) -> None:
    write(tmp_path / "in", n_shards=2, n=3)
    with ChatDouble(lambda request, number: completion("x")) as server:
        transcribe_regions(tmp_path / "in", tmp_path / "out", config(server.url))
        other = transcribe_regions(tmp_path / "in", tmp_path / "out", config(server.url, model="other"))
        assert (
            other["n_shards_failed"] == 2 and "another model ('teacher', now 'other')" in other["shards"][0]["reason"]
        )
        write_regions(tmp_path / "in/src/1.regions.parquet", [region(number) for number in range(50, 55)])
        report = transcribe_regions(tmp_path / "in", tmp_path / "out", config(server.url))
    assert [shard["status"] for shard in report["shards"]] == ["kept", "failed"]
    assert "journal of another shard" in report["shards"][1]["reason"]


def test_a_shard_that_is_none_fails_alone(tmp_path: Path) -> None:
    write(tmp_path / "in", n_shards=2, n=3)
    (tmp_path / "in/src/0.regions.parquet").write_bytes(b"PAR1 nothing")
    with ChatDouble(lambda request, number: completion("x")) as server:
        report = transcribe_regions(tmp_path / "in", tmp_path / "out", config(server.url))
    assert [shard["status"] for shard in report["shards"]] == ["failed", "written"] and report["ok"] == 3


def test_no_server_left_ends_the_run_and_keeps_what_is_done(tmp_path: Path) -> None:
    write(tmp_path / "in", n_shards=1, n=12)

    def script(request, number):
        return completion("x") if number_of(request) < 5 else Reply(404, b"gone")

    with ChatDouble(script) as server, pytest.raises(InputError, match="gone.*run again"):
        transcribe_regions(tmp_path / "in", tmp_path / "out", config(server.url, concurrency=1))
    assert [row["status"] for row in journal_rows(tmp_path / "out")].count("ok") == 5
    assert read_all(tmp_path / "out") == []


def test_a_run_that_ends_early_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "in", n_shards=1, n=30)
    with ChatDouble(lambda request, number: Reply(401)) as server, pytest.raises(InputError, match="no server answers"):
        transcribe_regions(tmp_path / "in", tmp_path / "out", config(server.url, concurrency=16))
    gc.collect()
    assert caplog.records == []  # asyncio would tell of every task whose error nobody took


@pytest.mark.parametrize(("source", "out"), [("in", "in"), ("in", "in/out"), ("in/src", "in")])
def test_folders_within_one_another_are_refused(tmp_path: Path, source: str, out: str) -> None:
    write(tmp_path / "in", n_shards=1, n=1)
    with pytest.raises(ConfigError, match="within one another"):
        transcribe_regions(tmp_path / source, tmp_path / out, config("http://127.0.0.1:9"))


def run(*args: object, env: dict[str, str] | None = None):
    app = typer.Typer()
    app.command("transcribe")(transcribe)
    return CliRunner().invoke(app, [str(arg) for arg in args], env=env)


def test_the_command(tmp_path: Path) -> None:
    write(tmp_path / "in", n_shards=2, n=4, n_annotated=1)
    with ChatDouble(lambda request, number: completion("x")) as one, ChatDouble(lambda r, n: completion("x")) as two:
        servers = f"{one.url}, {two.url}"
        options = ("--out", tmp_path / "out", "--server", servers, "--model", "m", "--json")
        done = run(tmp_path / "in", *options, env={"OPENAI_API_KEY": "sk-9"})
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["ok"] == 6 and report["n_passed_through"] == 2
    assert {len(one.requests), len(two.requests)} == {3}
    assert all(headers["authorization"] == "Bearer sk-9" for headers in one.headers + two.headers)


def test_the_command_fails_where_a_region_did(tmp_path: Path) -> None:
    write(tmp_path / "in", n_shards=1, n=3)
    with ChatDouble(
        lambda request, number: Reply(422, b"bad") if number_of(request) == 1 else completion("x")
    ) as server:
        options = ("--out", tmp_path / "out", "--server", server.url, "--model", "m")
        done = run(tmp_path / "in", *options, env={"OPENAI_API_KEY": ""})
        assert done.exit_code == 1 and "src/doc/0/1: failed: HTTP 422: bad" in done.stdout
        assert "authorization" not in server.headers[0] and len(read_all(tmp_path / "out")) == 2
        shown = run(tmp_path / "in", *options, "--api-key", "sk-1")
        assert isinstance(shown.exception, ConfigError) and "sk-1" not in str(shown.exception)


def test_wrong_usage_is_told_before_any_work(tmp_path: Path) -> None:
    write(tmp_path / "in", n_shards=1, n=2)
    (tmp_path / "file").write_text("")
    said = ("--server", "http://127.0.0.1:9", "--model", "m")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        done = run(tmp_path / "in", "--out", out, *said)
        assert isinstance(done.exception, ConfigError) and f"--out {out} cannot be written" in str(done.exception)
    done = run(tmp_path / "in", "--out", tmp_path / "out", "--server", "http://a b/", "--model", "m")
    assert isinstance(done.exception, ConfigError) and not (tmp_path / "out").exists()


def test_a_shard_with_a_row_that_no_region_has_fails_alone(tmp_path: Path) -> None:
    write(tmp_path / "in", n_shards=2, n=2)
    write_regions(tmp_path / "in" / "src" / "0.regions.parquet", [region(0), region(1, width_px=0)])
    with ChatDouble(lambda request, number: completion("read")) as server:
        report = transcribe_regions(tmp_path / "in", tmp_path / "out", config(server.url))
    assert [shard["status"] for shard in report["shards"]] == ["failed", "written"] and report["ok"] == 2
    assert "row 1 (region src/doc/0/1): width_px is 0" in report["shards"][0]["reason"]
