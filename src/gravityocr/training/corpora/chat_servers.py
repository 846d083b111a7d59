"""Ask OpenAI-compatible chat-completions servers for the transcript of a picture, and live with what they answer.

Several servers take turns. One that fails some times in a row is set aside and then probed with single requests,
further and further apart, until it answers again. What a server says is never trusted: an answer is a transcript, a
fault of the server (the request is repeated) or a refusal of this picture (it failed).
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from gravityocr.config import check_numbers
from gravityocr.document import Task
from gravityocr.errors import ConfigError, GravityOCRError, InputError
from gravityocr.model.prompt import TASK_PROMPTS

if TYPE_CHECKING:
    pass

TranscriptStatus = Literal["ok", "truncated", "empty", "failed"]

LONGEST_WAIT_S = 300.0  # of a Retry-After: a server may not stop a run by naming a far day
MOST_PROBES = 8  # failed in a row before a server is given up
_MOST_PROBES_UNHEARD = 2  # of a server that never answered at all: its address is wrong, or nothing runs there
_POLL_S = 0.25  # how often a picture that waits for a server looks whether one came back
_COMPLETE = frozenset({"stop", "eos", "eos_token", "stop_sequence"})
_BUSY = frozenset({408, 409, 425, 429})
_NOT_FOR_US = frozenset({401, 403, 404, 405, 407, 410})  # asking such a server again helps no picture
_KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg"}


@dataclass(frozen=True)
class TranscriptionConfig:
    """Who transcribes, and how patiently.

    `retries` come after the first request of a picture; `backoff_s` doubles from one to the next up to
    `longest_backoff_s`, and a random share of it is waited. A server is set aside after `set_aside_after` faults in a
    row for `set_aside_s`, doubled with each probe that fails.

    *Units*: `max_reply_bytes` counts the bytes of an answer's body.
    """

    model: str
    servers: tuple[str, ...]
    concurrency: int = 16
    timeout_s: float = 180.0
    retries: int = 5
    max_tokens: int = 8192
    backoff_s: float = 0.5
    longest_backoff_s: float = 30.0
    set_aside_after: int = 3
    set_aside_s: float = 5.0
    max_reply_bytes: int = 4 * 2**20

    def __post_init__(self) -> None:
        check_numbers(
            self, "transcription.", concurrency=(1, 4096), timeout_s=(0.01, 86400.0), retries=(0, 100),
            max_tokens=(1, 10**6), backoff_s=(0.0, 3600.0), longest_backoff_s=(0.0, 3600.0),
            set_aside_after=(1, 1000), set_aside_s=(0.0, 3600.0), max_reply_bytes=(1024, 2**30),
        )  # fmt: skip
        if not self.model.strip():
            raise ConfigError("--model is empty; name the model that the servers serve")
        if not self.servers:
            raise ConfigError("--server names no server; give one URL or more, separated by commas")
        for url in self.servers:
            completions_url(url)


@dataclass(frozen=True)
class Transcript:
    """What became of one picture.

    `truncated`: the server cut the text at `max_tokens`; `empty`: it found nothing to read; `failed`: see `reason`.
    """

    status: TranscriptStatus
    text: str = ""
    reason: str = ""
    n_requests: int = 0


class ServerFaultError(GravityOCRError):
    """An answer, or silence, that says nothing about the picture; `hopeless` where no request can do better."""

    def __init__(self, reason: str, wait_s: float | None = None, *, hopeless: bool = False, heard: bool = True) -> None:
        super().__init__(reason)
        self.wait_s, self.hopeless, self.heard = wait_s, hopeless, heard


@dataclass
class _Server:
    url: str
    n_requests: int = 0
    n_faults: int = 0
    faults_in_row: int = 0
    n_probes: int = 0
    free_at: float = 0.0
    has_answered: bool = False  # anything at all
    has_served: bool = False  # as it should
    last_fault: str = ""
    given_up: bool = False


@dataclass(frozen=True)
class _Turn:
    server: _Server
    is_probe: bool


class ServerTurns:
    """Hands out servers in turn and keeps the failing ones aside."""

    def __init__(self, config: TranscriptionConfig) -> None:
        """Check the servers' addresses.

        *Raises*: ConfigError for an address that is no http(s) URL, or named twice.
        """
        self._config = config
        self._servers = [_Server(completions_url(url)) for url in config.servers]
        if len({server.url for server in self._servers}) < len(self._servers):
            raise ConfigError("--server names one address twice; raise --concurrency to ask a server more at a time")
        self._next = 0

    async def take(self) -> _Turn:
        """Wait for a server that may be asked.

        *Raises*: InputError where all are given up.
        """
        while True:
            usable = [server for server in self._servers if not server.given_up]
            if not usable:
                told = "; ".join(f"{server.url}: {server.last_fault}" for server in self._servers)
                raise InputError(
                    f"no server answers ({told}); what is transcribed is kept, run again with one that does"
                )
            now = time.monotonic()
            for step in range(len(self._servers)):
                server = self._servers[(self._next + step) % len(self._servers)]
                if not server.given_up and server.free_at <= now:
                    self._next = (self._next + step + 1) % len(self._servers)
                    is_probe = server.faults_in_row >= self._config.set_aside_after
                    if is_probe:  # nobody else asks until it is answered
                        server.free_at = math.inf
                    server.n_requests += 1
                    return _Turn(server, is_probe)
            await asyncio.sleep(min(_POLL_S, min(server.free_at for server in usable) - now))

    def answered(self, turn: _Turn) -> None:
        """Note that a server answered as it should."""
        server = turn.server
        server.has_answered = server.has_served = True
        server.faults_in_row = server.n_probes = 0
        server.free_at = 0.0

    def failed(self, turn: _Turn, fault: ServerFaultError) -> None:
        """Note that a server failed; set it aside where it did so too often."""
        server, now = turn.server, time.monotonic()
        was_aside = server.faults_in_row >= self._config.set_aside_after
        server.n_faults += 1
        server.faults_in_row += 1
        server.last_fault = str(fault)
        server.has_answered |= fault.heard
        server.given_up |= fault.hopeless and not server.has_served  # else it dislikes this picture, or is in trouble
        if turn.is_probe:
            server.n_probes += 1
            server.free_at = now + self._pause(server)
            server.given_up |= server.n_probes >= (MOST_PROBES if server.has_answered else _MOST_PROBES_UNHEARD)
        elif not was_aside and server.faults_in_row >= self._config.set_aside_after:
            server.free_at = now + self._pause(server)
        if fault.wait_s is not None:
            server.free_at = max(server.free_at, now + min(fault.wait_s, LONGEST_WAIT_S))

    def _pause(self, server: _Server) -> float:
        return self._config.set_aside_s * min(2**server.n_probes, 16)

    def report(self) -> list[dict[str, Any]]:
        """Return what became of each server."""
        return [
            {
                "url": server.url, "n_requests": server.n_requests, "n_faults": server.n_faults,
                "last_fault": server.last_fault or None, "given_up": server.given_up,
            }
            for server in self._servers
        ]  # fmt: skip


class ChatServers:
    """A connection to some servers, to be used as an asynchronous context."""

    def __init__(self, config: TranscriptionConfig, api_key: str | None = None) -> None:
        """Prepare the connections; nothing is sent yet.

        *Raises*: ConfigError for an address or a key that no server can have.
        """
        import httpx

        headers = {"accept": "application/json", "accept-encoding": "identity", "content-type": "application/json"}
        if api_key:
            if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
                raise ConfigError("OPENAI_API_KEY holds characters that no key has; set it again")
            headers["authorization"] = f"Bearer {api_key}"
        self._config = config
        self.turns = ServerTurns(config)
        limits = httpx.Limits(max_connections=config.concurrency, max_keepalive_connections=config.concurrency)
        self._client = httpx.AsyncClient(
            headers=headers, limits=limits, timeout=config.timeout_s, trust_env=False, follow_redirects=False
        )

    async def __aenter__(self) -> ChatServers:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def transcribe(self, image: bytes, task: Task) -> Transcript:
        """Return the transcript of a picture, or why there is none.

        *Raises*: InputError where no server is left.
        """
        kind = next((name for mark, name in _KINDS.items() if image.startswith(mark)), None)
        if kind is None:
            return Transcript("failed", reason="its picture is neither PNG nor JPEG")
        body = request_body(self._config, image, kind, task)
        n_requests = n_faults = 0
        while True:
            turn = await self.turns.take()
            n_requests += 1
            try:
                status, text, told = read_reply(*await self._post(turn.server.url, body))
            except ServerFaultError as fault:
                self.turns.failed(turn, fault)
                n_faults += not turn.server.given_up  # a server that is no use costs the picture nothing
                if n_faults > self._config.retries:
                    return Transcript("failed", reason=str(fault), n_requests=n_requests)
                await asyncio.sleep(_pause_s(self._config, max(n_faults - 1, 0)))
            else:
                self.turns.answered(turn)
                return Transcript(status, text, told, n_requests)

    async def _post(self, url: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        import httpx

        received = bytearray()
        try:
            async with (
                asyncio.timeout(self._config.timeout_s),  # of the whole answer: one that trickles in never ends else
                self._client.stream("POST", url, content=body) as reply,
            ):
                async for chunk in reply.aiter_bytes():
                    received += chunk
                    if len(received) > self._config.max_reply_bytes:
                        raise ServerFaultError(f"its answer is longer than {self._config.max_reply_bytes} bytes")
                return reply.status_code, dict(reply.headers), bytes(received)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise ServerFaultError(f"no answer within {self._config.timeout_s:g} s", heard=False) from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise ServerFaultError(_one_line(f"{type(error).__name__}: {error}"), heard=False) from error


def completions_url(url: str) -> str:
    """Complete the address of a server to that of its chat completions.

    *Raises*: ConfigError for anything but an http(s) URL, and for one that holds a password.

    >>> completions_url("http://gpu1:8000"), completions_url("https://a.b/v1/")
    ('http://gpu1:8000/v1/chat/completions', 'https://a.b/v1/chat/completions')
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
        is_one_word = url.isprintable() and not any(map(str.isspace, url))
        valid = is_one_word and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is never closed
        valid = False
    if not valid:
        raise ConfigError(f"--server {url!r} is no http(s) URL; name one such as http://localhost:8000/v1")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("--server holds a user or a password; put the key into OPENAI_API_KEY instead")
    path = parts.path.rstrip("/")
    if not path.endswith("/chat/completions"):
        path += "/chat/completions" if path.endswith("/v1") else "/v1/chat/completions"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def request_body(config: TranscriptionConfig, image: bytes, kind: str, task: Task) -> bytes:
    """Return the request for one picture: greedy, the picture first, the task's prompt after it."""
    url = f"data:image/{kind};base64,{base64.b64encode(image).decode('ascii')}"
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": TASK_PROMPTS[task]}]
    request = {
        "model": config.model, "messages": [{"role": "user", "content": content}], "temperature": 0,
        "max_tokens": config.max_tokens, "stream": False,
    }  # fmt: skip
    return json.dumps(request).encode("ascii")


def read_reply(code: int, headers: dict[str, str], body: bytes) -> tuple[TranscriptStatus, str, str]:
    """Return status, text and reason of an answer.

    *Raises*: ServerFaultError for an answer that says nothing about the picture.
    """
    told = f"HTTP {code}{_excerpt(body)}"
    if 300 <= code < 400:
        where = _one_line(headers.get("location", "nowhere"))
        raise ServerFaultError(f"HTTP {code}: it redirects to {where}; name that address itself", hopeless=True)
    if code in _NOT_FOR_US:
        raise ServerFaultError(told, hopeless=True)
    if code in _BUSY or code >= 500:
        raise ServerFaultError(told, retry_after_s(headers.get("retry-after")))
    if 400 <= code < 500:
        return "failed", "", told
    if code != 200:
        raise ServerFaultError(told)
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ServerFaultError(f"its answer is no JSON{_excerpt(body)}") from error
    return _status(*_message(reply))


def _message(reply: Any) -> tuple[str, str]:
    """Return text and finish reason of an answer."""
    choices = reply.get("choices") if isinstance(reply, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict) or "content" not in message:
        raise ServerFaultError("its answer lacks choices[0].message.content")
    content, finish = message["content"], choice.get("finish_reason")
    if isinstance(content, list):
        parts = [
            part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content
        ]
        content = None if any(not isinstance(part, str) for part in parts) else "".join(map(str, parts))
        if content is None:
            raise ServerFaultError("its answer's content has parts that are no text")
    if content is not None and not isinstance(content, str):
        raise ServerFaultError(f"its answer's content is of the type {type(content).__name__}")
    if not isinstance(finish, str):
        raise ServerFaultError("its answer has no finish_reason: whether the text is whole cannot be known")
    text = content or ""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ServerFaultError("its answer's content holds halves of surrogate pairs")
    return text, finish


def _status(text: str, finish: str) -> tuple[TranscriptStatus, str, str]:
    if finish == "length":
        return "truncated", text, "the server cut the text at the most tokens"
    if finish not in _COMPLETE:
        return "failed", "", f"the server ended with the finish_reason {_one_line(finish)!r}"
    return ("ok", text.strip(), "") if text.strip() else ("empty", "", "the server read no text")


def retry_after_s(value: str | None) -> float | None:
    """Return the seconds that a Retry-After asks to wait, whether it counts them or names a time; None for neither.

    *Units*: seconds, from 0 to `LONGEST_WAIT_S`.
    """
    if value is None:
        return None
    try:
        wait_s = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
            until = until if until.tzinfo else until.replace(tzinfo=UTC)
            wait_s = (until - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return None if math.isnan(wait_s) else min(max(wait_s, 0.0), LONGEST_WAIT_S)


def _pause_s(config: TranscriptionConfig, number: int) -> float:
    longest = min(config.backoff_s * 2.0**number, config.longest_backoff_s)
    return longest * random.uniform(0.5, 1.0)


def _excerpt(body: bytes) -> str:
    shown = _one_line(body[:600].decode("utf-8", errors="replace"))
    return f": {shown}" if shown else ""


def _one_line(text: str) -> str:
    line = " ".join("".join(one if one.isprintable() else " " for one in text[:600]).split())
    return line if len(line) <= 200 else f"{line[:200]}…"
