"""The recognizer that reads through OpenAI-compatible servers instead of a network in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, TypeVar

from gravityocr.document import Crop, Recognition
from gravityocr.errors import GravityOCRError
from gravityocr.image_size import n_image_tokens
from gravityocr.pipeline.server.client import ServerClient
from gravityocr.pipeline.server.config import ServerConfig, read_api_key, server_urls
from gravityocr.pipeline.server.reply import sent_size

__all__ = ["ServerClosedError", "ServerConfig", "ServerRecognizer", "read_api_key", "server_urls"]

T = TypeVar("T")
_JOIN_S = 5.0


class ServerClosedError(GravityOCRError):
    """The recognizer was closed before all regions were read."""


class ServerRecognizer:
    """Read crops through one or more servers, which share the work; use it as a context, or close it.

    Requests run in a thread of its own, `config.n_parallel` at a time however many threads call `recognize`. Each crop
    fails by itself. `close`, or an interrupt of the waiting thread, cancels what is on its way at once.
    """

    def __init__(self, urls: str | Sequence[str], config: ServerConfig | None = None) -> None:
        """Check the addresses; nothing is sent yet.

        *Raises*: ConfigError for an address that no server can have.
        """
        self._config = config or ServerConfig()
        self.urls = server_urls(urls)
        self._guard = threading.Lock()  # of all below
        self._worker: _LoopThread | None = None
        self._waiting: set[Future[Any]] = set()
        self._closed = False

    @property
    def tasks(self) -> frozenset[str]:
        """Return the tasks that the served model is asked for."""
        return frozenset(self._config.tasks)

    def n_image_tokens(self, crop: Crop) -> int:
        """Return how many image tokens a server makes of a crop, before it is encoded."""
        rule = self._config.size
        return n_image_tokens(*sent_size(crop.image.height, crop.image.width, rule), rule)

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        """Return one recognition per crop, in order; a crop that no server reads gets status `failed` with the reason.

        Several threads may call at a time.

        *Raises*: ServerClosedError where it is, or meanwhile was, closed.
        """
        return self._run(lambda client: client.read_all(list(crops)))

    def check(self) -> dict[str, tuple[str, ...]]:
        """Ask every server which models it serves, so that a wrong address is found before the work begins.

        Returns, for each server that answers, its models, none where it does not tell.

        *Raises*: InputError where no server answers; ConfigError where none takes the key, or serves the model.
        """
        return self._run(lambda client: client.check())

    def close(self) -> None:
        """Cancel outstanding requests and end the thread; closing twice is no fault."""
        with self._guard:
            self._closed = True
            waiting, worker, self._worker = list(self._waiting), self._worker, None
        for future in waiting:
            future.cancel()
        if worker is not None:
            worker.end()

    def __enter__(self) -> ServerRecognizer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, work: Callable[[ServerClient], Coroutine[Any, Any, T]]) -> T:
        with self._guard:
            if self._closed:
                raise ServerClosedError("the servers' client is closed; make a new one")
            if self._worker is None:
                self._worker = _LoopThread(ServerClient(self.urls, self._config))
            future = self._worker.submit(work)
            self._waiting.add(future)
        try:
            return future.result()
        except CancelledError as error:
            raise ServerClosedError("the servers' client was closed before all regions were read") from error
        finally:
            future.cancel()  # where the wait was interrupted
            with self._guard:
                self._waiting.discard(future)


class _LoopThread:
    """The thread whose event loop holds all requests."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="gravityocr-servers", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[ServerClient], Coroutine[Any, Any, T]]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work(self._client), self._loop)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_JOIN_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._wind_up())
        finally:
            self._loop.close()

    async def _wind_up(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.aclose()
