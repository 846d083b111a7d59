"""Stages side by side: an iterator that is worked ahead in a thread of its own, a function mapped over one in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_JOIN_S = 2.0  # a stage that is stopped ends with the page that it has; what takes longer ends with the process


class _Channel(Generic[T]):
    """A bounded queue between two threads that either side can end."""

    def __init__(self, n_items: int) -> None:
        self._n_items = n_items
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._finished = self._closed = False
        self._failure: BaseException | None = None

    def put(self, item: T) -> bool:
        """Wait for room; False where nobody will take the item any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._n_items)
            if self._closed:
                return False
            self._items.append(item)
            self._changed.notify_all()
            return True

    def __enter__(self) -> _Channel[T]:
        return self

    def __exit__(self, _kind: object, failure: BaseException | None, _trace: object) -> bool:
        """End the giver's side: no more comes, and what went wrong there is raised at the taker's."""
        with self._changed:
            self._finished, self._failure = True, failure
            self._changed.notify_all()
        return True

    def close(self) -> None:
        """Tell the giver that nobody takes any more."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    def take(self) -> Iterator[T]:
        """Yield items as they come, then raise what the giver failed with."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._items) or self._finished)
                if not self._items:
                    if self._failure is not None:
                        raise self._failure
                    return
                item = self._items.popleft()
                self._changed.notify_all()
            yield item
            del item  # it is not kept alive while the next one is waited for


def ahead(items: Generator[T, None, None], n_ahead: int, name: str = "stage") -> Generator[T, None, None]:
    """Yield what `items` yields, worked ahead in a thread by at most `n_ahead` items; 0 works in the caller's thread.

    The thread starts with the first item asked for. It alone touches `items`, and closes it at the end, which comes
    early where this generator is closed. What `items` raises is raised here.
    """
    if n_ahead < 1:
        yield from items
        return
    channel: _Channel[T] = _Channel(n_ahead)

    def work() -> None:
        with channel, closing(items):
            for item in items:
                if not channel.put(item):
                    break
                del item

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield from channel.take()
    finally:
        channel.close()
        thread.join(_JOIN_S)


def in_order(
    function: Callable[[T], R], items: Generator[T, None, None], n_parallel: int, n_waiting: int = 4
) -> Generator[R, None, None]:
    """Yield `function` of each item in the items' order, up to `n_parallel` at work at once.

    With 1, it runs in the caller's thread. Beyond those at work, `n_waiting` may be done, or wait for their turn:
    the bound of what is alive at once.
    """
    if n_parallel <= 1:
        for item in items:
            result = function(item)
            del item
            yield result
            del result
        return
    pool = ThreadPoolExecutor(n_parallel, thread_name_prefix="read")
    pending: deque[Future[R]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            del item
            while pending and (pending[0].done() or len(pending) >= n_parallel + n_waiting):
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
        pool.shutdown()
    finally:
        items.close()
        pool.shutdown(wait=False, cancel_futures=True)
