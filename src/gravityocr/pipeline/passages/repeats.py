"""Stretches of a text that repeat themselves, found for all lengths of a round at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEAST_ROUNDS = 10
"""Rounds that make a stretch."""

_SHORT_UNIT = 16  # lengths of a round up to here are looked at one by one
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_SHIFT = np.uint64(29)


@dataclass(frozen=True, order=True)
class Stretch:
    """A longest stretch with the period `unit`, which it holds at least ten times. *Units*: characters."""

    start: int
    unit: int
    length: int


def codes_of(text: str) -> np.ndarray:
    """Return a text's code points. *Shapes*: (n_characters,)."""
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)


def stretches(codes: np.ndarray, longest_unit: int, least_covered: int) -> list[Stretch]:
    """Return every stretch with a shortest period of up to `longest_unit`, by its start.

    Takes about n log n steps: pieces of a power of two characters are told apart by a hash of the two halves', and a
    stretch is where a piece no shorter than its period comes again at the same distance, position after position.
    Every one is compared character by character before it is returned. Periods of up to 16 are tried one by one, so
    that those may come again as multiples of themselves.
    """
    longest_unit = min(longest_unit, len(codes) // LEAST_ROUNDS)
    found = [
        one for unit in range(1, min(longest_unit, _SHORT_UNIT) + 1) for one in _of_unit(codes, unit, least_covered)
    ]  # fmt: skip
    size, hashes = 1, codes.astype(np.uint64)
    active: np.ndarray | None = None
    while size < longest_unit:
        hashes = _doubled(hashes, size)
        size *= 2
        if size < _SHORT_UNIT:
            continue
        places, distances, active = _recurrences(hashes, active, longest_unit)
        if len(places) == 0:
            break
        if size > _SHORT_UNIT:
            found += _of_size(codes, places, distances, size, least_covered)
    return sorted(found)


def _of_unit(codes: np.ndarray, unit: int, least_covered: int) -> list[Stretch]:
    same = np.concatenate(([False], codes[unit:] == codes[:-unit], [False])).astype(np.int8)
    edges = np.flatnonzero(np.diff(same))
    starts, lengths = edges[::2], edges[1::2] - edges[::2] + unit
    long = lengths >= max(LEAST_ROUNDS * unit, least_covered)
    return [Stretch(int(start), unit, int(n)) for start, n in zip(starts[long], lengths[long], strict=True)]


def _doubled(hashes: np.ndarray, size: int) -> np.ndarray:
    """Return the hashes of pieces twice as long; mixed so that no text makes many of them equal."""
    if len(hashes) <= size:
        return hashes[:0]
    mixed: np.ndarray = hashes[:-size] * _MIX[0] + hashes[size:] * _MIX[1]
    mixed ^= mixed >> _SHIFT
    mixed *= _MIX[1]
    return mixed ^ (mixed >> _SHIFT)


def _recurrences(
    hashes: np.ndarray, active: np.ndarray | None, farthest: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where a piece comes again, how far away, and all places of such pieces: longer ones are only there."""
    places = np.arange(len(hashes)) if active is None else active[active < len(hashes)]
    own = hashes[places]
    order = np.argsort(own, kind="stable")
    own, places = own[order], places[order]
    distances = places[1:] - places[:-1]
    near = (own[1:] == own[:-1]) & (distances <= farthest)
    starts, distances = places[:-1][near], distances[near]
    by_place = np.argsort(starts, kind="stable")
    return starts[by_place], distances[by_place], np.unique(np.concatenate((starts, places[1:][near])))


def _of_size(
    codes: np.ndarray, places: np.ndarray, distances: np.ndarray, size: int, least_covered: int
) -> list[Stretch]:
    """Return stretches with a period over half of `size` and up to it."""
    fits = (distances <= size) & (distances > size // 2)
    places, distances = places[fits], distances[fits]
    if len(places) == 0:
        return []
    breaks = np.flatnonzero((np.diff(places) != 1) | (np.diff(distances) != 0)) + 1
    firsts = np.concatenate(([0], breaks))
    lasts = np.concatenate((breaks - 1, [len(places) - 1]))
    found: list[Stretch] = []
    lengths = places[lasts] - places[firsts] + size + distances[firsts]
    long = lengths >= np.maximum(LEAST_ROUNDS * distances[firsts], least_covered)
    for first, length in zip(firsts[long], lengths[long], strict=True):
        start, unit, end = int(places[first]), int(distances[first]), int(places[first] + length)
        if np.array_equal(codes[start : end - unit], codes[start + unit : end]):
            found.append(Stretch(start, unit, end - start))
    return found
