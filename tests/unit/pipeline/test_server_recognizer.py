"""Servers that answer, misbehave and vanish: every region gets its own outcome, and none spoils another."""

from __future__ import annotations

import base64
import io
import json
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from PIL import Image
from tests.chat_double import ChatDouble, Reply, completion, picture_of

from gravityocr.config import dump_config, load_config
from gravityocr.document import TASK_PROMPTS, Crop
from gravityocr.errors import ConfigError, InputError
from gravityocr.image_size import SizeRule, n_image_tokens
from gravityocr.pipeline.server.config import ServerConfig, read_api_key, server_urls
from gravityocr.pipeline.server.recognizer import ServerClosedError, ServerRecognizer
from gravityocr.pipeline.server.reply import ServerFaultError, one_line, retry_after_s, sendable
from gravityocr.pipeline.server.turns import ServerTurns, Turn

KEY = "sk-very-secret"


def crop(shade: int, size: tuple[int, int] = (40, 30), task="text") -> Crop:
    return Crop(Image.new("L", size, shade), task)


def shade_of(request: dict) -> int:
    with Image.open(io.BytesIO(picture_of(request))) as image:
        return int(image.convert("L").getpixel((0, 0)) or 0)


def settings(**changes) -> ServerConfig:
    values = {"model": "m", "n_parallel": 4, "timeout_s": 5.0, "backoff_s": 0.005, "max_backoff_s": 0.01}
    return ServerConfig(**{**values, **changes})


def says_its_shade(request: dict, number: int) -> Reply:
    return completion(f"shade {shade_of(request)}")


def dead_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def read(script: Callable[[dict, int], Reply], *crops: Crop, urls: str = "", **changes):
    with ChatDouble(script) as double, ServerRecognizer(double.url + urls, settings(**changes)) as recognizer:
        return recognizer.recognize(crops or [crop(7)]), double


# What is sent -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["text", "table", "formula"])
def test_a_request_is_greedy_and_holds_the_picture_and_the_prompt(task) -> None:
    image = Image.new("RGB", (50, 40), (1, 2, 3))
    (result,), double = read(lambda *_: completion("it"), Crop(image, task), max_tokens=77, api_key=KEY)
    (request,) = double.requests
    assert result.text == "it" and double.paths == ["/v1/chat/completions"]
    assert {name: value for name, value in request.items() if name != "messages"} == {
        "model": "m", "temperature": 0, "max_tokens": 77, "stream": False,
    }  # fmt: skip
    assert request["messages"][0]["content"][1] == {"type": "text", "text": TASK_PROMPTS[task]}
    with Image.open(io.BytesIO(picture_of(request))) as sent:
        assert sent.format == "PNG" and sent.tobytes() == image.tobytes()
    assert double.headers[0]["authorization"] == f"Bearer {KEY}"


def test_what_is_asked_for_is_sent_and_nothing_else() -> None:
    (result,), double = read(lambda *_: completion("it"), repetition_penalty=1.1, image_format="jpeg", jpeg_quality=60)
    assert result.status == "ok" and double.requests[0]["repetition_penalty"] == 1.1
    assert picture_of(double.requests[0]).startswith(b"\xff\xd8\xff")
    assert "authorization" not in double.headers[0]


@pytest.mark.parametrize("size", [(900, 4), (4, 900), (1, 1), (3000, 2500), (600, 8), (57, 41)])
def test_the_server_counts_the_image_tokens_that_were_predicted(size: tuple[int, int]) -> None:
    rule = SizeRule(max_pixels=28 * 28 * 2000)
    whole = crop(200, size)
    with ChatDouble(lambda *_: completion("it")) as double:
        with ServerRecognizer(double.url, settings(size=rule)) as recognizer:
            predicted = recognizer.n_image_tokens(whole)
            assert recognizer.recognize([whole])[0].status == "ok"
        with Image.open(io.BytesIO(picture_of(double.requests[0]))) as sent:
            assert predicted == n_image_tokens(sent.height, sent.width, rule)
            assert 2 * sent.width * sent.height <= max(rule.max_pixels, 2 * size[0] * size[1])
            assert not rule.exceeded_by(sent.height, sent.width)
    assert predicted == n_image_tokens(size[1], size[0], rule)


def test_transparent_crops_are_sent_on_paper() -> None:
    clear = Image.new("RGBA", (40, 40), (0, 0, 0, 0))
    assert sendable(clear, SizeRule()).getcolors() == [(1600, (255, 255, 255))]
    assert sendable(Image.new("CMYK", (40, 40)), SizeRule()).mode == "RGB"


# What comes back ----------------------------------------------------------------------------------


def test_results_are_in_the_order_of_the_crops_however_they_come() -> None:
    def script(request: dict, number: int) -> Reply:
        return replace(says_its_shade(request, number), wait_s=0.1 - shade_of(request) / 1000)

    results, double = read(script, *map(crop, range(0, 100, 10)))
    assert [result.text for result in results] == [f"shade {shade}" for shade in range(0, 100, 10)]
    assert 2 <= double.most_at_once <= 4


def test_usage_becomes_counts() -> None:
    usage = {"completion_tokens": 12, "n_forwards": 5, "n_rounds": 3, "n_accepted": 9}
    (result,), _ = read(lambda *_: completion(" it\n", usage=usage))
    assert (result.text, result.n_tokens, result.n_forwards, result.n_rounds, result.n_accepted) == ("it", 12, 5, 3, 9)
    (plain,), _ = read(lambda *_: completion("it", usage={"completion_tokens": "many", "n_forwards": -1}))
    assert (plain.n_tokens, plain.n_forwards) == (0, 0)


def test_a_text_that_was_cut_says_so_and_stays() -> None:
    (result,), double = read(lambda *_: completion("half a ", "length", usage={"completion_tokens": 12}))
    assert (result.status, result.text) == ("truncated", "half a ") and "at 12 tokens" in str(result.error)
    assert len(double.requests) == 1


def test_texts_in_parts_and_empty_ones_are_read() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert [read(lambda *_, c=content: completion(c))[0][0].text for content in (parts, "", None)] == ["ab", "", ""]


BROKEN = {
    "no JSON": Reply(body=b"<html>hello"),
    "it is empty": Reply(),
    "no JSON object": Reply(body=b"[]"),
    "no choices[0].message.content": Reply(body=b'{"choices": []}'),
    "no finish_reason": completion("it", None),
    "content is no text": completion(5),
    "halves of surrogate pairs": Reply(
        body=rb'{"choices": [{"message": {"content": "\ud800"}, "finish_reason": "stop"}]}'
    ),
    "the connection broke": Reply(hang_up=True),
    "finish_reason 'abort'": completion("it", "abort"),
    "HTTP 408": Reply(code=408),
    "HTTP 425": Reply(code=425),
    "HTTP 502: bad gateway": Reply(code=502, body=b"bad\ngateway"),
}


@pytest.mark.parametrize("told", BROKEN)
def test_answers_without_text_are_asked_for_again(told: str) -> None:
    (result,), double = read(lambda request, number: BROKEN[told] if number < 2 else completion("at last"))
    assert (result.text, result.status, len(double.requests)) == ("at last", "ok", 3)
    (result,), double = read(lambda *_: BROKEN[told], n_retries=1)
    assert result.status == "failed" and len(double.requests) == 2
    assert told in str(result.error) and double.url in str(result.error) and "after 2 tries" in str(result.error)


REFUSED = {
    "HTTP 400: too many pixels": Reply(code=400, body=b'{"error": {"message": "too many pixels", "code": 7}}'),
    "HTTP 422: no such field": Reply(code=422, body=b'{"detail": "no such field"}'),
    "HTTP 404: The model `m` does not exist": Reply(
        code=404, body=b'{"object": "error", "message": "The model `m` does not exist"}'
    ),
    "HTTP 401: wrong key": Reply(code=401, body=b'{"error": "wrong key"}'),
    "redirects to http://169.254.169.254/": Reply(code=307, headers={"location": "http://169.254.169.254/"}),
    "finish_reason 'content_filter'": completion("it", "content_filter"),
    "longer than 2048 bytes": completion("x" * 5000),
}


@pytest.mark.parametrize("told", REFUSED)
def test_refusals_are_final(told: str) -> None:
    (result,), double = read(lambda *_: REFUSED[told], max_reply_bytes=2048)
    assert result.status == "failed" and told in str(result.error) and "after 1 try" in str(result.error)
    assert len(double.requests) == 1


def test_one_region_that_always_answers_500_spoils_no_other() -> None:
    def script(request: dict, number: int) -> Reply:
        if shade_of(request) == 50:
            return Reply(code=500, body=b'{"error": {"message": "out of luck"}}')
        return says_its_shade(request, number) if number or shade_of(request) % 20 else Reply(code=500)

    results, double = read(script, *map(crop, range(0, 100, 10)), n_retries=3)
    failed = results.pop(5)
    assert [result.text for result in results] == [f"shade {shade}" for shade in range(0, 100, 10) if shade != 50]
    assert (failed.status, failed.text) == ("failed", "")
    assert failed.error == f"{double.url}/v1: HTTP 500: out of luck (after 4 tries)"
    assert sum(shade_of(request) == 50 for request in double.requests) == 4


def test_crops_that_cannot_be_sent_fail_alone() -> None:
    broken = Image.new("F", (30, 30))
    broken.close()
    bad = [Crop(Image.new("L", (0, 0))), Crop(broken), crop(1, task="table")]
    results, double = read(says_its_shade, crop(9), *bad, tasks=("text",))
    assert [result.status for result in results] == ["ok", "failed", "failed", "failed"]
    assert "no pixels" in str(results[1].error) and "cannot be encoded" in str(results[2].error)
    assert "not asked for tables (tasks: text)" in str(results[3].error) and len(double.requests) == 1


# Patience -----------------------------------------------------------------------------------------


def test_a_busy_server_is_waited_for_as_long_as_it_asks() -> None:
    def script(request: dict, number: int) -> Reply:
        return completion("it") if number == 3 else Reply(code=(429, 503)[number % 2], headers={"retry-after": "0.1"})

    started = time.monotonic()
    (result,), _ = read(script, n_retries=0)
    assert (result.text, result.status) == ("it", "ok") and time.monotonic() - started >= 0.3


def test_no_server_is_waited_for_longer_than_a_region_has_time() -> None:
    started = time.monotonic()
    (result,), double = read(
        lambda *_: Reply(code=429, headers={"retry-after": "1000"}), region_timeout_s=0.5, max_retry_after_s=60.0
    )
    assert time.monotonic() - started < 2 and len(double.requests) == 1
    assert str(result.error).startswith("not read within 0.5 s; ") and "HTTP 429" in str(result.error)


@pytest.mark.parametrize("reply", [Reply(wait_s=1.0), replace(completion("slow"), drip_s=0.02)])
def test_an_answer_has_its_time_from_the_first_to_the_last_byte(reply: Reply) -> None:
    (result,), _ = read(lambda request, number: completion("quick") if number else reply, timeout_s=0.2)
    assert result.text == "quick"
    (result,), _ = read(lambda *_: reply, timeout_s=0.1, n_retries=0)
    assert result.status == "failed" and "no answer within 0.1 s (after 1 try)" in str(result.error)


def test_a_region_has_its_time_over_all_tries() -> None:
    (result,), _ = read(lambda *_: Reply(wait_s=0.2, code=500), region_timeout_s=0.5, n_retries=20, backoff_s=0.0)
    assert "not read within 0.5 s" in str(result.error) and "HTTP 500" in str(result.error)


def test_queueing_takes_none_of_a_regions_time() -> None:
    script = lambda *_: replace(completion("it"), wait_s=0.1)  # noqa: E731
    results, _ = read(script, *map(crop, range(10)), n_parallel=1, region_timeout_s=0.7)
    assert [result.status for result in results] == ["ok"] * 10


def test_retry_after_in_both_forms() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=50))
    assert [retry_after_s(value, 60.0) for value in ("5", " 5 ")] == [5.0, 5.0]
    assert 30.0 < (retry_after_s(date, 60.0) or 0.0) <= 50.0


def test_retry_after_is_bounded() -> None:
    values = ["1e99", "inf", "-4", "nan", "soon", None, "Fri, 01 Jan 1999 00:00:00 GMT"]
    assert [retry_after_s(value, 60.0) for value in values] == [60.0, 60.0, 0.0, None, None, None, 0.0]


# Several servers ----------------------------------------------------------------------------------


def test_servers_share_the_work() -> None:
    script = lambda request, number: replace(says_its_shade(request, number), wait_s=0.03)  # noqa: E731
    with ChatDouble(script) as one, ChatDouble(script) as other:
        with ServerRecognizer([one.url, other.url], settings()) as recognizer:
            results = recognizer.recognize([crop(shade) for shade in range(16)])
        assert [result.text for result in results] == [f"shade {shade}" for shade in range(16)]
        assert 6 <= len(one.requests) <= 10 and len(one.requests) + len(other.requests) == 16


def test_a_server_that_is_not_there_costs_no_region() -> None:
    dead = dead_url()
    results, double = read(says_its_shade, *map(crop, range(12)), urls=f",{dead}", n_retries=2, backoff_s=0.05)
    assert [result.text for result in results] == [f"shade {shade}" for shade in range(12)]


def test_a_server_that_refuses_its_model_leaves_the_work_to_the_others() -> None:
    with ChatDouble(lambda *_: Reply(code=404, body=b'{"message": "no model"}')) as wrong:
        results, _ = read(says_its_shade, *map(crop, range(12)), urls=f",{wrong.url}", n_retries=0)
        assert [result.text for result in results] == [f"shade {shade}" for shade in range(12)]
        assert 1 <= len(wrong.requests) <= 4


def test_no_server_at_all_fails_every_region_with_the_reason() -> None:
    dead = dead_url()
    started = time.monotonic()
    with ServerRecognizer(dead, settings(give_up_s=0.3, n_retries=100, backoff_s=0.05)) as recognizer:
        results = recognizer.recognize([crop(shade) for shade in range(30)])
        again = recognizer.recognize([crop(1)])
    assert time.monotonic() - started < 3
    assert all(f"{dead}/v1: cannot be connected to" in str(result.error) for result in [*results, *again])
    assert {result.status for result in results} == {"failed"} and "after 1 try" in str(again[0].error)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_turns_probe_a_failing_server_one_request_at_a_time_and_farther_apart() -> None:
    clock = Clock()
    turns = ServerTurns(("http://a/v1", "http://b/v1"), settings(backoff_s=1.0), clock)
    a, b = turns.servers

    def take() -> Turn:
        turn = turns.take()
        assert isinstance(turn, Turn)
        turns.give_back(turn)
        return turn

    assert [take().server for _ in range(4)] == [a, b, a, b]
    for _ in range(3):
        turns.failed(Turn(a, False), ServerFaultError("HTTP 500"))
    assert [take().server for _ in range(3)] == [b, b, b]
    turns.failed(Turn(a, False), ServerFaultError("sent before it was set aside"))
    for pause_s in (1.0, 2.0, 4.0):
        turns.failed(Turn(b, False), ServerFaultError("gone", wait_s=60.0))  # only a is left to ask
        turns.failed(Turn(b, False), ServerFaultError("gone", reached=False))
        clock.now += pause_s - 0.01
        assert turns.take() == pytest.approx(0.01)
        clock.now += 0.02
        probe = turns.take()
        assert probe == Turn(a, True)
        assert turns.take() == 0.25  # nobody else asks meanwhile
        turns.failed(probe, ServerFaultError("HTTP 500"))
        turns.give_back(probe)
    clock.now += 100
    probe = turns.take(b)
    assert isinstance(probe, Turn) and probe.server is a
    turns.answered(probe)
    turns.give_back(probe)
    assert not a.is_aside and a.n_in_row == 0 and not turns.all_given_up()


# Which model --------------------------------------------------------------------------------------


def models(*names: str, **changes) -> Reply:
    return Reply(body=json.dumps({"data": [{"id": name} for name in names]}).encode(), **changes)


def test_the_model_is_asked_for_once_where_none_is_named() -> None:
    with ChatDouble(says_its_shade, models("glm-ocr", wait_s=0.05)) as double:
        with ServerRecognizer(double.url, settings(model=None)) as recognizer:
            results = recognizer.recognize([crop(shade) for shade in range(6)])
        assert [result.status for result in results] == ["ok"] * 6
        assert {request["model"] for request in double.requests} == {"glm-ocr"} and double.got == ["/v1/models"]


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (models("a", "b"), "several models (a, b)"),
        (models(), "lists no model"),
        (Reply(code=404), "HTTP 404"),
        (Reply(code=401, body=b'{"error": "wrong key"}'), "HTTP 401: wrong key"),
    ],
)
def test_a_server_that_does_not_tell_its_model_reads_nothing(reply: Reply, told: str) -> None:
    with ChatDouble(says_its_shade, reply) as double:
        with ServerRecognizer(double.url, settings(model=None)) as recognizer:
            (result,) = recognizer.recognize([crop(1)])
            with pytest.raises(ConfigError) as raised:
                recognizer.check()
        assert result.status == "failed" and told in str(result.error) and not double.requests
        assert told in str(raised.value) and double.url in str(raised.value)


def test_a_check_finds_what_is_wrong_before_the_work_begins() -> None:
    dead = dead_url()
    with ChatDouble(says_its_shade, models("a", "b")) as double, ChatDouble(says_its_shade) as silent:
        urls = f"{double.url},{dead},{silent.url}"
        with ServerRecognizer(urls, settings(model="a")) as recognizer:
            assert recognizer.check() == {f"{double.url}/v1": ("a", "b"), f"{silent.url}/v1": ()}
        told = "no server serves the model 'c'; choose one of a, b"
        with ServerRecognizer(double.url, settings(model="c")) as recognizer, pytest.raises(ConfigError, match=told):
            recognizer.check()
    with ServerRecognizer(dead, settings()) as recognizer, pytest.raises(InputError, match="cannot be connected"):
        recognizer.check()


# Threads and the end ------------------------------------------------------------------------------


def test_several_threads_ask_at_a_time_and_share_the_bound() -> None:
    script = lambda request, number: replace(says_its_shade(request, number), wait_s=0.02)  # noqa: E731
    found: dict[int, list[str]] = {}
    with ChatDouble(script) as double, ServerRecognizer(double.url, settings(n_parallel=3)) as recognizer:

        def page(number: int) -> None:
            crops = [crop(10 * number + k) for k in range(4)]
            found[number] = [result.text for result in recognizer.recognize(crops)]

        threads = [threading.Thread(target=page, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert double.most_at_once == 3
    assert found == {number: [f"shade {10 * number + k}" for k in range(4)] for number in range(5)}


def test_closing_midway_ends_the_waiting_at_once() -> None:
    raised: list[BaseException] = []
    with ChatDouble(lambda *_: replace(completion("late"), wait_s=3.0)) as double:
        recognizer = ServerRecognizer(double.url, settings())

        def page() -> None:
            with pytest.raises(ServerClosedError, match="closed before") as caught:
                recognizer.recognize([crop(shade) for shade in range(20)])
            raised.append(caught.value)

        thread = threading.Thread(target=page)
        thread.start()
        while len(double.requests) < 4:
            time.sleep(0.01)
        started = time.monotonic()
        recognizer.close()
        thread.join(2)
        assert time.monotonic() - started < 1 and len(raised) == 1 and len(double.requests) == 4
        recognizer.close()
        with pytest.raises(ServerClosedError, match="make a new one"):
            recognizer.recognize([crop(1)])
    assert not any(thread.name == "gravityocr-servers" for thread in threading.enumerate())


def test_an_interrupt_ends_the_waiting_at_once_and_cancels_what_is_on_its_way() -> None:
    main = threading.main_thread().ident
    assert main is not None

    def script(request: dict, number: int) -> Reply:
        if shade_of(request) == 1:
            return completion("after")
        signal.pthread_kill(main, signal.SIGINT)
        return replace(completion("late"), wait_s=2.0)

    with ChatDouble(script) as double, ServerRecognizer(double.url, settings(n_parallel=1)) as recognizer:
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            recognizer.recognize([crop(50 + k) for k in range(9)])
        assert [result.text for result in recognizer.recognize([crop(1)])] == ["after"]
        assert time.monotonic() - started < 1.5 and len(double.requests) == 2


# Settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"n_parallel": 0}, r"server\.n_parallel is 0"),
        ({"timeout_s": float("nan")}, r"server\.timeout_s is nan"),
        ({"repetition_penalty": 0.0}, r"server\.repetition_penalty is 0\.0"),
        ({"model": " "}, r"server\.model is empty"),
        ({"tasks": ("text", "chart")}, r"server\.tasks .*choose one or more of text, table, formula"),
        ({"tasks": ()}, r"server\.tasks"),
        ({"image_format": "webp"}, r"server\.image_format is 'webp'"),
        ({"api_key": "two words"}, r"server\.api_key holds characters"),
        ({"api_key": ""}, r"server\.api_key"),
    ],
)
def test_settings_are_checked(changes: dict, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        settings(**changes)
    assert "two words" not in str(raised.value)


def test_the_key_is_shown_nowhere_and_kept_by_replace() -> None:
    config = settings(api_key=KEY)
    assert KEY not in repr(config) + str(asdict(config)) + dump_config(config)
    assert config == settings() and replace(config, model="x").headers()["authorization"] == f"Bearer {KEY}"
    with pytest.raises(ConfigError, match="unknown key 'api_key'"):
        load_config(ServerConfig, overrides=[f"api_key={KEY}"])


def test_settings_come_from_toml(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text(dump_config(settings(repetition_penalty=1.1, size=SizeRule(patch_size=8))), encoding="utf-8")
    assert load_config(ServerConfig, file) == settings(repetition_penalty=1.1, size=SizeRule(patch_size=8))


def test_a_key_is_the_only_line_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"\ufeff {KEY}\r\n", encoding="utf-8")
    assert read_api_key(file) == KEY
    for content in (b"", b"one\ntwo", b"two words", b"\xff\xfe\x00", b"x" * 5000):
        file.write_bytes(content)
        with pytest.raises(InputError, match="holds no key") as raised:
            read_api_key(file)
        assert "two" not in str(raised.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_api_key(tmp_path / "none")


def test_addresses_are_completed() -> None:
    urls = "http://gpu1:8000, https://host/base/v1/,http://[::1]:9/v1/chat/completions"
    assert server_urls(urls) == ("http://gpu1:8000/v1", "https://host/base/v1", "http://[::1]:9/v1")
    assert ServerRecognizer(["http://a"]).urls == ("http://a/v1",) and ServerRecognizer("http://a").tasks == {
        "text", "table", "formula",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("urls", "told"),
    [
        ("", "names no server"),
        (" , ", "names no server"),
        ("ftp://a", "no http"),
        ("a:8000", "no http"),
        ("http://", "no http"),
        ("http://a:port", "no http"),
        ("http://a b", "no http"),
        ("http://user:sekret@a", "holds a user or a password"),
        ("http://a?x=1", "query"),
        ("http://a,http://a/v1/", "names http://a/v1 twice"),
    ],
)
def test_addresses_are_checked(urls: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        ServerRecognizer(urls)
    assert "sekret" not in str(raised.value)


def test_what_a_server_says_is_one_line() -> None:
    assert one_line("a\n\x1b[31mb\u202e\tc") == "a [31mb c"
    assert len(one_line("x" * 10_000)) == 301


def test_the_pictures_of_requests_are_data_uris() -> None:
    _, double = read(says_its_shade)
    url = double.requests[0]["messages"][0]["content"][0]["image_url"]["url"]
    assert url.startswith("data:image/png;base64,") and base64.b64decode(url.split(",")[1], validate=True)
