"""Servers that misbehave: what is asked again, what is given up, and what an answer may be."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.chat_double import ChatDouble, Reply, completion, picture_of

from gravityocr.errors import ConfigError, InputError
from gravityocr.training.corpora.chat_servers import (
    LONGEST_WAIT_S,
    ChatServers,
    ServerFaultError,
    TranscriptionConfig,
    completions_url,
    read_reply,
    retry_after_s,
)


def picture(shade: int, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), shade).save(buffer, format=kind)
    return buffer.getvalue()


def config(*servers: str, **changes) -> TranscriptionConfig:
    values = {
        "model": "teacher", "servers": servers or ("http://127.0.0.1:9",), "concurrency": 4, "timeout_s": 5.0,
        "retries": 3, "backoff_s": 0.001, "longest_backoff_s": 0.002, "set_aside_s": 0.01,
    }  # fmt: skip
    return TranscriptionConfig(**{**values, **changes})


def ask(settings: TranscriptionConfig, *images: bytes, api_key: str | None = None, task="text"):
    async def run():
        async with ChatServers(settings, api_key) as servers:
            return await asyncio.gather(*(servers.transcribe(image, task) for image in images)), servers.turns.report()

    return asyncio.run(run())


def dead_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.parametrize(("task", "prompt"), [("text", "Text Recognition:"), ("table", "Table Recognition:")])
def test_a_request_is_greedy_and_holds_the_picture_and_the_prompt(task, prompt) -> None:
    with ChatDouble(lambda request, number: completion("read")) as server:
        transcripts, _ = ask(config(server.url), picture(1, "JPEG"), api_key="secret-1", task=task)
    assert [(one.status, one.text, one.n_requests) for one in transcripts] == [("ok", "read", 1)]
    (request,) = server.requests
    assert picture_of(request) == picture(1, "JPEG")
    image, text = request["messages"][0]["content"]
    assert image["image_url"]["url"].startswith("data:image/jpeg;base64,") and text == {"type": "text", "text": prompt}
    assert (request["temperature"], request["max_tokens"], request["model"]) == (0, 8192, "teacher")
    assert server.headers[0]["authorization"] == "Bearer secret-1"
    assert server.paths == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    "bad",
    [
        Reply(429), Reply(429, headers={"retry-after": "0"}), Reply(500, b"boom"), Reply(503), Reply(hang_up=True),
        Reply(body=b"<html>not json</html>"), Reply(body=b"[" * 100_000), Reply(body=b'{"choices": []}'),
        Reply(body=b'{"choices": [{"message": {}}]}'), Reply(body=b"null"), Reply(body=b'{"choices": {"0": 1}}'),
        completion(17), completion({"text": "a"}), completion([{"type": "image", "url": "x"}]), completion("a", None),
        completion("a", 3), completion("\ud800"), Reply(201, b"{}"), Reply(body=b'{"choices": [' + b" " * 5000),
        Reply(headers={"content-length": "100"}, body=b"cut"),
    ],
)  # fmt: skip
def test_a_faulty_answer_is_asked_again(bad) -> None:
    with ChatDouble(lambda request, number: completion("read") if number else bad) as server:
        settings = config(server.url, max_reply_bytes=1024, timeout_s=0.5)
        ((transcript,), (report,)) = ask(settings, picture(1))
    assert (transcript.status, transcript.text, transcript.n_requests) == ("ok", "read", 2)
    assert report["n_faults"] == 1 and report["last_fault"] and not report["given_up"]


@pytest.mark.parametrize(
    ("reply", "status", "text"),
    [
        (completion("cut", "length"), "truncated", "cut"),
        (completion(None), "empty", ""),
        (completion(" \n"), "empty", ""),
        (completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ok", "ab"),
        (completion([]), "empty", ""),
        (completion("a", "content_filter"), "failed", ""),
        (Reply(400, b'{"error": "picture too\nlarge"}'), "failed", ""),
        (Reply(413), "failed", ""),
    ],
)
def test_the_status_of_a_picture(reply, status, text) -> None:
    with ChatDouble(lambda request, number: reply) as server:
        ((transcript,), (report,)) = ask(config(server.url), picture(1))
    assert (transcript.status, transcript.text, transcript.n_requests) == (status, text, 1)
    assert (transcript.reason == "") == (status == "ok") and "\n" not in transcript.reason
    assert report["n_faults"] == 0


@pytest.mark.parametrize("slow", [Reply(wait_s=3.0), Reply(body=b"x" * 100, drip_s=0.1)])
def test_a_silent_or_trickling_answer_ends_with_the_timeout(slow) -> None:
    with ChatDouble(lambda request, number: completion("read") if number else slow) as server:
        start = time.monotonic()
        ((transcript,), (report,)) = ask(config(server.url, timeout_s=0.3), picture(1))
    assert transcript.status == "ok" and "within 0.3 s" in report["last_fault"]
    assert time.monotonic() - start < 2.5


def test_retries_end() -> None:
    with ChatDouble(
        lambda request, number: completion("x") if picture_of(request) == picture(2) else Reply(500)
    ) as server:
        (bad, good), _ = ask(config(server.url, retries=2, concurrency=2), picture(1), picture(2))
    assert (bad.status, bad.n_requests, good.status) == ("failed", 3, "ok") and "HTTP 500" in bad.reason
    assert server.n_asked[picture(1)] == 3


def test_a_retry_after_is_honoured() -> None:
    times = []

    def script(request, number):
        times.append(time.monotonic())
        return completion("x") if number else Reply(429, headers={"Retry-After": "0.4"})

    with ChatDouble(script) as server:
        ask(config(server.url), picture(1))
    assert times[1] - times[0] >= 0.39


def test_a_dead_server_is_set_aside_and_the_other_does_all_the_work() -> None:
    images = [picture(shade) for shade in range(40)]
    with ChatDouble(lambda request, number: completion("x")) as server:
        transcripts, reports = ask(config(dead_url(), server.url, retries=5, set_aside_s=60.0), *images)
    assert all(one.status == "ok" for one in transcripts)
    assert set(server.n_asked.values()) == {1} and len(server.n_asked) == 40
    assert reports[0]["n_faults"] >= 3 and reports[1]["n_faults"] == 0


def test_a_server_that_comes_back_is_used_again() -> None:
    asked = []

    def script(request, number):
        asked.append(number)
        return Reply(503) if len(asked) <= 5 else completion("x")

    with ChatDouble(script) as server:
        transcripts, (report,) = ask(config(server.url, retries=20), *[picture(shade) for shade in range(6)])
    assert all(one.status == "ok" for one in transcripts) and not report["given_up"]


def test_only_a_probe_reaches_a_server_that_was_set_aside() -> None:
    times = []

    def script(request, number):
        times.append(time.monotonic())
        return Reply(503)

    with ChatDouble(script) as server:
        settings = config(server.url, retries=100, set_aside_s=0.02, concurrency=8)
        with pytest.raises(InputError, match="no server answers.*HTTP 503"):
            ask(settings, *[picture(shade) for shade in range(8)])
    assert len(times) <= 8 + 2 + 8  # all at once, two retries before the third fault, then one probe at a time


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(401, b"bad key"), "HTTP 401: bad key"),
        (Reply(404, b"no such model"), "no such model"),
        (Reply(307, headers={"location": "http://elsewhere/v1"}), "redirects to http://elsewhere/v1"),
    ],
)
def test_a_server_that_wants_something_else_is_given_up_at_once(reply, told) -> None:
    with ChatDouble(lambda request, number: reply) as server, pytest.raises(InputError, match=told):
        ask(config(server.url), picture(1))
    assert len(server.requests) == 1
    with ChatDouble(lambda request, number: reply) as bad, ChatDouble(lambda request, number: completion("x")) as good:
        transcripts, _ = ask(config(bad.url, good.url, retries=0), *[picture(shade) for shade in range(9)])
    assert all(one.status == "ok" for one in transcripts)


def test_a_server_that_forbids_one_picture_serves_the_others() -> None:
    """As a firewall does that dislikes a request."""
    with ChatDouble(lambda r, n: Reply(403) if picture_of(r) == picture(1) else completion(" x\n")) as server:
        images = [picture(shade) for shade in (0, 1, 2, 3)]

        async def run():
            async with ChatServers(config(server.url, retries=1)) as servers:
                return [await servers.transcribe(image, "text") for image in images]

        transcripts = asyncio.run(run())
    assert [one.status for one in transcripts] == ["ok", "failed", "ok", "ok"]
    assert transcripts[0].text == "x" and "HTTP 403" in transcripts[1].reason and server.n_asked[picture(1)] == 2


def test_nothing_listens_anywhere() -> None:
    with pytest.raises(InputError, match="no server answers"):
        ask(config(dead_url(), dead_url(), retries=100), picture(1), picture(2))


def test_bytes_that_are_no_picture_are_never_sent() -> None:
    ((transcript,), (report,)) = ask(config(dead_url()), b"GIF89a")
    assert transcript.status == "failed" and "neither PNG nor JPEG" in transcript.reason and report["n_requests"] == 0


@pytest.mark.parametrize(
    "url",
    [
        "", "gpu1:8000", "ftp://a/v1", "http://", "http://a:port", "http://u:p@a", "http://[a", "http://a b/",
        "http://a/v 1", "http://a\tb/", "http://a\u3000b/", "http://a\x00b/",
    ],
)  # fmt: skip
def test_an_address_that_is_none(url) -> None:
    with pytest.raises(ConfigError, match="--server"):
        completions_url(url)
    with pytest.raises(ConfigError, match="--server"):  # before anything is read or asked
        TranscriptionConfig("m", ("http://good", url))


def test_settings_that_cannot_be() -> None:
    for changes in ({"concurrency": 0}, {"timeout_s": float("nan")}, {"retries": -1}, {"model": " "}, {"servers": ()}):
        with pytest.raises(ConfigError):
            TranscriptionConfig(**{"model": "m", "servers": ("http://a",), **changes})
    with pytest.raises(ConfigError, match="twice"):
        ask(config("http://a", "http://a/v1"))
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        ask(config("http://a"), api_key="sécret\n")
    assert "cret" not in str(caught.value)


def test_retry_after_in_all_its_forms() -> None:
    assert retry_after_s("7") == 7 and retry_after_s(None) is None and retry_after_s("soon") is None
    assert retry_after_s("1e99") == LONGEST_WAIT_S and retry_after_s("-3") == 0 and retry_after_s("nan") is None
    assert 50 < (retry_after_s(format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)) or 0) <= 60
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT") == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "finish_reason", "text", "type"]) | st.text(max_size=3),
            inner,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 999),
    st.dictionaries(st.sampled_from(["retry-after", "location"]), st.text(max_size=30)),
    st.binary(max_size=40)
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.tuples(JSON, JSON).map(
        lambda pair: json.dumps({"choices": [{"message": {"content": pair[0]}, "finish_reason": pair[1]}]}).encode()
    ),
)
def test_any_answer_is_a_transcript_or_a_fault(code, headers, body) -> None:
    try:
        status, text, reason = read_reply(code, headers, body)
    except ServerFaultError as fault:
        assert str(fault) and "\n" not in str(fault)
        return
    assert (status == "ok") == (reason == "") and "\n" not in reason
    assert text.strip() if status == "ok" else True
    text.encode("utf-8")
