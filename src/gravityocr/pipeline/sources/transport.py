"""HTTP for documents: connections to checked addresses only, and one time limit for all that is waited for."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

from gravityocr.errors import InputError
from gravityocr.pipeline.sources.addresses import Resolver, checked_addresses, resolve

_SocketOption = Any  # httpcore's tuples of three or four, handed on as they come


class Deadline:
    """A moment by which everything must be done, however slowly the other side drips."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def left_s(self, at_most: float | None = None) -> float:
        """Return the time that is left.

        *Raises*: InputError where there is none.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise InputError(f"it takes longer than {self._seconds:g} s; try again, or download it and hand the file")
        return left if at_most is None else min(left, at_most)


class CheckedBackend(httpcore.NetworkBackend):
    """Opens connections to addresses that were checked, under a deadline.

    Names are resolved here, once a connection, and the socket is connected to the address that was checked; host
    header and TLS stay with the name, since they are made from the URL.
    """

    def __init__(
        self, deadline: Deadline, connect_timeout_s: float, allow_private: bool, resolver: Resolver = resolve
    ) -> None:
        self._deadline = deadline
        self._connect_timeout_s = connect_timeout_s
        self._allow_private = allow_private
        self._resolver = resolver
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[_SocketOption] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first of a host's checked addresses that answers.

        *Raises*: InputError for a refused host; httpcore.ConnectError or ConnectTimeout where no address answers.
        """
        last: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in self._addresses(host, port):
            try:
                limit = self._deadline.left_s(self._connect_timeout_s)
                stream = self._sockets.connect_tcp(address, port, limit, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last = error
                continue
            return _TimedStream(stream, self._deadline)
        raise last

    def sleep(self, seconds: float) -> None:
        """Wait, but not beyond the deadline."""
        time.sleep(self._deadline.left_s(seconds))

    def _addresses(self, host: str, port: int) -> list[str]:
        """Resolve in a thread of its own: the system's resolver takes no time limit."""
        answer: list[list[str] | InputError] = []

        def ask() -> None:
            try:
                answer.append(checked_addresses(host, port, self._resolver, self._allow_private))
            except InputError as error:
                answer.append(error)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(self._deadline.left_s(self._connect_timeout_s))
        if not answer:
            raise httpcore.ConnectTimeout(f"the name {host} is not resolved in time")
        if isinstance(answer[0], InputError):
            raise answer[0]
        return answer[0]


class _TimedStream(httpcore.NetworkStream):
    """A connection on which no wait goes beyond the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left_s(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left_s(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, self._deadline.left_s(timeout))
        return _TimedStream(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class CheckedTransport(httpx.BaseTransport):
    """httpx's transport over a `CheckedBackend`: HTTP/1.1, no proxies, certificates verified."""

    def __init__(self, backend: CheckedBackend, ssl_context: ssl.SSLContext | None = None) -> None:
        context = ssl_context or httpx.create_ssl_context(trust_env=False)
        self._pool = httpcore.ConnectionPool(ssl_context=context, max_connections=1, network_backend=backend)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and return its answer, whose body is still to be read."""
        url = request.url
        target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        asked = httpcore.Request(
            request.method, target, headers=request.headers.raw, content=request.read(), extensions=request.extensions
        )
        with _as_httpx():
            answer = self._pool.handle_request(asked)
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer), extensions=answer.extensions, request=request
        )

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        with _as_httpx():
            yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


@contextmanager
def _as_httpx() -> Iterator[None]:
    """httpx promises its own errors, whichever library's sockets lie below."""
    try:
        yield
    except httpcore.ConnectTimeout as error:
        raise httpx.ConnectTimeout(str(error)) from error
    except httpcore.TimeoutException as error:
        raise httpx.ReadTimeout(str(error)) from error
    except httpcore.ConnectError as error:
        raise httpx.ConnectError(str(error)) from error
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError) as error:
        raise httpx.TransportError(str(error)) from error
    except httpcore.UnsupportedProtocol as error:
        raise httpx.UnsupportedProtocol(str(error)) from error
