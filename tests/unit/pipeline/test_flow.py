"""Stages in threads: bounded, in order, ended by either side, and what fails is raised where it is waited for."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Generator
from contextlib import closing

import pytest

from gravityocr.pipeline.flow import ahead, in_order


def counting(n: int, made: list[int], ended: threading.Event | None = None) -> Generator[int, None, None]:
    try:
        for number in range(n):
            made.append(number)
            yield number
    finally:
        if ended is not None:
            ended.set()


def settled(made: list[int]) -> int:
    """Wait until a thread has done what it can, and tell how far it came."""
    count = -1
    while count != len(made):
        count = len(made)
        time.sleep(0.1)
    return count


def test_none_ahead_works_in_the_callers_thread() -> None:
    threads: list[threading.Thread] = []

    def items() -> Generator[int, None, None]:
        threads.append(threading.current_thread())
        yield 1

    assert list(ahead(items(), 0)) == [1] and threads == [threading.current_thread()]
    assert list(ahead(items(), 2)) == [1] and threads[1] is not threading.current_thread()


@pytest.mark.parametrize("n_ahead", [1, 3])
def test_work_ahead_is_bounded(n_ahead: int) -> None:
    made: list[int] = []
    stage = ahead(counting(20, made), n_ahead)
    with closing(stage):
        assert made == []  # nothing is begun before it is asked for
        assert next(stage) == 0
        # one is taken, so many wait, and one more is made and waits for room
        assert settled(made) == 1 + n_ahead + 1
        assert next(stage) == 1
        assert settled(made) == 2 + n_ahead + 1
        assert list(stage) == list(range(2, 20))


def test_closing_ends_the_thread_and_closes_what_it_went_through() -> None:
    made, ended = list[int](), threading.Event()
    stage = ahead(ahead(counting(1000, made, ended), 2, "inner-stage"), 2, "outer-stage")
    assert next(stage) == 0
    stage.close()
    assert ended.wait(2) and settled(made) < 10
    assert not [thread.name for thread in threading.enumerate() if thread.name.endswith("-stage")]


def test_failures_come_behind_what_was_made_before_them(capsys: pytest.CaptureFixture[str]) -> None:
    def breaks() -> Generator[int, None, None]:
        yield 1
        yield 2
        raise KeyError("three")

    got: list[int] = []
    with pytest.raises(KeyError, match="three"):
        for number in ahead(ahead(breaks(), 4), 1):
            got.append(number)
    assert got == [1, 2] and capsys.readouterr().err == ""


@pytest.mark.parametrize("n_parallel", [1, 4])
def test_results_keep_the_order_of_what_they_were_made_of(n_parallel: int) -> None:
    waits = random.Random(7)
    seconds = [waits.random() * 0.02 for _ in range(30)]

    def work(number: int) -> int:
        time.sleep(seconds[number])
        return number * number

    assert list(in_order(work, counting(30, []), n_parallel)) == [n * n for n in range(30)]


def test_one_at_a_time_is_done_by_who_asks() -> None:
    assert list(in_order(lambda _: threading.get_ident(), counting(2, []), 1)) == [threading.get_ident()] * 2


def test_many_are_at_work_at_once_and_no_more_than_allowed() -> None:
    at_work, most, guard = [0], [0], threading.Lock()

    def work(number: int) -> int:
        with guard:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        time.sleep(0.01)
        with guard:
            at_work[0] -= 1
        return number

    assert list(in_order(work, counting(40, []), 4)) == list(range(40))
    assert most == [4]


def test_a_slow_first_one_holds_the_others_within_bounds() -> None:
    made: list[int] = []
    go = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            go.wait(5)
        return number

    results = in_order(work, counting(100, made), 2, n_waiting=3)
    threading.Timer(0.3, lambda: (made.append(-1), go.set())).start()
    assert next(results) == 0
    assert made.index(-1) == 2 + 3
    assert list(results) == list(range(1, 100))


def test_what_the_function_raises_ends_it_and_closes_the_items() -> None:
    ended = threading.Event()

    def work(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    with pytest.raises(ValueError, match="three"):
        list(in_order(work, counting(100, [], ended), 2))
    assert ended.is_set()
