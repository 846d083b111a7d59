"""Whom the server recognizer asks, with what, and how patiently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from gravityocr.config import check_numbers
from gravityocr.document import TASK_PROMPTS, Task
from gravityocr.errors import ConfigError, InputError
from gravityocr.image_size import SizeRule

_LONGEST_KEY = 4096


@dataclass(frozen=True)
class ServerConfig:
    """How OpenAI-compatible servers are asked for regions.

    Without `model`, each server is asked which model it serves. A request that fails is repeated `n_retries` times:
    `backoff_s` doubles from one to the next up to `max_backoff_s`, and a random part of it, at least half, is waited. A
    server that says it is busy is waited for as long as it asks, up to `max_retry_after_s`, without that counting as a
    try. A server that has answered nothing well for `give_up_s` gets one request a region until it does again.
    `tasks` are what the served model is asked for. `size` is the model's rule for image sizes: no larger crop is sent.
    `api_key` is for no one to see: it is no part of the repr, of comparisons and of dumped configurations.

    *Units*: `timeout_s` is for one request from connecting to the last byte, `region_timeout_s` for all tries of a
    region; `n_parallel` counts requests at a time over all servers; `max_reply_bytes` are of an answer's body.
    """

    model: str | None = None
    tasks: tuple[Task, ...] = ("text", "table", "formula")
    n_parallel: int = 16
    timeout_s: float = 180.0
    connect_timeout_s: float = 10.0
    region_timeout_s: float = 600.0
    n_retries: int = 4
    backoff_s: float = 0.5
    max_backoff_s: float = 20.0
    max_retry_after_s: float = 60.0
    give_up_s: float = 120.0
    max_tokens: int = 8192
    repetition_penalty: float | None = None
    image_format: Literal["png", "jpeg"] = "png"
    jpeg_quality: int = 92
    size: SizeRule = field(default_factory=SizeRule)
    max_reply_bytes: int = 4 * 2**20
    api_key: InitVar[str | None] = None

    def __post_init__(self, api_key: str | None) -> None:
        check_numbers(
            self, "server.", optional=("repetition_penalty",), n_parallel=(1, 4096), timeout_s=(0.01, 86400.0),
            connect_timeout_s=(0.01, 3600.0), region_timeout_s=(0.01, 7 * 86400.0), n_retries=(0, 100),
            backoff_s=(0.0, 3600.0), max_backoff_s=(0.0, 3600.0), max_retry_after_s=(0.0, 3600.0),
            give_up_s=(0.0, 86400.0), max_tokens=(1, 10**6), repetition_penalty=(0.01, 10.0), jpeg_quality=(1, 100),
            max_reply_bytes=(1024, 2**30),
        )  # fmt: skip
        if self.model is not None and not self.model.strip():
            raise ConfigError("server.model is empty; name the model, or leave it out to ask the server")
        if not self.tasks or not set(self.tasks) <= set(TASK_PROMPTS):
            raise ConfigError(f"server.tasks is {self.tasks!r}; choose one or more of {', '.join(TASK_PROMPTS)}")
        if self.image_format not in ("png", "jpeg"):
            raise ConfigError(f"server.image_format is {self.image_format!r}; choose png or jpeg")
        if api_key is not None and not _is_key(api_key):
            raise ConfigError("server.api_key holds characters that no key has; set it again")
        object.__setattr__(self, "api_key", api_key)  # under its own name, so that dataclasses.replace keeps it

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of every request, the key in them."""
        key = vars(self)["api_key"]
        plain = {"accept": "application/json", "accept-encoding": "identity", "content-type": "application/json"}
        return plain if key is None else {**plain, "authorization": f"Bearer {key}"}


def _is_key(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_KEY and text.isascii() and text.isprintable() and " " not in text


def read_api_key(path: str | Path) -> str:
    """Return the key in a file: its only line.

    *Raises*: InputError for a file that cannot be read or holds no key; the message never shows what it holds.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_LONGEST_KEY + 3)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); name a file that holds the server's key"
        ) from error
    key = raw.decode("utf-8", errors="replace").removeprefix("\ufeff").strip()
    if not _is_key(key):
        raise InputError(f"{path}: holds no key; write the server's key on its only line")
    return key


def server_urls(urls: str | Sequence[str]) -> tuple[str, ...]:
    """Return the addresses of a comma-separated list up to and with `/v1`, in its order.

    *Raises*: ConfigError for an address that is no http(s) URL, holds a password or is named twice.

    >>> server_urls("http://gpu1:8000,https://host/base/v1/")
    ('http://gpu1:8000/v1', 'https://host/base/v1')
    """
    listed = urls.split(",") if isinstance(urls, str) else list(urls)
    found = tuple(_base_url(url.strip()) for url in listed if url.strip())
    if not found:
        raise ConfigError("--server names no server; give one URL or more, separated by commas")
    twice = next((url for place, url in enumerate(found) if url in found[:place]), None)
    if twice is not None:
        raise ConfigError(f"--server names {twice} twice; raise server.n_parallel to ask a server more at a time")
    return found


def _base_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_one_word = url.isprintable() and not any(map(str.isspace, url))
        valid = is_one_word and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is never closed
        valid = False
    if valid and (parts.username is not None or parts.password is not None):
        raise ConfigError("--server holds a user or a password; put the key into a file and name it: --server-key-file")
    if not valid:
        raise ConfigError(f"--server {url!r} is no http(s) URL; name one such as http://localhost:8000/v1")
    if parts.query or parts.fragment:
        raise ConfigError(f"--server {url!r} has a query or a fragment; name the address before it")
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return urlunsplit((parts.scheme, parts.netloc, path if path.endswith("/v1") else f"{path}/v1", "", ""))
