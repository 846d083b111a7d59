"""Which of several servers is asked next, and which are left alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gravityocr.pipeline.server.config import ServerConfig
from gravityocr.pipeline.server.reply import ServerFaultError

_ASIDE_AFTER = 3  # faults in a row: fewer may be a region's own
_LONGEST_ASIDE_S = 30.0
_POLL_S = 0.25  # how often one looks whether another's probe brought a server back


@dataclass
class Server:
    """What is known of one server.

    *Units*: `free_at_s` and `ill_since_s` are times of the clock; `ill_since_s` is None while it answers well.
    """

    url: str
    model: str | None
    n_open: int = 0
    n_asked: int = 0
    n_in_row: int = 0  # faults since it last did well
    n_probes: int = 0  # failed since it was set aside
    is_aside: bool = False
    is_probed: bool = False
    is_unfit: bool = False
    has_served: bool = False
    free_at_s: float = 0.0
    ill_since_s: float | None = None


@dataclass(frozen=True)
class Turn:
    """One request to a server; nobody else asks while a probe is out."""

    server: Server
    is_probe: bool


class ServerTurns:
    """Hand out the least busy server that is well; of equals, the one that was asked least.

    A server is set aside when it cannot be connected to or fails some times in a row, then probed with one request at a
    time, at growing distances. While it asks to be left alone, it is. One that refuses its key, address or model before
    it has served anything is asked only where no other is left.
    """

    def __init__(
        self, urls: tuple[str, ...], config: ServerConfig, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config, self._clock = config, clock
        self.servers = tuple(Server(url, config.model) for url in urls)

    def take(self, but: Server | None = None) -> Turn | float:
        """Return a turn now, or the seconds until there may be one; `but` is asked only where no other is free."""
        now = self._clock()
        candidates = [server for server in self.servers if not server.is_unfit] or list(self.servers)
        hopeless = self.all_given_up()
        free = [one for one in candidates if hopeless or (one.free_at_s <= now and not one.is_probed)]
        if not free:
            return min(_POLL_S if one.is_probed else max(one.free_at_s - now, 0.001) for one in candidates)
        server = min(free, key=lambda one: (one is but, one.n_open, one.n_asked))
        is_probe = server.is_aside and not server.is_probed
        server.is_probed |= is_probe
        server.n_open += 1
        server.n_asked += 1
        return Turn(server, is_probe)

    def give_back(self, turn: Turn) -> None:
        """Note that a request is over, however it ended."""
        turn.server.n_open -= 1
        if turn.is_probe:
            turn.server.is_probed = False

    def answered(self, turn: Turn) -> None:
        """Note that a server did what it should."""
        server = turn.server
        server.has_served, server.is_unfit = True, False
        self._is_well(server)

    def failed(self, turn: Turn, fault: ServerFaultError) -> None:
        """Note that a server did not."""
        server, now = turn.server, self._clock()
        if not fault.repeat:
            server.is_unfit |= fault.unfit and not server.has_served
            self._is_well(server)  # it answers, and refused this region
            return
        server.ill_since_s = now if server.ill_since_s is None else server.ill_since_s
        if not fault.busy:
            server.n_in_row += 1
        sets_aside = not fault.busy and (server.n_in_row >= _ASIDE_AFTER or not fault.reached)
        if turn.is_probe or (sets_aside and not server.is_aside):
            server.n_probes = server.n_probes + 1 if turn.is_probe else 0
            server.is_aside = True
            pause_s = min(self._config.backoff_s * 2.0 ** min(server.n_probes, 10), _LONGEST_ASIDE_S)
            server.free_at_s = max(server.free_at_s, now + pause_s)
        server.free_at_s = max(server.free_at_s, now + (fault.wait_s or 0.0))

    @staticmethod
    def _is_well(server: Server) -> None:
        server.n_in_row, server.n_probes, server.is_aside = 0, 0, False
        server.free_at_s, server.ill_since_s = 0.0, None

    def all_given_up(self) -> bool:
        """Tell whether no server has answered well for so long that each region gets one try only."""
        now, fit = self._clock(), [server for server in self.servers if not server.is_unfit]
        ill_s = [now - server.ill_since_s for server in fit if server.ill_since_s is not None]
        return bool(fit) and len(ill_s) == len(fit) and min(ill_s) > self._config.give_up_s
