"""Stretches that repeat: the same as trying every period, and in a time that grows with the text."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from gravityocr.pipeline.passages.loops import cut_like_sdk, cut_loops
from gravityocr.pipeline.passages.repeats import Stretch, codes_of, stretches


def by_trial(text: str, longest: int, least: int) -> set[tuple[int, int]]:
    """Start and end of every stretch, one period after another."""
    codes = codes_of(text)
    found = set()
    for unit in range(1, min(longest, len(codes) // 10) + 1):
        same = np.concatenate(([False], codes[unit:] == codes[:-unit], [False])).astype(np.int8)
        edges = np.flatnonzero(np.diff(same))
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            if end - start + unit >= max(10 * unit, least):
                found.add((int(start), int(end) + unit))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_every_stretch_is_found(seed: int) -> None:
    chance = random.Random(seed)
    parts = []
    for _ in range(4):
        parts.append("".join(chance.choices("abcde ", k=chance.randint(0, 80))))
        period = chance.choice([1, 2, 9, 15, 16, 17, 31, 32, 33, 63, 65])
        parts.append("".join(chance.choices("ab", k=period)) * chance.randint(8, 30))
    text = "".join(parts)
    assert {(one.start, one.start + one.length) for one in stretches(codes_of(text), 4000, 100)} == by_trial(
        text, 4000, 100
    )


def test_nothing_repeats() -> None:
    assert stretches(codes_of(""), 10, 1) == stretches(codes_of("abc"), 10, 1) == []
    assert stretches(codes_of("x" * 50), 10, 1)[0] == Stretch(0, 1, 50)


@pytest.mark.parametrize("cut", [cut_loops, cut_like_sdk])
def test_half_a_million_random_words_take_seconds_at_most(cut: object) -> None:
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghij", k=chance.randint(2, 9))) for _ in range(3000)]
    text = " ".join(chance.choices(words, k=80_000))
    started = time.perf_counter()
    cut(text)  # type: ignore[operator]
    assert time.perf_counter() - started < 4  # one period after another: 5 and 150 s


def test_many_loops_are_cut_in_one_pass() -> None:
    text = "".join(f"Loop {n} says " + f"so {n} again. " * 60 for n in range(100))
    started = time.perf_counter()
    cut, was_cut = cut_loops(text)
    assert was_cut and time.perf_counter() - started < 3
    assert all(f"Loop {n} says" in cut for n in range(100)) and len(cut) < 6000


def test_a_long_loop_before_a_short_one_is_cut_too() -> None:
    cut, _ = cut_loops("A line of some length that comes again and again.\n" * 40 + "and now " + "no " * 300 + "end")
    assert len(cut) < 130 and cut.endswith("end")
