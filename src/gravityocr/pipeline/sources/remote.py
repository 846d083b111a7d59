"""Inputs that are no files yet, made files when their turn comes: URLs fetched, stdin read, both within limits."""

from __future__ import annotations

import os
import ssl
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO, cast

import httpx

from gravityocr import __version__
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.inputs import InputFile, stdin_obstacle
from gravityocr.pipeline.sources.addresses import Resolver, resolve
from gravityocr.pipeline.sources.kinds import sniff
from gravityocr.pipeline.sources.names import STDIN_NAME, source_name, split_url
from gravityocr.pipeline.sources.transport import CheckedBackend, CheckedTransport, Deadline

_CHUNK_BYTES = 1 << 16
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_DOWNLOAD = "download it yourself and hand the file"
_PACKINGS = {"gzip": 31, "x-gzip": 31, "deflate": 15}  # zlib's window bits, 16 more meaning gzip
_REMEDIES: dict[int, str] = {
    401: f"it wants a login: {_DOWNLOAD}",
    403: f"it refuses us: {_DOWNLOAD}",
    404: "check the address",
    410: "check the address",
    429: "it is asked too often: try again later",
}


@dataclass(frozen=True)
class RemoteConfig:
    """Limits of what is fetched from URLs and read from stdin.

    *Units*: `max_bytes` of one document; `timeout_s` for the whole of it, redirects included; `connect_timeout_s` for
    one connection. `allow_private` permits addresses that are not public: this machine, its network, its cloud.
    """

    max_bytes: int = 500_000_000
    timeout_s: float = 300.0
    connect_timeout_s: float = 15.0
    max_redirects: int = 5
    allow_private: bool = False

    def __post_init__(self) -> None:
        if self.max_bytes < 1:
            raise ConfigError(f"remote.max_bytes is {self.max_bytes}: choose at least 1")
        for field in ("timeout_s", "connect_timeout_s"):
            value = getattr(self, field)
            if not 0 < value <= 86_400:
                raise ConfigError(f"remote.{field} is {value:g}: choose a time above 0 and up to 86400")
        if self.max_redirects < 0:
            raise ConfigError(f"remote.max_redirects is {self.max_redirects}: choose 0 or more")


@contextmanager
def opened(item: InputFile, config: RemoteConfig | None = None) -> Iterator[Path]:
    """Give the file of an input: itself, or a temporary one that a URL or stdin was stored in, removed afterwards.

    *Raises*: InputError for an input that has an error, cannot be fetched, or is larger than allowed.
    """
    if item.error is not None:
        raise InputError(item.error)
    if item.origin == "file":
        yield Path(item.path)
        return
    config = config or RemoteConfig()
    with tempfile.TemporaryDirectory(prefix="gravityocr-", ignore_cleanup_errors=True) as folder:
        yield fetch(item.path, config, folder) if item.origin == "url" else read_stdin(config, folder)


def read_stdin(config: RemoteConfig, folder: str | Path) -> Path:
    """Store all of stdin as a file in `folder`.

    *Raises*: InputError for a terminal, nothing, too much, or what is no document.
    """
    obstacle = stdin_obstacle()
    if obstacle:
        raise InputError(obstacle)
    path = Path(folder, "stdin")
    try:
        _store(_stdin_chunks(), path, config.max_bytes)
    except InputError as error:
        raise InputError(f"{STDIN_NAME}: {error}") from error
    sniff(path, STDIN_NAME)
    return path


def _stdin_chunks() -> Iterator[bytes]:
    stream = cast("IO[bytes]", getattr(sys.stdin, "buffer", sys.stdin))
    try:
        while chunk := stream.read(_CHUNK_BYTES):
            yield chunk
    except (OSError, ValueError) as error:  # closed while it is read
        raise InputError(f"cannot be read ({error}); hand a file") from error


def fetch(
    url: str,
    config: RemoteConfig,
    folder: str | Path,
    *,
    resolver: Resolver = resolve,
    ssl_context: ssl.SSLContext | None = None,
) -> Path:
    """Store the document that a URL leads to as a file in `folder`, and know it by its content.

    Every host on the way, redirects included, is resolved once, checked, and connected to at the checked address.
    Nothing is taken from the environment: no proxies, no .netrc.

    *Raises*: InputError naming the URL without its secrets, and the remedy.
    """
    name = source_name(url)
    if split_url(url) is None:
        raise InputError(f"{name}: is no URL of a document; write https://HOST/PATH")
    deadline = Deadline(config.timeout_s)
    backend = CheckedBackend(deadline, config.connect_timeout_s, config.allow_private, resolver)
    path = Path(folder, "document")
    try:
        with httpx.Client(
            transport=CheckedTransport(backend, ssl_context), trust_env=False, timeout=config.timeout_s
        ) as client:
            _fetch(client, url, path, config)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, UnicodeError) as error:
        raise InputError(f"{name}: {_trouble(error)}") from error
    except ssl.SSLError as error:
        raise InputError(f"{name}: no safe connection ({error.reason}); check the address") from error
    sniff(path, name)
    return path


def _fetch(client: httpx.Client, url: str, path: Path, config: RemoteConfig) -> None:
    """Follow redirects by hand: each is a new request that is checked like the first; logins stay with their host."""
    here = httpx.URL(url)
    first = _origin(here)
    auth = (here.username, here.password) if here.userinfo else None
    for _ in range(config.max_redirects + 1):
        headers = {
            "User-Agent": f"gravityocr/{__version__}",
            "Accept": "application/pdf, image/*;q=0.9, */*;q=0.5",
            "Accept-Encoding": "identity",  # documents are compressed already, and lengths are then what is stored
        }
        plain = here.copy_with(username=None, password=None, fragment=None)
        request = client.build_request("GET", plain, headers=headers)
        answer = client.send(request, stream=True, auth=auth if _origin(here) == first else None)
        try:
            target = answer.headers.get("Location")
            if answer.status_code not in _REDIRECTS or target is None:
                _take(answer, path, config.max_bytes)
                return
        finally:
            answer.close()
        here = _redirected(here, target)
    raise InputError(f"it leads on and on, more than {config.max_redirects} times; {_DOWNLOAD}")


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _redirected(here: httpx.URL, target: str) -> httpx.URL:
    try:
        if "\\" in target:  # some read it as "/"
            raise ValueError(target)
        there = here.join(target)
    except (httpx.InvalidURL, ValueError) as error:
        raise InputError(f"it leads on to an address that is none; {_DOWNLOAD}") from error
    if there.scheme not in ("http", "https") or not there.host:
        raise InputError(f"it leads on to a {there.scheme or 'nameless'} address, which is not fetched; {_DOWNLOAD}")
    return there


def _take(answer: httpx.Response, path: Path, max_bytes: int) -> None:
    if answer.status_code != HTTPStatus.OK:
        phrase = f"{answer.status_code} {answer.reason_phrase}".strip()
        known = _REMEDIES.get(answer.status_code)
        remedy = known or ("try again later" if answer.status_code >= 500 else _DOWNLOAD)
        raise InputError(f"the server answers {phrase}; {remedy}")
    told = answer.headers.get("Content-Length", "")
    if told.isascii() and told.isdigit() and int(told) > max_bytes:
        raise _too_large(max_bytes)
    _store(_unpacked(answer), path, max_bytes)


def _unpacked(answer: httpx.Response) -> Iterator[bytes]:
    """Give the document's bytes, a chunk at a time however small it was packed.

    Some servers pack what they were asked not to. *Raises*: InputError for a packing other than gzip and deflate,
    and for one that is broken or cut short.
    """
    packing = answer.headers.get("Content-Encoding", "").strip().lower()
    chunks = answer.iter_raw(_CHUNK_BYTES)
    if packing in ("", "identity"):
        yield from chunks
        return
    if packing not in _PACKINGS:
        raise InputError(f"the answer is packed in an unknown way ({packing[:20]!r}); {_DOWNLOAD}")
    unpacker = zlib.decompressobj(_PACKINGS[packing])
    try:
        for chunk in chunks:
            rest = chunk
            while rest and not unpacker.eof:
                yield unpacker.decompress(rest, _CHUNK_BYTES)
                rest = unpacker.unconsumed_tail
            if unpacker.eof:
                return
    except zlib.error as error:
        raise InputError(f"the answer cannot be unpacked ({packing}); {_DOWNLOAD}") from error
    raise InputError(f"the answer is cut short ({packing}); try again, or {_DOWNLOAD}")


def _store(chunks: Iterable[bytes], path: Path, max_bytes: int) -> None:
    """Write what comes as it comes.

    *Raises*: InputError, without a name, for too much, and where it cannot be written.
    """
    n_bytes = 0
    try:
        with open(path, "wb") as stream:
            for chunk in chunks:
                n_bytes += len(chunk)
                if n_bytes > max_bytes:
                    raise _too_large(max_bytes)
                stream.write(chunk)
    except OSError as error:
        where = os.fspath(path.parent)
        raise InputError(f"cannot be stored in {where} ({error.strerror}); free some space there") from error


def _too_large(max_bytes: int) -> InputError:
    return InputError(f"is larger than {max_bytes / 1e6:g} MB; split it, or raise remote.max_bytes")


def _trouble(error: Exception) -> str:
    """Say what failed without what httpx quotes of the address."""
    if isinstance(error, httpx.ConnectTimeout):
        return "the server does not answer in time; try again later"
    if isinstance(error, httpx.TimeoutException):
        return "the server stops answering; try again later"
    if isinstance(error, httpx.ConnectError):
        return f"no connection ({error}); check the address and the network"
    if isinstance(error, httpx.RemoteProtocolError):  # ours come as TransportError: this is httpx's own, of a Location
        return f"it leads on to an address that is none; {_DOWNLOAD}"
    if isinstance(error, (httpx.InvalidURL, UnicodeError)):
        return "is no address; write https://HOST/PATH"
    return f"the connection breaks off ({error}); try again, or {_DOWNLOAD}"
