"""The conversation with the servers: one request after the other until a region is read, all in one event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from gravityocr.document import Crop, Recognition
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.server.config import ServerConfig
from gravityocr.pipeline.server.reply import (
    Answer,
    ServerFaultError,
    one_line,
    read_models,
    read_recognition,
    request_body,
)
from gravityocr.pipeline.server.turns import Server, ServerTurns

_MODELS_TIMEOUT_S = 30.0
_TELLS_NOTHING = frozenset({404, 405})  # a server without a list of models


@dataclass
class _Tries:
    """What one region has gone through so far.

    *Units*: `left_s` of the region's time; waiting for its turn among other regions costs none.
    """

    left_s: float
    n_sent: int = 0
    n_faults: int = 0  # those that count
    last: Server | None = None
    told: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)


class ServerClient:
    """Ask servers for regions, `config.n_parallel` requests at a time; everything runs in one event loop."""

    def __init__(self, urls: tuple[str, ...], config: ServerConfig) -> None:
        import httpx

        self._config = config
        self._turns = ServerTurns(urls, config)
        self._places = asyncio.Semaphore(config.n_parallel)
        self._models: dict[str, asyncio.Task[tuple[str, ...]]] = {}
        limits = httpx.Limits(max_connections=config.n_parallel + len(urls))
        timeout = httpx.Timeout(config.timeout_s, connect=config.connect_timeout_s)
        # Servers in private networks are the normal case. No proxy of the environment and no redirect takes a page
        # where the user did not send it.
        self._http = httpx.AsyncClient(
            headers=config.headers(), limits=limits, timeout=timeout, trust_env=False, follow_redirects=False
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def read_all(self, crops: Sequence[Crop]) -> list[Recognition]:
        """Return one recognition per crop, in order."""
        async with asyncio.TaskGroup() as group:
            reading = [group.create_task(self.read(crop)) for crop in crops]
        return [task.result() for task in reading]

    async def read(self, crop: Crop) -> Recognition:
        """Ask until a server has read the crop, refuses it for good, or patience ends."""
        if crop.task not in self._config.tasks:
            claimed = ", ".join(self._config.tasks)
            return _failed(f"the servers are not asked for {crop.task}s (tasks: {claimed})")
        tries = _Tries(self._config.region_timeout_s)
        while True:
            async with self._places:
                outcome = await self._timed_try(crop, tries)
            if isinstance(outcome, Recognition):
                return outcome
            if outcome >= tries.left_s:
                return self._late(tries)
            tries.left_s -= outcome
            await asyncio.sleep(outcome)

    async def _timed_try(self, crop: Crop, tries: _Tries) -> Recognition | float:
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            async with asyncio.timeout(tries.left_s):
                return await self._try(crop, tries)
        except TimeoutError:
            return self._late(tries)
        except InputError as error:
            return _failed(str(error))
        finally:
            tries.left_s -= clock() - started

    async def _try(self, crop: Crop, tries: _Tries) -> Recognition | float:
        """Return what one request gave, or the seconds to wait before the next one."""
        turn = self._turns.take(tries.last)
        if isinstance(turn, float):
            return turn
        server = tries.last = turn.server
        tries.n_sent += 1
        try:
            model = await self._model(server)
            if model not in tries.bodies:  # encoding takes a moment that other requests should not wait for
                tries.bodies[model] = await asyncio.to_thread(request_body, crop, model, self._config)
            answer = await self._send(server, "chat/completions", self._config.timeout_s, tries.bodies[model])
            found = read_recognition(answer, self._config)
        except ServerFaultError as fault:
            self._turns.failed(turn, fault)
            return self._after(server, fault, tries)
        finally:
            self._turns.give_back(turn)
        self._turns.answered(turn)
        return found

    def _after(self, server: Server, fault: ServerFaultError, tries: _Tries) -> Recognition | float:
        """Return the seconds to wait after a fault, or the failure where no try is left."""
        tries.told = f"{server.url}: {fault}"
        if not fault.repeat:
            another = server.is_unfit and not all(other.is_unfit for other in self._turns.servers)
            return 0.0 if another else _failed(_summary(tries))
        given_up = self._turns.all_given_up()
        tries.n_faults += not fault.busy
        if given_up or tries.n_faults > self._config.n_retries:
            return _failed(_summary(tries))
        longest_s = min(self._config.backoff_s * 2.0 ** min(tries.n_sent - 1, 30), self._config.max_backoff_s)
        return max(longest_s * random.uniform(0.5, 1.0), fault.wait_s or 0.0)

    def _late(self, tries: _Tries) -> Recognition:
        return _failed(f"not read within {self._config.region_timeout_s:g} s; {_summary(tries)}")

    async def _send(self, server: Server, path: str, timeout_s: float, body: bytes | None = None) -> Answer:
        """Send one request and read its answer.

        *Raises*: ServerFaultError where there is none in time, or a longer one than is read.
        """
        import httpx

        config, received = self._config, bytearray()
        method, url = ("GET" if body is None else "POST"), f"{server.url}/{path}"
        try:
            async with (
                asyncio.timeout(timeout_s),  # of the whole answer: one that trickles in never ends else
                self._http.stream(method, url, content=body) as reply,
            ):
                async for chunk in reply.aiter_raw():  # as it comes: a packed one could unfold to any size
                    received += chunk
                    if len(received) > config.max_reply_bytes:
                        told = f"its answer is longer than {config.max_reply_bytes} bytes"
                        raise ServerFaultError(told, repeat=False)
                return Answer(reply.status_code, dict(reply.headers), bytes(received))
        except (httpx.ConnectTimeout, httpx.ConnectError) as error:
            told = one_line(str(error)) or f"no answer within {config.connect_timeout_s:g} s"
            raise ServerFaultError(f"cannot be connected to ({told}); is it running?", reached=False) from error
        except (TimeoutError, httpx.TimeoutException) as error:
            raise ServerFaultError(f"no answer within {timeout_s:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            told = one_line(f"{type(error).__name__}: {error}")
            raise ServerFaultError(f"the connection broke ({told})") from error

    async def _listed(self, server: Server) -> tuple[str, ...]:
        """Return the models that a server lists; regions that ask at a time share one request."""
        asking = self._models.get(server.url)
        if asking is None or (asking.done() and (asking.cancelled() or asking.exception() is not None)):
            asking = self._models[server.url] = asyncio.create_task(self._ask_models(server))
            asking.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may be left to hear it
        return await asyncio.shield(asking)

    async def _ask_models(self, server: Server) -> tuple[str, ...]:
        timeout_s = min(_MODELS_TIMEOUT_S, self._config.timeout_s)
        return read_models(await self._send(server, "models", timeout_s), self._config)

    async def _model(self, server: Server) -> str:
        """Return the model to ask a server for.

        *Raises*: ServerFaultError where it does not tell, or tells of several.
        """
        if server.model is None:
            names = await self._listed(server)
            if len(names) > 1:
                told = f"it serves several models ({one_line(', '.join(names))}); name one: --server-model"
                raise ServerFaultError(told, repeat=False, unfit=True)
            server.model = names[0]
        return server.model

    async def check(self) -> dict[str, tuple[str, ...]]:
        """Return which models each server that answers lists, none for one that does not tell.

        *Raises*: InputError where no server answers; ConfigError where none takes the key, or serves the model.
        """
        servers = self._turns.servers
        told = await asyncio.gather(*(self._checked(server) for server in servers))
        found = {server.url: names for server, names in zip(servers, told, strict=True) if isinstance(names, tuple)}
        faults = [fault for fault in told if isinstance(fault, ServerFaultError)]
        if not found:
            said = "; ".join(f"{server.url}: {fault}" for server, fault in zip(servers, faults, strict=True))
            kind = ConfigError if all(fault.unfit for fault in faults) else InputError
            raise kind(f"no server of --server can be asked: {said}")
        wanted = self._config.model
        if wanted is not None and all(names and wanted not in names for names in found.values()):
            served = dict.fromkeys(name for names in found.values() for name in names)
            raise ConfigError(f"no server serves the model {wanted!r}; choose one of {one_line(', '.join(served))}")
        return found

    async def _checked(self, server: Server) -> tuple[str, ...] | ServerFaultError:
        try:
            if self._config.model is None:
                await self._model(server)
            return await self._listed(server)
        except ServerFaultError as fault:
            # who serves without telling what is asked for the model that is named
            return () if fault.code in _TELLS_NOTHING and self._config.model is not None else fault


def _failed(error: str) -> Recognition:
    return Recognition("", "failed", error)


def _summary(tries: _Tries) -> str:
    counted = f"after {tries.n_sent} {'try' if tries.n_sent == 1 else 'tries'}"
    return f"{tries.told} ({counted})" if tries.told else f"no server answered ({counted})"
