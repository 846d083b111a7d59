"""Stop a run at the end of a step, not in the middle of one, so that nothing that was trained is lost."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Note SIGINT and SIGTERM within a `with` block; a second one acts at once, as it does outside."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        # Only the main thread may set handlers; elsewhere the program that started the run stops it its own way.
        if threading.current_thread() is threading.main_thread():
            self._before = {one: signal.signal(one, self._note) for one in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def obey(self) -> None:
        """Do what the noted signal does outside of the block: interrupt, or end the process."""
        if self.signum is not None:
            signal.raise_signal(self.signum)

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        self._restore()
        self.signum = signum

    def _restore(self) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)
        self._before = {}
