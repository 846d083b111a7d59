"""Documents from URLs and stdin, against a server in a thread and connections that are only recorded."""

from __future__ import annotations

import base64
import gzip
import http.server
import io
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpcore
import pytest
from PIL import Image

from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.inputs import InputFile, collect_inputs
from gravityocr.pipeline.source import iter_pages
from gravityocr.pipeline.sources import remote
from gravityocr.pipeline.sources.remote import RemoteConfig, fetch, opened, read_stdin
from gravityocr.pipeline.sources.transport import CheckedBackend, Deadline

HERE = RemoteConfig(allow_private=True, timeout_s=5.0, connect_timeout_s=2.0)


def png(size: tuple[int, int] = (12, 8)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, "PNG")
    return buffer.getvalue()


class Handler(http.server.BaseHTTPRequestHandler):
    seen: list[tuple[str, dict[str, str]]] = []

    def log_message(self, *arguments: object) -> None:
        pass

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        Handler.seen.append((self.path, dict(self.headers)))
        path = self.path.split("?")[0]
        if path == "/a.png":
            self.answer(png())
        elif path == "/login.png":
            wanted = "Basic " + base64.b64encode(b"me:pw").decode()
            self.answer(png()) if self.headers.get("Authorization") == wanted else self.answer(b"", 401)
        elif path.startswith("/status/"):
            self.answer(b"<html>", int(path.rsplit("/", 1)[1]))
        elif path.startswith("/to/"):
            self.answer(b"", 302, Location=path.removeprefix("/to/"))
        elif path == "/backslash":
            self.answer(b"", 302, Location="http://127.0.0.1\\@h.org/a")
        elif path == "/loop":
            self.answer(b"", 307, Location="/loop")
        elif path == "/page":
            self.answer(b"<!doctype html><title>Paper</title>", Content_Type="application/pdf")
        elif path == "/gzip.png":
            self.answer(gzip.compress(png()), Content_Encoding="gzip")
        elif path == "/bomb.png":
            self.answer(gzip.compress(png() + b"\0" * 3_000_000), Content_Encoding="gzip")
        elif path == "/badgzip":
            self.answer(b"no gzip", Content_Encoding="gzip")
        elif path == "/cutgzip":
            self.answer(gzip.compress(png())[:-9], Content_Encoding="gzip")
        elif path == "/brotli":
            self.answer(png(), Content_Encoding="br")
        elif path == "/endless":
            self.send_response(200)
            self.end_headers()
            self.drip(b"\x89PNG\r\n\x1a\n" + b"\0" * 60_000, 0.0)
        elif path == "/slow":
            self.send_response(200)
            self.end_headers()
            self.drip(b"\0", 0.05)
        elif path == "/slowhead":
            self.drip(b"HTTP/1.1 200 OK\r\nX: ", 0.05)
        elif path == "/short":
            self.answer(b"%PDF-1.7", Content_Length="1000")
            self.close_connection = True
        elif path == "/empty":
            self.answer(b"")
        else:
            self.answer(b"", 404)

    def drip(self, piece: bytes, pause_s: float) -> None:
        try:
            for _ in range(400):
                self.wfile.write(piece)
                time.sleep(pause_s)
                piece = piece[-1:] if pause_s else piece
        except OSError:
            self.close_connection = True


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_a_url_is_fetched_when_its_turn_comes_and_its_file_goes(server: str) -> None:
    Handler.seen.clear()
    (item,) = collect_inputs([f"{server}/a.png?token=secret#x"])
    assert Handler.seen == []
    with opened(item, HERE) as path:
        (page,) = iter_pages(path, name=item.name)
        assert page.image is not None and page.image.size == (12, 8)
    assert not path.exists() and not path.parent.exists()
    ((asked, headers),) = Handler.seen
    assert asked == "/a.png?token=secret" and headers["Host"] == server.removeprefix("http://")
    assert headers["User-Agent"].startswith("gravityocr/") and "Authorization" not in headers


def test_the_file_goes_when_the_work_on_it_fails(server: str) -> None:
    with pytest.raises(RuntimeError), opened(InputFile(f"{server}/a.png", origin="url"), HERE) as path:
        raise RuntimeError
    assert not path.parent.exists()


def test_files_are_opened_as_they_are_and_errors_stay_errors(tmp_path: Path) -> None:
    with opened(InputFile(str(tmp_path / "a.png"))) as path:
        assert path == tmp_path / "a.png"
    with pytest.raises(InputError, match="lost"), opened(InputFile("a.png", "a.png: lost")):
        pass


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/none", "the server answers 404 Not Found; check the address"),
        ("/status/401", "401 Unauthorized; it wants a login: download it yourself"),
        ("/status/403", "403 Forbidden; it refuses us"),
        ("/status/429", "429 Too Many Requests; it is asked too often"),
        ("/status/503", "503 Service Unavailable; try again later"),
        ("/status/204", "204 No Content; download it yourself"),
        ("/page", "is neither a PDF nor an image.*it looks like a web page"),
        ("/empty", "is empty"),
        ("/endless", "is larger than 1 MB; split it"),
        ("/bomb.png", "is larger than 1 MB"),
        ("/badgzip", "cannot be unpacked"),
        ("/cutgzip", "is cut short"),
        ("/brotli", "packed in an unknown way"),
        ("/backslash", "leads on to an address that is none"),
        ("/short", "the connection breaks off"),
        ("/loop", "more than 5 times"),
        ("/to/ftp://h.org/a.pdf", "leads on to a ftp address, which is not fetched"),
        ("/to/file:///etc/passwd", "leads on to a file address"),
        ("/to/http://h:abc/", "leads on to an address that is none"),
    ],
)
def test_what_goes_wrong_names_the_url_without_its_secrets(server: str, tmp_path: Path, path: str, what: str) -> None:
    config = RemoteConfig(allow_private=True, timeout_s=5.0, max_bytes=1_000_000)
    url = f"{server}{path}?token=secret".replace("http://", "http://me:pw@", 1)
    with pytest.raises(InputError, match=what) as caught:
        fetch(url, config, tmp_path)
    assert str(caught.value).startswith(f"{server}{path}?query=")
    assert not any(secret in str(caught.value) for secret in ("token", "secret", "me:", "pw@"))


def test_a_length_that_is_too_large_is_refused_before_the_body(server: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is larger than 2e-05 MB"):
        fetch(f"{server}/a.png", RemoteConfig(allow_private=True, max_bytes=20), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["/slow", "/slowhead"])
def test_the_whole_has_a_time_limit_however_it_drips(server: str, tmp_path: Path, path: str) -> None:
    started = time.monotonic()
    with pytest.raises(InputError, match=r"longer than 0\.4 s|stops answering"):
        fetch(server + path, RemoteConfig(allow_private=True, timeout_s=0.4), tmp_path)
    assert time.monotonic() - started < 2


def test_a_name_that_is_not_resolved_in_time_is_told(tmp_path: Path) -> None:
    def never(host: str, port: int) -> Sequence[str]:
        time.sleep(1)
        return []

    started = time.monotonic()
    with pytest.raises(InputError, match="does not answer in time"):
        fetch("http://h.org/a", RemoteConfig(connect_timeout_s=0.1), tmp_path, resolver=never)
    assert time.monotonic() - started < 0.8


def test_gzip_bodies_and_logins_of_urls_work(server: str, tmp_path: Path) -> None:
    assert fetch(f"{server}/gzip.png", HERE, tmp_path).read_bytes() == png()
    assert fetch(f"{server}/login.png".replace("//", "//me:pw@"), HERE, tmp_path).read_bytes() == png()


def test_a_packed_answer_is_unpacked_a_little_at_a_time(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    store = remote._store

    def seen(chunks: Iterator[bytes], path: Path, max_bytes: int) -> None:
        store((sizes.append(len(chunk)) or chunk for chunk in chunks), path, max_bytes)  # type: ignore[func-returns-value]

    monkeypatch.setattr(remote, "_store", seen)
    path = fetch(f"{server}/bomb.png", HERE, tmp_path)
    assert path.stat().st_size == 3_000_000 + len(png()) == sum(sizes) and max(sizes) <= 1 << 16


@pytest.mark.parametrize("sign", ["\\", "\n", "\t", "\0", "\x7f"])
def test_urls_that_readers_take_apart_differently_are_refused(tmp_path: Path, sign: str) -> None:
    def never(host: str, port: int) -> Sequence[str]:
        raise AssertionError(host)

    for url in (f"https://user:secret@127.0.0.1{sign}@example.com/", f"https://example.com/{sign}a.pdf"):
        with pytest.raises(InputError, match="is no URL of a document; write https") as caught:
            fetch(url, HERE, tmp_path, resolver=never)
        (item,) = collect_inputs([url])
        assert "is no URL" in str(item.error)
        assert not any(word in f"{caught.value} {item.error} {item.name}" for word in ("user", "secret"))


def test_redirects_are_followed_and_logins_stay_with_their_host(server: str, tmp_path: Path) -> None:
    Handler.seen.clear()
    login = server.replace("//", "//me:pw@")
    assert fetch(f"{login}/to//login.png", HERE, tmp_path).read_bytes() == png()
    other = server.replace("127.0.0.1", "localhost")
    with pytest.raises(InputError, match="401"):
        fetch(f"{login}/to/{other}/login.png", HERE, tmp_path)
    assert "Authorization" in Handler.seen[-2][1] and "Authorization" not in Handler.seen[-1][1]
    with pytest.raises(InputError, match="more than 0 times"):
        fetch(f"{server}/to//a.png", RemoteConfig(allow_private=True, max_redirects=0), tmp_path)


def test_private_addresses_are_refused_and_nothing_is_asked(server: str, tmp_path: Path) -> None:
    Handler.seen.clear()
    for host in ("127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"):
        url = server.replace("127.0.0.1", host) + "/a.png"
        with pytest.raises(InputError, match="not fetched from; --allow-private-urls|no connection|cannot be found"):
            fetch(url, RemoteConfig(timeout_s=5), tmp_path)
    assert Handler.seen == []


class Wire(httpcore.NetworkStream):
    """A connection that gives canned answers and keeps what it was told."""

    def __init__(self, log: list[tuple[str, Any]], answers: list[bytes]) -> None:
        self.log, self.answers = log, answers

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self.answers.pop(0) if self.answers else b""

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.log.append(("sent", buffer))

    def close(self) -> None:
        pass

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        self.log.append(("tls", (server_hostname, ssl_context.check_hostname, ssl_context.verify_mode)))
        return self

    def get_extra_info(self, info: str) -> Any:
        return None


class Internet:
    """Names to addresses that may change from one look-up to the next, and canned answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, addresses: dict[str, list[list[str]]]) -> None:
        self.log: list[tuple[str, Any]] = []
        self.answers: list[list[bytes]] = []
        self.dead: set[str] = set()
        self._addresses = addresses
        monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", self.connect)

    def connect(self, host: str, port: int, *arguments: object) -> Wire:
        self.log.append(("connect", (host, port)))
        if host in self.dead:
            raise httpcore.ConnectError("Connection refused")
        return Wire(self.log, self.answers.pop(0))

    def resolve(self, host: str, port: int) -> list[str]:
        return self._addresses[host].pop(0)

    def of(self, what: str) -> list[Any]:
        return [value for kind, value in self.log if kind == what]


def ok(body: bytes) -> list[bytes]:
    return [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body]


def redirect(target: str) -> list[bytes]:
    return [f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()]


def test_the_checked_address_is_connected_to_with_the_hosts_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # a second look-up would give a private address: a rebinding name must not get one
    net = Internet(monkeypatch, {"papers.org": [["8.8.8.8"], ["127.0.0.1"]]})
    net.answers = [ok(png())]
    assert fetch("https://papers.org/a.png", RemoteConfig(), tmp_path, resolver=net.resolve).read_bytes() == png()
    assert net.of("connect") == [("8.8.8.8", 443)]
    assert net.of("tls") == [("papers.org", True, ssl.CERT_REQUIRED)]
    assert b"\r\nHost: papers.org\r\n" in net.of("sent")[0]


def test_every_redirect_is_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inner = {"papers.org": [["8.8.8.8"]], "inner.org": [["169.254.169.254"]]}
    net = Internet(monkeypatch, inner)
    net.answers = [redirect("http://inner.org/latest/meta-data?key=secret")]
    with pytest.raises(InputError, match=r"^https://papers\.org/a: inner\.org leads to 169\.254\.169\.254") as caught:
        fetch("https://papers.org/a", RemoteConfig(), tmp_path, resolver=net.resolve)
    assert net.of("connect") == [("8.8.8.8", 443)] and "secret" not in str(caught.value)


def test_a_redirect_may_lose_tls_but_takes_no_login_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    net = Internet(monkeypatch, {"papers.org": [["8.8.8.8"], ["8.8.4.4"]]})
    net.answers = [redirect("http://papers.org/b"), ok(png())]
    fetch("https://me:pw@papers.org/a", RemoteConfig(), tmp_path, resolver=net.resolve)
    assert net.of("connect") == [("8.8.8.8", 443), ("8.8.4.4", 80)]
    sent = net.of("sent")
    assert b"Authorization" in sent[0] and b"Authorization" not in b"".join(sent[1:])


def test_a_dead_address_is_passed_over_for_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    net = Internet(monkeypatch, {"papers.org": [["2606:4700::1", "8.8.8.8"], ["2606:4700::1"]]})
    net.answers, net.dead = [ok(png())], {"2606:4700::1"}
    fetch("http://papers.org/a", RemoteConfig(), tmp_path, resolver=net.resolve)
    assert net.of("connect") == [("2606:4700::1", 80), ("8.8.8.8", 80)]
    with pytest.raises(InputError, match=r"no connection \(Connection refused\); check"):
        fetch("http://papers.org/a", RemoteConfig(), tmp_path, resolver=net.resolve)


def test_proxies_of_the_environment_are_not_asked(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert fetch(f"{server}/a.png", HERE, tmp_path).read_bytes() == png()


def test_a_connection_that_nobody_takes_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no connection"):
        fetch("http://127.0.0.1:9/a.png", HERE, tmp_path)


def test_a_disk_that_is_full_is_told(server: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be stored in .*\(No such file"):
        fetch(f"{server}/a.png", HERE, tmp_path / "gone")


def test_deadlines_end(monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = Deadline(30.0)
    assert 29 < deadline.left_s() <= 30 and deadline.left_s(at_most=2.0) == 2.0
    backend = CheckedBackend(Deadline(1e-9), 1.0, False)
    with pytest.raises(InputError, match="takes longer than"):
        backend.connect_tcp("h.org", 80)


def test_stdin_is_read_within_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def hand(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    hand(png((30, 20)))
    (item,) = collect_inputs(["-"])
    with opened(item) as path:
        (page,) = iter_pages(path, name=item.name)
        assert page.image is not None and page.image.size == (30, 20)
    assert not path.exists()
    for content, what in ((b"", "is empty"), (b"text", "is neither"), (b"\0" * 2000, "is larger than 0.001 MB")):
        hand(content)
        with pytest.raises(InputError, match=f"^<stdin>: {what}"):
            read_stdin(RemoteConfig(max_bytes=1000), tmp_path)


@pytest.mark.parametrize(
    "wrong", [{"max_bytes": 0}, {"timeout_s": 0.0}, {"connect_timeout_s": float("nan")}, {"max_redirects": -1}]
)
def test_config_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"remote\.{next(iter(wrong))} is .*choose"):
        RemoteConfig(**wrong)
