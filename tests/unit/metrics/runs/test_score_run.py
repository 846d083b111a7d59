"""The runner: order, failures that stay alone, and results that a later run takes up."""

from __future__ import annotations

import json
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest
from tests.score_runs import room_for

from gravityocr.errors import ConfigError, InputError
from gravityocr.metrics.runs import score_file
from gravityocr.metrics.runs.score_file import ResultsFile, code_digest, digest
from gravityocr.metrics.runs.score_run import RunConfig, Sample, SampleResult, n_cores, run_batches, run_samples


def act(payload: dict[str, Any]) -> dict[str, Any]:
    """Do what the payload says; runs in the workers."""
    what = payload["do"]
    if what == "raise":
        raise InputError("this one is broken")
    if what == "bug":
        return {"value": payload["no such key"]}
    if what == "die":
        os._exit(7)
    if what == "sleep":
        time.sleep(60)
    if what == "count":
        with Path(payload["log"]).open("a") as stream:
            stream.write(f"{payload['n']}\n")
    return {"value": payload["n"] * 2, "process": os.getpid()}


def samples_of(*what: str, **more: Any) -> list[Sample]:
    return [Sample(f"s{n}", {"do": one, "n": n, **more}) for n, one in enumerate(what)]


def test_results_come_in_the_order_of_the_samples_and_from_several_processes():
    heard: list[SampleResult] = []
    # The pool hands few samples at a time, so that both processes get some even when one starts late.
    found = run_samples(samples_of(*["double"] * 200), act, RunConfig(n_processes=2), heard.append)
    assert [result.id for result in found] == [f"s{n}" for n in range(200)]
    assert [result.score["value"] for result in found] == [2 * n for n in range(200)]
    assert sorted(result.id for result in heard) == sorted(result.id for result in found)
    assert os.getpid() not in {result.score["process"] for result in found}


def test_a_failure_costs_its_own_sample_only():
    work = samples_of("double", "raise", "bug", "die", "double", "sleep", "double", "double")
    found = run_samples(work, act, RunConfig(n_processes=1, timeout_s=1.0))
    assert [result.status for result in found] == ["ok", "failed", "failed", "died", "ok", "timeout", "ok", "ok"]
    assert found[1].error == "InputError: this one is broken"
    assert found[2].error == "KeyError: 'no such key'"
    assert found[3].error == "its process ended with code 7"
    assert found[5].error == "took longer than 1 s; its process was ended"
    assert [result.score and result.score["value"] for result in found] == [0, None, None, None, 8, None, 12, 14]


def test_samples_queued_behind_a_dead_one_are_scored(tmp_path):
    # 64 samples in one process are handed 8 at a time, so the dead one has others behind it.
    work = samples_of(*["double"] * 3, "die", *["double"] * 60)
    found = run_samples(work, act, RunConfig(n_processes=1))
    assert [result.id for result in found if result.status != "ok"] == ["s3"]


def test_nothing_to_score_starts_nothing():
    assert run_samples([], act, RunConfig()) == []


def test_a_scorer_that_no_process_can_import_is_told_at_once(monkeypatch, capfd):
    here_only = types.ModuleType("module_of_this_process")
    exec("def act(payload): return {}", here_only.__dict__)
    monkeypatch.setitem(sys.modules, here_only.__name__, here_only)
    with pytest.raises(RuntimeError, match="ended with code 1 before it was ready"):
        run_samples(samples_of("double"), here_only.act, RunConfig(n_processes=1))


def test_large_payloads_pass_the_pipe():
    text = "x" * 3_000_000
    found = run_samples([Sample("big", {"do": "double", "n": 1, "text": text})], act, RunConfig(n_processes=1))
    assert found[0].status == "ok"


@pytest.mark.parametrize("options", [{"n_processes": 0}, {"timeout_s": 0.0}, {"timeout_s": float("nan")}])
def test_the_configuration_is_checked(options):
    with pytest.raises(ConfigError):
        RunConfig(**options)


def test_there_is_a_core():
    assert 1 <= n_cores() <= os.cpu_count()


# Results on disk -----------------------------------------------------------------------------------


def double_all(payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"value": 2 * payload["n"]} for payload in payloads]


def counted(calls: list[int]):
    def score(payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
        calls.extend(payload["n"] for payload in payloads)
        return double_all(payloads)

    return score


def test_a_rerun_scores_only_what_is_new(tmp_path):
    log = tmp_path / "log"
    config = RunConfig(n_processes=1, results=tmp_path / "results.jsonl", settings={"mode": "a"})
    work = samples_of("count", "count", "raise", log=str(log))
    first = run_samples(work, act, config)
    again = run_samples([*work, Sample("new", {"do": "double", "n": 9})], act, config)
    assert log.read_text().split() == ["0", "1"]
    assert [result.status for result in again] == ["ok", "ok", "failed", "ok"]
    assert [result.kept for result in again] == [True, True, False, False]
    assert again[0].score == first[0].score


@pytest.mark.parametrize("change", ["input", "settings", "code"])
def test_other_input_settings_or_code_are_scored_anew(tmp_path, monkeypatch, change):
    path, calls = tmp_path / "results.jsonl", []
    run_batches([Sample("a", {"n": 1})], counted(calls), RunConfig(results=path, settings={"mode": "a"}), 8)
    payload, settings = {"n": 1}, {"mode": "a"}
    if change == "input":
        payload = {"n": 2}
    elif change == "settings":
        settings = {"mode": "b"}
    else:
        monkeypatch.setattr(score_file, "code_digest", lambda: "other")
    found = run_batches([Sample("a", payload)], counted(calls), RunConfig(results=path, settings=settings), 8)
    assert len(calls) == 2 and not found[0].kept
    # Nothing that was there is lost.
    assert len(path.read_text().splitlines()) == 2


def test_a_torn_last_line_is_dropped_and_the_file_stays_whole(tmp_path):
    path, calls = tmp_path / "results.jsonl", []
    work = [Sample(f"s{n}", {"n": n}) for n in range(3)]
    run_batches(work, double_all, RunConfig(results=path), 2)
    whole = path.read_bytes()
    for n_bytes in (1, 5, 30, len(whole.split(b"\n")[2])):
        path.write_bytes(whole[:-n_bytes])
        calls.clear()
        found = run_batches(work, counted(calls), RunConfig(results=path), 2)
        assert calls == [2]
        assert [result.score["value"] for result in found] == [0, 2, 4]
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert [row["id"] for row in rows] == ["s0", "s1", "s2"]


@pytest.mark.parametrize(
    "content",
    ['{"id": "a", "pred": "x", "ref": "y"}\n', '{"id":"a","pred":"x"}', "# A title\n\ntext", "[1, 2]\n"],
)
def test_a_file_of_something_else_is_left_alone(tmp_path, content):
    path = tmp_path / "pairs.jsonl"
    path.write_text(content)
    with pytest.raises(ConfigError, match="line 1: is no result of a scoring run"):
        run_batches([Sample("a", {"n": 1})], double_all, RunConfig(results=path), 8)
    assert path.read_text() == content


def test_a_results_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="results.jsonl"):
        run_batches([Sample("a", {"n": 1})], double_all, RunConfig(results=tmp_path / "file" / "results.jsonl"), 8)


def test_batches_are_as_long_as_asked_and_in_order():
    lengths: list[int] = []

    def score(payloads):
        lengths.append(len(payloads))
        return double_all(payloads)

    found = run_batches([Sample(str(n), {"n": n}) for n in range(7)], score, RunConfig(), 3)
    assert lengths == [3, 3, 1]
    assert [result.score["value"] for result in found] == [0, 2, 4, 6, 8, 10, 12]


def test_scores_keep_every_digit(tmp_path):
    path = tmp_path / "results.jsonl"
    value = 0.1 + 0.2
    config = RunConfig(results=path)
    run_batches([Sample("a", {"n": 1})], lambda payloads: [{"value": value}], config, 1)
    kept = run_batches([Sample("a", {"n": 1})], double_all, config, 1)
    assert kept[0].kept and kept[0].score == {"value": value}


def test_digests_follow_the_content():
    assert digest({"a": 1, "b": "é"}) == digest({"b": "é", "a": 1})
    assert digest({"a": 1}) != digest({"a": "1"})
    assert digest("\ud800") != digest("\ufffd")  # half a pair is no reason to stop
    assert len(code_digest()) == len(digest(0))


def test_only_finished_results_are_kept(tmp_path):
    path = tmp_path / "results.jsonl"
    file = ResultsFile(path, {})
    file.open()
    file.append("a", "1", "ok", {"value": 1}, None, 0.5)
    file.append("b", "2", "timeout", None, "too long", 9.0)
    file.close()
    again = ResultsFile(path, {})
    assert again.kept("a", "1")["score"] == {"value": 1}
    assert again.kept("b", "2") is None and again.kept("a", "2") is None


@pytest.mark.parametrize("n_bytes", [100, 500])
def test_a_full_disk_names_file_and_remedy_and_loses_nothing(tmp_path, n_bytes):
    path, calls = tmp_path / "results.jsonl", []
    work = [Sample(f"s{n}", {"n": n}) for n in range(4)]
    message = r"results\.jsonl: cannot be written \(.*\); make room and run again"
    with pytest.raises(InputError, match=message), room_for(n_bytes):
        run_batches(work, double_all, RunConfig(results=path), 2)
    assert path.stat().st_size == n_bytes  # torn in the middle of a line
    n_whole = path.read_bytes().count(b"\n")
    found = run_batches(work, counted(calls), RunConfig(results=path), 2)
    assert len(calls) == 4 - n_whole and [result.score["value"] for result in found] == [0, 2, 4, 6]


def test_a_results_file_that_cannot_be_closed_is_named(tmp_path):
    class Stream:
        def close(self):
            raise OSError(5, "Input/output error")

    file = ResultsFile(tmp_path / "results.jsonl", {})
    file._stream = Stream()
    with pytest.raises(InputError, match=r"results\.jsonl: cannot be written \(Input/output error\)"):
        file.close()


def test_a_fifo_of_results_is_told(tmp_path):
    os.mkfifo(tmp_path / "results.jsonl")
    with pytest.raises(InputError, match="it is a FIFO"):
        run_batches([Sample("a", {"n": 1})], double_all, RunConfig(results=tmp_path / "results.jsonl"), 1)


@pytest.mark.parametrize(
    "change",
    [
        {"score": None}, {"score": {}}, {"score": []}, {"score": "x"}, {"score": {"value": "2"}},
        {"score": {"value": 3}}, {"seconds": "x"}, {"seconds": None}, {"error": 3}, {"check": None}, {"check": []},
        {"status": "failed"},
    ],
)  # fmt: skip
def test_a_line_that_was_changed_is_scored_again(tmp_path, change):
    path, calls = tmp_path / "results.jsonl", []
    work = [Sample(f"s{n}", {"n": n}) for n in range(2)]
    run_batches(work, double_all, RunConfig(results=path), 2)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in (rows[0], rows[1] | change)))
    for scored in ([1], []):  # and the line that replaces it is taken up
        calls.clear()
        found = run_batches(work, counted(calls), RunConfig(results=path), 2)
        assert calls == scored and [result.score for result in found] == [{"value": 0}, {"value": 2}]
